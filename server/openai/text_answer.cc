#include "server/openai/text_answer.h"

#include <utility>

#include "server/chat/turn_headers.h"
#include "server/openai/error.h"

namespace attndb::server {
namespace {

const char* ReasonOf(llama::FinishReason finish, size_t num_calls) {
  if (finish == llama::FinishReason::kMaxTokens) return "length";
  return num_calls > 0 ? "tool_calls" : "stop";
}

std::string EventText(const std::string& json) { return "data: " + json + "\n\n"; }

}  // namespace

Json TextAnswer::Frame(const char* object) const {
  return {{"id", (style_.is_chat ? "chatcmpl-" : "cmpl-") + start_.id},
          {"object", object},
          {"created", style_.created},
          {"model", style_.model},
          {"system_fingerprint", nullptr}};
}

Json TextAnswer::Choice(Json said, const Json& finish_reason) const {
  const char* const kind = !style_.is_chat ? "text" : style_.stream ? "delta" : "message";
  return {{"index", 0},
          {kind, std::move(said)},
          {"logprobs", nullptr},
          {"finish_reason", finish_reason}};
}

Json TextAnswer::Message() const {
  Json message = {{"role", "assistant"}};
  if (!reasoning_.empty()) message["reasoning_content"] = reasoning_;
  message["content"] = calls_.empty() || !text_.empty() ? Json(text_) : Json();
  if (calls_.empty()) return message;
  Json calls = Json::array();
  for (const llama::ReadCall& call : calls_) {
    calls.push_back({{"id", call.id},
                     {"type", "function"},
                     {"function", {{"name", call.name}, {"arguments", call.arguments}}}});
  }
  message["tool_calls"] = std::move(calls);
  return message;
}

Json TextAnswer::Usage(const TurnEnd& end) const {
  Json usage = {{"prompt_tokens", start_.num_prompt_tokens},
                {"completion_tokens", end.num_tokens},
                {"total_tokens", start_.num_prompt_tokens + end.num_tokens},
                {"prompt_tokens_details", {{"cached_tokens", start_.num_cached_tokens}}}};
  if (start_.num_cut_tokens > 0) {
    usage["prompt_tokens_details"]["cut_tokens"] = start_.num_cut_tokens;
  }
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
  Response response = StreamHead(TurnHeaders(start_, start_.num_dropped_tokens));
  if (style_.is_chat) {
    Json role = Frame("chat.completion.chunk");
    role["choices"] = Json::array({Choice({{"content", ""}, {"role", "assistant"}}, nullptr)});
    response.body = EventText(ToText(role));
  }
  responder_->Begin(std::move(response));
}

void TextAnswer::WriteChoice(Json said, const Json& finish_reason) {
  Json chunk = Frame(style_.is_chat ? "chat.completion.chunk" : "text_completion");
  chunk["choices"] = Json::array({Choice(std::move(said), finish_reason)});
  responder_->Write(EventText(TextOf(chunk)));
}

void TextAnswer::OnDelta(const ReplyDelta& delta) {
  if (!style_.stream) return Add(delta);
  EnsureBegun();
  if (!delta.reasoning.empty()) WriteChoice({{"reasoning_content", delta.reasoning}}, nullptr);
  if (!delta.content.empty()) {
    WriteChoice(style_.is_chat ? Json{{"content", delta.content}} : Json(delta.content), nullptr);
  }
  for (const CallDelta& call : delta.calls) WriteCall(call);
}

// A call's name comes first, without arguments, as with OpenAI's server.
void TextAnswer::WriteCall(const CallDelta& call) {
  const auto write = [this](Json more) {
    WriteChoice({{"tool_calls", Json::array({std::move(more)})}}, nullptr);
  };
  if (!call.id.empty()) {
    write({{"index", call.index},
           {"id", call.id},
           {"type", "function"},
           {"function", {{"name", call.name}, {"arguments", ""}}}});
  }
  if (call.arguments.empty()) return;
  write({{"index", call.index}, {"function", {{"arguments", call.arguments}}}});
}

void TextAnswer::Add(const ReplyDelta& delta) {
  text_ += delta.content;
  reasoning_ += delta.reasoning;
  for (const CallDelta& call : delta.calls) {
    if (call.index == calls_.size()) calls_.push_back({.id = call.id, .name = call.name});
    calls_[call.index].arguments += call.arguments;
  }
}

void TextAnswer::OnEnd(const TurnEnd& end, size_t num_calls) {
  const char* const reason = ReasonOf(end.finish, num_calls);
  if (!style_.stream) {
    Json whole = Frame(style_.is_chat ? "chat.completion" : "text_completion");
    whole["choices"] = Json::array({Choice(style_.is_chat ? Message() : Json(text_), reason)});
    whole["usage"] = Usage(end);
    return responder_->Send(
        {.headers = TurnHeaders(start_, end.num_dropped_tokens), .body = TextOf(whole)});
  }
  EnsureBegun();
  WriteChoice(style_.is_chat ? Json::object() : Json(""), reason);
  if (style_.include_usage) {
    Json last = Frame(style_.is_chat ? "chat.completion.chunk" : "text_completion");
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
