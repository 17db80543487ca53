#include "engines/llama/window.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "attndb/units.h"

namespace attndb::llama {
namespace {

// The tokens that are left of a full window.
uint64_t TokensLeft(const WindowOptions& window) {
  return static_cast<uint64_t>(static_cast<double>(window.window_tokens) * window.keep_ratio);
}

}  // namespace

uint64_t NumTokensOf(std::span<const TokenRange> ranges) {
  uint64_t count = 0;
  for (const TokenRange& range : ranges) count += range.end - range.begin;
  return count;
}

namespace {

// Whether one of the ranges has all of `range`.
bool IsWithin(const TokenRange& range, std::span<const TokenRange> ranges) {
  return std::ranges::any_of(ranges, [&range](const TokenRange& other) {
    return other.begin <= range.begin && range.end <= other.end;
  });
}

// Puts ranges in order, and joins those that touch.
void JoinTouching(std::vector<TokenRange>* ranges) {
  std::ranges::sort(*ranges, {}, &TokenRange::begin);
  std::vector<TokenRange> runs;
  for (const TokenRange& range : *ranges) {
    if (runs.empty() || runs.back().end < range.begin) {
      runs.push_back(range);
    } else {
      runs.back().end = std::max(runs.back().end, range.end);
    }
  }
  *ranges = std::move(runs);
}

// Counts the tokens that a session has lost, one cut after another.
class LostTokens {
 public:
  enum class Shape : uint8_t {
    kPieces,  // Several runs.
    kHalf,    // One run, behind which as many tokens are left as a window leaves.
    kRun,     // One run. Another number of tokens is left.
  };

  // `num_left`: what another window may leave.
  Shape Add(const Cut& cut, double keep_ratio, uint64_t num_left) {
    const uint64_t num_before = cut.at - num_lost_;
    num_lost_ += NumTokensOf(cut.dropped);
    runs_.insert(runs_.end(), cut.dropped.begin(), cut.dropped.end());
    JoinTouching(&runs_);
    last_run_ = *std::ranges::find_if(
        runs_, [&cut](const TokenRange& run) { return cut.dropped.front().begin < run.end; });
    if (cut.dropped.back().end > last_run_.end) return Shape::kPieces;
    const uint64_t num_after = cut.at - num_lost_;
    const auto half = static_cast<uint64_t>(static_cast<double>(num_before) * keep_ratio);
    return num_after == half || num_after == num_left ? Shape::kHalf : Shape::kRun;
  }
  uint64_t num_lost() const { return num_lost_; }
  // The first tokens of the last cut, and all lost tokens around them.
  const TokenRange& last_run() const { return last_run_; }

