// An open store: what all DB handles and sessions of it share.
//
// On disk: LOCK, catalog.db (src/db/catalog), segments/ (src/storage). The catalog's transaction is
//          the commit; a file that the catalog does not name is an orphan, removed at the next
//          open.
// Parts:   opening and admin here; what plans are priced by in machine.cc; prefix lookup in
//          open_session.cc, several contexts at once in session_over.cc, finding passages in
//          find.cc, sealing in store.cc, merging in merge.cc, what derived objects need in
//          derived_objects.cc.
// Threads: thread-safe; threads of its own build derived objects. Order of locks: store_mutex_,
//          use_mutex_, that of the builder, then those of catalog, registry, lanes, cache and
//          budget, which are leaves.
#ifndef ATTNDB_DB_DATABASE_H_
#define ATTNDB_DB_DATABASE_H_

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "attention/registry.h"
#include "attention/scratch_pool.h"
#include "attndb/db.h"
#include "attndb/options.h"
#include "attndb/result.h"
#include "attndb/stats.h"
#include "attndb/types.h"
#include "common/mutex.h"
#include "common/thread_pool.h"
#include "db/catalog/catalog.h"
#include "db/damage_reports.h"
#include "db/hints.h"
#include "db/segment_registry.h"
#include "derived/builder.h"
#include "derived/cache.h"
#include "derived/kinds.h"
#include "derived/lanes.h"
#include "derived/object_files.h"
#include "derived/store.h"
#include "planner/machine_constants.h"
#include "planner/plan_registry.h"
#include "session/session_impl.h"
#include "storage/io/file_system.h"
#include "storage/kv/memory_budget.h"

