#include "store/catalog/context_changes.h"

#include <algorithm>
#include <limits>

#include "store/catalog/context_notes.h"
#include "store/catalog/sound_tokens.h"
#include "store/catalog/tenant_numbers.h"

namespace attndb::store {

Result<SegmentRecord> RequireGoodSegment(SqliteDatabase* database, SegmentId id) {
  return RequireSoundTokens(database, {id, std::numeric_limits<uint64_t>::max()});
}

Result<SegmentRecord> RequireSoundTokens(SqliteDatabase* database, const ChainLink& link) {
  ATTNDB_ASSIGN_OR_RETURN(std::optional<SegmentRecord> segment,
                          FindSegment(database, link.segment));
  if (!segment.has_value()) {
    return Status::FailedPrecondition("a segment of the chain is not in the store any more");
  }
  if (segment->damage.empty()) return *std::move(segment);
  ATTNDB_ASSIGN_OR_RETURN(const uint64_t num_sound, LoadNumSound(database, link.segment));
  if (link.num_tokens_used <= num_sound) return *std::move(segment);
  return Status::FailedPrecondition("segment " +
                                    std::to_string(static_cast<int64_t>(segment->number)) +
                                    " is quarantined: " + segment->damage);
}

Status InsertSegment(SqliteDatabase* database, const SegmentRecord& segment) {
  ATTNDB_RETURN_IF_ERROR(database->Run(
      "INSERT INTO segments(" ATTNDB_SEGMENT_COLUMNS ") VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, NULL)",
      segment.id, segment.tenant, segment.model, segment.first_position, segment.num_tokens,
      segment.file_bytes, segment.kv_bytes, segment.query_bytes,
      std::span<const std::byte>(segment.root_hash),
      std::span<const std::byte>(segment.non_finite)));
  return NumberSegment(database, segment.tenant, segment.id);
}

Status StoreChain(SqliteDatabase* database, ContextId context, std::span<const ChainLink> chain) {
  ATTNDB_ASSIGN_OR_RETURN(const std::vector<ChainLink> stored, LoadChain(database, context));
  // A chat turn leaves all links but the last ones as they are.
  const auto changed = std::ranges::mismatch(stored, chain).in1;
  const auto num_kept = static_cast<size_t>(changed - stored.begin());
  ATTNDB_RETURN_IF_ERROR(
      database->Run("DELETE FROM chain WHERE context = ? AND idx >= ?", context, num_kept));
  for (size_t i = num_kept; i < chain.size(); ++i) {
    ATTNDB_RETURN_IF_ERROR(database->Run(
        "INSERT INTO chain(context, idx, segment, num_tokens_used) VALUES(?, ?, ?, ?)", context, i,
        chain[i].segment, chain[i].num_tokens_used));
  }
  return {};
}

Result<std::vector<ContextRow>> ContextsWithSegment(SqliteDatabase* database, SegmentId segment) {
  return ReadAll<ContextRow>(
      database->Select("SELECT " ATTNDB_CONTEXT_COLUMNS " FROM contexts WHERE id IN "
                       "(SELECT context FROM chain WHERE segment = ?) ORDER BY id DESC",
                       segment),
      ReadContext);
}

Status DropContext(SqliteDatabase* database, const ContextRow& context,
                   std::vector<SegmentId>* released) {
  const ContextId id = context.record.id;
  ATTNDB_ASSIGN_OR_RETURN(const std::vector<ChainLink> chain, LoadChain(database, id));
  for (const ChainLink& link : chain) released->push_back(link.segment);
  ATTNDB_RETURN_IF_ERROR(database->Run("DELETE FROM chain WHERE context = ?", id));
  ATTNDB_RETURN_IF_ERROR(PassOnContinued(database, id));
  ATTNDB_RETURN_IF_ERROR(database->Run("DELETE FROM contexts WHERE id = ?", id));
  return PrefixIndex(database).RemoveEnd(context.leaf, id);
}

}  // namespace attndb::store
