#include "store/catalog/counters.h"

#include <string>

#include "store/catalog/catalog_rows.h"
#include "store/catalog/context_notes.h"

namespace attndb::store {
namespace {

// A segment's companions are deleted with it, when its row is gone and their tenant can't be found:
// so they are counted off before. A trigger on chain counts rows, which are contexts: a chain has a
// segment once, since positions in it only grow.
constexpr const char* kTriggers =
    "CREATE TEMP TRIGGER count_tenant AFTER INSERT ON main.tenants BEGIN\n"
    "  INSERT INTO tenant_uses(tenant) VALUES(new.id);\n"
    "END;\n"

    "CREATE TEMP TRIGGER count_context AFTER INSERT ON main.contexts BEGIN\n"
    "  UPDATE tenant_uses SET num_contexts = num_contexts + 1 WHERE tenant = new.tenant;\n"
    "END;\n"
    "CREATE TEMP TRIGGER count_off_context AFTER DELETE ON main.contexts BEGIN\n"
    "  UPDATE tenant_uses SET num_contexts = num_contexts - 1 WHERE tenant = old.tenant;\n"
    "END;\n"

    "CREATE TEMP TRIGGER count_link AFTER INSERT ON main.chain BEGIN\n"
    "  UPDATE segment_uses SET num_contexts = num_contexts + 1, num_changes = num_changes + 1\n"
    "    WHERE segment = new.segment;\n"
    "END;\n"
    "CREATE TEMP TRIGGER count_off_link AFTER DELETE ON main.chain BEGIN\n"
    "  UPDATE segment_uses SET num_contexts = num_contexts - 1, num_changes = num_changes + 1\n"
    "    WHERE segment = old.segment;\n"
    "END;\n"

    "CREATE TEMP TRIGGER count_segment AFTER INSERT ON main.segments BEGIN\n"
    "  INSERT INTO segment_uses(segment, tenant) VALUES(new.id, new.tenant);\n"
    "  UPDATE tenant_uses SET num_segments = num_segments + 1,\n"
    "    num_tokens = num_tokens + new.num_tokens, file_bytes = file_bytes + new.file_bytes,\n"
    "    num_damaged = num_damaged + (new.damage IS NOT NULL) WHERE tenant = new.tenant;\n"
    "END;\n"
    "CREATE TEMP TRIGGER count_damage AFTER UPDATE OF damage ON main.segments BEGIN\n"
    "  UPDATE tenant_uses SET\n"
    "    num_damaged = num_damaged + (new.damage IS NOT NULL) - (old.damage IS NOT NULL)\n"
    "    WHERE tenant = new.tenant;\n"
    "END;\n"
    "CREATE TEMP TRIGGER damage_unsettles AFTER UPDATE OF damage ON main.segments\n"
    "  WHEN (new.damage IS NULL) <> (old.damage IS NULL) BEGIN\n"
    "  UPDATE segment_uses SET num_changes = num_changes + 1 WHERE segment = new.id;\n"
    "END;\n"
    "CREATE TEMP TRIGGER count_off_segment BEFORE DELETE ON main.segments BEGIN\n"
    "  UPDATE tenant_uses SET num_segments = num_segments - 1,\n"
    "    num_tokens = num_tokens - old.num_tokens, file_bytes = file_bytes - old.file_bytes,\n"
    "    num_damaged = num_damaged - (old.damage IS NOT NULL),\n"
    "    num_companions = num_companions -\n"
    "      (SELECT count(*) FROM companions WHERE segment = old.id),\n"
    "    companion_bytes = companion_bytes -\n"
    "      (SELECT ifnull(sum(file_bytes), 0) FROM companions WHERE segment = old.id)\n"
    "    WHERE tenant = old.tenant;\n"
    "END;\n"

