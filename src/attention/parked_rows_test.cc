// Goal:   while rows are on their way, threads run other items of their call. That does not change
//         the results or counts of the call.
// Method: every plan over rows in place, and over a source whose rows come late.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <string_view>
#include <vector>

#include "attention/layer_test_util.h"
#include "storage/kv/row_source.h"

namespace attndb::attention {
namespace {

constexpr std::string_view kPlans[] = {"full",
                                       "window(sink=4,window=30)",
                                       "topk(k=20,sink=4,window=16)",
                                       "topk(k=20,bits=8,remainder=sample:50)",
                                       "topk(k=20,bits=8,remainder=mean)",
                                       "topk(k=20,bits=8,exact_fallback=0.3)",
                                       "mass(p=0.8,bits=8,sink=2,window=5)",
                                       "auto(error=0.05,sink=2,window=5)"};

// Rows come when so many items were taken meanwhile, or when there are no more.
class LateRows final : public storage::RowSource {
 public:
  LateRows(const storage::RowSource* base, int num_items) : base_(base), num_items_(num_items) {}

  Status Acquire(storage::RowLease* lease) const override {
    if (storage::OtherWork* const other_work = lease->other_work()) {
      static thread_local uint32_t depth = 1;
      ++depth;
      for (int i = 0; i < num_items_ && other_work->TakeSome(); ++i) num_taken_.fetch_add(1);
      deepest_.store(std::max(deepest_.load(), depth));
      --depth;
    }
    return fails_.load() ? Status::IoError("a read that fails") : base_->Acquire(lease);
  }
  bool parks() const override { return true; }

  void Fail() { fails_ = true; }
  int num_taken() const { return num_taken_; }
  uint32_t deepest() const { return deepest_; }

 private:
  const storage::RowSource* const base_;
  const int num_items_;
  std::atomic<bool> fails_ = false;
  mutable std::atomic<int> num_taken_ = 0;
  mutable std::atomic<uint32_t> deepest_ = 0;
};

class ParkedRowsTest : public ::testing::Test {
 protected:
  ParkedRowsTest() : layer_({}, DType::kFloat16, {900, 700, 100}, 3, 1) {
    layer_.BuildPlanes();
    layer_.BuildValues();
  }
  Layer layer_;
};

TEST_F(ParkedRowsTest, OtherItemsRunMeanwhile) {
  for (const std::string_view text : kPlans) {
    for (const uint32_t num_parts : {1u, 3u}) {
      for (const int num_items : {1, 1000}) {
        SCOPED_TRACE(std::string(text) + ", " + std::to_string(num_parts) + " parts");
        const CallCost expected = layer_.Run(PlanOf(text), num_parts, /*threads=*/true);
        const std::vector<float> out = layer_.out();
        LayerCall call = layer_.Call(PlanOf(text), num_parts);
        LateRows late(call.rows, num_items);
        call.rows = &late;
        const CallCost cost = layer_.RunCall(call, /*threads=*/true);
        EXPECT_EQ(layer_.out(), out);
        // Items of a draw that begin together each find the thresholds of their unit.
        if (text.starts_with("auto")) {
          EXPECT_GE(cost.bytes_touched, expected.bytes_touched / 2);
        } else {
          EXPECT_EQ(cost.bytes_touched, expected.bytes_touched);
        }
        EXPECT_EQ(cost.num_selected, expected.num_selected);
        EXPECT_EQ(cost.num_queries, expected.num_queries);
        EXPECT_GT(late.num_taken(), 0);
        EXPECT_LE(late.deepest(), CallView::kMaxDepth);
      }
    }
  }
}

TEST_F(ParkedRowsTest, AReadThatFailsMeanwhileEndsTheCall) {
  for (const std::string_view text : kPlans) {
    LayerCall call = layer_.Call(PlanOf(text), 2);
    LateRows late(call.rows, 1000);
    late.Fail();
    call.rows = &late;
    const std::vector<Status> parts = layer_.RunParts(call);
    EXPECT_TRUE(std::ranges::any_of(parts, [](const Status& status) {
      return status.code() == StatusCode::kIoError;
    })) << text;
  }
}

}  // namespace
}  // namespace attndb::attention
