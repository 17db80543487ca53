// Goal:   what goes on from a stored context shows the date of that context, so that nothing is
//         read twice on the next day; what is new shows today's date.
// Method: SmolLM2's vocabulary under a template with the date in front of each message, and a clock
//         of the test. Turns are kept as the scheduler keeps them; replies are the tests' own.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "attndb/db.h"
#include "engines/llama/chat/chat_test_util.h"
#include "engines/llama/llama_engine.h"
#include "engines/llama/prompt_layout.h"
#include "engines/llama/stored_text.h"
#include "server/batch/prompts_test_util.h"
#include "testing/matchers.h"

namespace attndb::server {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr int64_t kDay = 86'400;
constexpr int64_t kMonday = 1'764'590'400;  // 1 December 2025, 12:00 in UTC.
constexpr char kDocument[] = "The cat is grey. It sleeps on the roof.";

class DatedPromptsTest : public KeptTurnsTest {
 protected:
  void SetUp() override { Open(llama::kDatedTemplate); }
  void Open(const std::string& chat_template) {
    OpenEngine(
        {.num_threads = 1, .chat_template = chat_template, .clock = [this] { return now_; }});
  }

  Prompt PromptOf(const Messages& messages, const std::string& context = "") const {
    Result<Prompt> prompt = prompts_->OfChat(kTenant, context, messages);
    EXPECT_THAT(prompt, ::attndb::test::IsOk());
    return prompt.ok() ? *std::move(prompt) : Prompt();
  }
  llama::PromptText Import(const std::string& name, const std::string& document) {
    Result<llama::PromptText> text =
        llama::ImportedText(*engine_, *db_, {name, false, "", document}, {});
    EXPECT_THAT(text, ::attndb::test::IsOk());
    Result<SessionStart> start = db_->CreateSession(engine_->spec(), text->tokens, {});
    EXPECT_THAT(start, ::attndb::test::IsOk());
    if (!start->rest.empty()) {
      EXPECT_THAT(engine_->Prefill(start->session, start->rest), ::attndb::test::IsOk());
    }
    const StoreOptions how = {.name = name, .replace = true, .text_layout = text->text};
    EXPECT_THAT(db_->Store(start->session, text->tokens, how), ::attndb::test::IsOk());
    return *std::move(text);
  }
  std::string Text(const Tokens& tokens) const {
    return *engine_->Detokenize(tokens, /*render_special=*/true);
  }

