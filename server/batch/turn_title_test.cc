// Goal:   all turns of a conversation have one title, its first question; a bare text has its own.
// Method: messages as clients send them.
#include "server/batch/turn_title.h"

#include <gtest/gtest.h>

#include <vector>

namespace attndb::server {
namespace {

llama::ChatMessage Message(const char* role, std::string content) {
  llama::ChatMessage message;
  message.role = role;
  message.content = std::move(content);
  return message;
}

TEST(TurnTitleTest, IsTheFirstQuestion) {
  std::vector<llama::ChatMessage> messages = {
      Message("system", "You are kind."), Message("user", "What is\r\n a KV cache?\n"),
      Message("assistant", "A store."), Message("user", "And then?")};
  EXPECT_EQ(TitleOfTurn(messages, ""), "What is a KV cache?");
  messages[1].content = std::string(50, 'a') + " " + std::string(50, 'b');
  EXPECT_EQ(TitleOfTurn(messages, ""), std::string(50, 'a') + "...");
}

TEST(TurnTitleTest, IsNotOfAMessageThatShowsNothing) {
  EXPECT_EQ(TitleOfTurn(std::vector{Message("user", " \x1b\n"), Message("user", "Яблоко \x1b[1m")},
                        "unused"),
            "Яблоко [1m");
  EXPECT_EQ(TitleOfTurn(std::vector{Message("system", "You are kind.")}, "unused"), "");
}

TEST(TurnTitleTest, OfABareTextIsItsBeginning) {
  EXPECT_EQ(TitleOfTurn({}, "Once upon a time\nthere was"), "Once upon a time there was");
  EXPECT_EQ(TitleOfTurn({}, ""), "");
}

}  // namespace
}  // namespace attndb::server
