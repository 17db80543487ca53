#include "server/llama/completion_answer.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "server/chat/turn_headers.h"
#include "server/http/event_text.h"
#include "server/openai/error.h"

namespace attndb::server {
namespace {

const char* StopTypeOf(llama::FinishReason finish) {
  switch (finish) {
    case llama::FinishReason::kEnd:
      return "eos";
    case llama::FinishReason::kStop:
      return "word";
    case llama::FinishReason::kMaxTokens:
      return "limit";
    case llama::FinishReason::kCancelled:
      break;
  }
  return "none";
}

// Adds how long `count` tokens took, under names that begin with `what`.
void AddTimes(const std::string& what, uint64_t count, double ms, Json* timings) {
  const auto number = static_cast<double>(count);
  (*timings)[what + "_n"] = count;
  (*timings)[what + "_ms"] = ms;
  (*timings)[what + "_per_token_ms"] = count > 0 ? ms / number : 0;
  (*timings)[what + "_per_second"] = ms > 0 ? number / ms * 1e3 : 0;
}

}  // namespace

Json GenerationSettings(const TextRequest& asked) {
  const llama::SamplerOptions& sampler = asked.sampler;
  const int64_t max_tokens = asked.max_tokens ? int64_t{*asked.max_tokens} : -1;
  return {{"seed", sampler.seed},
          {"temperature", sampler.temperature},
          {"top_k", sampler.top_k},
          {"top_p", sampler.top_p},
          {"min_p", sampler.min_p},
          {"repeat_last_n", sampler.repeat_last_n},
          {"repeat_penalty", sampler.repeat_penalty},
          {"presence_penalty", sampler.presence_penalty},
          {"frequency_penalty", sampler.frequency_penalty},
          {"stop", asked.stop},
          {"max_tokens", max_tokens},
          {"n_predict", max_tokens},
          {"ignore_eos", asked.ignore_end},
          {"stream", asked.stream},
          {"n_probs", asked.chances.num_likeliest},
          {"post_sampling_probs", asked.chances.after_samplers},
          {"grammar", asked.grammar},
          {"samplers", {"penalties", "top_k", "top_p", "min_p", "temperature"}}};
}

Json LlamaAnswer::Timings(const TurnEnd& end) const {
  const double prompt_ms = end.first_token_seconds * 1e3;
  const double all_ms = (MonotonicSeconds() - style_.received_seconds) * 1e3;
  Json timings = {{"cache_n", start_.num_cached_tokens}};
  AddTimes("prompt", start_.num_run_tokens, prompt_ms, &timings);
  AddTimes("predicted", end.num_tokens, end.num_tokens > 0 ? all_ms - prompt_ms : 0, &timings);
  return timings;
}

void LlamaAnswer::AddProbabilities(Json* object) {
  if (probs_.empty()) return;
  (*object)["completion_probabilities"] = ReadOwnJson(probs_.Take())["content"];
}

void LlamaAnswer::OnChances(std::vector<llama::ReplyToken> tokens) {
  for (const llama::ReplyToken& token : tokens) tokens_.push_back(token.token);
  num_seen_ += tokens.size();
  if (style_.logprobs != LogprobForm::kNone) probs_.Add(tokens);
}

Json LlamaAnswer::Whole(const TurnEnd& end, const std::string& content) {
  Json whole = {{"index", style_.index},
                {"content", content},
                {"tokens", style_.stream ? std::vector<TokenId>() : end.tokens},
                {"id_slot", 0},
                {"stop", true},
                {"model", style_.model},
                {"tokens_predicted", end.num_tokens},
                {"tokens_evaluated", start_.num_prompt_tokens},
                {"generation_settings", style_.settings},
                {"prompt", style_.prompt},
                {"has_new_line", has_new_line_},
                {"truncated", end.num_dropped_tokens > 0},
                {"stop_type", StopTypeOf(end.finish)},
                {"stopping_word", end.stop},
                {"tokens_cached", start_.num_prompt_tokens + end.num_tokens},
                {"timings", Timings(end)}};
  AddProbabilities(&whole);
  if (style_.names_context && start_.is_kept) whole["attndb"] = {{"context", start_.id}};
  return whole;
}

void LlamaAnswer::Write(const Json& event) {
  std::string text = EventText(ToText(event));
  if (std::exchange(begun_, true)) return responder_->Write(std::move(text));
  Response response = StreamHead(TurnHeaders(start_, start_.num_dropped_tokens));
  response.body = std::move(text);
  responder_->Begin(std::move(response));
}

void LlamaAnswer::OnDelta(const ReplyDelta& delta) {
  has_new_line_ = has_new_line_ || delta.content.find('\n') != std::string::npos;
  if (!style_.stream) {
    text_ += delta.content;
    return;
  }
  WriteText(delta.content);
}

void LlamaAnswer::WriteText(const std::string& content) {
  Json event = {{"index", style_.index},
                {"content", content},
                {"tokens", std::exchange(tokens_, {})},
                {"stop", false},
                {"id_slot", 0},
                {"tokens_predicted", ++num_events_},
                {"tokens_evaluated", start_.num_prompt_tokens}};
  AddProbabilities(&event);
  Write(event);
}

void LlamaAnswer::OnEnd(const TurnEnd& end, size_t /*num_calls*/) {
  if (!style_.stream) {
    return responder_->Send({.headers = TurnHeaders(start_, end.num_dropped_tokens),
                             .body = ToText(Whole(end, text_))});
  }
  // The client has not got the ids of a stop string's tokens and of the end token yet.
  const size_t num_seen = std::min(num_seen_, end.tokens.size());
  tokens_.insert(tokens_.end(), end.tokens.begin() + static_cast<ptrdiff_t>(num_seen),
                 end.tokens.end());
  if (!tokens_.empty()) WriteText("");
  Write(Whole(end, ""));
  responder_->End();
}

void LlamaAnswer::OnError(const Status& status) {
  if (!begun_) return responder_->Send(ErrorResponse(status));
  responder_->Write(EventText(ToText(ErrorJson(status))));
  responder_->End();
}

}  // namespace attndb::server
