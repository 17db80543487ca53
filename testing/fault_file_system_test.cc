// Goal:   faults come exactly when they are ordered, and files are poisoned by them.
// Method: a fixed list of operations, the n-th failing.
#include "testing/fault_file_system.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string_view>

#include "common/coding.h"
#include "testing/matchers.h"
#include "testing/memory_file_system.h"

namespace attndb::test {
namespace {

using ::testing::HasSubstr;

constexpr std::string_view kText = "0123456789";

class FaultFileSystemTest : public ::testing::Test {
 protected:
  FaultFileSystemTest() { ATTNDB_EXPECT_OK(base_.CreateDir("d")); }

  // Four operations.
  Status WriteFile(const std::string& path) {
    ATTNDB_ASSIGN_OR_RETURN(const auto file, faults_.CreateNew(path));
    const Status appended = file->Append(BytesOf(kText));
    const Status synced = file->Sync();
    const Status closed = file->Close();
    if (!appended.ok()) {
      EXPECT_EQ(synced, appended);
      EXPECT_EQ(closed, appended);
    }
    return closed;
  }

  MemoryFileSystem base_;
  FaultFileSystem faults_{&base_};
};

TEST_F(FaultFileSystemTest, WithoutAPlanNothingFailsAndOperationsAreCounted) {
  ATTNDB_EXPECT_OK(WriteFile("d/f"));
  EXPECT_EQ(faults_.num_operations(), 4u);
  EXPECT_EQ(faults_.num_faults(), 0u);
}

TEST_F(FaultFileSystemTest, TheNthOperationFailsAndPoisonsTheFile) {
  for (uint64_t n = 1; n <= 4; ++n) {
    faults_.SetPlan({.fail_at = n});
    EXPECT_THAT(WriteFile("d/f" + std::to_string(n)),
                FailsWith(StatusCode::kIoError, HasSubstr("operation " + std::to_string(n))));
    EXPECT_EQ(faults_.num_faults(), 1u);
  }
}

TEST_F(FaultFileSystemTest, AStickyFaultStays) {
  faults_.SetPlan({.fail_at = 2, .sticky = true, .kind = FaultKind::kNoSpace});
  ATTNDB_EXPECT_OK(faults_.List("d"));
  for (int i = 0; i < 3; ++i) {
    EXPECT_THAT(faults_.List("d"), FailsWith(StatusCode::kResourceExhausted, HasSubstr("list d")));
  }
}

TEST_F(FaultFileSystemTest, ATornWriteLeavesAPart) {
  faults_.SetPlan({.fail_at = 2, .kind = FaultKind::kTornWrite});
  EXPECT_FALSE(WriteFile("d/f").ok());
  EXPECT_EQ(base_.Contents("d/f").size(), kText.size() / 2);
}

TEST_F(FaultFileSystemTest, AnErrorAfterTheWorkHidesThatItWasDone) {
  faults_.SetPlan({.fail_at = 2, .kind = FaultKind::kErrorAfter});
  EXPECT_FALSE(WriteFile("d/f").ok());
  EXPECT_EQ(base_.Contents("d/f").size(), kText.size());
}

}  // namespace
}  // namespace attndb::test
