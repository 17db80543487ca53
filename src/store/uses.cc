#include "store/uses.h"

#include <algorithm>
#include <utility>

#include "store/segment_facts.h"

namespace attndb::store {

void Uses::EndUse(ContextId context) {
  parts_.catalog->contexts()->Touch(context);  // Used until now: what its TTL counts from.
  MutexLock lock(&mutex_);
  const auto found = in_use_.find(context);
  if (--found->second == 0) in_use_.erase(found);
}

std::shared_ptr<const void> Uses::Hold(ContextId context) {
  if (context == ContextId::kNone) return nullptr;
  {
    MutexLock lock(&mutex_);
    ++in_use_[context];
  }
  return std::shared_ptr<const void>(this, [this, context](const void*) { EndUse(context); });
}

std::vector<ContextId> Uses::ContextsInUse() const {
  MutexLock lock(&mutex_);
  std::vector<ContextId> contexts;
  for (const auto& [context, num_sessions] : in_use_) contexts.push_back(context);
  return contexts;
}

Result<std::vector<storage::ChainEntry>> Uses::OpenContext(
    ContextId context, uint64_t num_tokens, std::span<const storage::ChainEntry> have) {
  MutexLock lock(&mutex_);
  ATTNDB_ASSIGN_OR_RETURN(const std::vector<ChainLink> links,
                          parts_.catalog->contexts()->Chain(context));
  std::vector<storage::ChainEntry> entries;
  for (const ChainLink& link : links) {
    if (num_tokens == 0) break;
    const uint64_t num_used = std::min(link.num_tokens_used, num_tokens);
    num_tokens -= num_used;
    const auto found = std::ranges::find_if(have, [&](const storage::ChainEntry& entry) {
      return static_cast<SegmentId>(entry.segment->id()) == link.segment;
    });
    if (found != have.end()) {
      entries.push_back({found->segment, num_used});
      continue;
    }
    ATTNDB_ASSIGN_OR_RETURN(const SegmentRecord record,
                            parts_.catalog->segments()->Get(link.segment));
    Result<std::shared_ptr<storage::Segment>> segment = parts_.registry->Get(record);
    if (!segment.ok()) {
      return parts_.damage->QuarantineIfDamaged(link.segment, std::move(segment).status());
    }
    parts_.objects->Learn(*segment, FactsOf(record));
    entries.push_back({*std::move(segment), num_used});
  }
  return entries;
}

Result<Uses::OpenedSegment> Uses::OpenSegment(SegmentId id) {
  MutexLock lock(&mutex_);
  Result<SegmentRecord> record = parts_.catalog->segments()->Get(id);
  if (record.status().code() == StatusCode::kNotFound) {
    return Status::FailedPrecondition(record.status().message());
  }
  ATTNDB_RETURN_IF_ERROR(record.status());
  ATTNDB_ASSIGN_OR_RETURN(std::shared_ptr<storage::Segment> segment, parts_.registry->Get(*record));
  return OpenedSegment{*std::move(record), std::move(segment)};
}

std::vector<SegmentId> Uses::Unreferenced() const {
  MutexLock lock(&mutex_);
  return {unreferenced_.begin(), unreferenced_.end()};
}

void Uses::Sweep() {
  // What nobody holds any more needs no other in its place. The merged segment of a run that is
  // forgotten may have been the last that held a segment of a later run.
  const auto is_unused = [this](const MergedRun& merged) {
    return std::ranges::none_of(
        merged.run, [this](const ChainLink& link) { return parts_.registry->InUse(link.segment); });
  };
  while (parts_.merged_runs->Forget(is_unused) > 0) {
  }
  RemoveUnreferenced(Unreferenced());
}

void Uses::RemoveUnreferenced(std::span<const SegmentId> segments) {
  if (segments.empty() || parts_.catalog->read_only()) return;
  MutexLock lock(&mutex_);
  std::vector<SegmentId> removable;
  for (const SegmentId id : segments) {
    // A job that is at it lets go soon, and sweeps.
    parts_.builder->Cancel(static_cast<derived::SegmentId>(id));
    if (parts_.registry->InUse(id)) {
      unreferenced_.insert(id);
    } else {
      unreferenced_.erase(id);
      removable.push_back(id);
    }
  }
  if (removable.empty()) return;
  const Result<std::vector<SegmentRecord>> removed = parts_.catalog->segments()->Remove(removable);
  if (!removed.ok()) return;  // The next open forgets them.
  for (const SegmentRecord& segment : *removed) {
    parts_.registry->Discard(segment.id);
    for (const CompanionRecord& companion : segment.companions) {
      parts_.object_files->Remove(
          {static_cast<uint64_t>(segment.id), companion.kind, companion.generation});
    }
  }
}

}  // namespace attndb::store
