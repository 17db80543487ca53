#include "engines/llama/window.h"

#include <algorithm>
#include <string>

#include "attndb/units.h"

namespace attndb::llama {
namespace {

// The tokens that are left of a full window.
uint64_t TokensLeft(const WindowOptions& window) {
  return static_cast<uint64_t>(static_cast<double>(window.window_tokens) * window.keep_ratio);
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

uint64_t ReusableTokens(const WindowOptions& window, std::span<const Cut> cuts, uint64_t num_tokens,
                        uint64_t num_prompt) {
  uint64_t num_dropped = 0;
  for (const Cut& cut : cuts) {
    if (cut.at > num_tokens) continue;  // Crop takes it back.
    for (const TokenRange& range : cut.dropped) num_dropped += range.end - range.begin;
  }
  if (num_dropped == 0) return num_tokens;
  // A window that drops tokens leaves as many as TokensLeft, and that only if the prompt is longer
  // than the window.
  const bool lacks_tokens = window.window_tokens == 0 || num_prompt <= window.window_tokens ||
                            num_tokens - num_dropped < TokensLeft(window);
  return lacks_tokens ? cuts.front().at - 1 : num_tokens;
}

Result<SessionStart> CreateSessionIn(const WindowOptions& window, const DB& db,
                                     const ModelSpec& spec, std::span<const TokenId> prompt,
                                     SessionOptions options) {
  ATTNDB_ASSIGN_OR_RETURN(SessionStart start, db.CreateSession(spec, prompt, options));
  const Session& session = start.session;
  const uint64_t num_tokens = session.num_tokens();
  if (ReusableTokens(window, session.cuts(), num_tokens, prompt.size()) == num_tokens) return start;
  options.truncated = false;
  return db.CreateSession(spec, prompt, options);
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
