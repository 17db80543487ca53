// Contexts come and go: what follows a stored chain is sealed, and the whole published; a context
// is dropped.
//
// Threads: thread-safe; threads of its own write what callers do not wait for. Segments are written
//          side by side; commits wait for each other.
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

  // The destructor waits for what StoreLater was asked for.
  explicit Publisher(const Parts& parts)
      : parts_(parts), order_([this](auto job) { writers_.Add(std::move(job)); }) {}

  // Durable when it returns. What it merged is held by who has the request's chain: see
  // Uses::Sweep.
  Result<Stored> Store(const StoreRequest& asked) ATTNDB_EXCLUDES(parts_.commits->mutex());
  // The same in a thread of the publisher's, which calls `done` in the end. Stores that were asked
  // for here under one name are done one after another, in the order of the calls.
  void StoreLater(StoreRequest request, std::function<void(Result<Stored>)> done);
  // Writes the request's tail as a segment that no commit names yet: a later request has it among
  // `sealed`, at the end of its chain, or it is abandoned. REQUIRES: there is a tail.
  Result<Sealed> Seal(const StoreRequest& request) ATTNDB_EXCLUDES(parts_.commits->mutex());
  // Removes the files of segments that were sealed, and will not be stored.
  void Abandon(std::span<const SegmentRecord> sealed) ATTNDB_EXCLUDES(parts_.commits->mutex());
  // The errors of Store that the request's options, or `new_bytes` of K and V, would cause. Its
  // tail is not looked at.
  Status CheckStore(const StoreRequest& request, uint64_t new_bytes);
  // What a Store would need that goes on from `prefix`, what is stored of its tokens.
  struct RoomRequest {
    std::string tenant;
    Prefix prefix;
    // Bytes on disk, and those of K and V, of all tokens from this one on.
    struct Bytes {
      uint64_t file_bytes = 0;
      uint64_t kv_bytes = 0;
    };
    std::function<Result<Bytes>(uint64_t first_token)> bytes_from;
    bool wait = true;  // For what is about to give room, where that lacks.
  };
  struct Room {
    uint64_t new_bytes = 0;
    std::vector<std::string> evicted;  // By name or "#number", the longest unused first.
  };
  // Writes nothing. Errors: those of Store for want of room.
  Result<Room> CheckRoom(RoomRequest request) ATTNDB_EXCLUDES(parts_.commits->mutex());
  // Whether the last of the chain, the base's first tokens, is a part of a segment, of at most so
  // many tokens, and the base has more. To share it keeps all of that segment: it may be written
  // again instead.
  bool SharesPart(const std::string& tenant, ContextId base,
                  std::span<const storage::ChainEntry> chain, uint64_t most_tokens) const;
  // A part of fewer tokens is always written again: less than a block of the prefix index, as the
  // first tokens of a chat template. To share it saves nothing, and makes the contexts of a tenant
  // one another's damage and bytes.
  static constexpr uint64_t kMinShare = kBlockTokens;
  // Errors: as DB::Rename.
  Status Rename(const std::string& tenant, std::string_view context, std::string_view name)
      ATTNDB_EXCLUDES(parts_.commits->mutex());
  // Errors: as DB::Drop.
  Status Drop(const std::string& tenant, std::string_view context)
      ATTNDB_EXCLUDES(parts_.commits->mutex());

 private:
  // Whose context is stored, and of which model.
  struct Owner {
    const Tenant& tenant;
    ModelId model;
  };

  // Tries StoreOnce again behind MakeRoom if there was no room.
  Result<Stored> StoreOrMakeRoom(const StoreRequest& request)
      ATTNDB_EXCLUDES(parts_.commits->mutex());
  Result<Stored> StoreOnce(const StoreRequest& request) ATTNDB_EXCLUDES(parts_.commits->mutex());
  Result<bool> IsCutAlike(const StoreRequest& request) const;
  // Checks, before anything is written, what can be refused by then: as CheckStore.
  Status CheckRequest(const StoreRequest& request, const Tenant& tenant)
      ATTNDB_EXCLUDES(parts_.commits->mutex());
  // Ends what keeps room from the request that can be made again, or is about to end.
  void MakeRoom(const StoreRequest& request) ATTNDB_EXCLUDES(parts_.commits->mutex());
  // As Seal, without another try. Nothing if there is no tail. Tenants' seals do not wait for each
  // other.
  Result<std::optional<Sealed>> SealTail(const StoreRequest& request, ModelId model);
  Result<Stored> Publish(const StoreRequest& request, const Owner& owner,
                         const std::optional<Sealed>& sealed)
      ATTNDB_REQUIRES(parts_.commits->mutex());
  // The request in the catalog's words, but for its chain and what is evicted for it.
  static PublishRequest PublishOf(const StoreRequest& request, const Owner& owner);
  // CheckRoom of exactly these new tokens: shares all of the prefix.
  Result<Room> RoomBehind(const RoomRequest& request, const Tenant& tenant)
      ATTNDB_EXCLUDES(parts_.commits->mutex());
  // Checks that the name may be given to what is to be stored.
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
  // The request with the last of what it shares in its tail instead, if SharesPart. Else nothing.
  std::optional<StoreRequest> Detached(const StoreRequest& request, uint64_t most_tokens) const;
  Status TryDrop(const std::string& tenant, std::string_view context)
      ATTNDB_EXCLUDES(parts_.commits->mutex());

  const Parts parts_;
  NameOrder order_;
  Writers writers_;  // The last: their jobs use all others until they have ended.
};

}  // namespace attndb::store

#endif  // ATTNDB_STORE_PUBLISHER_H_
