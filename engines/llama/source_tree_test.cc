// Goal:   advice names scripts where there are scripts, and nothing of the sources elsewhere.
// Method: folders with and without what a tree of attndb's sources has.
#include "engines/llama/source_tree.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "testing/temp_dir.h"

namespace attndb::llama {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(SourceTreeTest, AdviceNamesScriptsWhereTheyAre) {
  const test::TempDir folder;
  const std::filesystem::path path = folder.path();
  const std::filesystem::path folders[] = {path / "below", path};
  std::filesystem::create_directories(path / "scripts");
  std::ofstream(path / "scripts/setup.sh") << "#!/bin/sh\n";
  EXPECT_FALSE(HasSources(folders)) << "another project may have a script of that name";
  std::filesystem::create_directories(path / "include/attndb");
  std::ofstream(path / "include/attndb/attndb.h") << "\n";
  EXPECT_TRUE(HasSources(folders));
  EXPECT_FALSE(HasSources({}));
  EXPECT_THAT(HowToBuildLlama(true), HasSubstr("run scripts/setup.sh"));
  EXPECT_THAT(HowToBuildLlama(false), HasSubstr("CMAKE_PREFIX_PATH=/path/to/llama pip install"));
  EXPECT_THAT(HowToBuildLlama(false), Not(HasSubstr("scripts/")));
}

TEST(SourceTreeTest, AProgramOfTheBuildHasSourcesAboveIt) {
  EXPECT_TRUE(HasSources(ProjectFolders()));
}

}  // namespace
}  // namespace attndb::llama
