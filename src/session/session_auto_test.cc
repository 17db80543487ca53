// Goal:   `auto` runs the plan that it chose for each head and says so in Explain. The next session
//         begins with the measurements of this one.
// Method: a toy model, and prices under which a search is nearly free or nearly impossible.
#include <gmock/gmock.h>

#include <limits>

#include "api/database.h"
#include "api/db_test_util.h"
#include "planner/builtin_plans.h"
#include "testing/event.h"

namespace attndb::internal {
namespace {

using test::ToyModel;
using ::testing::AllOf;
using ::testing::HasSubstr;
using Tokens = std::vector<TokenId>;

constexpr uint64_t kNumTokens = 1500;
constexpr uint64_t kNumLong = 51000;  // Long enough for clusters.

// A machine that reads so slowly, or finds rows so slowly, that there is nothing to think about.
planner::MachineConstants Machine(bool searches) {
  planner::MachineConstants machine;
  machine.measured = true;
  machine.select = machine.head = machine.row = searches ? 0 : 1e6;
  machine.attend = {1e4, 1e4, 1e4, 1e4};
  return machine;
}

// A machine on which a head's learned ratios decide.
planner::MachineConstants MachineOfCloseCalls() {
  planner::MachineConstants machine = Machine(/*searches=*/true);
  machine.attend = {100, 100, 100, 100};
  machine.row = 20;
  return machine;
}

class SessionAutoTest : public ::testing::Test {
 protected:
  SessionAutoTest() : dir_(test::TempDir::InMemory()) { Open(Machine(/*searches=*/true)); }

  void Open(const planner::MachineConstants& machine, DBOptions options = {}) {
    database_.reset();
    Result<std::shared_ptr<Database>> opened =
        Database::Open(dir_.File("store"), options, storage::PosixFileSystem(),
                       {.registry = nullptr, .machine = machine});
    ASSERT_TRUE(opened.ok()) << opened.status();
    database_ = *std::move(opened);
  }

  std::unique_ptr<SessionImpl> Resume(const std::string& plan, const Tokens& tokens = {}) {
    const Tokens& prompt = tokens.empty() ? stored_ : tokens;
    Result<std::unique_ptr<SessionImpl>> session =
        database_->OpenSession("t", model_.spec(), prompt, prompt.size(), {.plan = plan});
    EXPECT_TRUE(session.ok()) << session.status();
    return *std::move(session);
  }

  // K and V of new tokens in every layer.
  void Append(SessionImpl* session, const Tokens& tokens) {
    const uint64_t position = session->num_tokens();
    for (LayerId layer = 0; layer < model_.spec().num_layers(); ++layer) {
      const LayerSpec& shape = model_.spec().layers[layer];
      std::vector<float> k = model_.Keys(layer, tokens, position);
      if (has_nan_ && layer == 0) k[shape.head_dim] = std::numeric_limits<float>::quiet_NaN();
      const std::vector<float> v = model_.Values(layer, tokens, position);
      ASSERT_TRUE(session
                      ->Append(layer, test::ViewOf(k, shape.num_kv_heads, shape.head_dim),
                               test::ViewOf(v, shape.num_kv_heads, shape.v_head_dim))
                      .ok());
    }
  }

  void StoreContext(uint64_t num_tokens = kNumTokens) {
    stored_ = ToyModel::Tokens(num_tokens, 1);
    const auto session = Resume("full", Tokens{1});
    Append(session.get(), stored_);
    ASSERT_TRUE(database_->Store(session.get(), stored_, {.name = "a"}).ok());
    ASSERT_TRUE(database_->store()->background()->Wait({}).ok());  // Its key planes.
  }

  // Hints for sessions of the stored context: what heads of layer 0 cost.
  void LearnThatScansAreSlow(uint32_t kv_head) {
    ContextStatistics learned;
    for (const LayerSpec& layer : model_.spec().layers) learned.emplace_back(layer.num_kv_heads);
    for (planner::HeadStatistics& head : learned[0]) {
      head.time_of(planner::Method::kScan) = planner::MeanRatio(1, 8);
    }
    learned[0][kv_head].time_of(planner::Method::kScan) = planner::MeanRatio(64, 8);
    database_->hints()->NoteContext(Resume("full")->chain().context(), learned);
  }

