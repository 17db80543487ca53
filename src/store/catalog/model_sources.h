// The names of a tenant's models and the places of their files: ModelSource, by tenant and model,
// as given by the tenant's last session that stored with the model.
//
// Errors:  those of SQLite. A text that ModelSource::Validate refuses counts as unknown: Verify
//          reports it, and contexts are served nevertheless.
// Threads: as the connection.
// Source:  docs/formats/catalog.md, "model_sources".
#ifndef ATTNDB_STORE_CATALOG_MODEL_SOURCES_H_
#define ATTNDB_STORE_CATALOG_MODEL_SOURCES_H_

#include "attndb/result.h"
#include "attndb/types.h"
#include "store/catalog/catalog_types.h"
#include "store/catalog/sqlite.h"

namespace attndb::store {

// Runs in the caller's transaction. An empty source changes nothing.
Status NoteModelSource(SqliteDatabase* database, TenantId tenant, ModelId model,
                       const ModelSource& source);

// The fields are empty if they are unknown.
Result<ModelSource> SourceOfModel(SqliteDatabase* database, TenantId tenant, ModelId model);

// For a catalog of an older version, which has no sources.
Status ViewNoSources(SqliteDatabase* database);

}  // namespace attndb::store

#endif  // ATTNDB_STORE_CATALOG_MODEL_SOURCES_H_
