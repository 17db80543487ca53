// Goal:   sums are capped token by token; who is kept and drawn is whom noise margins over a
//         threshold, and each of these is in the right list.
// Method: against float64, for any length and cap; what lies within rounding may go either way.
// Replay: seeds are constants.
#include "kernels/draw.h"

#include <cmath>
#include <map>
#include <memory>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/reference/reference.h"
#include "kernels/select.h"
#include "kernels/test_kept.h"
#include "kernels/test_rows.h"

namespace attndb::kernels {
namespace {

constexpr LogitSpec kLogits[] = {{.scale = 0.125f}, {.scale = 0.3f, .soft_cap = 5.0f}};

class DrawTest : public IsaTest {};

TEST_P(DrawTest, SumsAreCapped) {
  for (const size_t n : Sizes{0, 1, 31, 64, 1000}) {
    std::vector<float> weights = Normal(n, 1.0f);
    for (float& weight : weights) weight = std::exp(weight);
    for (const float limit : {0.0f, 0.7f, 1e9f}) {
      double expected = 0;
      for (const float weight : weights) expected += std::min(double{weight}, double{limit});
      ASSERT_NEAR(SumAtMost(weights.data(), n, limit), expected, 1e-6 * expected) << n;
    }
  }
}

// Thresholds that some scores of deviation 10 lie above.
const std::vector<float> kThresholds = {1.5f, -2.0f, 0.25f, 4.0f, -1.0f, -3.0f, 2.0f, 0.0f};
constexpr size_t kStride = 1001;

// By how much the highest row of token i is over its threshold.
double MarginOf(const std::vector<float>& scores, size_t num_rows, const LogitSpec& logit,
                size_t i) {
  double most = -kInf;
  for (size_t r = 0; r < num_rows; ++r) {
    const double value = reference::LogitOf(scores[r * kStride + i], logit);
    most = std::max(most, value - double{kThresholds[r]});
  }
  return most;
}

TEST_P(DrawTest, MarginsAreOverTheThresholdOfTheHighestRow) {
  for (const LogitSpec& logit : kLogits) {
    const std::vector<float> scores = Normal(8 * kStride, 10.0f);
    for (const size_t n : Sizes{0, 1, 31, 64, 1000}) {
      for (const size_t num_rows : Sizes{1, 2, 3, 5, 8}) {
        std::vector<float> margins(n);
        FindMargins({logit, kThresholds.data()}, scores.data(), kStride, num_rows, n,
                    margins.data());
        for (size_t i = 0; i < n; ++i) {
          ASSERT_NEAR(margins[i], MarginOf(scores, num_rows, logit, i), 1e-5) << n << " " << i;
        }
      }
    }
  }
}

TEST_P(DrawTest, KeepsWhomTheNoiseRaisesAndWritesNothingBeyond) {
  constexpr uint32_t kFirst = 5000;
  const std::vector<float> noise = Normal(kStride, 1.0f);
  for (const LogitSpec& logit : kLogits) {
    const std::vector<float> scores = Normal(8 * kStride, 10.0f);
    for (const size_t n : Sizes{0, 1, 15, 16, 31, 64, 1000}) {
      for (const size_t num_rows : Sizes{1, 2, 3, 4, 5, 8}) {
        TestKept room(num_rows, n);
        const DrawRule rule = {logit, kThresholds.data()};
        // In two calls, as scans make several.
        const size_t half = n / 2;
        KeepTokens(rule, scores.data(), kStride, num_rows, half, noise.data(), kFirst, &room.kept);
        KeepTokens(rule, scores.data() + half, kStride, num_rows, n - half, noise.data() + half,
                   kFirst + static_cast<uint32_t>(half), &room.kept);
        size_t at = 0;
        for (size_t i = 0; i < n; ++i) {
          const double raised = MarginOf(scores, num_rows, logit, i) + double{noise[i]};
          const bool is_kept = at < room.kept.count && room.kept.tokens[at] == kFirst + i;
          const bool is_clear = std::abs(raised) > 1e-5;
          ASSERT_TRUE(!is_clear || is_kept == (raised > 0)) << n << " " << i;
          if (!is_kept) continue;
          ASSERT_EQ(room.kept.noise[at], noise[i]);
          for (size_t r = 0; r < num_rows; ++r) {
            ASSERT_EQ(room.kept.scores[r * room.kept.stride + at], scores[r * kStride + i]);
          }
          ++at;
        }
        ASSERT_EQ(at, room.kept.count);
        ASSERT_TRUE(room.IsInside()) << n << " of " << num_rows;
      }
    }
  }
}

// Room for drawn tokens.
struct DrawnRoom {
  DrawnRoom(size_t num_rows, size_t num_tokens)
      : tokens(num_tokens + kDrawSlack), margins(tokens.size()), logits(num_rows * tokens.size()) {}

