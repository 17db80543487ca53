// Goal:   a q row's result is the same, bit by bit, for any other rows beside it, any split of its
//         tokens into tiles, and either of AttendRows and AttendBlock.
// Method: each row alone against all, over a grid of ISA, dtype, dims, places and masks.
// Replay: seeds are constants.
#include <algorithm>
#include <cstring>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/attend.h"
#include "kernels/attend_block.h"
#include "kernels/test_rows.h"
#include "kernels/test_states.h"

namespace attndb::kernels {
namespace {

constexpr size_t kTokens = 200;

struct Range {
  size_t begin = 0;
  size_t end = kTokens;
};

class AttendBitsTest : public IsaTest {
 protected:
  struct Rows {
    Rows(DType dtype, size_t k_dim, size_t v_dim, size_t num_q_rows, std::mt19937* random)
        : k(dtype, kTokens, k_dim, false, random),
          v(dtype, kTokens, v_dim, false, random),
          q(num_q_rows, k_dim, random, 2.0f),
          num_rows(num_q_rows) {}
    TestRows k;
    TestRows v;
    TestQueries q;
    size_t num_rows;
    size_t v_elements() const { return v.view().num_elements; }
    LogitSpec logit() const { return SpecFor(k.view().num_elements, soft_cap); }
    float soft_cap = 0.0f;
  };

  // Token 0 of the context is `before` tokens before the first row of K.
  static void Fold(const Rows& rows, Range seen, size_t before, size_t first, size_t count,
                   const StateRows& states) {
    AttendRows(RowsFrom(rows.k.view(), seen.begin), RowsFrom(rows.v.view(), seen.begin),
               (before + seen.begin) % kKeysPerTile, seen.end - seen.begin,
               rows.q.data() + first * rows.q.stride(), rows.q.stride(), count, rows.logit(),
               StatesFrom(states, first));
  }

  // Each row by itself, in one call.
  static States Alone(const Rows& rows, const std::vector<Range>& seen, size_t before) {
    States states(rows.num_rows, rows.v_elements());
    for (size_t r = 0; r < rows.num_rows; ++r) Fold(rows, seen[r], before, r, 1, states.rows);
    states.Finish();
    return states;
  }

  static States Blocked(const Rows& rows, const std::vector<Range>& seen, size_t before) {
    States states(rows.num_rows, rows.v_elements());
    std::vector<uint32_t> lo, hi;
    for (const Range& range : seen) {
      lo.push_back(static_cast<uint32_t>(range.begin));
      hi.push_back(static_cast<uint32_t>(range.end));
    }
    AlignedFloats scratch(AttendBlockScratchBytes(rows.k.view().num_elements, rows.v_elements()) /
                          sizeof(float));
    AttendBlock(rows.k.view(), rows.v.view(), before % kKeysPerTile, kTokens, rows.q.data(),
                rows.q.stride(), rows.num_rows, lo.data(), hi.data(), rows.logit(), states.rows,
                scratch.data());
    states.Finish();
    return states;
  }

