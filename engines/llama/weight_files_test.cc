// Goal:   a file that weights are mapped from and that changes in place is found out; one that is
//         removed or replaced is still what was mapped.
#include "engines/llama/weight_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>
#include <utility>

#include "testing/matchers.h"
#include "testing/temp_dir.h"

namespace attndb::llama {
namespace {

namespace fs = std::filesystem;

using ::attndb::test::FailsWith;
using ::testing::HasSubstr;

class WeightFilesTest : public ::testing::Test {
 protected:
  WeightFilesTest() {
    for (const std::string& path : {first_, second_}) {
      std::ofstream(path) << "weights";
      fs::last_write_time(path, fs::file_time_type::clock::now() - std::chrono::hours(1));
    }
    Result<WeightFiles> weights = WeightFiles::Open({first_, second_});
    EXPECT_TRUE(weights.ok());
    weights_ = *std::move(weights);
  }

  const ::attndb::test::TempDir directory_;
  const std::string first_ = directory_.File("first.gguf");
  const std::string second_ = directory_.File("second.gguf");
  WeightFiles weights_;
};

TEST_F(WeightFilesTest, WhatIsLeftAloneIsWhatItWas) {
  ATTNDB_EXPECT_OK(weights_.Check());
  const WeightFiles moved = std::move(weights_);
  ATTNDB_EXPECT_OK(moved.Check());
  ATTNDB_EXPECT_OK(WeightFiles().Check());
}

TEST_F(WeightFilesTest, OneThatIsWrittenOverIsNamed) {
  std::fstream(second_, std::ios::in | std::ios::out) << "others!";
  EXPECT_THAT(weights_.Check(),
              FailsWith(StatusCode::kIoError, HasSubstr("second.gguf' was written to")));
}

TEST_F(WeightFilesTest, OneThatIsCutShortIsNamed) {
  const fs::file_time_type written = fs::last_write_time(first_);
  fs::resize_file(first_, 3);
  fs::last_write_time(first_, written);
  EXPECT_THAT(weights_.Check(), FailsWith(StatusCode::kIoError, HasSubstr("first.gguf")));
}

TEST_F(WeightFilesTest, OneThatIsRemovedOrReplacedIsStillWhatWasMapped) {
  fs::remove(first_);
  std::ofstream(directory_.File("new")) << "a new model";
  fs::rename(directory_.File("new"), second_);
  ATTNDB_EXPECT_OK(weights_.Check());
}

TEST_F(WeightFilesTest, OneThatIsNotThereIsAnError) {
  EXPECT_THAT(WeightFiles::Open({first_, directory_.File("none")}),
              FailsWith(StatusCode::kIoError, HasSubstr("none")));
}

}  // namespace
}  // namespace attndb::llama
