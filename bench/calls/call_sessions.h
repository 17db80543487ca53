// Sessions that one benchmark compares: of one stored context of random heads, by plan and number
// of threads.
//
// Method:  keys and values are normal; q of a head is as long as makes the logits' standard
//          deviation 3 to 4.5, head by head, so that heads need more tokens or fewer, as a model's
//          do. All layers hold the same rows, each its own copy.
// Errors:  end the process with a message.
// Threads: one thread at a time.
#ifndef ATTNDB_BENCH_CALLS_CALL_SESSIONS_H_
#define ATTNDB_BENCH_CALLS_CALL_SESSIONS_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "attndb/db.h"
#include "bench/checked.h"

namespace attndb::bench {

struct CallShape {
  uint32_t num_kv_heads = 0;
  uint32_t group_size = 0;
  uint32_t head_dim = 0;
  uint64_t num_tokens = 0;

  std::string Name() const;  // "3x3x64/8192"
  uint64_t LayerBytes() const;
};

inline constexpr uint32_t kCallLayers = 4;

class CallSessions {
 public:
  // Stores the context in a folder of its own, which goes with this.
  explicit CallSessions(const CallShape& shape);
  CallSessions(const CallSessions&) = delete;
  CallSessions& operator=(const CallSessions&) = delete;

  // Opens another session on the context. Returns its number.
  size_t Open(const std::string& plan, uint32_t num_threads);
  // Appends one more token in all layers. Returns the seconds of an Attend, mean over layers.
  double Step(size_t session);

 private:
  void Store();
  TensorView Rows(const std::vector<float>& values, uint64_t first, uint64_t count,
                  uint32_t num_heads) const;

  const CallShape shape_;
  const ModelSpec spec_;
  TempFolder folder_;
  std::vector<TokenId> tokens_;  // One more than are stored: a session leaves the last one out.
  std::vector<float> k_;
  std::vector<float> v_;
  std::vector<float> q_;    // [kRows, num_q_heads, head_dim]
  std::vector<float> out_;  // [1, num_q_heads, head_dim]
  std::vector<DB> dbs_;     // [session]: read-only handles with the session's number of threads.
  std::vector<Session> sessions_;
  std::vector<uint64_t> num_steps_;
};

}  // namespace attndb::bench

#endif  // ATTNDB_BENCH_CALLS_CALL_SESSIONS_H_
