// Goal:   one text at a time goes behind a context; others, and other tenants', go on.
#include "server/routes/appends.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "testing/matchers.h"

namespace attndb::server {
namespace {

using ::attndb::test::FailsWith;
using ::testing::HasSubstr;

TEST(AppendsTest, OneAtATimeGoesBehindAContext) {
  Appends appends;
  {
    ATTNDB_ASSERT_OK_AND_ASSIGN(const auto first, appends.Begin("ann", "book"));
    EXPECT_THAT(appends.Begin("ann", "book"), FailsWith(StatusCode::kBusy, HasSubstr("'book'")));
    ATTNDB_EXPECT_OK(appends.Begin("ann", "other").status());
    ATTNDB_EXPECT_OK(appends.Begin("bob", "book").status());
  }
  ATTNDB_EXPECT_OK(appends.Begin("ann", "book").status());
}

}  // namespace
}  // namespace attndb::server
