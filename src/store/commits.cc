#include "store/commits.h"

namespace attndb::store {
namespace {

// Whether a commit with this status was refused before anything of it was written.
bool IsRefused(StatusCode code) {
  switch (code) {
    case StatusCode::kInvalidArgument:
    case StatusCode::kNotFound:
    case StatusCode::kAlreadyExists:
    case StatusCode::kFailedPrecondition:
    case StatusCode::kReadOnly:
      return true;
    default:
      return false;
  }
}

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

void Commits::Ended(std::optional<SegmentId> segment, const Status& status) {
  if (!status.ok()) {
    if (!segment) return;
    // Once the log is empty no opener can find the commit in it: a full disk gets its room back.
    if (IsRefused(status.code()) || catalog_->EmptyLog()) return registry_->Discard(*segment);
    registry_->Forget(*segment);
    doubtful_.insert(*segment);
    return;
  }
  for (const SegmentId id : doubtful_) {
    if (catalog_->segments()->Get(id).status().code() == StatusCode::kNotFound) {
      registry_->Discard(id);
    }
  }
  doubtful_.clear();
}

}  // namespace attndb::store