namespace attndb::internal {

class Database : public std::enable_shared_from_this<Database>,
                 public SessionHost,
                 private derived::Store {
 public:
  // Lanes of the background: those of the builder, and one for what sessions ask for else.
  static constexpr size_t kSessionLane = derived::kNumBuildLanes;
  static constexpr size_t kNumLanes = kSessionLane + 1;

  // What plans are made of, what runs them, and what they are priced by; what rows are read
  // through.
  struct Planning {
    // Null: what this version has.
    std::shared_ptr<const planner::PlanRegistry> registry;
    std::shared_ptr<const attention::Registry> operators;
    std::optional<planner::MachineConstants> machine;  // Instead of this machine's.
    // Null: layers that stay in memory.
    std::function<std::unique_ptr<storage::ChainSource>()> make_rows;
  };

  // `file_system` must outlive the database.
  static Result<std::shared_ptr<Database>> Open(const std::string& path, const DBOptions& options,
                                                storage::FileSystem* file_system,
                                                Planning planning = {});
  ~Database() override;

 private:
  class Key {  // Only Open can make one: the constructor is public for make_shared alone.
    friend class Database;
    Key() = default;
  };

 public:
  struct Parts {
    std::string path;
    DBOptions options;
    std::string index_use;  // Of options.index.
    storage::FileSystem* file_system = nullptr;
    Planning planning;
    std::unique_ptr<storage::FileLock> lock;
    std::unique_ptr<db::Catalog> catalog;
  };
  Database(Key key, Parts parts);

  // --- For DB: as there, for the tenant of that name. ---

  // Reuses at most `max_reuse` tokens.
  Result<std::unique_ptr<SessionImpl>> OpenSession(const std::string& tenant, const ModelSpec& spec,
                                                   std::span<const TokenId> tokens,
                                                   uint64_t max_reuse,
                                                   const SessionOptions& options);
  Result<std::unique_ptr<SessionImpl>> OpenSessionOver(const std::string& tenant,
                                                       const ModelSpec& spec,
                                                       std::span<const std::string> contexts,
                                                       const SessionOptions& options);
  // A session that holds all of a context and nothing else, under the spec that it was stored with.
  // Errors: kNotFound; kCorruption.
  Result<std::unique_ptr<SessionImpl>> OpenWhole(const std::string& tenant,
                                                 std::string_view context);
  Result<ContextId> Store(SessionImpl* session, std::span<const TokenId> tokens,
                          const StoreOptions& options) ATTNDB_EXCLUDES(store_mutex_, use_mutex_);
  // What Store would refuse for its options, or for `new_bytes` of K and V.
  Status CheckStore(const std::string& tenant, const StoreOptions& options, uint64_t new_bytes)
      ATTNDB_EXCLUDES(store_mutex_, use_mutex_);
  Result<PrefixExplain> ExplainPrefix(const std::string& tenant, const ModelSpec& spec,
                                      std::span<const TokenId> tokens,
                                      const SessionOptions& options) const;
  Result<FindResult> FindPassages(const std::string& tenant, const ModelSpec& spec,
                                  const FindQuery& query, const FindOptions& options)
      ATTNDB_EXCLUDES(use_mutex_);
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
  Status Compact(const std::string& tenant, const CompactOptions& options)
      ATTNDB_EXCLUDES(store_mutex_, use_mutex_);
  Result<BuildReport> Build(const std::string& tenant, std::string_view context,
                            std::string_view index, const BuildOptions& options);
  Status WaitForBackground(const derived::Lanes::Progress& progress);
  Result<DBStats> Stats(const std::string& tenant) const;

  // --- SessionHost. ---

  const SessionParts& parts() const override { return session_parts_; }
  const SessionSettings& settings() const override { return session_settings_; }
  void AskForPrices() override;
  Status WaitFor(std::span<const derived::Lanes::AddedPtr> jobs) override {
    return background_.WaitFor(jobs, nullptr);
  }
  void NoteDamage(const storage::Segment& segment, const Status& status) override;
  void SessionOpened(ContextId context) override ATTNDB_EXCLUDES(use_mutex_);
  void SessionMoved(ContextId from, ContextId to) override ATTNDB_EXCLUDES(use_mutex_);
  void SessionClosed(ContextId context) override ATTNDB_EXCLUDES(use_mutex_);
  std::optional<ContextStatistics> FindLearned(ContextId context) const override {
    return hints_.FindContext(context);
  }
  void KeepLearned(ContextId context, const ContextStatistics& learned) override {
    hints_.NoteContext(context, learned);
  }

  // --- For DB and for tests. ---

  const DBOptions& options() const { return options_; }
  const planner::PlanRegistry& plans() const { return *planning_.registry; }
  const planner::MachineConstants& Machine() const {
    return *machine_.load(std::memory_order_acquire);
  }
  // Measures this machine if nobody has. Errors: kResourceExhausted (memory).
  Status MeasureNow() ATTNDB_EXCLUDES(machine_mutex_);
  Hints* hints() { return &hints_; }
  storage::MemoryBudget* budget() { return &budget_; }
  const derived::Kinds& kinds() const { return kinds_; }
  const derived::Cache& objects() const { return objects_; }
  derived::Builder* builder() { return &builder_; }
  derived::Lanes* background() { return &background_; }

 private:
  struct Chain {
    std::vector<ChainEntry> entries;
    std::vector<TokenId> tokens;
  };
  // To make room for a Store.
  struct Victims {
    std::vector<ContextId> contexts;
    uint64_t freed_bytes = 0;
    bool objects = false;  // All derived objects of the tenant's as well.
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

  // machine.cc
  // What was measured before, or fixed prices.
  void TakeMachine() ATTNDB_EXCLUDES(machine_mutex_);
  void KeepMachine(planner::MachineConstants machine) ATTNDB_REQUIRES(machine_mutex_);

  // open_session.cc
  // How often a lookup starts again because what it found was damaged, or gone, when it was opened.
  static constexpr int kMaxAttempts = 8;
  // What a session starts from, its chain left out.
  Result<SessionSeed> SeedOf(const std::string& tenant, const ModelSpec& spec,
                             const SessionOptions& options);
  // The context of that name, if sessions of the spec can use it from that position on.
  // Errors: kNotFound (unknown, or expired); kFailedPrecondition (of another model, or at another
  //         position); kCorruption (damaged).
  Result<db::ContextRecord> NamedContext(const db::Tenant& tenant, const ModelSpec& spec,
                                         const std::string& name, int64_t first_position) const;
  Result<Match> FindPrefix(const db::Tenant& tenant, const ModelSpec& spec,
                           std::span<const TokenId> tokens, const SessionOptions& options) const;
  static std::vector<std::string> ReasonsOf(const db::PrefixReport& report,
                                            std::span<const TokenId> tokens,
                                            const SessionOptions& options);
  bool IsExpired(const db::ContextRecord& context) const;
  // `status` says why a segment that the catalog names can't be read. Where its bytes are wrong or
  // missing it is quarantined, if the store may be written to: then kCorruption. Else `status`.
  Status QuarantineIfDamaged(db::SegmentId segment, Status status) const;
  // Opens the context's first segments, up to `tokens`, which they must hold.
  Result<Chain> OpenChain(ContextId context, std::span<const TokenId> tokens)
      ATTNDB_EXCLUDES(use_mutex_);
  Result<std::unique_ptr<SessionImpl>> OpenMatch(SessionSeed seed, const Match& match,
                                                 std::span<const TokenId> tokens);

  // How many sessions use a context.
  void BeginUse(ContextId context) ATTNDB_REQUIRES(use_mutex_);
  void EndUse(ContextId context) ATTNDB_REQUIRES(use_mutex_);

  // session_over.cc
  struct WholeContext;
  class ContextHold;
  class ContextJoin;
  // The context and all of its tokens.
  Result<WholeContext> OpenNamed(const db::Tenant& tenant, const ModelSpec& spec,
                                 const std::string& name, int64_t first_position)
      ATTNDB_EXCLUDES(use_mutex_);
  Result<WholeContext> TryOpenNamed(const db::Tenant& tenant, const ModelSpec& spec,
                                    const std::string& name, int64_t first_position)
      ATTNDB_EXCLUDES(use_mutex_);
  void HoldContext(ContextId context) ATTNDB_EXCLUDES(use_mutex_);
  void ReleaseContext(ContextId context) ATTNDB_EXCLUDES(use_mutex_);

  // find.cc
  struct Searched;
  // Those that are asked for, oldest first.
  Result<std::vector<db::ContextRecord>> ContextsToSearch(const db::Tenant& tenant,
                                                          const FindOptions& options) const;
  // Why the context can't be searched by this model; nothing if it can.
  Result<std::optional<std::string>> ReasonToSkip(const db::ContextRecord& context,
                                                  const ModelSpec& spec) const;
  // Opens the context's segments that no context before has.
  Status AddContext(const db::ContextRecord& context, Searched* searched)
      ATTNDB_EXCLUDES(use_mutex_);

  // store.cc
  Result<ContextId> StoreOnce(SessionImpl* session, std::span<const TokenId> tokens,
                              const StoreOptions& options)
      ATTNDB_EXCLUDES(store_mutex_, use_mutex_);
  // Too full, perhaps, for what the session would store.
  bool IsDiskFull(const SessionImpl& session) const;
  Result<db::SegmentRecord> SealTail(SessionImpl* session, std::span<const TokenId> tokens,
                                     db::ModelId model) ATTNDB_REQUIRES(store_mutex_);
  Result<ContextId> PublishSession(SessionImpl* session, std::span<const TokenId> tokens,
                                   const StoreOptions& options, const db::Tenant& tenant)
      ATTNDB_REQUIRES(store_mutex_);
  // That the name may be given to a new context.
  Status CheckName(const db::Tenant& tenant, const StoreOptions& options) const;
  // What must go before `new_bytes` more fit into the quota.
  Result<Victims> ChooseVictims(const db::Tenant& tenant, uint64_t new_bytes) const
      ATTNDB_EXCLUDES(use_mutex_);
  // Contexts to evict before `missing_bytes` are free, by what their segments give back, with or
  // without derived objects; and how many bytes that is, which may be fewer.
  Result<Victims> Evictable(const db::Tenant& tenant, uint64_t missing_bytes,
                            bool with_objects) const ATTNDB_EXCLUDES(use_mutex_);
  // Removes a segment that was sealed and that no commit names.
  void DiscardSegment(db::SegmentId id);
  // The same after the commit that should name it gave `status`. A commit that failed while it was
  // written may yet be found by who opens the store after a crash; then its segment must be there.
  void DiscardUnpublished(db::SegmentId id, const Status& status) ATTNDB_REQUIRES(store_mutex_);
  // After a later commit, which has overwritten what failed before.
  void DiscardDoubtful() ATTNDB_REQUIRES(store_mutex_);
  Status ExpireContexts() ATTNDB_REQUIRES(store_mutex_) ATTNDB_EXCLUDES(use_mutex_);
  // Those that had readers when they lost their last context.
  std::vector<db::SegmentId> Unreferenced() const ATTNDB_EXCLUDES(use_mutex_);
  // Removes those of them that have none any more.
  void SweepUnreferenced() ATTNDB_EXCLUDES(use_mutex_);
  // Removes those segments that no session reads; the others when their sessions are gone.
  void RemoveUnreferenced(std::span<const db::SegmentId> segments) ATTNDB_EXCLUDES(use_mutex_);

  // merge.cc
  // What a Store has made too many small segments of (merge_policy.h).
  Status MergeEnd(const db::Tenant& tenant, ContextId context) ATTNDB_REQUIRES(store_mutex_)
      ATTNDB_EXCLUDES(use_mutex_);
  // Called before each layer with bytes of K and V of the run that are copied; false cancels.
  using MergeProgress = std::function<bool(uint64_t bytes_done)>;
  // One segment in place of the run, each cut to what is used of it. Quarantines what is damaged of
  // the run. `progress` may be null.
  Status MergeRun(std::span<const db::ChainSegment> run, const MergeProgress& progress)
      ATTNDB_REQUIRES(store_mutex_) ATTNDB_EXCLUDES(use_mutex_);
  Status TryMergeRun(std::span<const db::ChainSegment> run, const MergeProgress& progress)
      ATTNDB_REQUIRES(store_mutex_) ATTNDB_EXCLUDES(use_mutex_);

  // compact.cc
  struct Compaction;
  // Bytes of K and V that will be copied, if `options` ask for progress.
  uint64_t BytesToCompact(std::span<const db::ContextRecord> contexts,
                          const CompactOptions& options) const;
  Result<std::vector<db::ContextRecord>> ContextsToCompact(const db::Tenant& owner,
                                                           const CompactOptions& options) const;
  Status CompactContexts(std::span<const db::ContextRecord> contexts, Compaction* work)
      ATTNDB_REQUIRES(store_mutex_) ATTNDB_EXCLUDES(use_mutex_);
  Status CompactChain(const db::ContextRecord& context, Compaction* work)
      ATTNDB_REQUIRES(store_mutex_) ATTNDB_EXCLUDES(use_mutex_);

  // derived_objects.cc
  static derived::SegmentFacts FactsOf(const db::SegmentRecord& record);  // Without wishes.
  Result<derived::SegmentFacts> FactsAndWishes(const db::SegmentRecord& record) const;
  bool writes_objects() const { return options_.background_builds && !options_.read_only; }
  // Drops objects of kinds that the ones we read took the place of. Their files become orphans.
  Status ForgetFormerKinds();
  // Segments of one tenant, or of all with kNone, that lack what every segment has, or
  // what was wished for.
  Result<std::set<db::SegmentId>> SegmentsToBuild(db::TenantId tenant) const;
  // Builds what they lack in the background.
  Status ScheduleMissing(db::TenantId tenant);
  Result<uint64_t> CountPending(db::TenantId tenant) const;  // Of one tenant.
  // The same for a segment,
  void ScheduleObjects(db::SegmentId segment);
  // ... and for the segments of a session's chain that hold tokens from this one on.
  void ScheduleFrom(const SessionImpl& session, uint64_t first_token);
  // With grow_graphs, what is built of the merged segment goes on from what the run's first has.
  void NoteGrowth(std::span<const db::ChainSegment> run, const db::SegmentRecord& merged);
  // The catalog names them no more.
  void ForgetObjects(std::span<const storage::ObjectName> names);
  // All of a tenant's, or of all with kNone; false if the catalog could not.
  bool DropObjects(db::TenantId tenant);
  // The same on a full disk, and none is built meanwhile.
  void GiveUpObjects() ATTNDB_EXCLUDES(store_mutex_);
  // Waits until the background has let go of segments that lost their last context: they count as
  // used as long as it reads them.
  void EndDroppedBuilds() ATTNDB_EXCLUDES(store_mutex_, use_mutex_);
  Status VerifyObject(const db::SegmentRecord& segment, const db::CompanionRecord& object,
                      VerifyReport* report);
  // Errors: kFailedPrecondition (there is no such segment any more).
  Result<db::SegmentRecord> SegmentToBuild(derived::SegmentId id) const;
  // kFailedPrecondition if so many more bytes would leave too little of the disk to those who
  // store,
  Status CheckDisk(uint64_t new_bytes) const;
  // ... or do not fit into the tenant's quota: nothing is evicted for a derived object.
  Status CheckRoom(db::TenantId id, uint64_t new_bytes) const;

  // As derived/store.h.
  Result<derived::OpenedSegment> OpenSegment(derived::SegmentId id) override
      ATTNDB_EXCLUDES(use_mutex_);
  void SegmentReleased() override ATTNDB_EXCLUDES(use_mutex_);
  Status Admit(derived::SegmentId id, uint64_t bytes) override;
  Result<uint64_t> ReserveGeneration() override;
  Status Wish(derived::SegmentId id, std::string_view kind) override;
  Status PublishObject(derived::SegmentId id, const derived::ObjectRecord& object) override
      ATTNDB_EXCLUDES(store_mutex_);
  void ReportDamage(const storage::Segment& segment, const Status& status) override;
  void ReportLoss(const storage::ObjectName& name, const Status& status) override;

  // Constant after Open.
  const std::string path_;
  const std::string segments_dir_;
  const DBOptions options_;
  storage::FileSystem* const file_system_;
  const Planning planning_;
  const std::unique_ptr<storage::FileLock> lock_;  // Null if read-only.

  storage::MemoryBudget budget_;
  attention::ScratchPool scratch_{&budget_};
  const std::unique_ptr<db::Catalog> catalog_;
  mutable DamageReports damage_reports_;  // Written down by who reads the catalog.
  SegmentRegistry registry_;
  const derived::Kinds kinds_;
  const derived::ObjectFiles object_files_;
  derived::Cache objects_;
  derived::Builder builder_;
  ThreadPool pool_;
  Hints hints_;
  const SessionParts session_parts_;
  const SessionSettings session_settings_;

  const planner::MachineConstants default_machine_;  // Given, or fixed prices.
  Mutex machine_mutex_;  // One measures. A leaf, but for the mutex of hints_.
  std::unique_ptr<const planner::MachineConstants> known_machine_ ATTNDB_GUARDED_BY(machine_mutex_);
  // What Machine gives. Set once more when it was measured: released with the constants that it
  // points to, which stay; acquired by who reads them.
  std::atomic<const planner::MachineConstants*> machine_ = nullptr;
  std::atomic<bool> asked_to_measure_ = false;  // Relaxed: the lanes order the rest.

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

  derived::Lanes background_;  // The last: its jobs use all others until they have ended.
};

// Path of an object's data file in the store.
std::string PathInStore(const storage::ObjectName& name);

// The spec with its defaults filled in: what identity and arithmetic are built on.
ModelSpec Resolve(ModelSpec spec);

}  // namespace attndb::internal

#endif  // ATTNDB_DB_DATABASE_H_
