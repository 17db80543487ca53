// Goal:   each sum is right for any numbers of rows, functions and columns. Nothing past the last
//         column is written.
// Method: against float64.
#include "kernels/combine.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

namespace attndb::kernels {
namespace {

TEST(CombineTest, SumsAreThoseOfFloat64) {
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  constexpr size_t kColumns = 2 * kCombineColumns;
  for (const size_t num_rows : {1u, 2u, 3u, 4u, 5u, 11u}) {
    for (const size_t num_functions : {0u, 1u, 37u}) {
      for (const size_t num_columns : {0u, 1u, 15u, 16u, 33u, 64u}) {
        std::vector<float> values(num_functions * kColumns), factors(num_rows * 40);
        for (float& x : values) x = normal(random);
        for (float& x : factors) x = normal(random);
        const size_t out_stride = num_columns + 3;
        std::vector<float> out(num_rows * out_stride, 2.0f);
        AddCombinations({values.data(), kColumns, num_functions}, factors.data(), 40, num_rows,
                        num_columns, out.data(), out_stride);
        for (size_t r = 0; r < num_rows; ++r) {
          for (size_t i = 0; i < out_stride; ++i) {
            double sum = 2.0;
            for (size_t f = 0; i < num_columns && f < num_functions; ++f) {
              sum += double{factors[r * 40 + f]} *
                     double{values[FunctionTable::Offset(num_functions, f, i)]};
            }
            EXPECT_NEAR(double{out[r * out_stride + i]}, sum, 1e-4);
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace attndb::kernels
