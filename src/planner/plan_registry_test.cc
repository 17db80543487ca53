// Goal:   an index that only a test knows is parsed and printed, and a query searched too, like
//         those that are built in: adding one changes no existing file.
// Method: a query that takes the newest tokens, and a registry that has both beside the others.
#include "planner/plan_registry.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "db/builtin_plans.h"
#include "index/search_test_util.h"
#include "planner/plan.h"

namespace attndb::planner {
namespace {

using index::CriticalSearch;
using index::SearchCall;
using ::testing::HasSubstr;

// The newest middle tokens, whatever their scores.
class NewestSearch final : public CriticalSearch {
 public:
  explicit NewestSearch(uint64_t count) : count_(count) {}

  size_t ScratchBytes(size_t) const override { return 0; }
  size_t Search(const SearchCall& call, uint32_t* indices, void*) const override {
    const uint64_t count = std::min(count_, call.middle.end - call.middle.begin);
    for (uint64_t i = 0; i < count; ++i) {
      indices[i] = static_cast<uint32_t>(call.middle.end - count + i);
    }
    return count;
  }
  size_t Refine(const SearchCall&, float, uint32_t*, size_t count, void*) const override {
    return count;
  }

 private:
  const uint64_t count_;
};

IndexType Stride() {
  return {.name = "stride",
          .bits = {0},
          .arguments = {{.key = "step", .min = 1, .max = 1000, .whole = true, .fallback = 2}}};
}

QueryType Newest() {
  return {.name = "newest",
          .arguments = {{.key = "n", .min = 1, .max = 1000, .whole = true}},
          .needs = "newest needs n",
          .make_search = [](const LayerPlan& plan,
                            const LayerSpec&) -> std::unique_ptr<const CriticalSearch> {
            return std::make_unique<NewestSearch>(static_cast<uint64_t>(plan.Get("n")));
          }};
}

PlanRegistry Registry() {
  PlanRegistry registry = internal::BuiltinPlans();
  registry.AddIndex(Stride());
  registry.AddQuery(Newest());
  return registry;
}

std::vector<uint32_t> Selected(const LayerPlan& plan, const std::vector<float>& scores) {
  const auto search = plan.MakeSearch({.scale = 1.0f});
  std::vector<uint32_t> indices(CriticalSearch::NumIndices(scores.size()));
  std::vector<uint32_t> scratch(search->ScratchBytes(scores.size()) / sizeof(uint32_t) + 64);
  index::TestScores view(scores);
  indices.resize(search->Search({view.view(), {0, scores.size()}}, indices.data(), scratch.data()));
  return indices;
}

TEST(PlanRegistryTest, ANewQueryIsSearched) {
  const PlanRegistry registry = Registry();
  const std::vector<float> scores = {9, 8, 7, 6, 5, 4, 3};
  const auto plan_of = [&](std::string_view text) {
    return Plan::Parse(text, registry)->ForLayer(0);
  };
  EXPECT_EQ(Selected(plan_of("dipr(beta=4)"), scores), (std::vector<uint32_t>{0, 1, 2, 3, 4}));
  EXPECT_EQ(Selected(plan_of("newest(n=2)"), scores), (std::vector<uint32_t>{5, 6}));
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
  EXPECT_THAT(error("topk(k=1,index=coarse)"),
              HasSubstr("it has index=flat, clustered, graph, stride"));
  EXPECT_THAT(error("topk(k=1,index=stride,bits=4)"), HasSubstr("it has bits=exact"));
  EXPECT_THAT(error("topk(k=1,bits=4,index=stride)"),
              HasSubstr("column 1: index=stride can't be searched at bits=4; it has exact"));
  EXPECT_THAT(error("topk(k=1,step=3)"), HasSubstr("column 10: unknown key 'step'"));
}

}  // namespace
}  // namespace attndb::planner
