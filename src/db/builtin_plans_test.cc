// Goal:   the search that a plan names is the search that is built; an index that a test adds works
//         like those that are built in.
#include "db/builtin_plans.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "common/aligned_buffer.h"
#include "index/search_test_util.h"
#include "planner/plan.h"

namespace attndb::internal {
namespace {

std::vector<uint32_t> Selected(std::string_view plan, float scale,
                               const std::vector<float>& scores) {
  const planner::PlanRegistry registry = BuiltinPlans();
  const planner::Plan parsed = *planner::Plan::Parse(plan, registry);
  const auto search = parsed.ForLayer(0).MakeSearch({.scale = scale});
  std::vector<uint32_t> indices(search->NumIndices(scores.size()));
  AlignedBuffer scratch = *AlignedBuffer::Allocate(search->ScratchBytes(scores.size()) + 64);
  index::TestScores view(scores);
  indices.resize(search->Search({view.view(), {0, scores.size()}}, indices.data(), scratch.data()));
  return indices;
}

TEST(BuiltinPlansTest, BuildsWhatThePlanNames) {
  const std::vector<float> scores = {0, 5, 9, 10, 8.9f};
  EXPECT_EQ(Selected("topk(k=2)", 1.0f, scores), (std::vector<uint32_t>{2, 3}));
  EXPECT_EQ(Selected("dipr(beta=1)", 1.0f, scores), (std::vector<uint32_t>{2, 3}));
  // alpha = 1/e is one nat: a margin of 1 / scale in scores.
  const std::string alpha = "dipr(alpha=" + std::to_string(std::exp(-1.0)) + ")";
  EXPECT_EQ(Selected(alpha, 0.5f, scores), (std::vector<uint32_t>{2, 3, 4}));
  EXPECT_EQ(Selected("mass(p=0.7)", 1.0f, scores), (std::vector<uint32_t>{2, 3}));
}

TEST(BuiltinPlansTest, PlansThatChooseNothingHaveNoSearch) {
  const planner::PlanRegistry registry = BuiltinPlans();
  EXPECT_EQ(planner::Plan::Parse("full", registry)->ForLayer(0).MakeSearch({}), nullptr);
  EXPECT_EQ(planner::Plan::Parse("window", registry)->ForLayer(0).MakeSearch({}), nullptr);
}

TEST(BuiltinPlansTest, PresetsOfPapersScoreAllKeysUnlessAnIndexFollows) {
  const planner::PlanRegistry registry = BuiltinPlans();
  for (const std::string name : {"alaya", "retrieval_attention"}) {
    SCOPED_TRACE(name);
    EXPECT_EQ(planner::Plan::Parse(name, registry)->ForLayer(0).index->name, "flat");
    const planner::Plan by_graph = *planner::Plan::Parse(name + "(index=graph)", registry);
    EXPECT_EQ(by_graph.ForLayer(0).index->name, "graph");
    EXPECT_EQ(by_graph.ForLayer(0).window, 512u);
  }
}

}  // namespace
}  // namespace attndb::internal
