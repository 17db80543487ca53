// What is durable: contexts, the segments that they are chains of, and what is derived from these.
//
// On disk: LOCK, catalog.db (store/catalog), segments/ (src/storage), reserve (drop_reserve.h). The
//          catalog's transaction is
//          the commit; a file that the catalog does not name is an orphan, removed at the next
//          open.
// Parts:   opening and admin in context_store.cc; from a prompt to a chain in lookup.cc; what a
//          search looks through in search_set.cc; sealing and publishing in publish.cc, eviction
//          and removal of files in eviction.cc; merging in merge.cc and compact.cc; verify.cc; what
//          derived objects need in derived_objects.cc, builds that are asked for in build.cc.
// Names:   `tenant` is a tenant's name, `context` as DB's functions take it.
// Threads: thread-safe; threads of its own build derived objects. Order of locks: store_mutex_,
//          use_mutex_, that of the builder, then those of catalog, registry, lanes, cache and
//          budget, which are leaves.
#ifndef ATTNDB_STORE_CONTEXT_STORE_H_
#define ATTNDB_STORE_CONTEXT_STORE_H_

#include <atomic>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <optional>
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
#include "derived/builder.h"
#include "derived/cache.h"
#include "derived/kinds.h"
#include "derived/lanes.h"
#include "derived/object_files.h"
#include "derived/store.h"
#include "storage/io/file_system.h"
#include "storage/kv/memory_budget.h"
#include "store/catalog/catalog.h"
#include "store/chain.h"
#include "store/damage_reports.h"
#include "store/drop_reserve.h"
#include "store/merged_runs.h"
#include "store/segment_registry.h"
#include "store/writers.h"

namespace attndb::store {

class ContextStore final : private derived::Store {
 public:
  // Lanes of the background: those of the builder, one for what is short, and one for merges.
  static constexpr size_t kShortLane = derived::kNumBuildLanes;
  static constexpr size_t kMergeLane = kShortLane + 1;
  static constexpr size_t kNumLanes = kMergeLane + 1;

  // What the store is given. All of it must outlive the store.
  struct Given {
    storage::FileSystem* file_system = nullptr;
    storage::MemoryBudget* budget = nullptr;
    const derived::Kinds* kinds = nullptr;
    // Called when Renew may find more than before, perhaps with locks held: returns at once.
    std::function<void()> merged;
    const derived::Kind* also =
        nullptr;  // Built of every segment, beside what all have. May be null.
  };

  static Result<std::unique_ptr<ContextStore>> Open(const std::string& path,
                                                    const DBOptions& options, const Given& given);
  ~ContextStore() override;

 private:
  class Key {  // Only Open can make one: the constructor is public for make_unique alone.
    friend class ContextStore;
    Key() = default;
  };

 public:
  ContextStore(Key key, std::string path, DBOptions options, const Given& given,
               std::unique_ptr<storage::FileLock> lock, std::unique_ptr<Catalog> catalog);

  // Ends the background, whose jobs may use what the caller has.
  void Stop() { background_.Stop(); }

  // --- From a prompt to what is stored of it. The spec's defaults are resolved. ---

  // Opens what is reused of the prompt. Looks again where what it found turns out to be damaged, or
  // gone.
  // Errors: as DB::CreateSession.
  Result<Prefix> OpenPrefix(const std::string& tenant, const ModelSpec& spec,
                            std::span<const TokenId> tokens, const SessionOptions& options)
      ATTNDB_EXCLUDES(use_mutex_);
  // Opens the context with all of its tokens. Errors: as DB::CreateSessionOver.
  Result<WholeContext> OpenNamed(const std::string& tenant, const ModelSpec& spec,
                                 const std::string& name, int64_t first_position)
      ATTNDB_EXCLUDES(use_mutex_);
  // Opens the contexts that a search may look through, oldest first. Errors: as DB::Find.
  Result<SearchSet> OpenForSearch(const std::string& tenant, const ModelSpec& spec,
                                  std::span<const std::string> names) ATTNDB_EXCLUDES(use_mutex_);
  Result<StoredText> TextOf(const std::string& tenant, std::string_view context) const;
  // REQUIRES: at least one token.
  Result<PrefixExplain> ExplainPrefix(const std::string& tenant, const ModelSpec& spec,
                                      std::span<const TokenId> tokens,
                                      const SessionOptions& options) const;

