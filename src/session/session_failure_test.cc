// Goal:   values for which attention is undefined. NaN and Inf are kept and shown, and no plan
//         hides them. A finite value that overflows fails its step and nothing else.
#include <cmath>
#include <limits>

#include "api/db_test_util.h"

namespace attndb {
namespace {

using test::Concat;
using test::DBFixture;
using test::EditRows;
using test::FailsWith;
using test::Tokens;
using test::ToyModel;
using test::ViewOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kTooLarge = 70000.0f;  // float16 ends at 65504.

// --- NaN and Inf ---

class NonFiniteSessionTest : public DBFixture {
 protected:
  static constexpr const char* kPlan = "topk(k=8,sink=4,window=16)";
  static constexpr uint64_t kSizes[] = {120, 60, 30};

  // Tokens 120 to 179 bring +Inf and -Inf into V of layer 0, head 1, and NaN into K of layer 1,
  // head 2.
  static void Break(LayerId layer, std::vector<float>* k, std::vector<float>* v) {
    if (layer == 0) {
      v->at((10 * 2 + 1) * 16 + 3) = kInf;
      v->at((20 * 2 + 1) * 16 + 5) = -kInf;
    } else {
      k->at((5 * 3 + 2) * 24 + 7) = kNan;
    }
  }
  Tokens StoreBroken() {
    Tokens all = StoreChain("kv", std::span(kSizes).first(1), 50);
    Session session = std::move(Start(Concat(all, Tokens{4000})).session);
    for (const uint64_t size : std::span(kSizes).subspan(1)) {
      const Tokens more = ToyModel::Tokens(size, 50 + size);
      ATTNDB_EXPECT_OK(AppendTokens(&session, more, size == kSizes[1] ? Break : EditRows()));
      all = Concat(all, more);
      ATTNDB_EXPECT_OK(db_->Store(session, all, {.name = "kv", .replace = true}));
    }
    return all;
  }

  // A session on the stored tokens alone.
  Session OnStored(const std::string& plan) {
    return std::move(Start(Concat(tokens_, Tokens{4000}), {.context = "kv", .plan = plan}).session);
  }

  // Elements of the probe of layer 0, q heads of kv head 1; and of layer 1, of kv head 2.
  static bool IsBroken(size_t element) {
    const size_t layer_0 = 6 * 16;
    return element < layer_0 ? element >= size_t{3} * 16 : element >= layer_0 + size_t{4} * 24;
  }

  void ExpectBrokenHeadsRunFull() {
    ATTNDB_ASSERT_OK_AND_ASSIGN(const ContextInfo info, db_->Describe("kv"));
    EXPECT_THAT(info.non_finite_heads, ElementsAre("layer 0 head 1", "layer 1 head 2"));
    Session full = OnStored("full");
    Session sparse = OnStored(kPlan);
    const std::vector<float> expected = Probe(&full);
    const std::vector<float> found = Probe(&sparse);
    bool others_differ = false;
    uint64_t num_broken = 0;
    for (size_t i = 0; i < found.size(); ++i) {
      if (!IsBroken(i)) {
        ASSERT_TRUE(std::isfinite(found[i]) && std::isfinite(expected[i])) << i;
        others_differ = others_differ || std::abs(found[i] - expected[i]) > 1e-3f;
        continue;
      }
      if (!std::isfinite(expected[i])) ++num_broken;
      if (std::isnan(expected[i])) {
        EXPECT_TRUE(std::isnan(found[i])) << i << ": " << found[i];
      } else if (std::isinf(expected[i])) {
        EXPECT_EQ(found[i], expected[i]) << i;
      } else {
        EXPECT_NEAR(found[i], expected[i], 1e-5) << i;
      }
    }
    EXPECT_TRUE(others_differ);               // They ran the plan.
    EXPECT_EQ(num_broken, 3u * 2 + 2u * 24);  // 2 channels of 3 q heads, all of 2.
  }

  // One kv head of each layer runs full, the others run the plan.
  void ExpectReasons(Session* session) {
    Probe(session);
    for (const LayerExplain& layer : session->Explain().layers) {
      EXPECT_NE(layer.reason, "") << "layer " << layer.layer;
      EXPECT_EQ(layer.selected_mean, 8.0);  // Mean over the heads that ran the plan.
    }
  }

