// Goal:   exactly temporaries and unknown objects are orphans; removals can be repeated.
// Method: a directory with files of all sorts.
#include "storage/vfs/store_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "storage/vfs/manifest.h"
#include "testing/fault_file_system.h"
#include "testing/matchers.h"
#include "testing/memory_file_system.h"

namespace attndb::storage {
namespace {

using test::FailsWith;
using test::MemoryFileSystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

const std::string kDir = "segments";

class StoreFilesTest : public ::testing::Test {
 protected:
  StoreFilesTest() {
    ATTNDB_EXPECT_OK(fs_.CreateDir(kDir));
    for (const char* name :
         {"0000000000000001.seg", "0000000000000001.manifest", "0000000000000001.planes.1.obj",
          "0000000000000001.planes.2.obj", "0000000000000002.seg", "0000000000000002.seg.tmp",
          "0000000000000003.manifest.tmp", "README", "0000000000000004.seg.bak"}) {
      fs_.SetContents(JoinPath(kDir, name), {});
    }
  }
  MemoryFileSystem fs_;
};

TEST_F(StoreFilesTest, OrphansAreTemporariesAndUnknownObjects) {
  const auto knows_one = [](const ObjectName& name) {
    return name.kind == kSegmentKind || name.generation == 2;
  };
  EXPECT_THAT(*ListOrphans(&fs_, kDir, knows_one),
              ElementsAre("0000000000000001.planes.1.obj", "0000000000000002.seg.tmp",
                          "0000000000000003.manifest.tmp"));
}

TEST_F(StoreFilesTest, RemovingIsRepeatableAndTakesOneObject) {
  ATTNDB_EXPECT_OK(RemoveSegment(&fs_, kDir, 1));
  ATTNDB_EXPECT_OK(RemoveSegment(&fs_, kDir, 1));
  ATTNDB_EXPECT_OK(RemoveObject(&fs_, kDir, {.segment_id = 1, .kind = "planes", .generation = 1}));
  EXPECT_THAT(*fs_.List(kDir),
              ElementsAre("0000000000000001.planes.2.obj", "0000000000000002.seg",
                          "0000000000000002.seg.tmp", "0000000000000003.manifest.tmp",
                          "0000000000000004.seg.bak", "README"));
}

TEST_F(StoreFilesTest, AnObjectsFilesAreThereIfTheyHaveTheirLengths) {
  const std::string data = JoinPath(kDir, "0000000000000001.seg");
  const std::string manifest = JoinPath(kDir, "0000000000000001.manifest");
  constexpr uint64_t kBytes = 5000;
  const uint64_t all = kBytes + ManifestBytes(kBytes);
  fs_.SetContents(data, std::vector<std::byte>(kBytes));
  fs_.SetContents(manifest, std::vector<std::byte>(ManifestBytes(kBytes)));
  const auto check = [&](uint64_t bytes) {
    return CheckObjectFiles(&fs_, kDir, {.segment_id = 1}, bytes);
  };
  ATTNDB_EXPECT_OK(check(all));
  for (const uint64_t bytes : {all - 1, all + 1}) {
    EXPECT_THAT(check(bytes), FailsWith(StatusCode::kCorruption, HasSubstr(data)));
  }
  fs_.SetContents(manifest, std::vector<std::byte>(ManifestBytes(kBytes) + 1));
  EXPECT_THAT(check(all + 1), FailsWith(StatusCode::kCorruption, HasSubstr(manifest)));
  for (const std::string& path : {manifest, data}) {
    ATTNDB_ASSERT_OK(fs_.Remove(path));
    EXPECT_THAT(check(all), FailsWith(StatusCode::kCorruption, HasSubstr(path)));
  }
}

TEST_F(StoreFilesTest, AnErrorIsPassedOn) {
  test::FaultFileSystem faults(&fs_);
  faults.SetPlan({.fail_at = 2});
  EXPECT_THAT(RemoveSegment(&faults, kDir, 1),
              FailsWith(StatusCode::kIoError, HasSubstr("remove")));
  for (const uint64_t n : {1u, 2u}) {
    faults.SetPlan({.fail_at = n});
    EXPECT_EQ(CheckObjectFiles(&faults, kDir, {.segment_id = 1}, 0).code(), StatusCode::kIoError);
  }
  EXPECT_THAT(ListOrphans(&fs_, "elsewhere", [](const ObjectName&) { return true; }),
              FailsWith(StatusCode::kNotFound, HasSubstr("elsewhere")));
}

}  // namespace
}  // namespace attndb::storage
