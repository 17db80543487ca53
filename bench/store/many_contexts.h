// A store of many contexts that share a prefix, and its calls, timed: through the public API alone.
//
// Method:  a model of one layer and one kv head of 16 channels, so that what a call costs is the
//          catalog's work and the disk's syncs, not its rows. Each context is the prefix, stored
//          once by each tenant, and tokens of its own; tenants store by turns, and one of them
//          calls. The folder lies in $TMPDIR, and goes with this. The store's clock is ours.
// Errors:  end the process with a message.
// Threads: one thread at a time.
#ifndef ATTNDB_BENCH_STORE_MANY_CONTEXTS_H_
#define ATTNDB_BENCH_STORE_MANY_CONTEXTS_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "attndb/db.h"
#include "bench/checked.h"

namespace attndb::bench {

class ManyContexts {
 public:
  static constexpr uint64_t kPrefixTokens = 512;
  static constexpr uint64_t kOwnTokens = 64;

  // Makes and stores the contexts: some milliseconds each, most of it syncs.
  explicit ManyContexts(uint64_t num_contexts, uint64_t num_tenants = 1);
  ManyContexts(const ManyContexts&) = delete;
  ManyContexts& operator=(const ManyContexts&) = delete;

  uint64_t num_contexts() const { return num_contexts_; }
  uint64_t num_tenants() const { return num_tenants_; }

  // From here on a Store evicts what was used longest ago.
  void FillQuota();

  // The functions below give the seconds of one call.
  double List();
  // The prompt goes on from one of the contexts. The session's end counts, too.
  double CreateSession();
  // Stores one more context under FillQuota's quota, which evicts one.
  double Store();
  // A Compact that has nothing to merge. The first call still looks at all contexts: do not time
  // it.
  double Compact();
  // The functions from here on leave the store as it was.
  double Drop();
  // Until the first progress of a Verify of everything, which is cancelled then.
  double VerifyStart();
  // A Compact that finds one context whose time to live is over.
  double Expiry();
  double Stats();
  // The prompt goes on from none of the contexts, but has their prefix.
  double ExplainPrefix();
  double Open();

 private:
  void OpenStore();
  DB TenantOf(uint64_t number) const;
  // The tokens of a context: the prefix, and tokens that no other number has.
  static std::vector<TokenId> TokensOf(uint64_t number);
  // A session that holds all of the tokens, not stored yet.
  Session Extend(const DB& db, const std::vector<TokenId>& tokens);
  ContextId StoreOneMore(const StoreOptions& options);

  const uint64_t num_contexts_;
  const uint64_t num_tenants_;
  const ModelSpec spec_;
  TempFolder folder_;
  std::vector<float> rows_;
  int64_t now_us_ = 1'700'000'000'000'000;
  std::unique_ptr<DB> owner_;
  std::unique_ptr<DB> db_;  // The handle of the tenant that calls.
  uint64_t num_made_ = 0;   // Contexts in all, those that are gone again included.
  uint64_t youngest_ = 0;   // Number of the newest of this tenant's contexts that stay.
};

}  // namespace attndb::bench

#endif  // ATTNDB_BENCH_STORE_MANY_CONTEXTS_H_
