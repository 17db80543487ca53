#include "store/publisher.h"

#include <algorithm>
#include <utility>

#include "storage/kv/kv_layout.h"
#include "store/catalog/names.h"
#include "store/catalog/ttl.h"
#include "store/segment_facts.h"

namespace attndb::store {

Result<Stored> Publisher::Store(const StoreRequest& request) {
  ATTNDB_RETURN_IF_ERROR(parts_.settings->CheckWritable());
  Result<Stored> stored = StoreOnce(request);
  if (stored.status().code() != StatusCode::kResourceExhausted) return stored;
  if (parts_.space->IsDiskFull(request.num_new() * request.spec.KvBytesPerToken())) {
    parts_.objects->GiveUp();  // They can be made again.
  } else {
    parts_.objects->EndDroppedBuilds();
  }
  parts_.merger->Await();
  return StoreOnce(request);
}

void Publisher::StoreLater(StoreRequest request, std::function<void(Result<Stored>)> done) {
  writers_.Add([this, request = std::move(request), done = std::move(done)]() mutable {
    Result<Stored> stored = Store(request);
    request = {};  // Before anybody is told, so that nothing is held for it any more.
    done(std::move(stored));
  });
}

Result<Stored> Publisher::StoreOnce(const StoreRequest& request) {
  ATTNDB_RETURN_IF_ERROR(parts_.commits->Expire());
  ATTNDB_ASSIGN_OR_RETURN(const Tenant tenant,
                          parts_.catalog->owners()->EnsureTenant(request.tenant));
  const StoreOptions& options = request.options;
  if (request.num_new() == 0 && options.name.empty() && !options.pin && !options.ttl) {
    // Nothing new: the context that has exactly these tokens, if it is still there.
    const Result<ContextRecord> base = parts_.catalog->contexts()->Get(tenant.id, request.base);
    ATTNDB_ASSIGN_OR_RETURN(const bool is_same, IsCutAlike(request));
    if (base.ok() && base->num_tokens == request.tokens.size() && is_same) {
      return Stored{base->id, {}, {}};
    }
  }
  ATTNDB_RETURN_IF_ERROR(CheckRequest(request, tenant));
  ATTNDB_ASSIGN_OR_RETURN(const ModelId model, parts_.catalog->owners()->EnsureModel(request.spec));
  ATTNDB_ASSIGN_OR_RETURN(const std::optional<SegmentRecord> sealed, SealTail(request, model));
  Stored stored;
  {
    MutexLock lock(parts_.commits->mutex());
    ATTNDB_ASSIGN_OR_RETURN(stored, Publish(request, {tenant, model}, sealed));
    stored.hold = parts_.uses->Hold(stored.context);
  }
  // The context is durable. A merge that fails costs nothing but the next one's time.
  num_stores_.fetch_add(1, std::memory_order_relaxed);
  if (parts_.settings->writes_objects()) {
    parts_.merger->Schedule(tenant.id, stored.context);
  } else {
    stored.chain = parts_.merger->MergeNow(tenant.id, stored.context, std::move(stored.chain));
  }
  parts_.objects->ScheduleFrom(stored.chain, request.num_stored);
  return stored;
}

// Whether the base has the request's cuts. Those before its end it has, by the caller's word; a
// session may have lost tokens since.
Result<bool> Publisher::IsCutAlike(const StoreRequest& request) const {
  if (request.cuts.empty() || request.cuts.back().at < request.tokens.size()) return true;
  Result<History> base = parts_.catalog->contexts()->HistoryOf(request.base);
  if (base.status().code() == StatusCode::kNotFound) return false;
  ATTNDB_RETURN_IF_ERROR(base.status());
  return base->cuts == request.cuts;
}

Status Publisher::CheckRequest(const StoreRequest& request, const Tenant& tenant) {
  MutexLock lock(parts_.commits->mutex());
  ATTNDB_RETURN_IF_ERROR(CheckName(tenant, request.options));
  if (request.num_new() == 0) return Status::Ok();
  const uint64_t kv_bytes = request.num_new() * storage::BytesPerToken(ShapeOf(request.spec));
  return parts_.space->ChooseVictims(tenant, kv_bytes).status();
}

Result<std::optional<SegmentRecord>> Publisher::SealTail(const StoreRequest& request,
                                                         ModelId model) {
  if (request.num_new() == 0) return std::optional<SegmentRecord>();
  SegmentRecord record;
  record.model = model;
  record.first_position = request.first_position + static_cast<int64_t>(request.num_stored);
  record.num_tokens = request.num_new();
  record.kv_bytes = record.num_tokens * request.spec.KvBytesPerToken();
  ATTNDB_RETURN_IF_ERROR(parts_.registry->Write(request.tail.get(), &record));
  bytes_written_.fetch_add(record.file_bytes, std::memory_order_relaxed);
  return std::optional(record);
}

Result<Stored> Publisher::Publish(const StoreRequest& request, const Owner& owner,
                                  const std::optional<SegmentRecord>& sealed) {
  const StoreOptions& options = request.options;
  PublishRequest publish;
  publish.tenant = owner.tenant.id;
  publish.model = owner.model;
  publish.first_position = request.first_position;
  publish.tokens = request.tokens;
  publish.cuts = request.cuts;
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
    Result<std::shared_ptr<storage::Segment>> segment = parts_.registry->Get(*sealed);
    Result<Space::Victims> victims = segment.status();
    if (segment.ok()) victims = parts_.space->ChooseVictims(owner.tenant, sealed->file_bytes);
    if (!victims.ok()) {
      segment = victims.status();
      parts_.registry->Discard(sealed->id);
      return std::move(victims).status();
    }
    // If that fails the quota is exceeded by that much, as it was before.
    if (victims->objects) (void)parts_.objects->DropAll(owner.tenant.id);
    publish.evict = std::move(victims->contexts);
    chain.push_back({*std::move(segment), sealed->num_tokens});
  }
  Result<PublishOutcome> outcome = parts_.catalog->contexts()->Publish(publish);
  if (!outcome.ok()) chain.clear();
  parts_.commits->Ended(sealed ? std::optional(sealed->id) : std::nullopt, outcome.status());
  ATTNDB_RETURN_IF_ERROR(outcome.status());
  if (sealed) parts_.cache->Learn(chain.back().segment, FactsOf(*sealed));
  num_evictions_.fetch_add(outcome->num_evicted, std::memory_order_relaxed);
  parts_.uses->RemoveUnreferenced(outcome->unreferenced);
  // It is durable, however its segments open: the chain that the caller has holds the same rows.
  Result<std::vector<storage::ChainEntry>> published =
      parts_.uses->OpenContext(outcome->id, UINT64_MAX, chain);
  if (published.ok()) chain = *std::move(published);
  return Stored{outcome->id, std::move(chain), nullptr};
}

