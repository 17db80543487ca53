// Goal:   sessions that state a time per token get what the rest of the pass leaves of it, evenly;
//         what comes late is counted, and others' plans stay.
// Method: passes of chosen lengths; toy sessions whose plans are looked at.
#include "server/batch/pacer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>

#include "attndb/db.h"
#include "testing/matchers.h"
#include "testing/temp_dir.h"
#include "testing/toy_model.h"

namespace attndb::server {
namespace {

using test::ToyModel;
using ::testing::StartsWith;

TEST(AttentionShareTest, IsWhatTheRestOfThePassLeaves) {
  const std::vector<PacedSession> sessions = {
      {.tpot_seconds = 0.030}, {.tpot_seconds = 0.020}, {.tpot_seconds = 0}};
  // 25 ms of which 12 are attention: 13 outside, 4 of the third session; 3 ms are left for two.
  EXPECT_NEAR(AttentionShare(0.025, sessions, std::vector<double>{0.006, 0.002, 0.004}), 0.0015,
              1e-12);
}

TEST(AttentionShareTest, IsNeverLessThanTheLeast) {
  const std::vector<PacedSession> sessions = {{.tpot_seconds = 0.010}};
  EXPECT_DOUBLE_EQ(AttentionShare(0.025, sessions, std::vector<double>{0.001}), kLeastShare);
  // Attention that took longer than the pass, by how threads are counted: nothing is outside.
  EXPECT_NEAR(AttentionShare(0.005, sessions, std::vector<double>{0.009}), 0.010, 1e-12);
}

TEST(AttentionShareTest, IsNothingWhereNobodyAsks) {
  const std::vector<PacedSession> sessions = {{.tpot_seconds = 0}};
  EXPECT_EQ(AttentionShare(0.025, sessions, std::vector<double>{0.001}), 0);
}

class PacerTest : public ::testing::Test {
 protected:
  void SetUp() override {
    Result<DB> db = DB::Open(dir_.File("store"));
    ATTNDB_ASSERT_OK(db.status());
    db_.emplace(*std::move(db));
  }
  Session NewSession() {
    SessionOptions options;
    options.plan = "full";
    Session session =
        std::move(db_->CreateSession(model_.spec(), std::vector<TokenId>{1}, options)->session);
    ATTNDB_EXPECT_OK(model_.Step(&session, ToyModel::Tokens(300, 1)));
    return session;
  }

  test::TempDir dir_;
  const ToyModel model_;
  std::optional<DB> db_;
};

TEST_F(PacerTest, PlansOfThoseThatAskFollowWhatIsLeft) {
  Session paced = NewSession();
  Session other = NewSession();
  double share = 0;
  double no_share = 0;
  const std::vector<PacedSession> sessions = {
      {.session = &paced, .tpot_seconds = 10, .share = &share},
      {.session = &other, .tpot_seconds = 0, .share = &no_share}};
  Pacer pacer(2);
  pacer.Learn(4.0, sessions);
  EXPECT_NEAR(share, 6.0, 0.1);
  EXPECT_THAT(paced.Explain().plan, StartsWith("auto(tpot="));
  EXPECT_EQ(other.Explain().plan, "full");
  EXPECT_EQ(no_share, 0);

  for (int i = 0; i < 20; ++i) pacer.Learn(4.5, sessions);  // Too little to change it.
  EXPECT_NEAR(share, 6.0, 0.1);
  for (int i = 0; i < 20; ++i) pacer.Learn(8.0, sessions);
  EXPECT_NEAR(share, 2.0, 0.1);
  for (int i = 0; i < 20; ++i) pacer.Learn(11.0, sessions);
  EXPECT_DOUBLE_EQ(share, kLeastShare);
}

TEST_F(PacerTest, APlanIsOneThatSessionsTake) {
  Session session = NewSession();
  for (const double seconds : {kLeastShare, 1e-3, 0.5, 900.0}) {
    ATTNDB_EXPECT_OK(session.SetPlan(PlanFor(seconds)));
  }
}

}  // namespace
}  // namespace attndb::server
