// Publishes contexts: seals the tokens behind a stored chain, and publishes the whole. Drops
// contexts.
//
// Threads: thread-safe; its own threads write asynchronous Stores. Segments are written in
//          parallel; commits wait for each other.
#ifndef ATTNDB_STORE_PUBLISHER_H_
#define ATTNDB_STORE_PUBLISHER_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "attndb/options.h"
#include "attndb/result.h"
#include "attndb/stats.h"
#include "common/mutex.h"
#include "derived/cache.h"
#include "store/catalog/catalog.h"
#include "store/catalog/prefix_index.h"
#include "store/chain.h"
#include "store/commits.h"
#include "store/damage_reports.h"
#include "store/derived_objects.h"
#include "store/drop_reserve.h"
#include "store/fork_sharing.h"
#include "store/merger.h"
#include "store/name_order.h"
#include "store/segment_registry.h"
#include "store/settings.h"
#include "store/space.h"
#include "store/tenant_counts.h"
#include "store/uses.h"
#include "store/writers.h"

namespace attndb::store {

class Publisher {
 public:
  // All must outlive it.
  struct Parts {
    const Settings* settings;
    Catalog* catalog;
    SegmentRegistry* registry;
    DamageReports* damage;
    Uses* uses;
    Commits* commits;
    const Space* space;
    DerivedObjects* objects;
    derived::Cache* cache;
    Merger* merger;
    DropReserve* reserve;
    TenantCounts* counts;
  };

  // The destructor waits for all StoreLater jobs.
  explicit Publisher(const Parts& parts)
      : parts_(parts),
        sharing_(parts.catalog, parts.uses),
        order_([this](auto job) { writers_.Add(std::move(job)); }),
        families_([](const auto& job) { job(); }) {}

  // The context is durable when Store returns. The holder of the request's chain also holds
  // segments that the Store merged: see Uses::Sweep. Waits for other Stores of the session's
  // family (fork_sharing.h).
  Result<Stored> Store(const StoreRequest& request) ATTNDB_EXCLUDES(parts_.commits->mutex());
  // Does the same in a thread of the publisher, which calls `done` at the end. Jobs with the same
  // name run one after another, in the order of the calls.
  void StoreLater(StoreRequest request, std::function<void(Result<Stored>)> done);
  // Writes the request's tail as a segment that no commit names yet. A later request lists it in
  // `sealed`, at the end of its chain, or the caller abandons it. REQUIRES: there is a tail.
  Result<Sealed> Seal(const StoreRequest& request) ATTNDB_EXCLUDES(parts_.commits->mutex());
  // Removes the files of sealed segments that will not be stored.
  void Abandon(std::span<const SegmentRecord> sealed) ATTNDB_EXCLUDES(parts_.commits->mutex());
  // Returns the errors of Store that the request's options, or `new_bytes` of K and V, would cause.
  // Ignores the request's tail.
  Status CheckStore(const StoreRequest& request, uint64_t new_bytes);
  // Describes a Store that continues `prefix`, the stored part of its tokens.
  struct RoomRequest {
    std::string tenant;
    Prefix prefix;
    // Bytes on disk, and bytes of K and V, of all tokens from first_token on.
    struct Bytes {
      uint64_t file_bytes = 0;
      uint64_t kv_bytes = 0;
    };
    std::function<Result<Bytes>(uint64_t first_token)> bytes_from;
    bool wait = true;  // If room is short: wait for work that is about to free some.
  };
  struct Room {
    uint64_t new_bytes = 0;
    std::vector<std::string> evicted;  // By name or "#number", the longest unused first.
  };
  // Writes nothing. Errors: those of Store for lack of room.
  Result<Room> CheckRoom(RoomRequest request) ATTNDB_EXCLUDES(parts_.commits->mutex());
  // Returns whether the chain, the base's first tokens, ends with a part of a segment, of at most
  // `most_tokens` tokens, and the base has more tokens. Sharing this part keeps the whole segment
  // on disk; the part may be written again instead.
  bool SharesPart(const std::string& tenant, ContextId base,
                  std::span<const storage::ChainEntry> chain, uint64_t most_tokens) const;
  // A part of fewer tokens is always written again: less than a block of the prefix index, such as
  // the first tokens of a chat template. Sharing it saves nothing, and lets unrelated contexts of a
  // tenant share damage and bytes.
  static constexpr uint64_t kMinShare = kBlockTokens;
  // Errors: as DB::Rename.
  Status Rename(const std::string& tenant, std::string_view context, std::string_view name)
      ATTNDB_EXCLUDES(parts_.commits->mutex());
  // Errors: as DB::Drop.
  Status Drop(const std::string& tenant, std::string_view context)
      ATTNDB_EXCLUDES(parts_.commits->mutex());

