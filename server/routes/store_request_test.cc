// Goal:   what is asked about what is stored is read whole, and what is wrong is refused by its
//         field.
// Method: bodies as clients send them.
#include "server/routes/store_request.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "testing/matchers.h"

namespace attndb::server {
namespace {

using ::attndb::test::FailsWith;
using ::testing::HasSubstr;

TEST(StoreRequestTest, AChangeIsOfWhatIsNamed) {
  ATTNDB_ASSERT_OK_AND_ASSIGN(
      const ContextChange all,
      ParseChange(Json::parse(R"({"pinned": true, "ttl_seconds": 60, "name": "b", "x": 1})")));
  EXPECT_EQ(all.pinned, true);
  EXPECT_TRUE(all.sets_ttl);
  EXPECT_EQ(all.ttl, std::chrono::seconds(60));
  EXPECT_EQ(all.name, "b");
  ATTNDB_ASSERT_OK_AND_ASSIGN(const ContextChange forever,
                              ParseChange(Json::parse(R"({"ttl_seconds": null})")));
  EXPECT_TRUE(forever.sets_ttl);
  EXPECT_EQ(forever.ttl, std::nullopt);
  EXPECT_EQ(forever.pinned, std::nullopt);
  EXPECT_EQ(forever.name, std::nullopt);
}

TEST(StoreRequestTest, WhatIsWrongIsRefusedByItsField) {
  const auto refuses = [](const char* field) {
    return FailsWith(StatusCode::kInvalidArgument, HasSubstr(field));
  };
  EXPECT_THAT(ParseChange(Json::parse(R"({"pinned": null})")), refuses("pinned"));
  EXPECT_THAT(ParseChange(Json::parse(R"({"ttl_seconds": -1})")), refuses("ttl_seconds"));
  EXPECT_THAT(ParseChange(Json::parse(R"({"name": 3})")), refuses("name"));
  EXPECT_THAT(ParseStoredText(Json::parse("{}")), refuses("context"));
  EXPECT_THAT(ParseStoredText(Json::parse(R"({"context": "a", "special": 1})")),
              refuses("special"));
  EXPECT_THAT(ParseUpkeep(Json::parse(R"({"segment_tokens": 0})")), refuses("segment_tokens"));
  EXPECT_THAT(ParseUpkeep(Json::parse(R"({"index": []})")), refuses("index"));
  for (const char* const quota : {"{}", R"({"quota_bytes": 0})", R"({"quota_bytes": "1GiB"})",
                                  R"({"quota_bytes": 9223372036854775808})"}) {
    EXPECT_THAT(ParseQuota(Json::parse(quota)), refuses("quota_bytes")) << quota;
  }
}

TEST(StoreRequestTest, WhatIsNoObjectIsRefused) {
  for (const char* const text : {"[]", "3", "null", R"("text")"}) {
    const Json body = Json::parse(text);
    const auto refused = FailsWith(StatusCode::kInvalidArgument, HasSubstr(""));
    EXPECT_THAT(ParseChange(body), refused) << text;
    EXPECT_THAT(ParseStoredText(body), refused) << text;
    EXPECT_THAT(ParseUpkeep(body), refused) << text;
    EXPECT_THAT(ParseQuota(body), refused) << text;
  }
}

TEST(StoreRequestTest, UpkeepAndQuotasAreRead) {
  ATTNDB_ASSERT_OK_AND_ASSIGN(
      const UpkeepRequest upkeep,
      ParseUpkeep(Json::parse(
          R"({"context": "a", "index": "pq", "segment_tokens": 4096, "stream": true})")));
  EXPECT_EQ(upkeep.context, "a");
  EXPECT_EQ(upkeep.index, "pq");
  EXPECT_EQ(upkeep.segment_tokens, 4096u);
  EXPECT_TRUE(upkeep.stream);
  ATTNDB_ASSERT_OK_AND_ASSIGN(const uint64_t none,
                              ParseQuota(Json::parse(R"({"quota_bytes": null})")));
  EXPECT_EQ(none, 0u);
  ATTNDB_ASSERT_OK_AND_ASSIGN(const uint64_t seven,
                              ParseQuota(Json::parse(R"({"quota_bytes": 7})")));
  EXPECT_EQ(seven, 7u);
}

}  // namespace
}  // namespace attndb::server
