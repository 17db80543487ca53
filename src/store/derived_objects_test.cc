// Goal:   a derived object takes no room that its tenant or the disk lacks, neither when its build
//         begins nor when it is published. It is given up only for wrong bytes.
// Method: a store of one small segment, whose objects are published by hand; losses of each kind
//         told to it.
#include "store/derived_objects.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <thread>

#include "store/hooked_files_test_util.h"
#include "store/object_path.h"
#include "store/store_test_util.h"
#include "testing/event.h"
#include "testing/matchers.h"

namespace attndb::store {
namespace {

// While it lives, this process can make no file longer, as on a disk that is full to the last byte.
class NoFileGrows {
 public:
  NoFileGrows() : handler_(std::signal(SIGXFSZ, SIG_IGN)) {
    ::getrlimit(RLIMIT_FSIZE, &before_);
    rlimit none = before_;
    none.rlim_cur = 0;
    ::setrlimit(RLIMIT_FSIZE, &none);
  }
  ~NoFileGrows() {
    ::setrlimit(RLIMIT_FSIZE, &before_);
    std::signal(SIGXFSZ, handler_);
  }

 private:
  void (*const handler_)(int);
  rlimit before_{};
};

class StoreDerivedObjectsTest : public StoreTest {
 protected:
  static constexpr const char* kKind = "made_up";

