// Database: sealing a session's tail and publishing it; expiry, quota and removal of files.
#include <algorithm>
#include <array>
#include <map>

#include "common/check.h"
#include "db/catalog/names.h"
#include "db/catalog/ttl.h"
#include "db/database.h"
#include "db/non_finite.h"
#include "storage/kv/kv_layout.h"
#include "storage/kv/segment_writer.h"
#include "storage/vfs/store_files.h"

namespace attndb::internal {
namespace {

// A session's tail as the contents of a segment.
class TailSource final : public storage::SegmentSource {
 public:
  TailSource(SessionImpl* session, std::span<const TokenId> tokens)
      : session_(session), tokens_(tokens) {}

  std::span<const TokenId> tokens() const override { return tokens_; }
  Status LoadLayer(LayerId layer) override {
    layer_ = layer;
    return Status::Ok();
  }
  std::span<const storage::KvRows> rows(uint32_t kv_head) override {
    return session_->tail().runs(layer_, kv_head);
  }
  std::span<const storage::QueryRows> queries(uint32_t kv_head) override {
    queries_[0] = session_->query_sample().rows(layer_, kv_head);
    return queries_;
  }

 private:
  SessionImpl* const session_;
  const std::span<const TokenId> tokens_;
  LayerId layer_ = 0;
  std::array<storage::QueryRows, 1> queries_;
};

}  // namespace

Result<ContextId> Database::Store(SessionImpl* session, std::span<const TokenId> tokens,
                                  const StoreOptions& options) {
  ATTNDB_RETURN_IF_ERROR(CheckWritable());
  ATTNDB_RETURN_IF_ERROR(session->CheckComplete());
  ATTNDB_RETURN_IF_ERROR(session->CheckTokens(tokens));
  ATTNDB_RETURN_IF_ERROR(session->CheckStorable());
  if (tokens.empty()) return Status::InvalidArgument("the session holds no tokens to store");
  Result<ContextId> id = StoreOnce(session, tokens, options);
  if (id.status().code() != StatusCode::kResourceExhausted) return id;
  if (IsDiskFull(*session)) {
    GiveUpObjects();  // They can be made again.
  } else {
    EndDroppedBuilds();
  }
  return StoreOnce(session, tokens, options);
}

bool Database::IsDiskFull(const SessionImpl& session) const {
  constexpr uint64_t kCommitBytes = uint64_t{1} << 20;
  const uint64_t kv_bytes = session.tail().num_tokens() * session.spec().KvBytesPerToken();
  const Result<uint64_t> free_bytes = file_system_->FreeBytes(segments_dir_);
  return free_bytes.ok() && *free_bytes < 2 * kv_bytes + kCommitBytes;
}

Result<ContextId> Database::StoreOnce(SessionImpl* session, std::span<const TokenId> tokens,
                                      const StoreOptions& options) {
  MutexLock lock(&store_mutex_);
  ATTNDB_RETURN_IF_ERROR(ExpireContexts());
  ATTNDB_ASSIGN_OR_RETURN(const db::Tenant tenant, catalog_->EnsureTenant(session->tenant()));
  if (session->tail().num_tokens() == 0 && options.name.empty() && !options.pin && !options.ttl) {
    // Nothing new: the context that has exactly these tokens, if it is still there.
    const Result<db::ContextRecord> base = catalog_->GetContext(tenant.id, session->context());
    if (base.ok() && base->num_tokens == tokens.size()) return base->id;
  }
  const uint64_t num_stored = session->num_stored();
  ATTNDB_ASSIGN_OR_RETURN(const ContextId id, PublishSession(session, tokens, options, tenant));
  num_stores_.fetch_add(1, std::memory_order_relaxed);
  // The context is durable. A merge that fails costs nothing but the next one's time.
  if (MergeEnd(tenant, id).ok()) {
    Result<Chain> chain = OpenChain(id, tokens);
    if (chain.ok()) session->Rebase(id, std::move(chain->entries), tokens);
  }
  SweepUnreferenced();  // The session has let go of what was merged.
  ScheduleFrom(*session, num_stored);
  return id;
}

Result<db::SegmentRecord> Database::SealTail(SessionImpl* session, std::span<const TokenId> tokens,
                                             db::ModelId model) {
  const uint64_t num_stored = session->num_stored();
  db::SegmentRecord record;
  ATTNDB_ASSIGN_OR_RETURN(record.id, catalog_->ReserveSegmentId());
  record.first_position = session->first_position() + static_cast<int64_t>(num_stored);
  record.num_tokens = session->tail().num_tokens();
  record.kv_bytes = record.num_tokens * session->spec().KvBytesPerToken();

  storage::SegmentWriteOptions write;
  write.file_system = file_system_;
  write.dir = segments_dir_;
  ATTNDB_ASSIGN_OR_RETURN(write.identity, registry_.IdentityOf(model));
  write.identity.segment_id = static_cast<uint64_t>(record.id);
  write.identity.first_position = record.first_position;
  write.identity.num_tokens = record.num_tokens;
  TailSource source(session, tokens.subspan(num_stored));
  ATTNDB_ASSIGN_OR_RETURN(const storage::WrittenSegment written,
                          storage::WriteSegment(write, &source));
  record.file_bytes = written.file_bytes;
  record.query_bytes = written.query_bytes;
  record.root_hash = written.root_hash;
  record.non_finite = EncodeNonFinite(written.non_finite);
  bytes_written_.fetch_add(written.file_bytes, std::memory_order_relaxed);
  return record;
}

Result<ContextId> Database::PublishSession(SessionImpl* session, std::span<const TokenId> tokens,
                                           const StoreOptions& options, const db::Tenant& tenant) {
  db::PublishRequest request;
  request.tenant = tenant.id;
  ATTNDB_ASSIGN_OR_RETURN(request.model, catalog_->EnsureModel(session->spec()));
  request.first_position = session->first_position();
  request.tokens = tokens;
  request.kv_bytes = tokens.size() * session->spec().KvBytesPerToken();
  request.name = options.name;
  request.replace = options.replace;
  request.base = session->context();
  request.num_shared = session->num_stored();
  request.drop_base = options.drop_base;
  request.ttl = options.ttl;
  request.pin = options.pin;
  std::vector<ChainEntry> chain = session->chain();
  for (const ChainEntry& entry : chain) {
    request.chain.push_back(
        {static_cast<db::SegmentId>(entry.segment->id()), entry.num_tokens_used});
  }
  // What can be refused is refused before anything is written, or evicted for it.
  ATTNDB_RETURN_IF_ERROR(CheckName(tenant, options));
  const uint64_t num_new = session->tail().num_tokens();
  if (num_new > 0) {
    const uint64_t kv_bytes = num_new * storage::BytesPerToken(*session->shape());
    ATTNDB_RETURN_IF_ERROR(ChooseVictims(tenant, kv_bytes).status());
    ATTNDB_ASSIGN_OR_RETURN(db::SegmentRecord record, SealTail(session, tokens, request.model));
    record.model = request.model;
    request.new_segments.push_back(record);
    request.chain.push_back({record.id, num_new});
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
    request.evict = std::move(victims->contexts);
    chain.push_back({*std::move(segment), num_new});
  }
  Result<db::PublishOutcome> outcome = catalog_->Publish(request);
  if (!outcome.ok()) {
    chain.clear();
    for (const db::SegmentRecord& record : request.new_segments) {
      DiscardUnpublished(record.id, outcome.status());
    }
    return std::move(outcome).status();
  }
  DiscardDoubtful();
  num_evictions_.fetch_add(outcome->num_evicted, std::memory_order_relaxed);
  session->Rebase(outcome->id, std::move(chain), tokens);
  RemoveUnreferenced(outcome->unreferenced);
  return outcome->id;
}

Status Database::ExpireContexts() {
  ATTNDB_ASSIGN_OR_RETURN(const bool any, catalog_->AnyExpired());
  if (!any) return Status::Ok();
  ATTNDB_ASSIGN_OR_RETURN(const db::DropOutcome outcome, catalog_->Expire(ContextsInUse()));
  RemoveUnreferenced(outcome.unreferenced);
  return Status::Ok();
}

Status Database::CheckStore(const std::string& tenant, const StoreOptions& options,
                            uint64_t new_bytes) {
  ATTNDB_RETURN_IF_ERROR(CheckWritable());
  ATTNDB_RETURN_IF_ERROR(db::CheckTtl(options.ttl));
  ATTNDB_ASSIGN_OR_RETURN(const db::Tenant owner, TenantOf(tenant));
  ATTNDB_RETURN_IF_ERROR(CheckName(owner, options));
  const Status room = ChooseVictims(owner, new_bytes).status();
  if (room.code() != StatusCode::kResourceExhausted) return room;
  EndDroppedBuilds();
  return ChooseVictims(owner, new_bytes).status();
}

Status Database::CheckName(const db::Tenant& tenant, const StoreOptions& options) const {
  if (options.name.empty()) return Status::Ok();
  ATTNDB_RETURN_IF_ERROR(db::CheckContextName(options.name));
  if (options.replace) return Status::Ok();
  const Result<db::ContextRecord> holder = catalog_->FindContext(tenant.id, options.name);
  if (holder.status().code() == StatusCode::kNotFound) return Status::Ok();
  if (!holder.ok()) return holder.status();
  return Status::AlreadyExists("context '" + options.name + "' exists (" +
                               std::to_string(holder->num_tokens) +
                               " tokens): drop it, or store with replace");
}

void Database::DiscardSegment(db::SegmentId id) {
  registry_.Forget(id);
  // If the removal fails the file is an orphan, which the next open removes.
  (void)storage::RemoveSegment(file_system_, segments_dir_, static_cast<uint64_t>(id));
}

void Database::DiscardUnpublished(db::SegmentId id, const Status& status) {
  switch (status.code()) {
    case StatusCode::kInvalidArgument:
    case StatusCode::kNotFound:
    case StatusCode::kAlreadyExists:
    case StatusCode::kFailedPrecondition:
    case StatusCode::kReadOnly:
      return DiscardSegment(id);  // Refused before the commit.
    default:
      // Once the log is empty no opener can find the commit in it: a full disk gets its room back.
      if (catalog_->EmptyLog()) return DiscardSegment(id);
      registry_.Forget(id);
      doubtful_.insert(id);
  }
}

void Database::DiscardDoubtful() {
  for (const db::SegmentId id : doubtful_) {
    if (catalog_->GetSegment(id).status().code() == StatusCode::kNotFound) DiscardSegment(id);
  }
  doubtful_.clear();
}

Result<Database::Victims> Database::ChooseVictims(const db::Tenant& tenant,
                                                  uint64_t new_bytes) const {
  if (tenant.quota_bytes == 0) return Victims();
  ATTNDB_ASSIGN_OR_RETURN(const db::CatalogStats stats, catalog_->Stats(tenant.id));
  if (stats.file_bytes + new_bytes <= tenant.quota_bytes) return Victims();
  const uint64_t missing_bytes = stats.file_bytes + new_bytes - tenant.quota_bytes;
  ATTNDB_ASSIGN_OR_RETURN(Victims victims, Evictable(tenant, missing_bytes, true));
  if (victims.freed_bytes >= missing_bytes) return victims;
  // Derived objects alone are no reason to refuse: they can be made again.
  const uint64_t missing_without = missing_bytes - std::min(missing_bytes, stats.companion_bytes);
  ATTNDB_ASSIGN_OR_RETURN(victims, Evictable(tenant, missing_without, false));
  victims.objects = true;
  if (victims.freed_bytes >= missing_without) return victims;
  return Status::ResourceExhausted(
      "tenant '" + tenant.name + "': quota of " + std::to_string(tenant.quota_bytes) + " bytes; " +
      std::to_string(stats.file_bytes) + " are used, " + std::to_string(new_bytes) +
      " more are needed, and contexts that are neither pinned nor in use hold " +
      std::to_string(victims.freed_bytes));
}

Result<Database::Victims> Database::Evictable(const db::Tenant& tenant, uint64_t missing_bytes,
                                              bool with_objects) const {
  Victims victims;
  constexpr size_t kMaxCandidates = 100000;
  ATTNDB_ASSIGN_OR_RETURN(const std::vector<db::EvictionCandidate> candidates,
                          catalog_->EvictionCandidates(tenant.id, ContextsInUse(), kMaxCandidates));
  // A segment is given back by the last of the contexts that share it.
  std::map<db::SegmentId, uint32_t> num_users;
  for (const db::EvictionCandidate& candidate : candidates) {
    if (victims.freed_bytes >= missing_bytes) break;
    ATTNDB_ASSIGN_OR_RETURN(const db::ContextDetail detail,
                            catalog_->Describe(tenant.id, candidate.id));
    for (const db::ChainSegment& link : detail.chain) {
      uint32_t& users = num_users.emplace(link.segment.id, link.num_contexts).first->second;
      if (--users > 0) continue;
      victims.freed_bytes += with_objects ? link.segment.total_bytes() : link.segment.file_bytes;
    }
    victims.contexts.push_back(candidate.id);
  }
  return victims;
}

Status Database::Drop(const std::string& tenant, std::string_view context) {
  ATTNDB_RETURN_IF_ERROR(CheckWritable());
  MutexLock lock(&store_mutex_);
  ATTNDB_ASSIGN_OR_RETURN(const db::ContextRecord record, Find(tenant, context));
  ATTNDB_ASSIGN_OR_RETURN(const db::DropOutcome outcome, catalog_->Drop(record.tenant, record.id));
  RemoveUnreferenced(outcome.unreferenced);
  return Status::Ok();
}

std::vector<db::SegmentId> Database::Unreferenced() const {
  MutexLock lock(&use_mutex_);
  return {unreferenced_.begin(), unreferenced_.end()};
}

void Database::SweepUnreferenced() { RemoveUnreferenced(Unreferenced()); }

void Database::RemoveUnreferenced(std::span<const db::SegmentId> segments) {
  if (segments.empty() || options_.read_only) return;
  MutexLock lock(&use_mutex_);
  std::vector<db::SegmentId> removable;
  for (const db::SegmentId id : segments) {
    // A job that is at it lets go soon, and sweeps.
    builder_.Cancel(static_cast<derived::SegmentId>(id));
    if (registry_.InUse(id)) {
      unreferenced_.insert(id);
    } else {
      unreferenced_.erase(id);
      removable.push_back(id);
    }
  }
  if (removable.empty()) return;
  const Result<std::vector<db::SegmentRecord>> removed = catalog_->RemoveSegments(removable);
  if (!removed.ok()) return;  // The next open forgets them.
  for (const db::SegmentRecord& segment : *removed) {
    DiscardSegment(segment.id);
    for (const db::CompanionRecord& companion : segment.companions) {
      object_files_.Remove(
          {static_cast<uint64_t>(segment.id), companion.kind, companion.generation});
    }
  }
}

}  // namespace attndb::internal
