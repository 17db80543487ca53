// The catalog: which contexts, segments, models and tenants a store has. The store's only commit
// point: what a transaction here has published is in the store, everything else is not.
//
//   auto catalog = Catalog::Open({.path = "/var/lib/attndb/catalog.db"});
//   const SegmentId id = *(*catalog)->ReserveSegmentId();
//   ... write and sync the segment's file ...
//   (*catalog)->Publish(request);          // durable when it returns
//
// Segments that no context uses any more keep their row until RemoveSegments, because a session may
// still read them and build upon them; the order on disk is: transaction, then files.
//
// Promise: a byte of catalog.db is used only after its page's checksum was verified
//          (checked_vfs.h): damage is kCorruption, never a wrong answer or a miss.
// Errors:  every call: kCorruption (catalog.db, with page or row), kIoError, kBusy (another process
//          holds SQLite's lock for seconds). Calls that write: also kReadOnly, kResourceExhausted
//          (disk full); nothing has changed then. Further codes are at the functions.
// Threads: thread-safe: one mutex; a call takes microseconds to milliseconds, a commit some syncs.
// Source:  docs/formats/catalog.md; prefix index: prefix_index.h.
#ifndef ATTNDB_STORE_CATALOG_CATALOG_H_
#define ATTNDB_STORE_CATALOG_CATALOG_H_

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "attndb/result.h"
#include "attndb/types.h"
#include "common/mutex.h"
#include "storage/vfs/object_name.h"
#include "store/catalog/catalog_types.h"
#include "store/catalog/sqlite.h"

namespace attndb::store {

struct ContextRow;
struct TenantRow;

class Catalog {
 public:
  // Opens or makes the catalog. The writer forgets segments that no context uses: call
  // KnownObjects() and remove files that are not in it.
  // Errors: kNotFound (no file, and not to be made); kUnsupported (of a newer attndb, naming both
  //         versions); kCorruption (not a catalog, or damaged); kReadOnly (a crash left work that
  //         only a writer can finish).
  static Result<std::unique_ptr<Catalog>> Open(const CatalogOptions& options);

  // Writes the access times that Touch noted, if it can.
  ~Catalog();
  explicit Catalog(const CatalogOptions& options);  // For Open only.
  Catalog(const Catalog&) = delete;
  Catalog& operator=(const Catalog&) = delete;

  const StoreUuid& store_uuid() const { return store_uuid_; }
  bool read_only() const { return options_.read_only; }
  static uint32_t format_version();

  // --- Tenants and models ---

  Result<std::optional<Tenant>> FindTenant(std::string_view name) const;
  // Finds the tenant, or adds it. Errors: kInvalidArgument (name: 1 to 64 of [A-Za-z0-9._-]).
  Result<Tenant> EnsureTenant(std::string_view name);
  // Errors: kNotFound.
  Result<Tenant> GetTenant(TenantId tenant) const;
  Status SetQuota(TenantId tenant, uint64_t bytes);

  Result<std::optional<ModelId>> FindModel(const ModelSpec& spec) const;
  // Finds the model, or adds it. Errors: kInvalidArgument (ModelSpec::Validate).
  Result<ModelId> EnsureModel(const ModelSpec& spec);
  // The spec as it is stored: defaults resolved, RoPE layout as keys are stored.
  Result<ModelSpec> GetModel(ModelId model) const;
  // Whether KV of `model` may be used for `spec`: they are equal, or were declared so.
  Result<bool> SameModel(ModelId model, const ModelSpec& spec) const;
  // Declares models with these fingerprints to be equal. Transitive, for the whole store, for good.
  // Errors: kInvalidArgument (a fingerprint is empty or longer than 256 bytes).
  Status DeclareEqual(std::string_view fingerprint_a, std::string_view fingerprint_b);

  // --- Segments ---

  // An id for a new segment. Durable before it returns: never handed out twice.
  Result<SegmentId> ReserveSegmentId();
  // Errors: kNotFound.
  Result<SegmentRecord> GetSegment(SegmentId segment) const;
  Result<std::vector<SegmentRecord>> Segments(TenantId tenant) const;
  // Names of all segments and companions, of all tenants.
  Result<std::vector<storage::ObjectName>> KnownObjects() const;
  // Forgets those of `segments` that no context uses, with their companions. Returns them: their
  // files may be removed then.
  Result<std::vector<SegmentRecord>> RemoveSegments(std::span<const SegmentId> segments);
  // Takes a damaged segment, and all contexts that use it, out of service. Returns these contexts.
  Result<std::vector<ContextRecord>> Quarantine(SegmentId segment, std::string_view damage);

  // --- Companions ---

