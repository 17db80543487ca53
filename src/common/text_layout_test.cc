// Goal:   a layout of a text comes back unchanged; an impossible one is refused by name.
// Method: texts and values, right and wrong.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "attndb/types.h"
#include "testing/matchers.h"

namespace attndb {
namespace {

using ::attndb::test::FailsWith;
using ::testing::HasSubstr;

TEST(TextLayoutTest, ItIsWrittenAndReadAlike) {
  const TextLayout dialogue = {TextForm::kDialogue,
                               {{TextRole::kSystem, {4, 20}},
                                {TextRole::kUser, {24, 90}},
                                {TextRole::kAssistant, {95, 130}},
                                {TextRole::kOther, {130, 131}}}};
  EXPECT_EQ(dialogue.ToString(), "dialogue system:4-20 user:24-90 assistant:95-130 other:130-131");
  TextLayout dated = dialogue;
  dated.rendered_at = 1764547200;
  EXPECT_EQ(dated.ToString(),
            "dialogue at:1764547200 system:4-20 user:24-90 assistant:95-130 other:130-131");
  TextLayout edited = dated;
  edited.left_out = {{30, 42}, {60, 75}};
  EXPECT_EQ(edited.ToString(),
            "dialogue at:1764547200 without:30-42,60-75 system:4-20 user:24-90 "
            "assistant:95-130 other:130-131");
  TextLayout unknown;
  unknown.left_out = {{30, 131}};
  EXPECT_EQ(unknown.ToString(), " without:30-131");
  for (const TextLayout& text :
       {dialogue, dated, edited, unknown, TextLayout(), TextLayout{TextForm::kRaw, {}},
        TextLayout{TextForm::kDocument, {}, 1},
        TextLayout{TextForm::kDocument, {{TextRole::kUser, {0, 7}}}}}) {
    ATTNDB_ASSERT_OK_AND_ASSIGN(const TextLayout read, TextLayout::Parse(text.ToString()));
    EXPECT_EQ(read, text) << text.ToString();
    ATTNDB_EXPECT_OK(text.Validate(131));
  }
}

TEST(TextLayoutTest, OtherTextsAreRefused) {
  for (const char* const text : {"book",
                                 " ",
                                 "raw user:1-2",
                                 " user:1-2",
                                 "document user",
                                 "document user:1",
                                 "dialogue ",
                                 "document user:2-1",
                                 "document user:1-1",
                                 "document user:1-3 user:2-4",
                                 "document  user:1-2",
                                 "document you:1-2",
                                 "document user:01-2",
                                 "document user:1-2x",
                                 "document user:-1-2",
                                 "document at:0",
                                 "document at:",
                                 "document at:-1",
                                 "document at:01",
                                 "document user:1-2 at:1",
                                 "raw at:1",
                                 " at:1",
                                 "document without:",
                                 "document without:1",
                                 "document without:1-",
                                 "document without:2-2",
                                 "document without:1-2,",
                                 "document without:1-2,2-3",
                                 "document without:4-5,1-2",
                                 "document without:1-2,3-4,",
                                 "document without:01-2",
                                 "document without:1-2 at:1",
                                 "document user:1-2 without:1-2",
                                 "document without:1-2 without:4-5",
                                 "document at:99999999999999999999",
                                 "document user:1-99999999999999999999"}) {
    EXPECT_THAT(TextLayout::Parse(text), FailsWith(StatusCode::kInvalidArgument, HasSubstr("text")))
        << text;
  }
}

TEST(TextLayoutTest, ItIsOfAContextOfSoManyTokens) {
  const TextLayout text = {TextForm::kDocument, {{TextRole::kUser, {3, 8}}}};
  ATTNDB_EXPECT_OK(text.Validate(8));
  EXPECT_THAT(text.Validate(7),
              FailsWith(StatusCode::kInvalidArgument, HasSubstr("tokens 3 to 8")));
  TextLayout edited = {TextForm::kRaw, {}, 0, {{3, 5}, {6, 8}}};
  ATTNDB_EXPECT_OK(edited.Validate(8));
  EXPECT_THAT(edited.Validate(7),
              FailsWith(StatusCode::kInvalidArgument, HasSubstr("lacks tokens 6 to 8")));
  while (edited.left_out.size() <= TextLayout::kMaxLeftOut) {
    const uint64_t begin = edited.left_out.back().end + 1;
    edited.left_out.push_back({begin, begin + 1});
  }
  EXPECT_THAT(TextLayout::Parse(edited.ToString()),
              FailsWith(StatusCode::kInvalidArgument, HasSubstr("more than 128 pieces")));
  edited.left_out.pop_back();
  EXPECT_EQ(*TextLayout::Parse(edited.ToString()), edited);
  TextLayout many = {TextForm::kDialogue, {}};
  for (uint64_t i = 0; i <= TextLayout::kMaxMessages; ++i) {
    many.messages.push_back({TextRole::kUser, {i, i + 1}});
  }
  EXPECT_THAT(many.Validate(1'000'000),
              FailsWith(StatusCode::kInvalidArgument, HasSubstr("more than 2,048 messages")));
  EXPECT_THAT(TextLayout::Parse(many.ToString()),
              FailsWith(StatusCode::kInvalidArgument, HasSubstr("more than")));
  const TextLayout wrong = {static_cast<TextForm>(9), {}};
  EXPECT_THAT(wrong.Validate(1), FailsWith(StatusCode::kInvalidArgument, HasSubstr("text.form")));
}

}  // namespace
}  // namespace attndb