  // --- Writing. ---

  // Durable when it returns. What it merged is held by who has the request's chain: see Sweep.
  // Segments are written side by side; commits wait for each other.
  Result<Stored> Store(const StoreRequest& request)
      ATTNDB_EXCLUDES(merge_mutex_, store_mutex_, use_mutex_);
  // The same in a thread of the store's, which calls `done` in the end. The store's destructor
  // waits for that.
  void StoreLater(StoreRequest request, std::function<void(Result<Stored>)> done);
  // The errors of Store that its options, or `new_bytes` of K and V, would cause.
  Status CheckStore(const std::string& tenant, const StoreOptions& options, uint64_t new_bytes)
      ATTNDB_EXCLUDES(store_mutex_, use_mutex_);
  Status Drop(const std::string& tenant, std::string_view context)
      ATTNDB_EXCLUDES(merge_mutex_, store_mutex_, use_mutex_);
  Status Compact(const std::string& tenant, const CompactOptions& options)
      ATTNDB_EXCLUDES(merge_mutex_, store_mutex_, use_mutex_);
  // Builds objects of the kind for each segment of the context.
  Result<BuildReport> Build(const std::string& tenant, std::string_view context,
                            const derived::Kind& kind, const BuildOptions& options);

  // --- Who reads what. ---

  // Keeps the context from being evicted for as long as the result lives, and counts that as its
  // last access. The store must outlive the result; null for no context.
  std::shared_ptr<const void> Hold(ContextId context) ATTNDB_EXCLUDES(use_mutex_);
  // Removes the files of segments that lost their last context and, since, their last reader.
  void Sweep() ATTNDB_EXCLUDES(use_mutex_);
  // Notes that the segment's rows could not be read. If `status` says that its bytes are wrong, it
  // will be quarantined: by the background, or by the next call that looks into the catalog.
  void NoteDamage(const storage::Segment& segment, const Status& status);

  // The chain with merged segments in the place of runs that it holds, as far as each has the
  // derived objects that its run has; nothing if there is none. num_merged(): while it is 0, or as
  // it was, and objects().version() too, the answer is as before.
  std::optional<std::vector<storage::ChainEntry>> Renew(
      std::span<const storage::ChainEntry> chain) const;
  const std::atomic<uint64_t>& num_merged() const { return merged_runs_.num_added(); }

  // --- Admin: as DB. ---

  Result<std::vector<ContextInfo>> List(const std::string& tenant) const;
  Result<ContextInfo> Describe(const std::string& tenant, std::string_view context) const;
  Status Pin(const std::string& tenant, std::string_view context, bool pinned);
  Status SetTtl(const std::string& tenant, std::string_view context,
                std::optional<std::chrono::seconds> ttl);
  Status SetQuota(const std::string& tenant, uint64_t bytes);
  Status DeclareEqual(std::string_view fingerprint_a, std::string_view fingerprint_b);
  Result<VerifyReport> Verify(const std::string& tenant, const VerifyOptions& options);
  // Without the figures of sessions and memory.
  Result<DBStats> Stats(const std::string& tenant) const;

  // --- What sessions read and ask for. ---

  const derived::Cache& objects() const { return objects_; }
  derived::Builder* builder() { return &builder_; }
  derived::Lanes* background() { return &background_; }

 private:
  // What to remove to make room for a Store.
  struct Victims {
    std::vector<ContextId> contexts;
    uint64_t freed_bytes = 0;
    bool objects = false;  // Whether all derived objects of the tenant are removed, too.
  };
  // Whose context is stored, and of which model.
  struct Owner {
    const Tenant& tenant;
    ModelId model;
  };
  // A context found for a prompt.
  struct Match {
    ContextId context = ContextId::kNone;
    uint64_t num_tokens = 0;
  };

  Status RemoveOrphans();
  Status CheckWritable() const;
  // `spec` is that of its model.
  ContextInfo InfoOf(const ContextDetail& detail, const ModelSpec& spec) const;
  void EndUse(ContextId context) ATTNDB_EXCLUDES(use_mutex_);
  std::vector<ContextId> ContextsInUse() const ATTNDB_EXCLUDES(use_mutex_);

  // verify.cc
  Status VerifySegment(const SegmentRecord& record, VerifyReport* report);
  Status VerifyObject(const SegmentRecord& segment, const CompanionRecord& object,
                      VerifyReport* report);

