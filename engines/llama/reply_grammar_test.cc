// Goal:   a reply under a grammar is what the samplers choose of the tokens that the grammar
//         allows; control tokens that are shown are part of its text.
// Method: SmolLM2's vocabulary and logits that are drawn. What is allowed is computed again here,
//         by trying every token with llama.cpp's sampler in this process.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "attndb/db.h"
#include "engines/llama/engine_test_util.h"
#include "engines/llama/llama_engine.h"
#include "engines/llama/llama_handles.h"
#include "engines/llama/model_file.h"
#include "engines/llama/reply.h"
#include "testing/matchers.h"
#include "testing/temp_dir.h"

namespace attndb::llama {
namespace {

using ::attndb::test::FailsWith;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr float kNever = -std::numeric_limits<float>::infinity();
// A list of words and numbers.
constexpr char kList[] = R"(root ::= "[" item (", " item){0,9} "]"
item ::= [0-9]{1,4} | "\"" [a-z ]{1,12} "\"")";

class ReplyGrammarTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    Result<LlamaEngine> engine = LlamaEngine::Open("smollm2", {.num_threads = 1});
    ASSERT_TRUE(engine.ok()) << engine.status().message();
    engine_ = new LlamaEngine(*std::move(engine));
    llama_model_params params = llama_model_default_params();
    params.vocab_only = true;
    model_ = new ModelHandle(llama_model_load_from_file(engine_->info().path.c_str(), params));
  }
  static void TearDownTestSuite() {
    delete model_;
    delete engine_;
  }

  static const llama_vocab* vocab() { return llama_model_get_vocab(model_->get()); }
  static GenerateOptions Under(const std::string& grammar) {
    GenerateOptions options;
    options.constraint = ReplyConstraint{.grammar = grammar, .triggers = {}, .before = ""};
    return options;
  }
  std::vector<float> DrawLogits() {
    std::normal_distribution<float> normal(0.0f, 3.0f);
    std::vector<float> logits(engine_->info().vocab_size);
    for (float& logit : logits) logit = normal(random_);
    return logits;
  }
  static std::vector<TokenId> TokensOf(const std::string& text) {
    return *engine_->Tokenize(text, /*add_special=*/false, /*parse_special=*/true);
  }
  // Logits of a model that is sure of a text.
  static std::vector<float> LogitsFor(TokenId token) {
    std::vector<float> logits(engine_->info().vocab_size, 0.0f);
    logits[static_cast<size_t>(token)] = 30.0f;
    return logits;
  }
  // The token of the largest logit among those that `grammar` allows, each of them tried.
  static TokenId BestAllowed(llama_sampler* grammar, const std::vector<float>& logits) {
    TokenId best = -1;
    for (size_t i = 0; i < logits.size(); ++i) {
      llama_token_data one = {static_cast<llama_token>(i), logits[i], 0.0f};
      llama_token_data_array array = {&one, 1, -1, false};
      llama_sampler_apply(grammar, &array);
      if (one.logit == kNever) continue;
      if (best < 0 || logits[i] > logits[static_cast<size_t>(best)]) best = one.id;
    }
    return best;
  }

  static LlamaEngine* engine_;
  static ModelHandle* model_;
  std::mt19937 random_{7};
};

LlamaEngine* ReplyGrammarTest::engine_ = nullptr;
ModelHandle* ReplyGrammarTest::model_ = nullptr;

TEST_F(ReplyGrammarTest, AGreedyReplyIsTheLargestLogitAmongAllowedTokens) {
  const SamplerHandle grammar(llama_sampler_init_grammar(vocab(), kList, "root"));
  ATTNDB_ASSERT_OK_AND_ASSIGN(const auto reply, engine_->BeginReply(Under(kList)));
  std::optional<FinishReason> finish;
  while (!finish) {
    std::vector<float> logits = DrawLogits();
    // Every other token is one that needs no mask.
    if (reply->tokens().size() % 2 == 1) {
      logits[static_cast<size_t>(BestAllowed(grammar.get(), logits))] = 40.0f;
    }
    const TokenId best = BestAllowed(grammar.get(), logits);
    ATTNDB_ASSERT_OK_AND_ASSIGN(finish, reply->Next(logits));
    if (finish == FinishReason::kEnd) {
      EXPECT_TRUE(engine_->IsEndOfGeneration(best));
      break;
    }
    ASSERT_EQ(reply->tokens().back(), best);
    llama_sampler_accept(grammar.get(), best);
  }
  EXPECT_EQ(finish, FinishReason::kEnd);
  const std::string text = reply->Finish();
  EXPECT_TRUE(text.starts_with('[') && text.ends_with(']')) << text;
}

