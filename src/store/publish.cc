// ContextStore: sealing what follows a stored chain, and publishing the whole.
#include <algorithm>
#include <utility>

#include "storage/kv/kv_layout.h"
#include "storage/kv/segment_writer.h"
#include "store/catalog/names.h"
#include "store/catalog/ttl.h"
#include "store/context_store.h"
#include "store/non_finite.h"

namespace attndb::store {

Result<Stored> ContextStore::Store(const StoreRequest& request) {
  ATTNDB_RETURN_IF_ERROR(CheckWritable());
  Result<Stored> stored = StoreOnce(request);
  if (stored.status().code() != StatusCode::kResourceExhausted) return stored;
  if (IsDiskFull(request)) {
    GiveUpObjects();  // They can be made again.
  } else {
    EndDroppedBuilds();
  }
  AwaitMerge();
  return StoreOnce(request);
}

void ContextStore::StoreLater(StoreRequest request, std::function<void(Result<Stored>)> done) {
  writers_.Add([this, request = std::move(request), done = std::move(done)]() mutable {
    Result<Stored> stored = Store(request);
    request = {};  // Before anybody is told, so that nothing is held for it any more.
    done(std::move(stored));
  });
}

bool ContextStore::IsDiskFull(const StoreRequest& request) const {
  constexpr uint64_t kCommitBytes = uint64_t{1} << 20;
  const uint64_t kv_bytes = request.num_new() * request.spec.KvBytesPerToken();
  const Result<uint64_t> free_bytes = file_system_->FreeBytes(segments_dir_);
  return free_bytes.ok() && *free_bytes < 2 * kv_bytes + kCommitBytes;
}

Result<Stored> ContextStore::StoreOnce(const StoreRequest& request) {
  {
    MutexLock lock(&store_mutex_);
    ATTNDB_RETURN_IF_ERROR(ExpireContexts());
  }
  ATTNDB_ASSIGN_OR_RETURN(const Tenant tenant, catalog_->owners()->EnsureTenant(request.tenant));
  const StoreOptions& options = request.options;
  if (request.num_new() == 0 && options.name.empty() && !options.pin && !options.ttl) {
    // Nothing new: the context that has exactly these tokens, if it is still there.
    const Result<ContextRecord> base = catalog_->contexts()->Get(tenant.id, request.base);
    if (base.ok() && base->num_tokens == request.tokens.size()) return Stored{base->id, {}, {}};
  }
  ATTNDB_RETURN_IF_ERROR(CheckRequest(request, tenant));
  ATTNDB_ASSIGN_OR_RETURN(const ModelId model, catalog_->owners()->EnsureModel(request.spec));
  ATTNDB_ASSIGN_OR_RETURN(const std::optional<SegmentRecord> sealed, SealTail(request, model));
  Stored stored;
  {
    MutexLock lock(&store_mutex_);
    ATTNDB_ASSIGN_OR_RETURN(stored, Publish(request, {tenant, model}, sealed));
    stored.hold = Hold(stored.context);
  }
  // The context is durable. A merge that fails costs nothing but the next one's time.
  num_stores_.fetch_add(1, std::memory_order_relaxed);
  if (writes_objects()) {
    ScheduleMerge(tenant.id, stored.context);
  } else {
    stored.chain = MergeNow(tenant.id, stored.context, std::move(stored.chain));
  }
  ScheduleFrom(stored.chain, request.num_stored);
  return stored;
}

Status ContextStore::CheckRequest(const StoreRequest& request, const Tenant& tenant) {
  MutexLock lock(&store_mutex_);
  ATTNDB_RETURN_IF_ERROR(CheckName(tenant, request.options));
  if (request.num_new() == 0) return Status::Ok();
  const uint64_t kv_bytes = request.num_new() * storage::BytesPerToken(ShapeOf(request.spec));
  return ChooseVictims(tenant, kv_bytes).status();
}

Result<std::optional<SegmentRecord>> ContextStore::SealTail(const StoreRequest& request,
                                                            ModelId model) {
  if (request.num_new() == 0) return std::optional<SegmentRecord>();
  SegmentRecord record;
  record.model = model;
  record.first_position = request.first_position + static_cast<int64_t>(request.num_stored);
  record.num_tokens = request.num_new();
  record.kv_bytes = record.num_tokens * request.spec.KvBytesPerToken();
  ATTNDB_RETURN_IF_ERROR(WriteSegment(request.tail.get(), &record));
  bytes_written_.fetch_add(record.file_bytes, std::memory_order_relaxed);
  return std::optional(record);
}

Status ContextStore::WriteSegment(storage::SegmentSource* source, SegmentRecord* record) {
  ATTNDB_ASSIGN_OR_RETURN(record->id, catalog_->segments()->ReserveId());
  storage::SegmentWriteOptions write;
  write.file_system = file_system_;
  write.dir = segments_dir_;
  ATTNDB_ASSIGN_OR_RETURN(write.identity, registry_.IdentityOf(record->model));
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

Result<Stored> ContextStore::Publish(const StoreRequest& request, const Owner& owner,
                                     const std::optional<SegmentRecord>& sealed) {
  const StoreOptions& options = request.options;
  PublishRequest publish;
  publish.tenant = owner.tenant.id;
  publish.model = owner.model;
  publish.first_position = request.first_position;
  publish.tokens = request.tokens;
  publish.kv_bytes = request.tokens.size() * request.spec.KvBytesPerToken();
  publish.name = options.name;
  publish.replace = options.replace;
  publish.base = request.base;
  publish.num_shared = request.num_stored;
  publish.drop_base = options.drop_base;
  publish.ttl = options.ttl;
  publish.pin = options.pin;
  std::vector<storage::ChainEntry> chain = request.chain;
  for (const storage::ChainEntry& entry : chain) {
    publish.chain.push_back({static_cast<SegmentId>(entry.segment->id()), entry.num_tokens_used});
  }
  if (sealed) {
    publish.new_segments.push_back(*sealed);
    publish.chain.push_back({sealed->id, sealed->num_tokens});
    // Opened before it is published: what can't be read back is not acknowledged.
    Result<std::shared_ptr<storage::Segment>> segment = registry_.Get(*sealed);
    Result<Victims> victims = segment.status();
    if (segment.ok()) victims = ChooseVictims(owner.tenant, sealed->file_bytes);
    if (!victims.ok()) {
      segment = victims.status();
      DiscardSegment(sealed->id);
      return std::move(victims).status();
    }
    // If that fails the quota is exceeded by that much, as it was before.
    if (victims->objects) (void)DropObjects(owner.tenant.id);
    publish.evict = std::move(victims->contexts);
    chain.push_back({*std::move(segment), sealed->num_tokens});
  }
  Result<PublishOutcome> outcome = catalog_->contexts()->Publish(publish);
  if (!outcome.ok()) {
    chain.clear();
    if (sealed) DiscardUnpublished(sealed->id, outcome.status());
    return std::move(outcome).status();
  }
  DiscardDoubtful();
  if (sealed) objects_.Learn(chain.back().segment, FactsOf(*sealed));
  num_evictions_.fetch_add(outcome->num_evicted, std::memory_order_relaxed);
  RemoveUnreferenced(outcome->unreferenced);
  // It is durable, however its segments open: the chain that the caller has holds the same rows.
  Result<std::vector<storage::ChainEntry>> published = OpenLinks(outcome->chain, chain);
  if (published.ok()) chain = *std::move(published);
  return Stored{outcome->id, std::move(chain), nullptr};
}

Result<std::vector<storage::ChainEntry>> ContextStore::OpenLinks(
    std::span<const ChainLink> links, std::span<const storage::ChainEntry> have) {
  // Held to the end, so that nobody removes a segment between its look-up and its opening.
  MutexLock lock(&use_mutex_);
  std::vector<storage::ChainEntry> entries;
  for (const ChainLink& link : links) {
    const auto found = std::ranges::find_if(have, [&](const storage::ChainEntry& entry) {
      return static_cast<SegmentId>(entry.segment->id()) == link.segment;
    });
    if (found != have.end()) {
      entries.push_back({found->segment, link.num_tokens_used});
      continue;
    }
    ATTNDB_ASSIGN_OR_RETURN(const SegmentRecord record, catalog_->segments()->Get(link.segment));
    ATTNDB_ASSIGN_OR_RETURN(std::shared_ptr<storage::Segment> segment, registry_.Get(record));
    objects_.Learn(segment, FactsOf(record));
    entries.push_back({std::move(segment), link.num_tokens_used});
  }
  return entries;
}

Status ContextStore::CheckStore(const std::string& tenant, const StoreOptions& options,
                                uint64_t new_bytes) {
  ATTNDB_RETURN_IF_ERROR(CheckWritable());
  ATTNDB_RETURN_IF_ERROR(CheckTtl(options.ttl));
  ATTNDB_ASSIGN_OR_RETURN(const Tenant owner, catalog_->owners()->FindTenant(tenant));
  ATTNDB_RETURN_IF_ERROR(CheckName(owner, options));
  const Status room = ChooseVictims(owner, new_bytes).status();
  if (room.code() != StatusCode::kResourceExhausted) return room;
  EndDroppedBuilds();
  return ChooseVictims(owner, new_bytes).status();
}

Status ContextStore::CheckName(const Tenant& tenant, const StoreOptions& options) const {
  if (options.name.empty()) return Status::Ok();
  ATTNDB_RETURN_IF_ERROR(CheckContextName(options.name));
  if (options.replace) return Status::Ok();
  const Result<ContextRecord> holder = catalog_->contexts()->Find(tenant.id, options.name);
  if (holder.status().code() == StatusCode::kNotFound) return Status::Ok();
  if (!holder.ok()) return holder.status();
  return Status::AlreadyExists("context '" + options.name + "' exists (" +
                               std::to_string(holder->num_tokens) +
                               " tokens): drop it, or store with replace");
}

}  // namespace attndb::store
