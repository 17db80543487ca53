// Goal:   the main job in one process: import a document, answer from the stored context, and be
//         equal to plain llama.cpp. And what Generate promises about ends, texts and what the
//         session holds.
// Method: SmolLM2, greedy.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "attndb/db.h"
#include "engines/llama/engine_test_util.h"
#include "engines/llama/llama_engine.h"
#include "engines/llama/sampler.h"
#include "testing/matchers.h"
#include "testing/temp_dir.h"

namespace attndb::llama {
namespace {

using ::testing::HasSubstr;

// Easy enough for a model of 135M parameters.
constexpr const char* kDocument =
    "Tobias keeps a lighthouse. He lives there with a grey cat. The cat is called Admiral. Every "
    "evening Admiral climbs the stairs with him. The pass key of the tower is 71482.";

class EngineGenerateTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    Result<LlamaEngine> engine =
        LlamaEngine::Open("smollm2", {.num_threads = 1, .chat_template = kChatMl});
    ASSERT_THAT(engine, ::attndb::test::IsOk());
    engine_ = std::make_unique<LlamaEngine>(*std::move(engine));
  }
  static void TearDownTestSuite() { engine_.reset(); }

  Result<SessionStart> Ask(const std::string& question) {
    ATTNDB_ASSIGN_OR_RETURN(const DB db, DB::Open(directory_.File("store")));
    ATTNDB_ASSIGN_OR_RETURN(const auto prompt, engine_->FirstTurn("", question));
    return db.CreateSession(engine_->spec(), prompt);
  }

  // The reply to a question, and what was told of its tokens.
  std::pair<Generation, std::vector<ReplyToken>> ReplyTo(const std::string& question,
                                                         GenerateOptions options) {
    std::vector<ReplyToken> replied;
    options.on_tokens = [&](std::vector<ReplyToken> tokens) {
      for (ReplyToken& token : tokens) replied.push_back(std::move(token));
    };
    Result<SessionStart> start = Ask(question);
    EXPECT_THAT(start, ::attndb::test::IsOk());
    Result<Generation> generation = engine_->Generate(start->session, start->rest, options);
    EXPECT_THAT(generation, ::attndb::test::IsOk());
    return {*std::move(generation), std::move(replied)};
  }

  ::attndb::test::TempDir directory_;
  static std::unique_ptr<LlamaEngine> engine_;
};
std::unique_ptr<LlamaEngine> EngineGenerateTest::engine_;

TEST_F(EngineGenerateTest, AnswersFromAStoredDocumentAsPlainLlamaCppDoes) {
  ATTNDB_ASSERT_OK_AND_ASSIGN(const auto document, engine_->DocumentPrefix("", kDocument));
  {
    ATTNDB_ASSERT_OK_AND_ASSIGN(const DB db, DB::Open(directory_.File("store")));
    ATTNDB_ASSERT_OK_AND_ASSIGN(SessionStart start, db.CreateSession(engine_->spec(), document));
    ATTNDB_ASSERT_OK(engine_->Prefill(start.session, start.rest));
    ATTNDB_ASSERT_OK(db.Store(start.session, document, {.name = "lighthouse"}));
  }
  ATTNDB_ASSERT_OK_AND_ASSIGN(const DB db, DB::Open(directory_.File("store")));
  const std::pair<const char*, const char*> questions[] = {
      {"What is the pass key?", "71482"},
      {"What is the cat called?", "Admiral"},
  };
  for (const auto& [question, answer] : questions) {
    ATTNDB_ASSERT_OK_AND_ASSIGN(const auto suffix, engine_->QuestionSuffix(question));
    std::vector<TokenId> prompt = document;
    prompt.insert(prompt.end(), suffix.begin(), suffix.end());
    ATTNDB_ASSERT_OK_AND_ASSIGN(SessionStart start, db.CreateSession(engine_->spec(), prompt));
    EXPECT_EQ(start.session.num_reused(), document.size());
    EXPECT_EQ(start.rest, suffix);
    ATTNDB_ASSERT_OK_AND_ASSIGN(const Generation generation,
                                engine_->Generate(start.session, start.rest, {.max_tokens = 40}));
    EXPECT_THAT(generation.text, HasSubstr(answer));
    ATTNDB_ASSERT_OK_AND_ASSIGN(const CheckReport check,
                                engine_->CheckAgainstPlain(prompt, generation.tokens));
    EXPECT_EQ(check.num_compared, generation.tokens.size());
    for (const TokenDifference& difference : check.differences) {
      EXPECT_LT(difference.logit_gap, check.own_spread) << "token " << difference.index;
    }
  }
}

