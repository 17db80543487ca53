// Goal:   the profile counts the tokens that it says.
// Method: keys whose logits are known, in pieces.
#include "bench/heads/mass_profile.h"

#include <gtest/gtest.h>

#include <cmath>

#include "bench/heads/heads_test_util.h"

namespace attndb::bench {
namespace {

TEST(MassProfileTest, TokensAreCountedUntilTheShareIsHeld) {
  // Logits: the sink's first token ln 100, middle 20 tokens of ln 10 and 80 of ln 4, all else -30.
  constexpr int64_t kTokens = 16 + 100 + 128;
  NpyArray keys = Array({kTokens, 1, 2}, 1);
  auto* const k = reinterpret_cast<float*>(keys.words.data());
  for (int64_t i = 0; i < kTokens; ++i) {
    k[2 * i] = i == 0 ? std::log(100.0F) : -30.0F;
    if (i >= 16 && i < 36) k[2 * i] = std::log(10.0F);
    if (i >= 36 && i < 116) k[2 * i] = std::log(4.0F);
    k[2 * i + 1] = 7.0F;
  }
  NpyArray queries = Array({1, 1, 2}, 1);
  auto* const q = reinterpret_cast<float*>(queries.words.data());
  q[0] = std::sqrt(2.0F);  // 1 / scale.
  q[1] = 0.0F;
  auto heads = HeadsFromArrays(keys, Array({kTokens, 1, 2}, 2), queries, DType::kFloat32);
  ASSERT_TRUE(heads.ok()) << heads.status();
  auto profiler = MassProfiler::Create(heads->get());
  ASSERT_TRUE(profiler.ok()) << profiler.status();
  profiler->AddKeys(0, std::span(k, 2 * 50));
  profiler->AddKeys(0, std::span(k + 2 * 50, 2 * (kTokens - 50)));
  const MassProfile profile = profiler->Finish();
  EXPECT_EQ(profile.num_heads, 1U);
  // The sum over all tokens is 620; the middle has 20 * 10 + 80 * 4.
  EXPECT_NEAR(profile.middle_mass.mean, 520.0 / 620, 1e-5);
  EXPECT_EQ(profile.tokens_90.mean, 20 + 65);    // 558 - 100 - 200 = 258 = 64.5 * 4.
  EXPECT_EQ(profile.tokens_99.median, 20 + 79);  // 313.8 = 78.45 * 4.
}

}  // namespace
}  // namespace attndb::bench