 private:
  // The tenant and the model of the stored context.
  struct Owner {
    const Tenant& tenant;
    ModelId model;
  };

  // A Store that waits for its turn, and its caller.
  struct Job {
    StoreRequest request;
    std::function<void(Result<Stored>)> done;
    std::optional<NameOrder::Place> name;    // Its name is its own.
    std::optional<NameOrder::Place> family;  // No other Store of its family is under way.
  };
  void Run(Job* job);
  // Like Store, when no other Store of the family is under way.
  Result<Stored> StoreInFamily(const StoreRequest& asked) ATTNDB_EXCLUDES(parts_.commits->mutex());
  // Writes the tokens up to `num_first`, which forks of the session share, as a segment of their
  // own.
  Result<Stored> StoreInTwo(const StoreRequest& request, uint64_t num_first)
      ATTNDB_EXCLUDES(parts_.commits->mutex());
  // Shares nothing with forks.
  Result<Stored> StoreAlone(const StoreRequest& asked) ATTNDB_EXCLUDES(parts_.commits->mutex());
  // Calls StoreOnce. If there was no room, calls MakeRoom and tries again.
  Result<Stored> StoreOrMakeRoom(const StoreRequest& request)
      ATTNDB_EXCLUDES(parts_.commits->mutex());
  Result<Stored> StoreOnce(const StoreRequest& request) ATTNDB_EXCLUDES(parts_.commits->mutex());
  Result<bool> IsCutAlike(const StoreRequest& request) const;
  // Makes the checks that need no writing: as CheckStore.
  Status CheckRequest(const StoreRequest& request, const Tenant& tenant)
      ATTNDB_EXCLUDES(parts_.commits->mutex());
  // Ends work that takes room and can be repeated, or is about to end.
  void MakeRoom(const StoreRequest& request) ATTNDB_EXCLUDES(parts_.commits->mutex());
  // Like Seal, without a second try. Nothing if there is no tail. Seals of different tenants do not
  // wait for each other.
  Result<std::optional<Sealed>> SealTail(const StoreRequest& request, ModelId model);
  Result<Stored> Publish(const StoreRequest& request, const Owner& owner,
                         const std::optional<Sealed>& sealed)
      ATTNDB_REQUIRES(parts_.commits->mutex());
  // The request in the catalog's terms, without its chain and its evictions.
  static PublishRequest PublishOf(const StoreRequest& request, const Owner& owner);
  // Like CheckRoom, for exactly these new tokens: shares all of the prefix.
  Result<Room> RoomBehind(const RoomRequest& request, const Tenant& tenant)
      ATTNDB_EXCLUDES(parts_.commits->mutex());
  // Checks that the new context may have the name.
  Status CheckName(const Tenant& tenant, const StoreRequest& request) const;
  // Checks that the files of all segments exist, and quarantines segments that lack some. An open
  // segment can still be read after its files were removed, so a Store must check before it reports
  // success. Errors: kCorruption.
  Status CheckFiles(std::span<const storage::ChainEntry> chain) const;
  // Does the same for the base's own segments, which replace those that the request has. If a file
  // of the base is missing, the request keeps its own segments.
  void CheckBase(const StoreRequest& request) const;
  // Returns a copy of the request whose tail begins at the first damaged segment, so that these
  // rows are written again. Returns nothing if no segment is damaged or if the request has no tail.
  std::optional<StoreRequest> WithoutLost(const StoreRequest& request) const;
  // Returns the request with the last shared part moved into its tail, if SharesPart. Else nothing.
  std::optional<StoreRequest> Detached(const StoreRequest& request, uint64_t most_tokens) const;
  Status TryDrop(const std::string& tenant, std::string_view context)
      ATTNDB_EXCLUDES(parts_.commits->mutex());

  const Parts parts_;
  const ForkSharing sharing_;
  NameOrder order_;
  NameOrder families_;  // By family; its jobs take no time.
  Writers writers_;  // The last member: its jobs use all other members until the jobs have ended.
};

}  // namespace attndb::store

#endif  // ATTNDB_STORE_PUBLISHER_H_
