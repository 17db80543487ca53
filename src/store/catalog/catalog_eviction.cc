// Eviction: which contexts give back so many bytes, the least recently used first.

#include <algorithm>
#include <functional>
#include <queue>
#include <unordered_map>
#include <utility>

#include "store/catalog/catalog_contexts.h"
#include "store/catalog/catalog_rows.h"
#include "store/catalog/sqlite.h"

namespace attndb::store {
namespace {

constexpr size_t kMaxEvictions = 100'000;  // Contexts that one Store evicts at most.

// Contexts in the order of their last use, of two alike the older one first. Uses that are noted
// and not written yet are later than those of the rows: such a context waits until the rows have
// come to its time.
class LeastRecentlyUsed {
 public:
  // `rows`: last_access_us and id, ascending. `uses` must outlive this.
  LeastRecentlyUsed(Query rows, const UseDates& uses) : rows_(std::move(rows)), uses_(uses) {}

  // kNone: there are no more.
  Result<ContextId> Next() {
    while (true) {
      if (!row_.has_value() && !at_end_) ATTNDB_RETURN_IF_ERROR(Read());
      if (!noted_.empty() && (at_end_ || noted_.top() < *row_)) {
        const Access access = noted_.top();
        noted_.pop();
        return static_cast<ContextId>(access.second);
      }
      if (at_end_) return ContextId::kNone;
      const auto [time_us, id] = *std::exchange(row_, std::nullopt);
      const auto context = static_cast<ContextId>(id);
      const int64_t* const noted_us = uses_.FindNoted(context);
      if (noted_us == nullptr || *noted_us <= time_us) return context;
      noted_.emplace(*noted_us, id);
    }
  }

 private:
  using Access = std::pair<int64_t, int64_t>;  // Time and context.

  Status Read() {
    ATTNDB_ASSIGN_OR_RETURN(const bool found, rows_.Step());
    at_end_ = !found;
    if (found) row_ = Access(uses_.DateOfRow(rows_.Int(0)), rows_.Int(1));
    return {};
  }

  Query rows_;
  const UseDates& uses_;
  bool at_end_ = false;
  std::optional<Access> row_;  // Read, and not given yet.
  std::priority_queue<Access, std::vector<Access>, std::greater<>> noted_;
};

struct SegmentShare {
  uint64_t num_contexts = 0;  // That have it, and are not to be dropped yet.
  uint64_t bytes = 0;
};

Result<SegmentShare> LoadShare(SqliteDatabase* database, SegmentId segment, bool with_companions) {
  Query query = database->Select(
      "SELECT num_contexts, file_bytes + iif(?2, (SELECT ifnull(sum(file_bytes), 0) "
      "FROM companions WHERE segment = ?1), 0) "
      "FROM segments JOIN segment_uses ON segment = id WHERE id = ?1",
      segment, with_companions);
  ATTNDB_ASSIGN_OR_RETURN(const bool found, query.Step());
  if (!found || query.Int(0) < 1 || query.Int(1) < 0) {
    return Status::Corruption("catalog: segment " + std::to_string(segment) +
                              ": in a chain, but with no contexts or size");
  }
  return SegmentShare{static_cast<uint64_t>(query.Int(0)), static_cast<uint64_t>(query.Int(1))};
}

}  // namespace

Result<Evictions> CatalogContexts::ChooseEvictions(const EvictionRequest& request) const {
  MutexLock lock(core_->mutex());
  ATTNDB_ASSIGN_OR_RETURN(const Transaction transaction, core_->BeginRead());
  LeastRecentlyUsed oldest(
      core_->database()->Select(
          "SELECT last_access_us, id FROM contexts INDEXED BY contexts_by_access "
          "WHERE tenant = ? AND NOT pinned ORDER BY last_access_us, id",
          request.tenant),
      core_->SeeUses());
  Evictions evictions;
  std::unordered_map<SegmentId, SegmentShare> shares;
  while (evictions.freed_bytes < request.missing_bytes &&
         evictions.contexts.size() < kMaxEvictions) {
    ATTNDB_ASSIGN_OR_RETURN(const ContextId context, oldest.Next());
    if (context == ContextId::kNone) break;
    if (std::ranges::binary_search(request.in_use, context)) continue;
    ATTNDB_ASSIGN_OR_RETURN(const std::vector<ChainLink> chain,
                            LoadChain(core_->database(), context));
    for (const ChainLink& link : chain) {
      auto share = shares.find(link.segment);
      if (share == shares.end()) {
        ATTNDB_ASSIGN_OR_RETURN(
            const SegmentShare loaded,
            LoadShare(core_->database(), link.segment, request.with_companions));
        share = shares.emplace(link.segment, loaded).first;
        const bool is_kept = std::ranges::find(request.kept, link.segment) != request.kept.end();
        if (is_kept) ++share->second.num_contexts;
      }
      if (--share->second.num_contexts == 0) evictions.freed_bytes += share->second.bytes;
    }
    evictions.contexts.push_back(context);
  }
  return evictions;
}

}  // namespace attndb::store
