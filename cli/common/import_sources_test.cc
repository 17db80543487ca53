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
    Write("notes/picture.png", std::string("\x89PNG\r\n\x1A\n\0", 9));
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
  // A missing file is reported when it is read.
  EXPECT_THAT(Names(*FindImportSources({"/no/such.txt"})), ElementsAre("such"));
}

TEST_F(ImportSourcesTest, AFolderGivesTheTextsBelowIt) {
  const ImportSources all = *FindImportSources({folder_ + "/notes"});
  EXPECT_THAT(Names(all), ElementsAre("May/яблоко", "plan.md", "plan.txt"));
  ASSERT_EQ(all.skipped.size(), 2U);
  EXPECT_EQ(all.skipped[0].path, folder_ + "/notes/empty.txt");
  EXPECT_EQ(all.skipped[0].reason, "it is empty");
  EXPECT_EQ(all.skipped[1].path, folder_ + "/notes/picture.png");
  EXPECT_EQ(all.skipped[1].reason, "it is a PNG image");
  EXPECT_TRUE(all.is_list);
  EXPECT_EQ(FindImportSources({folder_ + "/notes/May/.."})->files.size(), 3U);
}

TEST_F(ImportSourcesTest, AFolderSaysOfEachFileWhyItIsLeftOut) {
  std::filesystem::create_directories(folder_ + "/pictures/below");
  Write("pictures/below/a.gz", "\x1F\x8B\x08");
  Write("pictures/b.txt", "caf\xE9");
  std::filesystem::create_symlink("none", folder_ + "/pictures/c");
  std::filesystem::create_directory_symlink("../notes", folder_ + "/pictures/d");
  const ImportSources sources = *FindImportSources({folder_ + "/pictures"});
  EXPECT_TRUE(sources.files.empty());
  std::vector<std::string> reasons;
  for (const SkippedFile& file : sources.skipped) reasons.push_back(file.reason);
  EXPECT_THAT(reasons, ElementsAre("it is not UTF-8 at byte 3, it looks like latin1",
                                   "it is compressed by gzip", "it is a link to nothing",
                                   "it is a link to a folder"));
  // A folder with texts beside it.
  EXPECT_EQ(FindImportSources({folder_ + "/pictures", folder_ + "/notes"})->files.size(), 3U);
}

TEST_F(ImportSourcesTest, APatternGivesTheFilesThatFit) {
  EXPECT_THAT(Names(*FindImportSources({folder_ + "/*.txt", folder_ + "/b*"})),
              ElementsAre("a", "b_c"));
  EXPECT_EQ(FindImportSources({folder_ + "/*.rst"}).status().code(), StatusCode::kNotFound);
}

TEST_F(ImportSourcesTest, AFileThatIsNamedTwiceIsTakenOnce) {
  const std::string a = folder_ + "/a.txt";
  const ImportSources twice = *FindImportSources({a, folder_ + "/./notes/../a.txt"});
  EXPECT_THAT(Names(twice), ElementsAre("a"));
  EXPECT_FALSE(twice.is_list) << "one file";
  std::filesystem::create_directories(folder_ + "/one");
  Write("one/a.txt", "H");
  EXPECT_TRUE(FindImportSources({folder_ + "/one", folder_ + "/one"})->is_list) << "a folder";
  EXPECT_THAT(Names(*FindImportSources({a, folder_ + "/b c.md", folder_ + "/*.txt"})),
              ElementsAre("a", "b_c"));
  EXPECT_THAT(Names(*FindImportSources({folder_ + "/notes/plan.md", folder_ + "/notes"})),
              ElementsAre("plan.md", "May/яблоко", "plan.txt"));
  std::filesystem::create_directory_symlink(folder_ + "/notes", folder_ + "/link");
  EXPECT_THAT(Names(*FindImportSources({folder_ + "/notes/plan.md", folder_ + "/link/plan.md"})),
              ElementsAre("plan"));
  EXPECT_THAT(Names(*FindImportSources({"-", "-"})), ElementsAre(""));
}

TEST_F(ImportSourcesTest, FoldersKeepTheirExtension) {
  std::filesystem::create_directories(folder_ + "/versions/v1.0/v1.0");
  Write("versions/v1.0/v1.0/v1.0", "I");
  EXPECT_THAT(Names(*FindImportSources({folder_ + "/versions"})), ElementsAre("v1.0/v1.0/v1"));
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