  int64_t now_ = kMonday;
};

TEST_F(DatedPromptsTest, AConversationGoesOnOnTheNextDay) {
  Messages messages = {{"system", "Be brief."}, {"user", "Which colour is the cat?"}};
  Prompt prompt = PromptOf(messages);
  EXPECT_EQ(prompt.text.rendered_at, kMonday);
  for (const bool restarts : {false, true, false}) {
    SCOPED_TRACE(messages.size());
    const Tokens told = Answer(prompt, "Grey it is");
    now_ += kDay;
    if (restarts) Restart();
    messages.push_back({"assistant", "Grey it is"});
    messages.push_back({"user", "Sure?"});
    prompt = PromptOf(messages);
    EXPECT_EQ(CommonLength(prompt.tokens, told), told.size());
    EXPECT_FALSE(prompt.parted);
    EXPECT_EQ(prompt.text.rendered_at, kMonday);
    EXPECT_THAT(Text(prompt.tokens), HasSubstr("<|im_start|>user 01 December 2025\nSure?"));
    EXPECT_THAT(Text(prompt.tokens), Not(HasSubstr("02 December")));
  }
  const Prompt other = PromptOf({{"user", "Hello"}});
  EXPECT_THAT(Text(other.tokens), HasSubstr("user 04 December 2025\nHello"));
  EXPECT_EQ(other.text.rendered_at, now_);
}

// The same question was asked on two days, and each answer has a conversation.
TEST_F(DatedPromptsTest, EachConversationKeepsItsOwnDate) {
  const Messages asked = {{"user", "Which colour is the cat?"}};
  const Tokens monday = Answer(PromptOf(asked), "Grey it is");
  now_ += kDay;
  const Tokens tuesday = Answer(PromptOf(asked), "Black");
  now_ += kDay;
  Restart();
  const auto next = [&asked](const std::string& reply) {
    return Messages{asked[0], {"assistant", reply}, {"user", "Sure?"}};
  };
  const Prompt of_monday = PromptOf(next("Grey it is"));
  EXPECT_EQ(CommonLength(of_monday.tokens, monday), monday.size());
  EXPECT_EQ(of_monday.text.rendered_at, kMonday);
  const Prompt of_tuesday = PromptOf(next("Black"));
  EXPECT_EQ(CommonLength(of_tuesday.tokens, tuesday), tuesday.size());
  EXPECT_EQ(of_tuesday.text.rendered_at, kMonday + kDay);
  // A reply is explained with the tokens that it was given as.
  for (const auto& [words, turn] : {std::pair("Grey it is", monday), {"Black", tuesday}}) {
    ATTNDB_ASSERT_OK_AND_ASSIGN(
        const Prompt reply,
        prompts_->OfReply(kTenant, "", Messages{asked[0], {"assistant", words}}));
    EXPECT_EQ(reply.tokens, turn) << words;
  }
}

TEST_F(DatedPromptsTest, ADocumentIsAskedOnTheNextDay) {
  const llama::PromptText document = Import("cat", kDocument);
  EXPECT_EQ(document.text.rendered_at, kMonday);
  EXPECT_THAT(Text(document.tokens), HasSubstr("01 December"));
  now_ += kDay;
  Restart();
  const Prompt prompt = PromptOf({{"user", "Which colour?"}}, "cat");
  EXPECT_EQ(CommonLength(prompt.tokens, document.tokens), document.tokens.size());
  EXPECT_EQ(prompt.text.rendered_at, kMonday);
  EXPECT_THAT(Text(prompt.tokens), HasSubstr("<|im_start|>assistant 01 December 2025\n"));
  EXPECT_THAT(Text(prompt.tokens), Not(HasSubstr("02 December")));
  // And its conversation, by the messages alone.
  const Tokens told = Answer(prompt, "Grey");
  now_ += kDay;
  const Messages next = {{"user", "Which colour?"}, {"assistant", "Grey"}, {"user", "Sure?"}};
  const Prompt later = PromptOf(next, "cat");
  EXPECT_EQ(CommonLength(later.tokens, told), told.size());
  EXPECT_THAT(Text(later.tokens), Not(HasSubstr("03 December")));
}

// The calls are those of `attndb ask` and `attndb chat`.
TEST_F(DatedPromptsTest, AnOpenedContextIsAskedWithItsDate) {
  const llama::PromptText document = Import("cat", kDocument);
  now_ += kDay;
  Restart();
  ATTNDB_ASSERT_OK_AND_ASSIGN(llama::StoredContext stored,
                              llama::OpenContext(*engine_, *db_, "cat"));
  ATTNDB_ASSERT_OK_AND_ASSIGN(const llama::PromptText asked,
                              llama::QuestionBehind(*engine_, stored, "Which colour?"));
  EXPECT_EQ(CommonLength(asked.tokens, document.tokens), document.tokens.size());
  EXPECT_EQ(asked.text.rendered_at, kMonday);
  EXPECT_THAT(Text(asked.tokens), Not(HasSubstr("02 December")));
  stored = {asked.tokens, asked.text, llama::PromptLayout::kDialogue};
  now_ += kDay;
  ATTNDB_ASSERT_OK_AND_ASSIGN(const llama::PromptText next,
                              llama::QuestionBehind(*engine_, stored, "Sure?"));
  EXPECT_THAT(Text(next.tokens), HasSubstr("<|im_start|>user 01 December 2025\nSure?"));
  EXPECT_THAT(Text(next.tokens), Not(HasSubstr("03 December")));
}

TEST_F(DatedPromptsTest, AnImportGoesOnWithTheDateOfAnEarlierOne) {
  const llama::PromptText document = Import("cat", kDocument);
  now_ += kDay;
  Restart();
  EXPECT_EQ(Import("cat", kDocument).tokens, document.tokens);
  const llama::PromptText longer = Import("cat", std::string(kDocument) + " Now it is black.");
  EXPECT_EQ(longer.text.rendered_at, kMonday) << "it begins with the same words";
  const llama::PromptText other = Import("cat", "Dogs are brown.");
  EXPECT_EQ(other.text.rendered_at, now_) << "it has none of its words";
  EXPECT_THAT(Text(other.tokens), HasSubstr("02 December"));
  EXPECT_EQ(Import("dog", kDocument).text.rendered_at, now_) << "it is another context";
}

// An import that was interrupted leaves a context without a name.
TEST_F(DatedPromptsTest, AnInterruptedImportGoesOnOnTheNextDay) {
  ATTNDB_ASSERT_OK_AND_ASSIGN(const llama::PromptText whole,
                              llama::DocumentText(*engine_, false, "", kDocument));
  const std::span<const TokenId> part = std::span(whole.tokens).first(whole.tokens.size() - 4);
  Result<SessionStart> start = db_->CreateSession(engine_->spec(), part, {});
  ATTNDB_ASSERT_OK(engine_->Prefill(start->session, part));
  ATTNDB_ASSERT_OK(
      db_->Store(start->session, part, {.text_layout = llama::FirstOf(whole.text, part.size())}));
  now_ += kDay;
  EXPECT_EQ(Import("cat", kDocument).tokens, whole.tokens);
}

TEST_F(DatedPromptsTest, ATemplateWithoutADateNotesNone) {
  Open(llama::kToolTemplate);
  EXPECT_EQ(PromptOf({{"user", "Hello"}}).text.rendered_at, 0);
  EXPECT_EQ(Import("cat", kDocument).text.rendered_at, 0);
  Open(llama::kDatedTemplate);
  ATTNDB_ASSERT_OK_AND_ASSIGN(const llama::PromptText raw,
                              llama::DocumentText(*engine_, /*raw=*/true, "", kDocument));
  EXPECT_EQ(raw.text, (TextLayout{TextForm::kRaw, {}}));
}

}  // namespace
}  // namespace attndb::server
