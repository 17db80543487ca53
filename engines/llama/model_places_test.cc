// Goal:   a model that lies where people keep them is found by each of its names, and no other is.
// Method: caches as Hugging Face and llama.cpp lay them out, with empty files and links for blobs.
#include "engines/llama/model_places.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "testing/matchers.h"
#include "testing/temp_dir.h"

namespace attndb::llama {
namespace {

namespace fs = std::filesystem;
using ::attndb::test::FailsWith;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;

class ModelPlacesTest : public ::testing::Test {
 protected:
  ModelPlacesTest() {
    places_ = {
        .folder = root_ / "models", .hub_cache = root_ / "hub", .llama_cache = root_ / "llama"};
  }

  fs::path Write(const fs::path& path, const std::string& content = "GGUF") {
    fs::create_directories((root_ / path).parent_path());
    std::ofstream(root_ / path, std::ios::binary) << content;
    return root_ / path;
  }

  // A file of a snapshot: a link to a blob, as in Hugging Face's cache.
  void WriteHub(const std::string& repo, const std::string& commit, const std::string& file,
                const std::string& blob) {
    const fs::path folder = fs::path("hub") / ("models--" + repo);
    Write(folder / "blobs" / blob);
    const fs::path link = root_ / folder / "snapshots" / commit / file;
    fs::create_directories(link.parent_path());
    fs::create_symlink(root_ / folder / "blobs" / blob, link);
  }

  std::string Found(const std::string& name) {
    const Result<std::string> path = FindModel(name, places_);
    return path.ok() ? *path : path.status().message();
  }

  std::vector<std::string> Names() {
    std::vector<std::string> names;
    for (const NamedModel& model : FindModels(places_)) names.push_back(model.name);
    return names;
  }

