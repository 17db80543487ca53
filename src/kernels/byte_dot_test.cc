// Goal:   each inner product is exact, for every width of row, any number of indices and the
//         extreme byte values. Nothing behind the last result is written.
// Method: against 64-bit integers.
#include "kernels/byte_dot.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

namespace attndb::kernels {
namespace {

TEST(ByteDotTest, DotsAreExact) {
  std::mt19937 random(1);
  constexpr size_t kRows = 23;
  for (const size_t num_channels : {16u, 48u, 80u, 144u, 1024u}) {
    const size_t stride = num_channels + 3;
    std::vector<int8_t> rows(kRows * stride), row(num_channels);
    for (int8_t& x : rows) x = static_cast<int8_t>(random());
    for (int8_t& x : row) x = static_cast<int8_t>(random());
    std::fill_n(rows.begin(), num_channels, int8_t{-128});
    for (const int8_t extreme : {int8_t{0}, int8_t{-128}, int8_t{127}}) {
      if (extreme != 0) std::ranges::fill(row, extreme);
      for (size_t count = 0; count <= 9; ++count) {
        std::vector<uint32_t> indices(count);
        for (uint32_t& index : indices) index = static_cast<uint32_t>(random() % kRows);
        if (count > 0) indices.back() = 0;
        std::vector<int32_t> dots(count + 1, 7);
        DotBytes(row.data(), rows.data(), stride, num_channels, indices.data(), count, dots.data());
        for (size_t i = 0; i < count; ++i) {
          int64_t expected = 0;
          for (size_t d = 0; d < num_channels; ++d) {
            expected += int64_t{row[d]} * int64_t{rows[indices[i] * stride + d]};
          }
          EXPECT_EQ(dots[i], expected);
        }
        EXPECT_EQ(dots[count], 7);
      }
    }
  }
}

}  // namespace
}  // namespace attndb::kernels