  DrawnTokens View() {
    return {tokens.data(), logits.data(), false, margins.data(), tokens.size()};
  }

  std::vector<uint32_t> tokens;
  std::vector<float> margins;
  std::vector<float> logits;
};

class PartDrawnTest : public DrawTest {
 protected:
  // Draws tokens [begin, begin + n) by `rule`; token i of kept ones is token 3 i.
  // They were kept by chance where `chances` are given.
  void Part(const LogitSpec& logit, size_t num_rows, size_t begin, size_t n, bool are_scores,
            const float* chances = nullptr) {
    std::vector<uint32_t> tokens(kStride);
    for (uint32_t i = 0; i < kStride; ++i) tokens[i] = 3 * i;
    const KeptTokens kept = {tokens.data(), noise_.data(), scores_.data(),
                             kStride,       kStride,       chances};
    for (DrawnTokens* const list : {&lists_.certain, &lists_.heavy, &lists_.even, &lists_.odd}) {
      rooms_.push_back(std::make_unique<DrawnRoom>(num_rows, n));
      *list = rooms_.back()->View();
      list->are_scores = are_scores;
    }
    const DrawRule rule = {logit, kThresholds.data()};
    PartDrawn(rule, kept, begin, begin + n / 3, num_rows, kHeavyMargin, &lists_);
    PartDrawn(rule, kept, begin + n / 3, begin + n, num_rows, kHeavyMargin, &lists_);
  }

  // The list that token i belongs to; null if it is not drawn. `margins` by FindMargins.
  const DrawnTokens* ListOf(float margin, size_t i, size_t* num_light) const {
    if (!(margin + noise_[i] >= 0.0f)) return nullptr;
    if (margin >= 0.0f) return margin > kHeavyMargin ? &lists_.heavy : &lists_.certain;
    return (*num_light)++ % 2 == 0 ? &lists_.even : &lists_.odd;
  }

