// Goal:   `auto(rules=alaya)` runs, for each layer, the plan that Fig. 8 of AlayaDB gives for the
//         session's context. Explain names the rule that chose the plan.
// Method: toy model; the answers of the rules equal, bit by bit, those of the plans written out.
#include "api/db_test_util.h"

namespace attndb {
namespace {

using test::DBFixture;
using test::Tokens;
using test::ToyModel;
using ::testing::HasSubstr;

// Memory that holds none of these contexts, of 1,074 bytes; and the store's, which holds all.
constexpr const char* kRules = "auto(rules=alaya,memory=1e-06)";
constexpr const char* kOfTheStore = "auto(rules=alaya)";
constexpr const char* kFlat = "dipr(alpha=0.012,sink=128,window=512,tail=exact)";
constexpr const char* kGraph =
    "dipr(alpha=0.012,index=roargraph,walk=diprs,l0=1024,expand=all,sink=128,window=512,tail="
    "exact)";

class SessionRulesTest : public DBFixture {
 protected:
  SessionRulesTest() : DBFixture(/*background_builds=*/true) {}

  static std::string WrittenOut() { return std::string(kGraph) + "; layers 0: " + kFlat; }

  // The plan that ran in a layer, for every head, and the reason.
  static void ExpectRan(const Session& session, LayerId layer, const std::string& plan,
                        const std::string& rule) {
    const LayerExplain explain = *session.Explain(layer);
    EXPECT_EQ(explain.plan, kRules);
    EXPECT_EQ(explain.reason, rule) << layer;
    for (const HeadExplain& head : explain.heads) {
      EXPECT_EQ(head.plan, plan) << layer;
      EXPECT_EQ(head.reason, rule) << layer;
    }
  }
};

TEST_F(SessionRulesTest, AShortContextIsReadWhole) {
  const Tokens stored = StoreChain("a", std::vector<uint64_t>{1000}, 1);
  Session session = Resume(stored, 20);
  const std::vector<float> full = ProbeWith(&session, "full");
  EXPECT_EQ(ProbeWith(&session, kRules), full);
  ExpectRan(session, 0, "full", "Fig. 8: short context: full");
  // It grows beyond that.
  ATTNDB_ASSERT_OK(AppendTokens(&session, ToyModel::Tokens(10, 4), nullptr));
  (void)Probe(&session);
  ExpectRan(session, 0, kFlat, "Fig. 8: long context, layer 0: DIPR, flat");
}

TEST_F(SessionRulesTest, ALongContextIsSearchedByDipr) {
  const Tokens stored = StoreChain("a", std::vector<uint64_t>{3000}, 1);
  MakeReady(stored, WrittenOut());
  Session session = Resume(stored, 20);
  const std::vector<float> written_out = ProbeWith(&session, WrittenOut());
  EXPECT_EQ(ProbeWith(&session, kRules), written_out);
  ExpectRan(session, 0, kFlat, "Fig. 8: long context, layer 0: DIPR, flat");
  ExpectRan(session, 1, kGraph, "Fig. 8: long context: DIPRS by a graph");
  EXPECT_EQ(session.Explain(0)->num_middle, 3000u - 128 - 512);
  EXPECT_EQ(session.Explain(0)->heads[0].visited_mean, 0);
  EXPECT_GT(session.Explain(1)->heads[0].visited_mean, 0);
  EXPECT_THAT(session.Explain().ToText(), HasSubstr("Fig. 8: long context: DIPRS by a graph"));
}

TEST_F(SessionRulesTest, AContextThatIsReusedInPartIsFiltered) {
  const Tokens stored = StoreChain("a", std::vector<uint64_t>{3000}, 1);
  MakeReady(stored, WrittenOut());
  Session session = Resume(Tokens(stored.begin(), stored.begin() + 2200), 20);
  const std::vector<float> written_out = ProbeWith(&session, WrittenOut());
  EXPECT_EQ(ProbeWith(&session, kRules), written_out);
  ExpectRan(session, 0, kFlat, "Fig. 8: partial reuse, layer 0: filtered DIPR, flat");
  ExpectRan(session, 1, kGraph, "Fig. 8: partial reuse: filtered DIPRS by a graph");
  EXPECT_THAT(session.Explain(1)->notes, HasSubstr("the first 2200 of 3000 stored tokens"));
  const LayerSpec& shape = model_.spec().layers[1];
  const std::vector<float> q = model_.Queries(1, Tokens{7}, session.num_tokens() - 1);
  ATTNDB_ASSERT_OK_AND_ASSIGN(
      const std::vector<CriticalTokens> found,
      session.Search(1, test::ViewOf(q, shape.num_q_heads, shape.head_dim)));
  for (const CriticalTokens& head : found) {
    for (const uint32_t token : head.tokens) EXPECT_LT(token, 2200u - 512);
  }
}

TEST_F(SessionRulesTest, MemoryThatHoldsAllIsSearchedByBlocks) {
  const Tokens stored = StoreChain("a", std::vector<uint64_t>{6000}, 1);
  Session session = Resume(stored, 20);
  const std::vector<float> full = ProbeWith(&session, "full");
  // k is more than the middle has.
  EXPECT_LT(Difference(ProbeWith(&session, kOfTheStore), full), 1e-5);
  const LayerExplain layer = *session.Explain(1);
  EXPECT_THAT(layer.reason, HasSubstr("memory holds all keys and values: top-k over blocks"));
  EXPECT_THAT(layer.heads[0].plan, HasSubstr("topk(k=4096,index=infllm"));
  EXPECT_EQ(layer.heads[0].reason, layer.reason);
  EXPECT_EQ(layer.notes, "");
}

TEST_F(SessionRulesTest, TheBudgetIsTheMemoryThatTheStoreMayTake) {
  const Tokens stored = StoreChain("a", std::vector<uint64_t>{5000}, 1);
  // The last token is for the engine to compute.
  const uint64_t kv_bytes = (stored.size() - 1) * model_.spec().KvBytesPerToken();
  for (const uint64_t limit : {kv_bytes, kv_bytes - 1}) {
    Open({.host_memory_bytes = limit});
    ATTNDB_ASSERT_OK_AND_ASSIGN(const SessionStart start,
                                db_->CreateSession(model_.spec(), stored, {.plan = kOfTheStore}));
    EXPECT_THAT(start.session.Explain(1)->reason, HasSubstr(limit == kv_bytes ? "top-k" : "DIPRS"));
  }
}

TEST_F(SessionRulesTest, EnginesWaitForTheGraph) {
  const Tokens stored = StoreChain("a", std::vector<uint64_t>{3000}, 1);
  Session session = Resume(stored, 20);
  ATTNDB_ASSERT_OK(session.SetPlan("auto(rules=alaya,memory=1e-06,await=1)"));
  EXPECT_FALSE(session.awaits_derived(0)) << "flat";
  ASSERT_TRUE(session.awaits_derived(1));
  ATTNDB_ASSERT_OK(session.AwaitDerived(1));
  EXPECT_FALSE(session.awaits_derived(1));
  (void)Probe(&session);
  EXPECT_GT(session.Explain(1)->heads[0].visited_mean, 0);
}

TEST_F(SessionRulesTest, APyramidsLayersSelectTheirShares) {
  const Tokens stored = StoreChain("a", std::vector<uint64_t>{3000}, 1);
  Session session = Resume(stored, 20);
  (void)ProbeWith(&session, "topk(k=100,budget=pyramid)");
  const uint32_t last = model_.spec().num_layers() - 1;
  EXPECT_EQ(session.Explain(0)->selected_mean, 195);
  EXPECT_EQ(session.Explain(0)->predicted_selected, 195);
  EXPECT_EQ(session.Explain(last)->selected_mean, 5);
  EXPECT_EQ(session.Explain(last)->plan, "topk(k=100,budget=pyramid,sink=16,window=128)");
  EXPECT_EQ(session.Explain(last)->heads[0].plan, "topk(k=5,sink=16,window=128)");
}

}  // namespace
}  // namespace attndb
