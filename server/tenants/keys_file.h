// The text of a keys file: which tenant each key belongs to, and what that tenant may take.
//
// Form:    JSON: {"keys": [{"sha256": "<64 hex digits of the key's SHA-256>", "tenant": "alice",
//          "max_requests": 8, "tokens_per_minute": 60000, "quota_bytes": 1000000000,
//          "tpot_ms": 50, "operator": true}, ...]}; the limits may be left out. Keys themselves are
//          in no file.
// Errors:  kInvalidArgument with the key's place and the field.
// Threads: stateless.
#ifndef ATTNDB_SERVER_TENANTS_KEYS_FILE_H_
#define ATTNDB_SERVER_TENANTS_KEYS_FILE_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>

#include "attndb/result.h"

namespace attndb::server {

inline constexpr size_t kDigestDigits = 64;  // SHA-256 in lower case.
inline constexpr uint64_t kMaxTpotMs = 1'000'000;

struct TenantRules {
  std::string tenant = "default";
  // May read what is counted of all tenants, and verify, compact and limit its own one's store.
  bool is_operator = false;
  uint32_t max_requests = 0;       // Under way at once; 0 = no limit.
  uint64_t tokens_per_minute = 0;  // Prompts and replies that were run; 0 = no limit.
  uint64_t quota_bytes = 0;        // On disk; 0 = no limit.
  uint64_t tpot_ms = 0;            // What a token may take, where requests say nothing; 0 = any.
};

using KeyRules = std::map<std::string, TenantRules, std::less<>>;  // By SHA-256 of the key.

// The key that a request has in these headers: "Bearer K", or else X-Api-Key. The scheme may have
// any case (RFC 9110, 11.1).
std::string_view KeyIn(std::string_view authorization, std::string_view api_key);

Result<KeyRules> ParseKeysFile(std::string_view text);

}  // namespace attndb::server

#endif  // ATTNDB_SERVER_TENANTS_KEYS_FILE_H_
