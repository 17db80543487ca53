// Goal:   the tokens whose q is searched for are in no context, whether they are the last ones or
//         follow a prefix; every other row is there, in its order.
#include "bench/index/index_head.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>

#include "bench/heads/heads_test_util.h"

namespace attndb::bench {
namespace {

using ::testing::HasSubstr;

constexpr uint64_t kTokens = 600;
constexpr uint64_t kAsked = kTokens / 2;
const HeadPlace kPlace = {0, 0, "L0H0"};

std::unique_ptr<HeadSource> Source(int64_t num_queries) {
  auto source = HeadsFromArrays(Array({kTokens, 1, 8}, 1), Array({kTokens, 1, 8}, 2),
                                Array({num_queries, 2, 8}, 3), DType::kFloat32);
  EXPECT_TRUE(source.ok()) << source.status();
  return *std::move(source);
}

std::vector<float> Without(const std::vector<float>& rows, size_t row, size_t begin, size_t end) {
  std::vector<float> kept(rows.begin(), rows.begin() + static_cast<std::ptrdiff_t>(begin * row));
  kept.insert(kept.end(), rows.begin() + static_cast<std::ptrdiff_t>(end * row), rows.end());
  return kept;
}

TEST(IndexHeadTest, WhatIsAskedIsInNoContext) {
  for (const uint64_t prefix : {0U, 200U}) {
    const auto source = Source(kTokens);
    const auto head = IndexHead::Read(source.get(), kPlace, 3, prefix);
    ASSERT_TRUE(head.ok()) << head.status();
    const size_t begin = prefix == 0 ? kTokens - kAsked : prefix;
    EXPECT_EQ(head->num_tokens, kTokens - kAsked);
    EXPECT_EQ(head->k, Without(Normals(kTokens * 8, 1), 8, begin, begin + kAsked));
    EXPECT_EQ(head->v, Without(Normals(kTokens * 8, 2), 8, begin, begin + kAsked));
    const std::vector<float> q = Normals(kTokens * 16, 3);
    EXPECT_EQ(head->train, Without(q, 16, begin, begin + kAsked));
    ASSERT_EQ(head->num_test(), 3u);
    for (size_t i = 0; i < 3; ++i) {
      const size_t token = begin + i * kAsked / 3;
      EXPECT_EQ(Without(head->test, 16, 0, i)[0], q[token * 16]) << i;
    }
  }
}

TEST(IndexHeadTest, APrefixTakesQOfAllAndTokensBehindIt) {
  const auto some = Source(500);
  EXPECT_THAT(IndexHead::Read(some.get(), kPlace, 3, 200).status().message(),
              HasSubstr("found 600 tokens and q of the last 500"));
  const auto all = Source(kTokens);
  EXPECT_THAT(IndexHead::Read(all.get(), kPlace, 3, 301).status().message(),
              HasSubstr("a prefix of 301 tokens"));
}

}  // namespace
}  // namespace attndb::bench
