// Goal:   segments stay as long as a reader holds them, and a context is opened only as far as the
//         caller asks.
// Method: a store whose contexts are dropped while their chains are held; a file system whose calls
//         the test answers.
#include "store/uses.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>

#include "store/hooked_files_test_util.h"
#include "store/store_test_util.h"
#include "testing/event.h"
#include "testing/matchers.h"

namespace attndb::store {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class UsesTest : public StoreTest {
 protected:
  ~UsesTest() override { store_.reset(); }  // While its files are there.

  // No mark of a segment that no context uses can be made, for that reason.
  void OpenWithoutMarks(StatusCode why) {
    Open({.background_builds = false}, &files_);
    ATTNDB_ASSERT_OK(Store({1}, {.name = "a"}).status());
    files_.before = [why](std::string_view call, const std::string& path) {
      return call == "CreateNew" && path.ends_with(".loose") ? Status(why, "test") : Status::Ok();
    };
  }
  uint64_t NumSegments() { return store_->Stats("t", true)->num_segments; }
  bool HasNoFiles() const { return std::filesystem::is_empty(dir_.File("store/segments")); }

  HookedFiles files_{storage::PosixFileSystem()};
};

TEST_F(UsesTest, FilesOfADroppedContextStayUntilNobodyReadsThem) {
  ATTNDB_ASSERT_OK_AND_ASSIGN(Stored stored, Store({1}, {.name = "a"}));
  std::vector<storage::ChainEntry> chain = std::move(stored.chain);
  stored = {};
  ATTNDB_ASSERT_OK(store_->publisher()->Drop("t", "a"));
  ExpectKeys(chain, {1});
  EXPECT_EQ(NumSegments(), 1u);
  EXPECT_THAT(store_->uses()->Unreferenced(),
              ElementsAre(static_cast<SegmentId>(chain[0].segment->id())));
  chain.clear();
  store_->uses()->Sweep();
  EXPECT_EQ(NumSegments(), 0u);
  EXPECT_THAT(store_->uses()->Unreferenced(), IsEmpty());
}

TEST_F(UsesTest, WhereThereIsNoRoomForAMarkFilesGoWithoutOne) {
  OpenWithoutMarks(StatusCode::kResourceExhausted);
  ATTNDB_EXPECT_OK(store_->publisher()->Drop("t", "a"));
  EXPECT_EQ(NumSegments(), 0u);
  EXPECT_TRUE(HasNoFiles());
}

TEST_F(UsesTest, WhereAMarkCanNotBeMadeTheNextOpenRemovesTheFiles) {
  OpenWithoutMarks(StatusCode::kIoError);
  ATTNDB_EXPECT_OK(store_->publisher()->Drop("t", "a"));
  EXPECT_EQ(NumSegments(), 1u);
  EXPECT_FALSE(HasNoFiles());
  Open({.background_builds = false});
  EXPECT_EQ(NumSegments(), 0u);
  EXPECT_TRUE(HasNoFiles());
  EXPECT_FALSE(std::filesystem::exists(dir_.File("store/aside")));
}

TEST_F(UsesTest, ASegmentThatAContextUsesAgainLosesItsMark) {
  Open({.background_builds = false});
  ATTNDB_ASSERT_OK(Store({1}, {.name = "first"}).status());
  ATTNDB_ASSERT_OK(Store({1, 2}, {.name = "both"}).status());
  {
    const Prefix both = FirstOf("both", 2 * kTokens);
    ATTNDB_ASSERT_OK(store_->publisher()->Drop("t", "first"));
    ATTNDB_ASSERT_OK(store_->publisher()->Drop("t", "both"));
    Prefix first = both;
    first.chain.entries.pop_back();
    first.chain.tokens.resize(kTokens);
    ATTNDB_ASSERT_OK(
        store_->publisher()->Store(Behind(first, std::nullopt, {.name = "again"})).status());
  }
  EXPECT_EQ(NumSegments(), 2u);
  store_->uses()->Sweep();
  EXPECT_EQ(NumSegments(), 1u);
  for (const auto& entry : std::filesystem::directory_iterator(dir_.File("store/segments"))) {
    EXPECT_NE(entry.path().extension(), ".loose");
  }
  ExpectKeys(FirstOf("again", kTokens).chain.entries, {1});
}

TEST_F(UsesTest, WorkOnASegmentThatNoContextUsesIsCancelled) {
  ATTNDB_ASSERT_OK(Store({1}, {.name = "a"}).status());
  const uint64_t segment = FirstOf("a", 1).chain.entries[0].segment->id();
  std::atomic<const std::atomic<bool>*> cancel = nullptr;
  test::Event begun, go;
  store_->background()->Add(kShortLane,
                            {.subject = segment, .run = [&](derived::Lanes::Control* control) {
                               cancel = control->cancel();
                               begun.Set();
                               go.Await();
                               return Status::Ok();
                             }});
  begun.Await();
  EXPECT_FALSE(cancel.load()->load());
  ATTNDB_EXPECT_OK(store_->publisher()->Drop("t", "a"));
  EXPECT_TRUE(cancel.load()->load());
  go.Set();
  ATTNDB_EXPECT_OK(store_->background()->Wait(nullptr));
}

TEST_F(UsesTest, ASegmentThatIsGoneIsNoneToWorkOn) {
  EXPECT_EQ(store_->uses()->OpenSegment(999).status().code(), StatusCode::kFailedPrecondition);
}

TEST_F(UsesTest, AContextIsOpenedAsFarAsItIsAskedFor) {
  ATTNDB_ASSERT_OK(Store({1}).status());
  ATTNDB_ASSERT_OK_AND_ASSIGN(const Stored stored, Store({1, 2}));
  ATTNDB_ASSERT_OK_AND_ASSIGN(const auto whole, store_->uses()->OpenContext(stored.context));
  ExpectKeys(whole, {1, 2});
  ATTNDB_ASSERT_OK_AND_ASSIGN(const auto part, store_->uses()->OpenContext(stored.context, 7));
  ASSERT_EQ(part.size(), 1u);
  EXPECT_EQ(part[0].num_tokens_used, 7u);
  EXPECT_EQ(part[0].segment, whole[0].segment);
  ATTNDB_ASSERT_OK_AND_ASSIGN(const auto again,
                              store_->uses()->OpenContext(stored.context, kTokens + 1, whole));
  ASSERT_EQ(again.size(), 2u);
  EXPECT_EQ(again[1].num_tokens_used, 1u);
  EXPECT_EQ(store_->uses()->OpenContext(ContextId{999}).status().code(), StatusCode::kNotFound);
}

TEST_F(UsesTest, AContextIsInUseUntilItsLastHoldIsGone) {
  ATTNDB_ASSERT_OK_AND_ASSIGN(Stored stored, Store({1}));
  std::shared_ptr<const void> second = store_->uses()->Hold(stored.context);
  const std::vector<ContextId> used = {stored.context};
  EXPECT_EQ(store_->uses()->ContextsInUse(), used);
  stored.hold = nullptr;
  EXPECT_EQ(store_->uses()->ContextsInUse(), used);
  second = nullptr;
  EXPECT_TRUE(store_->uses()->ContextsInUse().empty());
  EXPECT_EQ(store_->uses()->Hold(ContextId::kNone), nullptr);
}

}  // namespace
}  // namespace attndb::store
