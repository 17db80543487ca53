// Goal:   llama.cpp's `common` and Debian's nlohmann-json work in one program, although llama.cpp
//         brings that library in another version.
// Method: chats written by one are read by the other, and the texts compared.
#include "engines/llama/chat/jinja_template.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "testing/matchers.h"

namespace attndb::llama {
namespace {

TEST(JinjaTemplateTest, ReadsWhatAnotherVersionOfItsJsonLibraryWrites) {
  ATTNDB_ASSERT_OK_AND_ASSIGN(const JinjaTemplate chat,
                              JinjaTemplate::Parse({"{{ messages | tojson }}", "", ""}));
  nlohmann::ordered_json messages = nlohmann::ordered_json::array();
  for (const char* content : {"", "\"\\/\b\f\n\r\t", "caf\xC3\xA9 \xF0\x9F\x98\x80", "1e999"}) {
    messages.push_back({{"role", "user"}, {"content", content}});
  }
  ATTNDB_ASSERT_OK_AND_ASSIGN(const ChatPlan plan,
                              chat.Render({.messages = messages.dump(), .options = {}}));
  EXPECT_EQ(nlohmann::ordered_json::parse(plan.prompt), messages);
}

}  // namespace
}  // namespace attndb::llama
