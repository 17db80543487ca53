// The catalog's schema: its tables, the creation of a new catalog, and the check that a file is
// one.
//
// Versions add: 2 the table of wishes; 3 the counters (counters.h) and an index of contexts by
// their last access; 4 cuts in the prefix index (prefix_index.h); 5 the sound tokens of a damaged
// segment (sound_tokens.h); 6 each tenant's own numbers of contexts and segments
// (tenant_numbers.h); 7 the names of models (model_sources.h); 8 the layouts of texts
// (text_layouts.h); 9 titles, notes and continuations (context_notes.h). A reader reads an older
// catalog as it is; a writer upgrades it when it opens the store.
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

// Checks the file's first bytes, without SQLite: a foreign file is refused before SQLite may
// recover, lock or create anything beside it.
// Errors: also kNotFound, kIoError.
Status CheckCatalogFile(const std::string& path);

// Creates a catalog with a fresh store uuid, complete or not at all: under a temporary name first.
// Only the owner may read the catalog, and the log and index that SQLite creates beside it.
Status CreateCatalogFile(const std::string& path);

// Restricts an existing catalog in the same way, if the file system supports this and permits it.
void CloseToOthers(const std::string& path);

// Compares the version, every table and every index with those that this code makes, or would make
// for that version. Returns the version.
Result<int64_t> CheckSchema(SqliteDatabase* database);

// The version of a checked catalog.
Result<int64_t> SchemaVersion(SqliteDatabase* database);

// Brings an older catalog to version kSchemaVersion, in one transaction.
Status UpgradeSchema(SqliteDatabase* database);

}  // namespace attndb::store

#endif  // ATTNDB_STORE_CATALOG_SCHEMA_H_
