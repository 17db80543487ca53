// Goal:   prefill attention equals the float64 twin for every mask, and masks hide NaN.
// Method: grid over ISA, dtype, dims and row counts with causal, sliding and ragged masks.
// Replay: seeds are constants.
#include "kernels/attend_block.h"

#include <algorithm>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/attend.h"
#include "kernels/reference/reference.h"
#include "kernels/test_rows.h"
#include "kernels/test_states.h"

namespace attndb::kernels {
namespace {

struct Mask {
  std::vector<uint32_t> lo, hi;
};

// Rows are the last ones of the run, token-major over `group` q heads; they see `window` tokens.
Mask CausalMask(size_t num_tokens, size_t num_rows, size_t group, size_t window) {
  Mask mask;
  const size_t num_new = (num_rows + group - 1) / group;
  for (size_t r = 0; r < num_rows; ++r) {
    const size_t back = num_new - 1 - r / group;
    const size_t hi = num_tokens > back ? num_tokens - back : 0;
    mask.hi.push_back(static_cast<uint32_t>(hi));
    mask.lo.push_back(static_cast<uint32_t>(hi > window ? hi - window : 0));
  }
  return mask;
}

class AttendBlockTest : public IsaTest {
 protected:
  void Check(DType dtype, size_t num_tokens, size_t head_dim, size_t v_head_dim, size_t num_rows,
             const Mask* mask, float soft_cap = 0.0f) {
    SCOPED_TRACE(testing::Message() << DTypeName(dtype) << " tokens " << num_tokens << " dims "
                                    << head_dim << "," << v_head_dim << " rows " << num_rows);
    const TestRows k(dtype, num_tokens, head_dim, true, &random_);
    const TestRows v(dtype, num_tokens, v_head_dim, false, &random_);
    const TestQueries q(num_rows, head_dim, &random_, 2.0f);
    const States states = Run(k, v, num_tokens, q, num_rows, mask, soft_cap);
    for (size_t r = 0; r < num_rows; ++r) {
      SCOPED_TRACE(r);
      const uint32_t lo = mask ? mask->lo[r] : 0;
      const uint32_t hi = mask ? mask->hi[r] : static_cast<uint32_t>(num_tokens);
      std::vector<uint32_t> seen;
      for (uint32_t token = lo; token < hi; ++token) seen.push_back(token);
      ExpectNear(states, r,
                 reference::Attend(k.view(), v.view(), seen, q.data() + r * q.stride(),
                                   SpecFor(k.view().num_elements, soft_cap)));
    }
  }

