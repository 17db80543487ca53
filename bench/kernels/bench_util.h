// What the kernel benchmarks share: clock, medians, big aligned buffers, the report as text and
// JSON.
//
// Usage of every program: [--json FILE] [--commit HASH] [--rounds N]
// Method: rounds; in each, every measurement once, so that a disturbance hits all alike; medians
//         with their median absolute deviation over rounds, ratios taken inside a round.
// Threads: one thread only.
#ifndef ATTNDB_BENCH_KERNELS_BENCH_UTIL_H_
#define ATTNDB_BENCH_KERNELS_BENCH_UTIL_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "attndb/dtype.h"

namespace attndb::bench {

struct Options {
  std::string json_path;  // Empty: no file.
  std::string commit;
  size_t num_rounds = 15;
};
// Ends the process with a usage line on an unknown argument.
Options ParseOptions(int argc, char** argv);
// Takes "NAME N" out of the arguments, where it must stand before the others; N is at least
// `least`. `fallback` if it is not there.
uint64_t TakeNumber(const char* name, uint64_t fallback, uint64_t least, int* argc, char** argv);

// Wall clock.
double Seconds();
// Time that this thread has run: what one thread costs, also where other work shares the machine.
double ThreadSeconds();

// Memory for rows: 2 MiB pages where the system grants them, as the store's own buffers have.
class Buffer {
 public:
  explicit Buffer(size_t num_bytes);
  ~Buffer();
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  char* data() const { return data_; }
  size_t size() const { return size_; }

 private:
  char* data_;
  size_t size_;
};

// Hands out consecutive pieces of a buffer, around and around.
class Pieces {
 public:
  explicit Pieces(const Buffer* buffer) : buffer_(buffer) {}
  const char* Next(size_t num_bytes) {
    if (next_ + num_bytes > buffer_->size()) next_ = 0;
    const char* const piece = buffer_->data() + next_;
    next_ += num_bytes;
    return piece;
  }

 private:
  const Buffer* buffer_;
  size_t next_ = 0;
};

// Keeps what is stored in it from being optimised away.
inline volatile uint64_t sink;

// GB/s of `num_bytes` that took from `start`, a time of ThreadSeconds(), until now.
double Gbps(size_t num_bytes, double start);
// The limit: how fast XorWords reads `data`.
double ReadGbps(const char* data, size_t num_bytes);

// Fills with normal variates of `dtype`; a repeated pattern, which is enough for timing.
void FillNormal(Buffer* buffer, DType dtype, uint32_t seed);

// Collects named series over rounds and prints them.
class Report {
 public:
  Report(std::string question, const Options& options);

  // One sample of `name`, in `unit`.
  void Add(const std::string& name, const std::string& unit, double value);
  // One sample of `name` as a share of (or a ratio to) something measured in the same round.
  void AddShare(const std::string& name, double share);
  // Prints a table, writes the JSON file. `target` lines are for the reader: name -> least share.
  void Finish(const std::map<std::string, double>& least_shares);

 private:
  struct Series {
    std::string unit;
    std::vector<double> values;
    std::vector<double> shares;
  };
  std::string question_;
  Options options_;
  std::vector<std::string> order_;
  std::map<std::string, Series> series_;
};

}  // namespace attndb::bench

#endif  // ATTNDB_BENCH_KERNELS_BENCH_UTIL_H_
