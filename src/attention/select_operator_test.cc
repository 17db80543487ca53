// Goal:   a search gives the tokens that the plan attends to in the middle, with their exact
//         scores, and attends to nothing.
// Method: topk of a random layer against a sort of its exact scores, with and without planes.
// Replay: a test's seed is its parameter.
#include "attention/select_operator.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "attention/layer_test_util.h"

namespace attndb::attention {
namespace {

class SelectOperatorTest : public ::testing::TestWithParam<uint32_t> {};

TEST_P(SelectOperatorTest, GivesTheBestTokensOfTheMiddleAndWritesNoOutput) {
  Layer layer({}, DType::kFloat16, {700, 300, 40}, 1, GetParam());
  layer.BuildPlanes();
  for (const char* const bits : {"exact", "8"}) {
    for (const uint32_t parts : {1u, 3u}) {
      const std::string text = std::string("topk(k=25,sink=4,window=16,bits=") + bits + ")";
      const std::vector<CriticalTokens> found = layer.Search(PlanOf(text), parts);
      ASSERT_EQ(found.size(), 6u);
      for (uint32_t head = 0; head < found.size(); ++head) {
        layer.ExpectBest(found[head], head, {4, layer.num_tokens() - 16}, 25);
      }
      for (const float x : layer.out()) ASSERT_TRUE(std::isnan(x));
    }
  }
}

TEST_P(SelectOperatorTest, HeadsThatRunFullFindNothing) {
  Layer layer({}, DType::kFloat16, {500}, 1, GetParam());
  layer.non_finite()[1] = 1;
  const std::vector<CriticalTokens> found = layer.Search(PlanOf("topk(k=5)"), 2);
  for (uint32_t head = 0; head < found.size(); ++head) {
    EXPECT_EQ(found[head].tokens.size(), head < 3 ? 5u : 0u);
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, SelectOperatorTest, ::testing::Values(1u, 2u));

}  // namespace
}  // namespace attndb::attention
