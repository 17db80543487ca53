#include "store/drop_reserve.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <set>
#include <string>

#include "store/hooked_files_test_util.h"
#include "testing/fault_file_system.h"
#include "testing/temp_dir.h"

namespace attndb::store {
namespace {

using ::testing::ElementsAre;

class DropReserveTest : public ::testing::Test {
 protected:
  uint64_t Size() const {
    std::error_code missing;
    const auto size = std::filesystem::file_size(path_, missing);
    return missing ? 0 : size;
  }

  const test::TempDir dir_;
  const std::string path_ = dir_.File("reserve");
  DropReserve reserve_{storage::PosixFileSystem(), path_};
};

TEST_F(DropReserveTest, TakesAndReleasesRoom) {
  EXPECT_EQ(Size(), 0u);
  reserve_.Take();
  EXPECT_EQ(Size(), DropReserve::kBytes);
  EXPECT_EQ(reserve_.Release(), DropReserve::kBytes);
  EXPECT_FALSE(std::filesystem::exists(path_));
  EXPECT_EQ(reserve_.Release(), 0u);
  reserve_.Take();
  EXPECT_EQ(Size(), DropReserve::kBytes);
}

TEST_F(DropReserveTest, KeepsAWholeFileAndWritesABrokenOneAnew) {
  reserve_.Take();
  const auto written = std::filesystem::last_write_time(path_);
  DropReserve(storage::PosixFileSystem(), path_).Take();
  EXPECT_EQ(std::filesystem::last_write_time(path_), written);
  std::ofstream(path_, std::ios::trunc) << "short";
  DropReserve(storage::PosixFileSystem(), path_).Take();
  EXPECT_EQ(Size(), DropReserve::kBytes);
}

TEST_F(DropReserveTest, TriesAgainWhereItCouldNotBeWritten) {
  const std::string missing = dir_.File("folder");
  DropReserve reserve(storage::PosixFileSystem(), missing + "/reserve");
  reserve.Take();
  EXPECT_FALSE(std::filesystem::exists(missing));
  std::filesystem::create_directory(missing);
  reserve.Take();
  EXPECT_EQ(std::filesystem::file_size(missing + "/reserve"), DropReserve::kBytes);
}

// Each call of the system fails once.
TEST_F(DropReserveTest, HasWhatThereIsRoomForAndAllOfItLater) {
  constexpr uint64_t kRoom = 5 * DropReserve::kStepBytes;
  test::FaultFileSystem faults(storage::PosixFileSystem());
  HookedFiles disk(&faults);
  disk.free_bytes = [] { return Result<uint64_t>(kRoom + 4096); };
  std::set<uint64_t> sizes;
  for (uint64_t fail_at = 1;; ++fail_at) {
    SCOPED_TRACE(fail_at);
    DropReserve(storage::PosixFileSystem(), path_).Take();
    DropReserve reserve(&disk, path_);
    faults.SetPlan({});
    EXPECT_EQ(reserve.Release(), DropReserve::kBytes);
    faults.SetPlan({.fail_at = fail_at, .kind = test::FaultKind::kTornWrite});
    reserve.Take();
    sizes.insert(Size());
    if (faults.num_faults() == 0) break;
    reserve.Take();
    EXPECT_EQ(Size(), DropReserve::kBytes);
  }
  EXPECT_THAT(sizes, ElementsAre(kRoom, DropReserve::kBytes));
}

TEST_F(DropReserveTest, HasNoMoreThanWasReleasedWhereThereIsNoRoomForAll) {
  test::FaultFileSystem faults(storage::PosixFileSystem());
  HookedFiles disk(&faults);
  disk.free_bytes = [] { return Result<uint64_t>(DropReserve::kBytes - 1); };
  for (const uint64_t released : {uint64_t{0}, 3 * DropReserve::kStepBytes}) {
    std::ofstream(path_) << std::string(released, 'x');
    DropReserve reserve(&disk, path_);
    EXPECT_EQ(reserve.Release(), released);
    const uint64_t first_append = 4;  // Behind a look at the size, a removal, and a new file.
    faults.SetPlan({.fail_at = first_append, .kind = test::FaultKind::kNoSpace});
    reserve.Take();
    EXPECT_EQ(faults.num_faults(), 1u);
    EXPECT_EQ(Size(), released);
  }
}

TEST_F(DropReserveTest, IsLeftAsItIsWhereThereIsNoRoomForMore) {
  HookedFiles disk(storage::PosixFileSystem());
  uint64_t free_bytes = DropReserve::kStepBytes - 1;
  disk.free_bytes = [&free_bytes] { return Result<uint64_t>(free_bytes); };
  std::ofstream(path_) << std::string(3 * DropReserve::kStepBytes, 'x');
  const auto written = std::filesystem::last_write_time(path_);
  DropReserve reserve(&disk, path_);
  reserve.Take();
  EXPECT_EQ(Size(), 3 * DropReserve::kStepBytes);
  EXPECT_EQ(std::filesystem::last_write_time(path_), written);
  free_bytes += 1;
  reserve.Take();
  EXPECT_EQ(Size(), DropReserve::kBytes);
}

}  // namespace
}  // namespace attndb::store
