// Goal:   both forms of logit_bias are read, and an entry that is wrong is named.
// Method: bodies of JSON; each form with ids, texts and false; at the limits and beyond them.
#include "server/openai/logit_bias.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <vector>

#include "testing/cpu_time.h"
#include "testing/matchers.h"

namespace attndb::server {
namespace {

using ::attndb::test::FailsWith;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Lt;
using ::testing::SizeIs;

constexpr float kNever = -std::numeric_limits<float>::infinity();

Result<std::vector<BiasEntry>> Read(const std::string& value) {
  ATTNDB_ASSIGN_OR_RETURN(const Json body, ParseJson("{\"logit_bias\":" + value + "}", kBiasField));
  return ReadLogitBias(body);
}

// The entries in one line: "5=-100 'Hello'=2".
std::string Said(const std::string& value) {
  const Result<std::vector<BiasEntry>> entries = Read(value);
  if (!entries.ok()) return entries.status().ToString();
  std::string said;
  for (const auto& [text, token, bias] : *entries) {
    if (!said.empty()) said += ' ';
    said += text.empty() ? std::to_string(token) : "'" + text + "'";
    said += "=" + (bias == kNever ? "never" : ToText(Json(bias)));
  }
  return said;
}

TEST(LogitBiasTest, AnObjectNamesIdsOrTexts) {
  EXPECT_EQ(Said(R"({"15043":-100,"0":2.5,"2147483647":1e0})"),
            "15043=-100.0 0=2.5 2147483647=1.0");
  EXPECT_EQ(Said(R"({"Hello":5," 12":1,"1.5":1,"7":false})"),
            "'Hello'=5.0 ' 12'=1.0 '1.5'=1.0 7=never");
  EXPECT_EQ(Said("{}"), "");
}

TEST(LogitBiasTest, AListHasPairs) {
  EXPECT_EQ(Said(R"([[15043,-100],["Hello",5],[2,false],["2",1],[3.0,0],[2,7]])"),
            "15043=-100.0 'Hello'=5.0 2=never '2'=1.0 3=0.0 2=7.0");
  EXPECT_EQ(Said("[]"), "");
}

TEST(LogitBiasTest, NothingIsAskedForWithoutIt) {
  for (const char* const value : {"null", R"("")", "false"}) EXPECT_EQ(Said(value), "") << value;
  EXPECT_TRUE(ReadLogitBias(Json::object())->empty());
}

TEST(LogitBiasTest, AnEntryThatIsWrongIsNamed) {
  const auto refused = [](const std::string& value, const std::string& name) {
    EXPECT_THAT(Read(value), FailsWith(StatusCode::kInvalidArgument,
                                       AllOf(HasSubstr("'" + name), HasSubstr("expected"))))
        << value;
  };
  for (const char* const value : {"5", "true", R"("x")", "1.5"}) refused(value, "logit_bias'");
  for (const char* const pair :
       {"5", "[]", "[5]", "[5,1,2]", R"({"5":1})", "null", "[null,1]", "[-1,1]", "[1.5,1]",
        "[2147483648,1]", "[[5],1]", R"(["",1])", "[5,true]", R"([5,"1"])", "[5,null]",
        "[5,1000001]", "[5,-1e300]"}) {
    refused("[[1,1]," + std::string(pair) + "]", "logit_bias[1]'");
  }
  for (const char* const bias : {"true", R"("1")", "null", "1e7", "[1]", "{}"}) {
    refused("{\"1\":1,\"5\":" + std::string(bias) + "}", "logit_bias.\"5\"'");
  }
  for (const char* const key : {"", "-1", "2147483648", "99999999999999999999999"}) {
    refused("{\"" + std::string(key) + "\":1}", "logit_bias'");
  }
}

TEST(LogitBiasTest, BoundsAreWithinWhatIsTaken) {
  EXPECT_EQ(Said("[[1,1000000],[2,-1000000.0]]"), "1=1000000.0 2=-1000000.0");
  const std::string longest(kMaxBiasTextBytes, 'x');
  EXPECT_EQ(Said("[[\"" + longest + "\",1]]"), "'" + longest + "'=1.0");
  EXPECT_THAT(Read("[[\"" + longest + "x\",1]]"),
              FailsWith(StatusCode::kInvalidArgument,
                        AllOf(HasSubstr("of 1 to 256 bytes"), SizeIs(Lt(300)))));
  const auto texts = [](size_t count) {
    Json list = Json::array();
    for (size_t i = 0; i < count; ++i) list.push_back({"a" + std::to_string(i), 1});
    return ToText(list);
  };
  EXPECT_EQ(Read(texts(kMaxBiasTexts))->size(), kMaxBiasTexts);
  EXPECT_THAT(Read(texts(kMaxBiasTexts + 1)),
              FailsWith(StatusCode::kInvalidArgument, HasSubstr("more than 1024 texts")));
}

TEST(LogitBiasTest, AWholeVocabularyIsReadAtOnce) {
  std::string object = "{";
  for (size_t i = 0; i < kBiasField.members; ++i) object += "\"" + std::to_string(i) + "\":-1,";
  object.back() = '}';
  std::string list = "[";
  for (size_t i = 0; i < kMaxBiasEntries; ++i) list += "[" + std::to_string(i) + ",false],";
  list.back() = ']';
  const double start = ::attndb::test::ThreadCpuSeconds();
  EXPECT_EQ(Read(object)->size(), kBiasField.members);
  EXPECT_EQ(Read(list)->size(), kMaxBiasEntries);
  EXPECT_LT(::attndb::test::ThreadCpuSeconds() - start, 10);
  list.back() = ',';
  EXPECT_THAT(Read(list + "[1,1]]"),
              FailsWith(StatusCode::kInvalidArgument, HasSubstr("has 262145 entries")));
  object.back() = ',';
  EXPECT_THAT(Read(object + "\"x\":1}"),
              FailsWith(StatusCode::kInvalidArgument, HasSubstr("more than 4096 members")));
}

}  // namespace
}  // namespace attndb::server
