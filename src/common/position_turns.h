// Rotates each row to its own position, as RoPE does, and back: for keys stored without RoPE.
//
//   PositionTurns turns(*RopeFrequencies(rope, head_dim));
//   turns.Back(first, num_rows, padded, rows);  // As they were before RoPE.
//   turns.On(first, num_rows, padded, rows);    // As they were given.
//
// Shapes:  rows of float32, `padded` apart, in half layout: channels i and i + pairs are a pair.
//          Other channels stay.
// Units:   positions; angles are computed in float64.
// Threads: constant after construction.
// Source:  RoFormer, arXiv:2104.09864, Eq. 34; [AS] 3.4, whose store keeps such keys.
#ifndef ATTNDB_COMMON_POSITION_TURNS_H_
#define ATTNDB_COMMON_POSITION_TURNS_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace attndb {

class PositionTurns {
 public:
  // frequencies: radians a position of each pair. REQUIRES: at most kMaxPairs.
  explicit PositionTurns(std::vector<double> frequencies);
  static constexpr size_t kMaxPairs = 512;

  // Row i stands at position first + i.
  void On(int64_t first, size_t num_rows, size_t padded, float* rows) const;
  void Back(int64_t first, size_t num_rows, size_t padded, float* rows) const;
  // Row i stands at position first + offsets[i].
  void On(int64_t first, std::span<const uint32_t> offsets, size_t padded, float* rows) const;

 private:
  template <typename PositionOf>
  void TurnRows(const PositionOf& position_of, double sign, size_t num_rows, size_t padded,
                float* rows) const;

  const std::vector<double> frequencies_;
  // [positions of a block][pair]: by how much a position is turned on from its block's first.
  std::vector<double> cos_;
  std::vector<double> sin_;
};

}  // namespace attndb

#endif  // ATTNDB_COMMON_POSITION_TURNS_H_