  States Run(const TestRows& k, const TestRows& v, size_t num_tokens, const TestQueries& q,
             size_t num_rows, const Mask* mask, float soft_cap = 0.0f) {
    const size_t k_elements = k.view().num_elements, v_elements = v.view().num_elements;
    const size_t scratch_bytes = AttendBlockScratchBytes(k_elements, v_elements);
    AlignedFloats scratch(scratch_bytes / sizeof(float));
    States states(num_rows, v_elements);
    AttendBlock(k.view(), v.view(), 0, num_tokens, q.data(), q.stride(), num_rows,
                mask ? mask->lo.data() : nullptr, mask ? mask->hi.data() : nullptr,
                SpecFor(k_elements, soft_cap), states.rows, scratch.data());
    states.Finish();
    return states;
  }
};

TEST_P(AttendBlockTest, EqualsFloat64WithoutAMask) {
  for (const DType dtype : kAllDTypes) {
    for (const size_t num_tokens : Sizes{0, 1, 15, 16, 63, 64, 65, 130}) {
      for (const size_t num_rows : Sizes{1, 5, 6, 7, 23}) {
        Check(dtype, num_tokens, 64, 64, num_rows, nullptr);
      }
    }
  }
}

TEST_P(AttendBlockTest, EqualsFloat64ForEveryHeadDim) {
  for (const size_t head_dim : Sizes{16, 32, 64, 80, 96, 128, 256}) {
    for (const size_t v_head_dim : Sizes{head_dim, 16, 112}) {
      Check(DType::kBFloat16, 70, head_dim, v_head_dim, 9, nullptr);
    }
  }
}

TEST_P(AttendBlockTest, EqualsFloat64UnderACausalMask) {
  for (const size_t num_tokens : Sizes{40, 100, 200}) {
    const Mask mask = CausalMask(num_tokens, 120, 3, num_tokens);
    Check(DType::kFloat16, num_tokens, 64, 64, 120, &mask);
  }
}

TEST_P(AttendBlockTest, EqualsFloat64UnderASlidingWindow) {
  for (const size_t window : Sizes{1, 17, 64, 100}) {
    const Mask mask = CausalMask(300, 100, 2, window);
    Check(DType::kBFloat16, 300, 32, 32, 100, &mask);
  }
}

TEST_P(AttendBlockTest, EqualsFloat64ForMoreRowsThanABlock) {
  const Mask mask = CausalMask(150, 500, 4, 150);
  Check(DType::kFloat16, 150, 16, 32, 500, &mask);
}

TEST_P(AttendBlockTest, EqualsFloat64UnderARaggedMaskAndASoftCap) {
  Mask mask;
  for (size_t r = 0; r < 61; ++r) {
    mask.lo.push_back(static_cast<uint32_t>(random_() % 200));
    mask.hi.push_back(static_cast<uint32_t>(random_() % 200));  // Often below lo: sees nothing.
  }
  Check(DType::kFloat32, 200, 48, 48, 61, &mask, 20.0f);
}

TEST_P(AttendBlockTest, AMaskHidesNaN) {
  const size_t num_tokens = 100, hidden = 80;
  TestRows k(DType::kFloat16, num_tokens, 64, false, &random_);
  TestRows v(DType::kFloat16, num_tokens, 64, false, &random_);
  const TestQueries q(13, 64, &random_);
  const Mask mask = {std::vector<uint32_t>(13, 2), std::vector<uint32_t>(13, hidden)};
  const States clean = Run(k, v, num_tokens, q, 13, &mask);
  for (const size_t token : Sizes{0, 1, hidden, num_tokens - 1}) {
    k.Set(token, 1, kNaN);
    v.Set(token, 2, token % 2 ? kInf : kNaN);
  }
  const States poisoned = Run(k, v, num_tokens, q, 13, &mask);
  for (size_t r = 0; r < 13; ++r) {
    EXPECT_NEAR(poisoned.lse[r], clean.lse[r], 1e-6);
    for (size_t i = 0; i < 64; ++i) {
      ASSERT_NEAR(poisoned.out[r * 64 + i], clean.out[r * 64 + i], 1e-6);
    }
  }
}

TEST_P(AttendBlockTest, AVisibleNaNGivesNaN) {
  TestRows k(DType::kFloat16, 70, 64, false, &random_);
  TestRows v(DType::kFloat16, 70, 64, false, &random_);
  const TestQueries q(7, 64, &random_);
  v.Set(69, 3, kNaN);
  const States value = Run(k, v, 70, q, 7, nullptr);
  EXPECT_TRUE(std::isnan(value.out[6 * 64 + 3]));
  EXPECT_TRUE(std::isfinite(value.out[6 * 64 + 4]));
  k.Set(69, 3, kNaN);
  const States key = Run(k, v, 70, q, 7, nullptr);
  EXPECT_TRUE(std::isnan(key.out[4]));
  EXPECT_TRUE(std::isnan(key.lse[6]));
}

TEST_P(AttendBlockTest, IsBitEqualFromRunToRun) {
  const TestRows k(DType::kBFloat16, 200, 64, false, &random_);
  const TestRows v(DType::kBFloat16, 200, 64, false, &random_);
  const TestQueries q(100, 64, &random_);
  const Mask mask = CausalMask(200, 100, 2, 200);
  const States first = Run(k, v, 200, q, 100, &mask);
  const States second = Run(k, v, 200, q, 100, &mask);
  EXPECT_EQ(std::memcmp(first.out.data(), second.out.data(), 100 * 64 * sizeof(float)), 0);
}

TEST_P(AttendBlockTest, AgreesWithDecode) {
  const TestRows k(DType::kBFloat16, 300, 128, false, &random_);
  const TestRows v(DType::kBFloat16, 300, 128, false, &random_);
  const TestQueries q(8, 128, &random_, 2.0f);
  const States block = Run(k, v, 300, q, 8, nullptr);
  States rows(8, 128);
  AttendRows(k.view(), v.view(), 0, 300, q.data(), q.stride(), 8, SpecFor(128), rows.rows);
  rows.Finish();
  for (size_t i = 0; i < 8 * 128; ++i) ASSERT_NEAR(block.out[i], rows.out[i], 3e-6);
}

ATTNDB_INSTANTIATE_ISAS(AttendBlockTest);

}  // namespace
}  // namespace attndb::kernels
