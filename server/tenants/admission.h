// How much of what a tenant may take it is taking: requests under way, tokens of the last minute.
//
// Threads: thread-safe.
#ifndef ATTNDB_SERVER_TENANTS_ADMISSION_H_
#define ATTNDB_SERVER_TENANTS_ADMISSION_H_

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "attndb/status.h"
#include "server/tenants/key_ring.h"

namespace attndb::server {

class Admission {
 public:
  // The place of a request under way; empty at first. Copies stand for the same place. It is free
  // again when one of them frees it, or when all of them have let go of it.
  class Place {
   public:
    // For whoever answers the request: others may still hold copies, as a thread that is about to
    // end its part of the work. Does nothing if it is empty, or free already. Thread-safe.
    void Free() const;
    // Makes this copy empty.
    void LetGo() { held_.reset(); }

   private:
    friend class Admission;
    class Held;

    std::shared_ptr<Held> held_;
  };

  // Takes a place for a request at time `seconds`, or says why there is none.
  // Errors: kResourceExhausted. `retry_seconds`: after which it may be tried again.
  Status Enter(const TenantRules& rules, double seconds, Place* place, double* retry_seconds);
  // Tokens that were run for the tenant.
  void Count(const std::string& tenant, uint64_t num_tokens, double seconds);

 private:
  // Tokens that a tenant has taken, less what its rate has given back since.
  struct Taken {
    uint32_t num_requests = 0;
    double num_tokens = 0;
    double seconds = 0;  // When num_tokens held.
    double tokens_per_second = 0;

    // What was taken before `now`, less what the rate has given back since.
    void GiveBack(double now);
  };

  void Leave(const std::string& tenant);

  std::mutex mutex_;
  std::map<std::string, Taken> taken_;  // Guarded by mutex_.
};

}  // namespace attndb::server

#endif  // ATTNDB_SERVER_TENANTS_ADMISSION_H_
