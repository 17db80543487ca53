// Goal:   a session of a real model that lost its oldest tokens predicts what follows as well as
//         one that was computed again, if a sink stays; without one, or with keys that stand at
//         other positions than they were turned for, it does not. It still says what it was told in
//         what stays. Positions in the millions change nothing.
// Method: bench_truncation's own parts at small sizes: SmolLM2 on Python's documentation, a window
//         of 256 tokens that overflows three times; codes in a window of 512; a tiny float32 model
//         for positions.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <numeric>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "attndb/db.h"
#include "bench/e2e/truncation_codes.h"
#include "bench/e2e/truncation_positions.h"
#include "bench/e2e/truncation_stream.h"
#include "bench/e2e/truncation_ways.h"
#include "engines/llama/engine_test_util.h"
#include "engines/llama/llama_engine.h"
#include "testing/matchers.h"
#include "testing/temp_dir.h"

namespace attndb::bench {
namespace {

using ::attndb::test::FailsWith;
using ::testing::HasSubstr;

double Mean(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

class TruncationTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ATTNDB_ASSERT_OK_AND_ASSIGN(DB db, DB::Open(directory_.File("store")));
    db_.emplace(std::move(db));
  }
  void OpenSmolLm2() {
    llama::EngineOptions options = {.num_threads = 1};  // ggml's threads spin beside other tests.
    options.cache_dir = directory_.File("cache");
    ATTNDB_ASSERT_OK_AND_ASSIGN(llama::LlamaEngine engine,
                                llama::LlamaEngine::Open("smollm2", options));
    engine_.emplace(std::move(engine));
    const std::string text = llama::TestText().substr(0, 8000);
    ATTNDB_ASSERT_OK_AND_ASSIGN(document_, engine_->Tokenize(text, true, false));
  }

  double StreamNll(Way way, const StreamOptions& options, const Session& first) {
    Result<Session> fork = first.Fork();
    EXPECT_THAT(fork, ::attndb::test::IsOk());
    const Result<StreamResult> result =
        RunStream(way, options, *db_, &*engine_, document_, *std::move(fork));
    EXPECT_THAT(result, ::attndb::test::IsOk());
    EXPECT_EQ(result->segment_nll.size(), options.num_segments);
    EXPECT_EQ(result->chosen_right.size(), options.num_segments * options.choices_per_segment);
    const double nll = Mean(result->segment_nll);
    std::printf("%-9s %.4f nats a token\n", WayName(way).data(), nll);
    return nll;
  }

  ::attndb::test::TempDir directory_;
  std::optional<DB> db_;
  std::optional<llama::LlamaEngine> engine_;
  std::vector<TokenId> document_;
};

TEST_F(TruncationTest, WithASinkTextIsPredictedAsIfItWereComputedAgain) {
  OpenSmolLm2();
  const StreamOptions options = {.window = {.tokens = 256, .left = 128},
                                 .num_segments = 3,
                                 .choices_per_segment = 1,
                                 .choice_tokens = 8};
  ATTNDB_ASSERT_OK_AND_ASSIGN(const Session first,
                              FirstWindow(Way::kKeep4, options, *db_, &*engine_, document_));
  ATTNDB_ASSERT_OK_AND_ASSIGN(const Session unrotated,
                              FirstWindow(Way::kUnrotated, options, *db_, &*engine_, document_));
  const double recomputed = StreamNll(Way::kRecompute, options, first);
  EXPECT_LT(StreamNll(Way::kSink, options, first), recomputed + 0.03);
  const double ours = StreamNll(Way::kKeep4, options, first);
  EXPECT_LT(ours, recomputed + 0.03);
  EXPECT_NEAR(StreamNll(Way::kUnrotated, options, unrotated), ours, 0.02);
  EXPECT_GT(StreamNll(Way::kNoSink, options, first), recomputed + 0.25);
  EXPECT_GT(StreamNll(Way::kNaive, options, first), recomputed + 1.0);
}

TEST_F(TruncationTest, CodesThatStayAreSaid) {
  OpenSmolLm2();
  const Window window = {.tokens = 512, .left = 256};
  ATTNDB_ASSERT_OK_AND_ASSIGN(const CodeText text, MakeCodeText(*engine_, window, document_, 0, 3));
  EXPECT_EQ(text.tokens.size(), window.tokens);
  constexpr std::array kWays = {Way::kFull, Way::kKeep4, Way::kNaive};
  ATTNDB_ASSERT_OK_AND_ASSIGN(const auto said, AskCodes(text, kWays, window, *db_, &*engine_));
  std::array<std::ptrdiff_t, kWays.size()> right = {};
  for (size_t i = 0; i < kWays.size(); ++i) {
    ASSERT_EQ(said[i].size(), kCodesOfText);
    right[i] = std::count(said[i].begin(), said[i].end(), true);
    std::printf("%-9s %td of %zu\n", WayName(kWays[i]).data(), right[i], kCodesOfText);
  }
  EXPECT_GE(right[0], 4) << "the model can't do it at all";
  EXPECT_GE(right[1], right[0] - 2);
  EXPECT_LE(right[2], 1);
}

TEST_F(TruncationTest, PositionsInTheMillionsChangeNothing) {
  llama::EngineOptions options = llama::TinyOptions(llama::HookVariant::kRewrite);
  options.cache_dir = directory_.File("cache");
  ATTNDB_ASSERT_OK_AND_ASSIGN(llama::LlamaEngine engine,
                              llama::LlamaEngine::Open(llama::TinyModel("llama"), options));
  const std::vector<TokenId> tokens = llama::RandomIds(800, 7, engine.info().vocab_size);
  constexpr std::array<int64_t, 1> kPositions = {1'000'000};
  ATTNDB_ASSERT_OK_AND_ASSIGN(const auto results,
                              ComparePositions(kPositions, tokens, *db_, &engine));
  ASSERT_EQ(results.size(), 1u);
  std::printf("rebased %.2g, own angles %.2g\n", results[0].rebased_max, results[0].own_angles_max);
  EXPECT_LT(results[0].rebased_max, 1e-3);
  EXPECT_GT(results[0].own_angles_max, 4 * results[0].rebased_max)
      << "llama.cpp's angles are float32";
}

TEST_F(TruncationTest, TextsThatAreTooShortAreRefused) {
  OpenSmolLm2();
  document_.resize(300);
  const StreamOptions options = {.window = {.tokens = 256, .left = 128}, .num_segments = 3};
  EXPECT_THAT(FirstWindow(Way::kKeep4, options, *db_, &*engine_, document_),
              FailsWith(StatusCode::kInvalidArgument, HasSubstr("has 300 tokens, expected 657")));
  EXPECT_THAT(MakeCodeText(*engine_, options.window, document_, 0, 1),
              FailsWith(StatusCode::kInvalidArgument, HasSubstr("has 300 tokens, expected 320")));
  document_.resize(320);
  EXPECT_THAT(MakeCodeText(*engine_, {.tokens = 128, .left = 64}, document_, 0, 1),
              FailsWith(StatusCode::kInvalidArgument, HasSubstr("has no room for the codes")));
  const std::array<int64_t, 1> at = {5};
  EXPECT_THAT(ComparePositions(at, document_, *db_, &*engine_),
              FailsWith(StatusCode::kInvalidArgument, HasSubstr("has 320 tokens, expected 769")));
}

}  // namespace
}  // namespace attndb::bench