  Tokens tokens_;
};

TEST_F(NonFiniteSessionTest, StayVisibleThroughStoreReopenAndCompact) {
  tokens_ = StoreBroken();
  ASSERT_EQ(db_->Describe("kv")->segments.size(), 3u);
  ExpectBrokenHeadsRunFull();
  Open();
  ExpectBrokenHeadsRunFull();
  ATTNDB_ASSERT_OK(db_->Compact());
  ASSERT_EQ(db_->Describe("kv")->segments.size(), 1u);
  ExpectBrokenHeadsRunFull();
  Open();
  ExpectBrokenHeadsRunFull();
  EXPECT_TRUE(db_->Verify()->ok());
}

// docs/plan.md: Explain says why a layer ran something else than its plan.
TEST_F(NonFiniteSessionTest, ExplainSaysWhyAHeadOfTheTailRunsFull) {
  Session session = NewSession(kPlan);
  ATTNDB_ASSERT_OK(AppendTokens(&session, ToyModel::Tokens(100, 1), Break));
  ExpectReasons(&session);
}

TEST_F(NonFiniteSessionTest, ExplainSaysWhyAStoredHeadRunsFull) {
  tokens_ = StoreBroken();
  for (const bool compacted : {false, true}) {
    if (compacted) {
      ATTNDB_ASSERT_OK(db_->Compact());
    }
    Open();
    Session session = OnStored(kPlan);
    ExpectReasons(&session);
  }
}

// Reading everything needs no further reason if everything is read anyway.
TEST_F(NonFiniteSessionTest, ExplainNamesHeadsOnlyWhereThePlanRuns) {
  Session session = NewSession(kPlan);
  ATTNDB_ASSERT_OK(AppendTokens(&session, ToyModel::Tokens(100, 1), Break));
  EXPECT_EQ(session.Explain(0)->reason, "NaN or Inf in kv head 1: full there");
  EXPECT_EQ(session.Explain(1)->reason, "NaN or Inf in kv head 2: full there");
  ATTNDB_ASSERT_OK(session.SetPlan("topk(k=8,sink=50,window=50)"));
  EXPECT_EQ(session.Explain(0)->reason, "sink and window hold all tokens: full");
  ATTNDB_ASSERT_OK(session.SetPlan("full"));
  EXPECT_EQ(session.Explain(0)->reason, "");
}

// Calls before it found the head finite.
TEST_F(NonFiniteSessionTest, AHeadRunsFullFromTheStepOnThatBringsNan) {
  Session session = NewSession(kPlan);
  ATTNDB_ASSERT_OK(model_.Step(&session, ToyModel::Tokens(100, 1)));
  Probe(&session);
  EXPECT_EQ(session.Explain(0)->heads[1].selected_mean, 8.0);
  const uint64_t bytes_before = session.Explain(0)->heads[1].bytes_touched;
  ATTNDB_ASSERT_OK(AppendTokens(&session, ToyModel::Tokens(100, 2), Break));
  Probe(&session);
  EXPECT_GT(session.Explain(0)->heads[1].bytes_touched, bytes_before);
  EXPECT_EQ(session.Explain(0)->heads[1].bytes_touched, 2u * 200 * (32 + 16));
}

TEST_F(NonFiniteSessionTest, AHealthyLayerHasNoReason) {
  Session session = NewSession(kPlan);
  ATTNDB_ASSERT_OK(model_.Step(&session, ToyModel::Tokens(100, 1)));
  Probe(&session);
  EXPECT_EQ(session.Explain(0)->reason, "");
  EXPECT_EQ(session.Explain(1)->reason, "");
}

// --- A failed step ---

class FailedStepTest : public DBFixture {
 protected:
  // `value` into K or V of the last kv head of a layer, at token 3 of the step.
  static EditRows Put(LayerId at_layer, bool in_key, float value) {
    return [=](LayerId layer, std::vector<float>* k, std::vector<float>* v) {
      if (layer != at_layer) return;
      const size_t heads = layer == 0 ? 2 : 3;
      const size_t dim = layer == 1 ? 24 : in_key ? 32 : 16;
      (in_key ? k : v)->at((3 * heads + heads - 1) * dim + 1) = value;
    };
  }

