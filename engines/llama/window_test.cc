// Goal:   a session that outgrows its window several times goes on as llama.cpp's own context shift
//         does, whether tokens come at once or one by one; positions stay within the window;
//         nothing leaves before it must.
// Method: tiny random float32 models; logits after every token against a plain llama.cpp context
//         whose cache loses the same tokens (llama_memory_seq_rm, llama_memory_seq_add), which
//         turns its keys.
#include "engines/llama/window.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "attndb/db.h"
#include "engines/llama/engine_test_util.h"
#include "engines/llama/plain_context.h"
#include "testing/matchers.h"
#include "testing/seed.h"
#include "testing/temp_dir.h"

namespace attndb::llama {
namespace {

using ::attndb::test::FailsWith;
using ::testing::AnyOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class WindowTest : public ::testing::Test {
 protected:
  WindowTest() : seed_(::attndb::test::SeedOr(34)) {}

  Result<LlamaEngine> OpenEngine(const std::string& kind, EngineOptions options) {
    options.cache_dir = directory_.File("cache");
    return LlamaEngine::Open(TinyModel(kind), options);
  }
  Result<LlamaEngine> OpenEngine(const std::string& kind = "llama") {
    return OpenEngine(kind, TinyOptions(HookVariant::kRewrite));
  }
  Session NewSession(const LlamaEngine& engine) {
    if (!db_) {
      Result<DB> db = DB::Open(directory_.File("store"), {});
      EXPECT_THAT(db, ::attndb::test::IsOk());
      db_.emplace(*std::move(db));
    }
    const TokenId any[] = {1};
    Result<SessionStart> start = db_->CreateSession(engine.spec(), any, {.reuse = false});
    EXPECT_THAT(start, ::attndb::test::IsOk());
    return std::move(start->session);
  }

  // What plain llama.cpp says after each token, where the same tokens leave its cache.
  static Result<LogitRows> ShiftedRows(const LlamaEngine& engine, std::span<const TokenId> tokens,
                                       uint64_t window, uint64_t left, uint64_t keep_first) {
    ATTNDB_ASSIGN_OR_RETURN(const auto plain, engine.OpenPlain({.num_tokens = 1024,
                                                                .flash_attention = false,
                                                                .kv_dtype = DType::kFloat32}));
    LogitRows rows;
    for (const TokenId& token : tokens) {
      if (plain->num_tokens() == window) {
        ATTNDB_RETURN_IF_ERROR(plain->DropOldest(keep_first, window - left));
      }
      ATTNDB_RETURN_IF_ERROR(plain->Run({&token, 1}));
      ATTNDB_ASSIGN_OR_RETURN(const std::span<const float> logits, plain->Logits());
      rows.emplace_back(logits.begin(), logits.end());
    }
    return rows;
  }

  static Result<LogitRows> WindowRows(LlamaEngine& engine, Session& session,
                                      std::span<const TokenId> tokens,
                                      const WindowOptions& window) {
    LogitRows rows;
    PrefillOptions options;
    options.window = window;
    options.on_logits = [&](uint64_t index, std::span<const float> logits) {
      EXPECT_EQ(index, rows.size());
      rows.emplace_back(logits.begin(), logits.end());
    };
    ATTNDB_RETURN_IF_ERROR(engine.Prefill(session, tokens, options));
    return rows;
  }

  std::vector<TokenId> Ids(const LlamaEngine& engine, size_t count) const {
    return RandomIds(count, seed_, engine.info().vocab_size);
  }

  const uint64_t seed_;
  ::attndb::test::TempDir directory_;
  std::optional<DB> db_;
};

class WindowKindTest : public WindowTest, public ::testing::WithParamInterface<const char*> {};

TEST_P(WindowKindTest, GoesOnAsLlamaCppsOwnContextShift) {
  ATTNDB_ASSERT_OK_AND_ASSIGN(LlamaEngine engine, OpenEngine(GetParam()));
  const std::vector<TokenId> ids = Ids(engine, 330);
  const WindowOptions window = {.window_tokens = 96, .keep_first = 5};
  ATTNDB_ASSERT_OK_AND_ASSIGN(const LogitRows plain, ShiftedRows(engine, ids, 96, 48, 5));
  ATTNDB_ASSERT_OK_AND_ASSIGN(const LogitRows whole, PlainRows(engine, ids));
  EXPECT_GT(LargestDifference(plain, whole), 1e-2) << "losing tokens changes nothing";

  Session at_once = NewSession(engine);
  ATTNDB_ASSERT_OK_AND_ASSIGN(const LogitRows ours, WindowRows(engine, at_once, ids, window));
  EXPECT_LT(LargestDifference(ours, plain), 1e-3);
  EXPECT_EQ(at_once.num_tokens(), ids.size());
  ASSERT_EQ(at_once.cuts().size(), 5u);
  for (size_t i = 0; i < 5; ++i) {
    const uint64_t begin = 5 + 48 * i;
    EXPECT_EQ(at_once.cuts()[i], (Cut{96 + 48 * i, {{begin, begin + 48}}}));
  }

  Session one_by_one = NewSession(engine);
  for (size_t i = 0; i < ids.size(); ++i) {
    ATTNDB_ASSERT_OK(engine.Decode(one_by_one, ids[i], window));
    EXPECT_LT(RowDifference(*engine.Logits(), plain[i]), 1e-3) << "token " << i;
    EXPECT_LE(one_by_one.next_position(), 96);
    EXPECT_LE(TokensOfWindow(one_by_one), 96u);
  }
  EXPECT_EQ(one_by_one.cuts(), at_once.cuts());
}

INSTANTIATE_TEST_SUITE_P(Kinds, WindowKindTest, ::testing::Values("llama", "qwen2", "gemma3"),
                         [](const auto& param) { return std::string(param.param); });

TEST_F(WindowTest, AModelOfDividedPositionsIsShiftedByItsOwnAngles) {
  EngineOptions options = TinyOptions(HookVariant::kRewrite);
  options.rope_scaling = {RopeScalingKind::kLinear, 4.0f};
  ATTNDB_ASSERT_OK_AND_ASSIGN(LlamaEngine engine, OpenEngine("llama", options));
  const std::vector<TokenId> ids = Ids(engine, 200);
  ATTNDB_ASSERT_OK_AND_ASSIGN(const LogitRows plain, ShiftedRows(engine, ids, 64, 32, 4));
  Session session = NewSession(engine);
  ATTNDB_ASSERT_OK_AND_ASSIGN(const LogitRows ours,
                              WindowRows(engine, session, ids, {.window_tokens = 64}));
  EXPECT_LT(LargestDifference(ours, plain), 1e-3);
}

// llama.cpp's shift is a reference for YaRN with factor 1 only: ggml's RoPE scales what it turns by
// YaRN's magnitude, and a shift is one more RoPE. Positions that go on without end, all angles
// llama.cpp's own, must give the same as positions that stay within the window.
TEST_F(WindowTest, PositionsWithinTheWindowGiveWhatThoseThatGoOnGive) {
  EngineOptions options = TinyOptions(HookVariant::kRewrite);
  for (const float factor : {1.0f, 4.0f}) {
    options.rope_scaling = {RopeScalingKind::kYarn, factor};
    ATTNDB_ASSERT_OK_AND_ASSIGN(LlamaEngine engine, OpenEngine("llama", options));
    const std::vector<TokenId> ids = Ids(engine, 200);
    Session session = NewSession(engine);
    ATTNDB_ASSERT_OK_AND_ASSIGN(const LogitRows ours,
                                WindowRows(engine, session, ids, {.window_tokens = 64}));
    EXPECT_LE(session.next_position(), 64);
    Session going_on = NewSession(engine);
    for (size_t i = 0; i < ids.size(); ++i) {
      if (TokensOfWindow(going_on) == 64) {
        ATTNDB_ASSERT_OK(going_on.DropOldest(32, {.keep_first = 4}));
      }
      ATTNDB_ASSERT_OK(engine.Decode(going_on, ids[i]));
      EXPECT_LT(RowDifference(*engine.Logits(), ours[i]), 1e-3) << "token " << i;
    }
    EXPECT_EQ(going_on.next_position(), 200);
    if (factor > 1.0f) continue;
    ATTNDB_ASSERT_OK_AND_ASSIGN(const LogitRows plain, ShiftedRows(engine, ids, 64, 32, 4));
    EXPECT_LT(LargestDifference(ours, plain), 1e-3);
  }
}

TEST_F(WindowTest, NothingLeavesWhatFits) {
  ATTNDB_ASSERT_OK_AND_ASSIGN(LlamaEngine engine, OpenEngine());
  const std::vector<TokenId> ids = Ids(engine, 97);
  Session session = NewSession(engine);
  const WindowOptions window = {.window_tokens = 96};
  ATTNDB_ASSERT_OK(engine.Prefill(session, std::span(ids).first(96), {.window = window}));
  EXPECT_EQ(session.num_dropped(), 0u);
  ATTNDB_ASSERT_OK(engine.Decode(session, ids.back(), window));
  EXPECT_EQ(session.num_dropped(), 48u);
  EXPECT_EQ(TokensOfWindow(session), 49u);
  EXPECT_EQ(TokensInFront(session), 4u);
  ATTNDB_ASSERT_OK(engine.Prefill(session, ids));  // Without a window: all that come stay.
  EXPECT_EQ(session.num_dropped(), 48u);
}

TEST_F(WindowTest, AnAnswerMayOutgrowTheWindowToo) {
  ATTNDB_ASSERT_OK_AND_ASSIGN(LlamaEngine engine, OpenEngine());
  const std::vector<TokenId> ids = Ids(engine, 60);
  const WindowOptions window = {.window_tokens = 64};
  GenerateOptions options = {.max_tokens = 120, .ignore_end = true};
  options.prefill.window = window;
  Session session = NewSession(engine);
  ATTNDB_ASSERT_OK_AND_ASSIGN(const Generation answer, engine.Generate(session, ids, options));
  EXPECT_EQ(answer.tokens.size(), 120u);
  EXPECT_GE(session.num_dropped(), 96u);
  // Its tokens are those that were likeliest.
  std::vector<TokenId> all = ids;
  all.insert(all.end(), answer.tokens.begin(), answer.tokens.end());
  ATTNDB_ASSERT_OK_AND_ASSIGN(const LogitRows plain, ShiftedRows(engine, all, 64, 32, 4));
  for (size_t i = 0; i < answer.tokens.size(); ++i) {
    const std::vector<float>& row = plain[ids.size() - 1 + i];
    const float best = *std::ranges::max_element(row);
    EXPECT_NEAR(row[static_cast<size_t>(answer.tokens[i])], best, 1e-3) << "token " << i;
  }
}

TEST_F(WindowTest, TheFirstTokensThatAreGoneAreNotAskedFor) {
  ATTNDB_ASSERT_OK_AND_ASSIGN(LlamaEngine engine, OpenEngine());
  const std::vector<TokenId> ids = Ids(engine, 150);
  Session session = NewSession(engine);
  ATTNDB_ASSERT_OK(
      engine.Prefill(session, std::span(ids).first(70), {.window = {.window_tokens = 64}}));
  EXPECT_EQ(TokensInFront(session), 4u);
  ATTNDB_ASSERT_OK(engine.Prefill(session, std::span(ids).subspan(70),
                                  {.window = {.window_tokens = 64, .keep_first = 20}}));
  EXPECT_EQ(TokensInFront(session), 4u);
  EXPECT_LE(TokensOfWindow(session), 64u);
}

TEST_F(WindowTest, ASessionThatIsTooLongIsCutToTheShareAtOnce) {
  ATTNDB_ASSERT_OK_AND_ASSIGN(LlamaEngine engine, OpenEngine());
  const std::vector<TokenId> ids = Ids(engine, 300);
  Session session = NewSession(engine);
  ATTNDB_ASSERT_OK(engine.Prefill(session, ids));
  ATTNDB_ASSERT_OK(engine.Decode(session, 5, {.window_tokens = 64, .keep_ratio = 0.75}));
  EXPECT_THAT(session.cuts(), ElementsAre(Cut{300, {{4, 256}}}));
  EXPECT_EQ(session.next_position(), 49);
}

TEST_F(WindowTest, WindowsThatLeaveNoRoomAreRefused) {
  ATTNDB_ASSERT_OK_AND_ASSIGN(LlamaEngine engine, OpenEngine());
  Session session = NewSession(engine);
  const auto run = [&](const WindowOptions& window) { return engine.Decode(session, 5, window); };
  EXPECT_THAT(run({.window_tokens = 64, .keep_first = 32}),
              FailsWith(StatusCode::kInvalidArgument,
                        HasSubstr("64 tokens has 32 left when its oldest leave, expected more than "
                                  "keep_first, 32")));
  EXPECT_THAT(run({.window_tokens = 3, .keep_first = 0}),
              FailsWith(StatusCode::kInvalidArgument, HasSubstr("has 1 left")));
  for (const double ratio : {0.0, 1.0, -1.0, std::nan("")}) {
    EXPECT_THAT(run({.window_tokens = 64, .keep_ratio = ratio}),
                FailsWith(StatusCode::kInvalidArgument, HasSubstr("keep_ratio is ")));
  }
  EXPECT_EQ(session.num_tokens(), 0u);
}

// A window of 64 tokens has let 32 go twice.
TEST(ReusableTokensTest, ACutHoldsForWindowsThatHaveNoRoomForWhatLeft) {
  const std::vector<Cut> cuts = {{64, {{4, 36}}}, {96, {{36, 68}}}};
  const auto reusable = [&cuts](uint64_t window, uint64_t num_tokens, uint64_t num_prompt) {
    return ReusableTokens({.window_tokens = window}, {cuts, {}}, num_tokens, {num_prompt, {}});
  };
  EXPECT_EQ(reusable(64, 110, 120), 110u);
  EXPECT_EQ(reusable(64, 70, 75), 70u) << "of one cut";
  EXPECT_EQ(reusable(64, 64, 65), 64u) << "at the cut";
  EXPECT_EQ(reusable(48, 110, 120), 110u) << "a smaller window drops more";
  EXPECT_EQ(reusable(80, 110, 120), 110u) << "more are left than this window would leave";
  EXPECT_EQ(reusable(80, 63, 70), 63u) << "no cut is so early";
  EXPECT_EQ(reusable(0, 110, 120), 63u) << "there is no limit";
  EXPECT_EQ(reusable(120, 110, 120), 63u) << "all of the prompt fits";
  EXPECT_EQ(reusable(128, 110, 300), 63u) << "this window leaves 64, and 46 are left";
  EXPECT_EQ(ReusableTokens({}, {{}, {}}, 110, {120, {}}), 110u);
}

// A window dropped [4, 36). [50, 60) and [80, 90) were left out.
TEST(ReusableTokensTest, WhatThePromptLeavesOutIsNotMissed) {
  const std::vector<Cut> edits = {{70, {{50, 60}}}, {96, {{80, 90}}}};
  const std::vector<Cut> both = {{64, {{4, 36}}}, {70, {{50, 60}}}, {96, {{80, 90}}}};
  const std::vector<TokenRange> all = {{50, 60}, {80, 90}};
  const std::vector<TokenRange> more = {{50, 60}, {78, 92}, {100, 105}};
  const std::vector<TokenRange> first = {{50, 60}};
  const auto reusable = [&all](std::span<const Cut> cuts, std::span<const TokenRange> left_out) {
    return ReusableTokens({.window_tokens = 128}, {cuts, all}, 110, {120, left_out});
  };
  EXPECT_EQ(reusable(edits, all), 110u);
  EXPECT_EQ(reusable(edits, more), 110u);
  EXPECT_EQ(reusable(edits, first), 95u) << "the prompt has the second piece";
  EXPECT_EQ(reusable(edits, {}), 69u) << "it has both";
  EXPECT_EQ(reusable(both, all), 63u) << "the window has room";
}

// The window of 64 tokens has no room for them.
TEST(ReusableTokensTest, AnExactPromptBeyondTheWindowDoesNotGoOnBehindPieces) {
  using Ranges = std::vector<TokenRange>;
  const std::vector<Cut> edits = {{64, {{10, 20}, {40, 45}}}};
  const std::vector<Cut> one = {{64, {{10, 20}}}};
  const std::vector<Cut> both = {{64, {{4, 36}}}, {90, {{50, 60}}}};
  const std::vector<Cut> passed = {{60, {{10, 20}}}, {74, {{4, 10}, {20, 46}}}};
  const auto reusable = [](std::span<const Cut> cuts, const Ranges& pieces,
                           const Ranges& without = {}) {
    return ReusableTokens({.window_tokens = 64}, {cuts, pieces}, 110, {120, without});
  };
  EXPECT_EQ(reusable(edits, {{10, 20}, {40, 45}}), 63u);
  EXPECT_EQ(reusable(one, {{10, 20}}), 63u);
  EXPECT_EQ(reusable(both, {{50, 60}}), 89u) << "the window dropped the others";
  EXPECT_EQ(reusable(passed, {{10, 20}}), 59u);
  EXPECT_EQ(reusable(passed, {{10, 20}}, {{10, 20}}), 110u)
      << "the window dropped what is around it";
  // A window would have dropped as many, and at the same time.
  EXPECT_EQ(reusable(both, {{4, 36}, {50, 60}}), 63u);
  EXPECT_EQ(reusable(edits, {}), 110u) << "they fell out of a window";
  // At the start with this window, more tokens than it has room for were there.
  const std::vector<Cut> shrunk = {{100, {{4, 72}}}};
  EXPECT_EQ(reusable(shrunk, {}), 110u);
}

// Each of these cuts looks as if the other one had made it.
class PiecesOfTest : public ::testing::Test {
 protected:
  using Ranges = std::vector<TokenRange>;
  static TextLayout Talk(Ranges left_out) {
    return {TextForm::kDialogue,
            {{TextRole::kUser, {3, 30}}, {TextRole::kAssistant, {34, 60}}},
            0,
            std::move(left_out)};
  }
};

TEST_F(PiecesOfTest, AnEditMayDropWhatAWindowWould) {
  const std::vector<Cut> half = {{64, {{4, 36}}}};
  EXPECT_EQ(PiecesOf(half, Talk({{4, 36}})), (Ranges{{4, 36}}));
  const std::vector<Cut> from_the_sink = {{90, {{4, 28}}}};
  EXPECT_EQ(PiecesOf(from_the_sink, Talk({{4, 28}})), (Ranges{{4, 28}})) << "within a message";
  const std::vector<Cut> message = {{90, {{34, 60}}}};
  EXPECT_EQ(PiecesOf(message, Talk({{34, 60}})), (Ranges{{34, 60}})) << "a whole message";
  const TextLayout bare = {TextForm::kDialogue, {}, 0, {{40, 45}}};
  const std::vector<Cut> one = {{90, {{40, 45}}}};
  EXPECT_EQ(PiecesOf(one, bare), (Ranges{{40, 45}})) << "more messages than a layout has";
  const std::vector<Cut> twice = {{90, {{10, 20}, {40, 45}}}, {99, {{20, 22}}}};
  EXPECT_EQ(PiecesOf(twice, Talk({{10, 22}, {40, 45}})), (Ranges{{10, 22}, {40, 45}}));
}

TEST_F(PiecesOfTest, AWindowMayDropWhatAnEditWould) {
  const std::vector<Cut> behind_rules = {{90, {{40, 58}}}};
  EXPECT_THAT(PiecesOf(behind_rules, Talk({})), ElementsAre()) << "it keeps 40 tokens in front";
  const std::vector<Cut> kept_by_hand = {{90, {{10, 20}, {40, 45}}}};
  EXPECT_THAT(PiecesOf(kept_by_hand, Talk({})), ElementsAre());
  const std::vector<Cut> between = {{90, {{60, 64}}}};
  EXPECT_THAT(PiecesOf(between, Talk({})), ElementsAre());
  const std::vector<Cut> both = {{64, {{4, 36}}}, {90, {{40, 45}}}};
  EXPECT_EQ(PiecesOf(both, Talk({{40, 45}})), (Ranges{{40, 45}}));
}

TEST_F(PiecesOfTest, ATokenThatTheSessionHasIsNoPiece) {
  EXPECT_THAT(PiecesOf({}, Talk({{4, 36}})), ElementsAre());
  const std::vector<Cut> cropped = {{64, {{10, 20}}}};
  EXPECT_EQ(PiecesOf(cropped, Talk({{10, 20}, {40, 45}})), (Ranges{{10, 20}}));
  EXPECT_EQ(PiecesOf(cropped, Talk({{15, 30}})), (Ranges{{15, 20}}));
}

TEST_F(WindowTest, TokensThatAreLeftOutLeaveOnce) {
  ATTNDB_ASSERT_OK_AND_ASSIGN(LlamaEngine engine, OpenEngine());
  Session session = NewSession(engine);
  ATTNDB_ASSERT_OK(engine.Prefill(session, Ids(engine, 100)));
  const std::vector<TokenRange> first = {{10, 20}, {40, 45}};
  ATTNDB_ASSERT_OK(LeaveOut(first, &session));
  EXPECT_THAT(session.cuts(), ElementsAre(Cut{100, first}));
  ATTNDB_ASSERT_OK(engine.Prefill(session, Ids(engine, 50)));
  // One of them is known, one has grown, and one is new.
  const std::vector<TokenRange> second = {{10, 20}, {38, 45}, {120, 130}};
  ATTNDB_ASSERT_OK(LeaveOut(second, &session));
  EXPECT_THAT(session.cuts(), ElementsAre(Cut{100, first}, Cut{150, {{38, 40}, {120, 130}}}));
  EXPECT_EQ(session.num_dropped(), 27u);
  ATTNDB_ASSERT_OK(LeaveOut(second, &session));
  EXPECT_EQ(session.cuts().size(), 2u);
  const std::vector<TokenRange> last = {{140, 150}};
  EXPECT_THAT(LeaveOut(last, &session),
              FailsWith(StatusCode::kInvalidArgument, HasSubstr("expected more than the 150")));
}

// A window's tokens leave behind those that were left out.
TEST_F(WindowTest, AWindowThatLeftTokensOutFillsUpLater) {
  ATTNDB_ASSERT_OK_AND_ASSIGN(LlamaEngine engine, OpenEngine());
  Session session = NewSession(engine);
  ATTNDB_ASSERT_OK(engine.Prefill(session, Ids(engine, 60)));
  const std::vector<TokenRange> left_out = {{10, 30}};
  ATTNDB_ASSERT_OK(LeaveOut(left_out, &session));
  const WindowOptions window = {.window_tokens = 64};
  ATTNDB_ASSERT_OK(engine.Prefill(session, Ids(engine, 24), {.window = window}));
  EXPECT_EQ(session.num_dropped(), 20u);
  EXPECT_LE(session.next_position(), 64);
  ATTNDB_ASSERT_OK(engine.Prefill(session, Ids(engine, 10), {.window = window}));
  EXPECT_EQ(session.num_dropped(), 52u);
}

TEST_F(WindowTest, ALargerWindowRunsAgainWhatASmallerOneDropped) {
  ATTNDB_ASSERT_OK_AND_ASSIGN(LlamaEngine engine, OpenEngine());
  const std::vector<TokenId> ids = Ids(engine, 115);
  const std::span<const TokenId> held = std::span(ids).first(110);
  const WindowOptions small = {.window_tokens = 64};
  Session made = NewSession(engine);
  ATTNDB_ASSERT_OK(engine.Prefill(made, held, {.window = small}));
  ASSERT_EQ(made.num_dropped(), 64u);
  ATTNDB_ASSERT_OK(db_->Store(made, held, {.name = "talk"}));
  ATTNDB_ASSERT_OK_AND_ASSIGN(const LogitRows plain, PlainRows(engine, ids));
  for (const char* const context : {"", "talk"}) {
    const SessionOptions options = {.context = context};
    ATTNDB_ASSERT_OK_AND_ASSIGN(SessionStart whole, CreateSessionIn({.window_tokens = 128}, *db_,
                                                                    engine.spec(), ids, options));
    const uint64_t num_reused = whole.session.num_tokens();
    EXPECT_THAT(num_reused, AnyOf(63u, 64u)) << context << ": up to the first cut";
    EXPECT_TRUE(whole.session.cuts().empty()) << context;
    ATTNDB_ASSERT_OK_AND_ASSIGN(const LogitRows ours,
                                EngineRows(engine, whole.session, whole.rest));
    EXPECT_LT(LargestDifference(ours, plain, num_reused), 1e-3) << context;
    ATTNDB_ASSERT_OK_AND_ASSIGN(const SessionStart cut,
                                CreateSessionIn(small, *db_, engine.spec(), ids, options));
    EXPECT_EQ(cut.session.num_tokens(), 110u) << context;
    EXPECT_EQ(cut.session.cuts(), made.cuts()) << context;
  }
}

TEST(UsualKeepFirstTest, ASystemMessageStaysIfItLeavesRoom) {
  EXPECT_EQ(UsualKeepFirst(25, 100), 25u);
  EXPECT_EQ(UsualKeepFirst(26, 100), 4u);
  EXPECT_EQ(UsualKeepFirst(0, 100), 4u);
  EXPECT_EQ(UsualKeepFirst(0, 8), 2u);
  EXPECT_EQ(UsualKeepFirst(1, 8), 1u);
  EXPECT_EQ(UsualKeepFirst(1, 0), 0u) << "a window without a limit drops nothing";
}

TEST_F(WindowTest, SessionsOverSeveralContextsCantLoseTokens) {
  ATTNDB_ASSERT_OK_AND_ASSIGN(LlamaEngine engine, OpenEngine());
  const std::vector<TokenId> ids = Ids(engine, 60);
  Session made = NewSession(engine);
  ATTNDB_ASSERT_OK(engine.Prefill(made, ids));
  ATTNDB_ASSERT_OK(db_->Store(made, ids, {.name = "a"}));
  ATTNDB_ASSERT_OK(made.Crop(40));
  ATTNDB_ASSERT_OK(db_->Store(made, std::span(ids).first(40), {.name = "b"}));
  const std::vector<std::string> names = {"a", "b"};
  ATTNDB_ASSERT_OK_AND_ASSIGN(Session several, db_->CreateSessionOver(engine.spec(), names));
  EXPECT_EQ(TokensOfWindow(several), 60u) << "they stand beside each other";
  const WindowOptions window = {.window_tokens = 64};
  ATTNDB_ASSERT_OK(engine.Prefill(several, std::span(ids).first(4), {.window = window}));
  const uint64_t num_tokens = several.num_tokens();
  EXPECT_THAT(engine.Decode(several, 5, window),
              FailsWith(StatusCode::kFailedPrecondition, ::testing::_));
  EXPECT_EQ(several.num_tokens(), num_tokens);
}

}  // namespace
}  // namespace attndb::llama
