// Goal:   the results of operators do not depend on where rows lie, and operators request only the
//         rows that their plan needs.
// Method: every plan over rows in place, and over a source that copies each row it is asked for to
//         a place of its own, with NaN around, and counts.
// Replay: a test's seed is its parameter.
#include "storage/kv/row_source.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string_view>
#include <vector>

#include "attention/layer_test_util.h"

namespace attndb::attention {
namespace {

using storage::RowPart;

constexpr uint32_t kRuns = 3;
constexpr uint32_t kKvHeads = 2;
constexpr uint64_t kLengths[kRuns] = {900, 700, 100};
constexpr uint64_t kTokens = 1700;

constexpr std::string_view kPlans[] = {"full",
                                       "window(sink=4,window=30)",
                                       "topk(k=20,sink=4,window=16)",
                                       "topk(k=20,bits=4,sink=4,window=16)",
                                       "topk(k=20,bits=8,remainder=sample:50)",
                                       "topk(k=20,bits=8,remainder=mean)",
                                       "topk(k=20,bits=8,exact_fallback=0.3)",
                                       "dipr(alpha=0.05,sink=3,window=9)",
                                       "mass(p=0.8,bits=8,sink=2,window=5)",
                                       "auto(error=0.05,sink=2,window=5)",
                                       "auto(error=0.05,value_bits=8)",
                                       "auto(error=0.1,index=pq,sink=2,window=5)",
                                       "auto(error=0.1,index=pq,value_bits=8)",
                                       "topk(k=5,index=pq,sink=4,window=16)",
                                       "mass(p=0.8,index=pq,sink=4,window=16)",
                                       "topk(k=5,index=clustered,sink=4,window=16)",
                                       "dipr(beta=2,index=clustered,sink=4,window=16)",
                                       "topk(k=5,index=graph,sink=4,window=16)",
                                       "dipr(beta=2,index=graph,beam_width=8,sink=4,window=16)"};

// Fails from a given read on, counted from 0.
class FailingRows final : public storage::RowSource {
 public:
  FailingRows(const storage::RowSource* base, int fail_at) : base_(base), left_(fail_at) {}
  Status Acquire(storage::RowLease* lease) const override {
    return left_-- <= 0 ? Status::IoError("a read that fails") : base_->Acquire(lease);
  }
  bool failed() const { return left_ < 0; }

 private:
  const storage::RowSource* const base_;
  mutable int left_;
};

class RowSourceTest : public ::testing::TestWithParam<uint32_t> {
 protected:
  RowSourceTest()
      : layer_({}, DType::kFloat16, {std::begin(kLengths), std::end(kLengths)}, 1, GetParam()) {
    layer_.BuildPlanes();
    layer_.BuildValues();
    layer_.BuildIndexes();
    layer_.BuildCodes();
  }

  // Rows asked for that are neither sink nor window nor of the last run, which has no planes.
  static uint64_t NumOfMiddle(const test::CopiedRows::Asked& asked, uint64_t sink) {
    return static_cast<uint64_t>(std::ranges::count_if(asked, [&](const auto& row) {
      const auto& [run, head, number] = row;
      return run + 1 != kRuns && (run != 0 || number >= sink);
    }));
  }