  void ExpectFailed(Session* session, std::span<const TokenId> held) {
    const auto refusal = FailsWith(StatusCode::kFailedPrecondition, HasSubstr("step failed"));
    for (const LayerId layer : {0u, 1u}) {
      EXPECT_THAT(AppendLayer(session, layer, more_, held.size()), refusal);
      EXPECT_THAT(AttendOne(session, layer, false), refusal);
      EXPECT_THAT(AttendOne(session, layer, true), refusal);
    }
    EXPECT_THAT(db_->Store(*session, held, {.name = "x"}), refusal);
    EXPECT_THAT(session->Fork(), refusal);
    EXPECT_EQ(session->num_tokens(), held.size());
    EXPECT_EQ(session->Explain().num_tokens, held.size());
    EXPECT_THAT(db_->Describe("x"), FailsWith(StatusCode::kNotFound, HasSubstr("x")));
  }
  Status AttendOne(Session* session, LayerId layer, bool as_part) {
    const LayerSpec& shape = model_.spec().layers[layer];
    const std::vector<float> q = model_.Queries(layer, Tokens{7}, 0);
    std::vector<float> out(size_t{shape.num_q_heads} * shape.v_head_dim);
    const auto out_view = MutableTensorView::Contiguous(out.data(), DType::kFloat32, 1,
                                                        shape.num_q_heads, shape.v_head_dim);
    const TensorView q_view = ViewOf(q, shape.num_q_heads, shape.head_dim);
    return as_part ? session->AttendPart(layer, q_view, out_view, nullptr, 0, 1)
                   : session->Attend(layer, q_view, out_view);
  }

  // The outputs of the step that failed, done right, equal those of a session that never failed.
  void ExpectAsFresh(Session* session, Session* fresh) {
    std::vector<float> found;
    std::vector<float> expected;
    ATTNDB_ASSERT_OK(model_.Step(session, more_, &found));
    ATTNDB_ASSERT_OK(model_.Step(fresh, more_, &expected));
    EXPECT_EQ(found, expected);
    EXPECT_EQ(Probe(session), Probe(fresh));
  }