 private:
  uint64_t num_lost_ = 0;
  std::vector<TokenRange> runs_;  // In order, apart.
  TokenRange last_run_;
};

// Whether a window may have dropped the run: it has the first or the last token of a message, or it
// is within one, behind the sink. True if the layout has no messages.
bool MayBeWindows(const TokenRange& run, const TextLayout& text) {
  const auto has = [](const TokenRange& range, uint64_t token) {
    return range.begin <= token && token < range.end;
  };
  const bool is_at_sink = run.begin <= WindowOptions().keep_first;
  return text.messages.empty() || std::ranges::any_of(text.messages, [&](const TextMessage& one) {
           const TokenRange& message = one.tokens;
           return has(run, message.begin) || has(run, message.end - 1) ||
                  (is_at_sink && has(message, run.begin));
         });
}

}  // namespace

uint64_t TokensOfWindow(const Session& session) {
  if (!session.contexts().empty()) return static_cast<uint64_t>(session.next_position());
  return session.num_tokens() - session.num_dropped();
}

uint64_t TokensInFront(const Session& session) {
  uint64_t first = session.num_tokens();
  for (const Cut& cut : session.cuts()) {
    for (const TokenRange& range : cut.dropped) first = std::min(first, range.begin);
  }
  return first;
}

Status WindowOptions::Validate() const {
  if (window_tokens == 0) return Status::Ok();
  if (!(keep_ratio > 0.0 && keep_ratio < 1.0)) {
    return Status::InvalidArgument("keep_ratio is " + std::to_string(keep_ratio) +
                                   ", expected more than 0 and less than 1");
  }
  const uint64_t left = TokensLeft(*this);
  if (left < 2 || keep_first >= left) {
    return Status::InvalidArgument("a window of " + Counted(window_tokens, "token") + " has " +
                                   FormatCount(left) +
                                   " left when its oldest leave, expected more than keep_first, " +
                                   FormatCount(keep_first) + ", and 2 at least");
  }
  return Status::Ok();
}

std::vector<TokenRange> PiecesOf(std::span<const Cut> cuts, const TextLayout& text) {
  using Shape = LostTokens::Shape;
  LostTokens lost;
  std::vector<TokenRange> pieces;
  for (const Cut& cut : cuts) {
    const Shape shape = lost.Add(cut, WindowOptions().keep_ratio, UINT64_MAX);
    const bool is_windows =
        shape == Shape::kHalf || (shape == Shape::kRun && MayBeWindows(lost.last_run(), text));
    if (!is_windows) pieces.insert(pieces.end(), cut.dropped.begin(), cut.dropped.end());
  }
  JoinTouching(&pieces);
  return pieces;
}

uint64_t ReusableTokens(const WindowOptions& window, std::span<const Cut> cuts, uint64_t num_tokens,
                        const PromptSize& prompt) {
  LostTokens lost;
  std::optional<uint64_t> lost_at;    // The first time that tokens left that the prompt has.
  std::optional<uint64_t> pieces_at;  // The first time that such tokens left as pieces.
  for (const Cut& cut : cuts) {
    if (cut.at > num_tokens) continue;  // Crop takes it back.
    const auto shape = lost.Add(cut, window.keep_ratio, TokensLeft(window));
    const bool is_left_out = std::ranges::all_of(cut.dropped, [&prompt](const TokenRange& range) {
      return IsWithin(range, prompt.left_out);
    });
    if (is_left_out) continue;
    if (!lost_at) lost_at = cut.at;
    if (!pieces_at && shape != LostTokens::Shape::kHalf) pieces_at = cut.at;
  }
  if (!lost_at) return num_tokens;
  // A window that drops tokens leaves as many as TokensLeft, and that only if the prompt is longer
  // than the window.
  const bool lacks_tokens = window.window_tokens == 0 ||
                            prompt.num_tokens <= window.window_tokens ||
                            num_tokens - lost.num_lost() < TokensLeft(window);
  if (lacks_tokens) return *lost_at - 1;
  return pieces_at ? *pieces_at - 1 : num_tokens;
}

Result<SessionStart> CreateSessionIn(const WindowOptions& window, const DB& db,
                                     const ModelSpec& spec, std::span<const TokenId> prompt,
                                     SessionOptions options, std::span<const TokenRange> left_out) {
  ATTNDB_ASSIGN_OR_RETURN(SessionStart start, db.CreateSession(spec, prompt, options));
  const Session& session = start.session;
  const uint64_t num_tokens = session.num_tokens();
  const PromptSize size = {prompt.size() - NumTokensOf(left_out), left_out};
  if (ReusableTokens(window, session.cuts(), num_tokens, size) == num_tokens) return start;
  options.truncated = false;
  return db.CreateSession(spec, prompt, options);
}

Status LeaveOut(std::span<const TokenRange> left_out, Session* session) {
  const uint64_t num_tokens = session->num_tokens();
  DropOptions options;
  options.keep_first = std::min(left_out.front().begin, TokensInFront(*session));
  uint64_t kept = options.keep_first;  // From here on, tokens stay.
  uint64_t num_left = NumTokensOf(left_out);
  for (const TokenRange& range : left_out) {
    if (kept < range.begin) options.keep.push_back({kept, range.begin});
    kept = range.end;
  }
  if (kept >= num_tokens) {
    return Status::InvalidArgument("the session has " + Counted(num_tokens, "token") +
                                   ", expected more than the " + FormatCount(kept) +
                                   " up to the end of what leaves");
  }
  options.keep.push_back({kept, num_tokens});
  for (const Cut& cut : session->cuts()) {
    for (const TokenRange& range : cut.dropped) {
      for (const TokenRange& left : left_out) {
        const uint64_t begin = std::max(range.begin, left.begin);
        num_left -= std::max(begin, std::min(range.end, left.end)) - begin;
      }
    }
  }
  return session->DropOldest(num_left, options);
}

Status CropTo(uint64_t num_tokens, Session* session) {
  ATTNDB_RETURN_IF_ERROR(session->Crop(num_tokens));
  const auto position = static_cast<int64_t>(num_tokens);
  const bool is_moved = session->num_dropped() == 0 && session->next_position() != position;
  return is_moved ? session->Rebase(position) : Status::Ok();
}

Result<uint64_t> MakeRoom(const WindowOptions& window, uint64_t num_new, Session* session) {
  ATTNDB_RETURN_IF_ERROR(window.Validate());
  if (window.window_tokens == 0) return num_new;
  uint64_t taken = TokensOfWindow(*session);
  if (taken >= window.window_tokens) {
    const uint64_t left = TokensLeft(window);
    DropOptions options;
    options.keep_first = std::min(window.keep_first, TokensInFront(*session));
    ATTNDB_RETURN_IF_ERROR(session->DropOldest(taken - left, options));
    taken = left;
  }
  const uint64_t room = std::min(num_new, window.window_tokens - taken);
  const auto position = static_cast<uint64_t>(session->next_position());
  if (session->num_dropped() > 0 && position + room > window.window_tokens) {
    ATTNDB_RETURN_IF_ERROR(session->Rebase(static_cast<int64_t>(taken)));
  }
  return room;
}

}  // namespace attndb::llama
