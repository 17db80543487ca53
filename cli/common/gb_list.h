// Sizes as sellers state them: "64,128,1.5TB", in GB of 10^9 bytes unless TB is given.
//
// Errors:  kInvalidArgument naming the flag, the text and what is expected.
// Threads: stateless.
#ifndef ATTNDB_CLI_COMMON_GB_LIST_H_
#define ATTNDB_CLI_COMMON_GB_LIST_H_

#include <cstdint>
#include <string_view>
#include <vector>

#include "attndb/result.h"

namespace attndb::cli {

// Bytes, at least one size; 0 is one. `flag` is named in messages.
Result<std::vector<uint64_t>> ParseGbList(std::string_view flag, std::string_view text);

}  // namespace attndb::cli

#endif  // ATTNDB_CLI_COMMON_GB_LIST_H_
