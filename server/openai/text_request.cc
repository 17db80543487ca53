#include "server/openai/text_request.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <optional>
#include <string_view>
#include <utility>

#include "server/chat/turn_headers.h"
#include "server/fields.h"
#include "server/openai/chat_messages.h"
#include "server/openai/reply_fields.h"
#include "server/openai/tools_field.h"

namespace attndb::server {
namespace {

// Fields that ask for what there is not, unless they have one of the values that ask for nothing.
struct RefusedField {
  const char* name;
  const char* why;
};
constexpr std::array kRefused = {
    RefusedField{"functions", "functions are not supported: send tools"},
    RefusedField{"audio", "audio is not supported"},
    RefusedField{"suffix", "a suffix is not supported"},
    RefusedField{"echo", "echo is not supported"},
};

Result<std::optional<int64_t>> ReadInteger(const Json& body, const char* field, int64_t least,
                                           int64_t most) {
  const Json* const found = FindMember(body, field);
  if (found == nullptr) return std::optional<int64_t>();
  const Json number = WholeNumber(*found);
  const bool fits =
      number.is_number_integer() &&
      (number.is_number_unsigned() ? number.get<uint64_t>() <= static_cast<uint64_t>(most)
                                   : number.get<int64_t>() <= most) &&
      number.get<int64_t>() >= least;
  if (!fits) {
    return WrongValue(
        field, "an integer from " + std::to_string(least) + " to " + std::to_string(most), *found);
  }
  return std::optional(number.get<int64_t>());
}

Status CheckRefused(const Json& body) {
  for (const RefusedField& field : kRefused) {
    const Json* const json = FindMember(body, field.name);
    if (json != nullptr && !AsksForNothing(*json)) {
      return Status::InvalidArgument("'" + std::string(field.name) + "': " + field.why);
    }
  }
  return Status::Ok();
}

// All replies that are made are given: "best_of" can only repeat "n".
Status ReadChoices(const Json& body, TextRequest* request) {
  uint64_t count = 1;
  ATTNDB_RETURN_IF_ERROR(ReadCount(body, "n", 1, kMaxChoices, &count));
  request->num_choices = static_cast<uint32_t>(count);
  const Json* const best_of = FindMember(body, "best_of");
  if (best_of == nullptr || *best_of == count) return Status::Ok();
  return WrongValue("best_of", "the number of 'n', " + std::to_string(count), *best_of);
}

Status ReadSampler(const Json& body, TextRequest* request) {
  llama::SamplerOptions& sampler = request->sampler;
  ATTNDB_RETURN_IF_ERROR(ReadNumber(body, "temperature", 0, 5, &sampler.temperature));
  ATTNDB_RETURN_IF_ERROR(ReadNumber(body, "top_p", 0, 1, &sampler.top_p));
  ATTNDB_RETURN_IF_ERROR(ReadNumber(body, "min_p", 0, 1, &sampler.min_p));
  ATTNDB_RETURN_IF_ERROR(ReadNumber(body, "repeat_penalty", 0.01, 10, &sampler.repeat_penalty));
  ATTNDB_RETURN_IF_ERROR(ReadNumber(body, "frequency_penalty", -2, 2, &sampler.frequency_penalty));
  ATTNDB_RETURN_IF_ERROR(ReadNumber(body, "presence_penalty", -2, 2, &sampler.presence_penalty));
  ATTNDB_ASSIGN_OR_RETURN(const auto top_k, ReadInteger(body, "top_k", INT32_MIN, 1 << 20));
  if (top_k) sampler.top_k = static_cast<int32_t>(std::max<int64_t>(*top_k, 0));  // 0 = off.
  ATTNDB_ASSIGN_OR_RETURN(const auto seed,
                          ReadInteger(body, "seed", std::numeric_limits<int64_t>::min(),
                                      std::numeric_limits<int64_t>::max()));
  request->has_seed = seed.has_value();
  if (seed) sampler.seed = static_cast<uint32_t>(static_cast<uint64_t>(*seed) & UINT32_MAX);
  return Status::Ok();
}

// In a chat, "logprobs" is true or false.
Status ReadChatLogprobs(const Json& body, TextRequest* request) {
  bool is_asked = false;
  uint64_t num_likeliest = 0;
  ATTNDB_RETURN_IF_ERROR(ReadFlag(body, "logprobs", &is_asked));
  ATTNDB_RETURN_IF_ERROR(ReadCount(body, "top_logprobs", 0, kMaxTopLogprobs, &num_likeliest));
  if (!is_asked && num_likeliest > 0) {
    return Status::InvalidArgument(R"('top_logprobs' needs "logprobs": true)");
  }
  if (is_asked) request->logprobs = LogprobForm::kContent;
  request->chances.num_likeliest = static_cast<uint32_t>(num_likeliest);
  return Status::Ok();
}

// In a completion, "logprobs" is the number of tokens that are told beside each one.
Status ReadCompletionLogprobs(const Json& body, TextRequest* request) {
  const Json* const top = FindMember(body, "top_logprobs");
  if (top != nullptr && !AsksForNothing(*top)) {
    return Status::InvalidArgument("'top_logprobs' is a field of chats: set 'logprobs' to it");
  }
  const Json* const found = FindMember(body, "logprobs");
  if (found == nullptr || *found == false) return Status::Ok();
  uint64_t num_likeliest = 0;
  ATTNDB_RETURN_IF_ERROR(ReadCount(body, "logprobs", 0, kMaxTopLogprobs, &num_likeliest));
  request->logprobs = LogprobForm::kLegacy;
  request->chances.num_likeliest = static_cast<uint32_t>(num_likeliest);
  return Status::Ok();
}

// Fields of llama.cpp's server, in both kinds. OpenAI's fields come first.
Status ReadProbs(const Json& body, TextRequest* request) {
  uint64_t num_likeliest = 0;
  ATTNDB_RETURN_IF_ERROR(ReadCount(body, "n_probs", 0, kMaxTopLogprobs, &num_likeliest));
  if (request->logprobs == LogprobForm::kNone && num_likeliest > 0) {
    request->logprobs = LogprobForm::kContent;
    request->chances.num_likeliest = static_cast<uint32_t>(num_likeliest);
  }
  bool* const after_samplers = &request->chances.after_samplers;
  ATTNDB_RETURN_IF_ERROR(ReadFlag(body, "post_sampling_probs", after_samplers));
  if (request->logprobs != LogprobForm::kNone && *after_samplers) {
    request->logprobs = LogprobForm::kProbs;
  }
  return Status::Ok();
}

// The last of these fields that a request has counts: llama.cpp's server prefers its own name, too.
Status ReadMaxTokens(const Json& body, TextRequest* request) {
  for (const char* const field : {"max_tokens", "max_completion_tokens", "n_predict"}) {
    ATTNDB_ASSIGN_OR_RETURN(const auto value, ReadInteger(body, field, -1, INT32_MAX));
    if (!value) continue;
    request->fills_window = *value < 0;
    request->max_tokens.reset();
    if (*value >= 0) request->max_tokens = static_cast<uint32_t>(*value);
  }
  return Status::Ok();
}

Status ReadStream(const Json& body, TextRequest* request) {
  ATTNDB_RETURN_IF_ERROR(ReadFlag(body, "stream", &request->stream));
  const Json* const options = FindMember(body, "stream_options");
  if (options == nullptr) return Status::Ok();
  if (!options->is_object()) return WrongValue("stream_options", "an object", *options);
  return ReadFlag(*options, "include_usage", &request->include_usage);
}

Status ReadOwnFields(const Json& body, TextRequest* request) {
  ATTNDB_RETURN_IF_ERROR(ReadString(body, "plan", &request->plan));
  ATTNDB_RETURN_IF_ERROR(ReadString(body, "context", &request->context));
  ATTNDB_ASSIGN_OR_RETURN(request->sources, ReadTextSources(body, &request->context));
  float tpot_ms = 0;
  ATTNDB_RETURN_IF_ERROR(ReadNumber(body, "tpot_ms", 0, 1e6, &tpot_ms));
  request->tpot_ms = tpot_ms;
  if (tpot_ms > 0 && !request->plan.empty()) {
    return Status::InvalidArgument("'tpot_ms' chooses the plan: leave out 'plan'");
  }
  ATTNDB_RETURN_IF_ERROR(ReadString(body, "store_as", &request->store_as));
  std::string overflow = "truncate";
  ATTNDB_RETURN_IF_ERROR(ReadString(body, "overflow", &overflow));
  if (overflow != "truncate" && overflow != "refuse") {
    return WrongValue("overflow", "truncate or refuse", overflow);
  }
  request->truncate = overflow == "truncate";
  return ReadEdits(body, &request->edits);
}

// What both kinds have.
Result<TextRequest> ParseCommon(const Json& body) {
  if (!body.is_object()) return Status::InvalidArgument("the body is no JSON object");
  ATTNDB_RETURN_IF_ERROR(CheckRefused(body));
  TextRequest request;
  ATTNDB_RETURN_IF_ERROR(ReadChoices(body, &request));
  ATTNDB_RETURN_IF_ERROR(ReadMaxTokens(body, &request));
  ATTNDB_RETURN_IF_ERROR(ReadStop(body, &request.stop));
  ATTNDB_RETURN_IF_ERROR(ReadSampler(body, &request));
  ATTNDB_ASSIGN_OR_RETURN(request.logit_bias, ReadLogitBias(body));
  ATTNDB_RETURN_IF_ERROR(ReadStream(body, &request));
  ATTNDB_RETURN_IF_ERROR(ReadFlag(body, "ignore_eos", &request.ignore_end));
  ATTNDB_RETURN_IF_ERROR(ReadOwnFields(body, &request));
  return request;
}

Status ReadPromptTokens(const Json& ids, std::vector<TokenId>* tokens) {
  tokens->resize(ids.size());
  for (size_t i = 0; i < ids.size(); ++i) {
    if (!ReadTokenId(ids[i], &(*tokens)[i])) {
      return WrongValue("prompt[" + std::to_string(i) + "]", "the id of a token", ids[i]);
    }
  }
  return Status::Ok();
}

// A text, alone or as the one entry of a list, or ids.
Status ReadPrompt(const Json& prompt, TextRequest* request) {
  const bool is_list = prompt.is_array() && !prompt.empty();
  const bool has_text = is_list && prompt.front().is_string();
  if (has_text && prompt.size() == 1) return ReadPrompt(prompt.front(), request);
  if (has_text || (is_list && prompt.front().is_array())) {
    return WrongValue("prompt", "one prompt a request: a text, or the ids of its tokens", prompt);
  }
  if (is_list) return ReadPromptTokens(prompt, &request->prompt_tokens);
  if (!prompt.is_string() || prompt.get_ref<const std::string&>().empty()) {
    return WrongValue("prompt", "a text that is not empty, or the ids of its tokens", prompt);
  }
  request->prompt = prompt.get<std::string>();
  return Status::Ok();
}

}  // namespace

Status ReadEdits(const Json& body, std::optional<Edits>* edits) {
  const Json* const found = FindMember(body, "edits");
  if (found == nullptr) return Status::Ok();
  std::optional<Edits> named;
  if (found->is_string()) named = EditsNamed(found->get_ref<const std::string&>());
  if (!named) return WrongValue("edits", std::string(kEditsNames), *found);
  *edits = named;
  return Status::Ok();
}

Result<TextRequest> ParseChat(const Json& body) {
  ATTNDB_ASSIGN_OR_RETURN(TextRequest request, ParseCommon(body));
  ATTNDB_RETURN_IF_ERROR(ReadChatLogprobs(body, &request));
  ATTNDB_RETURN_IF_ERROR(ReadProbs(body, &request));
  ATTNDB_ASSIGN_OR_RETURN(request.messages, ReadMessages(body));
  ATTNDB_RETURN_IF_ERROR(ReadTools(body, &request.chat));
  ATTNDB_RETURN_IF_ERROR(ReadReplyForm(body, &request));
  ATTNDB_RETURN_IF_ERROR(ReadThinking(body, &request));
  ATTNDB_RETURN_IF_ERROR(ReadContinuation(body, &request));
  return request;
}

Result<TextRequest> ParseCompletion(const Json& body) {
  ATTNDB_ASSIGN_OR_RETURN(TextRequest request, ParseCommon(body));
  const Json* const tools = FindMember(body, "tools");
  if (tools != nullptr && !AsksForNothing(*tools)) {
    return Status::InvalidArgument("'tools' is a field of chats");
  }
  ATTNDB_RETURN_IF_ERROR(ReadReplyForm(body, &request));
  ATTNDB_RETURN_IF_ERROR(ReadCompletionLogprobs(body, &request));
  ATTNDB_RETURN_IF_ERROR(ReadProbs(body, &request));
  const Json* const prompt = FindMember(body, "prompt");
  ATTNDB_RETURN_IF_ERROR(ReadPrompt(prompt == nullptr ? Json() : *prompt, &request));
  return request;
}

Status TakeContextHeader(const std::string& header, TextRequest* request) {
  if (header.empty()) return Status::Ok();
  const std::string name = "the header " + std::string(kContextHeader);
  if (!IsUtf8(header)) return Status::InvalidArgument(name + " is not UTF-8");
  if (request->context.empty()) request->context = header;
  if (request->context == header) return Status::Ok();
  return Status::InvalidArgument("'context' is " + Shown(request->context) + ", and " + name +
                                 " is " + Shown(header) + ": name one context");
}

Result<TokenizeRequest> ParseTokenize(const Json& body) {
  if (!body.is_object()) return Status::InvalidArgument("the body is no JSON object");
  TokenizeRequest request;
  if (FindMember(body, "content") == nullptr) return WrongValue("content", "a text", Json());
  ATTNDB_RETURN_IF_ERROR(ReadString(body, "content", &request.content));
  ATTNDB_RETURN_IF_ERROR(ReadFlag(body, "add_special", &request.add_special));
  ATTNDB_RETURN_IF_ERROR(ReadFlag(body, "parse_special", &request.parse_special));
  ATTNDB_RETURN_IF_ERROR(ReadFlag(body, "with_pieces", &request.with_pieces));
  return request;
}

}  // namespace attndb::server
