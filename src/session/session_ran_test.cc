// Goal:   Explain separates what ran from what the plan asks for. An index that is not built, too
//         short or not used is never reported as used, before calls and after them.
// Method: toy model; lanes of the background that stand still until a test lets them go on; each
//         reason in turn.
#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>

#include "api/stopped_db_test_util.h"

namespace attndb {
namespace {

using test::DBFixture;
using test::Tokens;
using test::ToyModel;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

class SessionRanTest : public DBFixture {
 protected:
  SessionRanTest() : DBFixture(/*background_builds=*/true) {}

  void StopBuilds(test::Event* release) {
    for (size_t lane = 0; lane < derived::kNumBuildLanes; ++lane) {
      test::StopLane(*db_, lane, release);
    }
  }

  // The texts of a layer's substitutes, without their shares.
  static std::vector<std::string> TextsOf(const LayerExplain& layer) {
    std::vector<std::string> texts;
    for (const Substitute& each : layer.substitutes) {
      texts.push_back(each.ran + " for " + each.wanted + ": " + each.because);
    }
    return texts;
  }
};

constexpr const char* kGraph = "topk(k=8,index=graph,sink=16,window=128)";
constexpr const char* kFlat = "topk(k=8,sink=16,window=128)";

TEST_F(SessionRanTest, ExplainDiffersBeforeAndAfterABuild) {
  const Tokens stored = StoreChain("a", std::vector<uint64_t>{3000}, 1);
  Session session = Resume(stored);
  ATTNDB_ASSERT_OK(session.SetPlan(kGraph));
  const Explain before = session.Explain();
  for (const LayerExplain& layer : before.layers) {
    EXPECT_EQ(layer.plan, kGraph);
    EXPECT_EQ(layer.ran, kFlat);
    EXPECT_THAT(TextsOf(layer), ElementsAre("index=flat for index=graph: not built"));
    EXPECT_EQ(layer.substitutes[0].share, 1);
    for (const HeadExplain& head : layer.heads) EXPECT_EQ(head.ran, kFlat);
  }
  EXPECT_THAT(before.Summary(),
              HasSubstr("ran       index=flat instead of index=graph: not built\n"));
  EXPECT_THAT(before.ToText(), HasSubstr("[index=flat instead of index=graph: not built]"));
  ATTNDB_ASSERT_OK(db_->Build("a", "graph").status());
  const Explain after = session.Explain();
  for (const LayerExplain& layer : after.layers) {
    EXPECT_EQ(layer.ran, kGraph);
    EXPECT_THAT(layer.substitutes, IsEmpty());
    for (const HeadExplain& head : layer.heads) EXPECT_EQ(head.ran, kGraph);
  }
  EXPECT_THAT(after.Summary(), Not(HasSubstr("instead of")));
}

// A call that ran before the build did not use the index, whatever is ready when somebody asks.
TEST_F(SessionRanTest, WhatCallsDidIsToldAfterTheBuild) {
  const Tokens stored = StoreChain("a", std::vector<uint64_t>{3000}, 1);
  test::Event release;
  StopBuilds(&release);
  Session session = Resume(stored);
  const std::vector<float> scanned = ProbeWith(&session, kGraph);
  release.Set();
  ATTNDB_ASSERT_OK(db_->WaitForBackground());
  LayerExplain layer = *session.Explain(1);
  EXPECT_EQ(layer.ran, kFlat);
  EXPECT_THAT(TextsOf(layer), ElementsAre("index=flat for index=graph: not built"));
  EXPECT_EQ(layer.substitutes[0].share, 1);
  EXPECT_EQ(layer.heads[0].visited_mean, 0);
  (void)Probe(&session);
  layer = *session.Explain(1);
  EXPECT_EQ(layer.ran, kGraph) << "it ran for some rows";
  ASSERT_EQ(layer.substitutes.size(), 1u);
  EXPECT_NEAR(layer.substitutes[0].share, 0.5, 1e-3);
  EXPECT_EQ(layer.substitutes[0].ToText(), "index=flat instead of index=graph for 50 %: not built");
  (void)ProbeWith(&session, kGraph);
  EXPECT_THAT(session.Explain(1)->substitutes, IsEmpty()) << "what ran under an earlier plan";
  EXPECT_GT(session.Explain(1)->heads[0].visited_mean, 0);
}

TEST_F(SessionRanTest, EachKindOfObjectIsToldUntilItIsThere) {
  const Tokens stored = StoreChain("a", std::vector<uint64_t>{3000}, 1);
  ATTNDB_ASSERT_OK(db_->WaitForBackground());
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"topk(k=8,index=clustered)", "index=flat for index=clustered: not built"},
      {"topk(k=8,index=roargraph)", "index=flat for index=roargraph: not built"},
      {"topk(k=8,index=pq)", "index=flat for index=pq: not built"},
      {"topk(k=8,index=quest)", "index=flat for index=quest: not built"},
      {"topk(k=8,index=infllm)", "index=flat for index=infllm: not built"},
      {"topk(k=8,index=wave,remainder=drop)", "index=flat for index=wave: not built"},
      {"topk(k=8,remainder=mean)", "every value for remainder=mean: not built"}};
  for (const auto& [plan, text] : cases) {
    SCOPED_TRACE(plan);
    test::Event release;
    StopBuilds(&release);
    Session session = Resume(stored);
    (void)ProbeWith(&session, plan);
    EXPECT_THAT(TextsOf(*session.Explain(1)), ElementsAre(text));
    release.Set();
    ATTNDB_ASSERT_OK(db_->WaitForBackground());
    (void)ProbeWith(&session, plan);
    EXPECT_THAT(TextsOf(*session.Explain(1)), IsEmpty());
    EXPECT_EQ(session.Explain(1)->ran, session.Explain(1)->plan);
  }
}