Status Publisher::CheckStore(const std::string& tenant, const StoreOptions& options,
                             uint64_t new_bytes) {
  ATTNDB_RETURN_IF_ERROR(parts_.settings->CheckWritable());
  ATTNDB_RETURN_IF_ERROR(CheckTtl(options.ttl));
  ATTNDB_ASSIGN_OR_RETURN(const Tenant owner, parts_.catalog->owners()->FindTenant(tenant));
  ATTNDB_RETURN_IF_ERROR(CheckName(owner, options));
  const Status room = parts_.space->ChooseVictims(owner, new_bytes).status();
  if (room.code() != StatusCode::kResourceExhausted) return room;
  parts_.objects->EndDroppedBuilds();
  return parts_.space->ChooseVictims(owner, new_bytes).status();
}

Status Publisher::CheckName(const Tenant& tenant, const StoreOptions& options) const {
  if (options.name.empty()) return Status::Ok();
  ATTNDB_RETURN_IF_ERROR(CheckContextName(options.name));
  if (options.replace) return Status::Ok();
  const Result<ContextRecord> holder = parts_.catalog->contexts()->Find(tenant.id, options.name);
  if (holder.status().code() == StatusCode::kNotFound) return Status::Ok();
  if (!holder.ok()) return holder.status();
  return Status::AlreadyExists("context '" + options.name + "' exists (" +
                               std::to_string(holder->num_tokens) +
                               " tokens): drop it, or store with replace");
}

Status Publisher::Drop(const std::string& tenant, std::string_view context) {
  ATTNDB_RETURN_IF_ERROR(parts_.settings->CheckWritable());
  Status status = TryDrop(tenant, context);
  if (status.code() == StatusCode::kResourceExhausted) {
    parts_.merger->Await();
    parts_.reserve->Release();
    status = TryDrop(tenant, context);
  }
  parts_.reserve->Take();
  return status;
}

Status Publisher::TryDrop(const std::string& tenant, std::string_view context) {
  MutexLock lock(parts_.commits->mutex());
  ATTNDB_ASSIGN_OR_RETURN(const ContextRecord record,
                          parts_.catalog->contexts()->Find(tenant, context));
  ATTNDB_ASSIGN_OR_RETURN(const DropOutcome outcome,
                          parts_.catalog->contexts()->Drop(record.tenant, record.id));
  parts_.uses->RemoveUnreferenced(outcome.unreferenced);
  return Status::Ok();
}

void Publisher::AddCounts(DBStats* stats) const {
  stats->num_stores = num_stores_.load(std::memory_order_relaxed);
  stats->num_evictions = num_evictions_.load(std::memory_order_relaxed);
  stats->bytes_written = bytes_written_.load(std::memory_order_relaxed);
}

}  // namespace attndb::store
