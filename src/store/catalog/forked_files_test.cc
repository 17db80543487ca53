// Goal:   a fork refuses the files that its parent had open, and no others.
// Method: forks that tell by their exit code what they were told.
#include "store/catalog/forked_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>

#include "testing/matchers.h"
#include "testing/temp_dir.h"

namespace attndb::store {
namespace {

// The result of Begin in a forked child.
StatusCode BeginInFork(const std::string& path) {
  const pid_t pid = fork();
  if (pid == 0) {
    FileInUse in_use;
    _exit(static_cast<int>(in_use.Begin(path).code()));
  }
  int status = 0;
  EXPECT_EQ(waitpid(pid, &status, 0), pid);
  EXPECT_TRUE(WIFEXITED(status));
  return static_cast<StatusCode>(WEXITSTATUS(status));
}

TEST(FileInUseTest, AForkRefusesWhatItsParentHasOpenUntilTheParentClosesIt) {
  const test::TempDir dir;
  std::ofstream(dir.File("a")) << "a";
  std::ofstream(dir.File("b")) << "b";
  {
    FileInUse first;
    FileInUse second;
    ATTNDB_ASSERT_OK(first.Begin(dir.File("a")));
    ATTNDB_ASSERT_OK(second.Begin(dir.File("a")));  // One process may open it twice.
    EXPECT_EQ(BeginInFork(dir.File("a")), StatusCode::kFailedPrecondition);
    EXPECT_EQ(BeginInFork(dir.File("b")), StatusCode::kOk);
    EXPECT_EQ(BeginInFork(dir.File("none")), StatusCode::kOk);
  }
  EXPECT_EQ(BeginInFork(dir.File("a")), StatusCode::kOk);
}

}  // namespace
}  // namespace attndb::store
