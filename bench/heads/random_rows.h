// Random numbers that depend on what they are for and not on who asked before: row i of an array is
// the same whichever rows were made first.
//
// Method:  splitmix64 (Steele, Lea and Flood 2014); normal values come from a table of 2^16, which
//          is a hundred times as fast as drawing each.
// Threads: const calls from any thread.
#ifndef ATTNDB_BENCH_HEADS_RANDOM_ROWS_H_
#define ATTNDB_BENCH_HEADS_RANDOM_ROWS_H_

#include <cstdint>
#include <span>
#include <vector>

namespace attndb::bench {

// A number that is as good as random for each pair.
uint64_t MixBits(uint64_t stream, uint64_t index);

class NormalRows {
 public:
  explicit NormalRows(uint64_t seed);
  // Fills `row` with independent values of mean 0 and variance 1.
  void Fill(uint64_t stream, uint64_t index, std::span<float> row) const;

 private:
  std::vector<float> table_;
};

}  // namespace attndb::bench

#endif  // ATTNDB_BENCH_HEADS_RANDOM_ROWS_H_
