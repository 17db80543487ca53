// Goal:   q of a question is what its own forward hands out; the heads that a trial on generated
//         facts chooses find facts that were written by hand, in contexts that they share with
//         other facts of the same form; what they were is kept, and nothing broken is believed.
// Method: tiny random models for what is exact; SmolLM2 for what is found.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "attndb/db.h"
#include "engines/llama/engine_test_util.h"
#include "engines/llama/find_heads.h"
#include "engines/llama/find_question.h"
#include "engines/llama/needle_text.h"
#include "testing/matchers.h"
#include "testing/temp_dir.h"

namespace attndb::llama {
namespace {

using ::attndb::test::FailsWith;
using ::testing::HasSubstr;

TEST(NeedleTextTest, FactsDifferAndQuestionsNameThem) {
  const std::vector<Needle> needles = MakeNeedles(24, 1);
  ASSERT_EQ(needles.size(), 24u);
  std::set<std::string> facts;
  for (const Needle& needle : needles) {
    EXPECT_EQ(needle.fact.find('{'), std::string::npos) << needle.fact;
    EXPECT_EQ(needle.question.find('{'), std::string::npos) << needle.question;
    EXPECT_FALSE(needle.filler.empty());
    facts.insert(needle.fact);
  }
  EXPECT_EQ(facts.size(), 24u);
  EXPECT_EQ(MakeNeedles(24, 1)[7].fact, needles[7].fact);
  EXPECT_NE(MakeNeedles(24, 2)[7].fact, needles[7].fact);
}

class TinyFindTest : public ::testing::Test {
 protected:
  TinyFindTest() {
    OpenEngine("llama_bpe");
    Result<DB> db = DB::Open(directory_.File("store"), {.background_builds = false});
    ATTNDB_EXPECT_OK(db.status());
    db_.emplace(*std::move(db));
  }
  void OpenEngine(const std::string& model) {
    EngineOptions options = TinyOptions(HookVariant::kRewrite);
    options.cache_dir = directory_.File("cache");
    Result<LlamaEngine> engine = LlamaEngine::Open(TinyModel(model), options);
    ATTNDB_EXPECT_OK(engine.status());
    engine_.reset();
    engine_.emplace(*std::move(engine));
  }

  test::TempDir directory_;
  std::optional<LlamaEngine> engine_;
  std::optional<DB> db_;
};

TEST_F(TinyFindTest, KeptHeadsAreThoseThatWereWritten) {
  const std::vector<RankedHead> heads = {{{1, 2}, 0.75}, {{0, 0}, 0.5}};
  const auto read = HeadsFromText(ToText(heads), engine_->spec());
  ASSERT_TRUE(read.has_value());
  ASSERT_EQ(read->size(), 2u);
  EXPECT_EQ((*read)[0].head, heads[0].head);
  EXPECT_EQ((*read)[1].worth, 0.5);
  const std::string text = ToText(heads);
  for (const std::string& bad : {std::string(), text.substr(0, text.size() - 4), "x" + text,
                                 ToText({{{1, 2}, 1}, {{1, 2}, 1}}), ToText({{{1000, 0}, 1}}),
                                 ToText({{{0, 1000}, 1}}), ToText({})}) {
    EXPECT_FALSE(HeadsFromText(bad, engine_->spec()).has_value()) << bad;
  }
}

TEST_F(TinyFindTest, WrongQuestionsAreRefused) {
  const FindHead head = {0, 0};
  EXPECT_THAT(FindQuestion::Run(&*engine_, *db_, "", {&head, 1}),
              FailsWith(StatusCode::kInvalidArgument, HasSubstr("empty")));
  const FindHead none = {1000, 0};
  EXPECT_THAT(FindQuestion::Run(&*engine_, *db_, "Where?", {&none, 1}),
              FailsWith(StatusCode::kInvalidArgument, HasSubstr("no such head")));
}

// The vocabulary has no word that a lone letter begins, so that "A" and "B" share their space.
TEST_F(TinyFindTest, AWordThatTakesTheTemplatesSpaceIsOneOfTheQuestion) {
  OpenEngine("llama_space");
  const FindHead head = {0, 0};
  for (const char* const question : {"The light", "\xEF\xBB\xBFThe light"}) {
    ATTNDB_ASSERT_OK_AND_ASSIGN(const FindQuestion asked,
                                FindQuestion::Run(&*engine_, *db_, question, {&head, 1}));
    const FindQuery query = asked.query();
    EXPECT_EQ(query.q[0].rows(), 2);
    EXPECT_EQ(query.first_position, 3) << "behind <s> and the template's mark, of two tokens";
  }
}

TEST_F(TinyFindTest, AQuestionStopsWhenItIsTold) {
  const FindHead head = {0, 0};
  EXPECT_THAT(
      FindQuestion::Run(&*engine_, *db_, "Where is the key?", {&head, 1}, [] { return false; }),
      FailsWith(StatusCode::kCancelled, HasSubstr("stopped")));
}

// Facts in the words of a person. The last of each pair of a form is there to be mistaken for the
// first.
struct WrittenFact {
  const char* fact;
  const char* question;
};
constexpr WrittenFact kWritten[] = {
    {"Captain Marlowe sold his boat to a dentist from Bergen.",
     "To whom did Captain Marlowe sell his boat?"},
    {"Captain Hendricks sold his boat to a teacher from Lisbon.",
     "Who bought the boat of Captain Hendricks?"},
    {"The password for the archive room is turquoise falcon.",
     "What is the password for the archive room?"},
    {"The password for the boiler room is seven lemons.",
     "Which words must one say to get into the boiler room?"},
    {"Aunt Philippa keeps her letters in a biscuit tin.",
     "Where does Aunt Philippa keep her letters?"},
    {"Uncle Barnaby keeps his medals in a shoe box.", "In what are the medals of Uncle Barnaby?"},
    {"The orchard at Wetherby has ninety plum trees.",
     "How many plum trees has the orchard at Wetherby?"},
    {"The orchard at Dunmore has forty pear trees.", "What grows in the orchard at Dunmore?"},
};

class SmolFindTest : public ::testing::Test {
 protected:
  SmolFindTest() {
    EngineOptions options;
    options.cache_dir = directory_.File("cache");
    options.num_threads = 1;
    Result<LlamaEngine> engine = LlamaEngine::Open("smollm2", options);
    ATTNDB_EXPECT_OK(engine.status());
    engine_.emplace(*std::move(engine));
    db_ = Open("store");
  }

