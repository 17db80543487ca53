// Goal:   each part of a call that ran differently from its plan is counted under its cause. Before
//         the first call, the teller tells what would run.
// Method: one layer whose plan asks for a graph; a run that is long enough for one and a run that
//         is not. Tables of what a call had.
#include "session/ran_teller.h"

#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "index/graph/graph_index.h"
#include "planner/builtin_plans.h"
#include "planner/plan_layer.h"

namespace attndb::internal {
namespace {

using planner::Cause;
using planner::RanTally;
using planner::Wanted;

constexpr uint64_t kLong = 3000;
constexpr uint64_t kShort = 500;
constexpr double kLongMiddle = 3000 - 16;
constexpr double kShortMiddle = 500 - 128;

class RanTellerTest : public ::testing::Test {
 protected:
  RanTellerTest() {
    execution_.plan =
        planner::Plan::Parse("topk(k=64,index=graph,sink=16,window=128)", plans_)->ForLayer(0);
    execution_.priced = true;
    execution_.heads = {{.method = planner::Method::kIndex}};
    chain_.num_tokens = chain_.num_stored_seen = kLong + kShort;
    layer_ = {.execution = &execution_,
              .chain = &chain_,
              .kinds = &kinds_,
              .index_is_asked = true,
              .num_segments = 2,
              .run_tokens = run_tokens_,
              .ready = ready_};
    call_ = {.num_rows = 3, .parts = parts_, .head_costs = costs_, .indexes = indexes_, .held = {}};
  }

  void MakeReady() { ready_[0].set(kinds_.NumberOf(kinds_.ForUse("graph"))); }

  RanTally Tally() {
    RanTally tally;
    RanTeller(layer_, &spare_).AddCall(call_, &tally);
    return tally;
  }
  RanTally Outlook() {
    const std::vector<planner::RunFacts> runs = {{.num_tokens = kLong}, {.num_tokens = kShort}};
    RanTally tally;
    RanTeller(layer_, &spare_).AddOutlook(runs, &tally);
    return tally;
  }

  const planner::PlanRegistry plans_ = planner::BuiltinPlans();
  const derived::Kinds kinds_ = derived::BuiltinKinds();
  const std::vector<uint64_t> run_tokens_ = {kLong, kShort};
  const index::GraphIndex graph_;
  planner::LayerExecution execution_;
  planner::ChainFacts chain_;
  std::vector<derived::KindSet> ready_{2};
  std::vector<attention::RunPart> parts_ = {{.run = 0, .num_tokens = kLong},
                                            {.run = 1, .num_tokens = kShort}};
  std::vector<attention::CallCost> costs_{1};
  std::vector<const index::KeyIndex*> indexes_{2};
  LayerToTell layer_;
  CallToTell call_;
  std::vector<uint64_t> spare_;
};

TEST_F(RanTellerTest, BeforeACallItTellsWhatIsReady) {
  const RanTally before = Outlook();
  EXPECT_EQ(before.weight(Wanted::kIndex, Cause::kNotBuilt), kLongMiddle);
  EXPECT_EQ(before.weight(Wanted::kIndex, Cause::kTooFewTokens), kShortMiddle);
  MakeReady();
  const RanTally ready = Outlook();
  EXPECT_EQ(ready.weight(Wanted::kIndex, Cause::kNone), kLongMiddle);
  EXPECT_EQ(ready.weight(Wanted::kQuery, Cause::kNone), kLongMiddle + kShortMiddle);
}

TEST_F(RanTellerTest, ACallIsTalliedByItsLists) {
  indexes_[0] = &graph_;
  EXPECT_EQ(Tally().weight(Wanted::kIndex, Cause::kNone), 3 * kLongMiddle);
  costs_[0].num_full_scans = 1;  // One of three rows.
  EXPECT_EQ(Tally().weight(Wanted::kIndex, Cause::kLessWork), kLongMiddle);
  costs_[0].num_full_scans = 0;
  indexes_[0] = nullptr;
  EXPECT_EQ(Tally().weight(Wanted::kIndex, Cause::kNotBuilt), 3 * kLongMiddle);
  MakeReady();
  EXPECT_EQ(Tally().weight(Wanted::kIndex, Cause::kNoMemory), 3 * kLongMiddle);
  const derived::LayerObjects objects({}, nullptr, {});
  const derived::LayerObjectsPtr held[] = {{std::shared_ptr<void>(), &objects}};
  call_.held[static_cast<size_t>(Wanted::kIndex)] = held;
  EXPECT_EQ(Tally().weight(Wanted::kIndex, Cause::kNothing), 3 * kLongMiddle);
  parts_[0].turn = 1;
  EXPECT_EQ(Tally().weight(Wanted::kIndex, Cause::kMoved), 3 * kLongMiddle);
  call_.no_memory = true;
  EXPECT_EQ(Tally().weight(Wanted::kIndex, Cause::kNoMemory), 3 * (kLongMiddle + kShortMiddle));
}

TEST_F(RanTellerTest, AHeadThatTakesAnotherMethodWantsTheIndexInVain) {
  execution_.offers_index = true;
  execution_.heads = {{.method = planner::Method::kScan},
                      {.method = planner::Method::kFull},
                      {.reason = planner::Reason::kNonFinite}};
  const double all = kLongMiddle + kShortMiddle;
  const RanTally asked = Outlook();
  EXPECT_EQ(asked.weight(Wanted::kIndex, Cause::kScanCheaper), all);
  EXPECT_EQ(asked.weight(Wanted::kIndex, Cause::kFullCheaper), all);
  EXPECT_EQ(asked.weight(Wanted::kQuery, Cause::kNonFinite), all);
  layer_.index_is_asked = false;
  EXPECT_EQ(Outlook().weight(Wanted::kIndex, Cause::kScanCheaper), 0);
  EXPECT_EQ(Outlook().weight(Wanted::kIndex, Cause::kFullCheaper), 0);
}

}  // namespace
}  // namespace attndb::internal
