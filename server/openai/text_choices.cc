#include "server/openai/text_choices.h"

#include <algorithm>
#include <utility>

#include "server/chat/turn_headers.h"
#include "server/http/event_text.h"
#include "server/openai/error.h"

namespace attndb::server {
namespace {

// The text of an object with one more member, whose value is a JSON text.
std::string With(const Json& object, const char* name, const std::string& value) {
  std::string text = ToText(object);
  text.pop_back();
  return text + ",\"" + name + "\":" + value + "}";
}

}  // namespace

TextChoices::TextChoices(std::shared_ptr<Responder> responder, AnswerStyle style)
    : responder_(std::move(responder)),
      style_(std::move(style)),
      choices_(style_.num_choices),
      num_open_(style_.num_choices) {}

void TextChoices::Start(size_t index, const TurnStart& start) {
  const std::lock_guard<std::mutex> lock(mutex_);
  choices_[index].start = start;
  if (!start_) start_ = start;
  num_dropped_tokens_ = std::max(num_dropped_tokens_, start.num_dropped_tokens);
}

Json TextChoices::Frame(const char* object) const {
  return {{"id", (style_.is_chat ? "chatcmpl-" : "cmpl-") + (start_ ? start_->id : "")},
          {"object", object},
          {"created", style_.created},
          {"model", style_.model},
          {"system_fingerprint", nullptr}};
}

Json TextChoices::FrameOfEvent() const {
  return Frame(style_.is_chat ? "chat.completion.chunk" : "text_completion");
}

std::string TextChoices::TextOf(size_t index, const ChoiceText& text, const Json& reason,
                                const Json& own) const {
  const char* const kind = !style_.is_chat ? "text" : style_.stream ? "delta" : "message";
  Json choice = {
      {"index", index}, {kind, text.said}, {"logprobs", nullptr}, {"finish_reason", reason}};
  if (!own.empty()) choice["attndb"] = own;
  return TextWithLogprobs(choice, text.logprobs);
}

std::string TextChoices::Role(size_t index) const {
  return TextOf(index, {.said = {{"content", ""}, {"role", "assistant"}}}, nullptr, {});
}

std::string TextChoices::EventOf(const std::string& choice) const {
  return EventText(With(FrameOfEvent(), "choices", "[" + choice + "]"));
}

Json TextChoices::Usage() const {
  Json usage = {{"prompt_tokens", start_->num_prompt_tokens},
                {"completion_tokens", num_tokens_},
                {"total_tokens", start_->num_prompt_tokens + num_tokens_},
                {"prompt_tokens_details", {{"cached_tokens", start_->num_cached_tokens}}}};
  if (style_.is_chat) {
    usage["completion_tokens_details"] = {{"reasoning_tokens", num_thinking_tokens_}};
  }
  if (start_->num_cut_tokens > 0) {
    usage["prompt_tokens_details"]["cut_tokens"] = start_->num_cut_tokens;
  }
  if (num_dropped_tokens_ > 0) {
    usage["dropped_tokens"] = num_dropped_tokens_;
    usage["run_tokens"] = start_->num_run_tokens;  // Others of the prompt left before it was read.
  }
  return usage;
}

void TextChoices::EnsureBegun() {
  if (std::exchange(begun_, true)) return;
  Response response = StreamHead(TurnHeaders(*start_, start_->num_dropped_tokens));
  for (size_t i = 0; style_.is_chat && i < choices_.size(); ++i) response.body += EventOf(Role(i));
  // Those that ended before any text.
  for (const Choice& choice : choices_) {
    if (!choice.text.empty()) response.body += EventOf(choice.text);
  }
  responder_->Begin(std::move(response));
}

void TextChoices::WriteEvent(const std::string& choice) {
  EnsureBegun();
  responder_->Write(EventOf(choice));
}

void TextChoices::Write(size_t index, const ChoiceText& text) {
  const std::lock_guard<std::mutex> lock(mutex_);
  WriteEvent(TextOf(index, text, nullptr, {}));
}

void TextChoices::End(size_t index, const ChoiceText& text, const char* reason,
                      const TurnEnd& end) {
  const std::lock_guard<std::mutex> lock(mutex_);
  num_tokens_ += end.num_tokens;
  num_thinking_tokens_ += end.num_thinking_tokens.value_or(0);
  num_dropped_tokens_ = std::max(num_dropped_tokens_, end.num_dropped_tokens);
  const TurnStart& start = choices_[index].start;
  Json own;
  if (choices_.size() > 1 && start.is_kept) own["context"] = start.id;
  if (style_.stream) EnsureBegun();
  TakeEnded(index, TextOf(index, text, reason, own));
}

void TextChoices::Fail(size_t index, const ChoiceText& text, const Status& status) {
  const std::lock_guard<std::mutex> lock(mutex_);
  choices_[index].has_failed = true;
  if (!error_) error_ = status;
  if (choices_.size() == 1) {
    --num_open_;
    return EndAnswer();
  }
  Json own = ErrorJson(status);
  own["error"].erase("message");
  TakeEnded(index, TextOf(index, text, "error", own));
}

// `text`: the choice's, with the reason of its end.
void TextChoices::TakeEnded(size_t index, std::string text) {
  choices_[index].text = std::move(text);
  if (begun_) responder_->Write(EventOf(choices_[index].text));
  if (--num_open_ == 0) EndAnswer();
}

void TextChoices::EndAnswer() {
  if (std::ranges::all_of(choices_, &Choice::has_failed)) {
    if (!begun_) return responder_->Send(ErrorResponse(*error_));
    responder_->Write(EventText(ToText(ErrorJson(*error_))));
    return responder_->End();
  }
  if (!style_.stream) {
    std::string choices;
    for (const Choice& choice : choices_) choices += (choices.empty() ? "" : ",") + choice.text;
    std::string body = With(Frame(style_.is_chat ? "chat.completion" : "text_completion"),
                            "choices", "[" + choices + "]");
    body.pop_back();
    body += ",\"usage\":" + ToText(Usage()) + "}";
    return responder_->Send(
        {.headers = TurnHeaders(*start_, num_dropped_tokens_), .body = std::move(body)});
  }
  if (style_.include_usage) {
    Json last = FrameOfEvent();
    last["choices"] = Json::array();
    last["usage"] = Usage();
    responder_->Write(EventText(ToText(last)));
  }
  responder_->Write(std::string(kDoneEvent));
  responder_->End();
}

}  // namespace attndb::server
