// Rotates rows by a number of positions, as if RoPE had seen them at other positions. Kept tokens
// of a longer text are so attended to as if they stood next to the following text.
//
//   Turn turn(*RopeFrequencies(rope, head_dim), 1024);
//   turn.Rows(from, num_rows, padded, to);
//
// Shapes:  rows of float32, `padded` apart, in half layout: channels i and i + pairs are a pair.
// Units:   positions, of either sign; angles are computed in float64.
// Threads: constant after construction.
// Source:  a score depends only on the difference of two positions (RoFormer, arXiv:2104.09864, Eq.
//          16); [AS] 3.4.
#ifndef ATTNDB_COMMON_TURN_H_
#define ATTNDB_COMMON_TURN_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace attndb {

class Turn {
 public:
  // frequencies: radians a position of each pair.
  Turn(std::span<const double> frequencies, int64_t positions);

  size_t num_pairs() const { return cos_.size(); }
  // `to` may be `from`. Channels that RoPE does not turn are copied.
  void Rows(const float* from, size_t num_rows, size_t padded, float* to) const;

 private:
  std::vector<float> cos_;  // By pair.
  std::vector<float> sin_;
};

}  // namespace attndb

#endif  // ATTNDB_COMMON_TURN_H_
