// Which key belongs to which tenant, and what that tenant may take.
//
// File:    that of keys_file.h. It is read again when it has changed; if it can't be read then,
//          what it said before holds.
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
#include "server/tenants/keys_file.h"

namespace attndb::server {

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
  static Result<KeyRules> Read(const std::string& path);
  // As Read, if the file is another one than before. REQUIRES: mutex_ is held.
  void ReadAgain();
  // The rules of each tenant, as one of its keys has them. REQUIRES: mutex_ is held.
  std::map<std::string, TenantRules> Tenants() const;

  std::string path_;
  std::mutex mutex_;
  KeyRules rules_;                            // Guarded by mutex_.
  std::string stamp_;                         // Guarded by mutex_: what tells a changed file.
  bool changed_ = false;                      // Guarded by mutex_: not all changes are taken.
  std::map<std::string, TenantRules> taken_;  // Guarded by mutex_: what TakeChanges told last.
};

}  // namespace attndb::server

#endif  // ATTNDB_SERVER_TENANTS_KEY_RING_H_
