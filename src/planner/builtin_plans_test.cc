// Goal:   presets of papers name what the papers select.
#include "planner/builtin_plans.h"

#include <gtest/gtest.h>

#include <string>

#include "planner/plan.h"

namespace attndb::planner {
namespace {

TEST(BuiltinPlansTest, PresetsOfPapersScoreAllKeysUnlessAnIndexFollows) {
  const PlanRegistry registry = BuiltinPlans();
  for (const std::string name : {"alaya", "retrieval_attention"}) {
    SCOPED_TRACE(name);
    EXPECT_EQ(Plan::Parse(name, registry)->ForLayer(0).index->name, "flat");
    const Plan by_graph = *Plan::Parse(name + "(index=graph)", registry);
    EXPECT_EQ(by_graph.ForLayer(0).index->name, "graph");
    EXPECT_EQ(by_graph.ForLayer(0).window, 512u);
  }
}

}  // namespace
}  // namespace attndb::planner
