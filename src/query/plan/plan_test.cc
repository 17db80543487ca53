// Goal:   plan text means what plan.h says, errors point at the column, text round-trips.
#include "query/plan/plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <random>

namespace attndb::query {
namespace {

using ::testing::HasSubstr;

LayerPlan Parsed(std::string_view text) {
  const Result<Plan> plan = Plan::Parse(text);
  EXPECT_TRUE(plan.ok()) << plan.status();
  return plan.ok() ? plan->ForLayer(0) : LayerPlan{};
}

TEST(PlanTest, ReadsEveryQuery) {
  EXPECT_EQ(Parsed("full").kind, QueryKind::kFull);
  EXPECT_EQ(Parsed("window(sink=4,window=32)"),
            (LayerPlan{.kind = QueryKind::kWindow, .sink = 4, .window = 32}));
  EXPECT_EQ(Parsed(" topk( k = 512 ) "), (LayerPlan{.kind = QueryKind::kTopK, .k = 512}));
  EXPECT_EQ(Parsed("dipr(beta=50)"), (LayerPlan{.kind = QueryKind::kDipr, .beta = 50}));
  EXPECT_EQ(Parsed("dipr(alpha=0.012,index=flat,bits=exact,remainder=drop)"),
            (LayerPlan{.kind = QueryKind::kDipr, .alpha = 0.012}));
  EXPECT_EQ(Parsed("mass(p=0.99,bits=4,remainder=sample:128)"),
            (LayerPlan{.kind = QueryKind::kMass, .p = 0.99, .bits = 4, .samples = 128}));
  EXPECT_EQ(Parsed("auto(error=0.01)"),
            (LayerPlan{.kind = QueryKind::kAuto, .error = 0.01, .bits = 4}));
  EXPECT_EQ(Parsed("topk(k=3,bits=8)"), (LayerPlan{.kind = QueryKind::kTopK, .k = 3, .bits = 8}));
}

TEST(PlanTest, PresetsAreThePapersSettings) {
  const LayerPlan alaya = Parsed("alaya");
  EXPECT_EQ(alaya.sink, 128u);
  EXPECT_EQ(alaya.window, 512u);
  // [Alaya] 9.1: alpha 0.012 is beta 50 at head_dim 128.
  EXPECT_NEAR(alaya.Beta(1.0f / std::sqrt(128.0f)), 50.0, 0.1);
  EXPECT_EQ(Parsed("retrieval_attention").k, 100u);
}

TEST(PlanTest, LaterOverridesWin) {
  const Result<Plan> plan = Plan::Parse("topk(k=8); layers 0-3,7: full; layers 2: window;");
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(plan->ForLayer(0).kind, QueryKind::kFull);
  EXPECT_EQ(plan->ForLayer(2).kind, QueryKind::kWindow);
  EXPECT_EQ(plan->ForLayer(5).kind, QueryKind::kTopK);
  EXPECT_EQ(plan->ForLayer(7).kind, QueryKind::kFull);
  EXPECT_TRUE(plan->CheckLayers(8).ok());
  EXPECT_EQ(plan->CheckLayers(7).code(), StatusCode::kInvalidArgument);
}

TEST(PlanTest, TextRoundTrips) {
  for (const char* text :
       {"full", "topk(k=3); layers 0: full; layers 1-2: dipr(beta=0.1)",
        "dipr(alpha=0.012,sink=1,window=9)", "window", "alaya", "mass(p=0.9)", "auto(error=0.03)",
        "auto(error=0.01,bits=exact)", "mass(p=1,bits=8,remainder=sample:7,sink=0)"}) {
    const Result<Plan> plan = Plan::Parse(text);
    ASSERT_TRUE(plan.ok()) << plan.status();
    const Result<Plan> again = Plan::Parse(plan->ToString());
    ASSERT_TRUE(again.ok()) << again.status();
    EXPECT_EQ(plan->ToString(), again->ToString());
    for (LayerId layer = 0; layer < 4; ++layer) {
      EXPECT_EQ(plan->ForLayer(layer), again->ForLayer(layer)) << text;
    }
  }
}

TEST(PlanTest, ErrorsNameTheColumn) {
  const struct {
    const char* text;
    const char* message;
  } cases[] = {
      {"fulll", "column 1: unknown query 'fulll'"},
      {"", "column 1: unknown query"},
      {"topk(k=0)", "column 8: expected a whole number from 1"},
      {"topk(k=99999999999)", "column 8: expected a whole number"},
      {"topk(k=5", "column 9: expected ')'"},
      {"topk", "column 1: topk needs k"},
      {"topk(beta=1)", "column 6: unknown key 'beta'"},
      {"topk(k=1,k=2)", "column 10: key 'k' is given twice"},
      {"dipr(alpha=2)", "column 12: alpha must be"},
      {"dipr(beta=nan)", "column 11: beta must be"},
      {"dipr(beta=1,alpha=0.5)", "column 13: give beta or alpha"},
      {"full(sink=3)", "column 6: unknown key 'sink'"},
      {"auto", "column 1: auto needs error"},
      {"auto(error=0)", "column 12: error must be"},
      {"auto(error=0.01,remainder=drop)", "column 17: unknown key 'remainder'"},
      {"mass", "column 1: mass needs p"},
      {"mass(p=0)", "column 8: p must be"},
      {"mass(p=1.5)", "column 8: p must be"},
      {"mass(k=3)", "column 6: unknown key 'k'"},
      {"topk(k=1,remainder=sample:0)", "column 20: expected sample:n"},
      {"topk(k=1,remainder=sample:)", "column 20: expected sample:n"},
      {"full extra", "column 6: expected ';' or the end"},
      {"full; layer 0: full", "column 7: expected 'layers'"},
      {"full; layers x: full", "column 14: expected the number of a layer"},
      {"full; layers 3-1: full", "column 17: the range of layers is empty"},
      {"full; layers 1 full", "column 16: expected ':'"},
  };
  for (const auto& c : cases) {
    const Result<Plan> plan = Plan::Parse(c.text);
    ASSERT_FALSE(plan.ok()) << c.text;
    EXPECT_EQ(plan.status().code(), StatusCode::kInvalidArgument) << c.text;
    EXPECT_THAT(plan.status().message(), HasSubstr(c.message));
  }
}

TEST(PlanTest, ValuesOfLaterVersionsAreUnsupportedNotIgnored) {
  for (const char* text : {"topk(k=5,index=graph)", "dipr(beta=1,bits=1)",
                           "dipr(beta=1,remainder=planes:2)", "mass(p=0.5,bits=many)"}) {
    const Result<Plan> plan = Plan::Parse(text);
    ASSERT_FALSE(plan.ok()) << text;
    EXPECT_EQ(plan.status().code(), StatusCode::kUnsupported) << plan.status();
    EXPECT_THAT(plan.status().message(), HasSubstr("column"));
  }
}

TEST(PlanTest, AutoLeavesOutWhatItsErrorAllows) {
  EXPECT_NEAR(Parsed("auto(error=0.01)").Mass(), 0.92, 1e-9);
  EXPECT_EQ(Parsed("auto(error=0.5)").Mass(), 0.5);
  EXPECT_TRUE(Parsed("auto(error=0.01)").Samples());
  EXPECT_GT(Parsed("auto(error=0.01)").FirstSamples(), 0u);
  EXPECT_EQ(Parsed("mass(p=0.7,remainder=sample:9)").FirstSamples(), 9u);
  EXPECT_FALSE(Parsed("mass(p=0.7)").Samples());
}

TEST(PlanTest, RandomTextNeverCrashes) {
  std::mt19937 random(17);
  constexpr std::string_view kPieces[] = {
      "full", "topk", "dipr",   "(", ")",    "k",    "=", ",", ";",    "0",         "-",
      "12",   ":",    "layers", " ", "beta", "mass", "p", ".", "bits", "remainder", "sample:"};
  for (int i = 0; i < 20000; ++i) {
    std::string text;
    for (auto n = random() % 12; n > 0; --n) text += kPieces[random() % std::size(kPieces)];
    const Result<Plan> plan = Plan::Parse(text);
    if (plan.ok()) {
      EXPECT_TRUE(Plan::Parse(plan->ToString()).ok()) << text;
    }
  }
}

}  // namespace
}  // namespace attndb::query
