// POST /attndb/v1/find: what is looked for, and where.
//
// Errors:  kInvalidArgument with the field, what was expected and what was found.
// Threads: stateless.
#ifndef ATTNDB_SERVER_ROUTES_FIND_REQUEST_H_
#define ATTNDB_SERVER_ROUTES_FIND_REQUEST_H_

#include <string>

#include "attndb/find.h"
#include "attndb/result.h"
#include "server/json.h"

namespace attndb::server {

inline constexpr uint32_t kMaxFoundPassages = 10'000;

struct FindRequest {
  std::string question;
  FindOptions options;  // Without contexts: all of the tenant's.
};

Result<FindRequest> ParseFind(const Json& body);

}  // namespace attndb::server

#endif  // ATTNDB_SERVER_ROUTES_FIND_REQUEST_H_
