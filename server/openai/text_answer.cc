#include "server/openai/text_answer.h"

#include <utility>

#include "server/openai/error.h"

namespace attndb::server {
namespace {

const char* ReasonOf(llama::FinishReason finish) {
  return finish == llama::FinishReason::kMaxTokens ? "length" : "stop";
}

std::string EventText(const std::string& json) { return "data: " + json + "\n\n"; }

}  // namespace

Headers TextAnswer::HeadersOf(uint64_t num_dropped_tokens) const {
  Headers headers = {{kContextHeader, start_.id}};
  if (!start_.parted.empty()) headers.emplace_back(kPartedHeader, start_.parted);
  if (num_dropped_tokens > 0) {
    headers.emplace_back(kDroppedHeader, std::to_string(num_dropped_tokens));
  }
  return headers;
}

Json TextAnswer::Frame(const char* object) const {
  return {{"id", (style_.is_chat ? "chatcmpl-" : "cmpl-") + start_.id},
          {"object", object},
          {"created", style_.created},
          {"model", style_.model},
          {"system_fingerprint", nullptr}};
}

Json TextAnswer::Choice(std::string_view text, const Json& finish_reason) const {
  Json choice = {{"index", 0}};
  if (!style_.is_chat) {
    choice["text"] = text;
  } else if (!style_.stream) {
    choice["message"] = {{"role", "assistant"}, {"content", text}};
  } else if (finish_reason.is_null()) {
    choice["delta"] = {{"content", text}};
  } else {
    choice["delta"] = Json::object();
  }
  choice["logprobs"] = nullptr;
  choice["finish_reason"] = finish_reason;
  return choice;
}

Json TextAnswer::Usage(const TurnEnd& end) const {
  Json usage = {{"prompt_tokens", start_.num_prompt_tokens},
                {"completion_tokens", end.num_tokens},
                {"total_tokens", start_.num_prompt_tokens + end.num_tokens},
                {"prompt_tokens_details", {{"cached_tokens", start_.num_cached_tokens}}}};
  if (end.num_dropped_tokens > 0) {
    usage["dropped_tokens"] = end.num_dropped_tokens;
    usage["run_tokens"] = start_.num_run_tokens;  // Others of the prompt left before it was read.
  }
  return usage;
}

std::string TextAnswer::TextOf(const Json& frame) {
  // A whole answer has a list of all its tokens, an event none if it has no token.
  const bool has_none = style_.stream ? logprobs_.empty() : logprobs_.form() == LogprobForm::kNone;
  return has_none ? ToText(frame) : TextWithLogprobs(frame, logprobs_.Take());
}

void TextAnswer::EnsureBegun() {
  if (std::exchange(begun_, true)) return;
  Response response = {.content_type = "text/event-stream",
                       .headers = HeadersOf(start_.num_dropped_tokens)};
  response.headers.emplace_back("Cache-Control", "no-cache");
  response.headers.emplace_back("X-Accel-Buffering", "no");
  if (style_.is_chat) {
    Json role = Frame("chat.completion.chunk");
    Json choice = Choice("", nullptr);
    choice["delta"]["role"] = "assistant";
    role["choices"] = Json::array({std::move(choice)});
    response.body = EventText(ToText(role));
  }
  responder_->Begin(std::move(response));
}

void TextAnswer::OnDelta(const ReplyDelta& delta) {
  if (!style_.stream) {
    text_ += delta.content;
    return;
  }
  EnsureBegun();
  Json chunk = Frame(style_.is_chat ? "chat.completion.chunk" : "text_completion");
  chunk["choices"] = Json::array({Choice(delta.content, nullptr)});
  responder_->Write(EventText(TextOf(chunk)));
}

void TextAnswer::OnEnd(const TurnEnd& end, size_t /*num_calls*/) {
  if (!style_.stream) {
    Json whole = Frame(style_.is_chat ? "chat.completion" : "text_completion");
    whole["choices"] = Json::array({Choice(text_, ReasonOf(end.finish))});
    whole["usage"] = Usage(end);
    return responder_->Send({.headers = HeadersOf(end.num_dropped_tokens), .body = TextOf(whole)});
  }
  EnsureBegun();
  Json last = Frame(style_.is_chat ? "chat.completion.chunk" : "text_completion");
  last["choices"] = Json::array({Choice("", ReasonOf(end.finish))});
  responder_->Write(EventText(TextOf(last)));
  if (style_.include_usage) {
    last["choices"] = Json::array();
    last["usage"] = Usage(end);
    responder_->Write(EventText(ToText(last)));
  }
  responder_->Write("data: [DONE]\n\n");
  responder_->End();
}

void TextAnswer::OnError(const Status& status) {
  if (!begun_) return responder_->Send(ErrorResponse(status));
  responder_->Write(EventText(ToText(ErrorJson(status))));
  responder_->End();
}

}  // namespace attndb::server
