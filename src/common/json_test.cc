// Goal:   a text is read as its tree or its events, and a text that is not JSON is refused.
// Method: small texts, a callback, and events that return false.
#include "common/json.h"

#include <gtest/gtest.h>

namespace attndb {
namespace {

// Counts keys, and returns false for the key "no".
class Keys final : public nlohmann::json_sax<Json> {
 public:
  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(number_integer_t) override { return true; }
  bool number_unsigned(number_unsigned_t) override { return true; }
  bool number_float(number_float_t, const string_t&) override { return true; }
  bool string(string_t&) override { return true; }
  bool binary(binary_t&) override { return true; }
  bool start_object(size_t) override { return true; }
  bool key(string_t& key) override { return ++num_keys, key != "no"; }
  bool end_object() override { return true; }
  bool start_array(size_t) override { return true; }
  bool end_array() override { return true; }
  bool parse_error(size_t position, const std::string&,
                   const nlohmann::detail::exception&) override {
    error_at = position;
    return false;
  }

  int num_keys = 0;
  size_t error_at = 0;
};

TEST(JsonTest, ReadsATreeWhoseKeysKeepTheirOrder) {
  const Json json = ParseJson(R"({"z": [1, 2.5], "a": null})");
  EXPECT_EQ(DumpJson(json), R"({"z":[1,2.5],"a":null})");
}

TEST(JsonTest, ATextThatIsNoJsonIsDiscarded) {
  for (const char* text : {"", "{", "{\"a\":1} x", "nul"}) {
    EXPECT_TRUE(ParseJson(text).is_discarded()) << text;
  }
}

TEST(JsonTest, ACallbackSeesEachKey) {
  int num_keys = 0;
  const auto callback = [&](int, Json::parse_event_t event, Json&) {
    if (event == Json::parse_event_t::key) ++num_keys;
    return true;
  };
  EXPECT_EQ(ParseJson(R"({"a": {"b": 1}})", callback)["a"]["b"], 1);
  EXPECT_EQ(num_keys, 2);
}

TEST(JsonTest, EventsEndWhereOneSaysNo) {
  Keys all;
  EXPECT_TRUE(ReadJsonEvents(R"({"a": 1, "b": 2})", &all));
  EXPECT_EQ(all.num_keys, 2);
  Keys refused;
  EXPECT_FALSE(ReadJsonEvents(R"({"no": 1, "b": 2})", &refused));
  EXPECT_EQ(refused.num_keys, 1);
  Keys broken;
  EXPECT_FALSE(ReadJsonEvents(R"({"a": })", &broken));
  EXPECT_EQ(broken.error_at, 7U);
}

TEST(JsonTest, BytesThatAreNotUtf8AreReplaced) {
  EXPECT_EQ(DumpJson("a\xff"), "\"a\xEF\xBF\xBD\"");
}

}  // namespace
}  // namespace attndb
