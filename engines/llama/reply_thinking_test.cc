// Goal:   a thinking that is too long gets its end, token by token, with and without a grammar; a
//         lazy grammar does not begin inside a thinking.
// Method: SmolLM2's vocabulary, which has no tokens for these marks, and logits of a model that is
//         sure of a text.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "engines/llama/llama_engine.h"
#include "engines/llama/reply.h"
#include "testing/matchers.h"

namespace attndb::llama {
namespace {

using ::attndb::test::FailsWith;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr char kCall[] = R"(root ::= "<call>" [a-z<>]+ "</call>")";

class ReplyThinkingTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    Result<LlamaEngine> engine = LlamaEngine::Open("smollm2", {.num_threads = 1});
    ASSERT_TRUE(engine.ok()) << engine.status().message();
    engine_ = new LlamaEngine(*std::move(engine));
  }
  static void TearDownTestSuite() { delete engine_; }

  static std::vector<TokenId> TokensOf(const std::string& text) {
    return *engine_->Tokenize(text, /*add_special=*/false, /*parse_special=*/true);
  }
  // Thinks in front of each reply, for at most `budget` tokens.
  static GenerateOptions Thinking(std::optional<uint32_t> budget, const std::string& message = "") {
    GenerateOptions options;
    options.thinking = {.start = "<think>",
                        .ends = {"</think>"},
                        .before = "<think>",
                        .max_tokens = budget,
                        .message = message};
    return options;
  }
  static GenerateOptions Lazily(std::optional<uint32_t> budget, const std::string& trigger,
                                const std::string& grammar = kCall) {
    GenerateOptions options = Thinking(budget);
    options.constraint = ReplyConstraint{
        .grammar = grammar, .is_lazy = true, .triggers = {{.text = trigger}}, .before = ""};
    return options;
  }
  static std::vector<float> LogitsFor(TokenId token) {
    std::vector<float> logits(engine_->info().vocab_size, 0.0f);
    logits[static_cast<size_t>(token)] = 30.0f;
    return logits;
  }
  // Lets a model go on with `text`. The reason to end, if the reply ended meanwhile.
  Result<std::optional<FinishReason>> Say(const std::string& text) {
    std::optional<FinishReason> finish;
    for (const TokenId token : TokensOf(text)) {
      ATTNDB_ASSIGN_OR_RETURN(finish, reply_->Next(LogitsFor(token)));
      if (finish) break;
    }
    return finish;
  }
  void Begin(const GenerateOptions& options) {
    Result<std::unique_ptr<Reply>> reply = engine_->BeginReply(options);
    ASSERT_TRUE(reply.ok()) << reply.status().message();
    reply_ = *std::move(reply);
  }
  void Said(const std::string& text) {
    const auto finish = Say(text);
    ASSERT_TRUE(finish.ok()) << finish.status().message();
    ASSERT_FALSE(*finish) << FinishReasonName(**finish);
  }
  // Lets a model that always says this word go on for so many tokens.
  void Insist(const std::string& word, size_t num_tokens) {
    const std::vector<TokenId> token = TokensOf(word);
    ASSERT_EQ(token.size(), 1u);
    for (size_t i = 0; i < num_tokens; ++i) {
      const auto finish = reply_->Next(LogitsFor(token[0]));
      ASSERT_TRUE(finish.ok()) << finish.status().message();
      ASSERT_FALSE(*finish);
    }
  }

  static LlamaEngine* engine_;
  std::unique_ptr<Reply> reply_;
};

LlamaEngine* ReplyThinkingTest::engine_ = nullptr;

TEST_F(ReplyThinkingTest, AThinkingThatIsTooLongGetsItsEnd) {
  const size_t num_end = TokensOf("</think>").size();
  ASSERT_GT(num_end, 1u) << "the vocabulary has a token for it";
  for (const float temperature : {0.0f, 1.0f}) {
    GenerateOptions options = Thinking(3);
    options.sampler.temperature = temperature;
    Begin(options);
    Insist(" so", 3 + num_end + 2);
    EXPECT_EQ(reply_->tokens().size(), 3 + num_end + 2);
    EXPECT_EQ(reply_->Finish(), " so so so</think> so so");
  }
}

