// Eviction: chooses contexts that free enough bytes, the least recently used first.

#include <algorithm>
#include <functional>
#include <queue>
#include <unordered_map>
#include <utility>

#include "store/catalog/catalog_contexts.h"
#include "store/catalog/catalog_rows.h"
#include "store/catalog/context_notes.h"
#include "store/catalog/sqlite.h"

namespace attndb::store {
namespace {

constexpr size_t kMaxEvictions = 100'000;  // Contexts that one Store evicts at most.

// Contexts in the order of their last use; of two with equal dates, the older one comes first.
// Noted uses that are not written yet are at least as late as those of rows. So a context with a
// noted use waits until the rows have reached its time, in the last range of dates.
class LeastRecentlyUsed {
 public:
  // `database` and `uses` must outlive this.
  LeastRecentlyUsed(SqliteDatabase* database, TenantId tenant, const UseDates& uses)
      : database_(database), tenant_(tenant), uses_(uses), ranges_(uses.RangesByUse()) {}

  // kNone: there are no more.
  Result<ContextId> Next() {
    while (true) {
      if (!row_.has_value()) ATTNDB_RETURN_IF_ERROR(Read());
      const bool is_last = next_range_ == ranges_.size();
      if (!noted_.empty() && (!row_.has_value() || (is_last && noted_.top() < *row_))) {
        const ContextId context = noted_.top().second;
        noted_.pop();
        return context;
      }
      if (!row_.has_value()) return ContextId::kNone;
      const auto [time_us, context] = *std::exchange(row_, std::nullopt);
      const int64_t* const noted_us = uses_.FindNoted(context);
      if (noted_us == nullptr || (is_last && *noted_us <= time_us)) return context;
      noted_.emplace(*noted_us, context);
    }
  }

 private:
  using Access = std::pair<int64_t, ContextId>;  // Time and context.

  // Leaves row_ empty once all rows of all ranges were read.
  Status Read() {
    while (rows_.has_value() || next_range_ < ranges_.size()) {
      if (!rows_.has_value()) {
        const auto [first_us, last_us] = ranges_[next_range_++];
        rows_.emplace(
            database_->Select("SELECT last_access_us, id FROM contexts INDEXED BY "
                              "contexts_by_access WHERE tenant = ? AND NOT pinned "
                              "AND last_access_us BETWEEN ? AND ? ORDER BY last_access_us, id",
                              tenant_, first_us, last_us));
      }
      ATTNDB_ASSIGN_OR_RETURN(const bool found, rows_->Step());
      if (found) {
        row_ = Access(rows_->Int(0), static_cast<ContextId>(rows_->Int(1)));
        return {};
      }
      rows_.reset();
    }
    return {};
  }

  SqliteDatabase* const database_;
  const TenantId tenant_;
  const UseDates& uses_;
  const std::vector<UseDates::Range> ranges_;
  size_t next_range_ = 0;
  std::optional<Query> rows_;  // The range before next_range_.
  std::optional<Access> row_;  // It was read, and not given yet.
  std::priority_queue<Access, std::vector<Access>, std::greater<>> noted_;
};

struct SegmentShare {
  uint64_t num_contexts = 0;  // Contexts that have the segment and are not yet to be dropped.
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
  LeastRecentlyUsed oldest(core_->database(), request.tenant, core_->SeeUses());
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
    ATTNDB_ASSIGN_OR_RETURN(const uint64_t note_bytes,
                            NoteBytesOfContext(core_->database(), context));
    evictions.freed_bytes += note_bytes;
    evictions.contexts.push_back(context);
  }
  return evictions;
}

}  // namespace attndb::store
