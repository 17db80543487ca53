// Goal:   the rules of AlayaDB's Fig. 8 hold in their order, and beyond them a head takes what is
//         cheaper.
// Method: pure functions over made-up sizes and constants; no disk.
#include "planner/optimizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "db/builtin_plans.h"

namespace attndb::planner {
namespace {

using ::testing::HasSubstr;

const LayerSpec kSpec = {
    .num_q_heads = 9, .num_kv_heads = 3, .head_dim = 64, .v_head_dim = 64, .scale = 0.125f};

class OptimizerTest : public ::testing::Test {
 protected:
  OptimizerTest() : registry_(internal::BuiltinPlans()) {}

  LayerQuestion Ask(std::string_view text, uint64_t num_tokens) {
    plan_ = Plan::Parse(text, registry_)->ForLayer(0);
    LayerQuestion question;
    question.layer = 1;
    question.spec = &spec_;
    question.plan = &plan_;
    question.aimed_error = plan_.error;
    question.registry = &registry_;
    question.chain.num_tokens = num_tokens;
    question.chain.num_stored = num_tokens;
    question.chain.num_plane_tokens = num_tokens;
    return question;
  }
  HeadChoice Choose(const LayerQuestion& question, const HeadStatistics& head = {}) {
    return ChooseHead(question, *plan_.index, head, machine_);
  }

