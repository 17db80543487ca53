#include "server/openai/text_answer.h"

#include <utility>

namespace attndb::server {
namespace {

const char* ReasonOf(llama::FinishReason finish, size_t num_calls) {
  if (finish == llama::FinishReason::kMaxTokens) return "length";
  return num_calls > 0 ? "tool_calls" : "stop";
}

}  // namespace

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

ChoiceText TextAnswer::With(Json said) {
  ChoiceText text = {.said = std::move(said)};
  // A whole answer has a list of all its tokens, an event none if it has no token.
  const bool has_none = style().stream ? logprobs_.empty() : logprobs_.form() == LogprobForm::kNone;
  if (!has_none) text.logprobs = logprobs_.Take();
  return text;
}

void TextAnswer::OnDelta(const ReplyDelta& delta) {
  if (!style().stream) return Add(delta);
  if (!delta.reasoning.empty()) Write({{"reasoning_content", delta.reasoning}});
  if (!delta.content.empty()) {
    Write(style().is_chat ? Json{{"content", delta.content}} : Json(delta.content));
  }
  for (const CallDelta& call : delta.calls) WriteCall(call);
}

// A call's name comes first, without arguments, as with OpenAI's server.
void TextAnswer::WriteCall(const CallDelta& call) {
  const auto write = [this](Json more) { Write({{"tool_calls", Json::array({std::move(more)})}}); };
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

ChoiceText TextAnswer::Last() {
  if (style().stream) return With(style().is_chat ? Json::object() : Json(""));
  return With(style().is_chat ? Message() : Json(text_));
}

void TextAnswer::OnEnd(const TurnEnd& end, size_t num_calls) {
  answer_->End(index_, Last(), ReasonOf(end.finish, num_calls), end);
}

void TextAnswer::OnError(const Status& status) { answer_->Fail(index_, Last(), status); }

}  // namespace attndb::server
