// Goal:   the lists of nearest rows equal those from sorting all scores.
// Method: whole numbers small enough for exact scores, so that many are equal.
#include "index/graph/exact_nearest.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "index/graph/graph_test_util.h"
#include "testing/seed.h"

namespace attndb::index {
namespace {

using test::kDim;
using test::Workload;

TEST(ExactNearestTest, ListsAreThoseOfASort) {
  Workload work(333, 30, attndb::test::SeedOr(132));
  for (size_t i = 0; i < 333; ++i) {
    for (size_t d = 0; d < kDim; ++d) work.keys.row(i)[d] = std::round(work.keys.row(i)[d] / 4);
  }
  for (size_t i = 0; i < 30; ++i) {
    for (size_t d = 0; d < kDim; ++d) work.queries.row(i)[d] = std::round(work.queries.row(i)[d]);
  }
  ThreadPool pool(3);
  for (const size_t length : {1u, 20u, 333u, 400u}) {
    const NearestLists lists = FindExactNearest(
        {.rows = work.keys.view(),
         .num_rows = 333,
         .num_queries = 30,
         .load = [&](size_t i, float* row) { std::copy_n(work.queries.row(i), kDim, row); },
         .length = length,
         .pool = &pool});
    ASSERT_EQ(lists.num_lists(), 30u);
    for (size_t i = 0; i < 30; ++i) {
      const auto ranked = test::Ranked(work.keys, 333, work.queries.row(i));
      ASSERT_EQ(lists.list(i).size(), std::min<size_t>(length, 333));
      for (size_t j = 0; j < lists.list(i).size(); ++j) {
        EXPECT_EQ(lists.list(i)[j], ranked[j].second) << length << ", " << i << ", " << j;
      }
    }
  }
}

}  // namespace
}  // namespace attndb::index
