// Goal:   what an import is asked for is read whole, and what is wrong is refused by its field.
// Method: bodies as clients send them.
#include "server/routes/import_request.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <string>

#include "testing/matchers.h"

namespace attndb::server {
namespace {

using ::attndb::test::FailsWith;
using ::testing::HasSubstr;

Result<ImportRequest> Parse(const std::string& body) { return ParseImport(Json::parse(body)); }

TEST(ImportRequestTest, EveryFieldIsRead) {
  ATTNDB_ASSERT_OK_AND_ASSIGN(
      const ImportRequest request,
      Parse(R"({"name": "book", "text": "Once", "system": "Be kind.", "raw": true, "stream": true,
                "replace": true, "pinned": true, "ttl_seconds": 3600, "unknown": 1})"));
  EXPECT_EQ(request.store.name, "book");
  EXPECT_EQ(request.text, "Once");
  EXPECT_EQ(request.system, "Be kind.");
  EXPECT_TRUE(request.raw);
  EXPECT_TRUE(request.stream);
  EXPECT_TRUE(request.store.replace);
  EXPECT_TRUE(request.store.pin);
  EXPECT_EQ(request.store.ttl, std::chrono::seconds(3600));
}

TEST(ImportRequestTest, NameAndTextAreEnough) {
  ATTNDB_ASSERT_OK_AND_ASSIGN(const ImportRequest request,
                              Parse(R"({"name": "book", "text": "Once", "ttl_seconds": null})"));
  EXPECT_FALSE(request.raw || request.stream || request.store.replace || request.store.pin);
  EXPECT_EQ(request.store.ttl, std::nullopt);
  EXPECT_EQ(request.system, "");
}

TEST(ImportRequestTest, AByteOrderMarkInFrontIsDropped) {
  ATTNDB_ASSERT_OK_AND_ASSIGN(const ImportRequest request,
                              Parse(R"({"name": "book", "text": "\ufeffOnce"})"));
  EXPECT_EQ(request.text, "Once");
  EXPECT_THAT(Parse(R"({"name": "book", "text": "\ufeff"})"),
              FailsWith(StatusCode::kInvalidArgument, HasSubstr("'text' is missing or empty")));
}

TEST(ImportRequestTest, WhatIsWrongIsRefusedByItsField) {
  const auto refusal = [](const std::string& fields) {
    return Parse(R"({"name": "book", "text": "Once", )" + fields + "}");
  };
  for (const char* const field : {"name", "text", "system"}) {
    EXPECT_THAT(refusal("\"" + std::string(field) + "\": 1"),
                FailsWith(StatusCode::kInvalidArgument, HasSubstr(field)));
  }
  for (const char* const field : {"raw", "stream", "replace", "pinned", "append", "dry_run"}) {
    EXPECT_THAT(refusal("\"" + std::string(field) + "\": \"yes\""),
                FailsWith(StatusCode::kInvalidArgument, HasSubstr(field)));
  }
  for (const char* const ttl : {"-1", "1.5", "\"7d\"", "2147483648", "true"}) {
    EXPECT_THAT(refusal("\"ttl_seconds\": " + std::string(ttl)),
                FailsWith(StatusCode::kInvalidArgument, HasSubstr("ttl_seconds")));
  }
  EXPECT_THAT(Parse(R"({"text": "Once"})"),
              FailsWith(StatusCode::kInvalidArgument, HasSubstr("'name': context name ''")));
  EXPECT_THAT(Parse(R"({"name": "book", "text": ""})"),
              FailsWith(StatusCode::kInvalidArgument, HasSubstr("'text' is missing")));
  EXPECT_THAT(Parse("[]"), FailsWith(StatusCode::kInvalidArgument, HasSubstr("no JSON object")));
}

TEST(ImportRequestTest, WhatIsAppendedGoesByNameAndTextAlone) {
  ATTNDB_ASSERT_OK_AND_ASSIGN(
      const ImportRequest request,
      Parse(R"({"name": "#1", "text": "Once", "append": true, "dry_run": true, "stream": true})"));
  EXPECT_TRUE(request.append && request.dry_run && request.stream);
  EXPECT_EQ(request.store.name, "#1");
  for (const char* const field : {"\"system\": \"\"", "\"raw\": false", "\"replace\": true",
                                  "\"pinned\": true", "\"ttl_seconds\": 1"}) {
    EXPECT_THAT(Parse(R"({"name": "a", "text": "b", "append": true, )" + std::string(field) + "}"),
                FailsWith(StatusCode::kInvalidArgument, HasSubstr("does not go with 'append'")));
  }
}

TEST(ImportRequestTest, NamesAreThoseThatTheStoreTakes) {
  EXPECT_EQ(Parse(R"({"name": "книга/1", "text": "Once"})")->store.name, "книга/1");
  for (const char* const name : {"", "a b", "#1", "a\\n", "\\u202e"}) {
    EXPECT_THAT(Parse(std::string(R"({"text": "Once", "name": ")") + name + "\"}"),
                FailsWith(StatusCode::kInvalidArgument, HasSubstr("'name': context name '")));
  }
}

}  // namespace
}  // namespace attndb::server
