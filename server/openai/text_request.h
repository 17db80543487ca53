// A request for text, as POST /v1/chat/completions and /v1/completions take it, and one for the
// tokens of a text.
//
// Known fields are checked; unknown ones are ignored. What can't be honoured is refused by name:
// tools that are no functions, parts of messages that are no text.
//
// Errors:  kInvalidArgument with the field, what was expected and what was found.
// Threads: stateless.
#ifndef ATTNDB_SERVER_OPENAI_TEXT_REQUEST_H_
#define ATTNDB_SERVER_OPENAI_TEXT_REQUEST_H_

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "attndb/result.h"
#include "attndb/types.h"
#include "engines/llama/llama_engine.h"
#include "server/chat/edits_way.h"
#include "server/json.h"
#include "server/openai/chat_messages.h"
#include "server/openai/logit_bias.h"
#include "server/openai/text_sources.h"
#include "server/openai/token_logprobs.h"
#include "server/openai/tools_field.h"

namespace attndb::server {

// What a request gets that says nothing of it: llama.cpp's own defaults.
inline constexpr llama::SamplerOptions kDefaultSampler = {
    .temperature = 0.8f, .top_k = 40, .top_p = 0.95f, .min_p = 0.05f};
inline constexpr size_t kMaxStops = 16;
inline constexpr size_t kMaxStopBytes = 256;  // Each.
inline constexpr uint64_t kMaxTopLogprobs = 20;
inline constexpr size_t kMaxReasoningMessageBytes = 4096;
inline constexpr uint64_t kMaxChoices = 64;  // A server takes no more than its --sessions.
// Fields whose objects may be large.
inline constexpr std::array kWideFields = {
    kBiasField, WideField{.name = "tools", .members = kMaxSchemaMembers, .is_deep = true},
    // The inputs of calls in Anthropic's messages. All interfaces take the calls that replies had.
    WideField{.name = "messages", .members = kMaxSchemaMembers, .is_deep = true},
    WideField{.name = "output_config", .members = kMaxSchemaMembers, .is_deep = true},
    WideField{.name = "text", .members = kMaxSchemaMembers, .is_deep = true},
    WideField{.name = "response_format", .members = kMaxSchemaMembers, .is_deep = true},
    WideField{.name = "json_schema", .members = kMaxSchemaMembers, .is_deep = true}};

struct TextRequest {
  std::vector<llama::ChatMessage> messages;  // For a chat.
  // For a bare completion: one of them is not empty. With both, the text is what the client wrote
  // of the ids, which are what is run.
  std::string prompt;
  std::vector<TokenId> prompt_tokens;  // Ids from 0 on, of any vocabulary.
  // 0: the prompt is read and stored, and no reply begins. None: it does not say.
  std::optional<uint32_t> max_tokens;
  // "max_tokens" (or "n_predict") is -1: the reply may go on until the window is full.
  bool fills_window = false;
  std::vector<std::string> stop;
  llama::SamplerOptions sampler = kDefaultSampler;  // Without a bias: logit_bias has texts, too.
  bool has_seed = false;                            // False: sampler.seed is any.
  uint32_t num_choices = 1;                         // "n": choice i draws by seed + i.
  std::vector<BiasEntry> logit_bias;
  LogprobForm logprobs = LogprobForm::kNone;  // How likely each token was, in this form.
  llama::ChanceOptions chances;               // What `logprobs` tell.
  bool stream = false;
  bool tells_tokens = false;  // The answer has the ids of the reply's tokens.
  bool include_usage = false;
  bool ignore_end = false;  // "ignore_eos", as llama.cpp's server has it: for benchmarks.

  // A chat's template gets this besides the messages. It also says what the reply may be.
  llama::ChatOptions chat;
  // Lines of system messages that the server has deleted: ServerOptions::ignored_lines.
  uint64_t num_ignored_lines = 0;
  std::string grammar;  // GBNF that the reply has to follow; empty: none of its own.
  // Tokens that the model may think for; -1: the request does not say.
  int64_t reasoning_budget = -1;
  // A thinking that is too long ends with this text. nullopt: the request does not say.
  std::optional<std::string> reasoning_message;
  bool controls_reasoning = false;  // A client may end the thinking while the reply is made.
  // max_tokens is a limit: if memory can't be promised for as many, there are fewer.
  bool lowers_max_tokens = false;
  uint64_t min_ttl_seconds = 0;  // The context lives so long at least; 0: as others do.

  // attndb's own fields.
  std::string plan;      // "plan": docs/plan.md.
  std::string context;   // "context": a named context that the prompt continues.
  TextSources sources;   // "contexts", "tokens", "find": what else the prompt is asked of.
  double tpot_ms = 0;    // "tpot_ms": what a token may take; 0: it does not say.
  std::string store_as;  // "store_as": the name that the turn is stored under; empty = its id.
  bool truncate = true;  // "overflow": "truncate" or "refuse".
  // "edits": "exact" or "cut"; nullopt: ServerOptions::edits says. Prompts of bare text have
  // none.
  std::optional<Edits> edits;
};

// "edits", which all interfaces have. An absent or null field leaves *edits as it is.
Status ReadEdits(const Json& body, std::optional<Edits>* edits);

Result<TextRequest> ParseChat(const Json& body);
Result<TextRequest> ParseCompletion(const Json& body);

// Takes the context that the header X-Attndb-Context names where the body names none. `header`: its
// value; empty: it was not sent.
// Errors: kInvalidArgument: it is not UTF-8; the body names another context.
Status TakeContextHeader(const std::string& header, TextRequest* request);

// POST /tokenize, as llama.cpp's server has it.
struct TokenizeRequest {
  std::string content;
  bool add_special = false;    // What the model sets before and behind a text.
  bool parse_special = false;  // Names of control tokens are these tokens.
  bool with_pieces = false;    // Each id comes with its text.
};
Result<TokenizeRequest> ParseTokenize(const Json& body);

}  // namespace attndb::server

#endif  // ATTNDB_SERVER_OPENAI_TEXT_REQUEST_H_