TEST_F(EngineGenerateTest, CheckFindsATokenThatPlainLlamaCppWouldNotChoose) {
  ATTNDB_ASSERT_OK_AND_ASSIGN(const auto prompt,
                              engine_->FirstTurn("", "What is the capital of France?"));
  ATTNDB_ASSERT_OK_AND_ASSIGN(auto wrong,
                              engine_->Tokenize("The capital of France is Lisbon", false, false));
  ATTNDB_ASSERT_OK_AND_ASSIGN(const CheckReport check, engine_->CheckAgainstPlain(prompt, wrong));
  ASSERT_FALSE(check.equal());
  EXPECT_EQ(check.num_compared, wrong.size());
  EXPECT_EQ(check.differences.back().index, wrong.size() - 1);
  EXPECT_EQ(check.differences.back().ours, wrong.back());
  EXPECT_GT(check.differences.back().logit_gap, check.own_spread);
  EXPECT_GT(check.own_spread, 0);
}

TEST_F(EngineGenerateTest, EndsAtTheModelsEndAndHoldsAllTokens) {
  ATTNDB_ASSERT_OK_AND_ASSIGN(SessionStart start, Ask("What is the capital of France?"));
  std::string shown;
  GenerateOptions options;
  options.on_piece = [&](std::string_view piece) {
    shown += piece;
    return true;
  };
  ATTNDB_ASSERT_OK_AND_ASSIGN(const Generation generation,
                              engine_->Generate(start.session, start.rest, options));
  EXPECT_EQ(generation.text, "The capital of France is Paris.");
  EXPECT_EQ(shown, generation.text);
  EXPECT_EQ(generation.finish, FinishReason::kEnd);
  EXPECT_EQ(generation.num_in_session, generation.tokens.size());
  EXPECT_EQ(start.session.num_tokens(), start.rest.size() + generation.tokens.size());
  EXPECT_EQ(generation.num_prefilled, start.rest.size());
  EXPECT_GT(generation.prefill_ms, 0);
  EXPECT_GE(generation.first_token_ms, generation.prefill_ms);
  EXPECT_GT(generation.second_token_ms, generation.first_token_ms);
  EXPECT_GT(generation.decode_ms_per_token, 0);
}

TEST_F(EngineGenerateTest, EndsAtStopStringsLimitsAndWishes) {
  const auto run = [&](const GenerateOptions& options) {
    Result<SessionStart> start = Ask("What is the capital of France?");
    EXPECT_THAT(start, ::attndb::test::IsOk());
    Result<Generation> generation = engine_->Generate(start->session, start->rest, options);
    EXPECT_THAT(generation, ::attndb::test::IsOk());
    EXPECT_EQ(start->session.num_tokens(), start->rest.size() + generation->num_in_session);
    return *std::move(generation);
  };
  const Generation stopped = run({.stop = {" France"}});
  EXPECT_EQ(stopped.finish, FinishReason::kStop);
  EXPECT_EQ(stopped.text, "The capital of");
  EXPECT_EQ(stopped.num_in_session + 1, stopped.tokens.size());

  const Generation limited = run({.max_tokens = 2});
  EXPECT_EQ(limited.finish, FinishReason::kMaxTokens);
  EXPECT_EQ(limited.text, "The capital");
  EXPECT_EQ(limited.num_in_session, 1u);

  EXPECT_TRUE(run({.max_tokens = 0}).tokens.empty());
  const Generation one = run({.max_tokens = 1});
  EXPECT_GT(one.first_token_ms, 0);
  EXPECT_EQ(one.second_token_ms, 0);

  GenerateOptions cancelled;
  cancelled.on_piece = [](std::string_view) { return false; };
  EXPECT_EQ(run(cancelled).finish, FinishReason::kCancelled);

  const Generation endless = run({.max_tokens = 20, .ignore_end = true});
  EXPECT_EQ(endless.tokens.size(), 20u);
}

