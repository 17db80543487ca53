// Goal:   evicting the least recently used contexts that are not in use makes room in a quota. A
//         request is refused where these do not suffice.
// Method: a catalog of made-up segments, without files; a disk of some free bytes.
#include "store/space.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "attndb/units.h"
#include "store/catalog/catalog_test_util.h"
#include "store/hooked_files_test_util.h"
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
  // Gives the newest segment a derived object of so many bytes.
  void AddObject(uint64_t file_bytes) {
    const uint64_t generation = harness_->companions()->ReserveGeneration().value();
    ATTNDB_ASSERT_OK(harness_->companions()->Publish(
        harness_.SegmentIds().back(),
        {.kind = "planes", .generation = generation, .file_bytes = file_bytes}));
  }

  const Settings settings_{harness_.dir(), {}, storage::PosixFileSystem(), harness_.dir()};
  Uses uses_{{.catalog = &*harness_}};
  const Space space_{&settings_, &*harness_, &uses_};
  HookedFiles disk_{storage::PosixFileSystem()};
  const Settings on_disk_{harness_.dir(), {}, &disk_, harness_.dir()};
  const Space on_disk_space_{&on_disk_, &*harness_, &uses_};
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

TEST_F(SpaceTest, TheContextThatIsGivenStaysBesideThoseInUse) {
  ATTNDB_ASSERT_OK(harness_->owners()->SetQuota(tenant(), used_bytes_));
  ATTNDB_ASSERT_OK_AND_ASSIGN(const Tenant owner, harness_->owners()->GetTenant(tenant()));
  ATTNDB_ASSERT_OK_AND_ASSIGN(const Space::Victims victims,
                              space_.ChooseVictims(owner, 1, {}, contexts_[0]));
  EXPECT_EQ(victims.contexts, std::vector<ContextId>{contexts_[1]});
}

TEST_F(SpaceTest, BytesThatAreJustEnoughSuffice) {
  const uint64_t segment_bytes = used_bytes_ / 3;
  ATTNDB_ASSERT_OK_AND_ASSIGN(const Space::Victims without, Victims(used_bytes_, segment_bytes));
  EXPECT_EQ(without.contexts, std::vector<ContextId>{contexts_[0]});
  EXPECT_FALSE(without.objects);
  AddObject(10);
  const auto second = uses_.Hold(contexts_[1]), third = uses_.Hold(contexts_[2]);
  ATTNDB_ASSERT_OK_AND_ASSIGN(const Space::Victims with,
                              Victims(used_bytes_ + 10, segment_bytes + 10));
  EXPECT_EQ(with.contexts, std::vector<ContextId>{contexts_[0]});
  EXPECT_TRUE(with.objects);
  EXPECT_EQ(Victims(used_bytes_ + 10, segment_bytes + 11).status().code(),
            StatusCode::kResourceExhausted);
}

TEST_F(SpaceTest, ANoteTakesRoomThatItsContextGivesBack) {
  constexpr uint64_t kNoteBytes = 500;
  harness_.now_us += 1;
  const ContextId noted = harness_.MustPublish(
      Range(0, 100),
      {.base = contexts_[0], .num_shared = 100, .note = std::string(kNoteBytes, 'n')});
  EXPECT_TRUE(Victims(used_bytes_ + kNoteBytes, 0)->contexts.empty());
  const auto hold = uses_.Hold(contexts_[0]), second = uses_.Hold(contexts_[1]),
             third = uses_.Hold(contexts_[2]);
  ATTNDB_ASSERT_OK_AND_ASSIGN(const Space::Victims victims,
                              Victims(used_bytes_ + kNoteBytes, kNoteBytes));
  EXPECT_EQ(victims.contexts, std::vector<ContextId>{noted});
  EXPECT_EQ(victims.freed_bytes, kNoteBytes);
  EXPECT_EQ(Victims(used_bytes_ + kNoteBytes, kNoteBytes + 1).status().code(),
            StatusCode::kResourceExhausted);
  ATTNDB_ASSERT_OK(harness_->owners()->SetQuota(tenant(), used_bytes_ + kNoteBytes));
  EXPECT_EQ(space_.CheckQuota(tenant(), 1).code(), StatusCode::kFailedPrecondition);
}

TEST_F(SpaceTest, NothingIsEvictedForADerivedObject) {
  ATTNDB_ASSERT_OK(harness_->owners()->SetQuota(tenant(), used_bytes_ + 10));
  ATTNDB_EXPECT_OK(space_.CheckQuota(tenant(), 10));
  EXPECT_EQ(space_.CheckQuota(tenant(), 11).code(), StatusCode::kFailedPrecondition);
  ATTNDB_ASSERT_OK(harness_->owners()->SetQuota(tenant(), 0));
  ATTNDB_EXPECT_OK(space_.CheckQuota(tenant(), 11));
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

TEST_F(SpaceTest, ADiskIsTakenUpToWhatIsKeptForACommit) {
  constexpr uint64_t kCommitBytes = uint64_t{1} << 20;
  disk_.free_bytes = [] { return Result<uint64_t>(kCommitBytes + 1000); };
  ATTNDB_EXPECT_OK(on_disk_space_.CheckDisk(kCommitBytes / 2 + 500));
  EXPECT_EQ(on_disk_space_.CheckDisk(kCommitBytes / 2 + 501).code(),
            StatusCode::kFailedPrecondition);
  ATTNDB_EXPECT_OK(on_disk_space_.CheckDiskForStore(1000));
  EXPECT_EQ(on_disk_space_.CheckDiskForStore(1001).code(), StatusCode::kResourceExhausted);
  EXPECT_FALSE(on_disk_space_.IsDiskFull(500));
  EXPECT_TRUE(on_disk_space_.IsDiskFull(501));
  AddObject(10);  // It would be given up.
  ATTNDB_EXPECT_OK(on_disk_space_.CheckDiskForStore(1010));
  EXPECT_EQ(on_disk_space_.CheckDiskForStore(1011).code(), StatusCode::kResourceExhausted);
}

TEST_F(SpaceTest, ADiskThatDoesNotTellRefusesNothing) {
  constexpr uint64_t kBytes = uint64_t{1} << 60;
  disk_.free_bytes = [] { return Result<uint64_t>(Status::IoError("test")); };
  ATTNDB_EXPECT_OK(on_disk_space_.CheckDisk(kBytes));
  ATTNDB_EXPECT_OK(on_disk_space_.CheckDiskForStore(kBytes));
  EXPECT_FALSE(on_disk_space_.IsDiskFull(kBytes));
}

}  // namespace
}  // namespace attndb::store
