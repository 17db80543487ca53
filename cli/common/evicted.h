// The contexts that a store evicted to make room for stored ones.
//
// Errors:  those of DB::Stats.
// Threads: one thread at a time.
#ifndef ATTNDB_CLI_COMMON_EVICTED_H_
#define ATTNDB_CLI_COMMON_EVICTED_H_

#include <cstdint>
#include <string>
#include <vector>

#include "attndb/db.h"
#include "attndb/result.h"
#include "cli/environment.h"

namespace attndb::cli {

// Notes on stderr, and gives, the labels of the contexts that were evicted since the last call with
// this count, which is 0 before the first.
Result<std::vector<std::string>> NoteEvicted(Environment* env, const DB& db, uint64_t* num_noted);

// The note of some that were evicted.
std::string EvictedText(const std::vector<std::string>& labels);

}  // namespace attndb::cli

#endif  // ATTNDB_CLI_COMMON_EVICTED_H_
