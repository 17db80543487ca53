#include "fuzz/server_texts.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "attndb/context_name.h"
#include "attndb/db.h"
#include "attndb/options.h"
#include "attndb/types.h"
#include "common/check.h"
#include "server/anthropic/message_request.h"
#include "server/http/event_reader.h"
#include "server/http/message_text.h"
#include "server/json.h"
#include "server/llama/completion_request.h"
#include "server/openai/embedding_request.h"
#include "server/openai/text_request.h"
#include "server/responses/response_request.h"
#include "server/routes/explain_request.h"
#include "server/routes/find_request.h"
#include "server/routes/import_request.h"
#include "server/routes/store_request.h"
#include "server/tenants/keys_file.h"

namespace attndb::fuzz {
namespace {

using server::Json;

constexpr size_t kMaxErrorBytes = 1024;

// All fields that are known, each with a value that is taken. An objective goes with no plan: here
// that is empty, and kStoreBody has one.
constexpr std::string_view kBody =
    R"({"messages":[{"role":"system","content":"S"},{"role":"user","content":[{"type":"text",)"
    R"("text":"U"}]},{"role":"assistant","content":null,"reasoning_content":"R","tool_calls":[)"
    R"({"id":"1","type":"function","function":{"name":"f","arguments":"{\"a\":[1]}"}}]},)"
    R"({"role":"tool","tool_call_id":"1","name":"f","content":"5"}],"prompt":[7,0],)"
    R"("model":"m","max_tokens":16,"max_completion_tokens":17,"n_predict":18,"stop":["a","b"],)"
    R"("temperature":0.5,"top_p":0.9,"min_p":0.1,"top_k":40,"repeat_penalty":1.1,)"
    R"("frequency_penalty":0.5,"presence_penalty":-0.5,"seed":-5,"stream":true,)"
    R"("stream_options":{"include_usage":true},"ignore_eos":true,"plan":"","tpot_ms":12.5,)"
    R"("context":"c","store_as":"s","contexts":null,"find":2,)"
    R"("overflow":"refuse","edits":"cut","n":2,"n_cmpl":2,"best_of":2,"tools":[],)"
    R"("tool_choice":"auto",)"
    R"("parallel_tool_calls":true,"functions":[],"logprobs":false,"top_logprobs":0,)"
    R"("n_probs":5,)"
    R"("post_sampling_probs":true,"logit_bias":{"50256":-100,"word":false},)"
    R"("grammar":"","json_schema":null,"response_format":{"type":"json_schema","json_schema":)"
    R"({"name":"n","schema":{"type":"object","properties":{"a":{}}}}},)"
    R"("reasoning_effort":"low","reasoning_format":"auto","enable_thinking":true,)"
    R"("reasoning_budget_tokens":0,"thinking_budget_tokens":-1,)"
    R"("reasoning_budget_message":"So:","reasoning_control":true,"return_tokens":true,)"
    R"("id":"chatcmpl-turn-1","action":"reasoning_end",)"
    R"("chat_template_kwargs":{"enable_thinking":true,"x":[1]},"continue_final_message":false,)"
    R"("add_generation_prompt":true,"audio":null,"suffix":"","echo":false,)"
    R"("tokens":"0-8,9-12","input_prefix":"P","input_suffix":"S",)"
    R"("input_extra":[{"filename":"f","text":"E"}],)"
    R"("content":"T","add_special":true,"parse_special":true,"with_pieces":true,)"
    R"("input":[[1,2],[3]],"encoding_format":"base64","dimensions":64,"user":"u"})";