  std::optional<DB> Open(const std::string& name) {
    Result<DB> db = DB::Open(directory_.File(name), {.background_builds = false});
    ATTNDB_EXPECT_OK(db.status());
    return *std::move(db);
  }

  // Four contexts of two facts each, of different forms, in English text.
  void StoreFacts() {
    const std::string text = TestText();
    for (size_t i = 0; i < 4; ++i) {
      const std::string document = text.substr(3000 * i, 500) + "\n" + kWritten[i].fact + "\n" +
                                   text.substr(3000 * i + 500, 700) + "\n" + kWritten[i + 4].fact +
                                   "\n" + text.substr(3000 * i + 1200, 300);
      ATTNDB_ASSERT_OK_AND_ASSIGN(const std::vector<TokenId> tokens,
                                  engine_->DocumentPrefix("", document));
      ATTNDB_ASSERT_OK_AND_ASSIGN(SessionStart start, db_->CreateSession(engine_->spec(), tokens));
      ATTNDB_ASSERT_OK(engine_->Prefill(start.session, start.rest));
      ATTNDB_ASSERT_OK(
          db_->Store(start.session, tokens, {.name = "doc" + std::to_string(i)}).status());
    }
  }

  std::string TextOf(const Passage& passage) {
    const Result<std::vector<TokenId>> tokens = db_->Tokens(passage.context);
    const auto part =
        std::span(*tokens).subspan(passage.tokens.begin, passage.tokens.end - passage.tokens.begin);
    return *engine_->Detokenize(part);
  }

  test::TempDir directory_;
  std::optional<LlamaEngine> engine_;
  std::optional<DB> db_;
};

TEST_F(SmolFindTest, HeadsOfATrialFindWhatWasWrittenByHand) {
  size_t num_trials = 0;
  const auto scratch = [&]() -> Result<DB> {
    ++num_trials;
    return *Open("scratch" + std::to_string(num_trials));
  };
  ATTNDB_ASSERT_OK_AND_ASSIGN(const std::vector<RankedHead> ranked, FindHeads(&*engine_, scratch));
  ASSERT_EQ(ranked.size(), kNumFindHeads);
  EXPECT_GT(ranked.front().worth, 0.8);
  std::vector<FindHead> heads;
  for (const RankedHead& head : ranked) heads.push_back(head.head);
  // A second call takes what was kept.
  ATTNDB_ASSERT_OK_AND_ASSIGN(const std::vector<RankedHead> again, FindHeads(&*engine_, scratch));
  EXPECT_EQ(num_trials, 1u);
  EXPECT_EQ(again.front().head, ranked.front().head);

  StoreFacts();
  size_t num_found = 0;
  for (size_t i = 0; i < std::size(kWritten); ++i) {
    ATTNDB_ASSERT_OK_AND_ASSIGN(const FindQuestion question,
                                FindQuestion::Run(&*engine_, *db_, kWritten[i].question, heads));
    ATTNDB_ASSERT_OK_AND_ASSIGN(const FindResult found,
                                db_->Find(engine_->spec(), question.query(), {.limit = 3}));
    ASSERT_FALSE(found.passages.empty());
    const std::string words = std::string(kWritten[i].fact).substr(8, 16);
    const bool is_first = TextOf(found.passages.front()).find(words) != std::string::npos;
    if (!is_first) std::printf("not first: %s\n", kWritten[i].question);
    num_found += is_first ? 1 : 0;
  }
  EXPECT_GE(num_found, 7u);
}

}  // namespace
}  // namespace attndb::llama
