// Goal:   a tally tells which index or query ran instead of the plan's, why, and for which share.
// Method: tables of weights, and the texts that follow from them.
#include "planner/ran.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "planner/builtin_plans.h"

namespace attndb::planner {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class RanTallyTest : public ::testing::Test {
 protected:
  LayerPlan PlanOf(const std::string& text) { return Plan::Parse(text, registry_)->ForLayer(0); }
  RanTally Begun(const std::string& text) {
    RanTally tally;
    tally.Begin(PlanOf(text));
    return tally;
  }
  std::string RanOf(const RanTally& tally, const std::string& text) {
    return tally.Ran(PlanOf(text), registry_.default_index()).ToString();
  }
  static std::vector<std::string> Texts(const RanTally& tally) {
    std::vector<std::string> texts;
    for (const RanTally::Entry& entry : tally.Entries()) {
      texts.push_back(entry.ran + "|" + entry.wanted + "|" + entry.because + "|" +
                      NumberText(entry.share));
    }
    return texts;
  }

  const PlanRegistry registry_ = BuiltinPlans();
};

constexpr const char* kGraph = "topk(k=64,index=graph,beam_width=300,sink=16,window=128)";

TEST_F(RanTallyTest, WithoutACallItIsEmpty) {
  EXPECT_TRUE(RanTally().empty());
  EXPECT_THAT(Texts(RanTally()), IsEmpty());
  EXPECT_FALSE(Begun(kGraph).empty());
  EXPECT_EQ(RanOf(Begun(kGraph), kGraph), kGraph);
}

TEST_F(RanTallyTest, WhatRanIsNoSubstitute) {
  RanTally tally = Begun(kGraph);
  tally.Add(Wanted::kQuery, Cause::kNone, 10);
  tally.Add(Wanted::kIndex, Cause::kNone, 10);
  EXPECT_THAT(Texts(tally), IsEmpty());
  EXPECT_EQ(RanOf(tally, kGraph), kGraph);
}

TEST_F(RanTallyTest, AnIndexThatNeverRanLeavesThePlan) {
  RanTally tally = Begun(kGraph);
  tally.Add(Wanted::kQuery, Cause::kNone, 40);
  tally.SetLeastTokens(Wanted::kIndex, 2048);
  tally.Add(Wanted::kIndex, Cause::kTooFewTokens, 10);
  tally.Add(Wanted::kIndex, Cause::kNotBuilt, 30);
  EXPECT_THAT(Texts(tally),
              ElementsAre("index=flat|index=graph|not built|0.75",
                          "index=flat|index=graph|too few tokens: one segment needs 2,048|0.25"));
  EXPECT_EQ(RanOf(tally, kGraph), "topk(k=64,sink=16,window=128)");
  tally.Add(Wanted::kIndex, Cause::kNone, 1);
  EXPECT_EQ(RanOf(tally, kGraph), kGraph) << "it ran for some tokens";
}

TEST_F(RanTallyTest, ARuleReplacesTheQuery) {
  RanTally tally = Begun(kGraph);
  tally.AddRule("sink and window hold all tokens: full", 5);
  EXPECT_THAT(Texts(tally), ElementsAre("full|topk|sink and window hold all tokens|1"));
  EXPECT_EQ(RanOf(tally, kGraph), "full");
  tally.Add(Wanted::kQuery, Cause::kNone, 15);
  tally.Add(Wanted::kIndex, Cause::kNone, 15);
  EXPECT_THAT(Texts(tally), ElementsAre("full|topk|sink and window hold all tokens|0.25"));
  EXPECT_EQ(RanOf(tally, kGraph), kGraph);
}

TEST_F(RanTallyTest, WhatTheOptimizerChoseIsSaidOfAnIndexThatWasAskedFor) {
  RanTally tally = Begun("auto(error=0.01,index=pq)");
  tally.Add(Wanted::kQuery, Cause::kNone, 4);
  tally.Add(Wanted::kIndex, Cause::kFullCheaper, 4);
  EXPECT_THAT(Texts(tally), ElementsAre("full|index=pq|reading everything is cheaper|1"));
  EXPECT_EQ(RanOf(tally, "auto(error=0.01,index=pq)"), "full");
}

TEST_F(RanTallyTest, WhatAnIndexScannedByItselfIsTakenFromWhatItDid) {
  RanTally tally = Begun(kGraph);
  tally.Add(Wanted::kIndex, Cause::kNone, 8);
  tally.MoveToLessWork(2);
  EXPECT_THAT(Texts(tally),
              ElementsAre("index=flat|index=graph|scoring every key is less work|0.25"));
}

TEST_F(RanTallyTest, EachThingThatAPlanReadsHasItsSubstitute) {
  struct Case {
    Wanted wanted;
    std::string plan;
    std::string text;
    std::string ran;
  };
  const std::vector<Case> cases = {
      {Wanted::kKeyPlanes, "topk(k=5,bits=8)", "bits=exact|bits=8|not built|1",
       "topk(k=5,sink=16,window=128)"},
      {Wanted::kKeyPlanes, "auto(error=0.01)", "bits=exact|bits=4|not built|1",
       "auto(error=0.01,bits=exact,sink=16,window=128)"},
      {Wanted::kValuePlanes, "auto(error=0.01,value_bits=8)",
       "value_bits=exact|value_bits=8|not built|1", "auto(error=0.01,bits=4,sink=16,window=128)"},
      {Wanted::kMeans, "topk(k=5,remainder=mean)", "every value|remainder=mean|not built|1",
       "topk(k=5,remainder=mean,sink=16,window=128)"},
      {Wanted::kClusters, "topk(k=5,index=graph,remainder=clusters)",
       "remainder=drop|remainder=clusters|not built|1", "topk(k=5,index=graph,sink=16,window=128)"},
      {Wanted::kIndex, "retroinfer", "index=flat|index=wave|not built|1",
       "topk(ratio=0.018,sink=4,window=64,tail=exact)"},
      {Wanted::kStatic, "topk(k=5,static=prefill:9)", "static=none|static=prefill:9|not built|1",
       "topk(k=5,sink=16,window=128)"}};
  for (const Case& c : cases) {
    RanTally tally = Begun(c.plan);
    tally.Add(Wanted::kQuery, Cause::kNone, 3);
    tally.Add(c.wanted, Cause::kNotBuilt, 3);
    EXPECT_THAT(Texts(tally), ElementsAre(c.text));
    EXPECT_EQ(RanOf(tally, c.plan), c.ran);
  }
}

}  // namespace
}  // namespace attndb::planner