TEST_F(ReplyGrammarTest, ADrawnReplyFollowsTheGrammarAndIsTheSameForTheSameSeed) {
  std::vector<std::string> texts;
  for (const uint32_t seed : {1U, 2U, 3U, 1U}) {
    random_.seed(11);
    GenerateOptions options = Under(kList);
    options.sampler = {
        .temperature = 1.5f, .top_k = 0, .top_p = 1, .min_p = 0, .seed = seed, .logit_bias = {}};
    ATTNDB_ASSERT_OK_AND_ASSIGN(const auto reply, engine_->BeginReply(options));
    const SamplerHandle grammar(llama_sampler_init_grammar(vocab(), kList, "root"));
    std::optional<FinishReason> finish;
    while (!finish) {
      ATTNDB_ASSERT_OK_AND_ASSIGN(finish, reply->Next(DrawLogits()));
      if (finish) continue;
      std::vector<float> one(engine_->info().vocab_size, kNever);
      const TokenId token = reply->tokens().back();
      one[static_cast<size_t>(token)] = 1.0f;
      ASSERT_EQ(BestAllowed(grammar.get(), one), token);
      llama_sampler_accept(grammar.get(), token);
    }
    EXPECT_EQ(finish, FinishReason::kEnd);
    texts.push_back(reply->Finish());
  }
  EXPECT_EQ(texts[0], texts[3]);
  EXPECT_NE(texts[0], texts[1]);
}

TEST_F(ReplyGrammarTest, ChancesAreTheModelsOwnAndAfterSamplersThoseBehindTheGrammar) {
  std::vector<ReplyToken> own;
  std::vector<ReplyToken> after;
  for (std::vector<ReplyToken>* const noted : {&own, &after}) {
    GenerateOptions options = Under(R"(root ::= "yes" | "no")");
    options.sampler = {.temperature = 1, .top_k = 0, .top_p = 1, .min_p = 0, .logit_bias = {}};
    options.chances = {.num_likeliest = 2, .after_samplers = noted == &after};
    options.on_tokens = [noted](std::vector<ReplyToken> tokens) {
      noted->insert(noted->end(), tokens.begin(), tokens.end());
    };
    ATTNDB_ASSERT_OK_AND_ASSIGN(const auto reply, engine_->BeginReply(options));
    std::vector<float> logits = LogitsFor(TokensOf("maybe").front());
    logits[static_cast<size_t>(TokensOf("no").front())] = 20.0f;
    ASSERT_TRUE(reply->Next(logits).ok());
    EXPECT_EQ(reply->Finish(), "no");
  }
  ASSERT_EQ(own.size(), 1U);
  EXPECT_NEAR(own[0].chance, -10, .01);
  EXPECT_EQ(own[0].likeliest.at(0).text, "maybe");
  ASSERT_EQ(after.size(), 1U);
  EXPECT_NEAR(after[0].chance, 1, .01);
  EXPECT_EQ(after[0].likeliest.at(0).text, "no");
}

TEST_F(ReplyGrammarTest, AReplyThatNothingIsAllowedInIsAnError) {
  ATTNDB_ASSERT_OK_AND_ASSIGN(const auto reply,
                              engine_->BeginReply(Under(R"(root ::= [^\x00-\UFFFFFFFF])")));
  EXPECT_THAT(reply->Next(DrawLogits()),
              FailsWith(StatusCode::kInvalidArgument, HasSubstr("allows no token")));

  GenerateOptions options = Under(R"(root ::= "yes")");
  for (size_t i = 0; i < engine_->info().vocab_size; ++i) {
    if (std::string("yes").starts_with(*engine_->Detokenize(std::vector<TokenId>{TokenId(i)}))) {
      options.sampler.logit_bias.push_back({static_cast<TokenId>(i), kNever});
    }
  }
  for (const float temperature : {0.0f, 1.0f}) {
    options.sampler.temperature = temperature;
    ATTNDB_ASSERT_OK_AND_ASSIGN(const auto biased, engine_->BeginReply(options));
    EXPECT_THAT(biased->Next(DrawLogits()),
                FailsWith(StatusCode::kInvalidArgument, HasSubstr("allows no token")));
  }
}