  PlanRegistry registry_;
  LayerSpec spec_ = kSpec;
  LayerPlan plan_;
  MachineConstants machine_;
};

TEST_F(OptimizerTest, RulesComeFirst) {
  EXPECT_EQ(RuleFor(Ask("full", 100)), "");
  EXPECT_EQ(RuleFor(Ask("auto(error=0.01)", kShortContextTokens)), "short context: full");
  EXPECT_EQ(RuleFor(Ask("auto(error=0.01)", kShortContextTokens + 1)), "");
  EXPECT_EQ(RuleFor(Ask("topk(k=3)", 500)), "");
  EXPECT_THAT(std::string(RuleFor(Ask("topk(k=3)", 144))), HasSubstr("sink and window"));
  LayerQuestion many = Ask("auto(error=0.01)", 9000);
  many.num_rows = 65;
  EXPECT_THAT(std::string(RuleFor(many)), HasSubstr("dense_query_tokens"));
  spec_.sliding_window = 100;
  EXPECT_THAT(std::string(RuleFor(Ask("auto(error=0.01)", 9000))), HasSubstr("sliding-window"));
}

TEST_F(OptimizerTest, LongContextsAreSearchedAndShortOnesRead) {
  EXPECT_TRUE(Choose(Ask("auto(error=0.01)", 1200)).full);
  const HeadChoice far = Choose(Ask("auto(error=0.01)", 131072));
  EXPECT_FALSE(far.full);
  EXPECT_EQ(far.reason, Reason::kSparseCheaper);
  EXPECT_LT(far.sparse_cost.bytes, 0.3 * far.full_cost.bytes);
  EXPECT_LT(far.sparse_ns, far.full_ns);
}

TEST_F(OptimizerTest, SmallerErrorsNeedMoreRows) {
  double last = 0;
  for (const char* plan : {"auto(error=0.1)", "auto(error=0.01)", "auto(error=0.005)"}) {
    const HeadChoice choice = Choose(Ask(plan, 65536));
    EXPECT_GT(choice.rows, last);
    last = choice.rows;
  }
  EXPECT_LE(Choose(Ask("auto(error=0.000001)", 65536)).rows, 65536);
}

TEST_F(OptimizerTest, CodesOfValuesCostLessThanRowsOfV) {
  const HeadChoice exact = Choose(Ask("auto(error=0.01)", 131072));
  const HeadChoice coded = Choose(Ask("auto(error=0.01,value_bits=8)", 131072));
  EXPECT_LT(coded.sparse_cost.bytes, exact.sparse_cost.bytes);
  EXPECT_LT(coded.sparse_cost.ns, exact.sparse_cost.ns);
}

TEST_F(OptimizerTest, MeansOfTheRemainderArePriced) {
  const HeadChoice dropped = Choose(Ask("topk(k=1000,sink=4,window=6)", 1100));
  const HeadChoice by_means = Choose(Ask("topk(k=1000,sink=4,window=6,remainder=mean)", 1100));
  // Of 1,090 tokens of 64 channels: a 64th of the mean's two bytes.
  EXPECT_EQ(by_means.sparse_cost.bytes, dropped.sparse_cost.bytes + 3 * 1090 * 64 * 2.0 / 64);
}

TEST_F(OptimizerTest, ABroadHeadRunsFull) {
  HeadStatistics head;
  head.selected = 50000;
  head.rows = MeanRatio(64, 8);
  const HeadChoice choice = Choose(Ask("auto(error=0.01)", 131072), head);
  EXPECT_TRUE(choice.full);
  EXPECT_EQ(choice.reason, Reason::kBroadHead);
}

TEST_F(OptimizerTest, WhatIsAskedIsPricedAndNotReplaced) {
  const HeadChoice choice = Choose(Ask("topk(k=1000,sink=4,window=6)", 1100));
  EXPECT_FALSE(choice.full);
  EXPECT_EQ(choice.selected, 1000);
  EXPECT_EQ(choice.sparse_cost.bytes, 1100 * 128 + 3 * 1010 * 128);
}

TEST_F(OptimizerTest, WithoutPlanesKeysAreScored) {
  LayerQuestion question = Ask("auto(error=0.01)", 131072);
  EXPECT_LT(Choose(question).sparse_cost.bytes, 131072 * 128);
  question.chain.num_plane_tokens = 0;
  question.chain.planes_missing = true;
  EXPECT_GT(Choose(question).sparse_cost.bytes, 131072 * 128);
  EXPECT_THAT(NotesOf(question), HasSubstr("no key planes"));
}

TEST_F(OptimizerTest, NotesSayWhatTheRulesFound) {
  LayerQuestion question = Ask("auto(error=0.01)", 5001);
  EXPECT_EQ(NotesOf(question), "");
  question.chain.num_stored = 5000;
  question.chain.num_filtered = 3000;
  question.chain.kv_bytes = 100;
  question.chain.gpu_bytes = 100;
  EXPECT_THAT(NotesOf(question), HasSubstr("the first 5000 of 8000 stored tokens"));
  EXPECT_THAT(NotesOf(question), HasSubstr("topk over a coarse index"));
  question.chain.gpu_bytes = 99;
  EXPECT_THAT(NotesOf(question), HasSubstr("can't hold 100"));
}

TEST_F(OptimizerTest, LongContextsMayBeDrawnFromByAnIndex) {
  ASSERT_NE(DrawingIndex(Ask("auto(error=0.01)", 131072)), nullptr);
  EXPECT_EQ(DrawingIndex(Ask("auto(error=0.01)", 131072))->name, "clustered");
  for (const auto& [group_size, least] :
       {std::pair{1u, 24576u}, {2u, 36864u}, {3u, 49152u}, {8u, 49152u}}) {
    spec_.num_q_heads = spec_.num_kv_heads * group_size;
    EXPECT_EQ(DrawingIndex(Ask("auto(error=0.01)", least - 1)), nullptr) << group_size;
    EXPECT_NE(DrawingIndex(Ask("auto(error=0.01)", least)), nullptr) << group_size;
  }
  EXPECT_EQ(DrawingIndex(Ask("auto(error=0.01,bits=8)", 131072)), nullptr);
  EXPECT_EQ(DrawingIndex(Ask("auto(error=0.01,index=flat)", 131072)), nullptr);
  EXPECT_EQ(DrawingIndex(Ask("topk(k=8)", 131072)), nullptr);
}

TEST_F(OptimizerTest, AnIndexIsTakenWhereItIsCheaperAndMissesLittle) {
  const LayerQuestion question = Ask("auto(error=0.01)", 131072);
  const IndexType* const drawing = DrawingIndex(question);
  const auto takes = [&](const HeadStatistics& head) {
    return TakesIndex(question, head, Choose(question, head),
                      ChooseHead(question, *drawing, head, machine_));
  };
  HeadStatistics head;
  head.index_time = MeanRatio(0.5, 8);
  EXPECT_TRUE(takes(head));
  head.missed = 0.004;
  EXPECT_TRUE(takes(head));
  head.missed = 0.006;  // Over half of the error.
  EXPECT_FALSE(takes(head));
  head.missed = 0;
  head.index_time = MeanRatio(64, 8);
  EXPECT_FALSE(takes(head));
}

TEST_F(OptimizerTest, SettledLayersArePricedToo) {
  EXPECT_EQ(PriceSettled(Ask("full", 1000), machine_).predicted().bytes, 1000 * 256);
  EXPECT_EQ(PriceSettled(Ask("window(sink=4,window=6)", 1000), machine_).predicted().bytes,
            10 * 256);
  spec_.sliding_window = 100;
  EXPECT_EQ(PriceSettled(Ask("topk(k=3)", 1000), machine_).predicted().bytes, 100 * 256);
}

}  // namespace
}  // namespace attndb::planner
