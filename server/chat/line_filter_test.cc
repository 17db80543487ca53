// Goal:   a line of a system message with a match is deleted with its end, and nothing else; an
//         expression that RE2 refuses is named.
// Method: texts, messages and expressions, right and wrong.
#include "server/chat/line_filter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "testing/cpu_time.h"
#include "testing/matchers.h"

namespace attndb::server {
namespace {

using ::attndb::test::FailsWith;
using ::testing::AllOf;
using ::testing::HasSubstr;
using Expressions = std::vector<std::string>;

LineFilter FilterOf(const Expressions& expressions) {
  Result<LineFilter> filter = LineFilter::Make(expressions);
  EXPECT_THAT(filter, ::attndb::test::IsOk());
  return filter.ok() ? *std::move(filter) : LineFilter();
}

// Returns how many lines of a text were deleted, and the lines that are left.
std::string Filtered(const Expressions& expressions, std::string text) {
  const uint64_t num_deleted = FilterOf(expressions).Apply(&text);
  return std::to_string(num_deleted) + " " + text;
}

TEST(LineFilterTest, ALineGoesWithItsEnd) {
  const Expressions id = {"^id: [0-9]+$"};
  EXPECT_EQ(Filtered(id, "id: 1\nBe brief.\n"), "1 Be brief.\n");
  EXPECT_EQ(Filtered(id, "Be\nid: 1\nbrief.\n"), "1 Be\nbrief.\n");
  EXPECT_EQ(Filtered(id, "Be\r\nid: 1\r\nbrief.\r\n"), "1 Be\r\nbrief.\r\n");
  EXPECT_EQ(Filtered(id, "Be brief.\nid: 1"), "1 Be brief.\n") << "the last line has no end";
  EXPECT_EQ(Filtered(id, "id: 1\nid: 2\r\nid: 3"), "3 ");
  EXPECT_EQ(Filtered(id, "id: 1"), "1 ");
  EXPECT_EQ(Filtered(id, "an id: 1\nid: 1 \nid: \n"), "0 an id: 1\nid: 1 \nid: \n");
  EXPECT_EQ(Filtered(id, ""), "0 ");
}

TEST(LineFilterTest, AMatchAnywhereDeletesTheWholeLine) {
  EXPECT_EQ(Filtered({"req-[0-9a-f]{4}"}, "Be brief.\nThis is req-00ff of today.\nNow.\n"),
            "1 Be brief.\nNow.\n");
  EXPECT_EQ(Filtered({"Today", "(?i)REQUEST"}, "Today is Monday.\nA request\n\nHi"), "2 \nHi");
  EXPECT_EQ(Filtered({"^$"}, "a\n\nb\r\n\r\nc\n"), "2 a\nb\r\nc\n");
  EXPECT_EQ(Filtered({"."}, "a\n\nb"), "2 \n");
  EXPECT_EQ(Filtered({"a\\sb"}, "a\nb"), "0 a\nb") << "no match goes beyond a line";
  EXPECT_EQ(Filtered({"^ä.$"}, "äö\nx"), "1 x") << "characters are those of UTF-8";
  EXPECT_EQ(Filtered({"a$"}, "a\rb\na\r"), "0 a\rb\na\r") << "a lone \\r ends no line";
}

TEST(LineFilterTest, OnlySystemMessagesLoseLines) {
  const std::string text = "id: 1\nBe brief.";
  std::vector<llama::ChatMessage> messages = {
      {"system", text},    {"user", text}, {"assistant", text, R"({"reasoning_content":"id: 1"})"},
      {"developer", text}, {"tool", text}, {"system", "id: 2"}};
  EXPECT_EQ(FilterOf({"^id:"}).Apply(messages), 3u);
  const std::string left = "Be brief.";
  const Expressions contents = {left, text, text, left, text, ""};
  ASSERT_EQ(messages.size(), contents.size());
  for (size_t i = 0; i < contents.size(); ++i) EXPECT_EQ(messages[i].content, contents[i]) << i;
  EXPECT_EQ(messages[2].more, R"({"reasoning_content":"id: 1"})");
}

TEST(LineFilterTest, PartsLoseTheSameLines) {
  const auto filtered = [](const std::string& parts) {
    std::vector<llama::ChatMessage> messages = {{"system", "id: 1\nBe\nid: 2\nbrief.", "", parts}};
    EXPECT_EQ(FilterOf({"^id:"}).Apply(messages), 2u);
    EXPECT_EQ(messages[0].content, "Be\nbrief.");
    return messages[0].parts;
  };
  EXPECT_EQ(filtered(R"([{"type":"text","text":"id: 1"},)"
                     R"({"type":"text","text":"Be\nid: 2\nbrief."}])"),
            R"([{"type":"text","text":"Be\nbrief."}])");
  EXPECT_EQ(filtered(R"([{"type":"text","text":"id: 1"},{"type":"text","text":"id: 2"}])"), "");
}

TEST(LineFilterTest, WithoutExpressionsNothingChanges) {
  std::string text = "id: 1\n";
  EXPECT_EQ(LineFilter().Apply(&text), 0u);
  EXPECT_EQ(FilterOf({}).Apply(&text), 0u);
  EXPECT_EQ(text, "id: 1\n");
}

TEST(LineFilterTest, AWrongExpressionIsNamed) {
  EXPECT_THAT(LineFilter::Make(Expressions{"a", "(b"}),
              FailsWith(StatusCode::kInvalidArgument,
                        AllOf(HasSubstr("'(b'"), HasSubstr("missing ): (b"))));
  EXPECT_THAT(LineFilter::Make(Expressions{"(a)\\1"}),
              FailsWith(StatusCode::kInvalidArgument, HasSubstr("invalid escape sequence: \\1")));
  EXPECT_THAT(LineFilter::Make(Expressions{""}),
              FailsWith(StatusCode::kInvalidArgument, HasSubstr("empty")));
}

// A backtracking engine would not come to an end.
TEST(LineFilterTest, TimeIsLinear) {
  std::string text(200'000, 'a');
  const double start = ::attndb::test::ThreadCpuSeconds();
  EXPECT_EQ(FilterOf({"(a*)*b", "(a|aa)+$c"}).Apply(&text), 0u);
  EXPECT_LT(::attndb::test::ThreadCpuSeconds() - start, 5);
}

}  // namespace
}  // namespace attndb::server
