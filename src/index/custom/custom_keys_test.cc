// Goal:   among the rows that a caller's type selects, the visible ones are found with exact
//         scores, for each head by itself, and the type's estimate is passed on. A type is asked
//         with the rows that it may select.
// Method: two runs of random keys; scores in float64.
#include "index/custom/custom_keys.h"

#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "common/random.h"
#include "index/key_search_test_util.h"
#include "testing/matchers.h"

namespace attndb::index {
namespace {

constexpr uint32_t kDim = 16;
constexpr size_t kRows = 100;
constexpr size_t kHeads = 2;

struct NoRows final : CustomObject {
  uint64_t memory_bytes() const override { return 24; }
};

// Head 0: rows [5, 40) of the first part; head 1: rows [90, 100) of it, and [0, 30) of the second.
class FixedRanges final : public CustomIndex {
 public:
  Result<CustomObjectPtr> Build(const CustomRows& rows) const override {
    EXPECT_EQ(rows.keys.size(), rows.num_rows * kDim);
    return CustomObjectPtr(std::make_shared<NoRows>());
  }
  Status Select(const CustomQuery& query, std::span<CustomSelection> selections) const override {
    EXPECT_EQ(query.q.size(), kHeads * kDim);
    EXPECT_EQ(query.parts.size(), 2u);
    EXPECT_EQ(query.parts[0].visible, (TokenRange{10, kRows}));
    EXPECT_EQ(query.parts[1].visible, (TokenRange{0, 20}));
    EXPECT_EQ(query.values.size(), 1u);
    EXPECT_EQ(query.values[0], 3.0);
    selections[0].ranges = {{0, 5, 40}};
    selections[1].ranges = {{0, 90, 100}, {1, 0, 30}};
    selections[1].rest_lse = 0.5f;
    selections[1].rest_value = std::vector<float>(kDim, 2.0f);
    return Status::Ok();
  }
};

class CustomKeysTest : public ::testing::Test {
 protected:
  CustomKeysTest() {
    Random random(7);
    for (std::vector<float>* const rows : {&keys_[0], &keys_[1], &q_}) {
      rows->resize((rows == &q_ ? kHeads : kRows) * kDim);
      for (float& x : *rows) x = static_cast<float>(random.NextGaussian());
    }
    for (size_t i = 0; i < 2; ++i) {
      auto made = CustomKeys::Build(
          type_, {.num_rows = kRows, .head_dim = kDim, .v_head_dim = kDim, .keys = keys_[i]},
          /*is_extension=*/false);
      EXPECT_TRUE(made.ok());
      indexes_.push_back(*std::move(made));
    }
  }

  double Score(size_t head, uint32_t token) const {
    const std::vector<float>& keys = keys_[token / kRows];
    double score = 0;
    for (size_t i = 0; i < kDim; ++i) {
      score += double{q_[head * kDim + i]} * double{keys[token % kRows * kDim + i]};
    }
    return score;
  }

  const std::shared_ptr<const CustomIndexType> type_ = std::make_shared<const CustomIndexType>(
      CustomIndexType{.name = "fixed",
                      .keys = {{.name = "x", .max = 9}},
                      .index = std::make_shared<FixedRanges>()});
  std::vector<float> keys_[2];
  std::vector<float> q_;
  std::vector<std::shared_ptr<const CustomKeys>> indexes_;
};

TEST_F(CustomKeysTest, FindsTheVisibleRowsThatAreSelected) {
  EXPECT_EQ(indexes_[0]->memory_bytes(), 24u);
  const std::vector<IndexRun> runs = {{.index = indexes_[0].get(),
                                       .keys = {keys_[0].data(), kDim, kDim, DType::kFloat32},
                                       .first_visible = 10,
                                       .num_visible = kRows},
                                      {.index = indexes_[1].get(),
                                       .keys = {keys_[1].data(), kDim, kDim, DType::kFloat32},
                                       .num_visible = 20,
                                       .first_token = kRows}};
  IndexCall call;
  call.spec.kind = SearchKind::kSelected;
  call.spec.arguments[0] = 3.0;
  call.runs = runs;
  call.q = q_.data();
  call.q_stride = kDim;
  call.num_q_rows = kHeads;
  std::vector<uint32_t> tokens(kHeads * 2 * kRows);
  std::vector<float> scores(tokens.size());
  FoundKeys found[kHeads];
  for (size_t head = 0; head < kHeads; ++head) {
    found[head].tokens = tokens.data() + head * 2 * kRows;
    found[head].scores = scores.data() + head * 2 * kRows;
  }
  std::vector<float> scratch(indexes_[0]->ScratchBytes(call) / sizeof(float));
  SearchCost cost;
  ATTNDB_ASSERT_OK(test::SearchInMemory(call, scratch.data(), found, &cost));
  ASSERT_EQ(found[0].count, 30u);
  EXPECT_EQ(found[0].tokens[0], 10u);
  EXPECT_EQ(found[0].rest, nullptr);
  ASSERT_EQ(found[1].count, 30u);
  EXPECT_EQ(found[1].tokens[9], 99u);
  EXPECT_EQ(found[1].tokens[29], 119u);
  ASSERT_NE(found[1].rest, nullptr);
  EXPECT_EQ(found[1].rest_lse, 0.5f);
  EXPECT_EQ(found[1].rest[kDim - 1], 2.0f);
  for (size_t head = 0; head < kHeads; ++head) {
    for (size_t i = 0; i < found[head].count; ++i) {
      EXPECT_NEAR(double{found[head].scores[i]}, Score(head, found[head].tokens[i]), 1e-5);
    }
  }
  EXPECT_EQ(cost.keys_scored, 60u);
}

}  // namespace
}  // namespace attndb::index
