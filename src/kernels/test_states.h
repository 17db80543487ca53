// Test helper: attention states that own their memory, and comparison with the float64 twin.
//
// Threads: one thread only.
#ifndef ATTNDB_KERNELS_TEST_STATES_H_
#define ATTNDB_KERNELS_TEST_STATES_H_

#include <cmath>
#include <cstdint>
#include <numeric>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/attention_state.h"
#include "kernels/reference/reference.h"
#include "kernels/test_rows.h"

namespace attndb::kernels {

// States with their storage, and their finished results.
struct States {
  States(size_t rows_wanted, size_t elements)
      : num_rows(rows_wanted),
        v_elements(elements),
        max(num_rows),
        sum(num_rows),
        lse(num_rows),
        out(num_rows * v_elements) {
    rows = {max.data(), sum.data(), out.data(), v_elements};
    InitStates(rows, num_rows, v_elements);
  }
  void Finish() { FinishStates(rows, num_rows, v_elements, out.data(), v_elements, lse.data()); }

  size_t num_rows, v_elements;
  std::vector<float> max, sum, lse;
  AlignedFloats out;
  StateRows rows;
};

inline std::vector<uint32_t> FirstTokens(size_t n) {
  std::vector<uint32_t> tokens(n);
  std::iota(tokens.begin(), tokens.end(), 0u);
  return tokens;
}

inline LogitSpec SpecFor(size_t head_dim, float soft_cap = 0.0f) {
  return {1.0f / std::sqrt(static_cast<float>(head_dim)), soft_cap};
}

// Tolerance of a weight: the rounding of its logit (a few times eps * sum|q k| * scale) plus the
// rounding of exp.
inline void ExpectNear(const States& states, size_t row, const reference::Attention& expected) {
  const double tolerance = 3e-5;
  if (std::isinf(expected.lse)) {
    EXPECT_EQ(states.lse[row], -kInf);
  } else {
    EXPECT_NEAR(states.lse[row], expected.lse, tolerance * (1 + std::abs(expected.lse)));
  }
  for (size_t i = 0; i < states.v_elements; ++i) {
    ASSERT_NEAR(states.out[row * states.v_elements + i], expected.out[i], tolerance) << i;
  }
}

}  // namespace attndb::kernels

#endif  // ATTNDB_KERNELS_TEST_STATES_H_