  Layer layer_;
};

TEST_P(RowSourceTest, BitsDoNotDependOnTheSource) {
  const std::vector<uint64_t> chains[] = {{std::begin(kLengths), std::end(kLengths)},
                                          {1700},
                                          {1300, 20},
                                          {400, 300, 90, 70, 64, 1, 30}};
  for (const std::vector<uint64_t>& lengths : chains) {
    for (const DType dtype : {DType::kFloat16, DType::kBFloat16}) {
      Layer in_place({}, dtype, lengths, 1, GetParam());
      Layer copied({}, dtype, lengths, 1, GetParam());
      for (Layer* const layer : {&in_place, &copied}) {
        layer->BuildPlanes();
        layer->BuildValues();
        layer->BuildIndexes();
        layer->BuildCodes();
      }
      copied.CopyRows();
      for (const std::string_view text : kPlans) {
        for (const uint32_t num_parts : {1u, 3u}) {
          in_place.Run(PlanOf(text), num_parts);
          copied.Run(PlanOf(text), num_parts);
          EXPECT_EQ(copied.out(), in_place.out())
              << text << ", " << num_parts << " parts, " << lengths.size() << " runs";
        }
      }
    }
  }
}

TEST_P(RowSourceTest, FullAsksForAllRowsAndAWindowForItsOwn) {
  layer_.CopyRows();
  layer_.Run(PlanOf("full"), 1);
  EXPECT_EQ(layer_.copied().asked(RowPart::kKeys).size(), kKvHeads * kTokens);
  EXPECT_EQ(layer_.copied().asked(RowPart::kValues).size(), kKvHeads * kTokens);
  layer_.Run(PlanOf("window(sink=4,window=30)"), 1);
  EXPECT_EQ(layer_.copied().asked(RowPart::kKeys).size(), kKvHeads * 34);
  EXPECT_EQ(layer_.copied().asked(RowPart::kValues).size(), kKvHeads * 34);
}

TEST_P(RowSourceTest, ASearchByPlanesAsksForCandidatesAndWhatItChose) {
  layer_.CopyRows();
  for (const std::string_view text :
       {"topk(k=20,bits=4,sink=4,window=16)", "dipr(alpha=0.05,bits=8,sink=4,window=16)"}) {
    const CallCost cost = layer_.Run(PlanOf(text), 1);
    const auto keys = layer_.copied().asked(RowPart::kKeys);
    const auto values = layer_.copied().asked(RowPart::kValues);
    EXPECT_LE(NumOfMiddle(keys, 4), cost.num_candidates) << text;
    EXPECT_LT(NumOfMiddle(keys, 4), kKvHeads * 1600 / 2) << text;
    EXPECT_LE(values.size(), cost.num_selected + kKvHeads * 20) << text;
    EXPECT_TRUE(std::ranges::includes(keys, values)) << text << ": a value without its key";
  }
}

// Each row serves the group, whose q heads count it one by one.
TEST_P(RowSourceTest, ASearchByAnIndexAsksForTheKeysThatItScores) {
  layer_.CopyRows();
  for (const std::string_view text :
       {"topk(k=5,index=clustered,sink=4,window=16)", "topk(k=5,index=graph,sink=4,window=16)",
        "dipr(beta=2,index=clustered,sink=4,window=16)"}) {
    const CallCost cost = layer_.Run(PlanOf(text), 1);
    const auto keys = layer_.copied().asked(RowPart::kKeys);
    const auto values = layer_.copied().asked(RowPart::kValues);
    EXPECT_LE(NumOfMiddle(keys, 4), cost.num_candidates / 3) << text;
    EXPECT_LT(NumOfMiddle(keys, 4), kKvHeads * 1600 * 9 / 10) << text;  // Random keys.
    EXPECT_LE(values.size(), cost.num_selected + kKvHeads * 20) << text;
    EXPECT_TRUE(std::ranges::includes(keys, values)) << text << ": a value without its key";
  }
}

// Rows that are read beyond the plan, because a bound is too large, are counted.
TEST_P(RowSourceTest, FallingBackAsksForAllRowsAndIsCounted) {
  layer_.CopyRows();
  const CallCost never = layer_.Run(PlanOf("topk(k=20,bits=8,exact_fallback=1)"), 1);
  EXPECT_EQ(never.num_fallbacks, 0u);
  EXPECT_LT(layer_.copied().asked(RowPart::kValues).size(), kKvHeads * kTokens / 2);
  const CallCost always = layer_.Run(PlanOf("topk(k=20,bits=8,exact_fallback=0.000001)"), 1);
  EXPECT_EQ(always.num_fallbacks, 6u);
  EXPECT_EQ(layer_.copied().asked(RowPart::kKeys).size(), kKvHeads * kTokens);
  EXPECT_EQ(layer_.copied().asked(RowPart::kValues).size(), kKvHeads * kTokens);
}

// 100 rows a q head at first, of 6,000 tokens of each kv head with planes.
TEST_P(RowSourceTest, ADrawAsksForAFewRows) {
  Layer layer({.v_is_k = true}, DType::kFloat16, {3000, 3000, 40}, 1, GetParam());
  layer.BuildPlanes();
  layer.CopyRows();
  layer.Run(PlanOf("auto(error=0.5,sink=4,window=16)"), 1);
  EXPECT_LT(NumOfMiddle(layer.copied().asked(RowPart::kKeys), 4), kKvHeads * 6000 / 8);
  EXPECT_LT(layer.copied().asked(RowPart::kValues).size(), kKvHeads * 6000 / 8);
}

// A draw that finds itself off by too much draws again, and at last reads all: both are counted.
TEST_P(RowSourceTest, DrawsThatWantMoreAreCounted) {
  constexpr uint64_t kAll = kKvHeads * 6040;
  Layer layer({.v_is_k = true}, DType::kFloat16, {3000, 3000, 40}, 1, GetParam());
  layer.BuildPlanes();
  layer.BuildCodes();
  layer.CopyRows();
  const auto num_asked = [&](RowPart part) { return layer.copied().asked(part).size(); };
  const CallCost content = layer.Run(PlanOf("auto(error=0.5,sink=4,window=16)"), 1);
  EXPECT_GT(content.num_redraws, 0u);
  EXPECT_EQ(content.num_fallbacks, 0u);
  EXPECT_LT(num_asked(RowPart::kValues), kAll / 8);
  const CallCost strict = layer.Run(PlanOf("auto(error=0.1,sink=4,window=16)"), 1);
  EXPECT_GT(strict.num_redraws, 0u);
  EXPECT_EQ(strict.num_fallbacks, 6u);
  EXPECT_EQ(num_asked(RowPart::kKeys), kAll);
  EXPECT_EQ(num_asked(RowPart::kValues), kAll);

  const CallCost by_codes = layer.Run(PlanOf("auto(error=0.2,index=pq,sink=4,window=16)"), 1);
  EXPECT_GT(by_codes.num_redraws, 0u);
  EXPECT_EQ(by_codes.num_fallbacks, 0u);
  EXPECT_LT(num_asked(RowPart::kKeys), kAll / 2);
  EXPECT_LT(num_asked(RowPart::kValues), kAll / 3);
  const CallCost too_strict = layer.Run(PlanOf("auto(error=0.01,index=pq,sink=4,window=16)"), 1);
  EXPECT_EQ(too_strict.num_fallbacks, 6u);
  EXPECT_EQ(num_asked(RowPart::kKeys), kAll);
  EXPECT_EQ(num_asked(RowPart::kValues), kAll);
}

// If so many keys are wanted that a walk of the graph does not pay, the search scores all keys of a
// run.
TEST_P(RowSourceTest, GraphsThatAreNotWalkedAreCounted) {
  layer_.CopyRows();
  const CallCost walked = layer_.Run(PlanOf("topk(k=5,index=graph,sink=4,window=16)"), 1);
  EXPECT_EQ(walked.num_full_scans, 0u);
  EXPECT_GT(walked.num_hops, 0u);
  const CallCost scanned = layer_.Run(PlanOf("topk(k=20,index=graph,sink=4,window=16)"), 1);
  EXPECT_EQ(scanned.num_full_scans, kKvHeads * 2u);  // The last run has no graph.
  EXPECT_EQ(scanned.num_hops, 0u);
  EXPECT_EQ(NumOfMiddle(layer_.copied().asked(RowPart::kKeys), 4), kKvHeads * (1600u - 4));
}

TEST_P(RowSourceTest, AReadThatFailsEndsTheCallWithItsStatus) {
  for (const std::string_view text : kPlans) {
    bool failed = true;
    int num_failed = 0;
    for (int fail_at = 0; failed; fail_at += 1 + fail_at / 4) {
      LayerCall call = layer_.Call(PlanOf(text), 2);
      const FailingRows rows(call.rows, fail_at);
      call.rows = &rows;
      const std::vector<Status> parts = layer_.RunParts(call);
      failed = rows.failed();
      num_failed += failed ? 1 : 0;
      const auto is_io_error = [](const Status& status) {
        return status.code() == StatusCode::kIoError;
      };
      EXPECT_EQ(std::ranges::any_of(parts, is_io_error), failed) << text << ", read " << fail_at;
    }
    EXPECT_GT(num_failed, 0) << text;
    layer_.Run(PlanOf(text), 2);  // The next call is whole.
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, RowSourceTest, ::testing::Values(1u, 2u));

}  // namespace
}  // namespace attndb::attention
