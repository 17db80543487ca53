// Goal:   a grammar is kept by a process of its own: it allows what llama.cpp allows, says why it
//         can't be compiled and where, and one that explodes ends alone.
// Method: the program as it is built, with SmolLM2's vocabulary and one of bytes. What is allowed
//         is computed again here: by llama.cpp's sampler in this process, a token at a time.
#include "engines/llama/chat/grammar_job.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <limits>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "engines/llama/chat/chat_process.h"
#include "engines/llama/chat/grammar_process.h"
#include "engines/llama/engine_test_util.h"
#include "engines/llama/llama_handles.h"
#include "engines/llama/model_file.h"
#include "testing/child_processes.h"
#include "testing/matchers.h"

namespace attndb::llama {
namespace {

using ::attndb::test::ChildrenOf;
using ::attndb::test::FailsWith;
using ::attndb::test::WatchedProcess;
using ::testing::_;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

// Its stacks double with each "x".
constexpr char kExplodes[] = R"(root ::= "x" root "y" | "x" root "z" | "")";

ModelHandle LoadVocab(const std::string& path) {
  llama_model_params params = llama_model_default_params();
  params.vocab_only = true;
  return ModelHandle(llama_model_load_from_file(path.c_str(), params));
}

class GrammarJobTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    llama_log_set([](ggml_log_level, const char*, void*) {}, nullptr);
    path_ = new std::string(*ResolveModel("smollm2"));
    model_ = new ModelHandle(LoadVocab(*path_));
  }
  static void TearDownTestSuite() {
    delete model_;
    delete path_;
  }

  static const llama_vocab* vocab() { return llama_model_get_vocab(model_->get()); }

  static std::vector<TokenId> TokensOf(const std::string& text) {
    std::vector<TokenId> tokens(text.size() + 1);
    const int32_t count = llama_tokenize(vocab(), text.data(), static_cast<int32_t>(text.size()),
                                         tokens.data(), static_cast<int32_t>(tokens.size()),
                                         /*add_special=*/false, /*parse_special=*/true);
    tokens.resize(static_cast<size_t>(count));
    return tokens;
  }
  static TokenId TokenOf(const std::string& text) {
    const std::vector<TokenId> tokens = TokensOf(text);
    EXPECT_EQ(tokens.size(), 1U) << text;
    return tokens.front();
  }

  Result<std::unique_ptr<GrammarJob>> Start(const std::string& grammar) {
    return process_.Start({.grammar = grammar, .triggers = {}, .before = ""});
  }
  Status Compile(const ReplyConstraint& constraint) {
    ATTNDB_ASSIGN_OR_RETURN(const std::unique_ptr<GrammarJob> job, process_.Start(constraint));
    return job->AwaitStart();
  }
  Status Compile(const std::string& grammar) {
    return Compile({.grammar = grammar, .triggers = {}, .before = ""});
  }

