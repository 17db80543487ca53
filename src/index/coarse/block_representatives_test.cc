// Goal:   the keys that the queries behind a block weighed most represent the block, scored as in
//         the paper. Without such queries the mean of its keys does.
// Method: heads of keys that drift; against sums over all queries in float64.
// Replay: ATTNDB_SEED=17 ctest -R index_test
#include "index/coarse/block_representatives.h"

#include <gtest/gtest.h>

#include <limits>
#include <vector>

#include "index/coarse/coarse_test_util.h"
#include "testing/seed.h"

namespace attndb::index::test {
namespace {

using ::attndb::test::SeedOr;

constexpr size_t kDim = 32;

BlockForm Form(uint32_t block_keys, uint32_t num_representatives) {
  return {.summary = BlockSummary::kRepresentatives,
          .block_keys = block_keys,
          .num_representatives = num_representatives};
}

void ExpectRepresented(DriftingHead* head, const BlockForm& form) {
  const BlockKeys keys = head->Build(form);
  const std::vector<float> q = head->Query();
  const std::vector<float> scores = ScoreAll(keys, q);
  ASSERT_EQ(scores.size(), (head->num_keys() + form.block_keys - 1) / form.block_keys);
  for (size_t b = 0; b < scores.size(); ++b) {
    const size_t first = b * form.block_keys;
    const size_t end = std::min(first + form.block_keys, head->num_keys());
    const auto plain = PlainRepresentative(*head, first, end, form.num_representatives);
    EXPECT_NEAR(scores[b], Dot(q.data(), plain), 1e-3) << b;
  }
}

TEST(BlockRepresentativesTest, AreTheKeysThatLocalQueriesLookedAtMost) {
  for (const DType dtype : {DType::kFloat16, DType::kFloat32}) {
    DriftingHead head(dtype, 700, kDim, SeedOr(21));
    for (const BlockForm& form : {Form(32, 1), Form(128, 4), Form(64, 8)}) {
      ExpectRepresented(&head, form);
    }
  }
}

// Queries further behind than the local window have no say.
TEST(BlockRepresentativesTest, DistantQueriesHaveNoSay) {
  DriftingHead head(DType::kFloat16, kLocalTokens + 900, kDim, SeedOr(22), /*query_step=*/400);
  ExpectRepresented(&head, Form(128, 2));
}

TEST(BlockRepresentativesTest, WithoutQueriesAllKeysRepresentTheirBlock) {
  DriftingHead head(DType::kBFloat16, 300, kDim, SeedOr(23), /*query_step=*/0);
  ExpectRepresented(&head, Form(64, 4));
}

// Importers may have sampled anything.
TEST(BlockRepresentativesTest, QueriesThatAreNotFiniteAreLeftOut) {
  DriftingHead head(DType::kFloat32, 200, kDim, SeedOr(24));
  const BlockForm form = Form(32, 4);
  const std::vector<float> q = head.Query();
  const std::vector<float> before = ScoreAll(head.Build(form), q);
  const BlockSource good = head.source();
  std::vector<float> rows(good.queries.num_rows() * kDim);
  std::copy_n(reinterpret_cast<const float*>(good.queries.q), rows.size(), rows.data());
  std::vector<uint32_t> tokens(good.queries.tokens.begin(), good.queries.tokens.end());
  for (const float bad :
       {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    rows.insert(rows.end(), kDim, bad);
    tokens.push_back(199);
  }
  BlockSource source = good;
  source.queries = {reinterpret_cast<const std::byte*>(rows.data()), tokens, tokens};
  EXPECT_EQ(ScoreAll(*BlockKeys::Build(source, form), q), before);
}

}  // namespace
}  // namespace attndb::index::test