  ::attndb::test::TempDir directory_;
  const fs::path root_ = directory_.path();
  ModelPlaces places_;
};

TEST_F(ModelPlacesTest, AFolderOfOnesOwnIsLookedThroughToo) {
  Write("models/Tiny.gguf");
  Write("models/deep/er/Small-Q8_0.gguf");
  Write("models/readme.md");
  EXPECT_THAT(Names(), ElementsAre("Tiny", "Small-Q8_0"));
  EXPECT_THAT(Found("tiny"), EndsWith("models/Tiny.gguf"));
  EXPECT_THAT(Found("TINY.gguf"), EndsWith("models/Tiny.gguf"));
  EXPECT_THAT(Found("small-q8_0"), EndsWith("Small-Q8_0.gguf"));
  EXPECT_THAT(FindModel("small", places_),
              FailsWith(StatusCode::kNotFound, HasSubstr("did you mean Small-Q8_0?")));
}

TEST_F(ModelPlacesTest, ARepositoryOfOneModelIsItsName) {
  WriteHub("owner--repo-GGUF", "abc", "repo-Q4_K_M.gguf", "1");
  WriteHub("owner--repo-GGUF", "abc", "mmproj-repo-f16.gguf", "2");
  Write("hub/models--owner--other/snapshots/abc/model.safetensors");
  Write("hub/datasets--owner--texts/snapshots/abc/x.gguf");
  EXPECT_THAT(Names(), ElementsAre("owner/repo-GGUF"));
  for (const char* const name : {"owner/repo-GGUF", "Owner/Repo-gguf", "owner/repo-GGUF:Q4_K_M",
                                 "owner/repo-gguf:q4_k_m", "repo-Q4_K_M", "repo-Q4_K_M.gguf"}) {
    EXPECT_THAT(Found(name), EndsWith("snapshots/abc/repo-Q4_K_M.gguf")) << name;
  }
  EXPECT_THAT(FindModel("owner/repo-GGUF:Q4_K", places_),
              FailsWith(StatusCode::kNotFound, HasSubstr("model '")));
}

TEST_F(ModelPlacesTest, SeveralAreNamedRatherThanChosenFrom) {
  WriteHub("o--r", "abc", "m-Q4_0.gguf", "1");
  WriteHub("o--r", "abc", "m-Q8_0.gguf", "2");
  EXPECT_THAT(Names(), ElementsAre("m-Q4_0", "m-Q8_0"));
  EXPECT_THAT(FindModel("o/r", places_),
              FailsWith(StatusCode::kInvalidArgument,
                        HasSubstr("model 'o/r' stands for 2: expected one of m-Q4_0, m-Q8_0")));
  EXPECT_THAT(Found("o/r:Q8_0"), EndsWith("m-Q8_0.gguf"));
  // One name in two places: only paths tell them apart.
  Write("models/m-Q4_0.gguf");
  EXPECT_THAT(FindModel("m-q4_0", places_),
              FailsWith(StatusCode::kInvalidArgument,
                        AllOf(HasSubstr("models/m-Q4_0.gguf"), HasSubstr("hub"))));
}

TEST_F(ModelPlacesTest, OfASnapshotThatWentOnTheNewestCounts) {
  WriteHub("o--r", "old", "m.gguf", "1");
  WriteHub("o--r", "new", "m.gguf", "2");
  EXPECT_THAT(FindModel("o/r", places_),
              FailsWith(StatusCode::kInvalidArgument, HasSubstr("model '")));
  Write("hub/models--o--r/refs/main", "new");
  EXPECT_THAT(Found("o/r"), EndsWith("snapshots/new/m.gguf"));
  Write("hub/models--o--r/refs/main", "../../elsewhere");
  EXPECT_THAT(FindModel("o/r", places_),
              FailsWith(StatusCode::kInvalidArgument, HasSubstr("model '")));
}

TEST_F(ModelPlacesTest, OneFileOfTwoSnapshotsIsOne) {
  WriteHub("o--r", "old", "m.gguf", "1");
  WriteHub("o--r", "new", "m.gguf", "1");
  EXPECT_THAT(Found("o/r"), EndsWith("m.gguf"));
}

TEST_F(ModelPlacesTest, ASplitModelIsItsFirstPart) {
  WriteHub("o--r", "abc", "Q8_0/m-Q8_0-00001-of-00002.gguf", "1");
  WriteHub("o--r", "abc", "Q8_0/m-Q8_0-00002-of-00002.gguf", "2");
  EXPECT_THAT(Found("o/r"), EndsWith("m-Q8_0-00001-of-00002.gguf"));
  EXPECT_THAT(Found("m-Q8_0"), EndsWith("m-Q8_0-00001-of-00002.gguf"));
}

TEST_F(ModelPlacesTest, LlamaCppsCacheHasTheRepositoryInTheFilesName) {
  Write("llama/owner_repo_m-Q4_K_M.gguf");
  Write("llama/manifest=owner=repo=latest.json");
  EXPECT_THAT(Found("owner/repo"), EndsWith("owner_repo_m-Q4_K_M.gguf"));
  EXPECT_THAT(Found("owner/repo:q4_k_m"), EndsWith("owner_repo_m-Q4_K_M.gguf"));
  EXPECT_THAT(Found("owner_repo_m-Q4_K_M"), EndsWith("owner_repo_m-Q4_K_M.gguf"));
  EXPECT_THAT(FindModel("m", places_), FailsWith(StatusCode::kNotFound, HasSubstr("model '")));
}

TEST_F(ModelPlacesTest, WhereWasLookedIsSaid) {
  EXPECT_THAT(FindModel("qwen", places_),
              FailsWith(StatusCode::kNotFound,
                        AllOf(HasSubstr("model 'qwen'"), HasSubstr((root_ / "models").string()),
                              HasSubstr((root_ / "hub").string()),
                              HasSubstr((root_ / "llama").string()), Not(HasSubstr("mean")))));
  EXPECT_THAT(FindModel("qwen", {}), FailsWith(StatusCode::kNotFound, HasSubstr("(not set)")));
  EXPECT_TRUE(FindModels({}).empty());
}

}  // namespace
}  // namespace attndb::llama
