// Goal:   a Store without room waits for work that is about to free some: for readers of a dropped
//         segment, for its removal, and for a merge under way. A Store that waits for its name
//         delays no Store of another name.
// Method: a quota that is full; a job of the background, or a Compact in another thread, that goes
//         on for a while when the call has begun.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <future>
#include <thread>
#include <utility>

#include "store/hooked_files_test_util.h"
#include "store/store_test_util.h"
#include "testing/event.h"
#include "testing/matchers.h"

namespace attndb::store {
namespace {

class PublisherWaitsTest : public StoreTest {
 protected:
  PublisherWaitsTest() {
    Open({.background_builds = false}, &files_);
    MakeTail(kSmall, 1);
  }
  ~PublisherWaitsTest() override {
    go_.Set();
    store_.reset();  // Its jobs use what follows.
  }

  // Work of some milliseconds.
  void GoOn() const {
    for (int i = 0; i < 300; ++i) (void)store_->admin()->List("t");
  }
  void FillQuota() {
    ATTNDB_ASSERT_OK_AND_ASSIGN(const DBStats stats, store_->Stats("t", true));
    ATTNDB_ASSERT_OK(store_->admin()->SetQuota("t", stats.file_bytes));
  }
  // Drops the only context while a job reads its segment, which fills the quota until then.
  void DropUnderAReader() {
    ATTNDB_ASSERT_OK(Store({1}, {.name = "a"}).status());
    FillQuota();
    const derived::SegmentId segment = FirstOf("a", 1).chain.entries[0].segment->id();
    store_->background()->Add(
        kShortLane, {.subject = segment, .run = [this, segment](derived::Lanes::Control*) {
                       {
                         const auto held = store_->derived()->OpenSegment(segment);
                         begun_.Set();
                         go_.Await();
                         GoOn();
                       }
                       store_->derived()->SegmentReleased();
                       return Status::Ok();
                     }});
    begun_.Await();
    ATTNDB_ASSERT_OK(store_->publisher()->Drop("t", "a"));
    ASSERT_EQ(store_->Stats("t", true)->num_segments, 1u);
    go_.Set();
  }
  // A Compact that makes one segment of three, of a context that fills the quota.
  std::future<Status> BeginCompact() {
    ATTNDB_EXPECT_OK(Store({1}).status());
    ATTNDB_EXPECT_OK(Store({1, 2}).status());
    ATTNDB_EXPECT_OK(Store({1, 2, 3}, {.name = "c", .pin = true}).status());
    ATTNDB_EXPECT_OK(store_->publisher()->Drop("t", "#1"));
    ATTNDB_EXPECT_OK(store_->publisher()->Drop("t", "#2"));
    FillQuota();
    const auto progress = [this, is_first = true](uint64_t, uint64_t) mutable {
      if (!std::exchange(is_first, false)) return true;
      begun_.Set();
      go_.Await();
      GoOn();
      return true;
    };
    std::future<Status> compact = std::async(std::launch::async, [this, progress] {
      return store_->merger()->Compact("t", {.progress = progress});
    });
    begun_.Await();
    EXPECT_EQ(store_->Stats("t", true)->num_segments, 3u);
    go_.Set();
    return compact;
  }
  Status StoreSmall() { return store_->publisher()->Store(Behind({}, kSmall)).status(); }
  Status CheckRoom(bool wait = true) {
    return store_->publisher()
        ->CheckRoom({.tenant = "t",
                     .prefix = {},
                     .bytes_from =
                         [](uint64_t) {
                           return Result<Publisher::RoomRequest::Bytes>(
                               {.file_bytes = 1, .kv_bytes = 1});
                         },
                     .wait = wait})
        .status();
  }

  static constexpr uint64_t kSmall = 9;  // A tail of one token.
  test::Event begun_, go_, removing_;
  HookedFiles files_{storage::PosixFileSystem()};
};

TEST_F(PublisherWaitsTest, AStoreWaitsForWhoReadsWhatWasDropped) {
  DropUnderAReader();
  ATTNDB_EXPECT_OK(StoreSmall());
}

TEST_F(PublisherWaitsTest, AStoreWaitsForWhatIsBeingRemoved) {
  files_.before = [this, is_stored = false](std::string_view call,
                                            const std::string& path) mutable {
    // A segment is marked before a context has it, and once none has it any more.
    if (call != "CreateNew" || !path.ends_with(".loose")) return Status::Ok();
    if (!std::exchange(is_stored, true)) return Status::Ok();
    if (!removing_.IsSet()) {
      removing_.Set();
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
    }
    return Status::Ok();
  };
  DropUnderAReader();
  removing_.Await();  // Its reader has let go, and it has not gone yet.
  ATTNDB_EXPECT_OK(StoreSmall());
}

TEST_F(PublisherWaitsTest, StoresThatWaitForTheirNameHoldUpNoOthers) {
  std::atomic<bool> is_first = true;
  files_.before = [&](std::string_view call, const std::string&) {
    if (call == "CreateNew" && is_first.exchange(false)) {
      begun_.Set();
      go_.Await();
    }
    return Status::Ok();
  };
  constexpr uint64_t kNum = Writers::kMaxThreads;
  std::atomic<uint64_t> num_stored = 0;
  test::Event all_stored, other_stored;
  for (uint64_t tail = 0; tail < kNum; ++tail) {
    MakeTail(tail, 1);
    store_->publisher()->StoreLater(Behind({}, tail, {.name = "x", .replace = true}),
                                    [&](const Result<Stored>& stored) {
                                      ATTNDB_EXPECT_OK(stored.status());
                                      if (num_stored.fetch_add(1) + 1 == kNum) all_stored.Set();
                                    });
    if (tail == 0) begun_.Await();
  }
  StoreRequest other = Behind({}, kNum, {.name = "x"});
  other.tenant = "u";
  store_->publisher()->StoreLater(std::move(other), [&](const Result<Stored>& stored) {
    ATTNDB_EXPECT_OK(stored.status());
    other_stored.Set();
  });
  other_stored.Await();
  EXPECT_EQ(num_stored.load(), 0u);
  go_.Set();
  all_stored.Await();
  ATTNDB_ASSERT_OK_AND_ASSIGN(const WholeContext last,
                              store_->lookup()->OpenNamed("t", spec_, "x", 0));
  EXPECT_EQ(last.chain.tokens, Tokens({kNum - 1}));
}

TEST_F(PublisherWaitsTest, WhatIsToBeStoredIsCheckedWhenTheyHaveEnded) {
  DropUnderAReader();
  ATTNDB_EXPECT_OK(store_->publisher()->CheckStore({.tenant = "t"}, 1));
}

TEST_F(PublisherWaitsTest, RoomIsLookedForWhenTheyHaveEnded) {
  DropUnderAReader();
  ATTNDB_EXPECT_OK(CheckRoom());
}

TEST_F(PublisherWaitsTest, AStoreWaitsForAMerge) {
  std::future<Status> compact = BeginCompact();
  ATTNDB_EXPECT_OK(StoreSmall());
  ATTNDB_EXPECT_OK(compact.get());
}

TEST_F(PublisherWaitsTest, RoomIsLookedForBehindAMerge) {
  std::future<Status> compact = BeginCompact();
  ATTNDB_EXPECT_OK(CheckRoom());
  ATTNDB_EXPECT_OK(compact.get());
}

}  // namespace
}  // namespace attndb::store
