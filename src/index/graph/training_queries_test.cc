// Goal:   the queries belong to the requested tokens, and are as many as allowed.
// Method: tables of numbers; parts of a source are counted token by token.
#include "index/graph/training_queries.h"

#include <gtest/gtest.h>

#include "index/graph/graph_test_util.h"
#include "testing/seed.h"

namespace attndb::index {
namespace {

using test::Workload;

TEST(TrainingQueriesTest, TheirNumberHasLimits) {
  EXPECT_EQ(MostQueries(0, 100, 100), 1000u);
  EXPECT_EQ(MostQueries(0, 50'000, 100), 20'000u);
  EXPECT_EQ(MostQueries(0, 1'000'000, 100), 32'768u);
  EXPECT_EQ(MostQueries(400'000, 1'000'000, 100), 400'000u);
  EXPECT_EQ(MostQueries(7, 1'000'000, 100), 7u);
  // Lists of at most 2 GiB.
  EXPECT_EQ(MostQueries(UINT32_MAX, 1'000'000, 100), (size_t{2} << 30) / 400);
  EXPECT_EQ(MostQueries(UINT32_MAX, 1'000'000, 65'536), 8192u);
  EXPECT_EQ(MostQueries(0, 1'000'000, 65'536), 8192u);
  EXPECT_EQ(MostQueries(UINT32_MAX, 10, 65'536), (size_t{2} << 30) / 40);
  EXPECT_EQ(MostQueries(1, size_t{1} << 40, size_t{1} << 40), 1u);
}

TEST(TrainingQueriesTest, APartHasTheQueriesOfItsTokens) {
  Workload work(500, 90, attndb::test::SeedOr(131));
  GraphSource source = work.source();
  source.first_token = 20;
  for (const size_t key : {0u, 1u, 100u, 470u, 500u}) {
    const GraphSource before = WithQueriesBefore(source, key), from = WithQueriesFrom(source, key);
    size_t num_before = 0;
    for (const uint32_t token : work.tokens) num_before += token < 20 + key;
    EXPECT_EQ(before.queries.num_rows(), num_before);
    EXPECT_EQ(before.queries.q_heads.size(), num_before);
    ASSERT_EQ(from.queries.num_rows(), 90 - num_before);
    if (num_before == 90) continue;
    EXPECT_EQ(from.queries.tokens[0], work.tokens[num_before]);
    EXPECT_EQ(from.queries.q_heads[0], work.heads[num_before]);
    EXPECT_EQ(from.queries.q, reinterpret_cast<const std::byte*>(work.queries.row(num_before)));
  }
  EXPECT_EQ(WithQueriesFrom(GraphSource{}, 3).queries.num_rows(), 0u);
}

}  // namespace
}  // namespace attndb::index
