// Goal:   the search that a plan names is the search that is built.
#include "db/search_factory.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "common/aligned_buffer.h"

namespace attndb::internal {
namespace {

std::vector<uint32_t> Selected(std::string_view plan, float scale,
                               const std::vector<float>& scores) {
  const auto search = MakeSearch(query::Plan::Parse(plan)->ForLayer(0), {.scale = scale});
  std::vector<uint32_t> indices(search->NumIndices(scores.size()));
  AlignedBuffer scratch = *AlignedBuffer::Allocate(search->ScratchBytes(scores.size()) + 64);
  indices.resize(search->Search({scores.data(), scores.size(), {0, scores.size()}}, indices.data(),
                                scratch.data()));
  return indices;
}

TEST(SearchFactoryTest, BuildsWhatThePlanNames) {
  const std::vector<float> scores = {0, 5, 9, 10, 8.9f};
  EXPECT_EQ(Selected("topk(k=2)", 1.0f, scores), (std::vector<uint32_t>{2, 3}));
  EXPECT_EQ(Selected("dipr(beta=1)", 1.0f, scores), (std::vector<uint32_t>{2, 3}));
  // alpha = 1/e is one nat: a margin of 1 / scale in scores.
  const std::string alpha = "dipr(alpha=" + std::to_string(std::exp(-1.0)) + ")";
  EXPECT_EQ(Selected(alpha, 0.5f, scores), (std::vector<uint32_t>{2, 3, 4}));
  EXPECT_EQ(Selected("mass(p=0.7)", 1.0f, scores), (std::vector<uint32_t>{2, 3}));
}

TEST(SearchFactoryTest, PlansThatChooseNothingHaveNoSearch) {
  EXPECT_EQ(MakeSearch(query::Plan::Parse("full")->ForLayer(0), {}), nullptr);
  EXPECT_EQ(MakeSearch(query::Plan::Parse("window")->ForLayer(0), {}), nullptr);
}

}  // namespace
}  // namespace attndb::internal