  // lookup.cc
  // How often a lookup starts again because what it found was damaged, or gone, when it was opened.
  static constexpr int kMaxAttempts = 8;
  // The context of that name, if sessions of the spec can use it from that position on.
  // Errors: kNotFound (unknown, or expired); kFailedPrecondition (of another model, or at another
  //         position); kCorruption (damaged).
  Result<ContextRecord> NamedContext(const Tenant& tenant, const ModelSpec& spec,
                                     const std::string& name, int64_t first_position) const;
  Result<Match> FindPrefix(const Tenant& tenant, const ModelSpec& spec,
                           std::span<const TokenId> tokens, const SessionOptions& options) const;
  bool IsExpired(const ContextRecord& context) const;
  // The error for a segment that the catalog names and that could not be read with `status`. Where
  // its bytes are wrong or missing, it is quarantined, if the store may be written to: then
  // kCorruption. Otherwise `status`.
  Status QuarantineIfDamaged(SegmentId segment, Status status) const;
  // Opens the context's first segments, as many as hold `tokens`, which the context must have.
  Result<Chain> OpenChain(ContextId context, std::span<const TokenId> tokens)
      ATTNDB_EXCLUDES(use_mutex_);
  Result<Prefix> OpenMatch(const Match& match, std::span<const TokenId> tokens);
  Result<WholeContext> TryOpenNamed(const Tenant& tenant, const ModelSpec& spec,
                                    const std::string& name, int64_t first_position)
      ATTNDB_EXCLUDES(use_mutex_);

  // search_set.cc
  Result<std::vector<ContextRecord>> ContextsToSearch(const Tenant& tenant,
                                                      std::span<const std::string> names) const;
  // Why the context can't be searched by this model; nothing if it can.
  Result<std::optional<std::string>> ReasonToSkip(const ContextRecord& context,
                                                  const ModelSpec& spec) const;
  // Adds the context to the set. Opens those of its segments that no earlier context has. `run_of`:
  // runs of the set, by segment.
  Status AddContext(const ContextRecord& context, std::map<SegmentId, size_t>* run_of,
                    SearchSet* set) ATTNDB_EXCLUDES(use_mutex_);

  // publish.cc
  Result<Stored> StoreOnce(const StoreRequest& request)
      ATTNDB_EXCLUDES(merge_mutex_, store_mutex_, use_mutex_);
  // Whether the disk may be too full for what is to be stored.
  bool IsDiskFull(const StoreRequest& request) const;
  // Checks, before anything is written, what can be refused by then: as CheckStore.
  Status CheckRequest(const StoreRequest& request, const Tenant& tenant);
  // Writes the request's tail as a segment that no commit names yet. Nothing if there is no tail.
  // Tenants' seals do not wait for each other.
  Result<std::optional<SegmentRecord>> SealTail(const StoreRequest& request, ModelId model);
  // Writes a segment of the record's model, position and number of tokens, under a new id. Fills in
  // the id and what was found while writing.
  Status WriteSegment(storage::SegmentSource* source, SegmentRecord* record);
  Result<Stored> Publish(const StoreRequest& request, const Owner& owner,
                         const std::optional<SegmentRecord>& sealed) ATTNDB_REQUIRES(store_mutex_)
      ATTNDB_EXCLUDES(use_mutex_);
  // Opens the links' segments, but for those that `have` holds.
  Result<std::vector<storage::ChainEntry>> OpenLinks(std::span<const ChainLink> links,
                                                     std::span<const storage::ChainEntry> have)
      ATTNDB_EXCLUDES(use_mutex_);
  // Checks that the name may be given to a new context.
  Status CheckName(const Tenant& tenant, const StoreOptions& options) const;

