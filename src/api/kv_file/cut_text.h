// Cuts of a history as the text that a KV file has of them: docs/formats/import.md.
//
//   "4096:4-2048;5000:2048-3000,3010-3048"     at 4,096 tokens [4, 2048) left; at 5,000 two ranges
//
// Errors:  kInvalidArgument naming the text, or the cut that can't be.
// Threads: pure functions.
#ifndef ATTNDB_API_KV_FILE_CUT_TEXT_H_
#define ATTNDB_API_KV_FILE_CUT_TEXT_H_

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "attndb/result.h"
#include "attndb/types.h"

namespace attndb::internal {

std::string FormatCuts(std::span<const Cut> cuts);
// Only texts that FormatCuts writes.
Result<std::vector<Cut>> ParseCuts(std::string_view text);

}  // namespace attndb::internal

#endif  // ATTNDB_API_KV_FILE_CUT_TEXT_H_
