// Goal:   Verify finds a byte that differs from the stored one and quarantines its segment. A whole
//         store has no findings. A file that can't be read is not reported as damaged.
// Method: a byte of a segment's file is turned over; each read of a file fails once.
#include "store/verifier.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "derived/kinds.h"
#include "derived/object_files.h"
#include "store/object_path.h"
#include "store/store_test_util.h"
#include "testing/fault_file_system.h"
#include "testing/matchers.h"

namespace attndb::store {
namespace {

using ::testing::HasSubstr;

class VerifierTest : public StoreTest {
 protected:
  // The id, and thus the file's name, of the context's first segment.
  derived::SegmentId SegmentOf(const std::string& context) {
    return store_->lookup()->OpenNamed("t", spec_, context, 0)->chain.entries[0].segment->id();
  }
  // Gives the first segment of context "a" an object, with its files.
  void AddObject() {
    ATTNDB_ASSERT_OK_AND_ASSIGN(const derived::OpenedSegment opened,
                                store_->derived()->OpenSegment(SegmentOf("a")));
    const derived::Kind& kind = kinds_.ForUse(derived::kKeyPlanes);
    const derived::ObjectFiles files(storage::PosixFileSystem(), dir_.File("store/segments"), {});
    ATTNDB_ASSERT_OK_AND_ASSIGN(const uint64_t generation, store_->derived()->ReserveGeneration());
    ATTNDB_ASSERT_OK_AND_ASSIGN(const auto writer,
                                files.Create(*opened.segment, kind, generation, nullptr));
    ATTNDB_ASSERT_OK(
        kind.Write(*opened.segment, opened.spec, nullptr, writer.get(), [](LayerId) {}));
    ATTNDB_ASSERT_OK_AND_ASSIGN(const storage::WrittenObject written, writer->Finish());
    ATTNDB_ASSERT_OK(
        store_->derived()->PublishObject(opened.facts.id, {.kind = kind.traits().object,
                                                           .generation = generation,
                                                           .file_bytes = written.object_bytes,
                                                           .root_hash = written.root_hash}));
  }
};

TEST_F(VerifierTest, TellsHowMuchItHasReadUpToAllOfIt) {
  ATTNDB_ASSERT_OK(Store({1}, {.name = "a"}).status());
  ATTNDB_ASSERT_OK(Store({2}, {.name = "b"}).status());
  std::vector<uint64_t> done;
  uint64_t all = 0;
  const auto progress = [&](uint64_t bytes_done, uint64_t bytes_total) {
    done.push_back(bytes_done);
    all = bytes_total;
    return true;
  };
  ATTNDB_ASSERT_OK_AND_ASSIGN(
      const VerifyReport report,
      store_->verifier()->Verify("t", Verifier::Scope::kStore, {.progress = progress}));
  EXPECT_GT(report.num_bytes, 0u);
  EXPECT_EQ(report.num_bytes, all);
  EXPECT_TRUE(std::ranges::is_sorted(done));
  EXPECT_EQ(done.front(), 0u);
  EXPECT_EQ(done.back(), all);
  // Half of it in between: each of the two segments is told of.
  EXPECT_THAT(done, ::testing::Contains(all / 2));
}

TEST_F(VerifierTest, WhoCancelsIsAskedNoMore) {
  ATTNDB_ASSERT_OK(Store({1}, {.name = "a"}).status());
  ATTNDB_ASSERT_OK(Store({2}, {.name = "b"}).status());
  for (uint64_t last = 1;; ++last) {
    uint64_t num_calls = 0;
    const auto progress = [&](uint64_t, uint64_t) { return ++num_calls < last; };
    const Result<VerifyReport> report =
        store_->verifier()->Verify("t", Verifier::Scope::kStore, {.progress = progress});
    if (report.ok()) {
      EXPECT_LT(num_calls, last);
      EXPECT_GE(last, 4u);  // Asked before the first segment, and after each.
      break;
    }
    EXPECT_THAT(report,
                test::FailsWith(StatusCode::kCancelled, HasSubstr("verify: cancelled after")));
    EXPECT_EQ(num_calls, last);
  }
}

TEST_F(VerifierTest, ATurnedByteIsFoundAndItsSegmentQuarantined) {
  ATTNDB_ASSERT_OK(Store({1}, {.name = "a"}).status());
  ATTNDB_ASSERT_OK(Store({2}, {.name = "b"}).status());
  ATTNDB_ASSERT_OK(store_->background()->Wait(nullptr));
  ATTNDB_ASSERT_OK_AND_ASSIGN(const VerifyReport whole, VerifyAll());
  EXPECT_TRUE(whole.damages.empty());
  EXPECT_EQ(whole.num_segments, 2u);
  ATTNDB_ASSERT_OK_AND_ASSIGN(const ContextInfo info, store_->admin()->Describe("t", "a"));
  const std::string file = dir_.File("store/" + ObjectPath({.segment_id = SegmentOf("a")}));
  std::fstream bytes(file, std::ios::in | std::ios::out | std::ios::binary);
  const auto middle = static_cast<std::streamoff>(std::filesystem::file_size(file) / 2);
  const int turned = bytes.seekg(middle).get() ^ 0x10;
  bytes.seekp(middle).put(static_cast<char>(turned));
  bytes.close();
  ATTNDB_ASSERT_OK_AND_ASSIGN(const VerifyReport report, VerifyAll());
  ASSERT_EQ(report.damages.size(), 1u);
  EXPECT_EQ(report.damages[0].segment_id, info.segments[0].segment_id);
  EXPECT_EQ(report.damages[0].contexts, std::vector<std::string>{"a"});
  EXPECT_TRUE(store_->admin()->Describe("t", "a")->damaged);
  EXPECT_FALSE(store_->admin()->Describe("t", "b")->damaged);
}

TEST_F(VerifierTest, AReadErrorIsToldAndNothingIsGivenUp) {
  test::FaultFileSystem faults(storage::PosixFileSystem());
  Open({}, &faults);
  ATTNDB_ASSERT_OK(Store({1}, {.name = "a"}).status());
  AddObject();
  uint64_t num_of_segment = 0;
  uint64_t num_of_object = 0;
  for (uint64_t n = 1;; ++n) {
    faults.SetPlan({.fail_at = n});
    const Result<VerifyReport> report = VerifyAll();
    const bool met = faults.num_faults() > 0;
    faults.SetPlan({});
    if (!met) {
      ATTNDB_ASSERT_OK(report);
      EXPECT_TRUE(report->ok());
      break;
    }
    ATTNDB_ASSERT_OK_AND_ASSIGN(const ContextInfo info, store_->admin()->Describe("t", "a"));
    ASSERT_FALSE(info.damaged) << n;
    ASSERT_EQ(info.segments[0].companions.size(), 1u) << n;
    if (!report.ok()) {
      EXPECT_EQ(report.status().code(), StatusCode::kIoError) << n;
      continue;
    }
    ASSERT_EQ(report->damages.size(), 1u) << n;
    EXPECT_THAT(report->damages[0].message, HasSubstr("injected fault")) << n;
    EXPECT_TRUE(report->damages[0].contexts.empty()) << n;
    ++(report->damages[0].file.ends_with(".obj") ? num_of_object : num_of_segment);
  }
  EXPECT_GE(num_of_segment, 3u);
  EXPECT_GE(num_of_object, 3u);
}

// A reader tells what it finds, and leaves it to the writer to note it.
TEST_F(VerifierTest, AReaderNotesNothing) {
  ATTNDB_ASSERT_OK(Store({1}, {.name = "a"}).status());
  AddObject();
  std::filesystem::path segment, object;
  for (const auto& entry : std::filesystem::directory_iterator(dir_.File("store/segments"))) {
    if (entry.path().extension() == ".seg") segment = entry.path();
    if (entry.path().extension() == ".obj") object = entry.path();
  }
  Open({.read_only = true});
  const std::filesystem::path aside = dir_.File("aside");
  std::filesystem::rename(segment, aside);
  std::filesystem::rename(object, object.string() + ".aside");
  ATTNDB_ASSERT_OK_AND_ASSIGN(const VerifyReport report, VerifyAll());
  EXPECT_EQ(report.damages.size(), 2u);
  ATTNDB_ASSERT_OK_AND_ASSIGN(const ContextInfo info, store_->admin()->Describe("t", "a"));
  EXPECT_TRUE(info.damaged) << "its file is not there";
  EXPECT_FALSE(store_->admin()->List("t")->front().damaged) << "which the catalog does not know";
  EXPECT_EQ(info.segments[0].companions.size(), 1u);
  // The writer notes it, a reader finds the segment whole again and leaves that to the writer, too.
  Open({});
  EXPECT_FALSE(VerifyAll()->ok());
  EXPECT_TRUE(store_->admin()->Describe("t", "a")->damaged);
  std::filesystem::rename(aside, segment);
  Open({.read_only = true});
  ATTNDB_ASSERT_OK_AND_ASSIGN(const VerifyReport again, VerifyAll());
  EXPECT_EQ(again.damages.size(), 1u);
  EXPECT_TRUE(store_->admin()->Describe("t", "a")->damaged);
}

}  // namespace
}  // namespace attndb::store
