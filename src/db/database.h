// An open store: what all DB handles and sessions of it share.
//
// On disk: LOCK, catalog.db (src/db/catalog), segments/ (src/storage). The catalog's transaction is
//          the commit; a file that the catalog does not name is an orphan, removed at the next
//          open.
// Parts:   opening and admin here; prefix lookup in open_session.cc, sealing in store.cc, merging
//          in merge.cc.
// Threads: thread-safe. Order of locks: store_mutex_, use_mutex_, then those of catalog, registry
//          and budget, which are leaves.
#ifndef ATTNDB_DB_DATABASE_H_
#define ATTNDB_DB_DATABASE_H_

#include <atomic>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "attndb/db.h"
#include "attndb/options.h"
#include "attndb/result.h"
#include "attndb/stats.h"
#include "attndb/types.h"
#include "common/mutex.h"
#include "common/thread_pool.h"
#include "db/catalog/catalog.h"
#include "db/plane_cache.h"
#include "db/segment_registry.h"
#include "db/session_impl.h"
#include "storage/io/file_system.h"
#include "storage/kv/memory_budget.h"

namespace attndb::internal {

class Database : public std::enable_shared_from_this<Database> {
 public:
  // `file_system` must outlive the database.
  static Result<std::shared_ptr<Database>> Open(const std::string& path, const DBOptions& options,
                                                storage::FileSystem* file_system);
  ~Database();

 private:
  class Key {  // Only Open can make one: the constructor is public for make_shared alone.
    friend class Database;
    Key() = default;
  };

 public:
  Database(Key key, std::string path, const DBOptions& options, storage::FileSystem* file_system,
           std::unique_ptr<storage::FileLock> lock, std::unique_ptr<db::Catalog> catalog);

  // --- For DB: as there, for the tenant of that name. ---

  // Reuses at most `max_reuse` tokens.
  Result<std::unique_ptr<SessionImpl>> OpenSession(const std::string& tenant, const ModelSpec& spec,
                                                   std::span<const TokenId> tokens,
                                                   uint64_t max_reuse,
                                                   const SessionOptions& options);
  // A session that holds all of a context and nothing else, under the spec that it was stored with.
  // Errors: kNotFound; kCorruption.
  Result<std::unique_ptr<SessionImpl>> OpenWhole(const std::string& tenant,
                                                 std::string_view context);
  Result<ContextId> Store(SessionImpl* session, std::span<const TokenId> tokens,
                          const StoreOptions& options) ATTNDB_EXCLUDES(store_mutex_, use_mutex_);
  // What Store would refuse for its options, or for `new_bytes` of K and V.
  Status CheckStore(const std::string& tenant, const StoreOptions& options,
                    uint64_t new_bytes) const ATTNDB_EXCLUDES(use_mutex_);
  Result<PrefixExplain> ExplainPrefix(const std::string& tenant, const ModelSpec& spec,
                                      std::span<const TokenId> tokens,
                                      const SessionOptions& options) const;
  Result<std::vector<ContextInfo>> List(const std::string& tenant) const;
  Result<ContextInfo> Describe(const std::string& tenant, std::string_view context) const;
  Result<std::vector<TokenId>> Tokens(const std::string& tenant, std::string_view context) const;
  Status Pin(const std::string& tenant, std::string_view context, bool pinned);
  Status SetTtl(const std::string& tenant, std::string_view context,
                std::optional<std::chrono::seconds> ttl);
  Status Drop(const std::string& tenant, std::string_view context)
      ATTNDB_EXCLUDES(store_mutex_, use_mutex_);
  Status SetQuota(const std::string& tenant, uint64_t bytes);
  Status DeclareEqual(std::string_view fingerprint_a, std::string_view fingerprint_b);
  Result<VerifyReport> Verify(const std::string& tenant, const VerifyOptions& options);
  Status Compact(const std::string& tenant) ATTNDB_EXCLUDES(store_mutex_, use_mutex_);
  Result<DBStats> Stats(const std::string& tenant) const;

  // --- For sessions. ---

  const DBOptions& options() const { return options_; }
  storage::MemoryBudget* budget() { return &budget_; }
  PlaneCache* planes() { return &planes_; }
  ThreadPool* pool() { return &pool_; }
  void SessionOpened(ContextId context) ATTNDB_EXCLUDES(use_mutex_);
  void SessionMoved(ContextId from, ContextId to) ATTNDB_EXCLUDES(use_mutex_);
  void SessionClosed(ContextId context) ATTNDB_EXCLUDES(use_mutex_);
  // Quarantines the segment if `status` says that its bytes are wrong.
  void ReportDamage(const storage::Segment& segment, const Status& status);

 private:
  struct Chain {
    std::vector<ChainEntry> entries;
    std::vector<TokenId> tokens;
  };
  // A context found for a prompt.
  struct Match {
    ContextId context = ContextId::kNone;
    uint64_t num_tokens = 0;
  };

  Status RemoveOrphans();
  Status CheckWritable() const;
  Result<db::Tenant> TenantOf(const std::string& name) const;  // kNotFound, as if it were empty.
  Result<db::ContextRecord> Find(const std::string& tenant, std::string_view context) const;
  ContextInfo InfoOf(const db::ContextDetail& detail) const;
  Status VerifySegment(const db::SegmentRecord& record, VerifyReport* report);
  std::vector<ContextId> ContextsInUse() const ATTNDB_EXCLUDES(use_mutex_);