  // A number for a new companion: greater than all before it, and never handed out twice.
  Result<uint64_t> ReserveGeneration();
  // Commits a companion whose files are durable. Replaces older ones of its kind and returns them:
  // their files may be removed.
  // Errors: kFailedPrecondition (the segment is gone or quarantined, or no context uses it);
  //         kAlreadyExists (there is one of this generation or a newer one).
  Result<std::vector<CompanionRecord>> PublishCompanion(SegmentId segment,
                                                        const CompanionRecord& companion);
  // Forgets a companion; its files may be removed then. Returns whether it was there.
  Result<bool> DropCompanion(SegmentId segment, std::string_view kind, uint64_t generation);
  // Forgets all companions of a kind that this version no longer reads; their files become orphans.
  Status DropKind(std::string_view kind);
  // Names of the companions that no segment requires, of one tenant, or of all with kNone.
  Result<std::vector<storage::ObjectName>> DroppableCompanions(TenantId tenant) const;
  // Forgets these companions. Returns their names.
  Result<std::vector<storage::ObjectName>> DropCompanions(TenantId tenant);
  // Segments that lack a companion, oldest first; of one tenant, or of all with kNone. Costs a walk
  // over all segments the first time for a kind and length, O(those segments) then; read-only, a
  // walk each time.
  Result<std::vector<SegmentId>> SegmentsWithout(TenantId tenant,
                                                 const MissingCompanions& missing) const;

  // --- Wishes: companions that segments are to have, from when somebody asks for one until it is
  //     published, for the next process too. A merged segment takes over what its run had or was to
  //     have. A read-only catalog tells none, as its store builds none.

  // Does nothing if the segment is gone, quarantined, or has the companion.
  Status AddWish(SegmentId segment, std::string_view kind);
  // The wishes that can be fulfilled: some context uses their segments. Of one tenant, or of all
  // with kNone; or of one segment. Oldest segment first.
  Result<std::vector<Wish>> Wishes(TenantId tenant) const;
  Result<std::vector<Wish>> WishesOf(SegmentId segment) const;

  // --- Contexts ---

  // Commits a new context with its segments and index entries in one transaction.
  //
  // The base grows, keeping its id, if all its tokens are shared and it would be dropped anyway:
  // it has the name and `replace` is set, or it is dropped by drop_base.
  // Errors: kInvalidArgument (name: 1 to 128 of [A-Za-z0-9._:/@+-]; ttl; a negative token);
  //         kAlreadyExists (the name is taken); kFailedPrecondition (a segment of the chain is gone
  //         or quarantined); kInternal (chain, tokens and segments disagree).
  Result<PublishOutcome> Publish(const PublishRequest& request);

  // Puts the merged segment in the place of the run in every chain that has the run in full; the
  // last link may be used for fewer tokens there.
  // Errors: kFailedPrecondition (a segment of the run is gone or quarantined); kInternal.
  Result<MergeOutcome> ReplaceRun(const MergeRequest& request);

  // Finds a context by its name or "#id".
  // Errors: kNotFound, alike for contexts of other tenants and for those that never were.
  Result<ContextRecord> FindContext(TenantId tenant, std::string_view context) const;
  Result<ContextRecord> GetContext(TenantId tenant, ContextId context) const;
  // Oldest first.
  Result<std::vector<ContextRecord>> List(TenantId tenant) const;
  // Cost: O(its segments * log of all); it does not grow with the contexts that share them.
  Result<ContextDetail> Describe(TenantId tenant, ContextId context) const;
  // Describes those of `contexts` that are still there, in the order given.
  Result<std::vector<ContextDetail>> DescribeAll(std::span<const ContextRecord> contexts) const;
  Result<std::vector<ChainLink>> Chain(ContextId context) const;
  Result<std::vector<TokenId>> Tokens(ContextId context) const;

  // Notes an access, now. Written with the next transaction or FlushTouches, not synced by itself:
  // a crash may lose it, so that a TTL counts from the access before.
  void Touch(ContextId context);
  Status FlushTouches();
  // Moves what the write-ahead log holds into the file. False if that was not possible now. After
  // it, a commit that failed can't be found in the log any more.
  bool EmptyLog();
  Status Pin(TenantId tenant, ContextId context, bool pinned);
  // Errors: kInvalidArgument (negative, or longer than 100 years).
  Status SetTtl(TenantId tenant, ContextId context, std::optional<std::chrono::seconds> ttl);
  Result<DropOutcome> Drop(TenantId tenant, ContextId context);

  // Bytes of the files of the tenant's segments, those that no context uses included.
  Result<uint64_t> UsageBytes(TenantId tenant) const;
  // Contexts to drop until the bytes are free, of those that are not pinned and not in use, least
  // recently used first. A segment is given back by the last of the contexts that have it. All of
  // them together may free less than was asked for.
  // Cost: O(those contexts * (their segments + log of all)).
  Result<Evictions> ChooseEvictions(const EvictionRequest& request) const;
  // Drops contexts of all tenants whose TTL is over, but those in `in_use`.
  Result<DropOutcome> Expire(std::span<const ContextId> in_use);
  // Whether Expire would find something, by the clock: cheap.
  Result<bool> AnyExpired() const;

  // --- What Compact is to look at ---

