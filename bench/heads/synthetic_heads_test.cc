// Goal:   synthetic heads are reproducible, and their softmax is spread as the table says.
// Method: rows read in pieces; the mass of the middle over all heads of a few thousand tokens.
#include "bench/heads/synthetic_heads.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "bench/heads/mass_profile.h"

namespace attndb::bench {
namespace {

using ::testing::HasSubstr;

TEST(SyntheticHeadsTest, GeometriesHaveNamesAndNumbers) {
  EXPECT_EQ(ParseGeometry("llama3-8b")->num_q_heads, 32U);
  EXPECT_EQ(ParseGeometry("smollm2")->head_dim, 64U);
  const LayerSpec layer = *ParseGeometry("2x3x96");
  EXPECT_EQ(layer.num_kv_heads, 2U);
  EXPECT_EQ(layer.num_q_heads, 6U);
  EXPECT_EQ(layer.v_head_dim, 96U);
  for (const char* text : {"", "8", "8x4", "8x4x", "0x4x64", "8x0x64", "8x4x1", "8x4x64x2",
                           "9999x1x64", "4096x4096x64", "8x-4x64", "llama"}) {
    EXPECT_THAT(ParseGeometry(text).status().message(), HasSubstr("as in 8x4x128")) << text;
  }
}

TEST(SyntheticHeadsTest, RowsDoNotDependOnWhoAskedBefore) {
  const auto heads = SyntheticHeads(*ParseGeometry("2x2x16"), 50, DType::kFloat32);
  ASSERT_TRUE(heads.ok()) << heads.status();
  std::vector<float> k(50 * 32), v(50 * 32), k_one(32), v_one(32);
  ASSERT_TRUE((*heads)->ReadKv(0, {0, 50}, k.data(), v.data()).ok());
  ASSERT_TRUE((*heads)->ReadKv(0, {30, 31}, k_one.data(), v_one.data()).ok());
  EXPECT_EQ(k_one, std::vector<float>(k.begin() + 30 * 32, k.begin() + 31 * 32));
  EXPECT_EQ(v_one, std::vector<float>(v.begin() + 30 * 32, v.begin() + 31 * 32));
}

TEST(SyntheticHeadsTest, TheSoftmaxIsSpreadAsInTheHeadsThatItImitates) {
  constexpr uint64_t kTokens = 4096;
  const auto heads = SyntheticHeads(*ParseGeometry("8x4x64"), kTokens, DType::kFloat32);
  ASSERT_TRUE(heads.ok()) << heads.status();
  auto profiler = MassProfiler::Create(heads->get());
  ASSERT_TRUE(profiler.ok()) << profiler.status();
  std::vector<float> k(kTokens * 8 * 64), v(k.size());
  ASSERT_TRUE((*heads)->ReadKv(0, {0, kTokens}, k.data(), v.data()).ok());
  profiler->AddKeys(0, k);
  const MassProfile profile = profiler->Finish();
  EXPECT_EQ(profile.num_heads, 32U);
  // A few largest logits decide the sum of so few tokens: one draw is far from the mean.
  EXPECT_NEAR(profile.middle_mass.mean, 0.30, 0.12);
  EXPECT_NEAR(profile.middle_mass.median, 0.22, 0.12);
}

}  // namespace
}  // namespace attndb::bench