  // The answer about a token.
  static Result<GrammarVerdict> Answer(GrammarJob* job, TokenId token) {
    job->Ask(token);
    ATTNDB_ASSIGN_OR_RETURN(const std::optional<GrammarVerdict> verdict, job->Take(200'000));
    if (!verdict) return Status::Internal("no answer");
    return *verdict;
  }
  static bool Allows(GrammarJob* job, const std::string& token) {
    const Result<GrammarVerdict> verdict = Answer(job, TokenOf(token));
    EXPECT_TRUE(verdict.ok()) << verdict.status().message();
    return verdict.ok() && verdict->is_allowed;
  }

  static bool IsAllowed(llama_sampler* grammar, TokenId token) {
    llama_token_data one = {token, 0.0f, 0.0f};
    llama_token_data_array array = {&one, 1, -1, false};
    llama_sampler_apply(grammar, &array);
    return one.logit == 0.0f;
  }
  static TokenId FirstRefused(llama_sampler* grammar) {
    TokenId token = 0;
    while (IsAllowed(grammar, token)) ++token;
    return token;
  }
  // Sees that the job's masks are those of `grammar`, which has come as far.
  static void ExpectMaskOf(llama_sampler* grammar, const GrammarVerdict& verdict) {
    const int32_t num_tokens = llama_vocab_n_tokens(vocab());
    for (llama_token token = 0; token < num_tokens; ++token) {
      ASSERT_EQ(verdict.Allows(token), IsAllowed(grammar, token)) << token;
    }
    EXPECT_FALSE(verdict.Allows(num_tokens));
  }

  static std::string* path_;
  static ModelHandle* model_;
  GrammarProcess process_{FindChatProgram(), *path_, vocab()};
};

std::string* GrammarJobTest::path_ = nullptr;
ModelHandle* GrammarJobTest::model_ = nullptr;

TEST_F(GrammarJobTest, AllowsWhatTheGrammarSays) {
  ATTNDB_ASSERT_OK_AND_ASSIGN(auto job, Start(R"(root ::= "yes" | "no, " [a-z]+)"));
  ATTNDB_EXPECT_OK(job->AwaitStart());
  EXPECT_FALSE(Allows(job.get(), "maybe"));
  job->Accept(TokenOf("no"));
  EXPECT_FALSE(Allows(job.get(), "maybe"));
  job->Accept(TokenOf(","));
  EXPECT_TRUE(Allows(job.get(), " maybe"));
  EXPECT_TRUE(Allows(job.get(), "more"));
  EXPECT_FALSE(Allows(job.get(), "9"));
}

TEST_F(GrammarJobTest, MasksAreThoseOfTheGrammarTokenForToken) {
  constexpr char kGrammar[] =
      R"(root ::= "{" ws "\"" [^"\\]{2,9} "\":" ws ("true" | [0-9]+ | "\"é" .* "\"") "}" ws
         ws ::= [ \n]*)";
  const SamplerHandle ours(llama_sampler_init_grammar(vocab(), kGrammar, "root"));
  ATTNDB_ASSERT_OK_AND_ASSIGN(auto job, Start(kGrammar));
  for (const TokenId token : TokensOf("{ \"key\": \"é\U0001F600 long words\"}\n")) {
    SCOPED_TRACE(token);
    ATTNDB_ASSERT_OK_AND_ASSIGN(const GrammarVerdict verdict, Answer(job.get(), TokenOf("zz")));
    if (!verdict.is_allowed) ExpectMaskOf(ours.get(), verdict);
    if (verdict.is_allowed) break;  // Within the last string all words are allowed.
    job->Accept(token);
    llama_sampler_accept(ours.get(), token);
  }
}

// Rules that allow a token by its text alone take a shorter way than the others.
TEST_F(GrammarJobTest, MasksOfAllKindsOfRulesAreTheSameAsTokenForToken) {
  for (const std::string grammar :
       {R"(root ::= [^\u00e9a-y]+)", R"(root ::= "é" | "😀" | "<|im_end|>")",
        R"(root ::= <[7]> | "th" [a-z]*)", R"(root ::= !<[7]> "a")", "root ::= .", "root ::= \"\"",
        R"(root ::= " " [a-z]{1,3} [.!] # <not a rule>
)",
        R"(root ::= ["\]<>] "[<\"" | [ \n\t]+)"}) {
    SCOPED_TRACE(grammar);
    const SamplerHandle ours(llama_sampler_init_grammar(vocab(), grammar.c_str(), "root"));
    ASSERT_NE(ours, nullptr);
    ATTNDB_ASSERT_OK_AND_ASSIGN(auto job, Start(grammar));
    const TokenId refused = FirstRefused(ours.get());
    ATTNDB_ASSERT_OK_AND_ASSIGN(const GrammarVerdict verdict, Answer(job.get(), refused));
    ASSERT_FALSE(verdict.is_allowed);
    ExpectMaskOf(ours.get(), verdict);
  }
}

TEST_F(GrammarJobTest, TheEndTokenComesWhereTheGrammarMayEnd) {
  const TokenId end = llama_vocab_eos(vocab());
  ATTNDB_ASSERT_OK_AND_ASSIGN(auto job, Start(R"(root ::= "yes" "es"*)"));
  ATTNDB_ASSERT_OK_AND_ASSIGN(const GrammarVerdict before, Answer(job.get(), end));
  EXPECT_FALSE(before.is_allowed);
  EXPECT_FALSE(before.Allows(end));
  job->Accept(TokenOf("yes"));
  ATTNDB_ASSERT_OK_AND_ASSIGN(const GrammarVerdict behind, Answer(job.get(), TokenOf("no")));
  EXPECT_TRUE(behind.Allows(end));
  EXPECT_TRUE(behind.Allows(TokenOf("es")));
  job->Accept(TokenOf("es"));
  ATTNDB_ASSERT_OK_AND_ASSIGN(const GrammarVerdict at_end, Answer(job.get(), end));
  EXPECT_TRUE(at_end.is_allowed);
}