TEST_F(SessionRanTest, WhatIsTooShortForAnIndexIsCalledThat) {
  const Tokens stored = StoreChain("a", std::vector<uint64_t>{600}, 1);
  Session session = Resume(stored);
  for (const std::string index : {"graph", "quest", "clustered", "pq"}) {
    ATTNDB_ASSERT_OK(session.SetPlan("topk(k=8,index=" + index + ")"));
    const std::string text =
        "index=flat for index=" + index + ": too few tokens: one segment needs 2,048";
    EXPECT_THAT(TextsOf(*session.Explain(0)), ElementsAre(text)) << "before a call";
    (void)Probe(&session);
    EXPECT_THAT(TextsOf(*session.Explain(0)), ElementsAre(text)) << "after it";
    EXPECT_EQ(session.Explain(0)->ran, kFlat);
  }
}

// A segment that is too short keeps its keys scored, and the session's own tokens.
TEST_F(SessionRanTest, AChainTellsForHowManyTokensAnIndexIsNotThere) {
  const Tokens stored = StoreChain("a", std::vector<uint64_t>{5000, 300}, 1);
  MakeReady(stored, kGraph);
  Session session = Resume(stored);
  (void)ProbeWith(&session, kGraph);
  const LayerExplain layer = *session.Explain(1);
  EXPECT_EQ(layer.ran, kGraph);
  EXPECT_THAT(TextsOf(layer), ElementsAre("index=flat for index=graph: too few tokens: one "
                                          "segment needs 2,048"));
  EXPECT_NEAR(layer.substitutes[0].share, 193.0 / 5177, 1e-3);
}

TEST_F(SessionRanTest, RulesAndHeadsThatRunFullAreTold) {
  Session small = NewSession(kFlat);
  ATTNDB_ASSERT_OK(AppendTokens(&small, ToyModel::Tokens(100, 1), nullptr));
  EXPECT_THAT(TextsOf(*small.Explain(1)),
              ElementsAre("full for topk: sink and window hold all tokens"));
  (void)Probe(&small);
  EXPECT_THAT(TextsOf(*small.Explain(1)),
              ElementsAre("full for topk: sink and window hold all tokens"));
  EXPECT_EQ(small.Explain(1)->ran, "full");

  Session spoiled = NewSession(kFlat);
  ATTNDB_ASSERT_OK(AppendTokens(&spoiled, ToyModel::Tokens(400, 1),
                                [](LayerId layer, std::vector<float>* k, std::vector<float>*) {
                                  if (layer == 1) (*k)[0] = std::numeric_limits<float>::infinity();
                                }));
  (void)Probe(&spoiled);
  EXPECT_THAT(TextsOf(*spoiled.Explain(0)), IsEmpty());
  const LayerExplain layer = *spoiled.Explain(1);
  EXPECT_THAT(TextsOf(layer), ElementsAre("full for topk: NaN or Inf in K or V"));
  EXPECT_DOUBLE_EQ(layer.substitutes[0].share, 1.0 / 3);
  EXPECT_EQ(layer.heads[0].ran, "full");
  EXPECT_EQ(layer.heads[1].ran, kFlat);
}

