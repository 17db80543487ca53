// Goal:   the text is byte for byte that of nlohmann::ordered_json for the same tree.
// Method: each kind of value, and random doubles, next to the tree's own dump.
#include "common/json_text.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <random>

#include "common/json.h"

namespace attndb {
namespace {

std::string TextOf(const JsonValue& value) {
  std::string text;
  value.AppendTo(&text);
  return text;
}

TEST(JsonTextTest, WritesEachKindOfValueAsATreeDoes) {
  EXPECT_EQ(TextOf(nullptr), DumpJson(nullptr));
  EXPECT_EQ(TextOf(true), DumpJson(true));
  EXPECT_EQ(TextOf(false), DumpJson(false));
  EXPECT_EQ(TextOf(std::numeric_limits<int64_t>::min()),
            DumpJson(std::numeric_limits<int64_t>::min()));
  EXPECT_EQ(TextOf(std::numeric_limits<uint64_t>::max()),
            DumpJson(std::numeric_limits<uint64_t>::max()));
  EXPECT_EQ(TextOf(uint8_t{7}), DumpJson(uint8_t{7}));
  EXPECT_EQ(TextOf(0.1F), DumpJson(0.1F));
  for (const std::string& text : {std::string(), std::string("a\"\\\n\x01 z"),
                                  std::string("\xff é"), std::string("nul \0.", 6)}) {
    EXPECT_EQ(TextOf(text), DumpJson(text));
  }
  EXPECT_EQ(TextOf("text"), DumpJson("text"));
}

TEST(JsonTextTest, WritesNumbersAsATreeDoes) {
  for (const double number :
       {0.0, -0.0, 1.0, 1e-5, 1e15, 1e16, 123456789.125, 1.7976931348623157e308, 5e-324,
        std::numeric_limits<double>::infinity(), std::numeric_limits<double>::quiet_NaN()}) {
    EXPECT_EQ(TextOf(number), DumpJson(number));
  }
  constexpr uint64_t kSeed = 17;
  std::mt19937_64 random(kSeed);
  for (int i = 0; i < 2000; ++i) {
    const auto number = std::bit_cast<double>(random());
    EXPECT_EQ(TextOf(number), DumpJson(number)) << "seed " << kSeed << ", number " << i;
  }
}

TEST(JsonTextTest, WritesListsAndObjectsAsATreeDoes) {
  const std::vector<uint64_t> sizes = {1, 2};
  const std::vector<double> reals = {0.5, 2};
  const std::vector<float> floats = {0.1F};
  const std::vector<std::string> strings = {"a", "b\t"};
  const std::vector<std::string> none;
  const std::map<std::string, uint64_t> map = {{"pq", 5}, {"a\"b", 6}};
  JsonList list;
  list.Add(1);
  list.Add(JsonObject({{"z", 1}, {"a", "b"}}));
  const JsonText text = JsonObject({{"sizes", sizes},
                                    {"reals", reals},
                                    {"floats", floats},
                                    {"strings", strings},
                                    {"none", none},
                                    {"map", map},
                                    {"list", list.Text()},
                                    {"empty", JsonList().Text()},
                                    {"no fields", JsonObject({})}});
  const Json tree = {{"sizes", sizes},
                     {"reals", reals},
                     {"floats", floats},
                     {"strings", strings},
                     {"none", none},
                     {"map", map},
                     {"list", Json::array({1, Json{{"z", 1}, {"a", "b"}}})},
                     {"empty", Json::array()},
                     {"no fields", Json::object()}};
  EXPECT_EQ(text.text, DumpJson(tree));
}

TEST(JsonTextTest, AMembersNameMayBeAnyText) {
  JsonMembers members;
  members.Add({"a \"name\"\xff", 1});
  members.Add({"b", nullptr});
  EXPECT_EQ(members.Text().text, DumpJson(Json{{"a \"name\"\xff", 1}, {"b", nullptr}}));
}

}  // namespace
}  // namespace attndb
