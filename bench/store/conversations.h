// Conversations in a store of their own: sessions of SmolLM2-135M's geometry that hold random rows.
//
// Method:  30 layers of 3 kv heads and 9 q heads of 64 channels, float16: 23,040 bytes a token.
//          Rows are normal, the same in each layer and again every 4,096 tokens. The folder lies in
//          $TMPDIR, and goes with this.
// Errors:  end the process with a message.
// Threads: one thread at a time.
#ifndef ATTNDB_BENCH_STORE_CONVERSATIONS_H_
#define ATTNDB_BENCH_STORE_CONVERSATIONS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "attndb/db.h"
#include "bench/checked.h"

namespace attndb::bench {

using Tokens = std::vector<TokenId>;

struct Conversation {
  Session session;
  Tokens tokens;  // Those that the session holds.
};

class Conversations {
 public:
  explicit Conversations(const DBOptions& options);
  Conversations(const Conversations&) = delete;
  Conversations& operator=(const Conversations&) = delete;

  const DB& db() const { return db_; }

  // Stores a context of so many tokens that begins like no other one, in turns of 16,384 tokens.
  Tokens StoreContext(uint64_t num_tokens);
  // A conversation that reuses all of `context`, and holds num_new tokens more that no other one
  // has: its tail.
  Conversation Continue(const Tokens& context, uint64_t num_new, const std::string& plan);
  // One more token: Append and Attend of all layers.
  void Step(Conversation* conversation);

 private:
  // The rows of the tokens that the session does not hold yet.
  void Append(Conversation* conversation);

  const ModelSpec spec_;
  const TempFolder folder_;
  std::vector<float> rows_;  // K, V and q are read from them.
  std::vector<float> out_;
  DB db_;
  TokenId next_mark_ = 0;  // What tells one conversation from another.
};

}  // namespace attndb::bench

#endif  // ATTNDB_BENCH_STORE_CONVERSATIONS_H_
