// A store of many contexts that share a prefix, and its calls, timed: through the public API alone.
//
// Method:  a model of one layer and one kv head of 16 channels, so that what a call costs is the
//          catalog's work and the disk's syncs, not its rows. Each context is the prefix, stored
//          once, and tokens of its own. The folder lies in $TMPDIR, and goes with this.
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
  explicit ManyContexts(uint64_t num_contexts);
  ManyContexts(const ManyContexts&) = delete;
  ManyContexts& operator=(const ManyContexts&) = delete;

  uint64_t num_contexts() const { return num_contexts_; }

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

 private:
  // The tokens of a context: the prefix, and tokens that no other number has.
  static std::vector<TokenId> TokensOf(uint64_t number);
  // A session that holds all of the tokens, not stored yet.
  Session Extend(const std::vector<TokenId>& tokens);

  const uint64_t num_contexts_;
  const ModelSpec spec_;
  TempFolder folder_;
  std::vector<float> rows_;
  std::unique_ptr<DB> db_;
  uint64_t num_made_ = 0;  // Contexts in all, those that are gone again included.
};

}  // namespace attndb::bench

#endif  // ATTNDB_BENCH_STORE_MANY_CONTEXTS_H_
