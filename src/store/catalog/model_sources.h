// What a tenant's models are called and where their files were: ModelSource, by tenant and model,
// as its last session that stored with the model said.
//
// Errors:  those of SQLite. A text that ModelSource::Validate refuses is not known: Verify reports
//          it, and contexts are served all the same.
// Threads: as the connection.
// Source:  docs/formats/catalog.md, "model_sources".
#ifndef ATTNDB_STORE_CATALOG_MODEL_SOURCES_H_
#define ATTNDB_STORE_CATALOG_MODEL_SOURCES_H_

#include "attndb/result.h"
#include "attndb/types.h"
#include "store/catalog/catalog_types.h"
#include "store/catalog/sqlite.h"

namespace attndb::store {

// In the caller's transaction. A source that knows nothing changes nothing.
Status NoteModelSource(SqliteDatabase* database, TenantId tenant, ModelId model,
                       const ModelSource& source);

// Empty fields where nobody said.
Result<ModelSource> SourceOfModel(SqliteDatabase* database, TenantId tenant, ModelId model);

// For a catalog of an older version, which has none.
Status ViewNoSources(SqliteDatabase* database);

}  // namespace attndb::store

#endif  // ATTNDB_STORE_CATALOG_MODEL_SOURCES_H_