TEST_F(GrammarJobTest, TheTextBeforeTheReplyIsPartOfTheGrammar) {
  const std::string grammar = R"(root ::= <|im_start|> "assistant\n" "yes")";
  ATTNDB_ASSERT_OK_AND_ASSIGN(
      auto job,
      process_.Start({.grammar = grammar, .triggers = {}, .before = "<|im_start|>assistant\n"}));
  EXPECT_FALSE(Allows(job.get(), "no"));
  job->Accept(TokenOf("yes"));
  EXPECT_THAT(Compile({.grammar = grammar, .triggers = {}, .before = "<|im_start|>user\n"}),
              FailsWith(StatusCode::kInvalidArgument, HasSubstr("in front of the reply")));
}

TEST_F(GrammarJobTest, ALazyGrammarBeginsBehindItsWord) {
  ATTNDB_ASSERT_OK_AND_ASSIGN(auto job,
                              process_.Start({.grammar = R"g(root ::= "call(" [0-9] ")")g",
                                              .is_lazy = true,
                                              .triggers = {{.is_pattern = false, .text = "call("}},
                                              .before = "nothing of the grammar"}));
  for (const char* token : {"some", " words", "call", "("}) {
    EXPECT_TRUE(Allows(job.get(), token)) << token;
  }
  EXPECT_FALSE(Allows(job.get(), "x"));
  job->Accept(TokenOf("7"));
  EXPECT_TRUE(Allows(job.get(), ")"));
  EXPECT_FALSE(Allows(job.get(), ")"));
}

TEST_F(GrammarJobTest, ALazyGrammarBeginsInsideAToken) {
  ATTNDB_ASSERT_OK_AND_ASSIGN(
      auto job, process_.Start({.grammar = R"(root ::= "all" [0-9])",
                                .is_lazy = true,
                                .triggers = {{.is_pattern = true, .text = R"([\s\S]*?c(all))"}},
                                .before = ""}));
  EXPECT_TRUE(Allows(job.get(), "some"));
  EXPECT_TRUE(Allows(job.get(), "call"));
  EXPECT_FALSE(Allows(job.get(), "x"));
}

TEST_F(GrammarJobTest, AControlTokenIsAWordThatTriggers) {
  ATTNDB_ASSERT_OK_AND_ASSIGN(
      auto job, process_.Start({.grammar = R"(root ::= <file_sep> "one" [^x]*)",
                                .is_lazy = true,
                                .triggers = {{.is_pattern = false, .text = "<file_sep>"}},
                                .before = ""}));
  EXPECT_TRUE(Allows(job.get(), "two"));
  EXPECT_TRUE(Allows(job.get(), "<file_sep>"));
  EXPECT_FALSE(Allows(job.get(), "two"));
}

TEST_F(GrammarJobTest, AnAnswerSaysWhetherALazyGrammarIsInForce) {
  const ReplyConstraint constraint = {.grammar = R"g(root ::= "call" ("(" [0-9]+ ")")?)g",
                                      .is_lazy = true,
                                      .triggers = {{.is_pattern = false, .text = "call"}},
                                      .before = ""};
  ATTNDB_ASSERT_OK_AND_ASSIGN(auto job, process_.Start(constraint));
  const TokenId end = llama_vocab_eos(vocab());
  for (const TokenId token : {TokenOf("some"), end, TokenOf("call")}) {
    ATTNDB_ASSERT_OK_AND_ASSIGN(const GrammarVerdict waits, Answer(job.get(), token));
    EXPECT_TRUE(waits.is_allowed);
    EXPECT_FALSE(waits.in_force) << token;
  }
  for (const TokenId token : {TokenOf("("), TokenOf("1"), TokenOf(")"), end}) {
    ATTNDB_ASSERT_OK_AND_ASSIGN(const GrammarVerdict verdict, Answer(job.get(), token));
    EXPECT_TRUE(verdict.is_allowed && verdict.in_force) << token;
  }
  ATTNDB_ASSERT_OK_AND_ASSIGN(job, Start("root ::= \"call\""));
  ATTNDB_ASSERT_OK_AND_ASSIGN(const GrammarVerdict at_once, Answer(job.get(), TokenOf("call")));
  EXPECT_TRUE(at_once.is_allowed && at_once.in_force);
}

