#include "store/catalog/model_sources.h"

#include <string>
#include <utility>

namespace attndb::store {

Status NoteModelSource(SqliteDatabase* database, TenantId tenant, ModelId model,
                       const ModelSource& source) {
  if (source == ModelSource()) return {};
  return database->Run(
      "INSERT INTO model_sources(tenant, model, name, path) VALUES(?, ?, ?, ?) "
      "ON CONFLICT(tenant, model) DO UPDATE SET name = excluded.name, path = excluded.path "
      "WHERE name <> excluded.name OR path <> excluded.path",
      tenant, model, source.name, source.path);
}

Result<ModelSource> SourceOfModel(SqliteDatabase* database, TenantId tenant, ModelId model) {
  Query query = database->Select(
      "SELECT name, path FROM model_sources WHERE tenant = ? AND model = ?", tenant, model);
  ATTNDB_ASSIGN_OR_RETURN(const bool found, query.Step());
  if (!found) return ModelSource();
  ModelSource source = {std::string(query.Text(0)), std::string(query.Text(1))};
  return source.Validate().ok() ? std::move(source) : ModelSource();
}

Status ViewNoSources(SqliteDatabase* database) {
  return database->Execute(
      "CREATE TEMP VIEW model_sources AS\n"
      "  SELECT 0 AS tenant, 0 AS model, '' AS name, '' AS path WHERE 0");
}

}  // namespace attndb::store