  static void ExpectSameBits(const States& a, const States& b) {
    ASSERT_EQ(std::memcmp(a.out.data(), b.out.data(), a.num_rows * a.v_elements * sizeof(float)),
              0);
    ASSERT_EQ(std::memcmp(a.lse.data(), b.lse.data(), a.num_rows * sizeof(float)), 0);
  }
};

TEST_P(AttendBitsTest, OfAnyNumberOfRowsBesideOneAnother) {
  for (const DType dtype : kAllDTypes) {
    for (const size_t num_rows : Sizes{1, 2, 3, 4, 5, 7, 8, 9, 16, 17}) {
      const Rows rows(dtype, 64, 64, num_rows, &random_);
      SCOPED_TRACE(testing::Message() << DTypeName(dtype) << ", " << num_rows << " rows");
      const States alone = Alone(rows, std::vector<Range>(num_rows), 0);
      States together(num_rows, 64);
      Fold(rows, {}, 0, 0, num_rows, together.rows);
      together.Finish();
      ExpectSameBits(together, alone);
      ExpectSameBits(Blocked(rows, std::vector<Range>(num_rows), 0), alone);
    }
  }
}

TEST_P(AttendBitsTest, OfBothKernelsForEveryHeadDim) {
  for (const DType dtype : kAllDTypes) {
    for (const size_t dim : Sizes{16, 32, 48, 64, 80, 96, 112, 128, 256, 576, 1008, 1024}) {
      for (const size_t v_dim : Sizes{dim, 16, 112}) {
        SCOPED_TRACE(testing::Message() << DTypeName(dtype) << ", dims " << dim << ", " << v_dim);
        const Rows rows(dtype, dim, v_dim, 13, &random_);
        const std::vector<Range> all(13);
        ExpectSameBits(Blocked(rows, all, 0), Alone(rows, all, 0));
      }
    }
  }
}

TEST_P(AttendBitsTest, OfBothKernelsWhereverTheFirstTokenStandsInItsTile) {
  for (const DType dtype : kAllDTypes) {
    Rows rows(dtype, 64, 48, 9, &random_);
    rows.soft_cap = 20.0f;
    for (const size_t before : Sizes{1, 7, 8, 33, 56, 63}) {
      SCOPED_TRACE(testing::Message() << DTypeName(dtype) << ", " << before << " before");
      const std::vector<Range> all(9);
      ExpectSameBits(Blocked(rows, all, before), Alone(rows, all, before));
    }
  }
}

TEST_P(AttendBitsTest, UnderMasks) {
  for (const DType dtype : kAllDTypes) {
    for (const size_t before : Sizes{0, 20}) {
      const Rows rows(dtype, 80, 80, 300, &random_);
      std::vector<Range> causal, windows, ragged;
      for (size_t r = 0; r < 300; ++r) {
        const size_t end = 1 + r * (kTokens - 1) / 299;
        causal.push_back({0, end});
        windows.push_back({end > 70 ? end - 70 : 0, end});
        const size_t a = random_() % (kTokens + 1), b = random_() % (kTokens + 1);
        ragged.push_back({std::min(a, b), std::max(a, b)});
      }
      for (const std::vector<Range>* seen : {&causal, &windows, &ragged}) {
        SCOPED_TRACE(testing::Message() << DTypeName(dtype) << ", " << before << " before");
        ExpectSameBits(Blocked(rows, *seen, before), Alone(rows, *seen, before));
      }
    }
  }
}

TEST_P(AttendBitsTest, OfRunsThatAreCutAtTiles) {
  for (const DType dtype : kAllDTypes) {
    for (const size_t before : Sizes{0, 20}) {
      const Rows rows(dtype, 128, 128, 3, &random_);
      const States whole = Alone(rows, std::vector<Range>(3), before);
      States cut(3, 128);
      const size_t first = kKeysPerTile - before, second = first + 2 * kKeysPerTile;
      for (const Range& run : {Range{0, first}, Range{first, second}, Range{second, kTokens}}) {
        Fold(rows, run, before, 0, 3, cut.rows);
      }
      cut.Finish();
      ExpectSameBits(cut, whole);
    }
  }
}

// A hidden token must leave no trace: not the sign of a zero either.
TEST_P(AttendBitsTest, WhereValuesAreZero) {
  Rows rows(DType::kFloat32, 16, 16, 12, &random_);
  for (size_t token = 0; token < kTokens; ++token) {
    for (size_t i = 0; i < 8; ++i) rows.v.Set(token, i, token % 3 == 0 ? -0.0f : 0.0f);
  }
  std::vector<Range> seen;
  for (size_t r = 0; r < 12; ++r) seen.push_back({r, kTokens - 5 * r});
  ExpectSameBits(Blocked(rows, seen, 0), Alone(rows, seen, 0));
}

ATTNDB_INSTANTIATE_ISAS(AttendBitsTest);

}  // namespace
}  // namespace attndb::kernels