  // Attention of the newest token in every layer.
  std::vector<float> Attend(SessionImpl* session) {
    const Tokens newest = {stored_.back()};
    std::vector<float> all;
    for (LayerId layer = 0; layer < model_.spec().num_layers(); ++layer) {
      const LayerSpec& shape = model_.spec().layers[layer];
      const std::vector<float> q = model_.Queries(layer, newest, stored_.size() - 1);
      std::vector<float> out(size_t{shape.num_q_heads} * shape.v_head_dim);
      const auto view = MutableTensorView::Contiguous(out.data(), DType::kFloat32, 1,
                                                      shape.num_q_heads, shape.v_head_dim);
      EXPECT_TRUE(
          session->Attend(layer, test::ViewOf(q, shape.num_q_heads, shape.head_dim), view, nullptr)
              .ok());
      all.insert(all.end(), out.begin(), out.end());
    }
    return all;
  }

  ToyModel model_;
  bool has_nan_ = false;  // Whether kv head 1 of layer 0 has one in the first key.
  test::TempDir dir_;
  std::shared_ptr<Database> database_;
  Tokens stored_;
};

TEST_F(SessionAutoTest, SearchesWhereThatIsCheaperAndReadsWhereItIsNot) {
  StoreContext();
  const std::vector<float> full = Attend(Resume("full").get());
  auto session = Resume("auto(error=0.05)");
  Attend(session.get());
  for (const LayerExplain& layer : session->Explain().layers) {
    EXPECT_EQ(layer.reason, "") << layer.layer;
    for (const HeadExplain& head : layer.heads) {
      EXPECT_EQ(head.plan, "auto(error=0.05,bits=4,sink=16,window=128)");
      EXPECT_EQ(head.reason, "cheaper than full");
      EXPECT_GT(head.other_us, head.predicted_us);
      EXPECT_GT(head.time_us, 0);
      EXPECT_GE(head.error, 0) << "a draw estimates its error";
    }
  }
  session.reset();
  Open(Machine(/*searches=*/false));
  session = Resume("auto(error=0.05)");
  EXPECT_EQ(Attend(session.get()), full);
  for (const LayerExplain& layer : session->Explain().layers) {
    EXPECT_EQ(layer.reason, "reading everything is cheaper: full");
    EXPECT_EQ(layer.bytes_touched, layer.predicted_bytes);
    double heads_us = 0;
    for (const HeadExplain& head : layer.heads) {
      EXPECT_EQ(head.plan, "full");
      heads_us += head.predicted_us;
    }
    EXPECT_NEAR(layer.predicted_us, heads_us, heads_us * 1e-6);  // One thread.
  }
}

TEST_F(SessionAutoTest, ReadsCodesOfValuesWhereItIsToldToAndNowhereElse) {
  StoreContext();
  const derived::Kind& codes = database_->kinds().ForUse(derived::kValuePlanes);
  for (const auto& [plan, reads] :
       {std::pair{"auto(error=0.05)", false}, std::pair{"auto(error=0.05,value_bits=8)", true}}) {
    Attend(Resume(plan).get());
    ASSERT_TRUE(database_->store()->background()->Wait({}).ok());
    Attend(Resume(plan).get());
    EXPECT_EQ(database_->store()->objects().counters(codes).num_read > 0, reads) << plan;
  }
}

TEST_F(SessionAutoTest, HeadsOfALayerMayDiffer) {
  StoreContext();
  LearnThatScansAreSlow(/*kv_head=*/1);
  Open(MachineOfCloseCalls());
  const auto session = Resume("auto(error=0.1)");
  const LayerExplain planned = *session->ExplainLayer(0);
  EXPECT_EQ(planned.reason, "");
  EXPECT_NE(planned.heads[0].plan, "full");
  EXPECT_EQ(planned.heads[1].plan, "full");
  Attend(session.get());
  const LayerExplain run = *session->ExplainLayer(0);
  EXPECT_EQ(run.heads[1].bytes_touched, planned.heads[1].predicted_bytes);
  EXPECT_EQ(run.heads[1].selected_mean, 0);
  EXPECT_NE(run.heads[0].bytes_touched, run.heads[1].bytes_touched);
}

TEST_F(SessionAutoTest, WhatASessionLearnedIsKeptWithTheContext) {
  StoreContext();
  {
    const auto session = Resume("auto(error=0.05)");
    for (int i = 0; i < 40; ++i) Attend(session.get());
  }
  const ContextId context = Resume("full")->chain().context();
  const auto before = database_->hints()->FindContext(context);
  ASSERT_TRUE(before.has_value());
  EXPECT_GT((*before)[0][0].time_of(planner::Method::kScan).count(), 0u);
  EXPECT_GT((*before)[0][0].rows.count(), 0u) << "draws tell how difficult a head is";
  Open(Machine(/*searches=*/true));
  EXPECT_EQ(database_->hints()->FindContext(context)->size(), before->size());
  EXPECT_GT(
      (*database_->hints()->FindContext(context))[0][0].time_of(planner::Method::kScan).count(),
      0u);
}

TEST_F(SessionAutoTest, WhatWasLearnedOfATextIsNotTakenForTheTextThatReplacesIt) {
  StoreContext();
  LearnThatScansAreSlow(0);
  const ContextId before = Resume("full")->chain().context();
  ASSERT_TRUE(database_->hints()->FindContext(before).has_value());
  stored_ = ToyModel::Tokens(kNumTokens, 2);
  const auto session = Resume("full", Tokens{1});
  Append(session.get(), stored_);
  ASSERT_TRUE(database_->Store(session.get(), stored_, {.name = "a", .replace = true}).ok());
  const ContextId now = Resume("full")->chain().context();
  EXPECT_NE(now, before);
  EXPECT_FALSE(database_->hints()->FindContext(now).has_value());
}

TEST_F(SessionAutoTest, WhatAFewCallsTaughtIsNotKept) {
  StoreContext();
  Attend(Resume("auto(error=0.05)").get());
  const ContextId context = Resume("full")->chain().context();
  EXPECT_FALSE(database_->hints()->FindContext(context).has_value());
}

// A head whose index does not exist yet scores all keys. The time of this says nothing of the
// index.
TEST_F(SessionAutoTest, AnIndexIsJudgedOnceItIsThere) {
  constexpr const char* kPlan = "auto(error=0.05,index=clustered)";
  StoreContext(3000);
  const ContextId context = Resume("full")->chain().context();
  const auto num_judged = [&] {
    const auto learned = database_->hints()->FindContext(context);
    return learned ? (*learned)[0][0].time_of(planner::Method::kIndex).count() : 0;
  };
  derived::Lanes* const background = database_->store()->background();
  test::Event is_free;
  for (const size_t lane : {derived::kFastLane, derived::kSlowLane}) {
    background->Add(lane, {.run = [&](derived::Lanes::Control*) {
                      is_free.Await();
                      return Status::Ok();
                    }});
  }
  {
    const auto session = Resume(kPlan);
    for (int i = 0; i < 40; ++i) Attend(session.get());
  }
  EXPECT_EQ(num_judged(), 0u);
  {
    const auto session = Resume(kPlan);
    Attend(session.get());
    is_free.Set();
    EXPECT_TRUE(background->Wait({}).ok());
    for (int i = 0; i < 40; ++i) Attend(session.get());
  }
  EXPECT_GT(num_judged(), 0u);
}

// However often it is attended to.
TEST_F(SessionAutoTest, AContextThatIsTooShortForAnIndexAsksForNone) {
  StoreContext(2100);
  const auto session = Resume("auto(error=0.05)");
  for (int i = 0; i < 60; ++i) Attend(session.get());
  ASSERT_TRUE(database_->store()->background()->Wait({}).ok());
  const derived::Kind& clusters = database_->kinds().ForUse(derived::kClusters);
  EXPECT_EQ(database_->store()->objects().counters(clusters).num_built, 0u);
}

TEST_F(SessionAutoTest, ExplainTellsWhatIsPreferredAndNotWhatIsTried) {
  StoreContext();
  Open(MachineOfCloseCalls());
  const auto session = Resume("auto(error=0.1)");
  for (int i = 0; i < 70; ++i) {
    for (const LayerExplain& layer : session->Explain().layers) {
      for (const HeadExplain& head : layer.heads) {
        EXPECT_NE(head.reason, "seemed slower; measured again") << i;
      }
    }
    Attend(session.get());
  }
}

TEST_F(SessionAutoTest, ExplainCountsWhatADrawByCodesReads) {
  StoreContext(3000);
  Open(Machine(/*searches=*/true), {.measure_machine = false});
  const auto session = Resume("auto(error=0.05,index=pq)");
  Attend(session.get());
  ASSERT_TRUE(database_->store()->background()->Wait({}).ok());
  Attend(session.get());
  const LayerExplain layer = *session->ExplainLayer(1);
  for (const HeadExplain& head : layer.heads) {
    EXPECT_GT(head.weighed_mean, 0);
    EXPECT_GT(head.drawn_keys_mean, 0);
    EXPECT_GT(head.drawn_values_mean, 0);
  }
}

// Whatever others told meanwhile of the context.
TEST_F(SessionAutoTest, AForkBeginsWithWhatItsSessionLearned) {
  StoreContext();
  Open(MachineOfCloseCalls());
  LearnThatScansAreSlow(/*kv_head=*/1);
  const auto session = Resume("auto(error=0.1)");
  ASSERT_EQ(session->ExplainLayer(0)->heads[1].plan, "full");
  LearnThatScansAreSlow(/*kv_head=*/0);
  const Result<std::unique_ptr<SessionImpl>> fork = session->Fork();
  ASSERT_TRUE(fork.ok()) << fork.status();
  const LayerExplain planned = *(*fork)->ExplainLayer(0);
  EXPECT_NE(planned.heads[0].plan, "full");
  EXPECT_EQ(planned.heads[1].plan, "full");
}

TEST_F(SessionAutoTest, AHeadThatIsReadWholeForItsNanTeachesNothing) {
  has_nan_ = true;
  StoreContext();
  {
    const auto session = Resume("auto(error=0.05)");
    for (int i = 0; i < 40; ++i) Attend(session.get());
    const LayerExplain layer = *session->ExplainLayer(0);
    EXPECT_GT(layer.heads[0].other_us, 0);
    EXPECT_EQ(layer.heads[1].other_us, -1) << "it has no choice";
  }
  const ContextId context = Resume("full")->chain().context();
  const auto learned = database_->hints()->FindContext(context);
  ASSERT_TRUE(learned.has_value());
  EXPECT_NE((*learned)[0][0].time, planner::HeadStatistics().time);
  EXPECT_EQ((*learned)[0][1].time, planner::HeadStatistics().time);
}

TEST_F(SessionAutoTest, AShortContextIsReadWhole) {
  const auto session = Resume("auto(error=0.05)", Tokens{1});
  stored_ = ToyModel::Tokens(kNumTokens, 1);
  Append(session.get(), ToyModel::Tokens(500, 1));
  Attend(session.get());
  EXPECT_EQ(session->ExplainLayer(0)->reason, "short context: full");
  EXPECT_EQ(session->ExplainLayer(0)->heads[0].reason, "short context: full");
}

TEST_F(SessionAutoTest, AnObjectiveThatCantBeMetIsReported) {
  StoreContext();
  const auto session = Resume("auto(tpot=0.000001)");
  Attend(session.get());
  const Explain explain = session->Explain();
  EXPECT_TRUE(explain.unreachable);
  EXPECT_EQ(explain.tpot_error, 0.5);
  EXPECT_THAT(explain.ToText(), HasSubstr("UNREACHABLE"));
  EXPECT_THAT(explain.ToJson(), HasSubstr("\"unreachable\":true"));
  EXPECT_THAT(explain.layers[0].heads[0].plan, HasSubstr("auto(error=0.5"));
  const auto easy = Resume("auto(tpot=100000)");
  EXPECT_FALSE(easy->Explain().unreachable);
  EXPECT_EQ(easy->Explain().tpot_error, 0.005);
}

// The rest for layer 0 depends on the time of layer 1: too much, if it reads everything.
TEST_F(SessionAutoTest, AnObjectiveIsMetAnewWhenAPlanIsSet) {
  StoreContext();
  Open(Machine(/*searches=*/true), {.measure_machine = false});
  const auto session = Resume("auto(tpot=10); layers 1: full");
  ASSERT_TRUE(session->Explain().unreachable);
  Attend(session.get());
  ASSERT_TRUE(database_->store()->background()->Wait({}).ok());  // Planes are in memory now.
  Attend(session.get());
  const uint64_t bytes_before = session->ExplainLayer(0)->bytes_touched;
  ASSERT_TRUE(session->SetPlan("auto(tpot=10)").ok());
  Attend(session.get());
  const auto fresh = Resume("auto(tpot=10)");
  Attend(fresh.get());
  EXPECT_EQ(session->ExplainLayer(0)->bytes_touched, fresh->ExplainLayer(0)->bytes_touched);
  EXPECT_GT(session->ExplainLayer(0)->bytes_touched, bytes_before);
}

TEST_F(SessionAutoTest, NotesNamePartialReuse) {
  StoreContext();
  Tokens half(stored_.begin(), stored_.begin() + 1200);
  EXPECT_THAT(Resume("auto(error=0.05)", half)->ExplainLayer(1)->notes,
              HasSubstr("partial reuse: filtered to the first 1200 of 1500"));
  EXPECT_THAT(Resume("auto(error=0.05)")->Explain().ToText(), HasSubstr("runs [why]"));
}

TEST_F(SessionAutoTest, AQueryOfATestRunsThroughADatabase) {
  StoreContext();
  class Nothing final : public index::CriticalSearch {
   public:
    size_t ScratchBytes(size_t) const override { return 0; }
    size_t Search(const index::SearchCall&, uint32_t*, void*) const override { return 0; }
    size_t Refine(const index::SearchCall&, float, uint32_t*, size_t, void*) const override {
      return 0;
    }
  };
  auto registry = std::make_shared<planner::PlanRegistry>(planner::BuiltinPlans());
  registry->AddQuery(
      {.name = "nothing", .arguments = {{.key = "n", .min = 1, .max = 9, .whole = true}}});
  auto operators = std::make_shared<attention::Registry>();
  operators->AddSearch("nothing", {.make_search = [](const auto&, const auto&) {
                         return std::make_unique<Nothing>();
                       }});
  database_.reset();
  database_ =
      *Database::Open(dir_.File("store"), {}, storage::PosixFileSystem(),
                      {.registry = registry, .operators = operators, .machine = Machine(true)});
  const std::vector<float> window = Attend(Resume("window").get());
  const std::vector<float> nothing = Attend(Resume("nothing(n=1)").get());
  ASSERT_EQ(window.size(), nothing.size());
  for (size_t i = 0; i < window.size(); ++i) EXPECT_NEAR(nothing[i], window[i], 1e-5);
}

TEST_F(SessionAutoTest, TriesAnIndexOfALongContextAndSaysWhatItMissed) {
  StoreContext(kNumLong);
  const std::vector<float> full = Attend(Resume("full").get());
  auto session = Resume("auto(error=0.05)");
  Attend(session.get());
  ASSERT_TRUE(
      database_->store()->background()->Wait({}).ok());  // Clusters, which that call asked for.
  for (int i = 0; i < 12; ++i) {
    const std::vector<float> out = Attend(session.get());
    EXPECT_LT(test::DBFixture::Difference(out, full), 0.15);
  }
  const LayerExplain layer = *session->ExplainLayer(1);
  for (const HeadExplain& head : layer.heads) {
    EXPECT_THAT(head.plan, ::testing::AnyOf(HasSubstr("index=clustered"), HasSubstr("index=flat")));
    EXPECT_GT(head.visited_mean, 0);
    EXPECT_GE(head.missed_mass, 0);
    EXPECT_LT(head.missed_mass, 0.05);
  }
}

}  // namespace
}  // namespace attndb::internal