  // Makes all segments of the tenant unsettled if they were settled for segments of another length.
  Status UnsettleForLength(TenantId tenant, uint64_t segment_tokens);
  // Segments whose chains have changed since they were settled, oldest first.
  // Cost: O(those segments + log of all).
  Result<std::vector<UnsettledSegment>> UnsettledSegments(TenantId tenant) const;
  // The contexts without damage whose chains show what can be merged of these segments, oldest
  // first. Contexts that have the same segment have what is before it, and, of what follows, all
  // that as many contexts have: so one speaks for all, the one that uses most of it.
  Result<std::vector<ContextId>> ContextsToCompact(
      std::span<const UnsettledSegment> segments) const;
  // Settles them, but for changes that came since they were read.
  Status Settle(std::span<const UnsettledSegment> segments);

  // --- Prefixes ---

  // The longest common prefix of the tokens with any context of the tenant that is neither damaged
  // nor expired, of the same model (or one declared equal) and first position. Exact to the token.
  // Among contexts that agree equally long it takes the oldest (lowest id). None if no token
  // agrees.
  // Cost: O(matched tokens / 64 + log of what is stored).
  Result<std::optional<PrefixMatch>> LongestPrefix(const PrefixQuery& query) const;
  // How many first tokens the context shares with `tokens`.
  Result<uint64_t> CommonPrefix(ContextId context, std::span<const TokenId> tokens) const;
  Result<PrefixReport> ExplainPrefix(const PrefixQuery& query) const;

  // --- The whole ---

  // O(log of all).
  Result<CatalogStats> Stats(TenantId tenant) const;
  // Reads every page and compares every row with every other. Returns findings in words; empty is
  // good. An error means that it could not look.
  Result<std::vector<std::string>> Verify() const;

 private:
  // Opens the file and checks that it is a catalog.
  Status Connect() const ATTNDB_REQUIRES(mutex_);
  Status ConnectAs(SqliteDatabase::Mode mode) const ATTNDB_REQUIRES(mutex_);
  Status LoadMeta() ATTNDB_REQUIRES(mutex_);
  Status ForgetUnreferencedSegments() ATTNDB_REQUIRES(mutex_);
  // Begins a snapshot that all statements read until it ends.
  Result<Transaction> BeginRead() const ATTNDB_REQUIRES(mutex_);
  // Begins a transaction. Writes the noted access times first, so that statements see them.
  Result<Transaction> BeginWrite() ATTNDB_REQUIRES(mutex_);
  Status Commit(Transaction* transaction) ATTNDB_REQUIRES(mutex_);
  void SealLog() ATTNDB_REQUIRES(mutex_);

  int64_t Now() const;
  // The row's access time, or a later one that is noted.
  int64_t LastAccess(ContextId context, int64_t stored_us) const ATTNDB_REQUIRES(mutex_);
  Result<bool> IsUsable(ContextId context) const ATTNDB_REQUIRES(mutex_);
  Result<ContextRow> RequireContext(TenantId tenant, ContextId context) const
      ATTNDB_REQUIRES(mutex_);
  Result<std::optional<PrefixMatch>> FindPrefix(const PrefixQuery& query, const TenantRow& tenant,
                                                bool only_usable) const ATTNDB_REQUIRES(mutex_);
  Result<std::optional<TokenId>> TokenAt(ContextId context, uint64_t idx) const
      ATTNDB_REQUIRES(mutex_);
  Status ExplainUnusable(const PrefixQuery& query, const TenantRow& tenant,
                         PrefixReport* report) const ATTNDB_REQUIRES(mutex_);
  Status ExplainOtherTrees(const PrefixQuery& query, const TenantRow& tenant,
                           PrefixReport* report) const ATTNDB_REQUIRES(mutex_);

  // Constant after Open.
  const CatalogOptions options_;
  StoreUuid store_uuid_{};

  mutable Mutex mutex_;
  // Mutable: a reader of a folder that can't be written opens the file again when it has changed.
  mutable std::unique_ptr<SqliteDatabase> database_ ATTNDB_GUARDED_BY(mutex_);
  mutable std::string immutable_stamp_ ATTNDB_GUARDED_BY(mutex_);  // Empty: not opened that way.
  // Accesses not written yet, by context id. At most kMaxTouches; then they are written at once.
  std::unordered_map<int64_t, int64_t> touched_us_ ATTNDB_GUARDED_BY(mutex_);
  // The log could not be cut off, though the file has all that it holds. Nothing is written until
  // it can: that would begin the log anew, and if it is torn there it looks as if commits were
  // lost.
  bool log_is_copied_ ATTNDB_GUARDED_BY(mutex_) = false;
  // Segment ids reserved on disk and not handed out yet: [next, end).
  SegmentId next_segment_ ATTNDB_GUARDED_BY(mutex_) = 0;
  SegmentId end_segment_ ATTNDB_GUARDED_BY(mutex_) = 0;
};

}  // namespace attndb::store

#endif  // ATTNDB_STORE_CATALOG_CATALOG_H_
