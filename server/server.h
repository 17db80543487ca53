// `attndb serve`: OpenAI's interface over one model and one store.
//
//   auto server = Server::Start(std::move(engine), db, options);
//   ... (*server)->port() ...
//   (*server)->Stop(std::chrono::seconds(30));
//
// Promise: a turn whose state is "durable" survives whatever happens to the process; what a request
//          reuses is exact to the token, and of its own tenant alone.
// Threads: thread-safe. Has threads of its own: the listener's, two that make prompts of words,
//          eight that read contexts from the disk, one that waits for it, one for what takes
//          minutes, the engine's.
// Errors:  of Start: as Listener::Open; kInvalidArgument (plan; keys; a quota of a tenant that no
//          key has). No message holds a key.
#ifndef ATTNDB_SERVER_SERVER_H_
#define ATTNDB_SERVER_SERVER_H_

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "attndb/db.h"
#include "attndb/result.h"
#include "engines/llama/llama_engine.h"
#include "server/batch/conversations.h"
#include "server/batch/scheduler.h"
#include "server/chat/edits_way.h"
#include "server/http/listener.h"
#include "server/metrics/request_log.h"

namespace attndb::server {

struct ServerOptions {
  ListenerOptions listener;
  ConversationOptions conversations;
  SchedulerOptions scheduler;
  std::string model_id;                   // What clients call the model.
  std::string plan = "auto(error=0.01)";  // For requests that name none.
  bool allow_plans = true;                // Whether requests may name a plan.
  uint32_t max_tokens = 4096;             // For a reply, if the request does not say.
  uint64_t window_tokens = 0;             // 0 = what the model is meant for.
  // The server asks for a key of this file, or for this key of the default tenant. If both are
  // empty, everybody is the default tenant.
  std::string keys_file;
  std::string api_key;
  // The limit on disk of the default tenant, 0 = none; absent: what the store has. A limit that the
  // keys file sets for that tenant is stronger.
  std::optional<uint64_t> quota_bytes;
  std::vector<std::string> pinned_prompts;  // Texts of system messages that are kept ready.
  // Variables of the chat template: name -> JSON. A request's own are stronger.
  std::map<std::string, std::string> chat_variables;
  // Regular expressions of RE2. A line of a system message that has a match of one is deleted
  // before the template is applied.
  std::vector<std::string> ignored_lines;
  Edits edits = Edits::kExact;  // For chats that have no "edits".
  // Tokens that the model may think for before each reply, and the text that ends a longer
  // thinking, if a request does not say; -1: any number.
  int32_t reasoning_budget = -1;
  std::string reasoning_message;
  LogFormat log = LogFormat::kOff;  // What is said of requests, on stderr.
};

class Server {
 public:
  static Result<std::unique_ptr<Server>> Start(llama::LlamaEngine engine, DB db,
                                               const ServerOptions& options);
  virtual ~Server() = default;

  virtual uint16_t port() const = 0;
  // The tokens of a reply whose request does not say: ServerOptions::max_tokens, or fewer if memory
  // cannot be promised for as many.
  virtual uint32_t max_tokens() const = 0;
  // Refuses what comes from now on with 503, lets what is under way end by the deadline, and waits
  // until what was answered is durable.
  virtual void Stop(std::chrono::milliseconds deadline) = 0;
};

// Whether the keys can be read, and the quota limits somebody. Errors: as Server::Start.
Status CheckKeys(const ServerOptions& options);

// Whether ServerOptions::ignored_lines can be compiled. Errors: as Server::Start.
Status CheckIgnoredLines(const ServerOptions& options);

// Reads the variables of a chat template from a JSON object, `{"enable_thinking": false}` say, into
// ServerOptions::chat_variables. Errors: kInvalidArgument.
Status ReadChatVariables(const std::string& json, ServerOptions* options);

// Whether anybody on the network may ask: the address is no loopback one, and there are no keys.
bool IsOpenToNetwork(const ServerOptions& options);

}  // namespace attndb::server

#endif  // ATTNDB_SERVER_SERVER_H_
