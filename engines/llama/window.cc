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

// The pieces that left the text of a session's tokens. None if the context that the session goes
// on from has been dropped meanwhile.
std::vector<TokenRange> PiecesIn(const DB& db, const Session& session) {
  const auto id = static_cast<int64_t>(session.context_id());
  const Result<ContextInfo> context = db.Describe("#" + std::to_string(id));
  if (!context.ok()) return {};
  return PiecesOf(session.cuts(), context->text_layout);
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

uint64_t UsualKeepFirst(uint64_t num_system, uint64_t window_tokens) {
  const uint64_t most = window_tokens / 4;
  if (num_system > 0 && num_system <= most) return num_system;
  return std::min(WindowOptions().keep_first, most);
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
  std::vector<TokenRange> pieces;
  for (const Cut& cut : cuts) {
    for (const TokenRange& dropped : cut.dropped) {
      for (const TokenRange& left : text.left_out) {
        const TokenRange both = {std::max(dropped.begin, left.begin),
                                 std::min(dropped.end, left.end)};
        if (both.begin < both.end) pieces.push_back(both);
      }
    }
  }
  JoinTouching(&pieces);
  return pieces;
}

uint64_t ReusableTokens(const WindowOptions& window, const LostTokens& lost, uint64_t num_tokens,
                        const PromptSize& prompt) {
  const auto are_within = [](const Cut& cut, std::span<const TokenRange> ranges) {
    return std::ranges::all_of(
        cut.dropped, [ranges](const TokenRange& range) { return IsWithin(range, ranges); });
  };
  uint64_t num_lost = 0;
  std::optional<uint64_t> lost_at;    // The first time that tokens left that the prompt has.
  std::optional<uint64_t> pieces_at;  // The first time that such tokens left as pieces.
  for (const Cut& cut : lost.cuts) {
    if (cut.at > num_tokens) continue;  // Crop takes it back.
    num_lost += NumTokensOf(cut.dropped);
    if (are_within(cut, prompt.left_out)) continue;
    if (!lost_at) lost_at = cut.at;
    if (!pieces_at && are_within(cut, lost.pieces)) pieces_at = cut.at;
  }
  if (!lost_at) return num_tokens;
  // A window that drops tokens leaves as many as TokensLeft, and that only if the prompt is longer
  // than the window.
  const bool lacks_tokens = window.window_tokens == 0 ||
                            prompt.num_tokens <= window.window_tokens ||
                            num_tokens - num_lost < TokensLeft(window);
  if (lacks_tokens) return *lost_at - 1;
  return pieces_at ? *pieces_at - 1 : num_tokens;
}

Result<SessionStart> CreateSessionIn(const WindowOptions& window, const DB& db,
                                     const ModelSpec& spec, std::span<const TokenId> prompt,
                                     SessionOptions options, std::span<const TokenRange> left_out) {
  ATTNDB_ASSIGN_OR_RETURN(SessionStart start, db.CreateSession(spec, prompt, options));
  const Session& session = start.session;
  if (session.cuts().empty()) return start;
  const uint64_t num_tokens = session.num_tokens();
  const PromptSize size = {prompt.size() - NumTokensOf(left_out), left_out};
  const std::vector<TokenRange> pieces = PiecesIn(db, session);
  const LostTokens lost = {session.cuts(), pieces};
  if (ReusableTokens(window, lost, num_tokens, size) == num_tokens) return start;
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
