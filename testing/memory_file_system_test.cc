// Goal:   the simulated file system keeps what a real one must keep, and loses what one may lose.
// Method: files and names synced or not, over many seeds of power cuts.
#include "testing/memory_file_system.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string_view>

#include "common/coding.h"
#include "testing/matchers.h"

namespace attndb::test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr int kSeeds = 64;

void WriteFile(MemoryFileSystem* fs, const std::string& path, std::string_view text, bool sync) {
  ATTNDB_ASSERT_OK_AND_ASSIGN(const auto file, fs->CreateNew(path));
  ATTNDB_ASSERT_OK(file->Append(BytesOf(text)));
  if (sync) {
    ATTNDB_ASSERT_OK(file->Sync());
  }
  ATTNDB_ASSERT_OK(file->Close());
}

TEST(MemoryFileSystem, NamesBehaveAsInTheRealOne) {
  MemoryFileSystem fs;
  EXPECT_THAT(fs.CreateNew("d/f"), FailsWith(StatusCode::kNotFound, HasSubstr("d")));
  ATTNDB_ASSERT_OK(fs.CreateDir("d"));
  WriteFile(&fs, "d/f", "text", false);
  EXPECT_THAT(fs.CreateNew("d/f"), FailsWith(StatusCode::kAlreadyExists, HasSubstr("d/f")));
  WriteFile(&fs, "d/g", "more", false);
  EXPECT_THAT(fs.Rename("d/f", "d/g"), FailsWith(StatusCode::kAlreadyExists, HasSubstr("d/g")));
  ATTNDB_ASSERT_OK(fs.Rename("d/f", "d/h"));
  EXPECT_THAT(*fs.List("d"), ElementsAre("g", "h"));
  ATTNDB_ASSERT_OK(fs.Remove("d/g"));
  EXPECT_THAT(fs.Remove("d/g"), FailsWith(StatusCode::kNotFound, HasSubstr("d/g")));
  EXPECT_EQ(*fs.FileSize("d/h"), 4u);
}

TEST(MemoryFileSystem, SyncedFilesUnderSyncedNamesAlwaysSurvive) {
  for (int seed = 0; seed < kSeeds; ++seed) {
    MemoryFileSystem fs;
    ATTNDB_ASSERT_OK(fs.CreateDir("d"));
    WriteFile(&fs, "d/f", std::string(2000, 'x'), true);
    ATTNDB_ASSERT_OK(fs.SyncDir("d"));
    fs.PowerCut(static_cast<uint64_t>(seed));
    ASSERT_THAT(*fs.List("d"), ElementsAre("f"));
    EXPECT_EQ(fs.Contents("d/f"), std::vector<std::byte>(2000, std::byte{'x'}));
  }
}

TEST(MemoryFileSystem, UnsyncedWorkIsSometimesLostSometimesTornSometimesKept) {
  int lost = 0, damaged = 0, kept = 0;
  for (int seed = 0; seed < kSeeds; ++seed) {
    MemoryFileSystem fs;
    ATTNDB_ASSERT_OK(fs.CreateDir("d"));
    WriteFile(&fs, "d/f", std::string(700, 'x'), false);
    fs.PowerCut(static_cast<uint64_t>(seed));
    if (fs.List("d")->empty()) {
      ++lost;
    } else if (fs.Contents("d/f") != std::vector<std::byte>(700, std::byte{'x'})) {
      ++damaged;
    } else {
      ++kept;
    }
  }
  EXPECT_GT(lost, 0);
  EXPECT_GT(damaged, 0);
  EXPECT_GE(kept, 0);
}

TEST(MemoryFileSystem, AnUnsyncedRenameMayBeUndone) {
  std::set<std::vector<std::string>> outcomes;
  for (int seed = 0; seed < kSeeds; ++seed) {
    MemoryFileSystem fs;
    ATTNDB_ASSERT_OK(fs.CreateDir("d"));
    WriteFile(&fs, "d/a", "text", true);
    ATTNDB_ASSERT_OK(fs.SyncDir("d"));
    ATTNDB_ASSERT_OK(fs.Rename("d/a", "d/b"));
    fs.PowerCut(static_cast<uint64_t>(seed));
    outcomes.insert(*fs.List("d"));
  }
  EXPECT_TRUE(outcomes.contains({"a"}));
  EXPECT_TRUE(outcomes.contains({"b"}));
}

TEST(MemoryFileSystem, ALockHasOneHolder) {
  MemoryFileSystem fs;
  {
    ATTNDB_ASSERT_OK_AND_ASSIGN(const auto lock, fs.Lock("LOCK"));
    EXPECT_THAT(fs.Lock("LOCK"), FailsWith(StatusCode::kBusy, HasSubstr("LOCK")));
  }
  ATTNDB_EXPECT_OK(fs.Lock("LOCK"));
}

}  // namespace
}  // namespace attndb::test
