// The error of a command to which a server found no context.
//
// Threads: one thread at a time.
#ifndef ATTNDB_CLI_CLIENT_SERVER_FIND_H_
#define ATTNDB_CLI_CLIENT_SERVER_FIND_H_

#include <string>
#include <vector>

#include "attndb/status.h"
#include "cli/environment.h"

namespace attndb::cli {

// The server's error `status`, or, if the server has no contexts, the error of an empty store.
// `among`: the contexts of the search; empty: all.
Status NothingFound(Environment* env, const std::vector<std::string>& among, Status status);

}  // namespace attndb::cli

#endif  // ATTNDB_CLI_CLIENT_SERVER_FIND_H_