TEST_F(EngineGenerateTest, SampledTextIsFixedByItsSeed) {
  const auto run = [&](uint32_t seed) {
    Result<SessionStart> start = Ask("Write a sentence about the sea.");
    GenerateOptions options = {.max_tokens = 12};
    options.sampler = {.temperature = 1.5f, .top_k = 0, .min_p = 0.0f, .seed = seed};
    return engine_->Generate(start->session, start->rest, options)->text;
  };
  EXPECT_EQ(run(1), run(1));
  EXPECT_NE(run(1), run(2));
}

// The log-softmax of one logit by its definition.
double LogSoftmax(std::span<const float> logits, TokenId token) {
  const auto own = static_cast<long double>(logits[static_cast<size_t>(token)]);
  long double sum = 0;
  for (const float logit : logits) sum += std::exp(static_cast<long double>(logit) - own);
  return static_cast<double>(-std::log(sum));
}

// Goal:   each token comes with the model's own log-probabilities, whatever chose it.
// Method: the same tokens are run again one by one, and judged by the logits before each.
TEST_F(EngineGenerateTest, TokensComeWithTheirLogProbabilities) {
  GenerateOptions options = {.max_tokens = 8, .chances = {.num_likeliest = 5}};
  options.sampler = {.temperature = 1.5f, .seed = 3, .logit_bias = {{20, 50.0f}, {21, 50.0f}}};
  const auto [generation, replied] = ReplyTo("What is the capital of France?", options);
  ASSERT_EQ(replied.size(), 8u);
  ASSERT_EQ(replied.size(), generation.tokens.size());

  ATTNDB_ASSERT_OK_AND_ASSIGN(SessionStart again, Ask("What is the capital of France?"));
  ATTNDB_ASSERT_OK(engine_->Prefill(again.session, again.rest));
  std::string text;
  for (size_t i = 0; i < replied.size(); ++i) {
    ATTNDB_ASSERT_OK_AND_ASSIGN(const std::span<const float> logits, engine_->Logits(0));
    const ReplyToken& token = replied[i];
    EXPECT_EQ(token.token, generation.tokens[i]);
    EXPECT_NEAR(token.chance, LogSoftmax(logits, token.token), 1e-9);
    ASSERT_EQ(token.likeliest.size(), 5u);
    EXPECT_EQ(token.likeliest[0].token, ArgMax(logits));
    for (const LikelyToken& likely : token.likeliest) {
      EXPECT_NEAR(likely.chance, LogSoftmax(logits, likely.token), 1e-9);
      EXPECT_FALSE(likely.text.empty());
    }
    text += token.text;
    ATTNDB_ASSERT_OK(engine_->Decode(again.session, token.token));
  }
  EXPECT_EQ(text, generation.text);
}

TEST_F(EngineGenerateTest, IdsComeWithoutChances) {
  const auto [generation, replied] =
      ReplyTo("What is the capital of France?",
              {.max_tokens = 5, .chances = {.num_likeliest = 2, .ids_only = true}});
  ASSERT_EQ(replied.size(), 5u);
  for (size_t i = 0; i < replied.size(); ++i) {
    EXPECT_EQ(replied[i].token, generation.tokens[i]);
    EXPECT_EQ(replied[i].chance, 0);
    EXPECT_TRUE(replied[i].likeliest.empty());
  }
}

