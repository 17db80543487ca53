#include "store/publisher.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "attndb/context_name.h"
#include "attndb/units.h"
#include "common/check.h"
#include "storage/kv/kv_layout.h"
#include "store/beginning_source.h"
#include "store/catalog/context_notes.h"
#include "store/catalog/ttl.h"
#include "store/segment_facts.h"

namespace attndb::store {
namespace {

std::vector<SegmentId> SegmentsOf(std::span<const storage::ChainEntry> chain) {
  std::vector<SegmentId> segments;
  for (const storage::ChainEntry& entry : chain) {
    segments.push_back(static_cast<SegmentId>(entry.segment->id()));
  }
  return segments;
}

// Checks the caller's descriptions of the context.
Status CheckSayings(const StoreRequest& request) {
  const StoreOptions& options = request.options;
  ATTNDB_RETURN_IF_ERROR(options.text_layout.Validate(request.tokens.size()));
  return CheckTitleAndNote(options.title, options.note);
}

// The request with all behind the first num_entries of its chain in its tail instead.
StoreRequest DetachedBehind(const StoreRequest& request, size_t num_entries) {
  StoreRequest detached = request;
  while (detached.chain.size() > num_entries) {
    const storage::ChainEntry shared = detached.chain.back();
    detached.chain.pop_back();
    detached.num_stored -= shared.num_tokens_used;
    detached.tail = std::make_shared<BeginningSource>(
        shared, detached.tail,
        std::vector<TokenId>(request.tokens.begin() + static_cast<int64_t>(detached.num_stored),
                             request.tokens.end()));
  }
  return detached;
}

}  // namespace

Result<Stored> Publisher::StoreAlone(const StoreRequest& asked) {
  std::optional<StoreRequest> detached = Detached(asked, kMinShare - 1);
  const StoreRequest& request = detached ? *detached : asked;
  Result<Stored> stored = StoreOrMakeRoom(request);
  const StatusCode code = stored.status().code();
  if (code == StatusCode::kCorruption || code == StatusCode::kFailedPrecondition) {
    const std::optional<StoreRequest> whole = WithoutLost(request);
    return whole ? StoreOrMakeRoom(*whole) : stored;
  }
  if (code != StatusCode::kResourceExhausted || detached) return stored;
  // Without a shared segment, an eviction can free the tokens that no other context uses.
  detached = Detached(asked, UINT64_MAX);
  return detached ? StoreOnce(*detached) : stored;
}

Result<Stored> Publisher::StoreOrMakeRoom(const StoreRequest& request) {
  Result<Stored> stored = StoreOnce(request);
  if (stored.status().code() != StatusCode::kResourceExhausted) return stored;
  MakeRoom(request);
  return StoreOnce(request);
}

bool Publisher::SharesPart(const std::string& tenant, ContextId base,
                           std::span<const storage::ChainEntry> chain, uint64_t most_tokens) const {
  if (chain.empty()) return false;
  const storage::ChainEntry& last = chain.back();
  const uint64_t num_shared = last.num_tokens_used;
  if (num_shared > most_tokens || num_shared == last.segment->num_tokens()) return false;
  const Result<Tenant> owner = parts_.catalog->owners()->FindTenant(tenant);
  if (!owner.ok()) return false;
  const Result<ContextRecord> record = parts_.catalog->contexts()->Get(owner->id, base);
  uint64_t num_tokens = 0;
  for (const storage::ChainEntry& entry : chain) num_tokens += entry.num_tokens_used;
  return !record.ok() || record->num_tokens > num_tokens;  // Else it may grow.
}

std::optional<StoreRequest> Publisher::Detached(const StoreRequest& request,
                                                uint64_t most_tokens) const {
  if (request.num_new() == 0 || !request.sealed.empty()) return {};
  if (!SharesPart(request.tenant, request.base, request.chain, most_tokens)) return {};
  return DetachedBehind(request, request.chain.size() - 1);
}

std::optional<StoreRequest> Publisher::WithoutLost(const StoreRequest& request) const {
  if (request.num_new() == 0 || !request.sealed.empty()) return {};
  const auto is_lost = [this](const storage::ChainEntry& entry) {
    const Result<SegmentRecord> record =
        parts_.catalog->segments()->Get(static_cast<SegmentId>(entry.segment->id()));
    return record.ok() && !record->damage.empty();
  };
  const auto lost = std::ranges::find_if(request.chain, is_lost);
  if (lost == request.chain.end()) return {};
  return DetachedBehind(request, static_cast<size_t>(lost - request.chain.begin()));
}

Status Publisher::CheckFiles(std::span<const storage::ChainEntry> chain) const {
  for (const storage::ChainEntry& entry : chain) {
    ATTNDB_RETURN_IF_ERROR(parts_.damage->CheckFiles(static_cast<SegmentId>(entry.segment->id()),
                                                     entry.segment->file_bytes()));
  }
  return Status::Ok();
}

void Publisher::CheckBase(const StoreRequest& request) const {
  const Result<std::vector<ChainLink>> links = parts_.catalog->contexts()->Chain(request.base);
  if (!links.ok()) return;  // There is no base any more.
  const std::vector<SegmentId> checked = SegmentsOf(request.chain);
  uint64_t num_left = request.num_shared();
  for (const ChainLink& link : *links) {
    if (num_left == 0) return;
    num_left -= std::min(num_left, link.num_tokens_used);
    if (std::ranges::count(checked, link.segment) > 0) continue;
    const Result<SegmentRecord> record = parts_.catalog->segments()->Get(link.segment);
    if (!record.ok() || !record->damage.empty()) continue;
    (void)parts_.damage->CheckFiles(record->id, record->file_bytes);
  }
}

void Publisher::MakeRoom(const StoreRequest& request) {
  if (parts_.space->IsDiskFull(request.num_new() * request.spec.KvBytesPerToken())) {
    parts_.objects->GiveUp();  // They can be made again.
    parts_.merger->GiveUp();
  } else {
    parts_.objects->EndDroppedBuilds();
  }
  parts_.merger->Await();
}

Result<Sealed> Publisher::Seal(const StoreRequest& request) {
  ATTNDB_RETURN_IF_ERROR(parts_.settings->CheckWritable());
  ATTNDB_CHECK(request.num_new() > 0);
  ATTNDB_ASSIGN_OR_RETURN(const ModelId model, parts_.catalog->owners()->EnsureModel(request.spec));
  Result<std::optional<Sealed>> sealed = SealTail(request, model);
  if (sealed.status().code() == StatusCode::kResourceExhausted) {
    MakeRoom(request);
    sealed = SealTail(request, model);
  }
  ATTNDB_RETURN_IF_ERROR(sealed.status());
  return **std::move(sealed);
}

void Publisher::Abandon(std::span<const SegmentRecord> sealed) {
  MutexLock lock(parts_.commits->mutex());
  for (const SegmentRecord& segment : sealed) parts_.commits->Abandon(segment.id);
}

Result<Stored> Publisher::StoreOnce(const StoreRequest& request) {
  ATTNDB_RETURN_IF_ERROR(parts_.commits->Expire());
  ATTNDB_ASSIGN_OR_RETURN(const Tenant tenant,
                          parts_.catalog->owners()->EnsureTenant(request.tenant));
  const StoreOptions& options = request.options;
  const bool says_nothing = options.name.empty() && !options.pin && !options.ttl &&
                            options.title.empty() && options.note.empty();
  if (request.num_new() == 0 && says_nothing) {
    // Nothing new: the context that has exactly these tokens, if it is still there.
    ATTNDB_RETURN_IF_ERROR(CheckFiles(request.chain));
    const Result<ContextRecord> base = parts_.catalog->contexts()->Get(tenant.id, request.base);
    ATTNDB_ASSIGN_OR_RETURN(const bool is_same, IsCutAlike(request));
    const bool is_whole = base.ok() && !base->damaged;
    if (is_whole && base->num_tokens == request.tokens.size() && is_same) {
      return Stored{base->id, base->number, {}, {}};
    }
  }
  ATTNDB_RETURN_IF_ERROR(CheckRequest(request, tenant));
  ATTNDB_ASSIGN_OR_RETURN(const ModelId model, parts_.catalog->owners()->EnsureModel(request.spec));
  ATTNDB_ASSIGN_OR_RETURN(const std::optional<Sealed> sealed, SealTail(request, model));
  Stored stored;
  {
    MutexLock lock(parts_.commits->mutex());
    ATTNDB_ASSIGN_OR_RETURN(stored, Publish(request, {tenant, model}, sealed));
    stored.hold = parts_.uses->Hold(stored.context);
  }
  // The context is durable. A merge that fails costs nothing but the next one's time.
  parts_.counts->Of(request.tenant)->num_stores.Add(1);
  if (request.is_merged_later) {
    // The context's next Store merges them.
  } else if (parts_.settings->writes_objects()) {
    parts_.merger->Schedule(tenant.id, stored.context);
  } else {
    stored.chain = parts_.merger->MergeNow(tenant.id, stored.context, std::move(stored.chain));
  }
  parts_.objects->ScheduleFrom(stored.chain, request.num_durable());
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
  ATTNDB_RETURN_IF_ERROR(CheckName(tenant, request));
  ATTNDB_RETURN_IF_ERROR(CheckSayings(request));
  if (request.num_new() == 0) return Status::Ok();
  const uint64_t num_new = request.tokens.size() - request.num_durable();
  const uint64_t kv_bytes = num_new * storage::BytesPerToken(ShapeOf(request.spec));
  return parts_.space->ChooseVictims(tenant, kv_bytes, SegmentsOf(request.chain)).status();
}

Result<std::optional<Sealed>> Publisher::SealTail(const StoreRequest& request, ModelId model) {
  if (request.num_new() == 0) return std::optional<Sealed>();
  Sealed sealed;
  SegmentRecord& record = sealed.record;
  record.model = model;
  record.first_position = request.first_position + static_cast<int64_t>(request.num_stored);
  record.num_tokens = request.num_new();
  record.kv_bytes = record.num_tokens * request.spec.KvBytesPerToken();
  ATTNDB_RETURN_IF_ERROR(parts_.registry->Write(request.tail.get(), &record));
  parts_.counts->Of(request.tenant)->bytes_written.Add(record.file_bytes);
  // Opened before it is published: a segment that can't be read back is not acknowledged.
  Result<std::shared_ptr<storage::Segment>> segment = parts_.registry->Get(record);
  if (!segment.ok()) {
    (void)parts_.registry->Discard(record.id);
    return std::move(segment).status();
  }
  sealed.segment = *std::move(segment);
  return std::optional(std::move(sealed));
}

Result<Stored> Publisher::Publish(const StoreRequest& request, const Owner& owner,
                                  const std::optional<Sealed>& sealed) {
  PublishRequest publish = PublishOf(request, owner);
  std::vector<storage::ChainEntry> chain = request.chain;
  if (sealed) {
    publish.new_segments.push_back(sealed->record);
    chain.push_back({sealed->segment, sealed->record.num_tokens});
  }
  uint64_t new_bytes = publish.note.size();
  for (const SegmentRecord& segment : publish.new_segments) new_bytes += segment.file_bytes;
  for (const storage::ChainEntry& entry : chain) {
    publish.chain.push_back({static_cast<SegmentId>(entry.segment->id()), entry.num_tokens_used});
  }
  if (new_bytes > 0) {
    Result<Space::Victims> victims =
        parts_.space->ChooseVictims(owner.tenant, new_bytes, SegmentsOf(request.chain));
    if (!victims.ok()) {
      if (sealed) (void)parts_.registry->Discard(sealed->record.id);
      return std::move(victims).status();
    }
    // If that fails the quota is exceeded by that much, as it was before.
    if (victims->objects) (void)parts_.objects->DropAll(owner.tenant.id);
    publish.evict = std::move(victims->contexts);
  }
  const Status files = CheckFiles(chain);
  if (!files.ok()) {
    if (sealed) (void)parts_.registry->Discard(sealed->record.id);
    return files;
  }
  CheckBase(request);
  Result<PublishOutcome> outcome = parts_.catalog->contexts()->Publish(publish);
  parts_.commits->Ended(sealed ? std::optional(sealed->record.id) : std::nullopt, request.sealed,
                        outcome.status());
  ATTNDB_RETURN_IF_ERROR(outcome.status());
  for (const SegmentRecord& segment : publish.new_segments) {
    const auto entry = std::ranges::find_if(chain, [&](const storage::ChainEntry& link) {
      return static_cast<SegmentId>(link.segment->id()) == segment.id;
    });
    parts_.cache->Learn(entry->segment, FactsOf(segment));
  }
  parts_.counts->Of(request.tenant)->evictions.Add(outcome->evicted);
  parts_.uses->RemoveUnreferenced(outcome->unreferenced);
  // It is durable, however its segments open: the chain that the caller has holds the same rows.
  Result<std::vector<storage::ChainEntry>> published =
      parts_.uses->OpenContext(outcome->id, UINT64_MAX, chain);
  if (published.ok()) chain = *std::move(published);
  return Stored{outcome->id, outcome->number, std::move(chain), nullptr};
}

PublishRequest Publisher::PublishOf(const StoreRequest& request, const Owner& owner) {
  const StoreOptions& options = request.options;
  PublishRequest publish;
  publish.tenant = owner.tenant.id;
  publish.model = owner.model;
  publish.first_position = request.first_position;
  publish.tokens = request.tokens;
  publish.cuts = request.cuts;
  publish.source = request.spec.source;
  publish.kv_bytes = request.tokens.size() * request.spec.KvBytesPerToken();
  publish.name = options.name;
  publish.replace = options.replace;
  publish.base = request.base;
  publish.num_shared = request.num_shared();
  publish.drop_base = options.drop_base;
  publish.ttl = options.ttl;
  publish.pin = options.pin;
  publish.text_layout = options.text_layout;
  publish.title = options.title;
  publish.note = options.note;
  publish.new_segments = request.sealed;
  return publish;
}

Status Publisher::CheckStore(const StoreRequest& request, uint64_t new_bytes) {
  ATTNDB_RETURN_IF_ERROR(parts_.merger->CheckMayWait("import"));
  ATTNDB_RETURN_IF_ERROR(parts_.settings->CheckWritable());
  ATTNDB_RETURN_IF_ERROR(CheckTtl(request.options.ttl));
  ATTNDB_RETURN_IF_ERROR(CheckSayings(request));
  ATTNDB_ASSIGN_OR_RETURN(const Tenant owner, parts_.catalog->owners()->FindTenant(request.tenant));
  ATTNDB_RETURN_IF_ERROR(CheckName(owner, request));
  const std::vector<SegmentId> kept = SegmentsOf(request.chain);
  new_bytes += request.options.note.size();
  const Status room = parts_.space->ChooseVictims(owner, new_bytes, kept).status();
  if (room.code() != StatusCode::kResourceExhausted) return room;
  parts_.objects->EndDroppedBuilds();
  return parts_.space->ChooseVictims(owner, new_bytes, kept).status();
}

Result<Publisher::Room> Publisher::CheckRoom(RoomRequest request) {
  if (request.wait) ATTNDB_RETURN_IF_ERROR(parts_.merger->CheckMayWait("check room"));
  ATTNDB_ASSIGN_OR_RETURN(const Tenant owner, parts_.catalog->owners()->FindTenant(request.tenant));
  // Like Store, detaches a part that is not worth sharing.
  const auto lets_go = [&](uint64_t most_tokens) {
    Chain& chain = request.prefix.chain;
    if (!SharesPart(request.tenant, request.prefix.context, chain.entries, most_tokens)) {
      return false;
    }
    chain.tokens.resize(chain.tokens.size() - chain.entries.back().num_tokens_used);
    chain.entries.pop_back();
    return true;
  };
  const bool is_detached = lets_go(kMinShare - 1);
  Result<Room> room = RoomBehind(request, owner);
  if (room.status().code() != StatusCode::kResourceExhausted) return room;
  if (request.wait) {
    parts_.objects->EndDroppedBuilds();
    parts_.merger->Await();
    room = RoomBehind(request, owner);
  }
  if (room.status().code() != StatusCode::kResourceExhausted || is_detached) return room;
  return lets_go(UINT64_MAX) ? RoomBehind(request, owner) : room;
}

Result<Publisher::Room> Publisher::RoomBehind(const RoomRequest& request, const Tenant& tenant) {
  const Prefix& prefix = request.prefix;
  ATTNDB_ASSIGN_OR_RETURN(const RoomRequest::Bytes bytes,
                          request.bytes_from(prefix.chain.tokens.size()));
  MutexLock lock(parts_.commits->mutex());
  const ContextId in_use = prefix.is_whole ? prefix.context : ContextId::kNone;
  ATTNDB_ASSIGN_OR_RETURN(const Space::Victims victims,
                          parts_.space->ChooseVictims(tenant, bytes.file_bytes,
                                                      SegmentsOf(prefix.chain.entries), in_use));
  ATTNDB_RETURN_IF_ERROR(parts_.space->CheckDiskForStore(bytes.kv_bytes));
  Room room = {.new_bytes = bytes.file_bytes, .evicted = {}};
  for (const ContextId id : victims.contexts) {
    ATTNDB_ASSIGN_OR_RETURN(const ContextRecord record,
                            parts_.catalog->contexts()->Get(tenant.id, id));
    room.evicted.push_back(record.Label());
  }
  return room;
}

Status Publisher::CheckName(const Tenant& tenant, const StoreRequest& request) const {
  const StoreOptions& options = request.options;
  if (options.name.empty()) return Status::Ok();
  ATTNDB_RETURN_IF_ERROR(CheckContextName(options.name));
  if (options.replace) return Status::Ok();
  const Result<ContextRecord> holder = parts_.catalog->contexts()->Find(tenant.id, options.name);
  if (holder.status().code() == StatusCode::kNotFound) return Status::Ok();
  if (!holder.ok()) return holder.status();
  if (holder->damaged) {  // The same text mends it.
    const Result<History> history = parts_.catalog->contexts()->HistoryOf(holder->id);
    if (history.ok() && history->tokens == request.tokens && history->cuts == request.cuts) {
      return Status::Ok();
    }
  }
  return Status::AlreadyExists("context '" + options.name + "' exists (" +
                               Counted(holder->num_tokens, "token") +
                               "): drop it, or store with replace");
}

Status Publisher::Rename(const std::string& tenant, std::string_view context,
                         std::string_view name) {
  ATTNDB_RETURN_IF_ERROR(parts_.settings->CheckWritable());
  ATTNDB_RETURN_IF_ERROR(CheckContextName(name));
  ATTNDB_RETURN_IF_ERROR(parts_.commits->Expire());
  MutexLock lock(parts_.commits->mutex());
  ATTNDB_ASSIGN_OR_RETURN(const ContextRecord record,
                          parts_.catalog->contexts()->Find(tenant, context));
  return parts_.catalog->contexts()->Rename(record.tenant, record.id, name);
}

Status Publisher::Drop(const std::string& tenant, std::string_view context) {
  ATTNDB_RETURN_IF_ERROR(parts_.merger->CheckMayWait("drop"));
  ATTNDB_RETURN_IF_ERROR(parts_.settings->CheckWritable());
  Status status = TryDrop(tenant, context);
  if (status.code() == StatusCode::kResourceExhausted) {
    parts_.merger->Await();
    (void)parts_.reserve->Release();
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

}  // namespace attndb::store
