// Goal:   a tenant has no more requests under way, and no more tokens a minute, than its rules let
//         it, and is told when to come back; other tenants do not notice.
// Method: a clock that the test says.
#include "server/tenants/admission.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "testing/matchers.h"

namespace attndb::server {
namespace {

using ::attndb::test::FailsWith;
using ::testing::HasSubstr;

TenantRules Rules(const std::string& tenant, uint32_t max_requests, uint64_t tokens_per_minute) {
  return {.tenant = tenant, .max_requests = max_requests, .tokens_per_minute = tokens_per_minute};
}

class AdmissionTest : public ::testing::Test {
 protected:
  // Enters and lets go of the place at once.
  Status Try(const TenantRules& rules, double seconds) {
    Admission::Place place;
    return admission_.Enter(rules, seconds, &place, &retry_seconds_);
  }

  Admission admission_;
  double retry_seconds_ = 0;
};

TEST_F(AdmissionTest, WithoutLimitsEverybodyIsLetIn) {
  std::vector<Admission::Place> places(1000);
  for (Admission::Place& place : places) {
    ATTNDB_ASSERT_OK(admission_.Enter(Rules("a", 0, 0), 0, &place, &retry_seconds_));
    admission_.Count("a", 1'000'000, 0);
  }
}

TEST_F(AdmissionTest, RequestsUnderWayAreLimitedUntilTheyEnd) {
  const TenantRules rules = Rules("a", 2, 0);
  Admission::Place first;
  Admission::Place second;
  ATTNDB_ASSERT_OK(admission_.Enter(rules, 0, &first, &retry_seconds_));
  ATTNDB_ASSERT_OK(admission_.Enter(rules, 0, &second, &retry_seconds_));
  EXPECT_THAT(Try(rules, 0),
              FailsWith(StatusCode::kResourceExhausted, HasSubstr("tenant 'a' has 2 requests")));
  EXPECT_GT(retry_seconds_, 0);
  ATTNDB_EXPECT_OK(Try(Rules("b", 2, 0), 0));
  const Admission::Place copy = first;
  first.LetGo();
  EXPECT_FALSE(Try(rules, 0).ok()) << "a copy holds the place, too";
  second.LetGo();
  ATTNDB_EXPECT_OK(Try(rules, 0));
  ATTNDB_EXPECT_OK(Try(rules, 0)) << "what was let go of is free again";
}

TEST_F(AdmissionTest, APlaceIsFreedOnceForAllWhoHoldIt) {
  const TenantRules rules = Rules("a", 1, 0);
  Admission::Place place;
  ATTNDB_ASSERT_OK(admission_.Enter(rules, 0, &place, &retry_seconds_));
  Admission::Place copy = place;
  place.Free();
  Admission::Place next;
  ATTNDB_ASSERT_OK(admission_.Enter(rules, 0, &next, &retry_seconds_));
  copy.Free();
  copy.LetGo();
  place.LetGo();
  EXPECT_FALSE(Try(rules, 0).ok()) << "the next one's place is its own";
  Admission::Place().Free();
}

TEST_F(AdmissionTest, WhoIsRefusedTakesNoPlace) {
  const TenantRules rules = Rules("a", 1, 0);
  Admission::Place place;
  ATTNDB_ASSERT_OK(admission_.Enter(rules, 0, &place, &retry_seconds_));
  for (int i = 0; i < 5; ++i) EXPECT_FALSE(Try(rules, 0).ok());
  place.LetGo();
  ATTNDB_EXPECT_OK(Try(rules, 0));
}

TEST_F(AdmissionTest, APlaceTakesTheNextOnesTurn) {
  const TenantRules rules = Rules("a", 2, 0);
  Admission::Place place;
  for (int i = 0; i < 5; ++i) {
    ATTNDB_ASSERT_OK(admission_.Enter(rules, 0, &place, &retry_seconds_));
  }
}

TEST_F(AdmissionTest, TokensComeBackWithTime) {
  const TenantRules rules = Rules("a", 0, 60);  // One a second.
  ATTNDB_ASSERT_OK(Try(rules, 100));
  admission_.Count("a", 90, 100);
  EXPECT_THAT(Try(rules, 100),
              FailsWith(StatusCode::kResourceExhausted, HasSubstr("taken its 60 tokens")));
  EXPECT_GE(retry_seconds_, 30);
  EXPECT_LE(retry_seconds_, 32);
  EXPECT_FALSE(Try(rules, 120).ok());
  ATTNDB_EXPECT_OK(Try(rules, 131));
}

TEST_F(AdmissionTest, WhoComesBackWhenToldIsLetIn) {
  const TenantRules rules = Rules("a", 0, 6000);
  for (const uint64_t taken : {6000u, 6001u, 17000u}) {
    Admission admission;
    Admission::Place place;
    ATTNDB_ASSERT_OK(admission.Enter(rules, 0, &place, &retry_seconds_));
    admission.Count("a", taken, 0);
    ASSERT_FALSE(admission.Enter(rules, 0, &place, &retry_seconds_).ok()) << taken;
    ATTNDB_EXPECT_OK(admission.Enter(rules, retry_seconds_, &place, &retry_seconds_)) << taken;
  }
}

// A request's tokens are counted at its end: time before that gives none of them back.
TEST_F(AdmissionTest, TokensComeBackFromWhenTheyWereTaken) {
  const TenantRules rules = Rules("a", 0, 60);
  ATTNDB_ASSERT_OK(Try(rules, 100));
  admission_.Count("a", 100, 160);
  EXPECT_FALSE(Try(rules, 160).ok());
  EXPECT_FALSE(Try(rules, 190).ok());
  ATTNDB_EXPECT_OK(Try(rules, 201));
}

TEST_F(AdmissionTest, AnIdleHourGivesNoMoreThanAll) {
  const TenantRules rules = Rules("a", 0, 60);
  ATTNDB_ASSERT_OK(Try(rules, 0));
  ATTNDB_ASSERT_OK(Try(rules, 3600));
  admission_.Count("a", 60, 3600);
  EXPECT_FALSE(Try(rules, 3600).ok());
}

// The rules of a tenant may change while the server runs.
TEST_F(AdmissionTest, ALimitIsNotOfWhatWasTakenBeforeIt) {
  ATTNDB_ASSERT_OK(Try(Rules("a", 0, 0), 0));
  admission_.Count("a", 1'000'000, 0);
  ATTNDB_EXPECT_OK(Try(Rules("a", 0, 60), 1));
}

TEST_F(AdmissionTest, TokensOfOthersAreNotOnes) {
  ATTNDB_ASSERT_OK(Try(Rules("a", 0, 60), 0));
  admission_.Count("a", 1000, 0);
  EXPECT_FALSE(Try(Rules("a", 0, 60), 0).ok());
  ATTNDB_EXPECT_OK(Try(Rules("b", 0, 60), 0));
}

TEST_F(AdmissionTest, ThreadsNeverHoldMoreThanTheLimit) {
  const TenantRules rules = Rules("a", 3, 0);
  std::atomic<int> num_inside = 0;
  std::atomic<int> num_entered = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 2000; ++i) {
        Admission::Place place;
        double retry_seconds = 0;
        if (!admission_.Enter(rules, 0, &place, &retry_seconds).ok()) continue;
        EXPECT_LE(num_inside.fetch_add(1) + 1, 3);
        num_entered.fetch_add(1);
        num_inside.fetch_sub(1);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_GT(num_entered, 0);
}

}  // namespace
}  // namespace attndb::server
