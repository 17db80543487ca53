#include "engines/llama/fingerprint.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/types.h>

#include <filesystem>
#include <fstream>

#include "testing/matchers.h"
#include "testing/temp_dir.h"

namespace attndb::llama {
namespace {

namespace fs = std::filesystem;
using ::attndb::test::FailsWith;

constexpr const char* kAbcDigest =
    "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";  // FIPS 180-2, B.1

class FingerprintTest : public ::testing::Test {
 protected:
  std::string Write(const std::string& name, const std::string& content) {
    const std::string path = directory_.File(name);
    std::ofstream(path, std::ios::binary | std::ios::trunc) << content;
    return path;
  }
  DigestInfo Digest(const std::string& path) {
    Result<DigestInfo> digest = FileDigest(path, cache_);
    EXPECT_THAT(digest, ::attndb::test::IsOk());
    return digest.ok() ? *digest : DigestInfo();
  }

  ::attndb::test::TempDir directory_;
  std::string cache_ = directory_.File("cache");
};

TEST_F(FingerprintTest, IsTheSha256OfTheContent) {
  const std::string path = Write("model", "abc");
  EXPECT_EQ(Digest(path).hex, kAbcDigest);
  ATTNDB_ASSERT_OK_AND_ASSIGN(const std::string fingerprint, ModelFingerprint({path}, {}, cache_));
  EXPECT_EQ(fingerprint, std::string("sha256:") + kAbcDigest);
}

TEST_F(FingerprintTest, IsKeptUntilTheFileChanges) {
  const std::string path = Write("model", "abc");
  EXPECT_FALSE(Digest(path).from_cache);
  EXPECT_TRUE(Digest(path).from_cache);
  EXPECT_EQ(Digest(path).hex, kAbcDigest);
  Write("model", "abcd");
  EXPECT_FALSE(Digest(path).from_cache);
  EXPECT_NE(Digest(path).hex, kAbcDigest);
}

TEST_F(FingerprintTest, AChangeIsSeenThoughSizeAndTimeAreSetBack) {
  const std::string path = Write("model", "abc");
  Digest(path);
  struct stat before = {};
  ASSERT_EQ(::stat(path.c_str(), &before), 0);
  Write("model", "xyz");
  const timespec times[] = {before.st_atim, before.st_mtim};
  ASSERT_EQ(::utimensat(AT_FDCWD, path.c_str(), times, 0), 0);
  EXPECT_FALSE(Digest(path).from_cache);
  EXPECT_NE(Digest(path).hex, kAbcDigest);
}

TEST_F(FingerprintTest, WeightsThatAreReplacedBetweenLoadingAndHashingAreNoticed) {
  const std::string model = Write("model", "abc");
  const AdapterFile adapter = {.path = Write("adapter", "low rank"), .scale = 1.0f};
  const std::string as_loaded = FilesIdentity({model}, {adapter});
  ATTNDB_EXPECT_OK(CheckUnchanged(as_loaded, {model}, {adapter}));
  for (const std::string& replaced : {model, adapter.path}) {
    const std::string before = FilesIdentity({model}, {adapter});
    fs::rename(Write("new", "xyz"), replaced);  // The mapped file lives on without its name.
    EXPECT_THAT(CheckUnchanged(before, {model}, {adapter}),
                FailsWith(StatusCode::kFailedPrecondition, ::testing::HasSubstr(replaced)));
  }
  const std::string before = FilesIdentity({model}, {});
  fs::remove(model);
  EXPECT_THAT(CheckUnchanged(before, {model}, {}),
              FailsWith(StatusCode::kFailedPrecondition, ::testing::HasSubstr(model)));
}

TEST_F(FingerprintTest, CopiesShareItAndDamagedCachesAreIgnored) {
  const std::string path = Write("model", "abc");
  const std::string copy = Write("copy", "abc");
  EXPECT_EQ(Digest(path).hex, Digest(copy).hex);
  for (const fs::directory_entry& entry : fs::directory_iterator(cache_ + "/digests")) {
    std::ofstream(entry.path(), std::ios::trunc) << "not a digest";
  }
  EXPECT_FALSE(Digest(path).from_cache);
  EXPECT_TRUE(Digest(path).from_cache);
}

TEST_F(FingerprintTest, WorksWithoutACache) {
  const std::string path = Write("model", "abc");
  cache_ = Write("file", "in the way") + "/folder";
  EXPECT_EQ(Digest(path).hex, kAbcDigest);
  cache_ = "";
  EXPECT_EQ(Digest(path).hex, kAbcDigest);
}

TEST_F(FingerprintTest, DependsOnAllPartsAndAdapters) {
  const std::string a = Write("a", "abc");
  const std::string b = Write("b", "xyz");
  const auto of = [&](const std::vector<std::string>& files,
                      const std::vector<AdapterFile>& adapters) {
    return *ModelFingerprint(files, adapters, cache_);
  };
  const std::vector<std::string> all = {of({a}, {}), of({a, b}, {}), of({b, a}, {}),
                                        of({a}, {{b, 1.0f}}), of({a}, {{b, 0.5f}})};
  for (size_t i = 0; i < all.size(); ++i) {
    for (size_t j = i + 1; j < all.size(); ++j) EXPECT_NE(all[i], all[j]) << i << " and " << j;
  }
  EXPECT_THAT(ModelFingerprint({a, directory_.File("missing")}, {}, cache_),
              FailsWith(StatusCode::kNotFound, ::testing::HasSubstr("missing")));
}

}  // namespace
}  // namespace attndb::llama