  // Stores a context of one segment, whose tenant has room for so many bytes more.
  void StoreWithRoomFor(uint64_t num_bytes) {
    ATTNDB_ASSERT_OK(Store({1}, {.name = "a"}).status());
    ATTNDB_ASSERT_OK_AND_ASSIGN(const DBStats stats, store_->Stats("t", true));
    ATTNDB_ASSERT_OK(store_->admin()->SetQuota("t", stats.file_bytes + num_bytes));
  }
  derived::SegmentId segment() const {
    return store_->lookup()->OpenNamed("t", spec_, "a", 0)->chain.entries[0].segment->id();
  }
  Status Publish(uint64_t generation, uint64_t file_bytes, const std::string& kind = kKind) {
    return store_->derived()->PublishObject(
        segment(), {.kind = kind, .generation = generation, .file_bytes = file_bytes});
  }
  // A kind of which a build that is cut short keeps what it has made.
  const derived::Kind& KindThatIsKept() const {
    return **std::ranges::find_if(kinds_.all(),
                                  [](const auto& kind) { return !kind->traits().begun.empty(); });
  }
  // Generations of the segment's objects, as the catalog knows them.
  std::vector<uint64_t> Generations() const {
    std::vector<uint64_t> generations;
    const derived::OpenedSegment opened = *store_->derived()->OpenSegment(segment());
    for (const derived::ObjectRecord& object : opened.facts.objects) {
      generations.push_back(object.generation);
    }
    return generations;
  }
};

TEST_F(StoreDerivedObjectsTest, NoneIsBegunThatTheQuotaHasNoRoomFor) {
  StoreWithRoomFor(1000);
  ATTNDB_EXPECT_OK(store_->derived()->Admit(segment(), kKind, 1000));
  EXPECT_EQ(store_->derived()->Admit(segment(), kKind, 1001).code(),
            StatusCode::kFailedPrecondition);
}

// Others may have filled the quota while it was built.
TEST_F(StoreDerivedObjectsTest, NoneIsPublishedThatTheQuotaHasNoRoomFor) {
  StoreWithRoomFor(1000);
  EXPECT_EQ(Publish(1, 1001).code(), StatusCode::kFailedPrecondition);
  EXPECT_TRUE(Generations().empty());
  ATTNDB_EXPECT_OK(Publish(2, 1000));
  EXPECT_EQ(Generations(), std::vector<uint64_t>{2});
}

// The heads that a build had made when it was cut short do not count beside those of the next one.
TEST_F(StoreDerivedObjectsTest, ABuildThatWasCutShortLeavesRoomForItsCompletion) {
  const derived::Kind& kind = KindThatIsKept();
  StoreWithRoomFor(1000);
  const std::string& begun = kind.traits().begun;
  const std::string& whole = kind.traits().object;
  ATTNDB_ASSERT_OK(Publish(1, 600, begun));
  ATTNDB_EXPECT_OK(Publish(2, 800, begun));
  ATTNDB_EXPECT_OK(store_->derived()->Admit(segment(), whole, 1000));
  EXPECT_EQ(store_->derived()->Admit(segment(), whole, 1001).code(),
            StatusCode::kFailedPrecondition);
  EXPECT_EQ(store_->derived()->Admit(segment(), kKind, 201).code(),
            StatusCode::kFailedPrecondition);
  EXPECT_EQ(Publish(3, 1001, whole).code(), StatusCode::kFailedPrecondition);
  EXPECT_EQ(Generations(), std::vector<uint64_t>{2});
  ATTNDB_EXPECT_OK(Publish(4, 1000, whole));
}

TEST_F(StoreDerivedObjectsTest, ABuildThatWasCutShortGoesWhereTheDiskHasNoRoomBesideIt) {
  const derived::Kind& kind = KindThatIsKept();
  HookedFiles files(storage::PosixFileSystem());
  Open({.background_builds = false}, &files);
  ATTNDB_ASSERT_OK(Store({1}, {.name = "a"}).status());
  ATTNDB_ASSERT_OK(Publish(1, 800, kind.traits().begun));
  const auto admit = [&](uint64_t bytes) {
    return store_->derived()->Admit(segment(), kind.traits().object, bytes);
  };
  files.free_bytes = [&] {
    return Result<uint64_t>(Generations().empty() ? uint64_t{2000} : uint64_t{1200});
  };
  EXPECT_EQ(admit(1001).code(), StatusCode::kFailedPrecondition);
  ATTNDB_EXPECT_OK(admit(600));
  EXPECT_EQ(Generations(), std::vector<uint64_t>{1});
  ATTNDB_EXPECT_OK(admit(1000));
  EXPECT_TRUE(Generations().empty());
  store_.reset();
}

TEST_F(StoreDerivedObjectsTest, OneThatTookAnothersPlaceLeavesNoFile) {
  ATTNDB_ASSERT_OK(Store({1}, {.name = "a"}).status());
  ATTNDB_ASSERT_OK(Publish(5, 10));
  const std::string file = dir_.File("store/" + ObjectPath({segment(), kKind, 5}));
  std::ofstream(file) << "whatever";
  ATTNDB_ASSERT_OK(Publish(6, 10));
  EXPECT_EQ(Generations(), std::vector<uint64_t>{6});
  EXPECT_FALSE(std::filesystem::exists(file));
  EXPECT_EQ(store_->Stats("t", true)->num_companions_built, 2u);
}

TEST_F(StoreDerivedObjectsTest, OneThatIsGivenUpIsNotLookedForOnDisk) {
  ATTNDB_ASSERT_OK(Store({1}, {.name = "a"}).status());
  const derived::Kind& kind = *kinds_.all()[0];
  ATTNDB_ASSERT_OK(store_->derived()->PublishObject(
      segment(), {.kind = kind.traits().object, .generation = 5, .file_bytes = 10}));
  const derived::SegmentId id = segment();  // Opened once more: what there is, is learnt.
  EXPECT_TRUE(store_->objects().IsOnDisk(id, kind));
  store_->derived()->GiveUp();
  EXPECT_FALSE(store_->objects().IsOnDisk(id, kind));
}

TEST_F(StoreDerivedObjectsTest, GivingThemUpEndsWhatBuildsThem) {
  std::atomic<bool> is_over = false;
  test::Event begun;
  store_->background()->Add(derived::kSlowLane, {.run = [&](derived::Lanes::Control* control) {
                              begun.Set();
                              while (!*control->cancel() && !is_over) std::this_thread::yield();
                              return Status::Cancelled(is_over.exchange(true) ? "" : "as told");
                            }});
  begun.Await();
  store_->derived()->GiveUp();
  EXPECT_TRUE(is_over.exchange(true));
  (void)store_->background()->Wait(nullptr);
}

// The short lane moves sessions, removes files and quarantines: nobody asks for that again.
TEST_F(StoreDerivedObjectsTest, GivingThemUpLeavesOtherWorkAlone) {
  test::Event begun;
  test::Event go;
  std::atomic<bool> is_done = false;
  store_->background()->Add(kShortLane, {.run = [&](derived::Lanes::Control* control) {
                              begun.Set();
                              while (!*control->cancel() && !go.IsSet()) std::this_thread::yield();
                              return Status::Ok();
                            }});
  begun.Await();
  store_->background()->Add(kShortLane, {.run = [&](derived::Lanes::Control*) {
                              is_done = true;
                              return Status::Ok();
                            }});
  store_->derived()->GiveUp();
  go.Set();
  ATTNDB_EXPECT_OK(store_->background()->Wait(nullptr));
  EXPECT_TRUE(is_done);
}

TEST_F(StoreDerivedObjectsTest, WhatIsWishedForIsPendingIfThereIsSuchAKind) {
  ATTNDB_ASSERT_OK(Store({1}, {.name = "a"}).status());
  ATTNDB_ASSERT_OK(store_->derived()->Wish(segment(), "unknown"));
  EXPECT_EQ(store_->Stats("t", false)->num_pending_companions, 0u);
  ATTNDB_ASSERT_OK(store_->derived()->Wish(segment(), kinds_.all()[0]->traits().object));
  EXPECT_EQ(store_->Stats("t", false)->num_pending_companions, 1u);
}

TEST_F(StoreDerivedObjectsTest, NoneIsBegunThatTheDiskHasNoRoomFor) {
  ATTNDB_ASSERT_OK(Store({1}, {.name = "a"}).status());
  ATTNDB_EXPECT_OK(store_->derived()->Admit(segment(), kKind, 1000));
  EXPECT_EQ(store_->derived()->Admit(segment(), kKind, uint64_t{1} << 60).code(),
            StatusCode::kFailedPrecondition);
}

TEST_F(StoreDerivedObjectsTest, OneThatCouldNotBeReadIsGivenUpForWrongBytesAlone) {
  ATTNDB_ASSERT_OK(Store({1}, {.name = "a"}).status());
  ATTNDB_ASSERT_OK(Publish(5, 10));
  const storage::ObjectName name = {segment(), kKind, 5};
  const std::string file = dir_.File("store/" + ObjectPath(name));
  std::ofstream(file) << "whatever";
  for (const StatusCode code :
       {StatusCode::kIoError, StatusCode::kResourceExhausted, StatusCode::kNotFound,
        StatusCode::kUnsupported, StatusCode::kCancelled}) {
    store_->derived()->ReportLoss(name, Status(code, "test"));
    EXPECT_EQ(Generations(), std::vector<uint64_t>{5}) << static_cast<int>(code);
    EXPECT_TRUE(std::filesystem::exists(file)) << static_cast<int>(code);
  }
  store_->derived()->ReportLoss({segment(), kKind, 4}, Status::Corruption("of an older one"));
  EXPECT_EQ(Generations(), std::vector<uint64_t>{5});
  store_->derived()->ReportLoss(name, Status::Corruption("test"));
  EXPECT_TRUE(Generations().empty());
  EXPECT_FALSE(std::filesystem::exists(file));
}

// Not even the catalog: the files make the room, and who finds a row without one drops it.
TEST_F(StoreDerivedObjectsTest, WhereNothingCanBeWrittenFilesAreGivenUpAllTheSame) {
  ATTNDB_ASSERT_OK(Store({1}, {.name = "a"}).status());
  ATTNDB_ASSERT_OK(Publish(5, 10));
  const std::string file = dir_.File("store/" + ObjectPath({segment(), kKind, 5}));
  std::ofstream(file) << "whatever";
  {
    const NoFileGrows full;
    store_->derived()->GiveUp();
  }
  EXPECT_FALSE(std::filesystem::exists(file));
  EXPECT_EQ(Generations(), std::vector<uint64_t>{5});
  store_->derived()->GiveUp();
  EXPECT_TRUE(Generations().empty());
}

TEST_F(StoreDerivedObjectsTest, AReaderGivesNothingUp) {
  ATTNDB_ASSERT_OK(Store({1}, {.name = "a"}).status());
  ATTNDB_ASSERT_OK(Publish(5, 10));
  const storage::ObjectName name = {segment(), kKind, 5};
  const std::string file = dir_.File("store/" + ObjectPath(name));
  Open({.read_only = true});
  std::ofstream(file) << "whatever";
  store_->derived()->ReportLoss(name, Status::Corruption("test"));
  EXPECT_EQ(Generations(), std::vector<uint64_t>{5});
  EXPECT_TRUE(std::filesystem::exists(file));
}

TEST_F(StoreDerivedObjectsTest, ASegmentThatCouldNotBeReadIsHarmedByWrongBytesAlone) {
  ATTNDB_ASSERT_OK(Store({1}, {.name = "a"}).status());
  ATTNDB_ASSERT_OK_AND_ASSIGN(const derived::OpenedSegment opened,
                              store_->derived()->OpenSegment(segment()));
  const std::string file = dir_.File("store/" + ObjectPath({.segment_id = segment()}));
  std::filesystem::resize_file(file, std::filesystem::file_size(file) / 2);
  for (const StatusCode code : {StatusCode::kIoError, StatusCode::kResourceExhausted,
                                StatusCode::kCancelled, StatusCode::kFailedPrecondition}) {
    store_->derived()->ReportDamage(*opened.segment, Status(code, "test"));
    store_->damage()->Note(*opened.segment, Status(code, "test"));
    ATTNDB_ASSERT_OK(store_->background()->Wait(nullptr));
    EXPECT_EQ(store_->Stats("t", true)->num_damaged_segments, 0u) << static_cast<int>(code);
  }
  store_->damage()->Note(*opened.segment, Status::Corruption("test"));
  ATTNDB_ASSERT_OK(store_->background()->Wait(nullptr));
  EXPECT_EQ(store_->Stats("t", true)->num_damaged_segments, 1u);
}

// It was seen once, as where memory fails: it is noted, so that nothing is made from it, and no
// token was lost.
TEST_F(StoreDerivedObjectsTest, DamageThatIsNotThereWhenItIsReadAgainHarmsNobody) {
  ATTNDB_ASSERT_OK(Store({1}, {.name = "a"}).status());
  ATTNDB_ASSERT_OK_AND_ASSIGN(const derived::OpenedSegment opened,
                              store_->derived()->OpenSegment(segment()));
  store_->derived()->ReportDamage(*opened.segment, Status::Corruption("seen once"));
  ATTNDB_ASSERT_OK_AND_ASSIGN(const ContextInfo info, store_->admin()->Describe("t", "a"));
  EXPECT_FALSE(info.damaged);
  EXPECT_THAT(info.segments[0].damage, ::testing::StartsWith("seen once"));
  EXPECT_TRUE(VerifyAll()->ok());
  EXPECT_EQ(store_->admin()->Describe("t", "a")->segments[0].damage, "");
}

}  // namespace
}  // namespace attndb::store
