// Goal:   a turn's id names the messages that it answers, so that another process finds it, and no
//         two turns have the same.
// Method: conversations that differ in one place.
#include "server/batch/turn_id.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "testing/cpu_time.h"
#include "testing/matchers.h"

namespace attndb::server {
namespace {

using Messages = std::vector<llama::ChatMessage>;
using ::attndb::test::ThreadCpuSeconds;
using ::testing::IsEmpty;
using ::testing::MatchesRegex;

std::string Last(const Messages& messages) {
  const Result<std::vector<std::string>> digests = DigestsOf(messages);
  EXPECT_THAT(digests, ::attndb::test::IsOk());
  return digests.ok() ? digests->back() : "";
}

TEST(TurnIdTest, ThereIsADigestForEachBeginning) {
  const Messages messages = {{"system", "S"}, {"user", "U"}, {"assistant", "A"}};
  ATTNDB_ASSERT_OK_AND_ASSIGN(const std::vector<std::string> digests, DigestsOf(messages));
  ASSERT_EQ(digests.size(), 3u);
  EXPECT_EQ(digests[0], Last({{"system", "S"}}));
  EXPECT_EQ(digests[1], Last({{"system", "S"}, {"user", "U"}}));
  EXPECT_EQ(digests[2], Last(messages));
  for (const std::string& digest : digests) EXPECT_THAT(digest, MatchesRegex("[0-9a-f]{24}"));
  EXPECT_THAT(*DigestsOf({}), IsEmpty());
}

TEST(TurnIdTest, OtherWordsHaveAnotherDigest) {
  const std::vector<Messages> all = {{{"user", "ab"}},
                                     {{"user", "a"}},
                                     {{"user", ""}},
                                     {{"usera", "b"}},
                                     {{"use", "rab"}},
                                     {{"user", "a"}, {"user", "b"}},
                                     {{"user", "a"}, {"assistant", "b"}},
                                     {{"user", "b"}, {"assistant", "a"}},
                                     {{"user", "a4:userb"}},
                                     {{"user", std::string("ab\0", 3)}}};
  std::set<std::string> digests;
  for (const Messages& messages : all) digests.insert(Last(messages));
  EXPECT_EQ(digests.size(), all.size());
}

// Turns that earlier versions stored are found by these.
TEST(TurnIdTest, DigestsOfPlainMessagesStayAsTheyWere) {
  const Messages messages = {{"system", "Be brief."}, {"user", "Hello"}};
  ATTNDB_ASSERT_OK_AND_ASSIGN(const std::vector<std::string> digests, DigestsOf(messages));
  EXPECT_THAT(digests,
              ::testing::ElementsAre("150ebdd13c7ef99dd359ddff", "a2f2d1fdacd04be4bef86373"));
}

TEST(TurnIdTest, ToolCallsCountByNameAndArguments) {
  const auto calling = [](const std::string& name, const std::string& arguments) {
    return Last({{"user", "U"},
                 {"assistant", "",
                  R"({"tool_calls": [{"id": "1", "type": "function", "function": {"name": ")" +
                      name + R"(", "arguments": ")" + arguments + R"("}}]})"}});
  };
  const std::string call = R"({"function": {"name": "a", "arguments": "{}"}})";
  std::set<std::string> digests = {
      calling("a", "{}"),
      calling("b", "{}"),
      calling("a", "{ }"),
      calling("", "a{}"),
      Last({{"user", "U"}, {"assistant", ""}}),
      Last({{"user", "U"}, {"assistant", "", R"({"tool_calls": [)" + call + "," + call + "]}"}})};
  EXPECT_EQ(digests.size(), 6u);
}

TEST(TurnIdTest, WhatClientsChangeMakesNoDifference) {
  const auto with = [](const std::string& more) {
    return Last({{"user", "U"}, {"assistant", "A", more}});
  };
  const std::string plain = with("");
  EXPECT_EQ(with(R"({"reasoning_content": "Well"})"), plain);
  EXPECT_EQ(with(R"({"name": "x", "tool_calls": []})"), plain);
  EXPECT_EQ(with(R"({"tool_calls": null})"), plain);
  EXPECT_EQ(Last({{"tool", "3", R"({"tool_call_id": "a"})"}}),
            Last({{"tool", "3", R"({"tool_call_id": "b"})"}}));
  const std::string called =
      with(R"({"tool_calls": [{"id": "a", "function": {"name": "f", "arguments": "{}"}}]})");
  EXPECT_NE(called, plain);
  EXPECT_EQ(with(R"({"reasoning_content": "Well", "tool_calls": [{"function":
                    {"arguments": "{}", "name": "f"}, "type": "function", "id": "b"}]})"),
            called);
}

TEST(TurnIdTest, CallsOfAnotherFormAreRefused) {
  for (const char* const calls : {"3", "[3]", "[{}]", R"([{"function": "f"}])"}) {
    EXPECT_THAT(
        DigestsOf(Messages{{"assistant", "", R"({"tool_calls": )" + std::string(calls) + "}"}}),
        ::attndb::test::FailsWith(StatusCode::kInvalidArgument, ::testing::HasSubstr("tool_calls")))
        << calls;
  }
}

TEST(TurnIdTest, LongConversationsAreReadOnce) {
  Messages messages;
  for (int i = 0; i < 8000; ++i) {
    messages.push_back({"user", std::string(500, 'u')});
    messages.push_back({"assistant", std::string(500, 'a')});
  }
  const double start = ThreadCpuSeconds();
  ATTNDB_ASSERT_OK(DigestsOf(messages));
  EXPECT_LT(ThreadCpuSeconds() - start, 5);
}

TEST(TurnIdTest, AnIdTellsItsDigestAndNothingElseDoes) {
  const std::string digest = Last({{"user", "Hi"}});
  EXPECT_EQ(DigestIn(NewTurnId(digest)), digest);
  for (const std::string& other :
       {NewTurnId(""), std::string(), std::string("manual"), "turn-" + digest,
        "turn-" + digest + "-", "Turn-" + digest + "-0123456789ab",
        "turn-" + digest + "_0123456789ab", "turn-" + digest + "-0123456789abc"}) {
    EXPECT_EQ(DigestIn(other), std::nullopt) << other;
  }
}

TEST(TurnIdTest, NoTwoTurnsHaveTheSameId) {
  std::set<std::string> ids;
  for (int i = 0; i < 1000; ++i) {
    EXPECT_TRUE(ids.insert(NewTurnId("")).second);
    EXPECT_TRUE(ids.insert(NewTurnId("d")).second);
  }
}

TEST(TurnIdTest, TokensHaveADigestOfTheirOwn) {
  using Tokens = std::vector<TokenId>;
  const std::string one = *DigestOf(Tokens{1, 2, 3});
  EXPECT_EQ(one, *DigestOf(Tokens{1, 2, 3}));
  // SHA-256 of 01000000 02000000 03000000.
  EXPECT_EQ(one, "4636993d3e1da4e9d6b8f87b79e8f7c6d018580d52661950eabc3845c5897a4d");
  for (const Tokens& other :
       {Tokens{}, Tokens{1, 2}, Tokens{1, 3, 2}, Tokens{1, 2, 3, 0}, Tokens{1, 2, 3 << 8}}) {
    EXPECT_NE(*DigestOf(other), one);
  }
}

}  // namespace
}  // namespace attndb::server