  // eviction.cc
  Status TryDrop(const std::string& tenant, std::string_view context)
      ATTNDB_EXCLUDES(store_mutex_, use_mutex_);
  // What must be removed before `new_bytes` more fit into the quota.
  Result<Victims> ChooseVictims(const Tenant& tenant, uint64_t new_bytes) const
      ATTNDB_EXCLUDES(use_mutex_);
  // Contexts to evict before `missing_bytes` are free, by what their segments give back, with or
  // without derived objects; and how many bytes that is, which may be fewer.
  Result<Victims> Evictable(const Tenant& tenant, uint64_t missing_bytes, bool with_objects) const
      ATTNDB_EXCLUDES(use_mutex_);
  // Removes a segment that was sealed and that no commit names.
  void DiscardSegment(SegmentId id);
  // As DiscardSegment, after the commit that should name it gave `status`. A commit that failed
  // while it was written may yet be found when the store is opened after a crash; then its segment
  // must be there.
  void DiscardUnpublished(SegmentId id, const Status& status) ATTNDB_REQUIRES(store_mutex_);
  // Discards the segments of doubtful_. Called after a later commit, which has overwritten the
  // failed one.
  void DiscardDoubtful() ATTNDB_REQUIRES(store_mutex_);
  Status ExpireContexts() ATTNDB_REQUIRES(store_mutex_) ATTNDB_EXCLUDES(use_mutex_);
  // Segments that had readers when they lost their last context.
  std::vector<SegmentId> Unreferenced() const ATTNDB_EXCLUDES(use_mutex_);
  // Removes those of the segments that nobody reads, and the others when their readers are gone.
  void RemoveUnreferenced(std::span<const SegmentId> segments) ATTNDB_EXCLUDES(use_mutex_);

  // merge.cc
  // Called before each layer with bytes of K and V of the run that are copied; false cancels.
  using MergeProgress = std::function<bool(uint64_t bytes_done)>;
  // Merges the small segments that Stores left at the end of the chain (merge_policy.h), as far as
  // CheckDisk finds room for that.
  Status MergeEnd(TenantId tenant, ContextId context, const MergeProgress& progress)
      ATTNDB_REQUIRES(merge_mutex_) ATTNDB_EXCLUDES(store_mutex_, use_mutex_);
  // Puts one segment in the place of the run, with what is used of each of its segments.
  // Quarantines segments of the run that are damaged. `progress` may be null.
  Status MergeRun(std::span<const ChainSegment> run, const MergeProgress& progress)
      ATTNDB_REQUIRES(merge_mutex_) ATTNDB_EXCLUDES(store_mutex_, use_mutex_);
  Status TryMergeRun(std::span<const ChainSegment> run, const MergeProgress& progress)
      ATTNDB_REQUIRES(merge_mutex_) ATTNDB_EXCLUDES(store_mutex_, use_mutex_);

  // Copies no row under a lock of those who store: the run is looked at again when it is replaced.
  // Errors: kFailedPrecondition (it is no run of any chain any more).
  Result<SegmentRecord> WriteMerged(std::span<const ChainSegment> run,
                                    const MergeProgress& progress) ATTNDB_REQUIRES(merge_mutex_)
      ATTNDB_EXCLUDES(store_mutex_, use_mutex_);
  // Tells sessions that hold the run of the segment that took its place.
  void OfferMerged(const MergeRequest& request) ATTNDB_EXCLUDES(use_mutex_);
  // Waits for the merge under way: on a full disk, its files take room until it ends.
  void AwaitMerge() ATTNDB_EXCLUDES(merge_mutex_);
  // MergeEnd of the context in the background, and then what is derived from the merged segments.
  void ScheduleMerge(TenantId tenant, ContextId context);
  // The chain of a context that was stored, after a MergeEnd in this thread.
  std::vector<storage::ChainEntry> MergeNow(TenantId tenant, ContextId context,
                                            std::vector<storage::ChainEntry> chain)
      ATTNDB_EXCLUDES(merge_mutex_, store_mutex_, use_mutex_);

  // compact.cc
  struct Compaction;
  // The one context that the options name.
  Status CompactNamed(TenantId tenant, Compaction* work) ATTNDB_REQUIRES(merge_mutex_)
      ATTNDB_EXCLUDES(store_mutex_, use_mutex_);
  // What has changed of the tenant's contexts since the last call.
  Status CompactUnsettled(TenantId tenant, Compaction* work) ATTNDB_REQUIRES(merge_mutex_)
      ATTNDB_EXCLUDES(store_mutex_, use_mutex_);
  // Bytes of K and V that will be copied, if `options` ask for progress.
  uint64_t BytesToCompact(TenantId tenant, std::span<const ContextId> contexts,
                          const CompactOptions& options) const;
  Status CompactContexts(TenantId tenant, std::span<const ContextId> contexts, Compaction* work)
      ATTNDB_REQUIRES(merge_mutex_) ATTNDB_EXCLUDES(store_mutex_, use_mutex_);
  Status CompactChain(TenantId tenant, ContextId context, Compaction* work)
      ATTNDB_REQUIRES(merge_mutex_) ATTNDB_EXCLUDES(store_mutex_, use_mutex_);

