// Goal:   JsonObject makes the same bytes as nlohmann's initializer list. A text that is not JSON
//         is refused.
// Method: each kind of value in both forms; a table of texts.
#include "cli/common/json.h"

#include <gtest/gtest.h>

#include <limits>

namespace attndb::cli {
namespace {

TEST(CliJsonTest, AnObjectOfFieldsIsThatOfAnInitializerList) {
  const std::string text = "a\"\xff";
  const std::vector<std::string> texts = {"x", "y"};
  const Json tree = {{"z", 1}, {"a", nullptr}};
  const Json list = {{"bool", true},
                     {"least", std::numeric_limits<int64_t>::min()},
                     {"most", std::numeric_limits<uint64_t>::max()},
                     {"real", 0.1},
                     {"float", 0.1F},
                     {"text", text},
                     {"view", std::string_view("v")},
                     {"literal", "l"},
                     {"texts", texts},
                     {"tree", tree},
                     {"null", Json()}};
  const Json object = JsonObject({{"bool", true},
                                  {"least", std::numeric_limits<int64_t>::min()},
                                  {"most", std::numeric_limits<uint64_t>::max()},
                                  {"real", 0.1},
                                  {"float", 0.1F},
                                  {"text", text},
                                  {"view", std::string_view("v")},
                                  {"literal", "l"},
                                  {"texts", texts},
                                  {"tree", tree},
                                  {"null", Json()}});
  EXPECT_EQ(Dump(object), Dump(list));
  EXPECT_EQ(Dump(JsonObject({})), "{}");
}

TEST(CliJsonTest, ReadsATextThatIsJsonAndNoOther) {
  const std::string text = R"({"z": [1, 2.0], "a": "b"})";
  EXPECT_EQ(Dump(ReadJson(text).value()), R"({"z":[1,2.0],"a":"b"})");
  EXPECT_EQ(Dump(ReadOwnJson(text)), Dump(ReadJson(text).value()));
  for (const char* const other : {"", "{", "{} x", "nan"}) {
    EXPECT_FALSE(ReadJson(other).has_value()) << other;
    EXPECT_THROW(ReadOwnJson(other), Json::parse_error) << other;
  }
}

}  // namespace
}  // namespace attndb::cli
