// Goal:   a note gives back the tools that it was made of, and no other note has any.
// Method: notes are written and read; notes of responses, and texts that are none.
#include "server/chat/tools_note.h"

#include <gtest/gtest.h>

#include <string>

namespace attndb::server {
namespace {

TEST(ToolsNoteTest, GivesTheToolsBackInTheirOrder) {
  const std::string tools =
      R"([{"type":"function","function":{"name":"b","parameters":{"z":1,"a":[2.50]}}},)"
      R"({"name":"a"}])";
  EXPECT_EQ(ToolsOfNote(NoteOfTools(tools)),
            R"([{"type":"function","function":{"name":"b","parameters":{"z":1,"a":[2.5]}}},)"
            R"({"name":"a"}])");
}

TEST(ToolsNoteTest, ThereIsNoneWithoutToolsOrWithTooManyBytes) {
  EXPECT_EQ(NoteOfTools(""), "");
  const std::string longest = "[\"" + std::string(kMaxNotedTools - 4, 'x') + "\"]";
  EXPECT_EQ(ToolsOfNote(NoteOfTools(longest)), longest);
  EXPECT_EQ(NoteOfTools(longest + " "), "");
}

TEST(ToolsNoteTest, OtherNotesHaveNoTools) {
  for (const char* const note :
       {"", "x", "[]", "null", R"({"tools":[1]})", R"({"attndb_chat":2,"tools":[1]})",
        R"({"attndb_chat":1})", R"({"attndb_chat":1,"tools":[]})",
        R"({"attndb_chat":1,"tools":"get_weather"})", R"({"attndb":{"version":1},"tools":[1]})"}) {
    EXPECT_EQ(ToolsOfNote(note), "") << note;
  }
  EXPECT_EQ(ToolsOfNote(std::string(2 * kMaxNotedTools + 1, '[')), "");
}

}  // namespace
}  // namespace attndb::server
