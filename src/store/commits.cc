#include "store/commits.h"

#include <algorithm>
#include <array>

namespace attndb::store {
namespace {

// The errors of a commit that was refused before it wrote anything.
constexpr std::array kRefusals = {StatusCode::kInvalidArgument, StatusCode::kNotFound,
                                  StatusCode::kAlreadyExists, StatusCode::kFailedPrecondition,
                                  StatusCode::kReadOnly};

bool IsRefused(StatusCode code) { return std::ranges::count(kRefusals, code) > 0; }

}  // namespace

Status Commits::Expire() {
  MutexLock lock(&mutex_);
  ATTNDB_ASSIGN_OR_RETURN(const bool any, catalog_->contexts()->AnyExpired());
  if (!any) return Status::Ok();
  ATTNDB_ASSIGN_OR_RETURN(const DropOutcome outcome,
                          catalog_->contexts()->Expire(uses_->ContextsInUse()));
  uses_->RemoveUnreferenced(outcome.unreferenced);
  return Status::Ok();
}

void Commits::Ended(std::optional<SegmentId> segment, std::span<const SegmentRecord> sealed,
                    const Status& status) {
  if (!status.ok()) {
    // Once the log is empty no opener can find the commit in it: a full disk gets its room back.
    if (IsRefused(status.code()) || catalog_->EmptyLog()) {
      if (segment) (void)registry_->Discard(*segment);
      return;
    }
    if (segment) doubtful_.insert(*segment);
    for (const SegmentRecord& before : sealed) doubtful_.insert(before.id);
    if (segment) registry_->Forget(*segment);
    return;
  }
  if (segment) registry_->NoteNamed(*segment);
  for (const SegmentRecord& before : sealed) registry_->NoteNamed(before.id);
  std::erase_if(doubtful_, [this](SegmentId id) {
    if (catalog_->segments()->Get(id).status().code() != StatusCode::kNotFound) {
      registry_->NoteNamed(id);
      return true;
    }
    if (registry_->InUse(id)) return false;  // Its holder may try to store it again.
    (void)registry_->Discard(id);
    return true;
  });
}

void Commits::Abandon(SegmentId segment) {
  if (!doubtful_.contains(segment)) (void)registry_->Discard(segment);
}

}  // namespace attndb::store