TEST_F(ReplyThinkingTest, AMessageComesBeforeTheEnd) {
  const std::string message = " Enough.\n<|im_end|>";
  Begin(Thinking(1, message));
  const size_t num_message = engine_->Tokenize(message, false, false)->size();
  Insist(" so", 1 + num_message + TokensOf("</think>").size() + 1);
  EXPECT_EQ(reply_->Finish(), " so" + message + "</think> so") << "control tokens are text in it";
}

TEST_F(ReplyThinkingTest, WithoutABudgetNothingIsForced) {
  Begin(Thinking(std::nullopt));
  Insist(" so", 40);
  Begin(Thinking(0));
  Insist(" so", TokensOf("</think>").size() + 1);
  EXPECT_EQ(reply_->Finish(), "</think> so");
  GenerateOptions unknown = Thinking(0);
  unknown.thinking.ends.clear();
  Begin(unknown);
  Insist(" so", 3);
  EXPECT_EQ(reply_->Finish(), " so so so");
}

TEST_F(ReplyThinkingTest, ItsTokensAreCounted) {
  Begin(Thinking(3, " Stop."));
  const size_t num_message = TokensOf(" Stop.").size();
  Insist(" so", 3 + num_message + TokensOf("</think>").size() + 2);
  EXPECT_EQ(reply_->num_thinking_tokens(), 3 + num_message);
  Begin(Thinking(std::nullopt));
  Said("I think so.</think>Yes.");
  EXPECT_EQ(reply_->num_thinking_tokens(), TokensOf("I think so.").size());
  Begin(GenerateOptions());
  EXPECT_EQ(reply_->num_thinking_tokens(), std::nullopt) << "nobody knows the marks";
}

TEST_F(ReplyThinkingTest, AThinkingMayBeEndedFromOutside) {
  Begin(Thinking(std::nullopt));
  Insist(" so", 2);
  reply_->EndThinking();
  Insist(" so", TokensOf("</think>").size() + 1);
  reply_->EndThinking();  // It thinks no more.
  Insist(" so", 1);
  EXPECT_EQ(reply_->Finish(), " so so</think> so so");
}

TEST_F(ReplyThinkingTest, APreparedReplyIsTheSame) {
  GenerateOptions options = Thinking(2, " Stop.");
  options.shown_tokens = {"<file_sep>"};
  GenerateOptions prepared = options;
  prepared.prepared = engine_->PrepareReply(options);
  // All is taken from what was prepared.
  prepared.thinking = {};
  prepared.shown_tokens.clear();
  std::vector<std::string> texts;
  for (const GenerateOptions& each : {options, prepared, prepared}) {
    Begin(each);
    Insist(" so", 2 + TokensOf(" Stop.").size() + TokensOf("</think>").size() + 1);
    Said("<file_sep>");
    texts.push_back(reply_->Finish());
  }
  EXPECT_EQ(texts[0], " so so Stop.</think> so<file_sep>");
  EXPECT_THAT(texts, ElementsAre(texts[0], texts[0], texts[0]));
}

TEST_F(ReplyThinkingTest, AReplyMayEndInsideItsThinking) {
  GenerateOptions options = Thinking(2);
  options.max_tokens = 3;
  Begin(options);
  ATTNDB_ASSERT_OK_AND_ASSIGN(std::optional<FinishReason> finish, Say(" so so so so"));
  EXPECT_EQ(finish, FinishReason::kMaxTokens);
  EXPECT_THAT(reply_->Finish(), StartsWith(" so so</"));

  options = Thinking(2);
  options.stop = {"think"};
  Begin(options);
  ATTNDB_ASSERT_OK_AND_ASSIGN(finish, Say(" so so so so so so so so"));
  EXPECT_EQ(finish, FinishReason::kStop);
  EXPECT_EQ(reply_->Finish(), " so so</");

  Begin(Thinking(20));
  ATTNDB_ASSERT_OK_AND_ASSIGN(finish, Say(" so<|im_end|>"));
  EXPECT_EQ(finish, FinishReason::kEnd);
  EXPECT_EQ(reply_->end_token(), TokensOf("<|im_end|>")[0]);
}