// Likewise, of Anthropic's interface.
constexpr std::string_view kMessagesBody =
    R"({"model":"m","max_tokens":2048,"system":[{"type":"text","text":"S","cache_control":)"
    R"({"type":"ephemeral","ttl":"1h"}}],"messages":[{"role":"user","content":"U"},)"
    R"({"role":"assistant","content":[{"type":"thinking","thinking":"T","signature":"s"},)"
    R"({"type":"redacted_thinking","data":"d"},{"type":"text","text":"A"},{"type":"tool_use",)"
    R"("id":"toolu_1","name":"get","input":{"b":1,"a":[2]}}]},{"role":"user","content":[)"
    R"({"type":"tool_result","tool_use_id":"toolu_1","is_error":true,"content":[{"type":"text",)"
    R"("text":"no"}]},{"type":"text","text":"And?"}]},{"role":"system","content":"N"},)"
    R"({"role":"assistant","content":"Well,"}],"tools":[{"type":"custom","name":"get",)"
    R"("description":"D","input_schema":{"type":"object","properties":{"b":{},"a":{}}}}],)"
    R"("tool_choice":{"type":"tool","name":"get","disable_parallel_tool_use":true},)"
    R"("stop_sequences":["a","b"],"temperature":0.5,"top_p":0.9,"top_k":40,"stream":true,)"
    R"("edits":"cut","thinking":{"type":"enabled","budget_tokens":1024},)"
    R"("output_config":{"effort":"high",)"
    R"("format":{"type":"json_schema","schema":{"type":"object"}}},"cache_control":)"
    R"({"type":"ephemeral","ttl":"5m"},"metadata":{"user_id":"u"},"container":null,)"
    R"("mcp_servers":[]})";

// Likewise, of OpenAI's Responses.
constexpr std::string_view kResponseBody =
    R"({"model":"m","input":[{"role":"user","content":[{"type":"input_text","text":"U"}]},)"
    R"({"type":"reasoning","id":"r","summary":[],"content":[{"type":"reasoning_text","text":)"
    R"("T"}]},{"type":"message","role":"assistant","content":[{"type":"output_text","text":"A"},)"
    R"({"type":"refusal","refusal":"R"}]},{"type":"function_call","call_id":"c","name":"get",)"
    R"("arguments":"{}"},{"type":"function_call_output","call_id":"c","output":"4"}],)"
    R"("instructions":"S","previous_response_id":"resp_turn-1","store":false,)"
    R"("max_output_tokens":16,"temperature":0.5,"top_p":0.9,"stream":true,"truncation":"auto",)"
    R"("edits":"cut","logit_bias":{"17":-1},"stop":["x"],)"
    R"("tools":[{"type":"function","name":"get","description":"D","strict":true,"parameters":)"
    R"({"type":"object"}}],"tool_choice":{"type":"function","name":"get"},)"
    R"("parallel_tool_calls":true,"reasoning":{"effort":"low"},"reasoning_budget_tokens":5,)"
    R"("thinking_budget_tokens":-1,"reasoning_budget_message":"So:","text":{"format":{"type":)"
    R"("json_schema","name":"n","schema":{"type":"object"}}},"metadata":{"k":"v"},"user":"u",)"
    R"("include":["reasoning.encrypted_content"],"background":false,"conversation":null,)"
    R"("prompt":null,"context_management":[]})";

// A chat with tools, which completions have not.
constexpr std::string_view kToolBody =
    R"({"messages":[{"role":"user","content":"U"}],"tools":[{"type":"function","function":)"
    R"({"name":"f","description":"D","parameters":{"type":"object","properties":{"a":{"type":)"
    R"("number"}},"required":["a"]}}},{"type":"function","function":{"name":"g"}}],)"
    R"("tool_choice":{"type":"function","function":{"name":"f"}},"parallel_tool_calls":false})";

// Likewise, of all routes of /attndb/v1.
constexpr std::string_view kStoreBody =
    R"({"messages":[{"role":"user","content":"U"},{"role":"assistant","content":"A"}],)"
    R"("name":"n","text":"T","system":"S","raw":true,"stream":true,"append":false,)"
    R"("dry_run":false,"replace":true,"pinned":true,"ttl_seconds":60,"context":"c",)"
    R"("special":true,"index":"pq","segment_tokens":4096,"quota_bytes":1000,"plan":"full",)"
    R"("token":3,"top":5,"interface":"chat","prompt_of":"","question":"Q","contexts":null,)"
    R"("passage_tokens":64})";

