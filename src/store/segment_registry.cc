#include "store/segment_registry.h"

#include <algorithm>

#include "common/check.h"
#include "common/position_turns.h"
#include "common/rope_frequencies.h"
#include "storage/vfs/store_files.h"
#include "store/catalog/model_identity.h"
#include "store/non_finite.h"

namespace attndb::store {

namespace {

// How keys of the layer are turned, shared with an earlier layer of the same RoPE; null: it has
// none. `before` has the layers before it.
std::shared_ptr<const PositionTurns> TurnsOfLayer(const ModelSpec& spec, LayerId layer,
                                                  const storage::KvShape& before) {
  const LayerSpec& shape = spec.layers[layer];
  for (LayerId other = 0; other < layer; ++other) {
    const LayerSpec& like = spec.layers[other];
    if (like.rope == shape.rope && like.head_dim == shape.head_dim) {
      return before.layers[other].key_turns;
    }
  }
  Result<std::vector<double>> frequencies = RopeFrequencies(shape.rope, shape.head_dim);
  ATTNDB_CHECK(frequencies.ok());  // ModelSpec::Validate sees to it.
  if (frequencies->empty()) return nullptr;
  return std::make_shared<const PositionTurns>(*std::move(frequencies));
}

}  // namespace

storage::KvShape ShapeOf(const ModelSpec& spec) {
  storage::KvShape shape;
  shape.dtype = spec.kv_dtype;
  for (LayerId id = 0; id < spec.num_layers(); ++id) {
    const LayerSpec& layer = spec.layers[id];
    shape.layers.push_back({layer.num_kv_heads, layer.head_dim, layer.v_head_dim,
                            spec.unrotated_keys ? TurnsOfLayer(spec, id, shape) : nullptr});
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

Status SegmentRegistry::CheckFiles(SegmentId id, uint64_t file_bytes) const {
  return storage::CheckObjectFiles(file_system_, dir_, {.segment_id = static_cast<uint64_t>(id)},
                                   file_bytes);
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
  ATTNDB_RETURN_IF_ERROR(MakeLoose(record->id));
  const Result<storage::WrittenSegment> result = storage::WriteSegment(write, source);
  if (!result.ok()) (void)Discard(record->id);
  ATTNDB_RETURN_IF_ERROR(result.status());
  const storage::WrittenSegment& written = *result;
  record->file_bytes = written.file_bytes;
  record->query_bytes = written.query_bytes;
  record->root_hash = written.root_hash;
  record->non_finite = EncodeNonFinite(written.non_finite);
  return Status::Ok();
}

std::string SegmentRegistry::LoosePath(SegmentId id) const {
  return storage::JoinPath(dir_, storage::LooseNameOf(static_cast<uint64_t>(id)));
}

// Durable with the segment's own names: the folder is synced once, behind both.
Status SegmentRegistry::MakeLoose(SegmentId id) {
  const Result<std::unique_ptr<storage::WritableFile>> mark =
      file_system_->CreateNew(LoosePath(id));
  if (mark.status().code() == StatusCode::kNotFound) {
    return Status::IoError(dir_ + ": was moved, replaced or removed while the store was open: " +
                           mark.status().message());
  }
  ATTNDB_RETURN_IF_ERROR(mark.status());
  return (*mark)->Close();
}

// If the mark stays, or comes back after a power cut, it has no effect on a segment that the
// catalog knows.
void SegmentRegistry::NoteNamed(SegmentId id) { (void)file_system_->Remove(LoosePath(id)); }

Status SegmentRegistry::NoteLoose(SegmentId id) {
  Status status = MakeLoose(id);
  return status.code() == StatusCode::kAlreadyExists ? Status::Ok() : status;
}

bool SegmentRegistry::Discard(SegmentId id) {
  Forget(id);
  // If the removal fails the file is an orphan, which the next open removes.
  if (!storage::RemoveSegment(file_system_, dir_, static_cast<uint64_t>(id)).ok()) return false;
  (void)file_system_->Remove(LoosePath(id));
  return true;
}

}  // namespace attndb::store
