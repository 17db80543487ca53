// Goal:   a request to find is read whole, and what is wrong is refused by its field.
// Method: bodies as clients send them.
#include "server/routes/find_request.h"

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

Json Question(const std::string& more) { return Json::parse(R"({"question": "Q")" + more + "}"); }

TEST(FindRequestTest, AQuestionAloneIsOfAllContexts) {
  ATTNDB_ASSERT_OK_AND_ASSIGN(const FindRequest request, ParseFind(Question("")));
  EXPECT_EQ(request.question, "Q");
  EXPECT_THAT(request.options.contexts, IsEmpty());
  EXPECT_EQ(request.options.limit, 10u);
  EXPECT_EQ(request.options.passage_tokens, 64u);
}

TEST(FindRequestTest, ContextsAndNumbersAreRead) {
  ATTNDB_ASSERT_OK_AND_ASSIGN(
      const FindRequest request,
      ParseFind(Question(R"(, "contexts": ["a", "#7"], "top": 10000, "passage_tokens": 2)")));
  EXPECT_THAT(request.options.contexts, ElementsAre("a", "#7"));
  EXPECT_EQ(request.options.limit, 10'000u);
  EXPECT_EQ(request.options.passage_tokens, 2u);
  ATTNDB_ASSERT_OK_AND_ASSIGN(const FindRequest one, ParseFind(Question(R"(, "context": "a")")));
  EXPECT_THAT(one.options.contexts, ElementsAre("a"));
  ATTNDB_ASSERT_OK_AND_ASSIGN(const FindRequest none,
                              ParseFind(Question(R"(, "context": null, "contexts": null)")));
  EXPECT_THAT(none.options.contexts, IsEmpty());
}

TEST(FindRequestTest, WrongValuesAreRefusedByTheirFields) {
  const struct {
    const char* more;
    const char* field;
  } kWrong[] = {{R"(, "contexts": [])", "'contexts'"},
                {R"(, "contexts": "a")", "'contexts'"},
                {R"(, "contexts": ["a", ""])", "'contexts'"},
                {R"(, "contexts": ["a", "b", "a"])", "'contexts'"},
                {R"(, "contexts": [3])", "'contexts'"},
                {R"(, "context": 3)", "'context'"},
                {R"(, "context": "a", "contexts": ["b"])", "exclude each other"},
                {R"(, "top": 0)", "'top'"},
                {R"(, "top": 10001)", "'top'"},
                {R"(, "passage_tokens": 63)", "'passage_tokens'"},
                {R"(, "passage_tokens": 65538)", "'passage_tokens'"}};
  for (const auto& [more, field] : kWrong) {
    EXPECT_THAT(ParseFind(Question(more)),
                FailsWith(StatusCode::kInvalidArgument, HasSubstr(field)))
        << more;
  }
  for (const char* const body : {"{}", R"({"question": ""})", R"({"question": "\ufeff"})",
                                 R"({"question": null})", R"({"question": 3})"}) {
    EXPECT_THAT(ParseFind(Json::parse(body)),
                FailsWith(StatusCode::kInvalidArgument, HasSubstr("'question'")))
        << body;
  }
  EXPECT_THAT(ParseFind(Json::parse("[]")),
              FailsWith(StatusCode::kInvalidArgument, HasSubstr("no JSON object")));
}

TEST(FindRequestTest, ATooLongListIsRefused) {
  Json body = Question("");
  for (int i = 0; i <= 1024; ++i) body["contexts"].push_back(std::to_string(i));
  EXPECT_THAT(ParseFind(body), FailsWith(StatusCode::kInvalidArgument, HasSubstr("1024")));
}

}  // namespace
}  // namespace attndb::server
