// Goal:   arrays and captures give the rows that they have, and what does not fit is refused.
#include "bench/heads/head_source.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "bench/heads/heads_test_util.h"

namespace attndb::bench {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(HeadSourceTest, ArraysGiveTheirRows) {
  const NpyArray keys = Array({30, 2, 4}, 1);
  const auto* const values = static_cast<const float*>(keys.data());
  const auto heads =
      HeadsFromArrays(keys, Array({30, 2, 3}, 2), Array({5, 4, 4}, 3), DType::kFloat32);
  ASSERT_TRUE(heads.ok()) << heads.status();
  EXPECT_EQ((*heads)->info().num_queries, 5U);
  EXPECT_EQ((*heads)->info().layer(0).group_size(), 2U);
  std::vector<float> k(16), v(12), q(16);
  ASSERT_TRUE((*heads)->ReadKv(0, {7, 9}, k.data(), v.data()).ok());
  EXPECT_EQ(k, std::vector<float>(values + 7 * 8, values + 9 * 8));
  ASSERT_TRUE((*heads)->ReadQueries(0, {26, 27}, q.data()).ok());
  const NpyArray queries = Array({5, 4, 4}, 3);
  EXPECT_EQ(q[0], static_cast<const float*>(queries.data())[16]);
}

TEST(HeadSourceTest, HalvesAreExactAlsoWhereTheyAreSubnormalOrNotFinite) {
  NpyArray keys;
  keys.header = {DType::kFloat16, {1, 1, 8}};
  const uint16_t halves[8] = {0x3C00, 0xC000, 0x0001, 0x83FF, 0x7BFF, 0x7C00, 0xFC00, 0x7E00};
  keys.words.resize(2);
  std::memcpy(keys.words.data(), halves, sizeof(halves));
  const auto heads =
      HeadsFromArrays(keys, Array({1, 1, 1}, 1), Array({1, 1, 8}, 1), DType::kFloat32);
  ASSERT_TRUE(heads.ok()) << heads.status();
  float k[8], v[1];
  ASSERT_TRUE((*heads)->ReadKv(0, {0, 1}, k, v).ok());
  EXPECT_THAT(std::vector<float>(k, k + 7),
              ElementsAre(1.0F, -2.0F, 0x1p-24F, -0x1.FF8p-15F, 65504.0F, INFINITY, -INFINITY));
  EXPECT_TRUE(std::isnan(k[7]));
}

TEST(HeadSourceTest, ArraysThatDoNotFitAreRefusedWithTheirShapes) {
  const auto refusal = [](NpyArray k, NpyArray v, NpyArray q) {
    return HeadsFromArrays(std::move(k), std::move(v), std::move(q), DType::kFloat16).status();
  };
  const Status unequal = refusal(Array({3, 2, 4}, 1), Array({4, 2, 4}, 2), Array({1, 2, 4}, 3));
  EXPECT_EQ(unequal.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(unequal.message(), HasSubstr("[3, 2, 4], values [4, 2, 4]"));
  EXPECT_THAT(refusal(Array({3, 2, 4}, 1), Array({3, 2, 4}, 2), Array({1, 3, 4}, 3)).message(),
              HasSubstr("multiple of kv heads"));
  EXPECT_THAT(refusal(Array({3, 2, 4}, 1), Array({3, 2, 4}, 2), Array({4, 2, 4}, 3)).message(),
              HasSubstr("as many queries as tokens"));
}

TEST(HeadSourceTest, ACaptureGivesTheLayersThatAreAskedFor) {
  const std::string path = WriteCapture("head_source_test.safetensors", 40, {});
  const auto all = HeadsFromCapture(path, "");
  ASSERT_TRUE(all.ok()) << all.status();
  EXPECT_THAT((*all)->info().layers, ElementsAre(0, 2));
  const auto last = HeadsFromCapture(path, "2");
  ASSERT_TRUE(last.ok()) << last.status();
  std::vector<float> k(8), v(8), q(16);
  ASSERT_TRUE((*last)->ReadKv(0, {3, 4}, k.data(), v.data()).ok());
  EXPECT_EQ(k[0], Normals(40 * 8, 12)[24]);
  ASSERT_TRUE((*last)->ReadQueries(0, {39, 40}, q.data()).ok());
  EXPECT_EQ(q[15], Normals(20 * 16, 32).back());
  EXPECT_THAT(HeadsFromCapture(path, "0-2").status().message(), HasSubstr("layer 1 is not in"));
  EXPECT_EQ(HeadsFromCapture(path + "x", "").status().code(), StatusCode::kNotFound);
  std::filesystem::remove(path);
}

TEST(HeadSourceTest, ACaptureMayBeCutShortToWhereItHasQueries) {
  const std::string path = WriteCapture("head_source_cut_test.safetensors", 40, {});
  const auto heads = HeadsFromCapture(path, "2", 30);
  ASSERT_TRUE(heads.ok()) << heads.status();
  EXPECT_EQ((*heads)->info().num_tokens, 30u);
  EXPECT_EQ((*heads)->info().num_queries, 10u);
  std::vector<float> q(16);
  ASSERT_TRUE((*heads)->ReadQueries(0, {29, 30}, q.data()).ok());
  EXPECT_EQ(q[0], Normals(20 * 16, 32)[9 * 16]);
  EXPECT_THAT(HeadsFromCapture(path, "2", 20).status().message(), HasSubstr("expected 21 to 40"));
  EXPECT_FALSE(HeadsFromCapture(path, "2", 41).ok());
  std::filesystem::remove(path);
}

}  // namespace
}  // namespace attndb::bench
