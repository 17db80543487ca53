// Requests about what is stored, as their bodies have them: POST /attndb/v1/contexts/ID, /text,
// /verify, /compact, /build and /quota.
//
// Errors:  kInvalidArgument with the field, what was expected and what was found.
// Threads: stateless.
#ifndef ATTNDB_SERVER_ROUTES_STORE_REQUEST_H_
#define ATTNDB_SERVER_ROUTES_STORE_REQUEST_H_

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "attndb/result.h"
#include "server/json.h"

namespace attndb::server {

// {"pinned": true, "ttl_seconds": 3600, "name": NAME}: what is absent stays as it is.
struct ContextChange {
  std::optional<bool> pinned;
  bool sets_ttl = false;
  std::optional<std::chrono::seconds> ttl;  // Absent: for ever.
  std::optional<std::string> name;
};
Result<ContextChange> ParseChange(const Json& body);

// {"context": NAME, "special": false}
struct StoredTextRequest {
  std::string context;   // Never empty.
  bool special = false;  // Control tokens have their names in the text.
};
Result<StoredTextRequest> ParseStoredText(const Json& body);

// {"context": NAME, "index": TEXT, "segment_tokens": N, "stream": false}
struct UpkeepRequest {
  std::string context;  // Empty: all of the tenant's.
  std::string index;    // What a build is to make.
  uint64_t segment_tokens = 0;
  bool stream = false;
};
Result<UpkeepRequest> ParseUpkeep(const Json& body);

// {"quota_bytes": N}; null is 0: no limit.
Result<uint64_t> ParseQuota(const Json& body);

}  // namespace attndb::server

#endif  // ATTNDB_SERVER_ROUTES_STORE_REQUEST_H_
