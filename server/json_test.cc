// Goal:   what clients send is read within limits of depth and width, and what they are told is
//         UTF-8 whatever it was made of.
// Method: texts at the limits and beyond them.
#include "server/json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "testing/cpu_time.h"
#include "testing/matchers.h"

namespace attndb::server {
namespace {

using ::attndb::test::FailsWith;
using ::attndb::test::ThreadCpuSeconds;
using ::testing::HasSubstr;

std::string Nested(size_t depth, const std::string& innermost) {
  return std::string(depth, '[') + innermost + std::string(depth, ']');
}

TEST(JsonTest, KeepsTheOrderOfFields) {
  ATTNDB_ASSERT_OK_AND_ASSIGN(const Json json, ParseJson(R"({"b": 1, "a": [2.5, "x", null]})"));
  EXPECT_EQ(ToText(json), R"({"b":1,"a":[2.5,"x",null]})");
}

TEST(JsonTest, DepthIsLimitedWhateverIsInnermost) {
  for (const char* const innermost : {"", "1", R"("x")"}) {
    ATTNDB_EXPECT_OK(ParseJson(Nested(kMaxJsonDepth, innermost))) << innermost;
    EXPECT_THAT(ParseJson(Nested(kMaxJsonDepth + 1, innermost)),
                FailsWith(StatusCode::kInvalidArgument, HasSubstr("deeper than 128 levels")))
        << innermost;
  }
  std::string objects;
  for (size_t i = 0; i <= kMaxJsonDepth; ++i) objects += R"({"a":)";
  objects += "{}" + std::string(kMaxJsonDepth + 1, '}');
  EXPECT_THAT(ParseJson(objects), FailsWith(StatusCode::kInvalidArgument, HasSubstr("deeper")));
}

TEST(JsonTest, DepthThatWouldOverflowAStackIsRefused) {
  EXPECT_THAT(ParseJson(Nested(1 << 20, "")),
              FailsWith(StatusCode::kInvalidArgument, HasSubstr("deeper")));
  EXPECT_THAT(ParseJson(std::string(1 << 20, '[')),
              FailsWith(StatusCode::kInvalidArgument, ::testing::_));
}

TEST(JsonTest, WhatIsNoJsonIsRefused) {
  for (const char* const text :
       {"", " ", "{", "{}x", "{'a': 1}", R"({"a":1,})", "[1 2]", "nan", "1e999", "\"\t\"",
        "\"\xff\"", "\"\xc3\"", "\"\xed\xa0\x80\"", R"("\ud800")", "\"\xf0\x9f\x98\""}) {
    EXPECT_THAT(ParseJson(text),
                FailsWith(StatusCode::kInvalidArgument, HasSubstr("not JSON that can be taken: ")))
        << text;
  }
}

TEST(JsonTest, WhatIsShownIsCutBetweenCharacters) {
  for (size_t shift = 0; shift < 4; ++shift) {
    std::string text(shift, 'x');
    for (size_t i = 0; i < 40; ++i) text += "\xf0\x9f\x9a\x8b";
    const std::string shown = Shown(Json(text));
    EXPECT_TRUE(IsUtf8(shown)) << shown;
    EXPECT_GT(shown.size(), 36u);
  }
  const std::string half(100, '\x9a');
  EXPECT_EQ(Shown(Json(half)).size(), 1 + 39 + 3) << "bytes that are no character";
}

TEST(JsonTest, BytesAreUtf8OrNot) {
  for (const char* const bytes : {"", "a", "\xc3\xa4", "\xf0\x9f\x98\x80", "\xef\xbf\xbd"}) {
    EXPECT_TRUE(IsUtf8(bytes)) << bytes;
  }
  for (const char* const bytes : {"\xff", "\xc3", "a\xf0\x9f\x98", "\xa4", "\xc0\xaf",
                                  "\xed\xa0\x80", "\xf4\x90\x80\x80", "\xc3("}) {
    EXPECT_FALSE(IsUtf8(bytes)) << bytes;
  }
}

TEST(JsonTest, AnErrorsTextCanBeSent) {
  const Result<Json> json = ParseJson("{\"a\": \"\xff\"}");
  ASSERT_FALSE(json.ok());
  ATTNDB_EXPECT_OK(ParseJson(ToText({{"message", json.status().message()}})));
}

// What a client sent may be megabytes, and is nothing that it needs to be told.
TEST(JsonTest, AnErrorIsShortWhateverItIsOf) {
  for (const std::string& end : {std::string("\x01\""), std::string("\xff\""), std::string()}) {
    const Result<Json> json = ParseJson("[\"" + std::string(100'000, 'x') + end + "]");
    ASSERT_FALSE(json.ok());
    EXPECT_LT(json.status().message().size(), 1000u);
  }
  EXPECT_LT(ParseJson(std::string(100'000, '7') + "x").status().message().size(), 1000u);
}

TEST(JsonTest, BytesThatAreNoUtf8AreReplaced) {
  EXPECT_EQ(ToText(Json("a\xff"
                        "b")),
            "\"a\xEF\xBF\xBD"
            "b\"");
  EXPECT_EQ(ToText(Json("\xc3")), "\"\xEF\xBF\xBD\"");
  EXPECT_EQ(ToText(Json("na\xC3\xAFve \xF0\x9F\x98\x80")), "\"na\xC3\xAFve \xF0\x9F\x98\x80\"");
}

TEST(JsonTest, IsOneLine) {
  EXPECT_EQ(ToText({{"a", "x\ny\r"}, {"b", {1, 2}}}), R"({"a":"x\ny\r","b":[1,2]})");
}

TEST(JsonTest, MembersOfOneObjectAreLimited) {
  const auto object = [](size_t num_members) {
    std::string text = "{";
    for (size_t i = 0; i < num_members; ++i) text += "\"k" + std::to_string(i) + "\":{},";
    text.back() = '}';
    return text;
  };
  ATTNDB_EXPECT_OK(ParseJson(object(kMaxJsonMembers)));
  EXPECT_THAT(ParseJson(object(kMaxJsonMembers + 1)),
              FailsWith(StatusCode::kInvalidArgument, HasSubstr("more than 256 members")));
  // Each object has its own count: what came before or within it is not its own.
  const std::string full = object(kMaxJsonMembers);
  ATTNDB_EXPECT_OK(ParseJson("[" + full + "," + full + R"(,{"a":)" + full + R"(,"b":1}])"));
}

TEST(JsonTest, OneFieldMayHaveMoreMembers) {
  const auto object = [](size_t num_members) {
    std::string text = "{";
    for (size_t i = 0; i < num_members; ++i) text += "\"" + std::to_string(i) + "\":-1,";
    text.back() = '}';
    return text;
  };
  const WideField wide[] = {{.name = "wide", .members = 1000}};
  const auto parse = [&](const std::string& text) { return ParseJson(text, wide).status(); };
  ATTNDB_EXPECT_OK(parse(R"({"a":{},"wide":)" + object(1000) + R"(,"b":{"c":1}})"));
  EXPECT_THAT(parse(R"({"wide":)" + object(1001) + "}"),
              FailsWith(StatusCode::kInvalidArgument, HasSubstr("more than 1000 members")));
  // Neither other fields, nor objects inside of it, nor a field of this name elsewhere.
  const std::string many = object(kMaxJsonMembers + 1);
  for (const std::string& text :
       {many, R"({"other":)" + many + "}", R"({"wide":1,"other":)" + many + "}",
        R"({"wide":{"a":)" + many + "}}", R"({"wide":[)" + many + "]}",
        R"({"a":{"wide":)" + many + "}}", R"([{"wide":)" + many + "}]"}) {
    EXPECT_THAT(parse(text), FailsWith(StatusCode::kInvalidArgument, HasSubstr("256 members")));
  }
}

TEST(JsonTest, AllObjectsInsideAFieldMayHaveMoreMembers) {
  const auto object = [](size_t num_members) {
    std::string text = "{";
    for (size_t i = 0; i < num_members; ++i) text += "\"" + std::to_string(i) + "\":-1,";
    text.back() = '}';
    return text;
  };
  const WideField wide[] = {{.name = "a", .members = 300},
                            {.name = "deep", .members = 1000, .is_deep = true}};
  ATTNDB_EXPECT_OK(
      ParseJson(R"({"deep":[{"x":{"y":)" + object(1000) + "}}],\"a\":" + object(300) + "}", wide));
  for (const std::string& text :
       {R"({"deep":[{"x":)" + object(1001) + "}]}", R"({"deep":1,"b":{"c":)" + object(257) + "}}",
        R"({"deep":1,"a":)" + object(301) + "}", R"([{"deep":)" + object(257) + "}]"}) {
    EXPECT_THAT(ParseJson(text, wide),
                FailsWith(StatusCode::kInvalidArgument, HasSubstr("members")));
  }
}

TEST(JsonTest, ATextOfJsonIsCheckedWithinTheLimits) {
  ATTNDB_EXPECT_OK(CheckJson("f", R"({"a":[1,"x",null]})", 2));
  ATTNDB_EXPECT_OK(CheckJson("f", Nested(kMaxJsonDepth, ""), 2));
  for (const std::string& text :
       {std::string(), std::string("{"), std::string("{}x"), std::string(R"({"a":1,"b":2,"c":3})"),
        Nested(kMaxJsonDepth + 1, ""), std::string(100'000, '[')}) {
    EXPECT_THAT(CheckJson("f.arguments", text, 2),
                FailsWith(StatusCode::kInvalidArgument, HasSubstr("'f.arguments' is not JSON")));
  }
}

// A member of an ordered object is found by looking at all of them.
TEST(JsonTest, AnObjectOfManyMembersIsRefusedAtOnce) {
  std::string text = "{";
  for (int i = 0; i < 300'000; ++i) text += "\"k" + std::to_string(i) + "\":1,";
  text.back() = '}';
  const double start = ThreadCpuSeconds();
  EXPECT_FALSE(ParseJson(text).ok());
  EXPECT_LT(ThreadCpuSeconds() - start, 10);
}

TEST(JsonTest, ALongArrayIsReadAtOnce) {
  std::string text = "[";
  for (int i = 0; i < 300'000; ++i) text += "{},";
  text.back() = ']';
  const double start = ThreadCpuSeconds();
  ATTNDB_EXPECT_OK(ParseJson(text));
  EXPECT_LT(ThreadCpuSeconds() - start, 10);
}

TEST(JsonTest, AWholeNumberIsOneHoweverItIsWritten) {
  uint64_t count = 0;
  for (const char* const text : {"40", "40.0", "4e1", "4.0E+1"}) {
    ATTNDB_ASSERT_OK_AND_ASSIGN(const Json json, ParseJson("{\"n\":" + std::string(text) + "}"));
    count = 0;
    ATTNDB_EXPECT_OK(ReadCount(json, "n", 1, 40, &count)) << text;
    EXPECT_EQ(count, 40u) << text;
    TokenId token = 0;
    EXPECT_TRUE(ReadTokenId(json["n"], &token)) << text;
    EXPECT_EQ(token, 40) << text;
  }
  for (const char* const text : {"40.5", "41.0", "0.0", "-1.0", "1e300", "true", "\"40.0\""}) {
    ATTNDB_ASSERT_OK_AND_ASSIGN(const Json json, ParseJson("{\"n\":" + std::string(text) + "}"));
    EXPECT_FALSE(ReadCount(json, "n", 1, 40, &count).ok()) << text;
  }
  // Beyond 2^53 a double is not the number that was written.
  EXPECT_TRUE(WholeNumber(Json(9007199254740992.0)).is_number_unsigned());
  EXPECT_TRUE(WholeNumber(Json(9007199254740994.0)).is_number_float());
  EXPECT_EQ(WholeNumber(Json(-3.0)), Json(-3));
  EXPECT_TRUE(WholeNumber(Json(-3.0)).is_number_integer());
}

TEST(JsonTest, MembersThatAreNullAreNotThere) {
  ATTNDB_ASSERT_OK_AND_ASSIGN(const Json json, ParseJson(R"({"a": 1, "b": null})"));
  ASSERT_NE(FindMember(json, "a"), nullptr);
  EXPECT_EQ(*FindMember(json, "a"), 1);
  EXPECT_EQ(FindMember(json, "b"), nullptr);
  EXPECT_EQ(FindMember(json, "c"), nullptr);
  EXPECT_EQ(FindMember(Json(5), "a"), nullptr) << "what is no object has none";
}

}  // namespace
}  // namespace attndb::server
