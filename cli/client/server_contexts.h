// The contexts of a server, as commands list and change them. A build without a server has a
// function that says so (no_client.cc).
//
// Threads: one thread at a time.
#ifndef ATTNDB_CLI_CLIENT_SERVER_CONTEXTS_H_
#define ATTNDB_CLI_CLIENT_SERVER_CONTEXTS_H_

#include <memory>

#include "attndb/result.h"
#include "cli/common/contexts.h"
#include "cli/environment.h"

namespace attndb::cli {

// For commands of contexts alone. Asks nothing yet.
// Errors: kInvalidArgument (a flag that is the server's own business); as ConnectContexts.
Result<std::unique_ptr<Contexts>> OpenServerContexts(Environment* env);

// For commands that ask for more. Asks nothing yet.
// Errors: as ServerClient::Connect; kUnsupported (this build has no client).
Result<std::unique_ptr<Contexts>> ConnectContexts(Environment* env);

}  // namespace attndb::cli

#endif  // ATTNDB_CLI_CLIENT_SERVER_CONTEXTS_H_
