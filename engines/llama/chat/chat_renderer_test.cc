// Goal:   templates are rendered by attndb-chat; one that loops, fills memory, overflows the stack
//         or raises is an error of its own request, and the next request is answered.
// Method: the program as it is built, with templates that misbehave when a message tells them to.
#include "engines/llama/chat/chat_renderer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <thread>
#include <vector>

#include "engines/llama/chat/chat_limits.h"
#include "testing/child_processes.h"
#include "testing/matchers.h"
#include "testing/temp_dir.h"

namespace attndb::llama {
namespace {

using ::attndb::test::FailsWith;
using ::testing::_;
using ::testing::HasSubstr;

constexpr char kPlain[] =
    "{% for message in messages %}[{{ message.role }}]{{ message.content }}{% endfor %}"
    "{% if add_generation_prompt %}[assistant]{% endif %}";

// Misbehaves as the first message says.
constexpr char kWild[] =
    "{% set word = messages[0].content %}"
    "{% macro deep(x) %}{{ deep(x) }}{% endmacro %}"
    "{% if word == 'loop' %}"
    "{% for i in range(100000) %}{% for j in range(100000) %}{% endfor %}{% endfor %}"
    "{% elif word == 'fill' %}"
    "{% set ns = namespace(s='0123456789abcdef') %}"
    "{% for i in range(40) %}{% set ns.s = ns.s ~ ns.s %}{% endfor %}"
    "{% elif word == 'sink' %}{{ deep(1) }}"
    "{% elif word == 'raise' %}{{ raise_exception('roles must alternate') }}"
    "{% endif %}{{ word }}";

std::string Message(const std::string& content) {
  return R"([{"role":"user","content":")" + content + R"("}])";
}

Result<std::string> Rendered(ChatRenderer* renderer, const ChatInput& input) {
  ATTNDB_ASSIGN_OR_RETURN(const ChatPlan plan, renderer->Render(input));
  return plan.prompt;
}

Result<std::string> Rendered(ChatRenderer* renderer, const std::string& content) {
  return Rendered(renderer, ChatInput{.messages = Message(content), .options = {}});
}

TEST(ChatRendererTest, RendersAsTheTemplateSays) {
  ChatRenderer renderer(FindChatProgram(), {kPlain, "", ""});
  ATTNDB_ASSERT_OK(renderer.Check());
  ChatInput input = {
      .messages = R"([{"role":"system","content":"a\n\"b\""},{"role":"user","content":"é"}])",
      .options = {}};
  EXPECT_EQ(*Rendered(&renderer, input), "[system]a\n\"b\"[user]é[assistant]");
  input.add_generation_prompt = false;
  EXPECT_EQ(*Rendered(&renderer, input), "[system]a\n\"b\"[user]é");
}

TEST(ChatRendererTest, ATemplateSeesItsTokensItsVariablesAndTheTimeOfItsChat) {
  ChatRenderer renderer(FindChatProgram(),
                        {"{{ bos_token }}{{ messages[0].content }}{{ eos_token }}|{{ greeting }}|"
                         "{{ strftime_now('%Y-%m-%d') }}|{{ date_string }}|{{ datetime }}",
                         "<s>", "</s>"});
  ChatInput input = {.messages = Message("x"), .options = {}};
  input.options.variables = {{"greeting", "\"hello\""}};
  input.options.now = 86400 * 1000;
  EXPECT_EQ(*Rendered(&renderer, input), "<s>x</s>|hello|1972-09-27|27 Sep 1972|Sep 27 1972");
  input.options.variables["date_string"] = "\"never\"";
  EXPECT_THAT(*Rendered(&renderer, input), HasSubstr("|never|"));
}

TEST(ChatRendererTest, ATemplateThatCantBeParsedIsNamed) {
  ChatRenderer renderer(FindChatProgram(), {"fine\n{% if x %}", "", ""});
  EXPECT_THAT(renderer.Check(),
              FailsWith(StatusCode::kInvalidArgument, HasSubstr("can't be parsed: ")));
  EXPECT_THAT(Rendered(&renderer, "x"), FailsWith(StatusCode::kInvalidArgument, _));
}

