#include "store/segment_registry.h"

#include <algorithm>

#include "storage/vfs/store_files.h"
#include "store/catalog/model_identity.h"
#include "store/non_finite.h"

namespace attndb::store {

storage::KvShape ShapeOf(const ModelSpec& spec) {
  storage::KvShape shape;
  shape.dtype = spec.kv_dtype;
  for (const LayerSpec& layer : spec.layers) {
    shape.layers.push_back({layer.num_kv_heads, layer.head_dim, layer.v_head_dim});
  }
  return shape;
}

Result<storage::SegmentIdentity> SegmentRegistry::IdentityOf(ModelId model) {
  const auto key = static_cast<int64_t>(model);
  {
    MutexLock lock(&mutex_);
    const auto found = identities_.find(key);
    if (found != identities_.end()) return found->second;
  }
  ATTNDB_ASSIGN_OR_RETURN(const ModelSpec spec, catalog_->owners()->GetModel(model));
  storage::SegmentIdentity identity;
  identity.store_uuid = catalog_->store_uuid();
  identity.model_identity = EncodeModel(spec).identity;
  identity.shape = ShapeOf(spec);
  MutexLock lock(&mutex_);
  identities_.emplace(key, identity);
  return identity;
}

Result<storage::SegmentExpectation> SegmentRegistry::Expect(const SegmentRecord& record) {
  storage::SegmentExpectation expected;
  ATTNDB_ASSIGN_OR_RETURN(expected.identity, IdentityOf(record.model));
  expected.identity.segment_id = static_cast<uint64_t>(record.id);
  expected.identity.first_position = record.first_position;
  expected.identity.num_tokens = record.num_tokens;
  expected.root_hash = record.root_hash;
  return expected;
}

Result<std::shared_ptr<storage::Segment>> SegmentRegistry::OpenAfresh(const SegmentRecord& record) {
  ATTNDB_ASSIGN_OR_RETURN(const storage::SegmentExpectation expected, Expect(record));
  return storage::Segment::Open(file_system_, dir_, expected, budget_);
}

Result<std::shared_ptr<storage::Segment>> SegmentRegistry::Get(const SegmentRecord& record) {
  {
    MutexLock lock(&mutex_);
    const auto found = open_.find(record.id);
    if (found != open_.end()) {
      found->second.last_use = ++num_uses_;
      return found->second.segment;
    }
  }
  ATTNDB_ASSIGN_OR_RETURN(SegmentPtr segment, OpenAfresh(record));
  std::vector<SegmentPtr> idle;  // Destroyed after the lock is gone.
  MutexLock lock(&mutex_);
  const auto opened = open_.emplace(record.id, OpenSegment{std::move(segment)});
  opened.first->second.last_use = ++num_uses_;
  segment = opened.first->second.segment;  // The first opening wins.
  idle = Shrink();
  return segment;
}

std::vector<SegmentRegistry::SegmentPtr> SegmentRegistry::Shrink() {
  std::vector<SegmentPtr> idle;
  if (open_.size() <= kMaxIdle) return idle;
  std::vector<std::pair<uint64_t, SegmentId>> unused;
  for (const auto& [id, open] : open_) {
    // Nobody can begin to use one meanwhile: that takes Get, and the lock.
    if (open.segment.use_count() == 1) unused.emplace_back(open.last_use, id);
  }
  std::sort(unused.begin(), unused.end());
  // Some more than needed, so that not every opening looks at all of them.
  const size_t num_needed = open_.size() - kMaxIdle * 3 / 4;
  unused.resize(std::min(unused.size(), num_needed));
  for (const auto& [last_use, id] : unused) {
    const auto found = open_.find(id);
    idle.push_back(std::move(found->second.segment));
    open_.erase(found);
  }
  return idle;
}

bool SegmentRegistry::InUse(SegmentId id) const {
  MutexLock lock(&mutex_);
  const auto found = open_.find(id);
  return found != open_.end() && found->second.segment.use_count() > 1;
}

size_t SegmentRegistry::num_open() const {
  MutexLock lock(&mutex_);
  return open_.size();
}

void SegmentRegistry::Forget(SegmentId id) {
  SegmentPtr segment;  // Destroyed after the lock is gone.
  MutexLock lock(&mutex_);
  const auto found = open_.find(id);
  if (found == open_.end()) return;
  segment = std::move(found->second.segment);
  open_.erase(found);
}

Status SegmentRegistry::Write(storage::SegmentSource* source, SegmentRecord* record) {
  ATTNDB_ASSIGN_OR_RETURN(record->id, catalog_->segments()->ReserveId());
  storage::SegmentWriteOptions write;
  write.file_system = file_system_;
  write.dir = dir_;
  ATTNDB_ASSIGN_OR_RETURN(write.identity, IdentityOf(record->model));
  write.identity.segment_id = static_cast<uint64_t>(record->id);
  write.identity.first_position = record->first_position;
  write.identity.num_tokens = record->num_tokens;
  ATTNDB_ASSIGN_OR_RETURN(const storage::WrittenSegment written,
                          storage::WriteSegment(write, source));
  record->file_bytes = written.file_bytes;
  record->query_bytes = written.query_bytes;
  record->root_hash = written.root_hash;
  record->non_finite = EncodeNonFinite(written.non_finite);
  return Status::Ok();
}

void SegmentRegistry::Discard(SegmentId id) {
  Forget(id);
  // If the removal fails the file is an orphan, which the next open removes.
  (void)storage::RemoveSegment(file_system_, dir_, static_cast<uint64_t>(id));
}

}  // namespace attndb::store