// Such a call is exact under every plan: it says nothing of the plan's index.
TEST_F(SessionRanTest, CallsOfMoreRowsThanMayChooseAreNotCounted) {
  Open({.dense_query_tokens = 4});
  const Tokens stored = StoreChain("a", std::vector<uint64_t>{3000}, 1);
  MakeReady(stored, kGraph);
  SessionStart start = Start(test::Concat(stored, ToyModel::Tokens(20, 9)));
  ATTNDB_ASSERT_OK(start.session.SetPlan(kGraph));
  ATTNDB_ASSERT_OK(model_.Step(&start.session, start.rest));  // 20 rows at once.
  EXPECT_EQ(start.session.Explain(1)->num_queries, 20u);
  EXPECT_THAT(start.session.Explain(1)->substitutes, IsEmpty());
  EXPECT_EQ(start.session.Explain(1)->ran, kGraph);
}

TEST_F(SessionRanTest, AnIndexThatScoresEveryKeyIsNoIndex) {
  const Tokens stored = StoreChain("a", std::vector<uint64_t>{5000}, 1);
  const std::string plan = "topk(k=8,index=graph,beam_width=6000)";
  MakeReady(stored, plan);
  Session session = Resume(stored);
  (void)ProbeWith(&session, plan);
  const LayerExplain layer = *session.Explain(1);
  EXPECT_THAT(TextsOf(layer),
              ElementsAre("index=flat for index=graph: scoring every key is less work"));
  EXPECT_NEAR(layer.substitutes[0].share, 1, 1e-6);
  EXPECT_EQ(layer.ran, kFlat);
}

TEST_F(SessionRanTest, TokensThatMovedAreReadExactly) {
  const Tokens stored = StoreChain("a", std::vector<uint64_t>{5000}, 1);
  MakeReady(stored, kGraph);
  Session session = Resume(stored);
  ATTNDB_ASSERT_OK(session.DropOldest(1000, {.keep_first = 116}));
  (void)ProbeWith(&session, kGraph);
  const LayerExplain layer = *session.Explain(1);
  EXPECT_THAT(TextsOf(layer), ElementsAre("index=flat for index=graph: the tokens moved when "
                                          "others were dropped"));
  EXPECT_NEAR(layer.substitutes[0].share, 100.0 / (4021 - 144), 1e-3);
}

TEST_F(SessionRanTest, SubstitutesOfAllLayersAreOneListInJsonToo) {
  const Tokens stored = StoreChain("a", std::vector<uint64_t>{600}, 1);
  Session session = Resume(stored);
  ATTNDB_ASSERT_OK(session.SetPlan("full; layers 1: topk(k=8,index=quest)"));
  const Explain explain = session.Explain();
  const std::vector<Substitute> all = explain.Substitutes();
  ASSERT_EQ(all.size(), 1u);
  EXPECT_EQ(all[0].share, 0.5) << "one of two layers";
  const auto json = nlohmann::json::parse(explain.ToJson());
  const nlohmann::json expected = {{"ran", "index=flat"},
                                   {"wanted", "index=quest"},
                                   {"because", "too few tokens: one segment needs 2,048"},
                                   {"share", 1.0}};
  EXPECT_EQ(json["layers"][1]["substitutes"], nlohmann::json::array({expected}));
  EXPECT_EQ(json["layers"][1]["ran"], kFlat);
  EXPECT_EQ(json["layers"][0]["substitutes"], nlohmann::json::array());
  EXPECT_EQ(json["substitutes"][0]["share"], 0.5);
  EXPECT_EQ(json["layers"][1]["heads"][0]["ran"], kFlat);
}

}  // namespace
}  // namespace attndb
