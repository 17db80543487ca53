#include "store/drop_reserve.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "testing/temp_dir.h"

namespace attndb::store {
namespace {

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
  reserve_.Release();
  EXPECT_FALSE(std::filesystem::exists(path_));
  reserve_.Release();
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

}  // namespace
}  // namespace attndb::store