    "CREATE TEMP TRIGGER count_companion AFTER INSERT ON main.companions BEGIN\n"
    "  UPDATE tenant_uses SET num_companions = num_companions + 1,\n"
    "    companion_bytes = companion_bytes + new.file_bytes\n"
    "    WHERE tenant = (SELECT tenant FROM segments WHERE id = new.segment);\n"
    "END;\n"
    "CREATE TEMP TRIGGER count_off_companion AFTER DELETE ON main.companions BEGIN\n"
    "  UPDATE tenant_uses SET num_companions = num_companions - 1,\n"
    "    companion_bytes = companion_bytes - old.file_bytes\n"
    "    WHERE tenant = (SELECT tenant FROM segments WHERE id = old.segment);\n"
    "END;\n";

// The right values of the counters. Compact has seen none of the segments.
#define ATTNDB_SEGMENTS_COUNTED                                            \
  "SELECT id AS segment, tenant,\n"                                        \
  "  (SELECT count(*) FROM chain WHERE segment = s.id) AS num_contexts,\n" \
  "  0 AS num_changes, -1 AS num_settled FROM segments s"
#define ATTNDB_TENANTS_COUNTED                                                               \
  "SELECT id AS tenant,\n"                                                                   \
  "  (SELECT count(*) FROM contexts WHERE tenant = t.id) AS num_contexts,\n"                 \
  "  (SELECT count(*) FROM segments WHERE tenant = t.id) AS num_segments,\n"                 \
  "  (SELECT ifnull(sum(num_tokens), 0) FROM segments WHERE tenant = t.id) AS num_tokens,\n" \
  "  (SELECT ifnull(sum(file_bytes), 0) FROM segments WHERE tenant = t.id) AS file_bytes,\n" \
  "  (SELECT count(damage) FROM segments WHERE tenant = t.id) AS num_damaged,\n"             \
  "  (SELECT count(*) FROM companions c JOIN segments s ON s.id = c.segment\n"               \
  "    WHERE s.tenant = t.id) AS num_companions,\n"                                          \
  "  (SELECT ifnull(sum(c.file_bytes), 0) FROM companions c\n"                               \
  "    JOIN segments s ON s.id = c.segment WHERE s.tenant = t.id) AS companion_bytes,\n"     \
  "  0 AS segment_tokens FROM tenants t"

Result<uint64_t> Counter(const Query& row, int column) {
  const int64_t value = row.Int(column);
  if (value >= 0) return static_cast<uint64_t>(value);
  return Status::Corruption("catalog: counter " + std::to_string(column) + " is " +
                            std::to_string(value));
}

}  // namespace

Status KeepCounters(SqliteDatabase* database) { return database->Execute(kTriggers); }

Status CountAfresh(SqliteDatabase* database) {
  return database->Execute("INSERT INTO segment_uses " ATTNDB_SEGMENTS_COUNTED
                           ";\nINSERT INTO tenant_uses " ATTNDB_TENANTS_COUNTED);
}

Status ViewAsCounters(SqliteDatabase* database) {
  return database->Execute("CREATE TEMP VIEW segment_uses AS " ATTNDB_SEGMENTS_COUNTED
                           ";\nCREATE TEMP VIEW tenant_uses AS " ATTNDB_TENANTS_COUNTED);
}

Result<SegmentUses> LoadSegmentUses(SqliteDatabase* database, SegmentId segment) {
  Query query = database->Select(
      "SELECT num_contexts, (SELECT max(num_tokens_used) FROM chain WHERE segment = ?1) "
      "FROM segment_uses WHERE segment = ?1",
      segment);
  ATTNDB_ASSIGN_OR_RETURN(const bool found, query.Step());
  if (!found) {
    return Status::Corruption("catalog: segment " + std::to_string(segment) + ": has no counters");
  }
  ATTNDB_ASSIGN_OR_RETURN(const uint64_t num_contexts, Counter(query, 0));
  ATTNDB_ASSIGN_OR_RETURN(const uint64_t num_tokens_kept, Counter(query, 1));
  return SegmentUses{num_tokens_kept, static_cast<uint32_t>(num_contexts)};
}

Result<CatalogStats> LoadTenantUses(SqliteDatabase* database, TenantId tenant) {
  Query query = database->Select(
      "SELECT num_contexts, num_segments, num_tokens, file_bytes, num_damaged, num_companions, "
      "companion_bytes FROM tenant_uses WHERE tenant = ?",
      tenant);
  CatalogStats stats;
  ATTNDB_ASSIGN_OR_RETURN(const bool found, query.Step());
  if (!found) return stats;
  uint64_t* const counters[] = {
      &stats.num_contexts,         &stats.num_segments,   &stats.num_tokens,     &stats.file_bytes,
      &stats.num_damaged_segments, &stats.num_companions, &stats.companion_bytes};
  for (int column = 0; uint64_t* const counter : counters) {
    ATTNDB_ASSIGN_OR_RETURN(*counter, Counter(query, column++));
  }
  ATTNDB_ASSIGN_OR_RETURN(stats.note_bytes, NoteBytesOfTenant(database, tenant));
  stats.file_bytes += stats.companion_bytes + stats.note_bytes;
  return stats;
}

}  // namespace attndb::store
