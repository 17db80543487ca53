// The order in which threads work off the calls of many sessions for one layer.
//
//   queue.Reset(calls, num_threads);                    // One thread.
//   while (auto task = queue.Next()) run its part;      // Each thread.
//
// Order:   calls that only read memory come first, so that calls that wait for the disk wait while
//          others are computed. Among these the longest come first, so that no thread ends with a
//          long one. All parts of such a call follow one another. Of waiting calls, the first parts
//          come first, so that threads begin several reads instead of waiting for one.
// Bits:    a call is cut into parts by its own size and the number of threads, never by its
//          neighbours.
// Threads: Next is thread-safe, and hands each part to one thread. One thread calls everything
//          else, while no other uses the queue.
#ifndef ATTNDB_ATTENTION_BATCH_CALL_QUEUE_H_
#define ATTNDB_ATTENTION_BATCH_CALL_QUEUE_H_

#include <atomic>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace attndb::attention {

struct QueuedCall {
  uint32_t number = 0;  // The caller's.
  uint64_t num_rows = 0;
  uint64_t num_tokens = 0;  // Tokens up to and including the newest row's.
  bool is_ready = true;     // All rows and objects that it reads are in memory.
};

struct CallPart {
  uint32_t call = 0;  // QueuedCall::number.
  uint32_t part = 0;
  uint32_t num_parts = 1;
};

class CallQueue {
 public:
  // Fills the queue. REQUIRES: num_threads >= 1.
  void Reset(std::span<const QueuedCall> calls, uint32_t num_threads);
  // The next part; none: all have been taken.
  std::optional<CallPart> Next();

 private:
  std::vector<CallPart> parts_;
  std::atomic<size_t> next_ = 0;
};

}  // namespace attndb::attention

#endif  // ATTNDB_ATTENTION_BATCH_CALL_QUEUE_H_
