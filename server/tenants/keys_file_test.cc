// Goal:   the text of a keys file is read whole; what is wrong is refused by its key and field.
// Method: texts; files that change, and each field's wrong values: key_ring_test.cc.
#include "server/tenants/keys_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "testing/matchers.h"

namespace attndb::server {
namespace {

using ::attndb::test::FailsWith;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::string Entry(char digit, const std::string& more) {
  return R"({"sha256": ")" + std::string(kDigestDigits, digit) + R"(", )" + more + "}";
}

TEST(KeysFileTest, EachKeyHasItsTenantAndItsLimits) {
  ATTNDB_ASSERT_OK_AND_ASSIGN(
      const KeyRules rules,
      ParseKeysFile(R"({"keys": [)" + Entry('a', R"("tenant": "alice", "tpot_ms": 50)") + "," +
                    Entry('b', R"("tenant": "bob", "operator": true, "max_requests": 8)") + "]}"));
  ASSERT_EQ(rules.size(), 2u);
  const TenantRules& alice = rules.at(std::string(kDigestDigits, 'a'));
  EXPECT_EQ(alice.tenant, "alice");
  EXPECT_EQ(alice.tpot_ms, 50u);
  EXPECT_FALSE(alice.is_operator);
  const TenantRules& bob = rules.at(std::string(kDigestDigits, 'b'));
  EXPECT_TRUE(bob.is_operator);
  EXPECT_EQ(bob.max_requests, 8u);
  ATTNDB_ASSERT_OK_AND_ASSIGN(const KeyRules none, ParseKeysFile(R"({"keys": []})"));
  EXPECT_THAT(none, IsEmpty());
}

TEST(KeysFileTest, TheSchemeOfAKeyMayHaveAnyCase) {
  for (const char* const bearer : {"Bearer K", "bearer K", "BEARER K"}) {
    EXPECT_EQ(KeyIn(bearer, ""), "K") << bearer;
    EXPECT_EQ(KeyIn(bearer, "other"), "K") << bearer;
  }
  for (const char* const none : {"", "K", "Bearer", "Basic K", "BearerK"}) {
    EXPECT_EQ(KeyIn(none, "other"), "other") << none;
  }
}

TEST(KeysFileTest, WhatIsWrongIsRefusedByItsPlace) {
  EXPECT_THAT(ParseKeysFile(R"({"keys": [)" + Entry('a', R"("tenant": "a")") + "," +
                            Entry('b', R"("tenant": "")") + "]}"),
              FailsWith(StatusCode::kInvalidArgument, HasSubstr("keys[1]: tenant")));
  EXPECT_THAT(ParseKeysFile("{}"),
              FailsWith(StatusCode::kInvalidArgument, HasSubstr(R"({"keys": [...]})")));
  EXPECT_THAT(ParseKeysFile("no JSON"), FailsWith(StatusCode::kInvalidArgument, HasSubstr("JSON")));
}

}  // namespace
}  // namespace attndb::server
