// Goal:   a TTL is over exactly when its seconds have passed since the last access.
// Method: both sides of each border; rows with absurd numbers.
#include "store/catalog/ttl.h"

#include <gtest/gtest.h>

#include <limits>

namespace attndb::store {
namespace {

using std::chrono::seconds;

TEST(Ttl, IsOverAfterItsSeconds) {
  EXPECT_FALSE(IsExpired(false, 2, 1'000'000, 2'999'999));
  EXPECT_TRUE(IsExpired(false, 2, 1'000'000, 3'000'000));
  EXPECT_TRUE(IsExpired(false, 0, 1'000'000, 1'000'000));
}

TEST(Ttl, NeverIsOverForPinnedOrWithoutOne) {
  EXPECT_FALSE(IsExpired(true, 2, 0, 1'000'000'000));
  EXPECT_FALSE(IsExpired(false, std::nullopt, 0, std::numeric_limits<int64_t>::max()));
}

TEST(Ttl, AClockThatWentBackExpiresNothing) { EXPECT_FALSE(IsExpired(false, 0, 10, 9)); }

TEST(Ttl, AbsurdRowsDoNotOverflow) {
  constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
  EXPECT_FALSE(IsExpired(false, kMax, 0, kMax));
  EXPECT_FALSE(IsExpired(false, kMax, kMax, 0));
}

TEST(Ttl, HasLimits) {
  EXPECT_TRUE(CheckTtl(std::nullopt).ok());
  EXPECT_TRUE(CheckTtl(seconds(0)).ok());
  EXPECT_TRUE(CheckTtl(kMaxTtl).ok());
  EXPECT_EQ(CheckTtl(kMaxTtl + seconds(1)).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(CheckTtl(seconds(-1)).code(), StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace attndb::store
