#include "store/uses.h"

#include <algorithm>
#include <utility>

#include "store/segment_facts.h"

namespace attndb::store {

void Uses::EndUse(ContextId context) {
  parts_.catalog->contexts()->Touch(context);  // Used until now: the TTL counts from here.
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

// Segments that are not removed while this object lives.
class Uses::Opening {
 public:
  explicit Opening(Uses* uses) : uses_(uses) {}
  ~Opening() {
    std::vector<SegmentId> unreferenced;
    {
      MutexLock lock(&uses_->mutex_);
      for (const SegmentId id : segments_) {
        const auto found = uses_->opening_.find(id);
        if (--found->second == 0) uses_->opening_.erase(found);
        if (uses_->unreferenced_.contains(id)) unreferenced.push_back(id);
      }
    }
    uses_->RemoveUnreferenced(unreferenced);  // Segments that could not be opened.
  }
  Opening(const Opening&) = delete;
  Opening& operator=(const Opening&) = delete;

  // False if the segment is being removed.
  bool Add(SegmentId id) {
    MutexLock lock(&uses_->mutex_);
    if (uses_->removing_.contains(id)) return false;
    ++uses_->opening_[id];
    segments_.push_back(id);
    return true;
  }

 private:
  Uses* const uses_;
  std::vector<SegmentId> segments_;
};

Result<std::vector<storage::ChainEntry>> Uses::OpenContext(
    ContextId context, uint64_t num_tokens, std::span<const storage::ChainEntry> have) {
  for (int attempt = 1;; ++attempt) {
    ATTNDB_ASSIGN_OR_RETURN(std::vector<ChainLink> links,
                            parts_.catalog->contexts()->Chain(context));
    uint64_t num_left = num_tokens;
    for (ChainLink& link : links) {
      link.num_tokens_used = std::min(link.num_tokens_used, num_left);
      num_left -= link.num_tokens_used;
    }
    std::erase_if(links, [](const ChainLink& link) { return link.num_tokens_used == 0; });
    Result<std::vector<storage::ChainEntry>> entries = OpenChain(links, have);
    if (entries.status().code() != StatusCode::kNotFound || attempt == kMaxAttempts) return entries;
  }
}

Result<std::vector<storage::ChainEntry>> Uses::OpenChain(
    std::span<const ChainLink> links, std::span<const storage::ChainEntry> have) {
  Opening opening(this);
  std::vector<storage::ChainEntry> entries;
  for (const ChainLink& link : links) {
    const auto found = std::ranges::find_if(have, [&](const storage::ChainEntry& entry) {
      return static_cast<SegmentId>(entry.segment->id()) == link.segment;
    });
    if (found != have.end()) {
      entries.push_back({found->segment, link.num_tokens_used});
      continue;
    }
    if (!opening.Add(link.segment)) {
      return Status::NotFound("a segment of the context is being removed");
    }
    // Its row is there until the files go, which they do not from here on.
    ATTNDB_ASSIGN_OR_RETURN(const SegmentRecord record,
                            parts_.catalog->segments()->Get(link.segment));
    Result<std::shared_ptr<storage::Segment>> segment = parts_.registry->Get(record);
    if (!segment.ok()) {
      // A reading process may be too late: a segment that the writer dropped since is no loss.
      const Status again = parts_.catalog->segments()->Get(link.segment).status();
      if (again.code() == StatusCode::kNotFound) return again;
      return parts_.damage->QuarantineIfDamaged(link.segment, std::move(segment).status());
    }
    parts_.objects->Learn(*segment, FactsOf(record));
    entries.push_back({*std::move(segment), link.num_tokens_used});
  }
  return entries;
}

Result<Uses::OpenedSegment> Uses::OpenSegment(SegmentId id) {
  Opening opening(this);
  if (!opening.Add(id)) {
    return Status::FailedPrecondition("the segment is being removed");
  }
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
  // A run that nobody holds needs no replacement any more. Its merged segment may have been the
  // last holder of a segment of a later run.
  const auto is_unused = [this](const MergedRun& merged) {
    return std::ranges::none_of(
        merged.run, [this](const ChainLink& link) { return parts_.registry->InUse(link.segment); });
  };
  while (parts_.merged_runs->Forget(is_unused) > 0) {
  }
  RemoveUnreferenced(Unreferenced());
}

std::vector<SegmentId> Uses::BeginRemoval(std::span<const SegmentId> segments) {
  MutexLock lock(&mutex_);
  std::vector<SegmentId> removable;
  for (const SegmentId id : segments) {
    // A running job releases the segment soon, and then sweeps.
    parts_.builder->Cancel(static_cast<derived::SegmentId>(id));
    if (opening_.contains(id) || parts_.registry->InUse(id)) {
      unreferenced_.insert(id);
      continue;
    }
    unreferenced_.erase(id);
    if (removing_.insert(id).second) removable.push_back(id);
  }
  return removable;
}

bool Uses::MakeRemovable(SegmentId id) const {
  const Status marked = parts_.registry->NoteLoose(id);
  if (marked.code() != StatusCode::kResourceExhausted) return marked.ok();
  // If the disk has no room for a mark, the files are removed first.
  const Result<SegmentRecord> record = parts_.catalog->segments()->Get(id);
  if (!record.ok()) return false;
  for (const CompanionRecord& companion : record->companions) {
    parts_.object_files->Remove({static_cast<uint64_t>(id), companion.kind, companion.generation});
  }
  return parts_.registry->Discard(id);
}

void Uses::RemoveUnreferenced(std::span<const SegmentId> segments) {
  if (segments.empty() || parts_.catalog->read_only()) return;
  const std::vector<SegmentId> removable = BeginRemoval(segments);
  if (removable.empty()) return;
  // Rows of the others stay until the next open, which forgets them.
  std::vector<SegmentId> rows = removable;
  std::erase_if(rows, [this](SegmentId id) { return !MakeRemovable(id); });
  const Result<std::vector<SegmentRecord>> removed = parts_.catalog->segments()->Remove(rows);
  if (removed.ok()) {  // Else the next open forgets them.
    // A context has come to use the segments that were not removed.
    for (const SegmentId id : rows) {
      const auto is_it = [id](const SegmentRecord& segment) { return segment.id == id; };
      if (std::ranges::none_of(*removed, is_it)) parts_.registry->NoteNamed(id);
    }
    for (const SegmentRecord& segment : *removed) {
      (void)parts_.registry->Discard(segment.id);
      for (const CompanionRecord& companion : segment.companions) {
        parts_.object_files->Remove(
            {static_cast<uint64_t>(segment.id), companion.kind, companion.generation});
      }
    }
  }
  MutexLock lock(&mutex_);
  for (const SegmentId id : removable) removing_.erase(id);
  removed_.NotifyAll();
}

void Uses::AwaitRemovals() {
  MutexLock lock(&mutex_);
  const std::set<SegmentId> now = removing_;
  for (const SegmentId id : now) {
    while (removing_.contains(id)) removed_.Wait(&mutex_);
  }
}

}  // namespace attndb::store
