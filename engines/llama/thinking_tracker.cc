#include "engines/llama/thinking_tracker.h"

#include <algorithm>
#include <cctype>
#include <utility>

#include "engines/llama/utf8_bytes.h"

namespace attndb::llama {
namespace {

constexpr size_t kMostCharBytes = 4;

std::vector<std::string> WithoutEmpty(std::vector<std::string> marks) {
  std::erase_if(marks, [](const std::string& mark) { return mark.empty(); });
  return marks;
}

size_t KeptBytes(const std::vector<std::string>& starts, const std::vector<std::string>& ends) {
  size_t most = kMostCharBytes;
  for (const auto* const marks : {&starts, &ends}) {
    for (const std::string& mark : *marks) most = std::max(most, mark.size());
  }
  return most - 1;
}

size_t NumBlank(std::string_view text) {
  const auto is_space = [](char c) { return std::isspace(static_cast<unsigned char>(c)) != 0; };
  return static_cast<size_t>(std::ranges::find_if_not(text, is_space) - text.begin());
}

}  // namespace

ThinkingTracker::ThinkingTracker(ThinkingMarks marks, std::optional<uint32_t> budget,
                                 std::vector<TokenId> end_tokens)
    : only_in_front_(marks.only_in_front),
      starts_(WithoutEmpty({std::move(marks.start)})),
      ends_(WithoutEmpty(std::move(marks.ends))),
      end_tokens_(std::move(end_tokens)),
      budget_(end_tokens_.empty() ? std::nullopt : budget),
      kept_bytes_(KeptBytes(starts_, ends_)) {}

void ThinkingTracker::TakeBefore(std::string_view piece) {
  Follow(Append(piece), /*may_begin=*/true);
  ForgetOldText();
}

void ThinkingTracker::Take(std::string_view piece, bool may_begin) {
  if (num_blank_bytes_ == num_reply_bytes_) num_blank_bytes_ += NumBlank(piece);
  num_reply_bytes_ += piece.size();
  const size_t begin = Append(piece);
  const bool thought = thinks();
  has_ended_ = false;
  if (state_ == State::kForcing) {
    TakeForced(begin);
  } else {
    Follow(begin, may_begin);
  }
  CountThinking(thought);
  ForgetOldText();
}

// Earlier tokens of a mark that ends now were counted as thinking: nobody knew.
void ThinkingTracker::CountThinking(bool thought) {
  if (has_ended_) {
    const size_t num_before = num_end_tokens_ > 0 ? num_end_tokens_ - 1 : 0;
    num_thinking_tokens_ -= std::min<uint64_t>(num_before, num_since_begin_);
    num_since_begin_ = 0;
  } else if (thought) {
    ++num_thinking_tokens_;
    ++num_since_begin_;
  }
}

void ThinkingTracker::End() {
  if (state_ == State::kThinking && !end_tokens_.empty()) UseUp();
}

void ThinkingTracker::GiveUp() {
  state_ = State::kThinking;
  left_.reset();
}

std::optional<TokenId> ThinkingTracker::forced() const {
  if (state_ != State::kForcing) return std::nullopt;
  return end_tokens_[num_forced_];
}

size_t ThinkingTracker::Append(std::string_view piece) {
  text_ += piece;
  sizes_.push_back(piece.size());
  return text_.size() - piece.size();
}

// Takes what the token at `begin` ends and begins.
void ThinkingTracker::Follow(size_t begin, bool may_begin) {
  bool has_mark = false;
  while (true) {
    const bool thought = thinks();
    const std::optional<Found> found = FindMark(thought ? ends_ : starts_, begin);
    if (!found || (!thought && !(may_begin && MayBegin(*found)))) break;
    has_mark = true;
    num_used_ = found->end;
    if (thought) {
      state_ = State::kOutside;
      has_ended_ = true;
      num_end_tokens_ = NumTokensBehind(found->begin);
    } else {
      Begin();
    }
  }
  if (!has_mark) Count();
}

// The model gets all of the tokens, also if a message before the mark has a mark, too.
void ThinkingTracker::TakeForced(size_t begin) {
  const std::optional<Found> found = FindMark(ends_, begin);
  num_end_tokens_ = found ? NumTokensBehind(found->begin) : 0;
  if (found) num_used_ = found->end;
  if (++num_forced_ < end_tokens_.size()) return;
  state_ = State::kOutside;
  has_ended_ = true;
}

void ThinkingTracker::Begin() {
  state_ = State::kThinking;
  left_ = budget_;
  if (left_ == 0) UseUp();
}

void ThinkingTracker::Count() {
  if (state_ == State::kThinking && left_) {
    if (--*left_ == 0) UseUp();
  } else if (state_ == State::kInCharacter) {
    ++num_waited_;
    UseUp();
  }
}

// A model that never ends a character is not waited for.
void ThinkingTracker::UseUp() {
  const bool is_inside = WholeUtf8Bytes(text_) < text_.size();
  if (state_ != State::kInCharacter) num_waited_ = 0;
  state_ = is_inside && num_waited_ + 1 < kMostCharBytes ? State::kInCharacter : State::kForcing;
  num_forced_ = 0;
}

std::optional<ThinkingTracker::Found> ThinkingTracker::FindMark(
    const std::vector<std::string>& marks, size_t begin) const {
  std::optional<Found> first;
  for (const std::string& mark : marks) {
    const size_t from = begin - std::min(begin, mark.size() - 1);
    const size_t at = text_.find(mark, std::max(from, num_used_));
    if (at == std::string::npos) continue;
    const Found found = {.begin = at, .end = at + mark.size()};
    if (!first || found.end < first->end ||
        (found.end == first->end && found.begin < first->begin)) {
      first = found;
    }
  }
  return first;
}

bool ThinkingTracker::MayBegin(const Found& mark) const {
  if (!only_in_front_) return true;
  const uint64_t num_behind = text_.size() - mark.begin;  // Bytes from the mark on.
  return num_reply_bytes_ <= num_blank_bytes_ + num_behind;
}

size_t ThinkingTracker::NumTokensBehind(size_t begin) const {
  size_t count = 0;
  size_t token_begin = text_.size();
  for (auto size = sizes_.rbegin(); size != sizes_.rend() && token_begin > begin; ++size) {
    token_begin -= *size;
    ++count;
  }
  return count;
}

void ThinkingTracker::ForgetOldText() {
  while (!sizes_.empty() && text_.size() - sizes_.front() >= kept_bytes_) {
    text_.erase(0, sizes_.front());
    num_used_ -= std::min(num_used_, sizes_.front());
    sizes_.pop_front();
  }
}

}  // namespace attndb::llama
