// Goal:   sums, centred rows and norms are right for every width of row. Memory between rows
//         stays as it is.
// Method: against float64.
#include "kernels/centre.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace attndb::kernels {
namespace {

TEST(CentreTest, RowsAreThoseOfFloat64) {
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  for (const size_t num_channels : {16u, 48u, 128u}) {
    for (const size_t num_rows : {1u, 7u, 64u}) {
      const size_t stride = num_channels + 5;
      std::vector<float> rows(num_rows * stride), mean(num_channels), scale(num_channels);
      for (std::vector<float>* all : {&rows, &mean, &scale}) {
        for (float& x : *all) x = normal(random);
      }
      const std::vector<float> before = rows;
      std::vector<float> sums(num_channels), norm_sq(num_rows);
      SumRows(rows.data(), stride, num_rows, num_channels, sums.data());
      CentreRows(rows.data(), stride, num_rows, num_channels, mean.data(), scale.data(),
                 norm_sq.data());
      for (size_t d = 0; d < num_channels; ++d) {
        double sum = 0;
        for (size_t i = 0; i < num_rows; ++i) sum += double{before[i * stride + d]};
        EXPECT_NEAR(double{sums[d]}, sum, 1e-4);
      }
      for (size_t i = 0; i < num_rows; ++i) {
        double square = 0;
        for (size_t d = 0; d < stride; ++d) {
          const size_t at = i * stride + d;
          double expected = double{before[at]};
          if (d < num_channels) expected = (expected - double{mean[d]}) * double{scale[d]};
          EXPECT_NEAR(double{rows[at]}, expected, 1e-5);
          if (d < num_channels) square += expected * expected;
        }
        EXPECT_NEAR(double{norm_sq[i]}, square, 1e-5 * square);
      }
    }
  }
}

}  // namespace
}  // namespace attndb::kernels