// And of a keys file.
constexpr std::string_view kKeys =
    R"({"keys":[{"sha256":"5e884898da28047151d0e56f8dc6292773603d0d6aabbdd62a11ef721d1542d8",)"
    R"("tenant":"a","max_requests":8,"tokens_per_minute":60000,"quota_bytes":1000000,)"
    R"("tpot_ms":50,"operator":true},)"
    R"({"sha256":"0e884898da28047151d0e56f8dc6292773603d0d6aabbdd62a11ef721d1542d8",)"
    R"("tenant":"b"}]})";

class Input {
 public:
  explicit Input(std::span<const uint8_t> bytes) : bytes_(bytes) {}

  uint8_t Next() {
    if (bytes_.empty()) return 0;
    const uint8_t byte = bytes_.front();
    bytes_ = bytes_.subspan(1);
    return byte;
  }
  size_t Next2() {
    const size_t high = Next();
    return high << 8 | Next();
  }
  std::string Rest() const { return {bytes_.begin(), bytes_.end()}; }

 private:
  std::span<const uint8_t> bytes_;
};

// `text` with edits: each takes some bytes away and puts one of a few pieces in their place.
std::string Edited(std::string_view text, Input* input) {
  constexpr std::string_view kPieces[] = {
      "null", "true", "-1", "1e300", "\"x\"", "[]",      "{}",   "[",
      "}",    "\"",   ",",  ":",     "",      "\\u0000", "\xff", "9223372036854775808"};
  std::string body(text);
  const size_t num_edits = input->Next() % 6;
  for (size_t i = 0; i < num_edits && !body.empty(); ++i) {
    const size_t at = input->Next2() % body.size();
    const size_t num_gone = input->Next() % 24;
    body.replace(at, num_gone, kPieces[input->Next() % std::size(kPieces)]);
  }
  return body;
}

// The bytes themselves, or edits of `whole`.
std::string TextOf(std::string_view whole, std::span<const uint8_t> bytes) {
  Input input(bytes);
  const bool is_edited = input.Next() % 2 != 0;
  return is_edited ? Edited(whole, &input) : input.Rest();
}

bool IsWithin(float value, float least, float most) { return value >= least && value <= most; }

void CheckChat(const server::TextRequest& request) {
  const llama::ChatOptions& chat = request.chat;
  const bool calls = !chat.tools.empty() && chat.tool_choice != llama::ToolChoice::kNone;
  ATTNDB_CHECK(request.grammar.empty() || (!calls && chat.json_schema.empty()));
  ATTNDB_CHECK(chat.tool_choice != llama::ToolChoice::kRequired || !chat.tools.empty());
  if (!chat.tools.empty()) {
    const Json tools = server::ReadOwnJson(chat.tools);
    ATTNDB_CHECK(tools.is_array() && tools.size() <= server::kMaxTools);
  }
  ATTNDB_CHECK(chat.json_schema.empty() || server::ReadOwnJson(chat.json_schema).is_object());
  ATTNDB_CHECK(request.reasoning_budget >= -1 && request.reasoning_budget <= INT32_MAX);
  ATTNDB_CHECK(!chat.continues_last || request.messages.back().role == "assistant");
}