  // open_session.cc
  Result<Match> FindPrefix(const db::Tenant& tenant, const ModelSpec& spec,
                           std::span<const TokenId> tokens, const SessionOptions& options) const;
  static std::vector<std::string> ReasonsOf(const db::PrefixReport& report,
                                            std::span<const TokenId> tokens,
                                            const SessionOptions& options);
  // Opens the context's first segments, up to `tokens`, which they must hold.
  Result<Chain> OpenChain(ContextId context, std::span<const TokenId> tokens)
      ATTNDB_EXCLUDES(use_mutex_);
  Result<std::unique_ptr<SessionImpl>> OpenMatch(SessionSeed seed, const Match& match,
                                                 std::span<const TokenId> tokens);

  // store.cc
  Result<db::SegmentRecord> SealTail(SessionImpl* session, std::span<const TokenId> tokens,
                                     db::ModelId model) ATTNDB_REQUIRES(store_mutex_);
  Result<ContextId> PublishSession(SessionImpl* session, std::span<const TokenId> tokens,
                                   const StoreOptions& options, const db::Tenant& tenant)
      ATTNDB_REQUIRES(store_mutex_);
  // That the name may be given to a new context.
  Status CheckName(const db::Tenant& tenant, const StoreOptions& options) const;
  // Contexts to evict before `new_bytes` more fit into the quota.
  Result<std::vector<ContextId>> ChooseVictims(const db::Tenant& tenant, uint64_t new_bytes) const
      ATTNDB_EXCLUDES(use_mutex_);
  // Removes a segment that was sealed and that no commit names.
  void DiscardSegment(db::SegmentId id);
  // The same after the commit that should name it gave `status`. A commit that failed while it was
  // written may yet be found by who opens the store after a crash; then its segment must be there.
  void DiscardUnpublished(db::SegmentId id, const Status& status) ATTNDB_REQUIRES(store_mutex_);
  // After a later commit, which has overwritten what failed before.
  void DiscardDoubtful() ATTNDB_REQUIRES(store_mutex_);
  Status ExpireContexts() ATTNDB_REQUIRES(store_mutex_) ATTNDB_EXCLUDES(use_mutex_);
  // The same for all that had readers when they lost their last context.
  void SweepUnreferenced() ATTNDB_EXCLUDES(use_mutex_);
  // Removes those segments that no session reads; the others when their sessions are gone.
  void RemoveUnreferenced(std::span<const db::SegmentId> segments) ATTNDB_EXCLUDES(use_mutex_);

  // merge.cc
  Status MergeChain(const db::Tenant& tenant, ContextId context, bool thorough)
      ATTNDB_REQUIRES(store_mutex_) ATTNDB_EXCLUDES(use_mutex_);
  // Quarantines what is damaged of the run.
  Status MergeRun(std::span<const db::ChainSegment> run) ATTNDB_REQUIRES(store_mutex_)
      ATTNDB_EXCLUDES(use_mutex_);
  Status TryMergeRun(std::span<const db::ChainSegment> run) ATTNDB_REQUIRES(store_mutex_)
      ATTNDB_EXCLUDES(use_mutex_);

  // Constant after Open.
  const std::string path_;
  const std::string segments_dir_;
  const DBOptions options_;
  storage::FileSystem* const file_system_;
  const std::unique_ptr<storage::FileLock> lock_;  // Null if read-only.

  storage::MemoryBudget budget_;
  const std::unique_ptr<db::Catalog> catalog_;
  SegmentRegistry registry_;
  PlaneCache planes_;
  ThreadPool pool_;

  Mutex store_mutex_;  // One Store, merge or eviction at a time.
  // Sealed, and their commit failed: see DiscardUnpublished.
  std::set<db::SegmentId> doubtful_ ATTNDB_GUARDED_BY(store_mutex_);

  mutable Mutex use_mutex_;
  std::map<ContextId, uint32_t> in_use_ ATTNDB_GUARDED_BY(use_mutex_);  // Sessions a context.
  uint64_t num_sessions_ ATTNDB_GUARDED_BY(use_mutex_) = 0;
  std::set<db::SegmentId> unreferenced_ ATTNDB_GUARDED_BY(use_mutex_);  // A session reads them yet.

  // Counters since open: independent, so relaxed.
  mutable std::atomic<uint64_t> num_lookups_ = 0;
  mutable std::atomic<uint64_t> num_prompt_tokens_ = 0;
  mutable std::atomic<uint64_t> num_reused_tokens_ = 0;
  std::atomic<uint64_t> num_stores_ = 0;
  std::atomic<uint64_t> num_evictions_ = 0;
  std::atomic<uint64_t> bytes_written_ = 0;
  std::atomic<uint64_t> bytes_merged_ = 0;
};

// The spec with its defaults filled in: what identity and arithmetic are built on.
ModelSpec Resolve(ModelSpec spec);

}  // namespace attndb::internal

#endif  // ATTNDB_DB_DATABASE_H_
