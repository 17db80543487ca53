// Rows of the catalog's tables as values, with the checks that a file of unknown origin needs.
//
// Each Read... takes a query with the columns of the macro beside it.
//
// Errors:  those of SQLite; kCorruption (a value that our writers never store, naming the row).
// Threads: as the connection.
#ifndef ATTNDB_STORE_CATALOG_CATALOG_ROWS_H_
#define ATTNDB_STORE_CATALOG_CATALOG_ROWS_H_

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "attndb/result.h"
#include "store/catalog/catalog_types.h"
#include "store/catalog/prefix_index.h"
#include "store/catalog/sqlite.h"

namespace attndb::store {

struct TenantRow {
  Tenant tenant;
  Sha256Digest secret{};
};

struct ModelRow {
  ModelId id = ModelId::kNone;
  Sha256Digest identity{};
  Sha256Digest layout{};
  std::string fingerprint;
};

struct ContextRow {
  ContextRecord record;
  NodeId leaf = NodeId::kNone;
};

#define ATTNDB_CONTEXT_COLUMNS                                                                  \
  "id, tenant, model, name, first_position, num_tokens, kv_bytes, created_us, last_access_us, " \
  "ttl_s, pinned, damaged, leaf, "                                                              \
  "(SELECT number FROM context_numbers n WHERE n.context = contexts.id "                        \
  "AND n.tenant = contexts.tenant)"
Result<ContextRow> ReadContext(const Query& row);

#define ATTNDB_SEGMENT_COLUMNS                                                                    \
  "id, tenant, model, first_position, num_tokens, file_bytes, kv_bytes, query_bytes, root_hash, " \
  "non_finite, damage"
#define ATTNDB_NUMBERED_SEGMENT_COLUMNS                                    \
  ATTNDB_SEGMENT_COLUMNS                                                   \
  ", (SELECT number FROM segment_numbers n WHERE n.segment = segments.id " \
  "AND n.tenant = segments.tenant)"
// Reads a segment without its companions.
Result<SegmentRecord> ReadSegment(const Query& row);

Result<std::optional<TenantRow>> FindTenantRow(SqliteDatabase* database, std::string_view name);
// Errors: also kNotFound.
Result<TenantRow> LoadTenantRow(SqliteDatabase* database, TenantId id);

Result<std::optional<ModelRow>> FindModelRow(SqliteDatabase* database,
                                             const Sha256Digest& identity);
// Errors: also kNotFound.
Result<ModelRow> LoadModelRow(SqliteDatabase* database, ModelId id);
// The models whose KV the tenant may use for a model of this layout and fingerprint: that model,
// and the models that are declared equal.
Result<std::vector<ModelRow>> EqualModels(SqliteDatabase* database, const TenantRow& tenant,
                                          const Sha256Digest& layout, std::string_view fingerprint);
// The key of a fingerprint in a tenant's declarations. No other tenant can find it.
Sha256Digest EqualityKey(const TenantRow& tenant, std::string_view fingerprint);

// The context, if the tenant has it.
Result<std::optional<ContextRow>> FindContextRow(SqliteDatabase* database, TenantId tenant,
                                                 ContextId id);
Result<std::optional<ContextRow>> FindContextRow(SqliteDatabase* database, TenantId tenant,
                                                 std::string_view name);
Result<std::optional<ContextRow>> FindContextRow(SqliteDatabase* database, TenantId tenant,
                                                 ContextNumber number);
Result<std::vector<ContextId>> ContextsOfSegment(SqliteDatabase* database, SegmentId segment);

// The segment with its companions; nullopt if it does not exist.
Result<std::optional<SegmentRecord>> FindSegment(SqliteDatabase* database, SegmentId id);
// Each link uses at least one token of its segment, and at most all.
Result<std::vector<ChainLink>> LoadChain(SqliteDatabase* database, ContextId context);
// Returns the `segments` that are in no chain; ascending, each once.
Result<std::vector<SegmentId>> Unreferenced(SqliteDatabase* database,
                                            std::vector<SegmentId> segments);

// The rows of a query as a list.
template <typename T, typename Read>
Result<std::vector<T>> ReadAll(Query query, Read read) {
  std::vector<T> rows;
  while (true) {
    ATTNDB_ASSIGN_OR_RETURN(const bool found, query.Step());
    if (!found) return rows;
    ATTNDB_ASSIGN_OR_RETURN(T row, read(query));
    rows.push_back(std::move(row));
  }
}
inline Result<int64_t> ReadInt(const Query& row) { return row.Int(0); }

}  // namespace attndb::store

#endif  // ATTNDB_STORE_CATALOG_CATALOG_ROWS_H_
