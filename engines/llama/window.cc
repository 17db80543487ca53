#include "engines/llama/window.h"

#include <algorithm>
#include <optional>
#include <string>

#include "attndb/units.h"

namespace attndb::llama {
namespace {

// The tokens that are left of a full window.
uint64_t TokensLeft(const WindowOptions& window) {
  return static_cast<uint64_t>(static_cast<double>(window.window_tokens) * window.keep_ratio);
}

// Whether one of the ranges has all of `range`.
bool IsWithin(const TokenRange& range, std::span<const TokenRange> ranges) {
  return std::ranges::any_of(ranges, [&range](const TokenRange& other) {
    return other.begin <= range.begin && range.end <= other.end;
  });
}

}  // namespace

uint64_t NumTokensOf(std::span<const TokenRange> ranges) {
  uint64_t count = 0;
  for (const TokenRange& range : ranges) count += range.end - range.begin;
  return count;
}

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

uint64_t ReusableTokens(const WindowOptions& window, std::span<const Cut> cuts, uint64_t num_tokens,
                        const PromptSize& prompt) {
  uint64_t num_dropped = 0;
  std::optional<uint64_t> lost_at;  // The first time that tokens left that the prompt has.
  for (const Cut& cut : cuts) {
    if (cut.at > num_tokens) continue;  // Crop takes it back.
    for (const TokenRange& range : cut.dropped) {
      num_dropped += range.end - range.begin;
      if (!lost_at && !IsWithin(range, prompt.left_out)) lost_at = cut.at;
    }
  }
  if (!lost_at) return num_tokens;
  // A window that drops tokens leaves as many as TokensLeft, and that only if the prompt is longer
  // than the window.
  const bool lacks_tokens = window.window_tokens == 0 ||
                            prompt.num_tokens <= window.window_tokens ||
                            num_tokens - num_dropped < TokensLeft(window);
  return lacks_tokens ? *lost_at - 1 : num_tokens;
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
