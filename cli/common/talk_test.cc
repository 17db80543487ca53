// Goal:   a chat passes questions on, obeys its commands, and ends where it should.
// Method: lines of a list, and a talker that answers with the question.
#include "cli/common/talk.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

namespace attndb::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::internal::CaptureStderr;
using ::testing::internal::GetCapturedStderr;

class ListedLines : public LineReader {
 public:
  explicit ListedLines(std::vector<std::string> lines) : lines_(std::move(lines)) {}
  Result<std::string> Next() override {
    if (at_ == lines_.size()) return Status::NotFound("end");
    return lines_[at_++];
  }

 private:
  const std::vector<std::string> lines_;
  size_t at_ = 0;
};

class Echo : public Talker {
 public:
  std::string name() const override { return ChatNameOf(context_); }
  std::string plan() const override { return plan_; }
  Result<Json> Answer(const std::string& question) override {
    asked.push_back(context_ + " " + plan_ + ": " + question);
    return Json{{"answer", question}};
  }
  Result<std::string> About() override { return "about " + context_; }
  Status SwitchTo(const std::string& context) override {
    if (context == "nobody") return Status::NotFound("no context 'nobody'");
    context_ = context;
    return Status();
  }
  Status SetPlan(const std::string& plan) override {
    if (plan == "bad") return Status::InvalidArgument("'bad' is no plan");
    plan_ = plan;
    return Status();
  }

  std::vector<std::string> asked;

 private:
  std::string context_ = "manual";
  std::string plan_ = "full";
};

struct Outcome {
  Result<ExitCode> result;
  std::vector<std::string> asked;
  std::string said;
};

Outcome RunTalk(std::vector<std::string> lines, bool interactive) {
  CommonOptions options;
  options.quiet = true;
  Environment env(options);
  Echo echo;
  ListedLines listed(std::move(lines));
  CaptureStderr();
  Result<ExitCode> result = TalkByLines(&env, &echo, &listed, interactive);
  return {std::move(result), echo.asked, GetCapturedStderr()};
}

TEST(TalkTest, LinesAreQuestionsAndEmptyOnesAreNone) {
  const Outcome done = RunTalk({"Who?", "", " \t", "When?"}, false);
  ASSERT_TRUE(done.result.ok());
  EXPECT_THAT(done.asked, ElementsAre("manual full: Who?", "manual full: When?"));
}

TEST(TalkTest, CommandsChangeWhatLaterQuestionsAreAsked) {
  const Outcome done =
      RunTalk({"/plan topk(k=8)", "Who?", "/context  other ", "Who?", "/quit", "No."}, false);
  ASSERT_TRUE(done.result.ok());
  EXPECT_THAT(done.asked, ElementsAre("manual topk(k=8): Who?", "other topk(k=8): Who?"));
  EXPECT_THAT(done.said, HasSubstr("plan topk(k=8)\nabout other\n"));
}

TEST(TalkTest, CommandsWithoutAValueTellIt) {
  const Outcome done = RunTalk({"/plan", "/context", "/help"}, false);
  ASSERT_TRUE(done.result.ok());
  EXPECT_THAT(done.said, HasSubstr("plan full\nabout manual\n"));
  EXPECT_THAT(done.said, HasSubstr("/context NAME"));
}

TEST(TalkTest, TwoSlashesBeginAQuestion) {
  EXPECT_THAT(RunTalk({"//etc/hosts is what?"}, false).asked,
              ElementsAre("manual full: /etc/hosts is what?"));
}

TEST(TalkTest, AWrongCommandEndsAPipeAndNotATerminal) {
  for (const char* const wrong : {"/plan bad", "/context nobody", "/frobnicate", "/"}) {
    const Outcome piped = RunTalk({wrong, "Who?"}, false);
    EXPECT_FALSE(piped.result.ok()) << wrong;
    EXPECT_TRUE(piped.asked.empty()) << wrong;
    const Outcome typed = RunTalk({wrong, "Who?"}, true);
    EXPECT_TRUE(typed.result.ok()) << wrong;
    EXPECT_THAT(typed.asked, ElementsAre("manual full: Who?")) << wrong;
    EXPECT_THAT(typed.said, HasSubstr(piped.result.status().message())) << wrong;
  }
}

TEST(TalkTest, ChatsAreNamedByTheirContext) {
  EXPECT_EQ(ChatNameOf("manual"), "manual.chat");
  EXPECT_EQ(ChatNameOf("manual.chat"), "manual.chat");
  EXPECT_EQ(ChatNameOf("#12"), "12.chat");
}

TEST(TalkTest, AChatSaysWhatItGoesOnWith) {
  EXPECT_EQ(GoesOnText("a.chat", "a", true), "goes on with 'a.chat'");
  EXPECT_EQ(GoesOnText("a.chat", "", false), "goes on with 'a.chat'");
  EXPECT_THAT(GoesOnText("a.chat", "a", false), HasSubstr("begins with another text than 'a' has"));
  EXPECT_THAT(GoneContextAdvice("a.chat"), HasSubstr("chat --name a.chat"));
}

}  // namespace
}  // namespace attndb::cli