TEST(ChatRendererTest, EachFailureEndsItsOwnRequestAlone) {
  ChatRenderer renderer(FindChatProgram(), {kWild, "", ""});
  EXPECT_EQ(*Rendered(&renderer, "fine"), "fine");
  EXPECT_THAT(Rendered(&renderer, "raise"),
              FailsWith(StatusCode::kInvalidArgument, HasSubstr("roles must alternate")));
  EXPECT_EQ(*Rendered(&renderer, "fine"), "fine");
  EXPECT_THAT(Rendered(&renderer, "loop"),
              FailsWith(StatusCode::kResourceExhausted, HasSubstr("more than 1 s of CPU time")));
  EXPECT_EQ(*Rendered(&renderer, "fine"), "fine");
  EXPECT_THAT(Rendered(&renderer, "fill"),
              FailsWith(StatusCode::kResourceExhausted, HasSubstr("more than 256 MiB of memory")));
  EXPECT_EQ(*Rendered(&renderer, "fine"), "fine");
  EXPECT_THAT(Rendered(&renderer, "sink"),
              FailsWith(StatusCode::kResourceExhausted, HasSubstr("SIGSEGV")));
  EXPECT_EQ(*Rendered(&renderer, "fine"), "fine");
}

// The only child of this process.
pid_t OnlyChild() {
  const std::vector<pid_t> children = ::attndb::test::ChildrenOf(getpid());
  return children.empty() ? -1 : children[0];
}

TEST(ChatRendererTest, AProcessThatWasEndedBetweenRequestsIsReplaced) {
  ChatRenderer renderer(FindChatProgram(), {kPlain, "", ""});
  ATTNDB_ASSERT_OK(renderer.Check());
  const pid_t child = OnlyChild();
  ASSERT_GT(child, 0) << "Linux lists children in /proc";
  ASSERT_EQ(kill(child, SIGKILL), 0);
  siginfo_t info = {};
  ASSERT_EQ(waitid(P_PID, static_cast<id_t>(child), &info, WEXITED | WNOWAIT), 0);
  EXPECT_EQ(*Rendered(&renderer, "x"), "[user]x[assistant]");
}

TEST(ChatRendererTest, SignalsForTheWholeGroupDoNotEndIt) {
  ChatRenderer renderer(FindChatProgram(), {kPlain, "", ""});
  EXPECT_EQ(*Rendered(&renderer, "x"), "[user]x[assistant]");
  const pid_t child = OnlyChild();
  ASSERT_GT(child, 0) << "Linux lists children in /proc";
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) ASSERT_EQ(kill(child, signal), 0);
  EXPECT_EQ(*Rendered(&renderer, "y"), "[user]y[assistant]");
  EXPECT_EQ(OnlyChild(), child);
}

TEST(ChatRendererTest, AChatThatIsNoneIsNamed) {
  ChatRenderer renderer(FindChatProgram(), {kPlain, "", ""});
  for (const std::string& messages :
       {std::string("["), std::string("{}"), std::string("[1]"),
        std::string(R"([{"role":"user"}])"), std::string(100'000, '['),
        std::string("[{\"role\":\"user\",\"content\":\"\xff\"}]")}) {
    EXPECT_THAT(renderer.Render({.messages = messages, .options = {}}),
                FailsWith(StatusCode::kInvalidArgument, _))
        << messages.substr(0, 40);
  }
  EXPECT_EQ(*Rendered(&renderer, "x"), "[user]x[assistant]");
}

TEST(ChatRendererTest, ManyThreadsGetTheirOwnPrompts) {
  ChatRenderer renderer(FindChatProgram(), {kPlain, "", ""});
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&renderer, word = std::string(1, static_cast<char>('a' + i))] {
      for (int j = 0; j < 20; ++j) {
        EXPECT_EQ(*Rendered(&renderer, word), "[user]" + word + "[assistant]");
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(ChatRendererTest, WithoutTheProgramTheErrorSaysSo) {
  ChatRenderer none("", {kPlain, "", ""});
  EXPECT_THAT(none.Check(), FailsWith(StatusCode::kUnsupported, HasSubstr("attndb-chat")));
  ChatRenderer missing("/nowhere/attndb-chat", {kPlain, "", ""});
  EXPECT_THAT(missing.Check(), FailsWith(StatusCode::kIoError, HasSubstr("/nowhere/attndb-chat")));
}

TEST(ChatRendererTest, AProgramThatEndsAtOnceIsAnError) {
  const test::TempDir folder = test::TempDir::InMemory();
  const std::string path = folder.File("attndb-chat");
  std::ofstream(path) << "#!/bin/sh\nexit 7\n";
  ASSERT_EQ(chmod(path.c_str(), 0755), 0);
  ChatRenderer renderer(path, {kPlain, "", ""});
  EXPECT_THAT(Rendered(&renderer, "x"),
              FailsWith(StatusCode::kResourceExhausted, HasSubstr("gave no answer")));
}

}  // namespace
}  // namespace attndb::llama
