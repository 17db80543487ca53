// Which key belongs to which tenant, and what that tenant may take.
//
// File:    JSON: {"keys": [{"sha256": "<64 hex digits of the key's SHA-256>", "tenant": "alice",
//          "max_requests": 8, "tokens_per_minute": 60000, "quota_bytes": 1000000000,
//          "tpot_ms": 50, "operator": true}, ...]}; the limits may be left out. Keys themselves are
//          in no file. It is read again when it has changed; if it can't be read then, what it said
//          before holds.
// Errors:  kInvalidArgument with the file and the field; kIoError, kNotFound.
// Threads: thread-safe.
#ifndef ATTNDB_SERVER_TENANTS_KEY_RING_H_
#define ATTNDB_SERVER_TENANTS_KEY_RING_H_

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "attndb/result.h"

namespace attndb::server {

struct TenantRules {
  std::string tenant = "default";
  // May read what is counted of all tenants, and verify, compact and limit its own one's store.
  bool is_operator = false;
  uint32_t max_requests = 0;       // Under way at once; 0 = no limit.
  uint64_t tokens_per_minute = 0;  // Prompts and replies that were run; 0 = no limit.
  uint64_t quota_bytes = 0;        // On disk; 0 = no limit.
  uint64_t tpot_ms = 0;            // What a token may take, where requests say nothing; 0 = any.
};

// What the file says of a tenant that it did not say before.
struct TenantChange {
  std::string tenant;
  bool is_new = false;
  std::optional<uint64_t> quota_bytes;  // The limit to set, 0 = none; absent: it stays as it is.
};

class KeyRing {
 public:
  // An empty path: everybody is the default tenant, with or without a key.
  static Result<std::unique_ptr<KeyRing>> Open(const std::string& path);

  // Whose the key is; none: nobody's.
  std::optional<TenantRules> Find(std::string_view key);
  // What has changed since the last call, for what is set once for each tenant: at first all
  // tenants of the file are new. A tenant that left the file is not told of. Reads no file.
  std::vector<TenantChange> TakeChanges();

 private:
  using Rules = std::map<std::string, TenantRules, std::less<>>;  // By SHA-256 of the key.
  static Result<Rules> Read(const std::string& path);
  // As Read, if the file is another one than before. REQUIRES: mutex_ is held.
  void ReadAgain();
  // The rules of each tenant, as one of its keys has them. REQUIRES: mutex_ is held.
  std::map<std::string, TenantRules> Tenants() const;

  std::string path_;
  std::mutex mutex_;
  Rules rules_;                               // Guarded by mutex_.
  std::string stamp_;                         // Guarded by mutex_: what tells a changed file.
  bool changed_ = false;                      // Guarded by mutex_: not all changes are taken.
  std::map<std::string, TenantRules> taken_;  // Guarded by mutex_: what TakeChanges told last.
};

}  // namespace attndb::server

#endif  // ATTNDB_SERVER_TENANTS_KEY_RING_H_
