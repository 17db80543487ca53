// What a store has on disk and what its contexts use of it.
//
// Threads: stateless.
#ifndef ATTNDB_TESTING_STORE_FILES_H_
#define ATTNDB_TESTING_STORE_FILES_H_

#include <cstdint>
#include <map>
#include <string>

#include "attndb/db.h"
#include "attndb/result.h"

namespace attndb::test {

// Regular files of the folder `dir`, which must be there. A segment has two, a companion too.
uint64_t NumFilesIn(const std::string& dir);

// Bytes of files, by id, of the segments that contexts of the handle's tenant use, with companions.
// Errors: as DB::List and DB::Describe.
Result<std::map<int64_t, uint64_t>> SegmentBytes(const DB& db);

}  // namespace attndb::test

#endif  // ATTNDB_TESTING_STORE_FILES_H_
