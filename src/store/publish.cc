// ContextStore: sealing what follows a stored chain, and publishing the whole.
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
  return StoreOnce(request);
}

bool ContextStore::IsDiskFull(const StoreRequest& request) const {
  constexpr uint64_t kCommitBytes = uint64_t{1} << 20;
  const uint64_t kv_bytes = request.num_new() * request.spec->KvBytesPerToken();
  const Result<uint64_t> free_bytes = file_system_->FreeBytes(segments_dir_);
  return free_bytes.ok() && *free_bytes < 2 * kv_bytes + kCommitBytes;
}

Result<Stored> ContextStore::StoreOnce(const StoreRequest& request) {
  MutexLock lock(&store_mutex_);
  ATTNDB_RETURN_IF_ERROR(ExpireContexts());
  ATTNDB_ASSIGN_OR_RETURN(const Tenant tenant, catalog_->EnsureTenant(request.tenant));
  const StoreOptions& options = request.options;
  if (request.num_new() == 0 && options.name.empty() && !options.pin && !options.ttl) {
    // Nothing new: the context that has exactly these tokens, if it is still there.
    const Result<ContextRecord> base = catalog_->GetContext(tenant.id, request.base);
    if (base.ok() && base->num_tokens == request.tokens.size()) return Stored{base->id, {}, {}};
  }
  ATTNDB_ASSIGN_OR_RETURN(Stored stored, Publish(request, tenant));
  num_stores_.fetch_add(1, std::memory_order_relaxed);
  stored.hold = Hold(stored.context);
  // The context is durable. A merge that fails costs nothing but the next one's time.
  if (MergeEnd(tenant, stored.context).ok()) {
    Result<Chain> chain = OpenChain(stored.context, request.tokens);
    if (chain.ok()) stored.chain = std::move(chain->entries);
  }
  ScheduleFrom(stored.chain, request.num_stored);
  return stored;
}

Result<SegmentRecord> ContextStore::SealTail(const StoreRequest& request, ModelId model) {
  SegmentRecord record;
  ATTNDB_ASSIGN_OR_RETURN(record.id, catalog_->ReserveSegmentId());
  record.first_position = request.first_position + static_cast<int64_t>(request.num_stored);
  record.num_tokens = request.num_new();
  record.kv_bytes = record.num_tokens * request.spec->KvBytesPerToken();

  storage::SegmentWriteOptions write;
  write.file_system = file_system_;
  write.dir = segments_dir_;
  ATTNDB_ASSIGN_OR_RETURN(write.identity, registry_.IdentityOf(model));
  write.identity.segment_id = static_cast<uint64_t>(record.id);
  write.identity.first_position = record.first_position;
  write.identity.num_tokens = record.num_tokens;
  ATTNDB_ASSIGN_OR_RETURN(const storage::WrittenSegment written,
                          storage::WriteSegment(write, request.tail));
  record.file_bytes = written.file_bytes;
  record.query_bytes = written.query_bytes;
  record.root_hash = written.root_hash;
  record.non_finite = EncodeNonFinite(written.non_finite);
  bytes_written_.fetch_add(written.file_bytes, std::memory_order_relaxed);
  return record;
}

Result<Stored> ContextStore::Publish(const StoreRequest& request, const Tenant& tenant) {
  const StoreOptions& options = request.options;
  PublishRequest publish;
  publish.tenant = tenant.id;
  ATTNDB_ASSIGN_OR_RETURN(publish.model, catalog_->EnsureModel(*request.spec));
  publish.first_position = request.first_position;
  publish.tokens = request.tokens;
  publish.kv_bytes = request.tokens.size() * request.spec->KvBytesPerToken();
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
  // What can be refused is refused before anything is written, or evicted for it.
  ATTNDB_RETURN_IF_ERROR(CheckName(tenant, options));
  const uint64_t num_new = request.num_new();
  if (num_new > 0) {
    const uint64_t kv_bytes = num_new * storage::BytesPerToken(ShapeOf(*request.spec));
    ATTNDB_RETURN_IF_ERROR(ChooseVictims(tenant, kv_bytes).status());
    ATTNDB_ASSIGN_OR_RETURN(SegmentRecord record, SealTail(request, publish.model));
    record.model = publish.model;
    publish.new_segments.push_back(record);
    publish.chain.push_back({record.id, num_new});
    // Opened before it is published: what can't be read back is not acknowledged.
    Result<std::shared_ptr<storage::Segment>> segment = registry_.Get(record);
    Result<Victims> victims = segment.status();
    if (segment.ok()) victims = ChooseVictims(tenant, record.file_bytes);
    if (!victims.ok()) {
      segment = victims.status();
      DiscardSegment(record.id);
      return std::move(victims).status();
    }
    // If that fails the quota is exceeded by that much, as it was before.
    if (victims->objects) (void)DropObjects(tenant.id);
    publish.evict = std::move(victims->contexts);
    chain.push_back({*std::move(segment), num_new});
  }
  Result<PublishOutcome> outcome = catalog_->Publish(publish);
  if (!outcome.ok()) {
    chain.clear();
    for (const SegmentRecord& record : publish.new_segments) {
      DiscardUnpublished(record.id, outcome.status());
    }
    return std::move(outcome).status();
  }
  DiscardDoubtful();
  num_evictions_.fetch_add(outcome->num_evicted, std::memory_order_relaxed);
  RemoveUnreferenced(outcome->unreferenced);
  return Stored{outcome->id, std::move(chain), nullptr};
}

Status ContextStore::CheckStore(const std::string& tenant, const StoreOptions& options,
                                uint64_t new_bytes) {
  ATTNDB_RETURN_IF_ERROR(CheckWritable());
  ATTNDB_RETURN_IF_ERROR(CheckTtl(options.ttl));
  ATTNDB_ASSIGN_OR_RETURN(const Tenant owner, TenantOf(tenant));
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
  const Result<ContextRecord> holder = catalog_->FindContext(tenant.id, options.name);
  if (holder.status().code() == StatusCode::kNotFound) return Status::Ok();
  if (!holder.ok()) return holder.status();
  return Status::AlreadyExists("context '" + options.name + "' exists (" +
                               std::to_string(holder->num_tokens) +
                               " tokens): drop it, or store with replace");
}

}  // namespace attndb::store
