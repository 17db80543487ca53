// Goal:   files, folders and patterns give the texts that are meant, each with a name of its own.
// Method: small files in a temporary folder.
#include "cli/common/import_sources.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "cli/common/temp_dir.h"

namespace attndb::cli {
namespace {

using ::testing::ElementsAre;

class ImportSourcesTest : public ::testing::Test {
 protected:
  ImportSourcesTest() {
    std::filesystem::create_directories(folder_ + "/notes/May");
    Write("a.txt", "A");
    Write("b c.md", "B");
    Write("notes/May/яблоко.txt", "C");
    Write("notes/plan.txt", "D");
    Write("notes/plan.md", "E");
    Write("notes/.hidden", "F");
    Write("notes/picture.png", std::string("\x89PNG\0", 5));
    Write("notes/empty.txt", "");
  }

  void Write(const std::string& name, const std::string& bytes) const {
    std::ofstream(folder_ + "/" + name, std::ios::binary) << bytes;
  }
  static std::vector<std::string> Names(const ImportSources& sources) {
    std::vector<std::string> names;
    for (const ImportSource& source : sources.files) names.push_back(source.name);
    return names;
  }

  const TempDir dir_ = *TempDir::Create("");
  const std::string folder_ = dir_.path();
};

TEST_F(ImportSourcesTest, AFileIsCalledByItsName) {
  const ImportSources one = *FindImportSources({folder_ + "/b c.md"});
  EXPECT_THAT(Names(one), ElementsAre("b_c"));
  EXPECT_FALSE(one.is_list);
  const ImportSources standard_input = *FindImportSources({"-"});
  EXPECT_THAT(Names(standard_input), ElementsAre(""));
  // What is not there is said when it is read.
  EXPECT_THAT(Names(*FindImportSources({"/no/such.txt"})), ElementsAre("such"));
}

TEST_F(ImportSourcesTest, AFolderGivesTheTextsBelowIt) {
  const ImportSources all = *FindImportSources({folder_ + "/notes"});
  EXPECT_THAT(Names(all), ElementsAre("May/яблоко", "plan.md", "plan.txt"));
  EXPECT_EQ(all.num_skipped, 2U);
  EXPECT_TRUE(all.is_list);
  EXPECT_EQ(FindImportSources({folder_ + "/notes/May/.."})->files.size(), 3U);
}

TEST_F(ImportSourcesTest, APatternGivesTheFilesThatFit) {
  EXPECT_THAT(Names(*FindImportSources({folder_ + "/*.txt", folder_ + "/b*"})),
              ElementsAre("a", "b_c"));
  EXPECT_EQ(FindImportSources({folder_ + "/*.rst"}).status().code(), StatusCode::kNotFound);
}

TEST_F(ImportSourcesTest, NoTwoFilesHaveOneName) {
  std::filesystem::create_directories(folder_ + "/other");
  Write("other/a.txt", "G");
  const auto both = FindImportSources({folder_ + "/a.txt", folder_ + "/other/a.txt"});
  EXPECT_EQ(both.status().code(), StatusCode::kInvalidArgument);
  EXPECT_NE(both.status().message().find("would both be called 'a.txt'"), std::string::npos);
  std::filesystem::create_directories(folder_ + "/nothing");
  EXPECT_EQ(FindImportSources({folder_ + "/nothing"}).status().code(),
            StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace attndb::cli
