// The contexts that a server finds for a question.
//
// Errors:  as ServerClient; kNotFound (no context has a passage for it).
// Threads: one thread at a time.
#ifndef ATTNDB_CLI_CLIENT_SERVER_FIND_H_
#define ATTNDB_CLI_CLIENT_SERVER_FIND_H_

#include <cstdint>
#include <string>
#include <vector>

#include "attndb/result.h"
#include "cli/client/server_client.h"
#include "cli/environment.h"

namespace attndb::cli {

// Best first, `count` at most, among those that are named, or all. Says on stderr which they are.
Result<std::vector<std::string>> FindContexts(Environment* env, const ServerClient& client,
                                              const std::string& question,
                                              const std::vector<std::string>& among,
                                              uint32_t count);

}  // namespace attndb::cli

#endif  // ATTNDB_CLI_CLIENT_SERVER_FIND_H_
