// Contexts, segments and statistics as JSON and as text.
//
// Threads: stateless.
#ifndef ATTNDB_CLI_COMMON_CONTEXT_TEXT_H_
#define ATTNDB_CLI_COMMON_CONTEXT_TEXT_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "attndb/stats.h"
#include "cli/common/table.h"
#include "cli/environment.h"

namespace attndb::cli {

// How a user names a context on the command line: its name, else "#id".
std::string NameOf(const ContextInfo& context);

// Text about key planes: "23 MiB, not built of 2 segments".
std::string PlanesText(uint64_t bytes, uint64_t num_pending);

Json ToJson(const ContextInfo& context);

// The table of `ls`. `now_us` is the time that ages refer to.
std::string ContextTable(const std::vector<ContextInfo>& contexts, int64_t now_us,
                         size_t max_width = kAnyWidth);

// All of one context, as `describe` shows it.
std::string ContextText(const ContextInfo& context, int64_t now_us);

}  // namespace attndb::cli

#endif  // ATTNDB_CLI_COMMON_CONTEXT_TEXT_H_
