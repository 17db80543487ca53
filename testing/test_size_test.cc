#include "testing/test_size.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <optional>
#include <string>

namespace attndb::test {
namespace {

// Sets ATTNDB_TEST_SIZE for a test, and puts back what it was.
class TestSizeTest : public ::testing::Test {
 protected:
  TestSizeTest() {
    if (const char* const value = std::getenv(kName); value != nullptr) before_ = value;
  }
  ~TestSizeTest() override {
    unsetenv(kName);
    if (before_) Set(before_->c_str());
  }
  static void Set(const char* value) { ASSERT_EQ(setenv(kName, value, 1), 0); }

  static constexpr const char* kName = "ATTNDB_TEST_SIZE";
  std::optional<std::string> before_;
};
using TestSizeDeathTest = TestSizeTest;

TEST_F(TestSizeTest, ARunIsShortUnlessItIsSaidToBeLong) {
  unsetenv(kName);
  EXPECT_FALSE(IsLongRun());
  EXPECT_EQ(Sized(20, 200), 20u);
  for (const char* const value : {"", "short"}) {
    Set(value);
    EXPECT_EQ(Sized(20, 200), 20u);
  }
  Set("long");
  EXPECT_TRUE(IsLongRun());
  EXPECT_EQ(Sized(20, 200), 200u);
}

TEST_F(TestSizeDeathTest, AnotherSizeEndsTheProcess) {
  Set("lnog");
  EXPECT_DEATH(Sized(20, 200), "test_size.cc");
}

TEST_F(TestSizeTest, ACountIsALineThatAScriptFinds) {
  ::testing::internal::CaptureStdout();
  PrintCount(200, "kills");
  EXPECT_EQ(::testing::internal::GetCapturedStdout(), "ATTNDB_COUNT 200 kills\n");
}

}  // namespace
}  // namespace attndb::test
