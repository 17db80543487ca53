#include "store/catalog/catalog_rows.h"

#include <algorithm>
#include <limits>
#include <set>

#include "storage/vfs/format.h"

namespace attndb::store {
namespace {

constexpr auto kMaxTokens = static_cast<int64_t>(storage::kMaxSegmentTokens);
constexpr auto kMaxBytes = static_cast<int64_t>(storage::kMaxObjectBytes);

std::string AsText(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// Takes a row's values and keeps the first that can't be.
class RowReader {
 public:
  RowReader(const Query& row, std::string_view table) : row_(row), table_(table) {}

  uint64_t Count(int column, int64_t least = 0,
                 int64_t most = std::numeric_limits<int64_t>::max()) {
    const int64_t value = row_.Int(column);
    if (value < least || value > most) Fail(column, std::to_string(value));
    return static_cast<uint64_t>(value);
  }
  // The position of a token: sums of it and of numbers of tokens are far from overflowing.
  int64_t Position(int column) {
    constexpr int64_t kMaxPosition = int64_t{1} << 60;
    const int64_t value = row_.Int(column);
    if (value < -kMaxPosition || value > kMaxPosition) Fail(column, std::to_string(value));
    return value;
  }
  // By which its tenant knows the row.
  int64_t Number(int column) {
    const int64_t value = row_.Int(column);
    if (value < 1) Fail(column, "no number of its tenant");
    return value;
  }
  Sha256Digest Digest(int column) {
    Sha256Digest digest{};
    const std::span<const std::byte> bytes = row_.Blob(column);
    if (bytes.size() == digest.size()) {
      std::ranges::copy(bytes, digest.begin());
    } else {
      Fail(column, std::to_string(bytes.size()) + " bytes");
    }
    return digest;
  }
  const Status& status() const { return status_; }

 private:
  void Fail(int column, const std::string& found) {
    if (!status_.ok()) return;
    status_ =
        Status::Corruption("catalog: " + std::string(table_) + " " + std::to_string(row_.Int(0)) +
                           ": column " + std::to_string(column) + " is " + found);
  }

  const Query& row_;
  const std::string_view table_;
  Status status_;
};

Result<TenantRow> ReadTenant(const Query& row) {
  RowReader reader(row, "tenant");
  TenantRow tenant;
  tenant.tenant.id = static_cast<TenantId>(row.Int(0));
  tenant.tenant.name = row.Text(1);
  tenant.secret = reader.Digest(2);
  tenant.tenant.quota_bytes = reader.Count(3);
  ATTNDB_RETURN_IF_ERROR(reader.status());
  return tenant;
}

Result<ModelRow> ReadModel(const Query& row) {
  RowReader reader(row, "model");
  ModelRow model;
  model.id = static_cast<ModelId>(row.Int(0));
  model.identity = reader.Digest(1);
  model.layout = reader.Digest(2);
  model.fingerprint = AsText(row.Blob(3));
  ATTNDB_RETURN_IF_ERROR(reader.status());
  return model;
}

Result<CompanionRecord> ReadCompanion(const Query& row) {
  RowReader reader(row, "companion of segment");
  CompanionRecord companion;
  companion.kind = row.Text(1);
  companion.generation = reader.Count(2);
  companion.required = row.Int(3) != 0;
  companion.file_bytes = reader.Count(4);
  companion.root_hash = reader.Digest(5);
  ATTNDB_RETURN_IF_ERROR(reader.status());
  return companion;
}

// The only row of a query, or none.
template <typename T, typename Read>
Result<std::optional<T>> ReadOptional(Query query, Read read) {
  ATTNDB_ASSIGN_OR_RETURN(const bool found, query.Step());
  if (!found) return std::optional<T>();
  ATTNDB_ASSIGN_OR_RETURN(T row, read(query));
  return std::optional<T>(std::move(row));
}

// Adds `name`, a fingerprint or the key of one, and all that were declared equal to it, through any
// number of steps, to `known`.
Status AddEqualNames(SqliteDatabase* database, std::string name, std::set<std::string>* known) {
  if (!known->insert(name).second) return {};
  std::vector<std::string> open = {std::move(name)};
  while (!open.empty()) {
    const std::string next = std::move(open.back());
    open.pop_back();
    Query query = database->Select("SELECT b FROM equal_fingerprints WHERE a = ?",
                                   std::as_bytes(std::span(next)));
    while (true) {
      ATTNDB_ASSIGN_OR_RETURN(const bool found, query.Step());
      if (!found) break;
      std::string equal = AsText(query.Blob(0));
      if (known->insert(equal).second) open.push_back(std::move(equal));
    }
  }
  return {};
}

// Builds before named both fingerprints as they are, for all tenants: such rows hold on.
Status AddEquals(SqliteDatabase* database, const TenantRow& tenant, std::string_view fingerprint,
                 std::set<std::string>* known) {
  ATTNDB_RETURN_IF_ERROR(AddEqualNames(database, std::string(fingerprint), known));
  return AddEqualNames(database, AsText(EqualityKey(tenant, fingerprint)), known);
}

}  // namespace

Result<ContextRow> ReadContext(const Query& row) {
  RowReader reader(row, "context");
  ContextRow context;
  ContextRecord& record = context.record;
  record.id = static_cast<ContextId>(row.Int(0));
  record.tenant = static_cast<TenantId>(row.Int(1));
  record.model = static_cast<ModelId>(row.Int(2));
  record.name = row.Text(3);
  record.first_position = reader.Position(4);
  record.num_tokens = reader.Count(5, 1);
  record.kv_bytes = reader.Count(6);
  record.created_us = row.Int(7);
  record.last_access_us = row.Int(8);
  record.ttl_seconds = row.OptionalInt(9);
  record.pinned = row.Int(10) != 0;
  record.damaged = row.Int(11) != 0;
  context.leaf = static_cast<NodeId>(row.Int(12));
  record.number = static_cast<ContextNumber>(reader.Number(13));
  ATTNDB_RETURN_IF_ERROR(reader.status());
  return context;
}

Result<SegmentRecord> ReadSegment(const Query& row) {
  RowReader reader(row, "segment");
  SegmentRecord segment;
  segment.id = row.Int(0);
  segment.tenant = static_cast<TenantId>(row.Int(1));
  segment.model = static_cast<ModelId>(row.Int(2));
  segment.first_position = reader.Position(3);
  segment.num_tokens = reader.Count(4, 1, kMaxTokens);
  segment.file_bytes = reader.Count(5, 0, 2 * kMaxBytes);  // With its manifest.
  segment.kv_bytes = reader.Count(6, 0, kMaxBytes);
  segment.query_bytes = reader.Count(7, 0, kMaxBytes);
  segment.root_hash = reader.Digest(8);
  const std::span<const std::byte> non_finite = row.Blob(9);
  segment.non_finite.assign(non_finite.begin(), non_finite.end());
  segment.damage = row.Text(10);
  segment.number = static_cast<SegmentNumber>(reader.Number(11));
  ATTNDB_RETURN_IF_ERROR(reader.status());
  return segment;
}

Result<std::optional<TenantRow>> FindTenantRow(SqliteDatabase* database, std::string_view name) {
  return ReadOptional<TenantRow>(
      database->Select("SELECT id, name, secret, quota_bytes FROM tenants WHERE name = ?", name),
      ReadTenant);
}

Result<TenantRow> LoadTenantRow(SqliteDatabase* database, TenantId id) {
  ATTNDB_ASSIGN_OR_RETURN(
      std::optional<TenantRow> row,
      ReadOptional<TenantRow>(
          database->Select("SELECT id, name, secret, quota_bytes FROM tenants WHERE id = ?", id),
          ReadTenant));
  if (row.has_value()) return *std::move(row);
  return Status::NotFound("no tenant " + std::to_string(static_cast<int64_t>(id)));
}

Result<std::optional<ModelRow>> FindModelRow(SqliteDatabase* database,
                                             const Sha256Digest& identity) {
  return ReadOptional<ModelRow>(
      database->Select("SELECT id, identity, layout, fingerprint FROM models WHERE identity = ?",
                       std::span<const std::byte>(identity)),
      ReadModel);
}

Result<ModelRow> LoadModelRow(SqliteDatabase* database, ModelId id) {
  ATTNDB_ASSIGN_OR_RETURN(
      std::optional<ModelRow> row,
      ReadOptional<ModelRow>(
          database->Select("SELECT id, identity, layout, fingerprint FROM models WHERE id = ?", id),
          ReadModel));
  if (row.has_value()) return *std::move(row);
  return Status::NotFound("no model " + std::to_string(static_cast<int64_t>(id)));
}

Sha256Digest EqualityKey(const TenantRow& tenant, std::string_view fingerprint) {
  const std::string text = "equal fingerprint " + std::string(fingerprint);
  return HmacSha256(tenant.secret, std::as_bytes(std::span(text)));
}

Result<std::vector<ModelRow>> EqualModels(SqliteDatabase* database, const TenantRow& tenant,
                                          const Sha256Digest& layout,
                                          std::string_view fingerprint) {
  ATTNDB_ASSIGN_OR_RETURN(
      std::vector<ModelRow> models,
      ReadAll<ModelRow>(database->Select("SELECT id, identity, layout, fingerprint FROM models "
                                         "WHERE layout = ? ORDER BY id",
                                         std::span<const std::byte>(layout)),
                        ReadModel));
  std::set<std::string> names;
  ATTNDB_RETURN_IF_ERROR(AddEquals(database, tenant, fingerprint, &names));
  const auto is_equal = [&](const ModelRow& model) {
    return names.contains(model.fingerprint) ||
           names.contains(AsText(EqualityKey(tenant, model.fingerprint)));
  };
  // A step by a fingerprint may follow one by a key: repeats until no model adds a name.
  for (size_t num_names = 0; num_names != names.size();) {
    num_names = names.size();
    for (const ModelRow& model : models) {
      if (!is_equal(model)) continue;
      ATTNDB_RETURN_IF_ERROR(AddEquals(database, tenant, model.fingerprint, &names));
    }
  }
  std::erase_if(models, [&](const ModelRow& model) { return !is_equal(model); });
  return models;
}

Result<std::optional<ContextRow>> FindContextRow(SqliteDatabase* database, TenantId tenant,
                                                 ContextId id) {
  return ReadOptional<ContextRow>(database->Select("SELECT " ATTNDB_CONTEXT_COLUMNS
                                                   " FROM contexts WHERE id = ? AND tenant = ?",
                                                   id, tenant),
                                  ReadContext);
}

Result<std::optional<ContextRow>> FindContextRow(SqliteDatabase* database, TenantId tenant,
                                                 std::string_view name) {
  return ReadOptional<ContextRow>(database->Select("SELECT " ATTNDB_CONTEXT_COLUMNS
                                                   " FROM contexts WHERE tenant = ? AND name = ?",
                                                   tenant, name),
                                  ReadContext);
}

Result<std::optional<ContextRow>> FindContextRow(SqliteDatabase* database, TenantId tenant,
                                                 ContextNumber number) {
  return ReadOptional<ContextRow>(
      database->Select("SELECT " ATTNDB_CONTEXT_COLUMNS " FROM contexts WHERE tenant = ?1 AND id = "
                       "(SELECT context FROM context_numbers WHERE tenant = ?1 AND number = ?2)",
                       tenant, number),
      ReadContext);
}

Result<std::vector<ContextId>> ContextsOfSegment(SqliteDatabase* database, SegmentId segment) {
  return ReadAll<ContextId>(
      database->Select("SELECT DISTINCT context FROM chain WHERE segment = ? ORDER BY context",
                       segment),
      [](const Query& row) { return Result<ContextId>(static_cast<ContextId>(row.Int(0))); });
}

Result<std::optional<SegmentRecord>> FindSegment(SqliteDatabase* database, SegmentId id) {
  ATTNDB_ASSIGN_OR_RETURN(
      std::optional<SegmentRecord> segment,
      ReadOptional<SegmentRecord>(
          database->Select("SELECT " ATTNDB_NUMBERED_SEGMENT_COLUMNS " FROM segments WHERE id = ?",
                           id),
          ReadSegment));
  if (!segment.has_value()) return segment;
  ATTNDB_ASSIGN_OR_RETURN(
      segment->companions,
      ReadAll<CompanionRecord>(
          database->Select("SELECT segment, kind, generation, required, file_bytes, root_hash "
                           "FROM companions WHERE segment = ? ORDER BY kind, generation",
                           id),
          ReadCompanion));
  return segment;
}

Result<std::vector<ChainLink>> LoadChain(SqliteDatabase* database, ContextId context) {
  return ReadAll<ChainLink>(
      database->Select("SELECT c.segment, c.num_tokens_used, s.num_tokens FROM chain c "
                       "LEFT JOIN segments s ON s.id = c.segment WHERE context = ? ORDER BY idx",
                       context),
      [context](const Query& row) -> Result<ChainLink> {
        const int64_t num_used = row.Int(1);
        if (num_used >= 1 && num_used <= row.Int(2)) {
          return ChainLink{row.Int(0), static_cast<uint64_t>(num_used)};
        }
        return Status::Corruption(
            "catalog: context " + std::to_string(static_cast<int64_t>(context)) + ": uses " +
            std::to_string(num_used) + " tokens of segment " + std::to_string(row.Int(0)) +
            ", which has " + (row.IsNull(2) ? "no row" : std::to_string(row.Int(2))));
      });
}

Result<std::vector<SegmentId>> Unreferenced(SqliteDatabase* database,
                                            std::vector<SegmentId> segments) {
  std::ranges::sort(segments);
  segments.erase(std::unique(segments.begin(), segments.end()), segments.end());
  std::vector<SegmentId> unreferenced;
  for (const SegmentId segment : segments) {
    Query query = database->Select("SELECT EXISTS(SELECT 1 FROM chain WHERE segment = ?)", segment);
    ATTNDB_ASSIGN_OR_RETURN(const bool found, query.Step());
    if (found && query.Int(0) == 0) unreferenced.push_back(segment);
  }
  return unreferenced;
}

}  // namespace attndb::store