TEST_F(GrammarJobTest, TokensMayComeUnasked) {
  const ReplyConstraint constraint = {.grammar = R"g(root ::= "call(" [0-9] ")")g",
                                      .is_lazy = true,
                                      .triggers = {{.is_pattern = false, .text = "call("}},
                                      .before = ""};
  ATTNDB_ASSERT_OK_AND_ASSIGN(auto job, process_.Start(constraint));
  job->Accept(TokenOf("some"));
  job->Accept(TokenOf(" call"));
  EXPECT_TRUE(Allows(job.get(), "("));
  job->Accept(TokenOf("7"));
  EXPECT_TRUE(Allows(job.get(), ")"));

  ATTNDB_ASSERT_OK_AND_ASSIGN(job, process_.Start(constraint));
  for (const char* token : {"call", "(", "x"}) job->Accept(TokenOf(token));
  EXPECT_THAT(Answer(job.get(), TokenOf(")")),
              FailsWith(StatusCode::kInvalidArgument, HasSubstr("came unasked")));
}

TEST_F(GrammarJobTest, ATriggerThatTheGrammarDoesNotTakeEndsTheReply) {
  ATTNDB_ASSERT_OK_AND_ASSIGN(auto job,
                              process_.Start({.grammar = R"(root ::= "other")",
                                              .is_lazy = true,
                                              .triggers = {{.is_pattern = false, .text = "secret"}},
                                              .before = ""}));
  EXPECT_TRUE(Allows(job.get(), "secret"));
  EXPECT_THAT(Answer(job.get(), TokenOf("x")),
              FailsWith(StatusCode::kInvalidArgument,
                        AllOf(HasSubstr("the text that triggers it"), Not(HasSubstr("secret")))));
}

TEST_F(GrammarJobTest, AGrammarThatCantBeCompiledIsNamedWithItsPlace) {
  EXPECT_THAT(Compile("root ::= \"a\" b\nb ::= (\"é\" ]\n"),
              FailsWith(StatusCode::kInvalidArgument,
                        HasSubstr("can't be compiled: expecting ')' at line 2, column 12")));
  EXPECT_THAT(Compile("root = 1"), FailsWith(StatusCode::kInvalidArgument,
                                             HasSubstr("expecting ::= at line 1, column 6")));
  EXPECT_THAT(Compile("root ::= nowhere"),
              FailsWith(StatusCode::kInvalidArgument, HasSubstr("'nowhere'")));
  EXPECT_THAT(Compile("start ::= \"a\""),
              FailsWith(StatusCode::kInvalidArgument, HasSubstr("'root'")));
  EXPECT_THAT(Compile("root ::= root \"a\" | \"b\""),
              FailsWith(StatusCode::kInvalidArgument, HasSubstr("left recursion")));
  EXPECT_THAT(Compile("root ::= <no such token>"),
              FailsWith(StatusCode::kInvalidArgument, HasSubstr("invalid token")));
  EXPECT_THAT(Compile({.grammar = "root ::= \"a\"",
                       .is_lazy = true,
                       .triggers = {{.is_pattern = true, .text = "(a"}},
                       .before = ""}),
              FailsWith(StatusCode::kInvalidArgument, HasSubstr("pattern")));
  EXPECT_THAT(Compile(""), FailsWith(StatusCode::kInvalidArgument, HasSubstr("empty")));
  EXPECT_THAT(Compile(std::string("root ::= \"a\"\0", 13)),
              FailsWith(StatusCode::kInvalidArgument, HasSubstr("zero byte")));
  ATTNDB_EXPECT_OK(Compile("root ::= \"a\""));
}

TEST_F(GrammarJobTest, LimitsOfRepetitionsAreLlamaCpps) {
  ATTNDB_EXPECT_OK(Compile("root ::= [a-z]{2000}"));
  ATTNDB_EXPECT_OK(Compile("root ::= [a-z]{0,2000}"));
  EXPECT_THAT(Compile("root ::= [a-z]{2001}"),
              FailsWith(StatusCode::kInvalidArgument, HasSubstr("repetitions")));
}

