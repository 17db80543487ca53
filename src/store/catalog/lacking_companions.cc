#include "store/catalog/lacking_companions.h"

#include "store/catalog/catalog_rows.h"

namespace attndb::store {
namespace {

// A companion that goes with its segment finds no segment that lacks it.
constexpr const char* kTables =
    "CREATE TEMP TABLE watched(kind TEXT NOT NULL, min_tokens INTEGER NOT NULL,\n"
    "  PRIMARY KEY(kind, min_tokens)) WITHOUT ROWID;\n"
    "CREATE TEMP TABLE lacking(kind TEXT NOT NULL, min_tokens INTEGER NOT NULL,\n"
    "  segment INTEGER NOT NULL, PRIMARY KEY(kind, min_tokens, segment)) WITHOUT ROWID;\n"

    "CREATE TEMP TRIGGER new_segment_lacks AFTER INSERT ON main.segments BEGIN\n"
    "  INSERT INTO lacking SELECT kind, min_tokens, new.id FROM watched\n"
    "    WHERE min_tokens <= new.num_tokens;\n"
    "END;\n"
    "CREATE TEMP TRIGGER old_segment_lacks AFTER DELETE ON main.segments BEGIN\n"
    "  DELETE FROM lacking WHERE (kind, min_tokens, segment) IN\n"
    "    (SELECT kind, min_tokens, old.id FROM watched);\n"
    "END;\n"
    "CREATE TEMP TRIGGER new_companion_fills AFTER INSERT ON main.companions BEGIN\n"
    "  DELETE FROM lacking WHERE (kind, min_tokens, segment) IN\n"
    "    (SELECT kind, min_tokens, new.segment FROM watched WHERE kind = new.kind);\n"
    "END;\n"
    "CREATE TEMP TRIGGER old_companion_leaves AFTER DELETE ON main.companions BEGIN\n"
    "  INSERT OR IGNORE INTO lacking SELECT w.kind, w.min_tokens, s.id\n"
    "    FROM watched w JOIN segments s ON s.id = old.segment\n"
    "    WHERE w.kind = old.kind AND w.min_tokens <= s.num_tokens AND NOT EXISTS\n"
    "      (SELECT 1 FROM companions WHERE segment = old.segment AND kind = old.kind);\n"
    "END;\n";

// The segment, a row of segments, is in use and not quarantined.
#define ATTNDB_IN_SERVICE \
  "(tenant = ?1 OR ?1 = 0) AND damage IS NULL AND EXISTS(SELECT 1 FROM chain WHERE segment = id)"

}  // namespace

Status WatchCompanions(SqliteDatabase* database) { return database->Execute(kTables); }

Status WatchFor(SqliteDatabase* database, const MissingCompanions& missing) {
  {
    Query query = database->Select("SELECT 1 FROM watched WHERE kind = ? AND min_tokens = ?",
                                   missing.kind, missing.min_tokens);
    ATTNDB_ASSIGN_OR_RETURN(const bool found, query.Step());
    if (found) return {};
  }
  ATTNDB_ASSIGN_OR_RETURN(Transaction transaction,
                          Transaction::Begin(database, Transaction::Kind::kRead));
  ATTNDB_RETURN_IF_ERROR(
      database->Run("INSERT INTO watched VALUES(?, ?)", missing.kind, missing.min_tokens));
  ATTNDB_RETURN_IF_ERROR(
      database->Run("INSERT INTO lacking SELECT ?1, ?2, id FROM segments s WHERE num_tokens >= ?2 "
                    "AND NOT EXISTS(SELECT 1 FROM companions WHERE segment = s.id AND kind = ?1)",
                    missing.kind, missing.min_tokens));
  return transaction.Commit();
}

Result<std::vector<SegmentId>> WatchedSegmentsWithout(SqliteDatabase* database, TenantId tenant,
                                                      const MissingCompanions& missing) {
  return ReadAll<SegmentId>(
      database->Select("SELECT id FROM lacking CROSS JOIN segments ON id = lacking.segment "
                       "WHERE " ATTNDB_IN_SERVICE " AND kind = ?2 AND min_tokens = ?3 ORDER BY id",
                       tenant, missing.kind, missing.min_tokens),
      ReadInt);
}

Result<std::vector<SegmentId>> FindSegmentsWithout(SqliteDatabase* database, TenantId tenant,
                                                   const MissingCompanions& missing) {
  return ReadAll<SegmentId>(
      database->Select(
          "SELECT id FROM segments s WHERE " ATTNDB_IN_SERVICE " AND num_tokens >= ?2 "
          "AND NOT EXISTS(SELECT 1 FROM companions WHERE segment = s.id AND kind = ?3) "
          "ORDER BY id",
          tenant, missing.min_tokens, missing.kind),
      ReadInt);
}

}  // namespace attndb::store
