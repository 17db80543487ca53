// Goal:   rotated rows equal those of the float64 matrix. Inner products are kept, and bits do not
//         depend on the ISA.
// Method: the transform by its definition, sum of x_j * (-1)^popcount(i & j), in float64; poison
//         between rows.
// Replay: seeds are constants.
#include "kernels/hadamard.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/test_rows.h"

namespace attndb::kernels {
namespace {

constexpr Sizes kChannels = {16, 32, 48, 64, 80, 96, 112, 128, 192, 256, 272, 1024};

void Transform(const float* signs, std::vector<double>* x, size_t first, size_t size) {
  std::vector<double> sums(size, 0.0);
  for (size_t i = 0; i < size; ++i) {
    for (size_t j = 0; j < size; ++j) {
      const double term = (*x)[first + j] * double{signs[first + j]};
      sums[i] += std::popcount(i & j) % 2 == 0 ? term : -term;
    }
  }
  for (size_t i = 0; i < x->size(); ++i) {
    const bool inside = i >= first && i < first + size;
    (*x)[i] = inside ? sums[i - first] / std::sqrt(static_cast<double>(size))
                     : (*x)[i] * double{signs[i]};
  }
}

std::vector<double> Rotated(const float* row, size_t n, const float* signs) {
  std::vector<double> x(row, row + n);
  const size_t size = std::bit_floor(n);
  Transform(signs, &x, 0, size);
  if (size < n) Transform(signs + n, &x, n - size, size);
  return x;
}

class HadamardTest : public IsaTest {
 protected:
  std::vector<float> Signs(size_t num_channels) {
    std::vector<float> signs(2 * num_channels);
    for (float& sign : signs) sign = random_() % 2 == 0 ? 1.0f : -1.0f;
    return signs;
  }
  std::vector<float> Rows(size_t num_rows, size_t num_channels, size_t stride) {
    std::normal_distribution<float> normal;
    std::vector<float> rows((num_rows - 1) * stride + num_channels, -7.0f);
    for (size_t r = 0; r < num_rows; ++r) {
      for (size_t i = 0; i < num_channels; ++i) rows[r * stride + i] = normal(random_);
    }
    return rows;
  }
};

TEST_P(HadamardTest, EqualsTheMatrixInFloat64AndLeavesTheGapsAlone) {
  for (const size_t n : kChannels) {
    const size_t stride = n + 3;
    const std::vector<float> signs = Signs(n);
    const std::vector<float> before = Rows(3, n, stride);
    std::vector<float> after = before;
    HadamardRows(after.data(), stride, 3, n, signs.data());
    for (size_t r = 0; r < 3; ++r) {
      const std::vector<double> expected = Rotated(&before[r * stride], n, signs.data());
      for (size_t i = 0; i < n; ++i) {
        ASSERT_NEAR(after[r * stride + i], expected[i], 1e-5) << n << " channels, " << i;
      }
      for (size_t i = r * stride + n; i < (r + 1) * stride && i < after.size(); ++i) {
        ASSERT_EQ(after[i], -7.0f);
      }
    }
  }
}

TEST_P(HadamardTest, InnerProductsAreKept) {
  for (const size_t n : kChannels) {
    const std::vector<float> signs = Signs(n);
    std::vector<float> rows = Rows(4, n, n);
    const auto dot = [&](size_t a, size_t b) {
      double sum = 0;
      for (size_t i = 0; i < n; ++i) sum += double{rows[a * n + i]} * rows[b * n + i];
      return sum;
    };
    std::vector<double> before;
    for (size_t a = 0; a < 16; ++a) before.push_back(dot(a / 4, a % 4));
    HadamardRows(rows.data(), n, 4, n, signs.data());
    for (size_t a = 0; a < 16; ++a) {
      EXPECT_NEAR(dot(a / 4, a % 4), before[a], 1e-6 * static_cast<double>(n));
    }
  }
}

TEST_P(HadamardTest, OneTallChannelIsSpreadOverAll) {
  for (const size_t n : Sizes{64, 80, 128}) {
    const std::vector<float> signs = Signs(n);
    for (size_t channel = 0; channel < n; ++channel) {
      std::vector<float> row(n);
      row[channel] = 100.0f;
      HadamardRows(row.data(), n, 1, n, signs.data());
      float max = 0;
      for (const float x : row) max = std::max(max, std::abs(x));
      EXPECT_LT(max, 60.0f) << n << " channels, " << channel;
    }
  }
}

TEST_P(HadamardTest, LargeRowsDoNotOverflowOnTheWay) {
  std::vector<float> signs(2 * 128, 1.0f);
  std::vector<float> row(128, 1e37f);
  HadamardRows(row.data(), 128, 1, 128, signs.data());
  EXPECT_NEAR(row[0] / 1e37f, std::sqrt(128.0f), 1e-4);
  for (size_t i = 1; i < 128; ++i) EXPECT_EQ(row[i], 0.0f);
}

TEST_P(HadamardTest, BitsEqualThoseOfThePortableTarget) {
  for (const size_t n : kChannels) {
    const std::vector<float> signs = Signs(n);
    std::vector<float> rows = Rows(9, n, n);
    std::vector<float> portable = rows;
    HadamardRows(rows.data(), n, 9, n, signs.data());
    ASSERT_TRUE(ForceIsa(Isa::kScalar));
    HadamardRows(portable.data(), n, 9, n, signs.data());
    ASSERT_TRUE(ForceIsa(GetParam()));
    ASSERT_EQ(std::memcmp(rows.data(), portable.data(), 9 * n * sizeof(float)), 0) << n;
  }
}

ATTNDB_INSTANTIATE_ISAS(HadamardTest);

}  // namespace
}  // namespace attndb::kernels