TEST_F(GrammarJobTest, AGrammarOfNothingAllowsNoToken) {
  ATTNDB_ASSERT_OK_AND_ASSIGN(auto job, Start(R"(root ::= [^\x00-\UFFFFFFFF])"));
  ATTNDB_ASSERT_OK_AND_ASSIGN(const GrammarVerdict verdict, Answer(job.get(), TokenOf("a")));
  for (TokenId token = 0; token < llama_vocab_n_tokens(vocab()); ++token) {
    ASSERT_FALSE(verdict.Allows(token)) << token;
  }
}

TEST_F(GrammarJobTest, AGrammarThatExplodesEndsAloneAndTheNextOneWorks) {
  ATTNDB_ASSERT_OK_AND_ASSIGN(auto other, Start("root ::= \"xy\""));
  EXPECT_TRUE(Allows(other.get(), "x"));
  ATTNDB_ASSERT_OK_AND_ASSIGN(auto job, Start(kExplodes));
  Status status;
  for (int i = 0; i < 100 && status.ok(); ++i) status = Answer(job.get(), TokenOf("x")).status();
  EXPECT_THAT(status, FailsWith(StatusCode::kResourceExhausted, HasSubstr("was not applied: it")));
  EXPECT_THAT(Answer(job.get(), TokenOf("x")), FailsWith(StatusCode::kResourceExhausted, _));
  EXPECT_TRUE(Allows(other.get(), "y"));
  ATTNDB_ASSERT_OK_AND_ASSIGN(auto next, Start("root ::= \"x\""));
  EXPECT_TRUE(Allows(next.get(), "x"));
}

TEST_F(GrammarJobTest, AGrammarNestedWithoutEndOverflowsItsOwnStack) {
  EXPECT_THAT(Compile("root ::= " + std::string(1'000'000, '(')),
              FailsWith(StatusCode::kResourceExhausted, HasSubstr("SIGSEGV")));
  ATTNDB_EXPECT_OK(Compile("root ::= \"a\""));
}