  // derived_objects.cc
  static derived::SegmentFacts FactsOf(const SegmentRecord& record);  // Does not look for wishes.
  Result<derived::SegmentFacts> FactsAndWishes(const SegmentRecord& record) const;
  bool writes_objects() const { return options_.background_builds && !options_.read_only; }
  // Drops objects of kinds that newer kinds have replaced. Their files become orphans.
  Status ForgetFormerKinds();
  // Segments of one tenant, or of all with kNone, that lack what every segment has, or
  // what was wished for.
  Result<std::set<SegmentId>> SegmentsToBuild(TenantId tenant) const;
  // Builds, in the background, what these segments lack.
  Status ScheduleMissing(TenantId tenant);
  Result<uint64_t> CountPending(TenantId tenant) const;  // Number of these segments, of one tenant.
  // Builds, in the background, what the segment lacks.
  void ScheduleObjects(SegmentId segment);
  // Builds, in the background, what the chain's segments that hold tokens from `first_token` on
  // lack.
  void ScheduleFrom(std::span<const storage::ChainEntry> chain, uint64_t first_token);
  // With grow_graphs: graphs of the merged segment are grown from those of the run's first segment.
  void NoteGrowth(std::span<const ChainSegment> run, const SegmentRecord& merged);
  // Forgets objects that the catalog no longer names, and removes their files.
  void ForgetObjects(std::span<const storage::ObjectName> names);
  // Drops all objects of a tenant, or of all with kNone; false if the catalog could not.
  bool DropObjects(TenantId tenant);
  // Drops all objects of all tenants, as the disk is full, and cancels the builds.
  void GiveUpObjects() ATTNDB_EXCLUDES(store_mutex_);
  // Waits until the background has let go of segments that lost their last context: they count as
  // used as long as it reads them.
  void EndDroppedBuilds() ATTNDB_EXCLUDES(store_mutex_, use_mutex_);
  // The segment to build from. Errors: kFailedPrecondition (it is gone).
  Result<SegmentRecord> SegmentToBuild(derived::SegmentId id) const;
  // Errors: kFailedPrecondition (`new_bytes` more would leave too little of the disk for Stores).
  Status CheckDisk(uint64_t new_bytes) const;
  // Errors: kFailedPrecondition (`new_bytes` more do not fit into the tenant's quota: nothing is
  //         evicted for a derived object).
  Status CheckRoom(TenantId id, uint64_t new_bytes) const;

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
  const derived::Kinds& kinds_;
  const std::function<void()> merged_;             // May be null.
  const std::unique_ptr<storage::FileLock> lock_;  // Null if read-only.

  const std::unique_ptr<Catalog> catalog_;
  mutable DamageReports damage_reports_;  // Written to the catalog by calls that read it.
  SegmentRegistry registry_;
  DropReserve reserve_;
  const derived::ObjectFiles object_files_;
  derived::Cache objects_;
  derived::Builder builder_;
  MergedRuns merged_runs_;

  Mutex merge_mutex_;  // One merge or Compact at a time. Taken before store_mutex_.
  Mutex store_mutex_;  // One commit or eviction at a time.
  // Segments whose commit failed: see DiscardUnpublished.
  std::set<SegmentId> doubtful_ ATTNDB_GUARDED_BY(store_mutex_);

  mutable Mutex use_mutex_;
  // Number of uses of each context.
  std::map<ContextId, uint32_t> in_use_ ATTNDB_GUARDED_BY(use_mutex_);
  // Segments without a context that still have readers.
  std::set<SegmentId> unreferenced_ ATTNDB_GUARDED_BY(use_mutex_);

  // Counters since open: independent, so relaxed.
  std::atomic<uint64_t> num_stores_ = 0;
  std::atomic<uint64_t> num_evictions_ = 0;
  std::atomic<uint64_t> bytes_written_ = 0;
  std::atomic<uint64_t> bytes_merged_ = 0;

  // The last: their jobs use all others until they have ended.
  derived::Lanes background_;
  Writers writers_;
};

}  // namespace attndb::store

#endif  // ATTNDB_STORE_CONTEXT_STORE_H_
