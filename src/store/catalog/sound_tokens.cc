#include "store/catalog/sound_tokens.h"

#include <algorithm>
#include <utility>

#include "store/catalog/context_changes.h"
#include "store/catalog/prefix_index.h"
#include "store/catalog/sqlite.h"

namespace attndb::store {
namespace {

Result<bool> IsHarmed(SqliteDatabase* database, ContextId context) {
  Query query = database->Select("SELECT " ATTNDB_IS_HARMED("?1"), context);
  ATTNDB_ASSIGN_OR_RETURN(const bool found, query.Step());
  return found && query.Int(0) != 0;
}

Status SetDamaged(SqliteDatabase* database, ContextId context, bool damaged) {
  return database->Run("UPDATE contexts SET damaged = ? WHERE id = ?", damaged, context);
}

}  // namespace

Result<uint64_t> LoadNumSound(SqliteDatabase* database, SegmentId segment) {
  Query query = database->Select("SELECT num_tokens FROM sound_tokens WHERE segment = ?", segment);
  ATTNDB_ASSIGN_OR_RETURN(const bool found, query.Step());
  return found ? static_cast<uint64_t>(std::max<int64_t>(0, query.Int(0))) : 0;
}

Status SetNumSound(SqliteDatabase* database, SegmentId segment, uint64_t num_tokens) {
  ATTNDB_RETURN_IF_ERROR(database->Run("DELETE FROM sound_tokens WHERE segment = ?", segment));
  if (num_tokens == 0) return {};
  return database->Run("INSERT INTO sound_tokens(segment, num_tokens) VALUES(?, ?)", segment,
                       num_tokens);
}

Result<std::vector<ContextRecord>> JudgeContexts(SqliteDatabase* database, SegmentId segment) {
  ATTNDB_ASSIGN_OR_RETURN(std::vector<ContextRow> rows, ContextsWithSegment(database, segment));
  std::vector<ContextRecord> harmed;
  std::vector<const ContextRow*> leaving;
  std::vector<const ContextRow*> returning;
  for (ContextRow& row : rows) {
    ATTNDB_ASSIGN_OR_RETURN(const bool is_harmed, IsHarmed(database, row.record.id));
    if (is_harmed && !row.record.damaged) {
      ATTNDB_RETURN_IF_ERROR(SetDamaged(database, row.record.id, true));
      leaving.push_back(&row);
    } else if (!is_harmed && row.record.damaged) {
      returning.push_back(&row);
    }
    row.record.damaged = is_harmed;
    if (is_harmed) harmed.push_back(row.record);
  }
  // Newest first: each then repairs its own part of the index only (prefix_index.h, invariants).
  PrefixIndex index(database);
  for (const ContextRow* row : leaving) {
    ATTNDB_RETURN_IF_ERROR(index.Withdraw(row->leaf, row->record.id));
  }
  for (const ContextRow* row : returning) {
    ATTNDB_RETURN_IF_ERROR(SetDamaged(database, row->record.id, false));
    ATTNDB_RETURN_IF_ERROR(index.Readmit(row->leaf, row->record.id));
  }
  std::ranges::reverse(harmed);
  return harmed;
}

Status ViewAsSoundTokens(SqliteDatabase* database) {
  return database->Execute(
      "CREATE TEMP VIEW sound_tokens AS SELECT 0 AS segment, 0 AS num_tokens WHERE 0");
}

}  // namespace attndb::store
