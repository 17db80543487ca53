// Goal:   room in a quota is made of the contexts that were used longest ago and are not in use,
//         and refused where these do not suffice.
// Method: a catalog of made-up segments, without files.
#include "store/space.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "attndb/units.h"
#include "store/catalog/catalog_test_util.h"
#include "testing/matchers.h"

namespace attndb::store {
namespace {

using ::attndb::test::FailsWith;
using ::testing::HasSubstr;

class SpaceTest : public CatalogTest {
 protected:
  SpaceTest() {
    for (int i = 0; i < 3; ++i) {
      harness_.now_us += 1;
      contexts_.push_back(harness_.MustPublish(Range(1000 * i, 100)));
    }
    used_bytes_ = harness_->Stats(tenant())->file_bytes;
  }

  Result<Space::Victims> Victims(uint64_t quota_bytes, uint64_t new_bytes) {
    ATTNDB_RETURN_IF_ERROR(harness_->owners()->SetQuota(tenant(), quota_bytes));
    ATTNDB_ASSIGN_OR_RETURN(const Tenant owner, harness_->owners()->GetTenant(tenant()));
    return space_.ChooseVictims(owner, new_bytes);
  }

  const Settings settings_{harness_.dir(), {}, storage::PosixFileSystem(), harness_.dir()};
  Uses uses_{{.catalog = &*harness_}};
  const Space space_{&settings_, &*harness_, &uses_};
  std::vector<ContextId> contexts_;
  uint64_t used_bytes_ = 0;
};

TEST_F(SpaceTest, NothingGoesWhileThereIsRoom) {
  EXPECT_TRUE(Victims(0, uint64_t{1} << 40)->contexts.empty());
  EXPECT_TRUE(Victims(used_bytes_ + 10, 10)->contexts.empty());
}

TEST_F(SpaceTest, TheLongestUnusedGoFirstAndThoseInUseStay) {
  ATTNDB_ASSERT_OK_AND_ASSIGN(const Space::Victims first, Victims(used_bytes_, 1));
  EXPECT_EQ(first.contexts, std::vector<ContextId>{contexts_[0]});
  EXPECT_EQ(first.freed_bytes, used_bytes_ / 3);
  const std::shared_ptr<const void> hold = uses_.Hold(contexts_[0]);
  ATTNDB_ASSERT_OK_AND_ASSIGN(const Space::Victims others, Victims(used_bytes_, used_bytes_ / 2));
  EXPECT_EQ(others.contexts, (std::vector<ContextId>{contexts_[1], contexts_[2]}));
  EXPECT_EQ(Victims(used_bytes_, used_bytes_).status().code(), StatusCode::kResourceExhausted);
}

TEST_F(SpaceTest, NothingIsEvictedForADerivedObject) {
  ATTNDB_ASSERT_OK(harness_->owners()->SetQuota(tenant(), used_bytes_ + 10));
  ATTNDB_EXPECT_OK(space_.CheckQuota(tenant(), 10));
  EXPECT_EQ(space_.CheckQuota(tenant(), 11).code(), StatusCode::kFailedPrecondition);
  ATTNDB_ASSERT_OK_AND_ASSIGN(const uint64_t free_bytes,
                              settings_.file_system->FreeBytes(settings_.segments_dir));
  ATTNDB_EXPECT_OK(space_.CheckDisk(free_bytes / 4));
  EXPECT_EQ(space_.CheckDisk(free_bytes).code(), StatusCode::kFailedPrecondition);
  EXPECT_FALSE(space_.IsDiskFull(1));
  EXPECT_TRUE(space_.IsDiskFull(free_bytes));
}

TEST_F(SpaceTest, AStoreThatTheDiskHasNoRoomForIsRefusedInSizesThatPeopleRead) {
  constexpr uint64_t kBytes = uint64_t{1} << 50;  // So many that a megabyte more does not show.
  ATTNDB_EXPECT_OK(space_.CheckDiskForStore(1));
  EXPECT_THAT(space_.CheckDiskForStore(kBytes),
              FailsWith(StatusCode::kResourceExhausted,
                        HasSubstr("B free, " + FormatBytes(kBytes) + " are needed")));
}

}  // namespace
}  // namespace attndb::store
