// A request to store a text as a context: POST /attndb/v1/contexts.
//
// Errors:  kInvalidArgument with the field, what was expected and what was found.
// Threads: stateless.
#ifndef ATTNDB_SERVER_ROUTES_IMPORT_REQUEST_H_
#define ATTNDB_SERVER_ROUTES_IMPORT_REQUEST_H_

#include <chrono>
#include <optional>
#include <string>

#include "attndb/options.h"
#include "attndb/result.h"
#include "server/json.h"

namespace attndb::server {

struct ImportRequest {
  std::string text;
  std::string system;  // System message in front of it; empty = none.
  bool raw = false;    // The text alone, without the model's chat template.
  bool stream = false;
  bool append = false;   // Behind what the context of that name, or "#id", holds.
  bool dry_run = false;  // Nothing is run or stored.
  StoreOptions store;    // It has a name.
};

Result<ImportRequest> ParseImport(const Json& body);

// "ttl_seconds": absent or null = for ever.
Status ReadTtl(const Json& body, std::optional<std::chrono::seconds>* ttl);

}  // namespace attndb::server

#endif  // ATTNDB_SERVER_ROUTES_IMPORT_REQUEST_H_
