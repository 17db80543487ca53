// Goal:   no call reports tokens as durable whose files are gone or cut. A Store writes them again
//         from the rows in memory, or fails and says why. Running a call again repairs contexts
//         that had lost the files.
// Method: a context whose segment is open when its files are removed, or cut, behind the store's
//         back; its rows in memory or not.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "store/hooked_files_test_util.h"
#include "store/object_path.h"
#include "store/store_test_util.h"
#include "testing/matchers.h"

namespace attndb::store {
namespace {

using storage::ChainEntry;
using storage::ObjectFile;
using test::FailsWith;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class LostFilesTest : public StoreTest {
 protected:
  // A context "a" of one segment.
  void SetUp() override {
    Open({.background_builds = false});
    ATTNDB_ASSERT_OK(Store({1}, {.name = "a"}).status());
    segment_ = FirstOf("a", kTokens).chain.entries[0].segment;
  }
  ~LostFilesTest() override {
    segment_.reset();
    store_.reset();
  }

  std::string PathOf(uint64_t segment, ObjectFile file = ObjectFile::kData) const {
    const std::string name = storage::FileNameOf({.segment_id = segment}, file);
    return dir_.File("store/segments/" + name);
  }
  // Cuts the file, so that nobody who has it open can read its end.
  void Cut() const {
    const std::string path = PathOf(segment_->id());
    std::filesystem::resize_file(path, std::filesystem::file_size(path) / 2);
  }
  std::vector<storage::LayerPin> Pin() const {
    return {segment_->PinLayer(0).value(), segment_->PinLayer(1).value()};
  }
  bool IsDamaged(const std::string& context) const {
    return store_->admin()->Describe("t", context)->damaged;
  }
  std::vector<Damage> Damages() { return VerifyAll()->damages; }

  std::shared_ptr<storage::Segment> segment_;
};

using Files = std::vector<ObjectFile>;
class LostFileTest : public LostFilesTest, public ::testing::WithParamInterface<Files> {
 protected:
  void Lose() {
    for (const ObjectFile file : GetParam()) std::filesystem::remove(PathOf(segment_->id(), file));
  }
};

TEST_P(LostFileTest, WhatIsInMemoryIsWrittenAnewAndMendsTheContextsThatHadIt) {
  const std::vector<storage::LayerPin> pins = Pin();
  Prefix prefix = FirstOf("a", kTokens);
  Lose();
  {  // The stored context is in use, and ends before its store.
    ATTNDB_ASSERT_OK_AND_ASSIGN(const Stored stored, store_->publisher()->Store(Behind(
                                                         std::move(prefix), 2, {.name = "b"})));
    ASSERT_EQ(stored.chain.size(), 1u);
    ExpectKeys(stored.chain, {1, 2});
    EXPECT_FALSE(IsDamaged("b"));
    EXPECT_FALSE(IsDamaged("a"));
    EXPECT_THAT(Damages(), IsEmpty()) << "a reader holds the lost segment, and no context";
    EXPECT_EQ(FirstOf("a", kTokens).chain.entries[0].segment, stored.chain[0].segment);
  }
  segment_.reset();
  Open({});
  EXPECT_THAT(Damages(), IsEmpty());
  ExpectKeys(FirstOf("a", kTokens).chain.entries, {1});
  ExpectKeys(FirstOf("b", 2 * kTokens).chain.entries, {1, 2});
}

TEST_P(LostFileTest, ADescriptionTellsThatFilesAreGone) {
  EXPECT_FALSE(IsDamaged("a"));
  Lose();
  EXPECT_TRUE(IsDamaged("a"));
  EXPECT_TRUE(store_->admin()->List("t")->front().damaged);
}

TEST_P(LostFileTest, AReaderTellsThatFilesAreGoneAndWritesNothingDown) {
  Lose();
  segment_.reset();
  Open({.read_only = true});
  ATTNDB_ASSERT_OK_AND_ASSIGN(const ContextInfo context, store_->admin()->Describe("t", "a"));
  EXPECT_TRUE(context.damaged);
  EXPECT_THAT(context.segments[0].damage, HasSubstr("/segments/"));
  EXPECT_FALSE(store_->admin()->List("t")->front().damaged);
}

// All files of the store's only segment, perhaps.
INSTANTIATE_TEST_SUITE_P(Files, LostFileTest,
                         ::testing::Values(Files{ObjectFile::kData}, Files{ObjectFile::kManifest},
                                           Files{ObjectFile::kData, ObjectFile::kManifest}));

TEST_F(LostFilesTest, WhatIsInNoMemoryIsNotCalledDurable) {
  Prefix prefix = FirstOf("a", kTokens);
  Cut();
  EXPECT_THAT(store_->publisher()->Store(Behind(std::move(prefix), 2, {.name = "b"})),
              FailsWith(StatusCode::kCorruption, HasSubstr(PathOf(segment_->id()))));
  EXPECT_EQ(store_->admin()->List("t")->size(), 1u);
  EXPECT_TRUE(IsDamaged("a"));
  EXPECT_EQ(Damages().size(), 1u);
  // It is run again, behind nothing that is stored.
  ATTNDB_ASSERT_OK(store_->publisher()->Store(Behind({}, 1)).status());
  EXPECT_FALSE(IsDamaged("a"));
  EXPECT_THAT(Damages(), IsEmpty());
  ATTNDB_ASSERT_OK(Store({1, 2}, {.name = "b"}).status());
  ExpectKeys(FirstOf("b", 2 * kTokens).chain.entries, {1, 2});
}

TEST_F(LostFilesTest, WhatIsWrittenAnewMakesRoomOnAFullDisk) {
  HookedFiles files(storage::PosixFileSystem());
  segment_.reset();
  Open({.background_builds = false}, &files);
  {
    segment_ = FirstOf("a", kTokens).chain.entries[0].segment;
    const std::vector<storage::LayerPin> pins = Pin();
    Prefix prefix = FirstOf("a", kTokens);
    std::filesystem::remove(PathOf(segment_->id()));
    bool was_full = false;
    files.before = [&](std::string_view call, const std::string&) {
      // Only once the loss is known, and the rows are about to be written again.
      if (call != "CreateNew" || was_full || !store_->admin()->List("t")->front().damaged) {
        return Status::Ok();
      }
      was_full = true;
      return Status::ResourceExhausted("full");
    };
    const Result<Stored> stored =
        store_->publisher()->Store(Behind(std::move(prefix), 2, {.name = "b"}));
    files.before = nullptr;
    EXPECT_TRUE(was_full);
    ATTNDB_EXPECT_OK(stored.status());
    if (stored.ok()) ExpectKeys(stored->chain, {1, 2});
  }
  segment_.reset();
  store_.reset();
}

TEST_F(LostFilesTest, ARunOfTheBeginningMendsWhatWentOnFromIt) {
  ATTNDB_ASSERT_OK(Store({1, 2}, {.name = "b"}).status());
  Cut();
  EXPECT_EQ(Damages().size(), 1u);
  EXPECT_TRUE(IsDamaged("b"));
  ATTNDB_ASSERT_OK(store_->publisher()->Store(Behind({}, 1)).status());
  EXPECT_FALSE(IsDamaged("b"));
  EXPECT_THAT(Damages(), IsEmpty());
  ExpectKeys(FirstOf("b", 2 * kTokens).chain.entries, {1, 2});
}

TEST_F(LostFilesTest, WhatHasNothingNewIsNotCalledDurableEither) {
  Prefix prefix = FirstOf("a", kTokens);
  std::filesystem::remove(PathOf(segment_->id()));
  const StoreRequest request = Behind(std::move(prefix), std::nullopt);
  for (int i = 0; i < 2; ++i) {
    EXPECT_THAT(store_->publisher()->Store(request),
                FailsWith(StatusCode::kCorruption, HasSubstr(PathOf(segment_->id()))));
  }
}

// A merge gave the base another segment, which a Store takes for it.
TEST_F(LostFilesTest, WhatTheBaseWasMergedIntoIsLookedAtToo) {
  ATTNDB_ASSERT_OK(Store({1, 2}, {.name = "b"}).status());
  Prefix before = FirstOf("b", 2 * kTokens);
  ASSERT_EQ(before.chain.entries.size(), 2u);
  ATTNDB_ASSERT_OK(store_->publisher()->Drop("t", "a"));
  ATTNDB_ASSERT_OK(store_->merger()->Compact("t", {}));
  ATTNDB_ASSERT_OK_AND_ASSIGN(const Prefix merged, Result<Prefix>(FirstOf("b", 2 * kTokens)));
  ASSERT_EQ(merged.chain.entries.size(), 1u);
  std::filesystem::remove(PathOf(merged.chain.entries[0].segment->id()));
  ATTNDB_ASSERT_OK_AND_ASSIGN(
      const Stored stored, store_->publisher()->Store(Behind(std::move(before), 3, {.name = "c"})));
  EXPECT_EQ(stored.chain.size(), 3u);
  ExpectKeys(stored.chain, {1, 2, 3});
  EXPECT_FALSE(IsDamaged("b"));
  EXPECT_FALSE(IsDamaged("c"));
  EXPECT_THAT(Damages(), IsEmpty());
}

// Rows of a chain whose segment was found damaged by somebody else.
TEST_F(LostFilesTest, ASegmentThatIsQuarantinedIsWrittenAnewToo) {
  const std::vector<storage::LayerPin> pins = Pin();
  Prefix prefix = FirstOf("a", kTokens);
  ATTNDB_ASSERT_OK(
      store_->damage()
          ->Quarantine(static_cast<SegmentId>(segment_->id()), {Status::Corruption("bits"), 0})
          .status());
  ATTNDB_ASSERT_OK_AND_ASSIGN(
      const Stored stored, store_->publisher()->Store(Behind(std::move(prefix), 2, {.name = "b"})));
  ExpectKeys(stored.chain, {1, 2});
  EXPECT_FALSE(IsDamaged("a"));
}

TEST_F(LostFilesTest, AnAbsentDiskHarmsNoContext) {
  const std::string segments = dir_.File("store/segments"), away = dir_.File("away");
  std::filesystem::rename(segments, away);
  EXPECT_FALSE(IsDamaged("a"));
  EXPECT_THAT(store_->publisher()->Store(Behind(FirstOf("a", kTokens), 2)),
              FailsWith(StatusCode::kIoError, HasSubstr("was moved, replaced or removed")));
  std::filesystem::rename(away, segments);
  EXPECT_FALSE(IsDamaged("a"));
  ATTNDB_EXPECT_OK(store_->publisher()->Store(Behind(FirstOf("a", kTokens), 2)).status());
}

}  // namespace
}  // namespace attndb::store