TEST_F(ReplyGrammarTest, AGrammarThatCantBeCompiledIsKnownBeforeAnythingIsRun) {
  const ReplyConstraint wrong = {.grammar = "root ::= )", .triggers = {}, .before = ""};
  EXPECT_THAT(engine_->CheckGrammar(wrong),
              FailsWith(StatusCode::kInvalidArgument, HasSubstr("line 1, column 10")));
  ATTNDB_EXPECT_OK(engine_->CheckGrammar({.grammar = kList, .triggers = {}, .before = ""}));
  ATTNDB_ASSERT_OK_AND_ASSIGN(const auto reply, engine_->BeginReply(Under(wrong.grammar)));
  EXPECT_THAT(reply->AwaitGrammar(), FailsWith(StatusCode::kInvalidArgument, HasSubstr("line 1")));
  EXPECT_THAT(reply->Next(DrawLogits()),
              FailsWith(StatusCode::kInvalidArgument, HasSubstr("line 1")));
}

TEST_F(ReplyGrammarTest, ControlTokensThatAreShownArePartOfTheText) {
  GenerateOptions options;
  options.shown_tokens = {"<file_sep>", "not one token"};
  options.stop = {"<file_sep>b"};
  ATTNDB_ASSERT_OK_AND_ASSIGN(const auto reply, engine_->BeginReply(options));
  const std::vector<TokenId> tokens = TokensOf("a<repo_name><file_sep>c<file_sep>b");
  std::optional<FinishReason> finish;
  for (const TokenId token : tokens) {
    ATTNDB_ASSERT_OK_AND_ASSIGN(finish, reply->Next(LogitsFor(token)));
  }
  EXPECT_EQ(finish, FinishReason::kStop);
  EXPECT_EQ(reply->Finish(), "a<file_sep>c");
}

TEST_F(ReplyGrammarTest, ALazyGrammarLeavesTheReplyFreeUpToItsTrigger) {
  GenerateOptions options;
  options.constraint = ReplyConstraint{.grammar = R"(root ::= <file_sep> "yes")",
                                       .is_lazy = true,
                                       .triggers = {{.text = "<file_sep>"}},
                                       .before = ""};
  options.shown_tokens = {"<file_sep>"};
  ATTNDB_ASSERT_OK_AND_ASSIGN(const auto reply, engine_->BeginReply(options));
  for (const TokenId token : TokensOf("What?<file_sep>")) {
    ASSERT_TRUE(reply->Next(LogitsFor(token)).ok());
  }
  std::vector<float> logits = LogitsFor(TokensOf("no").front());
  logits[static_cast<size_t>(TokensOf("yes").front())] = 20.0f;
  ASSERT_TRUE(reply->Next(logits).ok());
  EXPECT_EQ(reply->Finish(), "What?<file_sep>yes");
}

// The steps of a reply for callers that have something else to do.
TEST_F(ReplyGrammarTest, AStepIsSettledOnceTheGrammarHasAnswered) {
  ATTNDB_ASSERT_OK_AND_ASSIGN(const auto reply, engine_->BeginReply(Under(R"(root ::= "yes")")));
  std::vector<float> logits = DrawLogits();
  ATTNDB_ASSERT_OK_AND_ASSIGN(ReplyStep step, reply->Propose(logits));
  logits.clear();  // The engine's next call overwrites them.
  while (!step.is_settled) {
    pollfd waited = reply->awaited();
    ASSERT_EQ(poll(&waited, 1, 60'000), 1);
    ATTNDB_ASSERT_OK_AND_ASSIGN(step, reply->Settle());
  }
  EXPECT_FALSE(step.finish);
  EXPECT_EQ(reply->tokens().size(), 1U);
}

TEST_F(ReplyGrammarTest, TheEngineGeneratesUnderAGrammar) {
  const test::TempDir directory = test::TempDir::InMemory();
  ATTNDB_ASSERT_OK_AND_ASSIGN(DB db, DB::Open(directory.File("store")));
  GenerateOptions options = Under(R"(root ::= "{\"answer\": " [0-9]{3} "}")");
  const std::vector<TokenId> prompt = TokensOf("How many days has a year?");
  ATTNDB_ASSERT_OK_AND_ASSIGN(auto start, db.CreateSession(engine_->spec(), prompt));
  ATTNDB_ASSERT_OK_AND_ASSIGN(const Generation generation,
                              engine_->Generate(start.session, prompt, options));
  EXPECT_THAT(generation.text, ::testing::MatchesRegex(R"(\{"answer": [0-9][0-9][0-9]\})"));
  EXPECT_EQ(generation.finish, FinishReason::kEnd);

  options.constraint->grammar = "root ::= )";
  ATTNDB_ASSERT_OK_AND_ASSIGN(start, db.CreateSession(engine_->spec(), prompt));
  EXPECT_THAT(engine_->Generate(start.session, prompt, options),
              FailsWith(StatusCode::kInvalidArgument, HasSubstr("line 1")));
  EXPECT_EQ(start.session.num_tokens(), 0U) << "the prompt was not run";
}

}  // namespace
}  // namespace attndb::llama
