// Goal:   a stretched capture keeps what it says: both ends and the captured tokens as they were,
//         and every other key is a captured one turned to a captured position.
// Method: pairs of channels keep their length under RoPE, and turn by the angle of RoPE's formula,
//         computed here anew in float64; each added token's origin is found by those lengths.
#include "bench/heads/stretched_heads.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "bench/heads/heads_test_util.h"

namespace attndb::bench {
namespace {

using ::testing::HasSubstr;

constexpr uint64_t kCaptured = 1100;
constexpr uint64_t kLonger = 3000;

std::vector<float> Row(const std::vector<float>& rows, uint64_t i) {
  return {rows.begin() + static_cast<std::ptrdiff_t>(8 * i),
          rows.begin() + static_cast<std::ptrdiff_t>(8 * (i + 1))};
}

// Channels of pair p.
std::pair<size_t, size_t> Pair(RopeLayout layout, size_t p) {
  return layout == RopeLayout::kHalf ? std::pair(p, p + 4) : std::pair(2 * p, 2 * p + 1);
}

std::vector<float> Turned(const std::vector<float>& key, RopeLayout layout, double distance) {
  std::vector<float> turned(8);
  for (size_t p = 0; p < 4; ++p) {
    const auto [a, b] = Pair(layout, p);
    const double angle = distance / std::pow(100.0, static_cast<double>(p) / 4);
    turned[a] = static_cast<float>(std::cos(angle) * key[a] - std::sin(angle) * key[b]);
    turned[b] = static_cast<float>(std::sin(angle) * key[a] + std::cos(angle) * key[b]);
  }
  return turned;
}

class StretchedHeadsTest : public testing::TestWithParam<RopeLayout> {};

TEST_P(StretchedHeadsTest, TokensAreCapturedOnesAtCapturedPositions) {
  const Rope rope = {.layout = GetParam(), .rope_dims = 0, .base = 100.0, .scaling = ""};
  const std::string path = WriteCapture("stretched_heads_test.safetensors", kCaptured, rope);
  auto captured = HeadsFromCapture(path, "2");
  ASSERT_TRUE(captured.ok()) << captured.status();
  auto heads = StretchedHeads(*std::move(captured), kLonger);
  ASSERT_TRUE(heads.ok()) << heads.status();
  EXPECT_EQ((*heads)->info().origin, HeadOrigin::kStretched);
  std::vector<float> k(8 * kLonger), v(8 * kLonger), q(16);
  ASSERT_TRUE((*heads)->ReadKv(0, {0, 1000}, k.data(), v.data()).ok());
  ASSERT_TRUE((*heads)->ReadKv(0, {1000, kLonger}, k.data() + 8000, v.data() + 8000).ok());
  ASSERT_TRUE((*heads)->ReadQueries(0, {kLonger - 1, kLonger}, q.data()).ok());
  EXPECT_EQ(q.back(), Normals(20 * 16, 32).back());

  const std::vector<float> old_k = Normals(8 * kCaptured, 12), old_v = Normals(8 * kCaptured, 22);
  uint64_t position = 0;  // Captured position of the newest token that is kept.
  uint64_t num_kept = 0;
  for (uint64_t token = 0; token < kLonger; ++token) {
    const std::vector<float> value = Row(v, token);
    const uint64_t next = token == 0 ? 0 : position + 1;
    if (next < kCaptured && value == Row(old_v, next) && Row(k, token) == Row(old_k, next)) {
      position = next;
      ++num_kept;
      continue;
    }
    uint64_t content = 0;
    while (content < kCaptured && Row(old_v, content) != value) ++content;
    ASSERT_LT(content, kCaptured) << token;
    const double distance = static_cast<double>(position) - static_cast<double>(content);
    const std::vector<float> wanted = Turned(Row(old_k, content), GetParam(), distance);
    EXPECT_THAT(Row(k, token), testing::Pointwise(testing::FloatNear(1e-4F), wanted)) << token;
  }
  EXPECT_EQ(num_kept, kCaptured);  // All of them, in their order.
  std::filesystem::remove(path);
}

TEST_P(StretchedHeadsTest, EveryTokenHasQIfEveryCapturedOneHas) {
  const Rope rope = {.layout = GetParam(), .rope_dims = 0, .base = 100.0, .scaling = ""};
  const std::string path =
      WriteCapture("stretched_queries_test.safetensors", kCaptured, rope, kCaptured);
  auto captured = HeadsFromCapture(path, "2");
  ASSERT_TRUE(captured.ok()) << captured.status();
  auto heads = StretchedHeads(*std::move(captured), kLonger);
  ASSERT_TRUE(heads.ok()) << heads.status();
  ASSERT_EQ((*heads)->info().num_queries, kLonger);
  std::vector<float> k(8 * kLonger), v(8 * kLonger), q(16 * kLonger);
  ASSERT_TRUE((*heads)->ReadKv(0, {0, kLonger}, k.data(), v.data()).ok());
  ASSERT_TRUE((*heads)->ReadQueries(0, {0, kLonger}, q.data()).ok());

  const std::vector<float> old_k = Normals(8 * kCaptured, 12), old_v = Normals(8 * kCaptured, 22);
  const std::vector<float> old_q = Normals(16 * kCaptured, 32);
  uint64_t position = 0;
  for (uint64_t token = 0; token < kLonger; ++token) {
    uint64_t content = 0;
    while (Row(old_v, content) != Row(v, token)) ++content;  // As the test above has seen.
    if (content == position + 1 && Row(k, token) == Row(old_k, content)) ++position;
    const double distance = static_cast<double>(position) - static_cast<double>(content);
    for (const uint64_t head : {0U, 1U}) {
      const auto wanted = Turned(Row(old_q, 2 * content + head), GetParam(), distance);
      ASSERT_THAT(Row(q, 2 * token + head), testing::Pointwise(testing::FloatNear(1e-4F), wanted))
          << token;
    }
  }
  std::filesystem::remove(path);
}

INSTANTIATE_TEST_SUITE_P(Layouts, StretchedHeadsTest,
                         testing::Values(RopeLayout::kHalf, RopeLayout::kInterleaved));

TEST(StretchedHeadsRefusalTest, WhatCannotBeStretchedIsSaid) {
  const auto refusal = [](int64_t num_tokens, uint64_t wanted, const std::string& scaling) {
    const Rope rope = {RopeLayout::kHalf, 0, 100.0, scaling};
    const std::string path = WriteCapture("stretch_refusal_test.safetensors", num_tokens, rope);
    auto captured = HeadsFromCapture(path, "");
    EXPECT_TRUE(captured.ok()) << captured.status();
    const Status status = StretchedHeads(*std::move(captured), wanted).status();
    std::filesystem::remove(path);
    return status;
  };
  EXPECT_THAT(refusal(500, 9000, "").message(), HasSubstr("500 captured tokens"));
  EXPECT_THAT(refusal(1100, 1100, "").message(), HasSubstr("expected more than they are"));
  EXPECT_EQ(refusal(1100, 2000, "linear:factor=4").code(), StatusCode::kUnsupported);
}

}  // namespace
}  // namespace attndb::bench
