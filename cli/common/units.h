// Times and sizes as people read and write them: "3 min ago", "7d", "1.5GiB".
//
// Errors:  parsers give kInvalidArgument naming the text and what is expected.
// Threads: stateless.
#ifndef ATTNDB_CLI_COMMON_UNITS_H_
#define ATTNDB_CLI_COMMON_UNITS_H_

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "attndb/result.h"
#include "attndb/units.h"  // IWYU pragma: export

namespace attndb::cli {

std::string FormatFixed(double value, int decimals);
std::string FormatSeconds(double seconds);  // "8.1 ms", "2.4 s", "3 min 20 s", "2 h 5 min".
std::string FormatAge(int64_t then_us, int64_t now_us);  // "just now", "3 min ago", "2 days ago".
std::string FormatTime(int64_t time_us);                 // Local time: "2026-03-01 14:05:09".
// "never" for none; else the shortest exact form: "90 s", "1 h", "7 d".
std::string FormatTtl(std::optional<int64_t> ttl_seconds);

// "3600", "90s", "15m", "1.5h", "1h30m", "7d", "2w"; nullopt for "never". From 1 s to 100 years,
// rounded to whole seconds.
Result<std::optional<std::chrono::seconds>> ParseTtl(std::string_view text);
// For example "1048576", "512K", "1.5GiB", "10 GB". Units are powers of 1024, with or without the
// "i".
Result<uint64_t> ParseBytes(std::string_view text);
// A limit of at least one byte, as ParseBytes reads it; 0 for "none".
Result<uint64_t> ParseLimit(std::string_view text);

// Microseconds since the Unix epoch.
int64_t NowUs();

}  // namespace attndb::cli

#endif  // ATTNDB_CLI_COMMON_UNITS_H_
