// Goal:   names are what options.h and db.h allow, and ids are never taken for names.
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

TEST(Names, ContextsMayLookLikePaths) {
  ATTNDB_EXPECT_OK(CheckContextName(std::string(121, 'a') + "/:@+-_."));
  EXPECT_EQ(CheckContextName(std::string(129, 'a')).code(), StatusCode::kInvalidArgument);
  for (const char* const name : {"", "#1", "a b", "a\"", "*", "a\\b"}) {
    EXPECT_EQ(CheckContextName(name).code(), StatusCode::kInvalidArgument) << name;
  }
}

TEST(Names, AMessageShowsNothingThatATerminalObeys) {
  EXPECT_THAT(CheckContextName("a\x1b[2Jb"),
              FailsWith(StatusCode::kInvalidArgument, HasSubstr("\"a?[2Jb\": expected 1 to 128")));
  EXPECT_LT(CheckContextName(std::string(100'000, 'x')).message().size(), 300u);
}

TEST(Names, OnlyAHashAndANumberIsAnId) {
  EXPECT_EQ(ParseContextId("#12"), static_cast<ContextId>(12));
  EXPECT_EQ(ParseContextId("#9223372036854775807"), static_cast<ContextId>(9223372036854775807));
  for (const char* const text :
       {"", "12", "#", "#0", "#01", "#-1", "#+1", "#1x", "# 1", "#9223372036854775808"}) {
    EXPECT_EQ(ParseContextId(text), std::nullopt) << text;
  }
}

}  // namespace
}  // namespace attndb::store
