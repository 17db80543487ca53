// Goal:   names of tenants are what db.h allows, and ids are never taken for names.
// Method: borders of lengths and alphabets.
#include "store/catalog/names.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "testing/matchers.h"

namespace attndb::store {
namespace {

using ::attndb::test::FailsWith;
using ::testing::HasSubstr;

TEST(Names, TenantsAreShortAndPlain) {
  for (const char* const name : {"a", "A-b_c.9", "..", "-"}) {
    ATTNDB_EXPECT_OK(CheckTenantName(name));
  }
  ATTNDB_EXPECT_OK(CheckTenantName(std::string(64, 'a')));
  EXPECT_EQ(CheckTenantName(std::string(65, 'a')).code(), StatusCode::kInvalidArgument);
  for (const char* const name : {"", "a b", "a/b", "a:b", "\xc3\xa4", "a\n"}) {
    EXPECT_EQ(CheckTenantName(name).code(), StatusCode::kInvalidArgument) << name;
  }
}

TEST(Names, AMessageShowsNothingThatATerminalObeys) {
  EXPECT_THAT(CheckTenantName("a\x1b[2Jb"),
              FailsWith(StatusCode::kInvalidArgument, HasSubstr("'a?[2Jb': expected 1 to 64")));
  EXPECT_LT(CheckTenantName(std::string(100'000, 'x')).message().size(), 300u);
}

TEST(Names, OnlyAHashAndANumberIsAnId) {
  EXPECT_EQ(ParseContextNumber("#12"), ContextNumber{12});
  EXPECT_EQ(ParseContextNumber("#9223372036854775807"), ContextNumber{9223372036854775807});
  for (const char* const text :
       {"", "12", "#", "#0", "#01", "#-1", "#+1", "#1x", "# 1", "#9223372036854775808"}) {
    EXPECT_EQ(ParseContextNumber(text), std::nullopt) << text;
  }
}

}  // namespace
}  // namespace attndb::store
