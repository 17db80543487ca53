// Whether what is stored of a prompt is read from disk, to be attended to in place, or run again:
// the cheaper, by what this machine was measured to take.
//
// Method:  reading is priced by the bytes that are not in memory, at the rate of the last loads;
//          running by the tokens, at the rate of the last prompts, in passes as they were. What
//          comes after, attention over these tokens, is the same either way. Without a measurement
//          of both, what is stored is read.
//          Each time that reading is declined its price falls by a twentieth: it is tried again
//          some time, as a disk that was slow once may be fast now.
// Units:   seconds; bytes of K and V.
// Threads: thread-safe.
#ifndef ATTNDB_SERVER_BATCH_REUSE_PRICES_H_
#define ATTNDB_SERVER_BATCH_REUSE_PRICES_H_

#include <cstdint>
#include <mutex>

namespace attndb::server {

// Where the first tokens of a prompt come from.
enum class ReuseWay : uint8_t { kNone, kMemory, kDisk, kRun };

// "none", "memory", "disk" or "run".
const char* NameOf(ReuseWay way);

struct ReusePrice {
  ReuseWay way = ReuseWay::kNone;
  uint64_t num_tokens = 0;  // Known of the prompt, reused or not.
  uint64_t num_bytes = 0;   // K and V of these that are not in memory.
  double read_seconds = 0;  // Predicted; 0: not known.
  double run_seconds = 0;   // Predicted; 0: not known.
};

class ReusePrices {
 public:
  // A load of so many bytes took so long. Small ones tell nothing of a disk's rate.
  void LearnRead(uint64_t num_bytes, double seconds);
  // A token of a prompt takes so long, lately.
  void LearnRun(double seconds_per_token);

  // For num_tokens tokens that are stored, of which num_bytes bytes are not in memory.
  ReusePrice PriceOf(uint64_t num_tokens, uint64_t num_bytes) const;
  // Reading was declined.
  void NoteDeclined(const ReusePrice& price);
  uint64_t num_declined_tokens() const;

 private:
  mutable std::mutex mutex_;
  double seconds_per_byte_ = 0;   // 0: no load was measured.
  double seconds_per_token_ = 0;  // 0: no prompt was measured.
  uint64_t num_declined_tokens_ = 0;
};

}  // namespace attndb::server

#endif  // ATTNDB_SERVER_BATCH_REUSE_PRICES_H_
