// Goal:   the search that a plan names is the search that is built; one that a test adds works like
//         those that are built in.
#include "attention/registry.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <string>
#include <string_view>
#include <vector>

#include "common/aligned_buffer.h"
#include "index/search_test_util.h"
#include "planner/builtin_plans.h"

namespace attndb::attention {
namespace {

// The newest `count` tokens, whatever their scores.
class NewestSearch final : public index::CriticalSearch {
 public:
  explicit NewestSearch(uint64_t count) : count_(count) {}

  size_t ScratchBytes(size_t) const override { return 0; }
  size_t Search(const index::SearchCall& call, uint32_t* indices, void*) const override {
    const uint64_t num_middle = call.middle.end - call.middle.begin;
    const size_t count = std::min(count_, num_middle);
    std::iota(indices, indices + count, static_cast<uint32_t>(call.middle.end - count));
    return count;
  }
  size_t Refine(const index::SearchCall&, float, uint32_t*, size_t count, void*) const override {
    return count;
  }

 private:
  const uint64_t count_;
};

class RegistryTest : public ::testing::Test {
 protected:
  RegistryTest() {
    plans_.AddQuery({.name = "newest",
                     .arguments = {{.key = "n", .min = 1, .max = 1000, .whole = true}},
                     .needs = "newest needs n"});
    registry_.AddSearch(
        "newest", {.make_search = [](const planner::LayerPlan& plan, const LayerSpec&) {
          return std::make_unique<NewestSearch>(static_cast<uint64_t>(plan.Get("n")));
        }});
  }

  planner::LayerPlan Plan(std::string_view text) const {
    return planner::Plan::Parse(text, plans_)->ForLayer(0);
  }

  std::vector<uint32_t> Selected(std::string_view plan, float scale = 1.0f) const {
    const auto search = registry_.MakeSearch(Plan(plan), {.scale = scale});
    std::vector<uint32_t> indices(search->NumIndices(kScores.size()));
    AlignedBuffer scratch = *AlignedBuffer::Allocate(search->ScratchBytes(kScores.size()) + 64);
    index::TestScores view(kScores);
    indices.resize(
        search->Search({view.view(), {0, kScores.size()}}, indices.data(), scratch.data()));
    return indices;
  }

  const std::vector<float> kScores = {0, 5, 9, 10, 8.9f};
  planner::PlanRegistry plans_ = planner::BuiltinPlans();
  Registry registry_;
};

TEST_F(RegistryTest, BuildsTheSearchThatThePlanNames) {
  EXPECT_EQ(Selected("topk(k=2)"), (std::vector<uint32_t>{2, 3}));
  EXPECT_EQ(Selected("dipr(beta=1)"), (std::vector<uint32_t>{2, 3}));
  // alpha = 1/e is one nat: a margin of 1 / scale in scores.
  const std::string alpha = "dipr(alpha=" + std::to_string(std::exp(-1.0)) + ")";
  EXPECT_EQ(Selected(alpha, 0.5f), (std::vector<uint32_t>{2, 3, 4}));
  EXPECT_EQ(Selected("mass(p=0.7)"), (std::vector<uint32_t>{2, 3}));
  EXPECT_EQ(Selected("newest(n=2)"), (std::vector<uint32_t>{3, 4}));
}

TEST_F(RegistryTest, PlansThatDoNotSearchScoresHaveNoSearch) {
  for (const char* text : {"full", "window", "auto(error=0.01)", "topk(k=2,index=clustered)"}) {
    EXPECT_EQ(registry_.MakeSearch(Plan(text), {}), nullptr) << text;
  }
}

TEST_F(RegistryTest, AsksAnIndexForWhatTheQueryMeans) {
  const index::SearchSpec top =
      registry_.MakeSpec(Plan("topk(k=7,index=graph,beam_width=90)"), {}, {.num_tokens = 1000});
  EXPECT_EQ(top.kind, index::SearchKind::kTopK);
  EXPECT_EQ(top.k, 7u);
  EXPECT_EQ(top.effort, 90.0f);
  const index::SearchSpec range =
      registry_.MakeSpec(Plan("dipr(beta=5,index=clustered)"), {}, {.num_tokens = 1000});
  EXPECT_EQ(range.kind, index::SearchKind::kRange);
  EXPECT_EQ(range.beta, 5.0f);
}

}  // namespace
}  // namespace attndb::attention
