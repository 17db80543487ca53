// Goal:   a session that reuses a stored prefix answers like a session that computed all of it,
//         wherever the prefix is cut and however the store keeps it. The number of reused tokens is
//         exact.
// Method: one long context is brought into the store in different forms (one segment, several,
//         merged, compacted, shared by branches); for every cut a prompt follows it up to there and
//         then goes its own way. Answers are compared with those of a session that reuses nothing
//         and with float64; where the chain of runs is the same, bit by bit under every plan.
// Replay: ATTNDB_SEED=17 ctest -R property_test
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>

#include "attndb/db.h"
#include "testing/matchers.h"
#include "testing/seed.h"
#include "testing/temp_dir.h"
#include "testing/toy_model.h"
#include "testing/toy_oracle.h"

namespace attndb::test {
namespace {

using Tokens = std::vector<TokenId>;

constexpr uint64_t kNumTokens =
    150;                         // Over two borders of the 64-token blocks of the prefix index.
constexpr uint64_t kNumNew = 3;  // Tokens after the cut.
constexpr TokenId kProbe = 4321;
// The promises of `full` against float64. Between sessions only the order of float32 sums differs.
constexpr double kFloat64Tolerance = 1e-4;
constexpr double kPrefillTolerance = 1e-3;
constexpr double kOrderTolerance = 1e-5;

// The outputs of a session while it runs the missing tokens of a prompt, and afterwards.
struct Answer {
  std::vector<float> step;
  std::vector<float> probe;
  friend bool operator==(const Answer&, const Answer&) = default;
};

struct SpecCase {
  const char* name;
  ModelSpec spec;
};

LayerSpec Layer(uint32_t num_q_heads, uint32_t num_kv_heads, uint32_t head_dim,
                uint32_t v_head_dim) {
  LayerSpec layer;
  layer.num_q_heads = num_q_heads;
  layer.num_kv_heads = num_kv_heads;
  layer.head_dim = head_dim;
  layer.v_head_dim = v_head_dim;
  layer.rope.layout = RopeLayout::kHalf;
  return layer;
}

std::vector<SpecCase> AllSpecs() {
  std::vector<SpecCase> cases;
  cases.push_back({"TwoUnlikeLayersInFloat16", ToyModel().spec()});

  LayerSpec interleaved = Layer(4, 4, 32, 20);  // Rotated in part, one q head a kv head.
  interleaved.rope.layout = RopeLayout::kInterleaved;
  interleaved.rope.rope_dims = 16;
  cases.push_back({"InterleavedRopeInFloat32",
                   ModelSpec::Uniform(3, interleaved, DType::kFloat32, "interleaved")});

  LayerSpec wide_group = Layer(8, 1, 64, 64);
  wide_group.soft_cap = 3.0f;
  LayerSpec sliding = Layer(8, 2, 48, 48);
  sliding.sliding_window = 40;
  sliding.scale = 0.25f;
  ModelSpec mixed = ModelSpec::Uniform(1, wide_group, DType::kBFloat16, "mixed");
  mixed.layers.push_back(sliding);
  mixed.layers.push_back(wide_group);
  cases.push_back({"SlidingWindowAndSoftCapInBFloat16", mixed});

  LayerSpec full = Layer(8, 2, 64, 64);  // Like GPT-OSS: every other layer slides.
  full.denominator_logits = {0.3f, -1.0f, 2.0f, 0.0f, 5.0f, -20.0f, 1.5f, 0.7f};
  LayerSpec slides = full;
  slides.sliding_window = 24;
  std::ranges::reverse(slides.denominator_logits);
  ModelSpec alternating = ModelSpec::Uniform(4, full, DType::kFloat16, "alternating");
  alternating.layers[0] = alternating.layers[2] = slides;
  cases.push_back({"DenominatorLogitsWithSlidingLayersInFloat16", alternating});
  return cases;
}

class PrefixReuse : public ::testing::TestWithParam<SpecCase> {
 protected:
  PrefixReuse() : dir_(TempDir::InMemory()), model_(GetParam().spec), seed_(SeedOr(11)) {
    stored_ = ToyModel::Tokens(kNumTokens, seed_);
    db_ = OpenDb();
  }

  std::optional<DB> OpenDb() {
    Result<DB> db = DB::Open(dir_.File("store"));
    EXPECT_THAT(db, IsOk());
    return db.ok() ? std::optional<DB>(*std::move(db)) : std::nullopt;
  }

  Tokens Prefix(uint64_t num_tokens) const {
    return {stored_.begin(), stored_.begin() + static_cast<int64_t>(num_tokens)};
  }
  // The stored context up to `cut`, then tokens that no context has.
  Tokens PromptFor(uint64_t cut, uint64_t num_new = kNumNew, uint64_t first_new = 5000) const {
    Tokens prompt = Prefix(cut);
    for (uint64_t i = 0; i < num_new; ++i) {
      prompt.push_back(static_cast<TokenId>(first_new + cut + i));
    }
    return prompt;
  }