void CheckRequest(const server::TextRequest& request) {
  const llama::SamplerOptions& sampler = request.sampler;
  ATTNDB_CHECK(IsWithin(sampler.temperature, 0, 5));
  ATTNDB_CHECK(IsWithin(sampler.top_p, 0, 1) && IsWithin(sampler.min_p, 0, 1));
  ATTNDB_CHECK(IsWithin(sampler.repeat_penalty, 0.009f, 10));
  ATTNDB_CHECK(IsWithin(sampler.frequency_penalty, -2, 2));
  ATTNDB_CHECK(IsWithin(sampler.presence_penalty, -2, 2));
  ATTNDB_CHECK(sampler.top_k >= 0);
  ATTNDB_CHECK(request.max_tokens.value_or(0) <= INT32_MAX);
  ATTNDB_CHECK(!request.fills_window || !request.max_tokens);
  ATTNDB_CHECK(request.tpot_ms >= 0 && request.tpot_ms <= 1e6);
  ATTNDB_CHECK(request.tpot_ms == 0 || request.plan.empty());
  ATTNDB_CHECK(request.stop.size() <= server::kMaxStops);
  for (const std::string& stop : request.stop) ATTNDB_CHECK(stop.size() <= server::kMaxStopBytes);
  ATTNDB_CHECK(request.messages.size() <= server::kMaxMessages);
  const bool has_prompt = request.prompt.empty() != request.prompt_tokens.empty();
  ATTNDB_CHECK(!request.messages.empty() || has_prompt);
  for (const TokenId token : request.prompt_tokens) ATTNDB_CHECK(token >= 0);
  ATTNDB_CHECK(request.chances.num_likeliest <= server::kMaxTopLogprobs);
  ATTNDB_CHECK(request.logit_bias.size() <= server::kMaxBiasEntries);
  for (const server::BiasEntry& entry : request.logit_bias) {
    ATTNDB_CHECK(entry.token >= 0 && entry.text.size() <= server::kMaxBiasTextBytes);
    ATTNDB_CHECK(entry.bias <= server::kMaxLogitBias && !std::isnan(entry.bias));
  }
  const server::TextSources& sources = request.sources;
  ATTNDB_CHECK(sources.contexts.empty() || sources.contexts.size() > 1);
  ATTNDB_CHECK(sources.contexts.size() <= DB::kMaxSessionContexts);
  ATTNDB_CHECK(sources.find <= DB::kMaxSessionContexts);
  for (const llama::ChatMessage& message : request.messages) {
    ATTNDB_CHECK(message.role == "system" || message.role == "user" ||
                 message.role == "assistant" || message.role == "tool");
    ATTNDB_CHECK(message.more.empty() || server::ReadOwnJson(message.more).is_object());
  }
  CheckChat(request);
}

// The other members of each message are none, or JSON.
void CheckMessages(const server::TextRequest& request) {
  ATTNDB_CHECK(!request.messages.empty() && request.messages.size() <= server::kMaxMessages);
  for (const llama::ChatMessage& message : request.messages) {
    ATTNDB_CHECK(message.more.empty() || server::ParseJson(message.more).ok());
  }
  ATTNDB_CHECK(!request.chat.continues_last || request.messages.back().role == "assistant");
  ATTNDB_CHECK(request.chat.tools.empty() || server::ParseJson(request.chat.tools).ok());
  ATTNDB_CHECK(request.max_tokens.value_or(0) <= INT32_MAX);
  ATTNDB_CHECK(IsWithin(request.sampler.temperature, 0, 5));
  ATTNDB_CHECK(request.sampler.top_k >= 0 && request.stop.size() <= server::kMaxStops);
  const uint64_t ttl = request.min_ttl_seconds;
  ATTNDB_CHECK(ttl == 0 || ttl == 300 || ttl == 3600);
}

// An error can be sent, and is no longer than a reader's patience.
void CheckError(const Status& status) {
  ATTNDB_CHECK(status.code() == StatusCode::kInvalidArgument);
  ATTNDB_CHECK(status.message().size() <= kMaxErrorBytes);
  ATTNDB_CHECK(server::ParseJson(server::ToText(Json(status.message()))).ok());
}

// The JSON of a text; null, and the error is checked, if there is none.
std::optional<Json> JsonIn(const std::string& text) {
  Result<Json> json = server::ParseJson(text, server::kWideFields);
  if (!json.ok()) {
    CheckError(json.status());
    return std::nullopt;
  }
  const Result<Json> again = server::ParseJson(server::ToText(*json), server::kWideFields);
  ATTNDB_CHECK(again.ok() && *again == *json);
  return *std::move(json);
}

