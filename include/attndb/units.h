// Counts and sizes as people read them, for attndb's messages and reports.
//
// Threads: pure functions.
#ifndef ATTNDB_UNITS_H_
#define ATTNDB_UNITS_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "attndb/export.h"
#include "attndb/require_cpp20.h"

namespace attndb {

// "1,234,567".
ATTNDB_EXPORT std::string FormatCount(uint64_t count);

// "1 segment", "2,000 segments". `noun` takes an "s".
ATTNDB_EXPORT std::string Counted(uint64_t count, std::string_view noun);

// "0 B", "999 B", "1.0 KiB", "135.2 MiB". Units are powers of 1024.
ATTNDB_EXPORT std::string FormatBytes(uint64_t bytes);

}  // namespace attndb

#endif  // ATTNDB_UNITS_H_
