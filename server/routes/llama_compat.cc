#include "server/routes/llama_compat.h"

#include <algorithm>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "attndb/units.h"
#include "attndb/version.h"
#include "server/llama/completion_answer.h"
#include "server/llama/completion_request.h"
#include "server/llama/infill_prompt.h"
#include "server/llama/joined_responder.h"
#include "server/openai/error.h"
#include "server/routes/text_call.h"

namespace attndb::server {
namespace {

constexpr int kNotImplemented = 501;

Json PropsOf(const Service& service) {
  const llama::ModelInfo& info = service.engine->info();
  Json settings = GenerationSettings(TextRequest());
  return {{"default_generation_settings",
           {{"params", std::move(settings)}, {"n_ctx", WindowTokens(service)}}},
          {"total_slots", service.engine->options().max_sessions},
          {"model_alias", service.options.model_id},
          {"model_path", std::filesystem::path(info.path).filename().string()},
          {"modalities", {{"vision", false}, {"video", false}, {"audio", false}}},
          {"endpoint_slots", false},
          {"endpoint_props", false},
          {"endpoint_metrics", true},
          {"chat_template", info.chat_template},
          {"chat_template_caps", service.template_caps},
          {"bos_token", info.begin_token},
          {"eos_token", info.end_token},
          {"build_info", std::string("attndb ") + Version()},
          {"is_sleeping", false}};
}

Result<Json> Controlled(const Service& service, const Call& call) {
  ATTNDB_ASSIGN_OR_RETURN(const Json body, ParseJson(call.request->body));
  ATTNDB_ASSIGN_OR_RETURN(const std::string id, ParseChatControl(body));
  switch (service.running->EndThinking(call.rules.tenant, id)) {
    case RunningTurns::Found::kDone:
      return Json{{"success", true}};
    case RunningTurns::Found::kFixed:
      return Json{{"success", false},
                  {"message", "the chat was not asked for with 'reasoning_control': true"}};
    case RunningTurns::Found::kNone:
      break;
  }
  return Json{{"success", false}, {"message", "no chat with this id is under way"}};
}

Result<Json> Detokenized(const Service& service, const Call& call) {
  ATTNDB_ASSIGN_OR_RETURN(const Json body, ParseJson(call.request->body));
  ATTNDB_ASSIGN_OR_RETURN(const std::vector<TokenId> tokens, ParseDetokenize(body));
  ATTNDB_ASSIGN_OR_RETURN(std::string text,
                          service.engine->Detokenize(tokens, /*render_special=*/true));
  return Json{{"content", std::move(text)}};
}

Result<Json> Templated(const Service& service, const Call& call) {
  ATTNDB_ASSIGN_OR_RETURN(const Json body, ParseJson(call.request->body, kWideFields));
  ATTNDB_ASSIGN_OR_RETURN(TextRequest asked, ParseChat(body));
  PrepareChat(service, &asked);
  ATTNDB_ASSIGN_OR_RETURN(const llama::RenderedPrompt prompt,
                          service.engine->Render(asked.messages, asked.chat));
  std::string text;
  for (const llama::PromptItem& item : prompt.items) text += item.text;
  return Json{{"prompt", std::move(text)}};
}

// The tokens of a prompt in parts. A text may not be longer than what names of control tokens are
// looked for in.
Result<std::vector<TokenId>> TokensOf(const Service& service, const Call& call,
                                      const LlamaCompletion& asked) {
  const llama::TokenizeLimits limits = LimitsFor(service, call, WindowTokens(service));
  std::vector<TokenId> tokens;
  // Behind a context no text begins.
  bool begins = asked.text.context.empty() && asked.text.sources.empty();
  for (const LlamaPromptPart& part : asked.prompt) {
    if (!part.ids.empty()) {
      tokens.insert(tokens.end(), part.ids.begin(), part.ids.end());
    } else if (part.text.size() > limits.piece_bytes) {
      return Status::InvalidArgument("'prompt' has a text of " + FormatBytes(part.text.size()) +
                                     ", expected at most " + FormatBytes(limits.piece_bytes));
    } else {
      ATTNDB_ASSIGN_OR_RETURN(
          const std::vector<TokenId> more,
          service.engine->Tokenize(part.text, begins, /*parse_special=*/true, limits));
      tokens.insert(tokens.end(), more.begin(), more.end());
    }
    begins = false;
  }
  return tokens;
}

std::string PromptTextOf(const Service& service, std::span<const TokenId> tokens) {
  Result<std::string> text = service.engine->Detokenize(tokens, /*render_special=*/true);
  return text.ok() ? *std::move(text) : std::string();
}

std::vector<std::shared_ptr<ReplyWriter>> WritersOf(Service* service, const Call& call,
                                                    const TextRequest& asked) {
  LlamaAnswerStyle style = {.stream = asked.stream,
                            .logprobs = asked.logprobs,
                            .model = service->options.model_id,
                            .prompt = PromptTextOf(*service, asked.prompt_tokens),
                            .settings = GenerationSettings(asked),
                            .received_seconds = call.received_seconds,
                            .names_context = asked.num_choices > 1};
  std::vector<std::shared_ptr<ReplyWriter>> writers;
  for (auto& responder : JoinedResponders(call.responder, asked.num_choices)) {
    style.index = writers.size();
    style.settings["seed"] = static_cast<uint32_t>(asked.sampler.seed + style.index);
    writers.push_back(std::make_shared<LlamaAnswer>(std::move(responder), style));
  }
  return writers;
}

// `context`: what the request's header names, "" if nothing.
Result<TextRequest> CompletionOf(const Service& service, const Call& call,
                                 const std::string& context, const Json& body) {
  ATTNDB_ASSIGN_OR_RETURN(LlamaCompletion asked, ParseLlamaCompletion(body));
  // The context decides whether the prompt begins a text.
  ATTNDB_RETURN_IF_ERROR(TakeContextHeader(context, &asked.text));
  ATTNDB_ASSIGN_OR_RETURN(asked.text.prompt_tokens, TokensOf(service, call, asked));
  for (const LlamaPromptPart& part : asked.prompt) asked.text.prompt += part.text;
  return std::move(asked.text);
}

// As llama.cpp's server reckons: what prefix, suffix and reply leave of the window is for files.
InfillLimits InfillLimitsOf(const Service& service, const TextRequest& asked) {
  InfillLimits limits;
  const uint64_t window = WindowTokens(service);
  if (window == 0) return limits;
  const uint64_t taken = limits.near_tokens + 2 * uint64_t{asked.max_tokens.value_or(0)};
  limits.file_tokens = window - std::min(window, taken);
  return limits;
}

Result<TextRequest> InfillOf(const Service& service, const Call& call, const Json& body) {
  ATTNDB_ASSIGN_OR_RETURN(InfillRequest asked, ParseInfill(body));
  ATTNDB_ASSIGN_OR_RETURN(asked.text.prompt_tokens,
                          InfillPrompt(*service.engine, asked, InfillLimitsOf(service, asked.text),
                                       LimitsFor(service, call, /*max_tokens=*/0)));
  return std::move(asked.text);
}

}  // namespace

void AnswerProps(Service* service, Call call) {
  AnswerCall(service, call, {.body = ToText(PropsOf(*service))});
}

void AnswerChatControl(Service* service, Call call) { AnswerLater(service, call, Controlled); }

void AnswerDetokenize(Service* service, Call call) { AnswerLater(service, call, Detokenized); }

void AnswerApplyTemplate(Service* service, Call call) { AnswerLater(service, call, Templated); }

void AnswerLlamaCompletion(Service* service, Call call) {
  const std::string context(call.request->Header("x-attndb-context"));
  const auto parse = [service, context, kept = WithoutRequest(call)](const Json& body) {
    return CompletionOf(*service, kept, context, body);
  };
  AnswerText(service, std::move(call), {.is_chat = false, .parse = parse, .writers = WritersOf});
}

void AnswerInfill(Service* service, Call call) {
  const Status can = CheckFillsIn(service->engine->info().fim);
  if (!can.ok()) return AnswerCall(service, call, ErrorResponse(kNotImplemented, can));
  const auto parse = [service, kept = WithoutRequest(call)](const Json& body) {
    return InfillOf(*service, kept, body);
  };
  AnswerText(service, std::move(call), {.is_chat = false, .parse = parse, .writers = WritersOf});
}

}  // namespace attndb::server