  Session Start(const Tokens& prompt, const SessionOptions& options = {}) const {
    Result<SessionStart> start = db_->CreateSession(model_.spec(), prompt, options);
    EXPECT_THAT(start, IsOk());
    return std::move(start->session);
  }
  Session Fresh(const Tokens& tokens) const {
    Session session = Start({1}, {.reuse = false});
    if (!tokens.empty()) {
      ATTNDB_EXPECT_OK(model_.Step(&session, tokens));
    }
    return session;
  }

  Answer Run(Session* session, const Tokens& prompt) const {
    Answer answer;
    const std::span<const TokenId> rest = std::span(prompt).subspan(session->num_tokens());
    ATTNDB_EXPECT_OK(model_.Step(session, rest, &answer.step));
    ATTNDB_EXPECT_OK(model_.Probe(session, kProbe, &answer.probe));
    return answer;
  }
  // Error of the answer to `prompt`, whose first `cut` tokens were reused.
  double Float64Error(const Answer& answer, const Tokens& prompt, uint64_t cut) const {
    return std::max(OutputError(model_, answer.step, OracleStep(model_, prompt, cut)),
                    OutputError(model_, answer.probe, OracleProbe(model_, prompt, kProbe)));
  }
  double Difference(const Answer& a, const Answer& b) const {
    return std::max(OutputError(model_, a.step, b.step), OutputError(model_, a.probe, b.probe));
  }

  // A context of `chunks` tokens each, stored one after the other; the last has the name "all".
  void StoreInChunks(std::initializer_list<uint64_t> chunks) {
    Session session = Fresh({});
    uint64_t end = 0;
    for (const uint64_t chunk : chunks) {
      const Tokens tokens = Prefix(end + chunk);
      ATTNDB_ASSERT_OK(model_.Step(&session, std::span(tokens).subspan(end)));
      end += chunk;
      const bool last = end == kNumTokens;
      ATTNDB_ASSERT_OK(db_->Store(session, tokens, {.name = last ? "all" : "", .drop_base = true}));
    }
    ASSERT_EQ(end, kNumTokens);
  }
  size_t NumSegments() const { return db_->Describe("all")->segments.size(); }

  void CheckCut(uint64_t cut);
  void CheckEveryCut() {
    for (uint64_t cut = 0; cut <= kNumTokens && !HasFailure(); ++cut) CheckCut(cut);
  }

