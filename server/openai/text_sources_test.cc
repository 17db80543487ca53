// Goal:   what a request is asked of is read as `attndb ask` reads it, and what does not go
//         together is refused by its fields.
// Method: bodies as clients send them.
#include "server/openai/text_sources.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "testing/matchers.h"

namespace attndb::server {
namespace {

using ::attndb::test::FailsWith;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// The sources of a body with these fields, once they are checked as a call checks them.
Result<TextSources> Read(const std::string& fields, std::string* context_out = nullptr) {
  const Json body = Json::parse("{" + fields + "}");
  std::string context;
  std::string store_as;
  ATTNDB_RETURN_IF_ERROR(ReadString(body, "context", &context));
  ATTNDB_RETURN_IF_ERROR(ReadString(body, "store_as", &store_as));
  ATTNDB_ASSIGN_OR_RETURN(TextSources sources, ReadTextSources(body, &context));
  ATTNDB_RETURN_IF_ERROR(CheckTextSources(sources, context, store_as));
  if (context_out != nullptr) *context_out = context;
  return sources;
}

TEST(TextSourcesTest, NoneAreNone) {
  EXPECT_TRUE(Read("")->empty());
  EXPECT_TRUE(Read(R"("context": "c", "store_as": "s")")->empty());
  EXPECT_TRUE(Read(R"("contexts": null, "tokens": null, "find": null)")->empty());
}

TEST(TextSourcesTest, AListOfOneIsTheContext) {
  std::string context;
  ATTNDB_ASSERT_OK_AND_ASSIGN(const TextSources sources,
                              Read(R"("contexts": ["c"], "store_as": "s")", &context));
  EXPECT_TRUE(sources.empty());
  EXPECT_EQ(context, "c");
}

TEST(TextSourcesTest, EachIsRead) {
  EXPECT_THAT(Read(R"("contexts": ["a", "#7"])")->contexts, ElementsAre("a", "#7"));
  ATTNDB_ASSERT_OK_AND_ASSIGN(const TextSources some,
                              Read(R"("context": "c", "tokens": "0-800,900-950")"));
  EXPECT_THAT(some.tokens, ElementsAre(TokenRange{0, 800}, TokenRange{900, 950}));
  ATTNDB_ASSERT_OK_AND_ASSIGN(const TextSources found,
                              Read(R"("contexts": ["a", "b", "c"], "find": 2)"));
  EXPECT_EQ(found.find, 2u);
  EXPECT_THAT(found.contexts, ElementsAre("a", "b", "c"));
  EXPECT_THAT(Read(R"("find": 1024)")->contexts, IsEmpty());
}

TEST(TextSourcesTest, WrongValuesAndPairsAreRefused) {
  const struct {
    const char* fields;
    const char* says;
  } kWrong[] = {
      {R"("contexts": [])", "'contexts'"},
      {R"("contexts": ["a", "a"])", "'contexts'"},
      {R"("contexts": ["a", "b"], "context": "c")", "exclude each other"},
      {R"("contexts": ["a", "b"], "tokens": "0-9")", "'tokens' is of one context"},
      {R"("tokens": "0-9")", "'tokens' is of one context"},
      {R"("context": "c", "tokens": "9-5")", "9-5"},
      {R"("context": "c", "tokens": "")", "'tokens'"},
      {R"("context": "c", "tokens": 7)", "'tokens'"},
      {R"("context": "c", "tokens": "0-9", "find": 2)", "exclude each other"},
      {R"("find": 0)", "'find'"},
      {R"("find": 1025)", "'find'"},
      {R"("contexts": ["a", "b"], "store_as": "s")", "does not go with 'contexts'"},
      {R"("find": 1, "store_as": "s")", "does not go with 'find'"},
      {R"("context": "c", "tokens": "0-9", "store_as": "s")", "does not go with 'tokens'"},
  };
  for (const auto& [fields, says] : kWrong) {
    EXPECT_THAT(Read(fields), FailsWith(StatusCode::kInvalidArgument, HasSubstr(says))) << fields;
  }
}

}  // namespace
}  // namespace attndb::server