void CheckTtl(const std::optional<std::chrono::seconds>& ttl) {
  ATTNDB_CHECK(!ttl || (ttl->count() >= 0 && ttl->count() <= INT32_MAX));
}

void Check(const server::ImportRequest& request) {
  ATTNDB_CHECK(!request.text.empty());
  const StoreOptions& store = request.store;
  CheckTtl(store.ttl);
  ATTNDB_CHECK(request.append || CheckContextName(store.name).ok());
  const bool chooses =
      request.raw || !request.system.empty() || store.replace || store.pin || store.ttl.has_value();
  ATTNDB_CHECK(!(request.append && chooses));
}
void Check(const server::ContextChange& change) {
  CheckTtl(change.ttl);
  ATTNDB_CHECK(change.sets_ttl || !change.ttl);
}
void Check(const server::StoredTextRequest& request) { ATTNDB_CHECK(!request.context.empty()); }
void Check(const server::UpkeepRequest& request) {
  ATTNDB_CHECK(request.segment_tokens <= CompactOptions::kMaxSegmentTokens);
}
void Check(uint64_t quota_bytes) { ATTNDB_CHECK(quota_bytes <= INT64_MAX); }
void Check(const server::ExplainRequest& request) {
  CheckRequest(request.text);
  ATTNDB_CHECK(!request.text.messages.empty() && request.token <= server::kMaxWeighedTokens);
  ATTNDB_CHECK(request.num_listed > 0 && request.num_listed <= server::kMaxListedTokens);
}
void Check(const server::FindRequest& request) {
  const FindOptions& options = request.options;
  ATTNDB_CHECK(!request.question.empty());
  ATTNDB_CHECK(options.limit > 0 && options.limit <= server::kMaxFoundPassages);
  ATTNDB_CHECK(options.passage_tokens % 2 == 0 && options.passage_tokens > 0);
  ATTNDB_CHECK(options.passage_tokens <= FindOptions::kMaxPassageTokens);
  for (const std::string& context : options.contexts) ATTNDB_CHECK(!context.empty());
}
void Check(const server::TextRequest& request) { CheckRequest(request); }
void Check(const server::ExplainTextRequest&) {}  // Any texts.
void Check(const server::TokenizeRequest&) {}     // Likewise.

void CheckWithoutPrompt(const server::TextRequest& request) {
  ATTNDB_CHECK(request.prompt.empty() && request.prompt_tokens.empty());
  ATTNDB_CHECK(request.fills_window || request.max_tokens.has_value());
}
void Check(const server::LlamaCompletion& request) {
  CheckWithoutPrompt(request.text);
  ATTNDB_CHECK(!request.prompt.empty());
  for (const server::LlamaPromptPart& part : request.prompt) {
    ATTNDB_CHECK(part.text.empty() != part.ids.empty());
  }
}
void Check(const server::InfillRequest& request) {
  CheckWithoutPrompt(request.text);
  ATTNDB_CHECK(request.files.size() <= server::kMaxInfillFiles);
}
void Check(const std::vector<TokenId>& tokens) {
  for (const TokenId token : tokens) ATTNDB_CHECK(token >= 0);
}

void Check(const server::EmbeddingRequest& request) {
  ATTNDB_CHECK(request.texts.empty() != request.tokens.empty());
  ATTNDB_CHECK(request.texts.size() <= server::kMaxEmbeddingInputs);
  ATTNDB_CHECK(request.tokens.size() <= server::kMaxEmbeddingInputs);
  for (const std::string& text : request.texts) ATTNDB_CHECK(!text.empty());
  for (const std::vector<TokenId>& tokens : request.tokens) {
    ATTNDB_CHECK(!tokens.empty() && *std::ranges::min_element(tokens) >= 0);
  }
}

// The id that ParseChatControl gives.
void Check(const std::string& id) { ATTNDB_CHECK(server::IsUtf8(id)); }

