// Commands that a server executes if it has the store. Each prints the output of its command. A
// build without the server client has versions that say so (no_client.cc).
//
// Errors:  those of the server; kInvalidArgument (a flag that only the server itself can set);
//          kIoError; kCancelled.
// Threads: one thread at a time.
#ifndef ATTNDB_CLI_CLIENT_SERVER_COMMANDS_H_
#define ATTNDB_CLI_CLIENT_SERVER_COMMANDS_H_

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "attndb/find.h"
#include "attndb/result.h"
#include "cli/environment.h"

namespace attndb::cli {

// A text that becomes the context `name`, or is appended to it.
struct ServerImport {
  std::string name;
  std::string text;
  std::string system;
  bool raw = false;
  bool replace = false;
  bool pin = false;
  std::optional<std::chrono::seconds> ttl;
  bool append = false;
  bool dry_run = false;
};
// REQUIRES: an InterruptScope, for signals.
Result<ExitCode> ImportThroughServer(Environment* env, const ServerImport& asked);

// The text of a context.
Result<ExitCode> CatThroughServer(Environment* env, const std::string& context, bool special);

// REQUIRES of these: an InterruptScope.
Result<ExitCode> VerifyThroughServer(Environment* env, const std::string& context);
Result<ExitCode> CompactThroughServer(Environment* env, const std::string& context,
                                      uint64_t segment_tokens);
Result<ExitCode> BuildThroughServer(Environment* env, const std::string& context,
                                    const std::string& index);
// Sets the quota of the key's tenant; the key must be an operator's. 0 = none.
Result<ExitCode> SetQuotaThroughServer(Environment* env, uint64_t bytes);

struct ServerQuestion {
  std::vector<std::string> contexts;  // The contexts to ask, or to search.
  uint32_t find = 0;                  // The number of contexts to find among them; 0: none.
  std::string question;
  std::string plan;
  Json fields;  // Others of the request: "temperature", ...
};
Result<ExitCode> AskThroughServer(Environment* env, const ServerQuestion& question);

// The passages that a question is about.
Result<ExitCode> FindThroughServer(Environment* env, const std::string& question,
                                   const FindOptions& options);

// How a context would be attended to, or, with `text`, which part of the text is stored.
struct ServerExplain {
  std::string context;  // May be empty with a text.
  std::string plan;
  std::optional<std::string> text;
  std::string system;
  bool raw = false;
  bool verbose = false;
};
Result<ExitCode> ExplainThroughServer(Environment* env, const ServerExplain& asked);

struct ServerChat {
  std::string context;  // The context that a new dialogue begins with; empty: the dialogue exists.
  std::string name;     // The dialogue's.
  std::string plan;
  Json fields;
};
Result<ExitCode> ChatThroughServer(Environment* env, const ServerChat& chat);

}  // namespace attndb::cli

#endif  // ATTNDB_CLI_CLIENT_SERVER_COMMANDS_H_
