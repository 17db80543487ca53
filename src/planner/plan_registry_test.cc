// Goal:   a query and an index that only a test knows are parsed and printed like built-in ones:
//         adding one changes no existing file.
#include "planner/plan_registry.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "planner/builtin_plans.h"
#include "planner/plan.h"

namespace attndb::planner {
namespace {

using ::testing::HasSubstr;

IndexType Stride() {
  return {.name = "stride",
          .bits = {0},
          .arguments = {{.key = "step", .min = 1, .max = 1000, .whole = true, .fallback = 2}}};
}

QueryType Newest() {
  return {.name = "newest",
          .arguments = {{.key = "n", .min = 1, .max = 1000, .whole = true}},
          .needs = "newest needs n"};
}

PlanRegistry Registry() {
  PlanRegistry registry = BuiltinPlans();
  registry.AddIndex(Stride());
  registry.AddQuery(Newest());
  return registry;
}

TEST(PlanRegistryTest, NewNamesAreReadAndWritten) {
  const PlanRegistry registry = Registry();
  for (const char* text : {"topk(k=3,index=stride,sink=16,window=128)",
                           "newest(n=4,index=stride,step=5,sink=1,window=2)"}) {
    const Result<Plan> plan = Plan::Parse(text, registry);
    ASSERT_TRUE(plan.ok()) << plan.status();
    EXPECT_EQ(plan->ToString(), text);
  }
}

TEST(PlanRegistryTest, ErrorsNameWhatIsRegistered) {
  const PlanRegistry registry = Registry();
  const auto error = [&](std::string_view text) {
    return Plan::Parse(text, registry).status().message();
  };
  EXPECT_THAT(error("nearest(n=3)"), HasSubstr("newest(n=...)"));
  EXPECT_THAT(error("newest"), HasSubstr("column 1: newest needs n"));
  EXPECT_THAT(
      error("topk(k=1,index=coarse)"),
      HasSubstr("it has index=flat, clustered, graph, pq, quest, infllm, roargraph, wave, stride"));
  EXPECT_THAT(error("topk(k=1,index=stride,bits=4)"), HasSubstr("it has bits=exact"));
  EXPECT_THAT(error("topk(k=1,bits=4,index=stride)"),
              HasSubstr("column 1: index=stride can't be searched at bits=4; it has exact"));
  EXPECT_THAT(error("topk(k=1,step=3)"), HasSubstr("column 10: unknown key 'step'"));
}

}  // namespace
}  // namespace attndb::planner
