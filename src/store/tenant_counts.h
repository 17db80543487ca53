// Counts the work for each tenant since the store was opened, so that a handle reports only its own
// tenant.
//
// Limits:  an entry of some hundred bytes for each tenant with a session or a Store; it stays until
//          the store is closed.
// Threads: thread-safe. The counters are independent, so relaxed.
#ifndef ATTNDB_STORE_TENANT_COUNTS_H_
#define ATTNDB_STORE_TENANT_COUNTS_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "attndb/stats.h"
#include "common/mutex.h"

namespace attndb::store {

class Count {
 public:
  void Add(uint64_t n) { value_.fetch_add(n, std::memory_order_relaxed); }
  void Subtract(uint64_t n) { value_.fetch_sub(n, std::memory_order_relaxed); }
  uint64_t value() const { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<uint64_t> value_ = 0;
};

// The number of evicted contexts, and the names of the newest of them.
class EvictedContexts {
 public:
  static constexpr size_t kMaxLabels = 64;

  void Add(std::span<const std::string> labels) ATTNDB_EXCLUDES(mutex_);
  uint64_t number() const ATTNDB_EXCLUDES(mutex_);
  // In the order of eviction.
  std::vector<std::string> labels() const ATTNDB_EXCLUDES(mutex_);

 private:
  mutable Mutex mutex_;  // A leaf.
  uint64_t number_ ATTNDB_GUARDED_BY(mutex_) = 0;
  std::deque<std::string> labels_ ATTNDB_GUARDED_BY(mutex_);
};

// The counts that DBStats has.
struct CountsOfTenant {
  Count num_sessions;
  Count num_lookups;
  Count num_prompt_tokens;
  Count num_reused_tokens;
  Count num_stores;
  EvictedContexts evictions;
  Count bytes_written;
  Count bytes_merged;
  Count num_companions_built;

  // Adds the numbers, but not the names of evicted contexts.
  void AddTo(DBStats* stats) const;
};

class TenantCounts {
 public:
  // The result stays at its address while this object lives.
  CountsOfTenant* Of(std::string_view tenant) ATTNDB_EXCLUDES(mutex_);
  // The sums over all tenants.
  void AddAllTo(DBStats* stats) const ATTNDB_EXCLUDES(mutex_);

 private:
  mutable Mutex mutex_;  // A leaf.
  std::map<std::string, CountsOfTenant, std::less<>> counts_ ATTNDB_GUARDED_BY(mutex_);
};

}  // namespace attndb::store

#endif  // ATTNDB_STORE_TENANT_COUNTS_H_