  TempDir dir_;
  ToyModel model_;
  uint64_t seed_;
  Tokens stored_;
  std::optional<DB> db_;
};

void PrefixReuse::CheckCut(uint64_t cut) {
  SCOPED_TRACE("cut at " + std::to_string(cut));
  const Tokens prompt = PromptFor(cut);
  Session fresh = Fresh(Prefix(cut));
  const Answer expected = Run(&fresh, prompt);

  EXPECT_EQ(db_->ExplainPrefix(model_.spec(), prompt)->num_reused, cut);
  Result<SessionStart> start = db_->CreateSession(model_.spec(), prompt);
  ATTNDB_ASSERT_OK(start);
  EXPECT_EQ(start->session.num_reused(), cut);
  EXPECT_EQ(start->session.num_tokens(), cut);
  EXPECT_EQ(start->rest, Tokens(prompt.begin() + static_cast<int64_t>(cut), prompt.end()));

  const Answer found = Run(&start->session, prompt);
  EXPECT_LE(Difference(found, expected), kOrderTolerance);
  EXPECT_LE(Float64Error(found, prompt, cut), kFloat64Tolerance);
}

TEST_P(PrefixReuse, OfOneSegmentAnswersAsComputingItAtEveryCut) {
  StoreInChunks({kNumTokens});
  EXPECT_EQ(NumSegments(), 1u);
  CheckEveryCut();
}

TEST_P(PrefixReuse, OfSeveralSegmentsAnswersAsComputingItAtEveryCut) {
  StoreInChunks({80, 40, 20, 9, 1});  // Each less than half of what is before it: never merged.
  EXPECT_EQ(NumSegments(), 5u);
  CheckEveryCut();
}

TEST_P(PrefixReuse, OfAMergedChainAnswersAsComputingItAtEveryCut) {
  StoreInChunks({10, 10, 10, 10, 10, 10, 10, 10, 10, 10, 10, 10, 10, 10, 10});
  ATTNDB_ASSERT_OK(db_->WaitForBackground());
  // How many segments one merge finds depends on when the background runs it.
  const std::vector<SegmentInfo> segments = db_->Describe("all")->segments;
  for (size_t i = 1; i < segments.size(); ++i) {
    EXPECT_GT(segments[i - 1].num_tokens, segments[i].num_tokens) << "they were to be merged";
  }
  EXPECT_GT(db_->Stats()->bytes_merged, 0u);
  CheckEveryCut();
}

TEST_P(PrefixReuse, OfACompactedChainAnswersAsComputingItAtEveryCut) {
  StoreInChunks({80, 40, 20, 9, 1});
  ATTNDB_ASSERT_OK(db_->Compact());
  EXPECT_EQ(NumSegments(), 1u);
  CheckEveryCut();
}

TEST_P(PrefixReuse, AfterReopeningAnswersAsComputingItAtEveryCut) {
  StoreInChunks({80, 40, 20, 9, 1});
  db_.reset();
  db_ = OpenDb();
  CheckEveryCut();
}

// Branches leave the context at three places, then the context itself goes: what the branches share
// with it must stay, be found to the token, and survive a Compact that erases the rest.
TEST_P(PrefixReuse, OfBranchesWhoseTrunkIsGoneIsExactToTheToken) {
  StoreInChunks({100, 50});
  constexpr uint64_t kBranch = 9000;
  const uint64_t cuts[] = {63, 64, 120};
  for (const uint64_t cut : cuts) {
    const Tokens prompt = PromptFor(cut, 30, kBranch);
    Session session = Start(prompt);
    ASSERT_EQ(session.num_reused(), cut);
    Run(&session, prompt);
    ATTNDB_ASSERT_OK(db_->Store(session, prompt, {.name = "from" + std::to_string(cut)}));
  }
  ATTNDB_ASSERT_OK(db_->Drop("all"));
  for (const bool compacted : {false, true}) {
    SCOPED_TRACE(compacted ? "compacted" : "not compacted");
    if (compacted) {
      ATTNDB_ASSERT_OK(db_->Compact());
      for (const uint64_t cut : cuts) {
        EXPECT_EQ(db_->Describe("from" + std::to_string(cut))->retained_bytes, 0u);
      }
    }
    for (uint64_t cut = 0; cut <= 120; ++cut) CheckCut(cut);
    // The trunk beyond the last branch is gone, and with it what could be reused.
    EXPECT_EQ(Start(PromptFor(121)).num_reused(), 120u);
    for (const uint64_t cut : cuts) {
      const Tokens prompt = PromptFor(cut, 33, kBranch);
      Session session = Start(prompt);
      EXPECT_EQ(session.num_reused(), cut + 30);
      EXPECT_LE(Float64Error(Run(&session, prompt), prompt, cut + 30), kFloat64Tolerance);
    }
  }
}

// A context that is the beginning of a segment, whose end nobody has any more.
TEST_P(PrefixReuse, OfACroppedContextWhoseRestWasErasedIsExactToTheToken) {
  StoreInChunks({kNumTokens});
  Session session = Start(PromptFor(kNumTokens));
  ATTNDB_ASSERT_OK(session.Crop(90));
  ATTNDB_ASSERT_OK(db_->Store(session, Prefix(90), {.name = "beginning"}));
  ATTNDB_ASSERT_OK(db_->Drop("all"));
  EXPECT_GT(db_->Describe("beginning")->retained_bytes, 0u);
  ATTNDB_ASSERT_OK(db_->Compact());
  EXPECT_EQ(db_->Describe("beginning")->retained_bytes, 0u);
  EXPECT_EQ(db_->Describe("beginning")->segments.size(), 1u);
  EXPECT_TRUE(db_->Verify()->ok());
  for (uint64_t cut = 0; cut <= 90; ++cut) CheckCut(cut);
  EXPECT_EQ(Start(PromptFor(91)).num_reused(), 90u);
}

TEST_P(PrefixReuse, LeavesAtLeastOneTokenToRun) {
  StoreInChunks({80, 70});
  for (uint64_t length = 1; length <= kNumTokens; ++length) {
    const Tokens prompt = Prefix(length);
    Result<SessionStart> start = db_->CreateSession(model_.spec(), prompt);
    ATTNDB_ASSERT_OK(start);
    EXPECT_EQ(start->session.num_reused(), length - 1);
    EXPECT_EQ(start->rest, Tokens{prompt.back()});
  }
}

// Equal chains give equal bits, whichever way the session came to its chain.
TEST_P(PrefixReuse, GivesTheSameBitsByEveryRouteToTheSameRuns) {
  StoreInChunks({kNumTokens});
  for (uint64_t cut = 1; cut < kNumTokens; cut += 13) {
    SCOPED_TRACE("cut at " + std::to_string(cut));
    const Tokens prompt = PromptFor(cut);
    Session reused = Start(prompt);
    const Answer expected = Run(&reused, prompt);
    const auto expect_same = [&](Session* session) {
      EXPECT_EQ(session->num_tokens(), cut);
      EXPECT_TRUE(Run(session, prompt) == expected);
    };

    Session by_name = Start(prompt, {.context = "all"});
    expect_same(&by_name);

    Session longer = Start(PromptFor(kNumTokens));
    ATTNDB_ASSERT_OK(longer.Crop(cut));
    EXPECT_EQ(longer.num_reused(), cut);
    expect_same(&longer);
    ATTNDB_ASSERT_OK(longer.Crop(cut));  // Now from the tail back to the border.
    expect_same(&longer);

    Session parent = Start(prompt);
    ATTNDB_ASSERT_OK_AND_ASSIGN(Session fork, parent.Fork());
    expect_same(&parent);
    expect_same(&fork);

    Session stored = Fresh(Prefix(cut));
    ATTNDB_ASSERT_OK(db_->Store(stored, Prefix(cut), {.name = "short", .replace = true}));
    EXPECT_EQ(stored.num_reused(), cut);
    expect_same(&stored);
  }
}

TEST_P(PrefixReuse, SurvivesCropIntoTheStoredPrefixAndGoingOn) {
  StoreInChunks({80, 40, 20, 9, 1});
  Session session = Start(PromptFor(kNumTokens));
  for (const uint64_t cut : {149u, 140u, 121u, 120u, 81u, 80u, 5u, 1u, 0u}) {
    SCOPED_TRACE("crop to " + std::to_string(cut));
    ATTNDB_ASSERT_OK(session.Crop(cut));
    ASSERT_EQ(session.num_tokens(), cut);
    ASSERT_EQ(session.num_reused(), cut);
    const Tokens prompt = PromptFor(cut, 7);
    EXPECT_LE(Float64Error(Run(&session, prompt), prompt, cut), kFloat64Tolerance);
  }
  EXPECT_EQ(Start(PromptFor(kNumTokens)).num_reused(), kNumTokens);  // The context is as it was.
}

TEST_P(PrefixReuse, ForksGoTheirOwnWaysFromAReusedPrefix) {
  StoreInChunks({80, 70});
  Session parent = Start(PromptFor(100));
  const Tokens shared = PromptFor(100, 20);
  Run(&parent, shared);
  std::vector<Session> forks;
  for (int i = 0; i < 3; ++i) forks.push_back(*parent.Fork());
  for (size_t step = 0; step < 4; ++step) {
    for (size_t i = 0; i < forks.size(); ++i) {
      Tokens prompt = shared;
      for (size_t j = 0; j <= step; ++j) {
        prompt.push_back(static_cast<TokenId>(7000 + 10 * i + j));
      }
      EXPECT_LE(Float64Error(Run(&forks[i], prompt), prompt, prompt.size() - 1), kFloat64Tolerance);
    }
  }
  EXPECT_EQ(parent.num_tokens(), shared.size());
}

// A long rest runs through the blocked kernels of prefill.
TEST_P(PrefixReuse, AnswersPrefillOnAReusedPrefix) {
  StoreInChunks({80, 40, 20, 9, 1});
  for (const uint64_t cut : {1u, 63u, 64u, 100u, 150u}) {
    SCOPED_TRACE("cut at " + std::to_string(cut));
    const Tokens prompt = PromptFor(cut, 100);
    Session fresh = Fresh(Prefix(cut));
    Session reused = Start(prompt);
    const Answer expected = Run(&fresh, prompt);
    const Answer found = Run(&reused, prompt);
    EXPECT_LE(Difference(found, expected), kPrefillTolerance);
    EXPECT_LE(Float64Error(found, prompt, cut), kPrefillTolerance);
  }
}

TEST_P(PrefixReuse, NeverCrossesModelsPositionsOrTenants) {
  StoreInChunks({kNumTokens});
  const Tokens prompt = PromptFor(kNumTokens);
  ModelSpec other = model_.spec();
  other.fingerprint += "'";
  EXPECT_EQ(db_->CreateSession(other, prompt)->session.num_reused(), 0u);
  other = model_.spec();
  other.layers[0].rope.base *= 2;
  EXPECT_EQ(db_->CreateSession(other, prompt)->session.num_reused(), 0u);
  EXPECT_EQ(Start(prompt, {.first_position = 1}).num_reused(), 0u);
  ATTNDB_ASSERT_OK_AND_ASSIGN(const DB stranger, db_->ForTenant("stranger"));
  EXPECT_EQ(stranger.CreateSession(model_.spec(), prompt)->session.num_reused(), 0u);
  EXPECT_THAT(stranger.CreateSession(model_.spec(), prompt, {.context = "all"}),
              FailsWith(StatusCode::kNotFound, ::testing::HasSubstr("all")));
}

INSTANTIATE_TEST_SUITE_P(Specs, PrefixReuse, ::testing::ValuesIn(AllSpecs()),
                         [](const auto& spec) { return std::string(spec.param.name); });

}  // namespace
}  // namespace attndb::test