  static constexpr float kHeavyMargin = 2.0f;
  std::vector<float> noise_ = Normal(kStride, 3.0f);
  std::vector<float> scores_ = Normal(8 * kStride, 10.0f);
  DrawnLists lists_;
  std::vector<std::unique_ptr<DrawnRoom>> rooms_;
};

TEST_P(PartDrawnTest, PartsTheDrawnByTheirMargins) {
  for (const LogitSpec& logit : kLogits) {
    for (const size_t num_rows : Sizes{1, 2, 3, 4, 5, 8}) {
      for (const bool are_scores : {false, true}) {
        constexpr size_t kBegin = 2;
        for (const size_t n : Sizes{0, 1, 17, 64, 990}) {
          Part(logit, num_rows, kBegin, n, are_scores);
          std::vector<float> margins(kStride);
          FindMargins({logit, kThresholds.data()}, scores_.data(), kStride, num_rows, kStride,
                      margins.data());
          size_t num_light = 0;
          std::map<const DrawnTokens*, size_t> seen;
          for (size_t i = kBegin; i < kBegin + n; ++i) {
            const DrawnTokens* const list = ListOf(margins[i], i, &num_light);
            if (list == nullptr) continue;
            const size_t at = seen[list]++;
            ASSERT_LT(at, list->count) << i;
            ASSERT_EQ(list->tokens[at], 3 * i);
            const bool light = list == &lists_.even || list == &lists_.odd;
            ASSERT_EQ(light ? list->margins[at] : margins[i], margins[i]);
            for (size_t r = 0; r < num_rows; ++r) {
              const float score = scores_[r * kStride + i];
              const double expected =
                  are_scores ? double{score}
                             : reference::LogitOf(score, logit) - (light ? double{margins[i]} : 0);
              ASSERT_NEAR(list->logits[r * list->stride + at], expected, 1e-5) << i;
            }
          }
          for (const auto& [list, count] : seen) ASSERT_EQ(list->count, count);
        }
      }
    }
  }
}

// A token that was kept by chance is drawn by chance, however heavy it is; a light one by both
// chances.
TEST_P(PartDrawnTest, WhatWasKeptByChanceIsNotCertain) {
  constexpr size_t kCount = 990;
  std::vector<float> chances(kStride);
  for (size_t i = 0; i < kStride; ++i) chances[i] = i % 3 == 0 ? -0.5f : 0.0f;
  Part(kLogits[0], 3, 0, kCount, false, chances.data());
  std::vector<float> margins(kStride);
  FindMargins({kLogits[0], kThresholds.data()}, scores_.data(), kStride, 3, kStride,
              margins.data());
  size_t num_light = 0;
  std::map<const DrawnTokens*, size_t> seen;
  for (size_t i = 0; i < kCount; ++i) {
    if (!(margins[i] + noise_[i] >= 0.0f)) continue;
    const float less = std::min(margins[i], 0.0f);
    const bool is_light = less + chances[i] < 0.0f;
    const DrawnTokens* const list = is_light ? (num_light++ % 2 == 0 ? &lists_.even : &lists_.odd)
                                    : margins[i] > kHeavyMargin ? &lists_.heavy
                                                                : &lists_.certain;
    const size_t at = seen[list]++;
    ASSERT_LT(at, list->count) << i;
    ASSERT_EQ(list->tokens[at], 3 * i);
    ASSERT_EQ(is_light ? list->margins[at] : 0.0f, is_light ? less + chances[i] : 0.0f) << i;
    for (size_t r = 0; r < 3; ++r) {
      const double logit = reference::LogitOf(scores_[r * kStride + i], kLogits[0]);
      ASSERT_NEAR(list->logits[r * list->stride + at], logit - double{less}, 1e-5) << i;
    }
  }
  for (const auto& [list, count] : seen) ASSERT_EQ(list->count, count);
}

TEST_P(DrawTest, NaNIsDrawnAndMinusInfinityIsNot) {
  const std::vector<float> thresholds = {-30.0f, 2.0f};
  for (const LogitSpec& logit : kLogits) {
    std::vector<float> scores(2 * 70, -kInf);
    scores[3] = kNaN;
    scores[70 + 68] = kNaN;
    const DrawRule rule = {logit, thresholds.data()};
    std::vector<float> margins(70);
    FindMargins(rule, scores.data(), 70, 2, 70, margins.data());
    EXPECT_EQ(margins[3], kInf);
    EXPECT_EQ(margins[4], -kInf);
    const std::vector<float> noise(70, 9.0f);
    TestKept room(2, 70);
    KeepTokens(rule, scores.data(), 70, 2, 70, noise.data(), 0, &room.kept);
    ASSERT_EQ(room.kept.count, 2u);
    EXPECT_EQ(room.kept.tokens[0], 3u);
    EXPECT_EQ(room.kept.tokens[1], 68u);
  }
}

TEST_P(DrawTest, WithoutAThresholdEveryTokenIsDrawn) {
  const std::vector<float> scores(20, -5.0f);
  const float threshold = -kInf;
  std::vector<float> margins(20);
  FindMargins({kLogits[0], &threshold}, scores.data(), 20, 1, 20, margins.data());
  for (const float margin : margins) EXPECT_EQ(margin, kInf);
}

TEST_P(DrawTest, WordsDrawWhoseMarginIsNotBelowTheNoise) {
  std::mt19937 random(5);
  const auto words = [&](size_t count, uint32_t most) {
    std::vector<uint16_t> list(count);
    for (uint16_t& word : list) word = static_cast<uint16_t>(random() % (most + 1));
    return list;
  };
  for (const size_t n : Sizes{0, 1, 7, 31, 32, 33, 64, 1000}) {
    for (const size_t num_rows : Sizes{1, 2, 3, 4, 7}) {
      const size_t stride = n + 3;
      const std::vector<uint16_t> weights = words(num_rows * stride, 0xffff);
      const std::vector<uint16_t> bases = words(num_rows, 0xffff);
      const std::vector<uint16_t> noise = words(n, 0xffff);
      std::vector<uint32_t> tokens(n);
      std::vector<uint16_t> margins(n);
      const WordDraw draw = {weights.data(), stride, bases.data(), num_rows, noise.data()};
      const size_t count = DrawByWords(draw, n, 100, tokens.data(), margins.data());
      size_t found = 0;
      for (size_t i = 0; i < n; ++i) {
        int margin = 0;
        for (size_t r = 0; r < num_rows; ++r) {
          margin = std::max(margin, int{weights[r * stride + i]} - int{bases[r]});
        }
        if (margin < int{noise[i]}) continue;
        ASSERT_LT(found, count);
        ASSERT_EQ(tokens[found], 100 + i);
        ASSERT_EQ(int{margins[found]}, margin);
        ++found;
      }
      ASSERT_EQ(found, count) << n << " tokens, " << num_rows << " rows";
    }
  }
}

ATTNDB_INSTANTIATE_ISAS(PartDrawnTest);
ATTNDB_INSTANTIATE_ISAS(DrawTest);

}  // namespace
}  // namespace attndb::kernels
