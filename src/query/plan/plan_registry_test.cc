// Goal:   an index and a query that only a test knows are parsed, printed and searched like those
//         that are built in: adding one changes no existing file.
// Method: an index that sees every stride-th token, a query that takes the newest tokens, and a
//         registry that has these alone.
#include "query/plan/plan_registry.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "db/builtin_plans.h"
#include "index/search_test_util.h"
#include "query/plan/plan.h"

namespace attndb::query {
namespace {

using index::CriticalSearch;
using index::SearchCall;
using ::testing::HasSubstr;

// Keeps those tokens of another search whose number is a multiple of the stride.
class StrideSearch final : public CriticalSearch {
 public:
  StrideSearch(std::unique_ptr<const CriticalSearch> all, uint32_t stride)
      : all_(std::move(all)), stride_(stride) {}

  size_t ScratchBytes(size_t num_visible) const override { return all_->ScratchBytes(num_visible); }
  size_t Search(const SearchCall& call, uint32_t* indices, void* scratch) const override {
    const size_t count = all_->Search(call, indices, scratch);
    const auto skipped = [this](uint32_t token) { return token % stride_ != 0; };
    return static_cast<size_t>(std::remove_if(indices, indices + count, skipped) - indices);
  }
  size_t Refine(const SearchCall& call, float max, uint32_t* indices, size_t num_indices,
                void* scratch) const override {
    return all_->Refine(call, max, indices, num_indices, scratch);
  }

 private:
  const std::unique_ptr<const CriticalSearch> all_;
  const uint32_t stride_;
};

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
          .arguments = {{.key = "step", .min = 1, .max = 1000, .whole = true, .fallback = 2}},
          .make_search = [](std::unique_ptr<const CriticalSearch> all,
                            const LayerPlan& plan) -> std::unique_ptr<const CriticalSearch> {
            return std::make_unique<StrideSearch>(std::move(all),
                                                  static_cast<uint32_t>(plan.Get("step")));
          }};
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

TEST(PlanRegistryTest, ANewIndexIsSearched) {
  const PlanRegistry registry = Registry();
  const std::vector<float> scores = {9, 8, 7, 6, 5, 4, 3};
  const auto plan_of = [&](std::string_view text) {
    return Plan::Parse(text, registry)->ForLayer(0);
  };
  EXPECT_EQ(Selected(plan_of("dipr(beta=4)"), scores), (std::vector<uint32_t>{0, 1, 2, 3, 4}));
  EXPECT_EQ(Selected(plan_of("dipr(beta=4,index=stride)"), scores),
            (std::vector<uint32_t>{0, 2, 4}));
  EXPECT_EQ(Selected(plan_of("dipr(beta=4,index=stride,step=3)"), scores),
            (std::vector<uint32_t>{0, 3}));
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
}  // namespace attndb::query
