// SessionImpl: tokens that leave, and positions that the engine and the session count differently.
#include <utility>

#include "common/check.h"
#include "session/session_impl.h"
#include "session/view_check.h"

namespace attndb::internal {

uint64_t SessionImpl::NumSeen(TokenRange tokens) const {
  uint64_t count = 0;
  ForEachSeen(tokens, [&count](TokenRange part, uint32_t) { count += part.end - part.begin; });
  return count;
}

uint64_t SessionImpl::SeenToken(uint64_t i) const {
  uint64_t token = 0;
  uint64_t seen = 0;
  ForEachSeen({0, kMaxSessionTokens}, [&](TokenRange part, uint32_t) {
    if (i >= seen) token = part.begin + (i - seen);
    seen += part.end - part.begin;
  });
  return token;
}

Status SessionImpl::MakeTurns() {
  if (turns_) return Status::Ok();
  ATTNDB_ASSIGN_OR_RETURN(turns_, TurnTables::Of(spec_));
  return Status::Ok();
}

void SessionImpl::FollowTruncation() {
  if (next_position() < 0) position_shift_ = 0;
  if (!turns_) return;
  turns_->SetMoves(truncation_.moves());
  turns_->SetShift(position_shift_);
}

Status SessionImpl::DropOldest(uint64_t n, const DropOptions& options) {
  ATTNDB_RETURN_IF_ERROR(CheckComplete());
  ATTNDB_RETURN_IF_ERROR(chain_.CheckIsOnePrompt());
  ATTNDB_RETURN_IF_ERROR(MakeTurns());
  ATTNDB_RETURN_IF_ERROR(truncation_.Drop(n, options, num_tokens()));
  FollowTruncation();
  return Status::Ok();
}

Status SessionImpl::Lose(const attndb::Cut& cut) {
  ATTNDB_CHECK(cut.at == num_tokens());
  ATTNDB_RETURN_IF_ERROR(MakeTurns());
  std::vector<attndb::Cut> cuts = truncation_.cuts();
  cuts.push_back(cut);
  truncation_ = Truncation(std::move(cuts));
  FollowTruncation();
  return Status::Ok();
}

Status SessionImpl::Rebase(int64_t position) {
  ATTNDB_RETURN_IF_ERROR(CheckComplete());
  ATTNDB_RETURN_IF_ERROR(CheckFirstPosition(position));
  ATTNDB_RETURN_IF_ERROR(MakeTurns());
  position_shift_ = chain_.PositionAfter(num_tokens()) - position;
  FollowTruncation();
  return Status::Ok();
}

}  // namespace attndb::internal