// Whether it was taken: then it is what its header promises, else the error is.
template <typename T>
bool IsTaken(const Result<T>& request) {
  if (request.ok()) {
    Check(*request);
  } else {
    CheckError(request.status());
  }
  return request.ok();
}

// The events that come of a text in pieces: each is one byte longer than the one before it, up to
// num_most, and then of one byte again.
std::vector<std::string> EventsOf(std::string_view text, size_t num_most) {
  std::vector<std::string> events;
  server::EventReader reader;
  size_t length = 1;
  while (!text.empty()) {
    const Status status = reader.Take(text.substr(0, length), [&events](std::string_view data) {
      events.emplace_back(data);
      return Status::Ok();
    });
    ATTNDB_CHECK(status.ok());
    text.remove_prefix(std::min(length, text.size()));
    length = length % num_most + 1;
  }
  return events;
}

// Another value for a field that other requests know, too.
Json With(Json body, const char* field, Json value) {
  if (body.is_object()) body[field] = std::move(value);
  return body;
}

}  // namespace

int FuzzServerRequest(std::span<const uint8_t> bytes) {
  const std::optional<Json> json = JsonIn(TextOf(kBody, bytes));
  if (!json) return 0;
  const bool taken[] = {IsTaken(server::ParseChat(*json)),
                        IsTaken(server::ParseCompletion(*json)),
                        IsTaken(server::ParseTokenize(*json)),
                        IsTaken(server::ParseEmbedding(*json)),
                        IsTaken(server::ParseLlamaCompletion(*json)),
                        IsTaken(server::ParseInfill(With(*json, "prompt", "Q"))),
                        IsTaken(server::ParseChatControl(*json)),
                        IsTaken(server::ParseDetokenize(With(*json, "tokens", {1u, 2u})))};
  static_assert(std::size(taken) == kNumTextRequests);
  return static_cast<int>(std::ranges::count(taken, true));
}

int FuzzMessagesRequest(std::span<const uint8_t> bytes) {
  const std::optional<Json> json = JsonIn(TextOf(kMessagesBody, bytes));
  if (!json) return 0;
  const Result<server::TextRequest> requests[] = {server::ParseMessages(*json),
                                                  server::ParseTokenCount(*json)};
  static_assert(std::size(requests) == kNumMessagesRequests);
  int num_taken = 0;
  for (const Result<server::TextRequest>& request : requests) {
    if (request.ok()) {
      CheckMessages(*request);
      ++num_taken;
    } else {
      CheckError(request.status());
    }
  }
  return num_taken;
}

bool FuzzResponseRequest(std::span<const uint8_t> bytes) {
  const std::optional<Json> json = JsonIn(TextOf(kResponseBody, bytes));
  if (!json) return false;
  Result<server::ResponseRequest> request = server::ParseResponse(*json);
  const Status status = request.ok() ? server::TakeConversation({}, &*request) : request.status();
  if (!status.ok()) {
    CheckError(status);
    return false;
  }
  ATTNDB_CHECK(request->text.messages.size() <= server::kMaxMessages);
  ATTNDB_CHECK(request->text.max_tokens.value_or(1) > 0);
  ATTNDB_CHECK(IsWithin(request->text.sampler.temperature, 0, 5));
  const Json messages = server::JsonOfMessages(request->conversation);
  const auto again = server::MessagesOf(messages);
  ATTNDB_CHECK(again.ok() && server::JsonOfMessages(*again) == messages);
  // The record of a response is parsed again.
  Json stored = request->settings;
  stored["input"] = request->input;
  ATTNDB_CHECK(server::ParseResponse(stored).ok());
  return true;
}