TEST_F(GrammarJobTest, AGrammarLongerThanASocketTakesIsSent) {
  std::string grammar = "root ::= \"yes\"\n";
  for (int i = 0; i < 100'000; ++i) grammar += "# a comment of some length and no use\n";
  ATTNDB_ASSERT_OK_AND_ASSIGN(auto job, Start(grammar));
  EXPECT_TRUE(Allows(job.get(), "yes"));
  EXPECT_THAT(Start(std::string(17 << 20, '#')),
              FailsWith(StatusCode::kInvalidArgument, HasSubstr("16 MiB")));
}

TEST_F(GrammarJobTest, AProcessThatSomebodyEndsIsAnErrorOfItsReply) {
  ATTNDB_ASSERT_OK_AND_ASSIGN(auto job, Start("root ::= \"a\"*"));
  ATTNDB_ASSERT_OK_AND_ASSIGN(auto other, Start("root ::= \"b\"*"));
  ATTNDB_ASSERT_OK(job->AwaitStart());
  ATTNDB_ASSERT_OK(other->AwaitStart());
  const std::vector<pid_t> children = ChildrenOf(getpid());
  ASSERT_EQ(children.size(), 1U);
  const std::vector<pid_t> workers = ChildrenOf(children[0]);
  ASSERT_EQ(workers.size(), 2U);
  ASSERT_EQ(kill(workers[0], SIGKILL), 0);
  EXPECT_THAT(Answer(job.get(), TokenOf("a")),
              FailsWith(StatusCode::kResourceExhausted, HasSubstr("SIGKILL")));
  EXPECT_TRUE(Allows(other.get(), "b"));
}

TEST_F(GrammarJobTest, TheProcessOfTheVocabularyIsReplacedAndRepliesGoOn) {
  ATTNDB_ASSERT_OK_AND_ASSIGN(auto job, Start("root ::= \"a\"*"));
  ATTNDB_ASSERT_OK(job->AwaitStart());
  const std::vector<pid_t> children = ChildrenOf(getpid());
  ASSERT_EQ(children.size(), 1U);
  const WatchedProcess watched(children[0]);
  watched.Kill();
  watched.AwaitEnd();
  EXPECT_TRUE(Allows(job.get(), "a"));
  ATTNDB_EXPECT_OK(Compile("root ::= \"b\""));
}

TEST_F(GrammarJobTest, AJobThatIsLetGoOfEndsItsProcess) {
  ATTNDB_ASSERT_OK_AND_ASSIGN(auto job, Start("root ::= \"a\"*"));
  ATTNDB_ASSERT_OK_AND_ASSIGN(const auto other, Start("root ::= \"b\"*"));
  ATTNDB_ASSERT_OK(job->AwaitStart());
  ATTNDB_ASSERT_OK(other->AwaitStart());
  const std::vector<pid_t> workers = ChildrenOf(ChildrenOf(getpid()).at(0));
  const WatchedProcess watched(workers.at(0));
  job.reset();
  watched.AwaitEnd();
}

TEST_F(GrammarJobTest, ManyThreadsHaveGrammarsOfTheirOwn) {
  std::vector<std::thread> threads;
  for (const std::string letter : {"a", "b", "c", "d"}) {
    threads.emplace_back([this, letter] {
      for (int i = 0; i < 5; ++i) {
        const auto job = Start("root ::= \"" + letter + "\"*");
        ASSERT_TRUE(job.ok());
        for (int token = 0; token < 20; ++token) EXPECT_TRUE(Allows(job->get(), letter));
        EXPECT_FALSE(Allows(job->get(), "x"));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST_F(GrammarJobTest, AFileWithAnotherVocabularyIsRefused) {
  GrammarProcess other(FindChatProgram(), TinyModel("llama_spm"), vocab());
  ATTNDB_ASSERT_OK_AND_ASSIGN(
      auto job, other.Start({.grammar = "root ::= \"a\"", .triggers = {}, .before = ""}));
  EXPECT_THAT(job->AwaitStart(), FailsWith(StatusCode::kIoError, HasSubstr("another vocabulary")));

  GrammarProcess missing(FindChatProgram(), "/nowhere/none.gguf", vocab());
  ATTNDB_ASSERT_OK_AND_ASSIGN(
      job, missing.Start({.grammar = "root ::= \"a\"", .triggers = {}, .before = ""}));
  EXPECT_THAT(job->AwaitStart(), FailsWith(StatusCode::kIoError, HasSubstr("can't be loaded")));
}

TEST_F(GrammarJobTest, WithoutTheProgramTheErrorSaysSo) {
  GrammarProcess none("", *path_, vocab());
  EXPECT_THAT(none.Start({.grammar = "root ::= \"a\"", .triggers = {}, .before = ""}),
              FailsWith(StatusCode::kUnsupported, HasSubstr("attndb-chat")));
  GrammarProcess missing("/nowhere/attndb-chat", *path_, vocab());
  EXPECT_THAT(missing.Start({.grammar = "root ::= \"a\"", .triggers = {}, .before = ""}),
              FailsWith(StatusCode::kIoError, HasSubstr("/nowhere/attndb-chat")));
}

// The tiny model's vocabulary has a token for each byte.
constexpr TokenId kFirstByteToken = 3;

TEST(GrammarJobByteTest, CharactersComeByteForByte) {
  llama_log_set([](ggml_log_level, const char*, void*) {}, nullptr);
  const std::string path = TinyModel("llama_spm");
  const ModelHandle model = LoadVocab(path);
  ASSERT_NE(model, nullptr);
  const llama_vocab* const vocab = llama_model_get_vocab(model.get());
  GrammarProcess process(FindChatProgram(), path, vocab);
  ATTNDB_ASSERT_OK_AND_ASSIGN(
      auto job,
      process.Start({.grammar = "root ::= [äö]+ \"\u20ac\"", .triggers = {}, .before = ""}));
  const auto answer = [&job](int byte) {
    job->Ask(kFirstByteToken + byte);
    const auto verdict = job->Take(200'000);
    EXPECT_TRUE(verdict.ok()) << verdict.status().message();
    return **verdict;
  };
  EXPECT_FALSE(answer('a').Allows(kFirstByteToken + 0xe2));
  job->Accept(kFirstByteToken + 0xc3);
  EXPECT_FALSE(answer(0xc3).is_allowed);
  job->Accept(kFirstByteToken + 0xb6);
  for (const int byte : {0xc3, 0xa4, 0xe2, 0x82, 0xac}) {
    EXPECT_TRUE(answer(byte).is_allowed) << byte;
  }
  const GrammarVerdict at_end = answer('a');
  EXPECT_TRUE(at_end.Allows(llama_vocab_eos(vocab)));
  EXPECT_FALSE(at_end.Allows(kFirstByteToken + 0xc3));
}

}  // namespace
}  // namespace attndb::llama