  const Tokens doc_ = ToyModel::Tokens(300, 5);
  const Tokens more_ = ToyModel::Tokens(10, 6);
};

TEST_F(FailedStepTest, CropHealsIt) {
  for (const bool in_key : {true, false}) {
    Session session = NewSession();
    ATTNDB_ASSERT_OK(model_.Step(&session, doc_));
    EXPECT_THAT(AppendTokens(&session, more_, Put(1, in_key, kTooLarge)),
                FailsWith(StatusCode::kInvalidArgument,
                          HasSubstr(std::string(in_key ? "k" : "v") +
                                    " of layer 1, head 2, token 303 is 70000")));
    ExpectFailed(&session, doc_);
    ATTNDB_ASSERT_OK(session.Crop(session.num_tokens()));
    Session fresh = NewSession();
    ATTNDB_ASSERT_OK(model_.Step(&fresh, doc_));
    ExpectAsFresh(&session, &fresh);
    const std::string name = in_key ? "k" : "v";
    ATTNDB_ASSERT_OK(db_->Store(session, Concat(doc_, more_), {.name = name}));
  }
  ExpectAnswers(Concat(doc_, more_), 309);
}

TEST_F(FailedStepTest, ItLeavesTheStoredPrefixAlone) {
  ATTNDB_ASSERT_OK(StoreTokens(doc_, {.name = "doc"}));
  const Tokens prompt = Concat(doc_, more_);
  Session session = std::move(Start(prompt).session);
  Session fresh = std::move(Start(prompt).session);
  ASSERT_FALSE(AppendTokens(&session, more_, Put(1, true, kTooLarge)).ok());
  ExpectFailed(&session, doc_);
  ATTNDB_ASSERT_OK(session.Crop(300));
  EXPECT_EQ(session.num_reused(), 300u);
  ExpectAsFresh(&session, &fresh);
}

TEST_F(FailedStepTest, ResetHealsItToo) {
  Session session = NewSession();
  ASSERT_FALSE(AppendTokens(&session, more_, Put(1, true, kTooLarge)).ok());
  ExpectFailed(&session, {});
  session.Reset();
  Session fresh = NewSession();
  ExpectAsFresh(&session, &fresh);
}

TEST_F(FailedStepTest, AForkOfBeforeDoesNotNotice) {
  Session session = NewSession();
  ATTNDB_ASSERT_OK(model_.Step(&session, doc_));
  ATTNDB_ASSERT_OK_AND_ASSIGN(Session fork, session.Fork());
  ASSERT_FALSE(AppendTokens(&session, more_, Put(1, true, kTooLarge)).ok());
  ExpectOracle(&fork, doc_);
  ATTNDB_ASSERT_OK(session.Crop(300));
  ExpectAsFresh(&session, &fork);
}

TEST_F(FailedStepTest, NeitherSearchNorReadKvHideIt) {
  Session session = NewSession("topk(k=8,sink=4,window=16)");
  ATTNDB_ASSERT_OK(model_.Step(&session, doc_));
  ASSERT_FALSE(AppendTokens(&session, more_, Put(1, true, kTooLarge)).ok());
  const auto refusal = FailsWith(StatusCode::kFailedPrecondition, HasSubstr("step failed"));
  const std::vector<float> q = model_.Queries(0, Tokens{7}, 300);
  EXPECT_THAT(session.Search(0, ViewOf(q, 6, 32)), refusal);
  EXPECT_THAT(session.ReadKv(0, {0, 1}, {}, {}), refusal);
  ATTNDB_ASSERT_OK(session.Crop(300));
  ATTNDB_EXPECT_OK(session.Search(0, ViewOf(q, 6, 32)));
  ATTNDB_EXPECT_OK(session.ReadKv(0, {0, 1}, {}, {}));
}

// Token indices are 32 bits in the kernels. More than the store has memory for is another error.
TEST_F(FailedStepTest, ASessionHoldsAtMost31BitsOfTokens) {
  Open({.host_memory_bytes = uint64_t{1} << 20});
  Session session = NewSession();
  const float row[2 * 32] = {};
  const auto append = [&](int64_t num_rows) {
    return session.Append(0, {row, DType::kFloat32, {num_rows, 2, 32}, {0, 32, 1}},
                          {row, DType::kFloat32, {num_rows, 2, 16}, {0, 16, 1}});
  };
  constexpr int64_t kMost = (int64_t{1} << 31) - 64;
  const auto is_too_long =
      FailsWith(StatusCode::kResourceExhausted, HasSubstr("at most 2^31 - 64 tokens"));
  EXPECT_THAT(append(kMost + 1), is_too_long);
  const Status status = append(kMost);
  EXPECT_EQ(status.code(), StatusCode::kResourceExhausted);
  EXPECT_THAT(status, ::testing::Not(is_too_long));
  ATTNDB_EXPECT_OK(append(1));
}

// The first layer's Append is the step's beginning: it fails on its arguments and changes nothing.
TEST_F(FailedStepTest, InLayer0NothingHasBegun) {
  Session session = NewSession();
  Session fresh = NewSession();
  for (Session* s : {&session, &fresh}) ATTNDB_ASSERT_OK(model_.Step(s, doc_));
  EXPECT_THAT(
      AppendTokens(&session, more_, Put(0, true, kTooLarge)),
      FailsWith(StatusCode::kInvalidArgument, HasSubstr("k of layer 0, head 1, token 303")));
  ExpectOracle(&session, doc_);
  ATTNDB_EXPECT_OK(session.Fork());
  ExpectAsFresh(&session, &fresh);
}

// A refused step does not even mark a head whose NaN came with it: the head does not run `full`
// later.
TEST_F(FailedStepTest, ARefusedNanDoesNotMarkItsHead) {
  constexpr const char* kPlan = "topk(k=8,sink=4,window=16)";
  Session session = NewSession(kPlan);
  Session fresh = NewSession(kPlan);
  for (Session* s : {&session, &fresh}) ATTNDB_ASSERT_OK(model_.Step(s, doc_));
  const EditRows nan_and_too_large = [](LayerId layer, std::vector<float>* k, std::vector<float>*) {
    if (layer != 0) return;
    k->at(0) = kNan;                      // Token 0, head 0, which is converted first.
    k->at((3 * 2 + 1) * 32) = kTooLarge;  // Token 3, head 1.
  };
  EXPECT_THAT(AppendTokens(&session, more_, nan_and_too_large),
              FailsWith(StatusCode::kInvalidArgument, HasSubstr("head 1, token 303 is 70000")));
  ExpectAsFresh(&session, &fresh);
}

}  // namespace
}  // namespace attndb
