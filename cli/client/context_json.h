// Contexts from the JSON that ContextInfo::ToJson makes of them, as a server sends it.
//
// Trust:   hostile: types and ranges are checked, and texts have no control characters.
// Errors:  kIoError, with the field.
// Threads: stateless.
#ifndef ATTNDB_CLI_CLIENT_CONTEXT_JSON_H_
#define ATTNDB_CLI_CLIENT_CONTEXT_JSON_H_

#include <cstdint>
#include <string>
#include <vector>

#include "attndb/result.h"
#include "attndb/stats.h"
#include "cli/environment.h"

namespace attndb::cli {

Result<ContextInfo> ContextFromJson(const Json& json);

// A member that is a whole number, or 0 if there is none.
Result<uint64_t> CountFromJson(const Json& json, const char* name);

// The texts of a member that is a list, each fit for a terminal; none if there is no such list.
std::vector<std::string> TextsFromJson(const Json& json, const char* name);

}  // namespace attndb::cli

#endif  // ATTNDB_CLI_CLIENT_CONTEXT_JSON_H_
