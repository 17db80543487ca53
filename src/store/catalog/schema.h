// The catalog's schema: its tables, how a new catalog is made and how a file is known as one.
//
// Version 2 has the table of wishes, version 3 the counters (counters.h) and an index of contexts
// by their last access, version 4 cuts in the prefix index (prefix_index.h), version 5 what is
// whole of a damaged segment (sound_tokens.h), version 6 each tenant's own numbers of contexts and
// segments (tenant_numbers.h), version 7 what its models are called (model_sources.h), version 8
// what texts are to a chat template (text_layouts.h), version 9 titles, notes and which context
// continues which (context_notes.h). An older catalog is read as it is, and a writer adds what it
// lacks when it opens the store.
//
// Errors:  kCorruption (not SQLite, not a catalog, damaged, other tables than ours); kUnsupported
//          (a newer version: names expected and found).
// Threads: as the connection.
// Source:  docs/formats/catalog.md.
#ifndef ATTNDB_STORE_CATALOG_SCHEMA_H_
#define ATTNDB_STORE_CATALOG_SCHEMA_H_

#include <cstdint>
#include <string>

#include "attndb/result.h"
#include "attndb/status.h"
#include "store/catalog/sqlite.h"

namespace attndb::store {

inline constexpr int64_t kApplicationId = 0x6174746e;  // "attn"
inline constexpr int64_t kSchemaVersion = 9;
inline constexpr int64_t kFirstVersionWithWishes = 2;
inline constexpr int64_t kFirstVersionWithCounters = 3;
inline constexpr int64_t kFirstVersionWithCuts = 4;
inline constexpr int64_t kFirstVersionWithSoundTokens = 5;
inline constexpr int64_t kFirstVersionWithNumbers = 6;
inline constexpr int64_t kFirstVersionWithSources = 7;
inline constexpr int64_t kFirstVersionWithLayouts = 8;
inline constexpr int64_t kFirstVersionWithNotes = 9;

// Looks at the file's first bytes, without SQLite: a foreign file is refused before SQLite may
// recover, lock or create anything beside it.
// Errors: also kNotFound, kIoError.
Status CheckCatalogFile(const std::string& path);

// Makes a catalog with a fresh store uuid, complete or not at all: under a temporary name first.
// Its owner alone may read it, and the log and index that SQLite makes beside it.
Status CreateCatalogFile(const std::string& path);

// The same of a catalog that was made before, where the file system has such rights and lets us.
void CloseToOthers(const std::string& path);

// Compares version and every table and index with what this code would make, or would have made in
// that version, which it returns.
Result<int64_t> CheckSchema(SqliteDatabase* database);

// The version of a catalog that was checked.
Result<int64_t> SchemaVersion(SqliteDatabase* database);

// Brings an older catalog to version kSchemaVersion, in one transaction.
Status UpgradeSchema(SqliteDatabase* database);

}  // namespace attndb::store

#endif  // ATTNDB_STORE_CATALOG_SCHEMA_H_
