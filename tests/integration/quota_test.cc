// Goal:   a tenant's quota limits the bytes that its segments take on disk. No context is evicted
//         in vain.
// Method: contexts of one size around a quota of some of them; what the public API lists and
//         counts.
#include <gtest/gtest.h>

#include "attndb/db.h"
#include "testing/matchers.h"
#include "testing/temp_dir.h"
#include "testing/toy_model.h"

namespace attndb::test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Tokens = std::vector<TokenId>;

class QuotaTest : public ::testing::Test {
 protected:
  QuotaTest()
      : dir_(TempDir::InMemory()),
        db_(*DB::Open(dir_.File("store"), {.clock = [this] { return ++now_us_; }})) {}

  Status Store(const Tokens& tokens, const StoreOptions& options) {
    ATTNDB_ASSIGN_OR_RETURN(SessionStart start, db_.CreateSession(model_.spec(), tokens));
    ATTNDB_RETURN_IF_ERROR(model_.Step(&start.session, start.rest));
    return db_.Store(start.session, tokens, options).status();
  }
  std::vector<std::string> Names() const {
    std::vector<std::string> names;
    const std::vector<ContextInfo> infos = *db_.List();
    for (const ContextInfo& info : infos) names.push_back(info.name);
    return names;
  }
  uint64_t FileBytes() const { return db_.Stats()->file_bytes; }

  TempDir dir_;
  int64_t now_us_ = 0;
  ToyModel model_;
  DB db_;
};

TEST_F(QuotaTest, CountsAllBytesOfASegmentsFiles) {
  ATTNDB_ASSERT_OK(Store(ToyModel::Tokens(5, 1), {.name = "a"}));
  const uint64_t one = FileBytes();  // Most of it is header, section table and manifest.
  ATTNDB_ASSERT_OK(db_.SetQuota(3 * one));
  for (uint64_t seed = 2; seed < 12; ++seed) {
    ATTNDB_ASSERT_OK(Store(ToyModel::Tokens(5, seed), {}));
    EXPECT_LE(FileBytes(), 3 * one);
  }
}

TEST_F(QuotaTest, AStoreThatIsRefusedEvictsNothing) {
  ATTNDB_ASSERT_OK(Store(ToyModel::Tokens(50, 1), {.name = "a"}));
  ATTNDB_ASSERT_OK(Store(ToyModel::Tokens(50, 2), {.name = "b"}));
  ATTNDB_ASSERT_OK(db_.SetQuota(FileBytes()));
  EXPECT_THAT(Store(ToyModel::Tokens(50, 3), {.name = "b"}),
              FailsWith(StatusCode::kAlreadyExists, HasSubstr("b")));
  EXPECT_THAT(Store(ToyModel::Tokens(50, 3), {.name = "not a name"}),
              FailsWith(StatusCode::kInvalidArgument, HasSubstr("not a name")));
  EXPECT_THAT(Store(ToyModel::Tokens(500, 3), {.name = "c"}),
              FailsWith(StatusCode::kResourceExhausted, HasSubstr("quota")));
  EXPECT_THAT(Names(), ElementsAre("a", "b"));
}

TEST_F(QuotaTest, ContextsThatShareTheirSegmentsMakeRoomTogether) {
  const Tokens tokens = ToyModel::Tokens(100, 1);
  ATTNDB_ASSERT_OK(Store(tokens, {.name = "a"}));
  {
    SessionStart start = *db_.CreateSession(model_.spec(), tokens, {.context = "a"});
    ATTNDB_ASSERT_OK(start.session.Crop(60));
    const Tokens beginning(tokens.begin(), tokens.begin() + 60);
    ATTNDB_ASSERT_OK(db_.Store(start.session, beginning, {.name = "b"}));
  }
  EXPECT_EQ(db_.Describe("a")->own_bytes, 0u);
  ATTNDB_ASSERT_OK(db_.SetQuota(FileBytes()));
  ATTNDB_ASSERT_OK(Store(ToyModel::Tokens(50, 2), {.name = "c"}));
  EXPECT_THAT(Names(), ElementsAre("c"));
}

TEST_F(QuotaTest, EvictsNoMoreThanItMust) {
  ATTNDB_ASSERT_OK(Store(ToyModel::Tokens(50, 1), {.name = "a"}));
  const uint64_t one = FileBytes();
  ATTNDB_ASSERT_OK(Store(ToyModel::Tokens(50, 2), {.name = "b"}));
  ATTNDB_ASSERT_OK(Store(ToyModel::Tokens(50, 3), {.name = "c"}));
  ATTNDB_ASSERT_OK(db_.SetQuota(FileBytes() + one / 2));
  ATTNDB_ASSERT_OK(Store(ToyModel::Tokens(50, 4), {.name = "d"}));
  EXPECT_THAT(Names(), ElementsAre("b", "c", "d"));
  EXPECT_EQ(db_.Stats()->num_evictions, 1u);
}

}  // namespace
}  // namespace attndb::test