int FuzzStoreRequest(std::span<const uint8_t> bytes) {
  const std::optional<Json> json = JsonIn(TextOf(kStoreBody, bytes));
  if (!json) return 0;
  const auto no_response = [](const std::string&) { return server::ChatMessages(); };
  const bool taken[] = {IsTaken(server::ParseImport(*json)),
                        IsTaken(server::ParseChange(*json)),
                        IsTaken(server::ParseStoredText(*json)),
                        IsTaken(server::ParseUpkeep(*json)),
                        IsTaken(server::ParseQuota(*json)),
                        IsTaken(server::ParseExplain(*json, no_response)),
                        IsTaken(server::ParseExplainContext(*json)),
                        IsTaken(server::ParseExplainText(*json)),
                        IsTaken(server::ParseFind(*json))};
  static_assert(std::size(taken) == kNumStoreRequests);
  return static_cast<int>(std::ranges::count(taken, true));
}

bool FuzzToolRequest(std::span<const uint8_t> bytes) {
  const std::optional<Json> json = JsonIn(TextOf(kToolBody, bytes));
  return json && IsTaken(server::ParseChat(*json));
}

bool FuzzKeysFile(std::span<const uint8_t> bytes) {
  const Result<server::KeyRules> rules = server::ParseKeysFile(TextOf(kKeys, bytes));
  if (!rules.ok()) {
    CheckError(rules.status());
    return false;
  }
  for (const auto& [digest, tenant] : *rules) {
    ATTNDB_CHECK(digest.size() == server::kDigestDigits);
    ATTNDB_CHECK(digest.find_first_not_of("0123456789abcdef") == std::string::npos);
    ATTNDB_CHECK(!tenant.tenant.empty() && tenant.tpot_ms <= server::kMaxTpotMs);
    ATTNDB_CHECK(tenant.quota_bytes <= INT64_MAX);
  }
  return true;
}

bool FuzzHttpText(std::span<const uint8_t> bytes) {
  const std::string text(bytes.begin(), bytes.end());
  // A value ends no line but its own.
  const server::Response response = {.content_type = text, .headers = {{"X-A", text}}};
  const std::string head = server::HeadOf(response, text.size(), true);
  ATTNDB_CHECK(head.starts_with("HTTP/1.1 200 OK\r\n") && head.ends_with("\r\n\r\n"));
  ATTNDB_CHECK(head.find("\r\n\r\n") == head.size() - 4);
  ATTNDB_CHECK(std::ranges::count(head, '\n') == std::ranges::count(head, '\r'));
  const auto num_lines = std::ranges::count(head, '\n');
  ATTNDB_CHECK(num_lines == 4 || num_lines == 6);

  const std::string chunk = server::ChunkOf(text);
  size_t length = 0;
  ATTNDB_CHECK(std::sscanf(chunk.c_str(), "%zx\r\n", &length) == 1 && length == text.size());
  ATTNDB_CHECK(chunk.substr(chunk.find("\r\n") + 2) == text + "\r\n");

  const std::optional<std::string> path = server::PathOf(text);
  if (!path) return false;
  ATTNDB_CHECK(path->starts_with('/') && path->size() <= text.size());
  std::string encoded = "/";
  for (const char c : path->substr(1)) {
    char digits[4];
    std::snprintf(digits, sizeof(digits), "%%%02x", static_cast<unsigned char>(c));
    encoded += digits;
  }
  ATTNDB_CHECK(server::PathOf(encoded) == path);
  return true;
}

size_t FuzzEventStream(std::span<const uint8_t> bytes) {
  Input input(bytes);
  const size_t num_most = size_t{1} + input.Next() % 16;
  const std::string text = input.Rest();
  const std::vector<std::string> events = EventsOf(text, num_most);
  ATTNDB_CHECK(events == EventsOf(text, 1));
  std::string again;  // What was said, said as plainly as can be.
  for (const std::string& event : events) {
    const Result<Json> json = server::ParseJson(event);
    ATTNDB_CHECK(json.ok() || json.status().message().size() <= kMaxErrorBytes);
    ATTNDB_CHECK(event.size() <= text.size());
    again += "data: ";
    for (const char c : event) again += c == '\n' ? std::string("\r\ndata: ") : std::string(1, c);
    again += "\r\n\r\n";
  }
  ATTNDB_CHECK(EventsOf(again, 16) == events);
  return events.size();
}

}  // namespace attndb::fuzz
