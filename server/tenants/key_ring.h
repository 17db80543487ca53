// Which key belongs to which tenant, and what that tenant may take.
//
// File:    that of keys_file.h. It is read again when it has changed; if it can't be read then,
//          what it said before holds.
// Own key: one key may be given without a file (`attndb serve --api-key`). It is an operator's, of
//          the default tenant, without limits. If the file has this key, too, the file's rules
//          hold. Only the key's digest is kept.
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

// News of a tenant since the last TakeChanges.
struct TenantChange {
  std::string tenant;
  bool is_new = false;
  std::optional<uint64_t> quota_bytes;  // The limit to set, 0 = none; absent: it stays as it is.
};

class KeyRing {
 public:
  // `api_key`: the own key; empty: there is none. If the path is empty, too, everybody is the
  // default tenant and an operator, with or without a key.
  static Result<std::unique_ptr<KeyRing>> Open(const std::string& path,
                                               std::string_view api_key = {});

  // Whose the key is; none: nobody's.
  std::optional<TenantRules> Find(std::string_view key);
  // Whether a request can be the default tenant's now. Reads no file.
  bool HasDefaultTenant();
  // What has changed since the last call, for what is set once for each tenant: at first all
  // tenants are new. A tenant that left the file is not told of. Reads no file.
  std::vector<TenantChange> TakeChanges();

 private:
  static Result<KeyRules> Read(const std::string& path);
  // As Read, if the file is another one than before. REQUIRES: mutex_ is held.
  void ReadAgain();
  // The rules of each tenant, as one of its keys has them. REQUIRES: mutex_ is held.
  std::map<std::string, TenantRules> Tenants() const;
  bool lets_everybody_in() const { return path_.empty() && api_key_digest_.empty(); }

  std::string path_;
  std::string api_key_digest_;  // Empty: there is no own key.
  std::mutex mutex_;
  KeyRules rules_;                            // Guarded by mutex_.
  std::string stamp_;                         // Guarded by mutex_: what tells a changed file.
  bool changed_ = true;                       // Guarded by mutex_: not all changes are taken.
  std::map<std::string, TenantRules> taken_;  // Guarded by mutex_: what TakeChanges told last.
};

}  // namespace attndb::server

#endif  // ATTNDB_SERVER_TENANTS_KEY_RING_H_