TEST_F(EngineGenerateTest, TheEndOfTheModelIsNamedAmongTheLikeliest) {
  const auto [generation, replied] =
      ReplyTo("What is the capital of France?",
              {.max_tokens = 9, .ignore_end = true, .chances = {.num_likeliest = 2}});
  // "The capital of France is Paris.", and the end, which is no text.
  ASSERT_EQ(replied.size(), 9u);
  const auto end = std::ranges::find_if(
      replied, [&](const ReplyToken& token) { return engine_->IsEndOfGeneration(token.token); });
  ASSERT_NE(end, replied.end());
  EXPECT_EQ(end->text, "");
  EXPECT_EQ(end->likeliest[0].text, "<|im_end|>");
  EXPECT_TRUE(end->likeliest[0].is_named);
  EXPECT_EQ(replied[0].text, replied[0].likeliest[0].text);
  EXPECT_FALSE(replied[0].likeliest[0].is_named);
}

TEST_F(EngineGenerateTest, TokensOfAStopStringAreLeftOut) {
  ATTNDB_ASSERT_OK_AND_ASSIGN(SessionStart start, Ask("What is the capital of France?"));
  std::string text, of_tokens;
  GenerateOptions options = {.stop = {"ance is"}};
  options.on_tokens = [&](const std::vector<ReplyToken>& tokens) {
    for (const ReplyToken& token : tokens) of_tokens += token.text;
  };
  options.on_piece = [&](std::string_view piece) {
    text += piece;
    EXPECT_TRUE(text.starts_with(of_tokens)) << "a token comes with its last byte";
    return true;
  };
  ATTNDB_ASSERT_OK_AND_ASSIGN(const Generation generation,
                              engine_->Generate(start.session, start.rest, options));
  EXPECT_EQ(generation.finish, FinishReason::kStop);
  EXPECT_EQ(generation.text, "The capital of Fr");
  EXPECT_EQ(of_tokens, generation.text);
}

TEST_F(EngineGenerateTest, ChancesChangeNothing) {
  const auto run = [&](bool with_chances, bool after_samplers) {
    Result<SessionStart> start = Ask("Write a sentence about the sea.");
    GenerateOptions options = {.max_tokens = 12};
    options.sampler = {.temperature = 1.5f, .min_p = 0.0f, .seed = 1};
    options.chances = {.num_likeliest = 20, .after_samplers = after_samplers};
    if (with_chances) options.on_tokens = [](const std::vector<ReplyToken>&) {};
    return engine_->Generate(start->session, start->rest, options)->tokens;
  };
  const std::vector<TokenId> plain = run(false, false);
  EXPECT_EQ(run(true, false), plain);
  EXPECT_EQ(run(true, true), plain);
}

TEST_F(EngineGenerateTest, ABiasSteersAReply) {
  ATTNDB_ASSERT_OK_AND_ASSIGN(const std::vector<TokenId> paris,
                              engine_->Tokenize(" Paris", false, false));
  ASSERT_EQ(paris.size(), 1u);
  ATTNDB_ASSERT_OK_AND_ASSIGN(SessionStart start, Ask("What is the capital of France?"));
  GenerateOptions options = {.max_tokens = 12};
  options.sampler.logit_bias = {{paris[0], -std::numeric_limits<float>::infinity()}};
  ATTNDB_ASSERT_OK_AND_ASSIGN(const Generation without,
                              engine_->Generate(start.session, start.rest, options));
  EXPECT_THAT(without.text, ::testing::Not(HasSubstr(" Paris")));
}

TEST_F(EngineGenerateTest, AFailedGenerationLeavesTheSessionAsItWas) {
  ATTNDB_ASSERT_OK_AND_ASSIGN(SessionStart start, Ask("Hello"));
  GenerateOptions options;
  options.sampler.top_p = 2.0f;
  EXPECT_THAT(engine_->Generate(start.session, start.rest, options),
              ::attndb::test::FailsWith(StatusCode::kInvalidArgument, HasSubstr("top_p")));
  EXPECT_EQ(start.session.num_tokens(), 0u);
  options = {};
  options.prefill.progress = [](const PrefillProgress&) { return false; };
  EXPECT_THAT(engine_->Generate(start.session, start.rest, options),
              ::attndb::test::FailsWith(StatusCode::kCancelled, ::testing::_));
  EXPECT_EQ(start.session.num_tokens(), 0u);
}

}  // namespace
}  // namespace attndb::llama
