// The contexts that texts are being appended to: two at once would lose the one that ends first,
// since each goes behind what it found.
//
// Errors:  kBusy (somebody appends to it).
// Threads: thread-safe.
#ifndef ATTNDB_SERVER_ROUTES_APPENDS_H_
#define ATTNDB_SERVER_ROUTES_APPENDS_H_

#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <utility>

#include "attndb/result.h"

namespace attndb::server {

class Appends {
 public:
  // Nobody else appends to the context until what this gives is let go, which this outlives.
  Result<std::shared_ptr<void>> Begin(const std::string& tenant, const std::string& context);

 private:
  using Name = std::pair<std::string, std::string>;  // Tenant, context.

  std::mutex mutex_;
  std::set<Name> under_way_;  // Guarded by mutex_.
};

}  // namespace attndb::server

#endif  // ATTNDB_SERVER_ROUTES_APPENDS_H_