TEST_F(ReplyThinkingTest, ForcedTokensHaveTheirOwnChances) {
  for (const bool after_samplers : {false, true}) {
    std::vector<ReplyToken> noted;
    GenerateOptions options = Thinking(1);
    options.sampler.temperature = 1;
    options.chances = {.num_likeliest = 1, .after_samplers = after_samplers};
    options.on_tokens = [&noted](std::vector<ReplyToken> tokens) {
      noted.insert(noted.end(), tokens.begin(), tokens.end());
    };
    Begin(options);
    Insist(" so", 2);
    reply_->Finish();
    ASSERT_EQ(noted.size(), 2u);
    EXPECT_EQ(noted[1].token, TokensOf("</think>")[0]);
    if (after_samplers) {
      EXPECT_NEAR(noted[1].chance, 1, 1e-6);
    } else {
      EXPECT_NEAR(noted[1].chance, -30, .01);
      EXPECT_EQ(noted[1].likeliest.at(0).text, " so");
    }
  }
}

TEST_F(ReplyThinkingTest, ATriggerInsideAThinkingIsNone) {
  Begin(Lazily(std::nullopt, "<call>"));
  Said("I may <call> it 5 times.</think>5 is <call>");
  Insist(" so", 1);  // The grammar allows letters now.
  EXPECT_THAT(reply_->Finish(), StartsWith("I may <call> it 5 times.</think>5 is <call>"));
  EXPECT_EQ(reply_->Finish().find(" so"), std::string::npos);
}

TEST_F(ReplyThinkingTest, ATriggerBehindAForcedEndIsOne) {
  Begin(Lazily(2, "<call>"));
  Insist(" so", 2 + TokensOf("</think>").size());
  Said("<call>");
  Insist(" so", 1);
  const std::string text = reply_->Finish();
  EXPECT_THAT(text, StartsWith(" so so</think><call>"));
  EXPECT_THAT(text, testing::Not(testing::EndsWith(" so")));
}

TEST_F(ReplyThinkingTest, TheEndOfTheThinkingMayBeTheTrigger) {
  for (const std::string end : {"<call>", "<file_sep>"}) {
    SCOPED_TRACE(end);
    const std::string root = end == "<call>" ? "\"<call>\"" : end;
    GenerateOptions options = Lazily(std::nullopt, end, "root ::= " + root + " \"yes\"");
    options.thinking.ends = {"</think>", end};
    options.shown_tokens = {"<file_sep>"};
    Begin(options);
    Said("I think." + end);
    std::vector<float> logits = LogitsFor(TokensOf("no")[0]);
    logits[static_cast<size_t>(TokensOf("yes")[0])] = 20.0f;
    ASSERT_TRUE(reply_->Next(logits).ok());
    EXPECT_EQ(reply_->Finish(), "I think." + end + "yes");
  }
}

TEST_F(ReplyThinkingTest, AMarkInACallBeginsNoThinking) {
  GenerateOptions options = Lazily(0, "<call>");
  options.thinking.before = "";
  Begin(options);
  Said("<call>a<think>b</call>");
  EXPECT_EQ(reply_->Finish(), "<call>a<think>b</call>");
  // Before the call it does.
  Begin(options);
  Said("a<think>");
  Insist(" so", TokensOf("</think>").size());
  EXPECT_EQ(reply_->Finish(), "a<think></think>");
}

TEST_F(ReplyThinkingTest, AGrammarOfAllOfTheReplyHasTheThinkingInIt) {
  GenerateOptions options = Thinking(2);
  options.constraint = ReplyConstraint{
      .grammar = R"(root ::= [a-z ]+ "</think>" [0-9]+)", .triggers = {}, .before = ""};
  Begin(options);
  Insist(" so", 2 + TokensOf("</think>").size());
  Said("42");
  EXPECT_EQ(reply_->Finish(), " so so</think>42");
}

TEST_F(ReplyThinkingTest, AnEndThatTheGrammarForbidsIsGivenUp) {
  GenerateOptions options = Thinking(2);
  options.constraint =
      ReplyConstraint{.grammar = R"(root ::= "\"" [a-z ]+ "\"")", .triggers = {}, .before = ""};
  Begin(options);
  Said("\" so so so\"");
  EXPECT_EQ(reply_->Finish(), "\" so so so\"");

  // A mark in a text of the reply is text.
  options.thinking.before = "";
  options.thinking.max_tokens = 0;
  options.constraint->grammar = R"(root ::= "\"" [a-z <>/]+ "\"")";
  Begin(options);
  Said("\" so <think> so\"");
  EXPECT_EQ(reply_->Finish(), "\" so <think> so\"");
}

}  // namespace
}  // namespace attndb::llama
