#include "server/routes/counted_answer.h"

#include <algorithm>

#include "server/openai/error.h"

namespace attndb::server {

TurnStart NotedEnd::Start(TurnStart start) {
  start.found = found_;
  const std::lock_guard<std::mutex> lock(mutex_);
  if (start_.id.empty()) start_ = start;
  return start;
}

void NotedEnd::End(const CallEnd& choice) {
  const std::lock_guard<std::mutex> lock(mutex_);
  // The call has succeeded if a choice has.
  end_.status = has_end_ ? std::min(end_.status, choice.status) : choice.status;
  has_end_ = true;
  end_.num_reply_tokens += choice.num_reply_tokens;
  end_.first_token_seconds = std::max(end_.first_token_seconds, choice.first_token_seconds);
  if (--num_open_ > 0) return;
  end_.num_prompt_tokens = start_.num_prompt_tokens;
  end_.num_cached_tokens = start_.num_cached_tokens;
  end_.num_cut_tokens = start_.num_cut_tokens;
  end_.parted = start_.parted;
  end_.num_ignored_lines = num_ignored_lines_;
  NoteEnd(service_, call_, end_);
  call_.place.Free();  // The client may ask again at once.
}

void NotedAnswer::OnEnd(const TurnEnd& end, size_t num_calls) {
  // The call's end is noted once, before the writer ends the answer.
  const Status status = writer_->CheckEnd();
  if (!status.ok()) return OnError(status);
  end_->End({.num_reply_tokens = end.num_tokens, .first_token_seconds = end.first_token_seconds});
  writer_->OnEnd(end, num_calls);
}

void NotedAnswer::OnError(const Status& status) {
  end_->End({.status = HttpStatusOf(status),
             .num_reply_tokens = num_reply_tokens_.load(std::memory_order_relaxed)});
  writer_->OnError(status);
}

void CountedAnswer::OnStart(const TurnStart& start) {
  if (kept_ != nullptr) kept_->start = start;
  if (counts_prompt_) {
    metrics_->num_prompt_tokens += start.num_prompt_tokens;
    metrics_->num_cached_tokens += start.num_cached_tokens;
  }
  reader_.OnStart(start);
}

void CountedAnswer::OnText(std::string_view text) {
  if (kept_ != nullptr) kept_->text += text;
  reader_.OnText(text);
}

void CountedAnswer::OnToken(double seconds) {
  ++metrics_->num_reply_tokens;
  answer_->CountToken();
  Histogram* const times =
      std::exchange(has_token_, true) ? &metrics_->token_seconds : &metrics_->first_token_seconds;
  times->Add(seconds);
}

}  // namespace attndb::server
