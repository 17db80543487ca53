// A server that commands ask instead of a store: --server or ATTNDB_URL, with ATTNDB_KEY's key.
//
//   ATTNDB_ASSIGN_OR_RETURN(const auto client, ServerClient::Connect(env));
//   ATTNDB_ASSIGN_OR_RETURN(const Json contexts, client.Ask("GET", kContextsPath));
//
// Trust:   as Client; JSON is parsed within ParseJson's limits, and error texts have no control
//          characters.
// Errors:  those of the server, with its own code and words; kIoError (no server, no JSON);
//          kCancelled (interrupted).
// Threads: one thread at a time.
#ifndef ATTNDB_CLI_CLIENT_SERVER_CLIENT_H_
#define ATTNDB_CLI_CLIENT_SERVER_CLIENT_H_

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "attndb/result.h"
#include "cli/common/progress.h"
#include "cli/environment.h"
#include "server/http/client.h"

namespace attndb::cli {

inline constexpr std::string_view kContextsPath = "/attndb/v1/contexts";
inline constexpr std::string_view kTextPath = "/attndb/v1/text";
inline constexpr std::string_view kVerifyPath = "/attndb/v1/verify";
inline constexpr std::string_view kCompactPath = "/attndb/v1/compact";
inline constexpr std::string_view kBuildPath = "/attndb/v1/build";
inline constexpr std::string_view kQuotaPath = "/attndb/v1/quota";
inline constexpr std::string_view kFindPath = "/attndb/v1/find";
inline constexpr std::string_view kExplainPath = "/attndb/v1/explain";

// "/attndb/v1/contexts/NAME".
std::string ContextPath(const std::string& context);

// `text` without control characters, which a terminal would obey.
std::string Printable(std::string_view text);

// The status of an answer that is not a 200. `body`: the received bytes, JSON or not.
Status StatusOfAnswer(int http_status, std::string_view body);

class ServerClient {
 public:
  // Asks nothing yet. Errors: kInvalidArgument (URL; key; --db or --tenant).
  static Result<ServerClient> Connect(Environment* env);

  // One request, and the JSON of its answer. `body`: null = none.
  Result<Json> Ask(const std::string& method, const std::string& path,
                   const Json& body = nullptr) const;

  using Headers = std::map<std::string, std::string>;  // Names in lower case.
  // Posts `body`, and hands over the JSON of each event of the answer up to [DONE]. An error of
  // `on_event` ends the request and is its answer; so is an event that is an error of the server.
  Result<Headers> Stream(const std::string& path, const Json& body,
                         const std::function<Status(const Json&)>& on_event) const;
  // The same for events {"done", "total"}, which `progress` shows, until the last one, which is the
  // answer. Clears the line.
  Result<Json> StreamProgress(const std::string& path, const Json& body,
                              ProgressLine* progress) const;

 private:
  ServerClient(Environment* env, std::unique_ptr<server::Client> client)
      : env_(env), client_(std::move(client)) {}
  // These two add advice: to an error of the server, and if no server answers.
  Status WithAdvice(int http_status, Status status) const;
  Status Unreached(Status status) const;

  Environment* env_;
  std::unique_ptr<server::Client> client_;
};

}  // namespace attndb::cli

#endif  // ATTNDB_CLI_CLIENT_SERVER_CLIENT_H_
