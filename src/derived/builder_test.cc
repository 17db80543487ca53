// Goal:   derived objects that sessions ask for are built in the background, on disk where the
//         store allows that and otherwise in memory. No caller waits, wherever the background is
//         stuck. Objects that were requested and not built become wishes.
// Method: a store of one segment, kinds that copy bytes, and gates that builds wait at.
#include "derived/builder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <span>
#include <thread>

#include "attndb/custom_index.h"
#include "common/aligned_buffer.h"
#include "derived/custom_kind.h"
#include "derived/derived_test_util.h"
#include "storage/kv/kv_layout.h"
#include "testing/event.h"

namespace attndb::derived {
namespace {

using test::Event;
using test::FailsWith;
using test::FakeStore;
using test::FirstBytesKind;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

constexpr uint64_t kPlenty = uint64_t{1} << 30;

class SizedObject final : public CustomObject {
 public:
  explicit SizedObject(uint64_t bytes) : bytes_(bytes) {}
  uint64_t memory_bytes() const override { return bytes_; }

 private:
  const uint64_t bytes_;
};

// A caller's own index, whose objects say that they take so many bytes.
class SizedIndex final : public CustomIndex {
 public:
  explicit SizedIndex(uint64_t bytes) : bytes_(bytes) {}
  Result<CustomObjectPtr> Build(const CustomRows&) const override {
    return CustomObjectPtr(std::make_shared<const SizedObject>(bytes_));
  }
  Status Select(const CustomQuery&, std::span<CustomSelection>) const override {
    return Status::Ok();
  }

 private:
  const uint64_t bytes_;
};

class BuilderTest : public ::testing::Test {
 protected:
  // Builds of "slow" wait for release_slow_. Builds of "broken" fail with broken_. Builds of
  // "growing" note the object they grow from. "custom_small" and "custom_large" are a caller's own
  // kinds; there is never room for "custom_large".
  explicit BuilderTest(const Builder::Options& options = {}, uint64_t memory_bytes = kPlenty)
      : budget_(memory_bytes),
        store_(&budget_),
        kinds_(MakeKinds()),
        cache_(&kinds_, &budget_, &store_.files(),
               [this](const auto& name, const Kind& kind, const Status& status) {
                 builder_.ReportLoss(name, kind, status);
               }),
        builder_({&kinds_, &cache_, &budget_, &store_.files(), &store_, &lanes_},
                 WithClock(options)) {
    cache_.Learn(store_.segment_ptr(), store_.facts());
  }
  ~BuilderTest() override {
    release_slow_.Set();
    unstick_.Set();
  }
  void TearDown() override {
    for (const Status& status : store_.TakeDamage()) {
      EXPECT_EQ(status.code(), StatusCode::kCancelled) << status;
    }
  }

  Builder::Options WithClock(Builder::Options options) {
    options.clock = [this] { return now_ns_.load(); };
    return options;
  }

  Kinds MakeKinds() {
    Kinds kinds;
    Kind::Traits always = FirstBytesKind::Of("always");
    always.always = true;
    kinds.Add(std::make_unique<FirstBytesKind>(always));
    kinds.Add(std::make_unique<FirstBytesKind>(FirstBytesKind::Of("asked")));
    Kind::Traits slow = FirstBytesKind::Of("slow");
    slow.slow = true;
    kinds.Add(std::make_unique<FirstBytesKind>(slow, [this](const HeadSource&) {
      release_slow_.Await();
      return Status::Ok();
    }));
    kinds.Add(std::make_unique<FirstBytesKind>(FirstBytesKind::Of("broken"),
                                               [this](const HeadSource&) { return broken_; }));
    Kind::Traits growing = FirstBytesKind::Of("growing");
    growing.grows = true;
    kinds.Add(std::make_unique<FirstBytesKind>(growing, [this](const HeadSource& source) {
      priors_.push_back(source.prior == nullptr ? 0 : source.prior->num_tokens);
      return Status::Ok();
    }));
    kinds.Add(MakeCustomKind({.name = "small", .index = std::make_shared<const SizedIndex>(100)}));
    kinds.Add(
        MakeCustomKind({.name = "large", .index = std::make_shared<const SizedIndex>(kPlenty)}));
    return kinds;
  }
  const Kind& KindOf(const char* name) const { return kinds_.ForUse(name); }
  LayerObjectsPtr Get(const char* kind, LayerId layer = 0) {
    return builder_.Get(store_.segment(), KindOf(kind), layer, store_.spec().layers[layer]);
  }
  void ExpectReady(const char* kind) {
    const LayerObjectsPtr objects = Get(kind);
    ASSERT_NE(objects, nullptr) << kind;
    for (const uint32_t head : {0u, 1u}) {
      EXPECT_EQ(FirstBytesKind::BytesOf(objects->head(head)), store_.ExpectedOf(head)) << kind;
    }
  }
  Lanes::AddedPtr Order(const char* kind) { return builder_.Order(store_.facts(), KindOf(kind)); }
  Lanes::AddedPtr JobOf(const char* kind) const {
    return builder_.JobOf(store_.segment(), KindOf(kind));
  }
  void Wait() { ATTNDB_EXPECT_OK(lanes_.Wait(nullptr)); }
  // Until unstick_ is set the lanes run no other job, as if this one took for ever.
  void Stick() {
    for (const size_t lane : {kFastLane, kSlowLane}) {
      lanes_.Add(lane, {.run = [this](Lanes::Control*) {
                   unstick_.Await();
                   return Status::Ok();
                 }});
    }
  }
  bool IsOver(const Lanes::AddedPtr& job) {
    return lanes_.WaitFor({&job, 1}, [](uint64_t, uint64_t) { return false; }).ok();
  }
  std::vector<std::string> OnDisk() const {
    std::vector<std::string> kinds;
    for (const ObjectRecord& object : store_.facts().objects) kinds.push_back(object.kind);
    std::ranges::sort(kinds);
    return kinds;
  }

  std::atomic<int64_t> now_ns_ = 5 * Builder::kAskAgainNs;
  storage::MemoryBudget budget_;
  Event release_slow_;
  Event unstick_;
  Status broken_;
  std::vector<uint64_t> priors_;  // Tokens that each head of "growing" grew from.
  FakeStore store_;
  const Kinds kinds_;
  Cache cache_;
  Builder builder_;
  Lanes lanes_{{Lanes::Priority::kLowest, Lanes::Priority::kLowest}, 1};
};

TEST_F(BuilderTest, WhatIsAskedForIsWrittenOnceAndThenReady) {
  for (int i = 0; i < 10; ++i) (void)Get("asked");
  Wait();
  ExpectReady("asked");
  EXPECT_THAT(OnDisk(), ElementsAre("asked"));
  EXPECT_EQ(builder_.num_written(), 1u);
  EXPECT_EQ(cache_.counters(KindOf("asked")).num_built, 0u);
  EXPECT_EQ(Get("asked", 1)->head(0).owner, nullptr)
      << "no plan is looked at in a layer with a window";
}

TEST_F(BuilderTest, TheStoreSchedulesWhatEverySegmentHas) {
  EXPECT_TRUE(builder_.IsPending(store_.facts()));
  builder_.Schedule(store_.facts());
  Wait();
  EXPECT_THAT(OnDisk(), ElementsAre("always"));
  EXPECT_FALSE(builder_.IsPending(store_.facts()));
  builder_.Schedule(store_.facts());  // Has it all.
  Wait();
  EXPECT_EQ(builder_.num_written(), 1u);
}

TEST_F(BuilderTest, WhatIsScheduledAgainIsBuiltOnce) {
  Stick();
  for (int i = 0; i < 3; ++i) builder_.Schedule(store_.facts());
  unstick_.Set();
  Wait();
  EXPECT_EQ(store_.num_opened(), 1u);
}

TEST_F(BuilderTest, ASlowKindDelaysNoOther) {
  EXPECT_EQ(Get("slow"), nullptr);
  EXPECT_EQ(Get("asked"), nullptr);
  while (Get("asked") == nullptr) std::this_thread::yield();
  EXPECT_EQ(Get("slow"), nullptr);
  release_slow_.Set();
  Wait();
  ExpectReady("slow");
}

TEST_F(BuilderTest, WhatHasNoRoomOnDiskIsBuiltInMemoryForWhoAsked) {
  store_.Refuse(Status::FailedPrecondition("quota"));
  release_slow_.Set();
  builder_.Schedule(store_.facts());  // Nobody asks for it: not worth memory.
  (void)Get("asked");
  (void)Get("slow");
  Wait();
  ExpectReady("asked");
  EXPECT_THAT(OnDisk(), IsEmpty());
  EXPECT_EQ(cache_.counters(KindOf("asked")).num_built, 1u);
  EXPECT_EQ(cache_.counters(KindOf("always")).num_built, 0u);
  EXPECT_EQ(Get("slow"), nullptr);
}

TEST_F(BuilderTest, AFailedWriteIsToldAndMemoryServesMeanwhile) {
  store_.Refuse(Status::IoError("no disk"));
  (void)Get("asked");
  EXPECT_EQ(lanes_.Wait(nullptr).code(), StatusCode::kIoError);
  ExpectReady("asked");
}

TEST_F(BuilderTest, ALostObjectIsReportedAndMadeAgain) {
  (void)Get("asked");
  Wait();
  const ObjectRecord first = store_.facts().objects[0];
  store_.files().Remove({FakeStore::kSegment, first.kind, first.generation});
  EXPECT_EQ(Get("asked"), nullptr);
  Wait();
  EXPECT_THAT(store_.lost(),
              ElementsAre(storage::ObjectName{FakeStore::kSegment, "asked", first.generation}));
  ExpectReady("asked");
  EXPECT_GT(store_.facts().objects[0].generation, first.generation);
}

TEST_F(BuilderTest, WhatIsInVainIsAskedForAgainAfterAWhile) {
  store_.Drop();
  const auto ask = [&] {
    EXPECT_EQ(Get("asked"), nullptr);
    Wait();
    return store_.num_opened();
  };
  EXPECT_EQ(ask(), 1u);
  EXPECT_EQ(ask(), 1u);
  now_ns_ += Builder::kAskAgainNs - 1;
  EXPECT_EQ(ask(), 1u);
  now_ns_ += 1;
  EXPECT_EQ(ask(), 2u);
}

TEST_F(BuilderTest, WhatWaitsIsAskedForOnce) {
  Stick();
  (void)Get("asked");
  const Lanes::AddedPtr job = JobOf("asked");
  ASSERT_NE(job, nullptr);
  (void)Get("asked");
  EXPECT_EQ(JobOf("asked"), job);
  unstick_.Set();
  Wait();
  EXPECT_EQ(store_.num_opened(), 1u);
}

TEST_F(BuilderTest, AnOrderIsTheJobThatWaitsAndANewOneOnceThatHasEnded) {
  store_.Refuse(Status::FailedPrecondition("quota"));
  Stick();
  const Lanes::AddedPtr job = Order("asked");
  ASSERT_NE(job, nullptr);
  EXPECT_EQ(Order("asked"), job);
  unstick_.Set();
  Wait();
  store_.Refuse(Status::Ok());
  EXPECT_NE(Order("asked"), job);
  Wait();
  EXPECT_THAT(OnDisk(), ElementsAre("asked"));
}

TEST_F(BuilderTest, WhatASegmentHasOrCannotHaveIsNotOrdered) {
  (void)Order("asked");
  Wait();
  EXPECT_EQ(Order("asked"), nullptr) << "it has it";
  EXPECT_EQ(Order("custom_small"), nullptr) << "it is kept in memory only";
  SegmentFacts facts = store_.facts();
  facts.damaged = true;
  EXPECT_EQ(builder_.Order(facts, KindOf("always")), nullptr) << "its rows may be wrong";
  facts.damaged = false;
  facts.num_tokens = 99;
  EXPECT_EQ(builder_.Order(facts, KindOf("always")), nullptr) << "it is too short";
  facts.num_tokens = 100;
  EXPECT_NE(builder_.Order(facts, KindOf("always")), nullptr);
  Wait();
}

TEST_F(BuilderTest, WhatIsAskedForIsPendingUntilItsJobHasEnded) {
  builder_.Schedule(store_.facts());
  Wait();
  EXPECT_FALSE(builder_.IsPending(store_.facts()));
  store_.Refuse(Status::FailedPrecondition("quota"));
  Stick();
  (void)Get("asked");
  EXPECT_THAT(store_.facts().wishes, IsEmpty()) << "the wish waits as well";
  EXPECT_TRUE(builder_.IsPending(store_.facts()));
  unstick_.Set();
  Wait();
  SegmentFacts facts = store_.facts();
  EXPECT_TRUE(builder_.IsPending(facts)) << "it is wished for";
  facts.wishes.clear();
  EXPECT_FALSE(builder_.IsPending(facts)) << "its job has ended, in vain";
}

TEST_F(BuilderTest, WhatWaitsForACancelledSegmentIsGivenUp) {
  Stick();
  const auto order = [&](SegmentId segment) {
    SegmentFacts facts = store_.facts();
    facts.id = segment;
    return builder_.Order(facts, KindOf("asked"));
  };
  const Lanes::AddedPtr before = order(FakeStore::kSegment - 1);
  const Lanes::AddedPtr job = order(FakeStore::kSegment);
  const Lanes::AddedPtr after = order(FakeStore::kSegment + 1);
  builder_.Cancel(FakeStore::kSegment);
  EXPECT_TRUE(IsOver(job));
  EXPECT_EQ(JobOf("asked"), nullptr);
  EXPECT_FALSE(IsOver(before));
  EXPECT_FALSE(IsOver(after));
  EXPECT_EQ(order(FakeStore::kSegment - 1), before);
  EXPECT_NE(order(FakeStore::kSegment), job);
  EXPECT_EQ(order(FakeStore::kSegment + 1), after);
}

TEST_F(BuilderTest, WhenAllIsCancelledWhatWaitsIsGivenUpAndMayBeAskedForAgain) {
  Event started;
  lanes_.Add(kFastLane, {.run = [&](Lanes::Control* control) {
               started.Set();
               while (!control->cancel()->load()) std::this_thread::yield();
               return Status::Cancelled("test");
             }});
  started.Await();
  (void)Get("asked");
  const Lanes::AddedPtr job = JobOf("asked");
  ASSERT_NE(job, nullptr);
  builder_.CancelAll();
  ASSERT_TRUE(IsOver(job));
  EXPECT_EQ(JobOf("asked"), nullptr);
  EXPECT_EQ(store_.num_opened(), 0u);
  (void)Get("asked");
  Wait();
  ExpectReady("asked");
}

// It removes the files of segments that were dropped and that nobody holds.
TEST_F(BuilderTest, TheStoreIsToldOnceASegmentIsLetGoOf) {
  (void)Get("asked");
  Wait();
  EXPECT_THAT(store_.num_holders(), ElementsAre(1)) << "the store itself";
  store_.Drop();
  (void)Order("always");
  Wait();
  EXPECT_THAT(store_.num_holders(), ElementsAre(1)) << "none was opened";
}

TEST_F(BuilderTest, BytesOfAllHeadsAreAdmittedAndAllWorkIsDone) {
  const Lanes::AddedPtr job = Order("asked");
  Wait();
  EXPECT_THAT(store_.admitted_bytes(), ElementsAre(2 * 2 * FirstBytesKind::kBytes));
  EXPECT_EQ(job->done, store_.facts().kv_bytes);
}

TEST_F(BuilderTest, WorkInMemoryIsThatOfTheLayersWithObjects) {
  store_.Refuse(Status::FailedPrecondition("quota"));
  (void)Get("asked");
  Wait();
  ASSERT_NE(JobOf("asked"), nullptr);
  EXPECT_EQ(JobOf("asked")->done, store_.segment().file_bytes() / 2);  // One layer of two.
}

// Whether for an object on disk or in memory.
TEST_F(BuilderTest, WhatReadingASegmentsRowsGaveIsTold) {
  broken_ = Status::Corruption("wrong bytes");
  const std::vector<std::string> files = store_.Files();
  (void)Get("broken");
  const auto is_told = FailsWith(StatusCode::kCorruption, HasSubstr("wrong bytes"));
  EXPECT_THAT(lanes_.Wait(nullptr), is_told);
  EXPECT_THAT(store_.TakeDamage(), ElementsAre(is_told, is_told));
  EXPECT_EQ(Get("broken"), nullptr);
  EXPECT_EQ(store_.Files(), files);
}

TEST_F(BuilderTest, WhatCannotBePublishedLeavesNoFiles) {
  store_.RefuseToPublish(Status::IoError("no commit"));
  const std::vector<std::string> files = store_.Files();
  (void)Order("asked");
  EXPECT_THAT(lanes_.Wait(nullptr), FailsWith(StatusCode::kIoError, HasSubstr("no commit")));
  EXPECT_EQ(store_.Files(), files);
  EXPECT_FALSE(cache_.IsOnDisk(FakeStore::kSegment, KindOf("asked")));
  EXPECT_EQ(builder_.num_written(), 0u);
}

// Counted by the bytes that they report.
TEST_F(BuilderTest, ACustomObjectIsKeptInMemoryIfItHasRoomAndIsNotWishedFor) {
  const uint64_t used_before = budget_.used_bytes();
  (void)Get("custom_small");
  (void)Get("custom_large");
  Wait();
  EXPECT_NE(Get("custom_small"), nullptr);
  EXPECT_EQ(Get("custom_large"), nullptr);
  EXPECT_EQ(budget_.used_bytes(), used_before + 2 * 100) << "two heads";
  EXPECT_THAT(store_.facts().wishes, IsEmpty());
  EXPECT_THAT(OnDisk(), IsEmpty());
}

TEST_F(BuilderTest, BeyondAThousandRequestsThoseThatEndedLongAgoAreForgotten) {
  constexpr uint64_t kMost = 1024;
  SegmentFacts facts = store_.facts();
  store_.Drop();  // Every job ends in vain.
  const auto order = [&](SegmentId segment, const char* kind) {
    facts.id = segment;
    (void)builder_.Order(facts, KindOf(kind));
  };
  order(FakeStore::kSegment, "asked");
  for (uint64_t i = 0; i < kMost - 4; ++i) order(1000 + i, "asked");
  Wait();
  now_ns_ += Builder::kAskAgainNs - 1;
  order(FakeStore::kSegment, "always");
  Wait();
  now_ns_ += 1;
  Stick();
  order(FakeStore::kSegment, "slow");
  order(1, "asked");
  EXPECT_NE(JobOf("asked"), nullptr) << "there is room for so many";
  order(2, "asked");
  EXPECT_EQ(JobOf("asked"), nullptr);
  EXPECT_NE(JobOf("always"), nullptr) << "it ended a short while ago";
  EXPECT_NE(JobOf("slow"), nullptr) << "it waits";
}

TEST_F(BuilderTest, WhatIsCancelledMayBeAskedForAgain) {
  (void)Get("slow");
  builder_.Cancel(FakeStore::kSegment);
  release_slow_.Set();
  Wait();
  (void)Get("slow");
  builder_.CancelAll();
  (void)Get("slow");
  Wait();
  ExpectReady("slow");
}

// The lanes end, as at the end of a process, before they build the requested objects.
TEST_F(BuilderTest, WhatIsAskedForIsWishedForUntilItIsBuilt) {
  store_.Refuse(Status::FailedPrecondition("quota"));
  (void)Get("always");  // Every segment has it, without a wish.
  (void)Get("asked");
  (void)Get("slow");
  release_slow_.Set();
  Wait();
  EXPECT_THAT(store_.facts().wishes, UnorderedElementsAre("asked", "slow"));
  store_.Refuse(Status::Ok());
  builder_.CancelAll();
  builder_.Schedule(store_.facts());
  Wait();
  EXPECT_THAT(store_.facts().wishes, IsEmpty());
  EXPECT_EQ(store_.facts().objects.size(), 3u);
}

TEST_F(BuilderTest, WishesOfKindsThatThereAreNotAreLeftAlone) {
  SegmentFacts facts = store_.facts();
  facts.wishes = {"unheard_of"};
  builder_.Schedule(facts);
  Wait();
  EXPECT_EQ(store_.num_opened(), 1u) << "for the kind that every segment has";
}

TEST_F(BuilderTest, WithoutMemoryNothingIsBuiltAndNothingFails) {
  store_.Refuse(Status::FailedPrecondition("quota"));
  ATTNDB_ASSERT_OK_AND_ASSIGN(const storage::Reservation all,
                              budget_.Reserve(kPlenty - budget_.used_bytes(), "all"));
  (void)Get("asked");
  Wait();
  EXPECT_EQ(Get("asked"), nullptr);
}

// Every lane is stuck, as if each build, look-up and publication took for ever.
TEST_F(BuilderTest, NobodyWhoAsksWaits) {
  Stick();
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&] {
      for (int call = 0; call < 1000; ++call) {
        for (const char* kind : {"always", "asked", "slow"}) EXPECT_EQ(Get(kind), nullptr);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  unstick_.Set();
  release_slow_.Set();
  Wait();
  for (const char* kind : {"always", "asked", "slow"}) ExpectReady(kind);
}

// The memory is too small, by the parameter's bytes, for a segment and the objects of a kind.
class TightBuilderTest : public BuilderTest, public ::testing::WithParamInterface<uint64_t> {
 protected:
  TightBuilderTest() : BuilderTest({}, BytesOfBoth() - GetParam()) {}

  static uint64_t BytesOfBoth() {
    storage::MemoryBudget plenty(kPlenty);
    const FakeStore store(&plenty);
    const FirstBytesKind kind(FirstBytesKind::Of("asked"));
    uint64_t bytes = store.segment().file_bytes();
    for (LayerId layer = 0; layer < 2; ++layer) {
      bytes += kind.MemoryBytes(store.segment(), layer, store.spec().layers[layer]);
    }
    return bytes;
  }
};
INSTANTIATE_TEST_SUITE_P(ShortBy, TightBuilderTest, ::testing::Values(0, 1));

// Objects that leave no room for the rows that they are searched for help nobody.
TEST_P(TightBuilderTest, BuildsInMemoryWhatHasRoomBesideItsSegment) {
  store_.Refuse(Status::FailedPrecondition("quota"));
  (void)Get("asked");
  Wait();
  EXPECT_EQ(Get("asked") != nullptr, GetParam() == 0);
}

// Tokens of a session that are not stored, of as many heads and layers as the segment's.
class TailBuilderTest : public BuilderTest {
 protected:
  std::shared_ptr<const storage::TailBlock> MakeBlock() const {
    const auto shape = std::make_shared<const storage::KvShape>(store_.segment().shape());
    const auto block = std::make_shared<storage::TailBlock>(shape, /*first_position=*/0);
    const auto rows = std::make_shared<const AlignedBuffer>(
        *AlignedBuffer::AllocateZeroed(block->num_tokens() * storage::KRowBytes(*shape, 0)));
    const storage::KvRows head = {rows->data(), rows->data(), block->num_tokens()};
    for (LayerId layer = 0; layer < 2; ++layer) {
      block->AddLayer(layer, {rows, {head, head}}, {false, false});
    }
    return block;
  }
  LayerObjectsPtr GetOfTail(const char* kind, LayerId layer = 0) {
    return builder_.Get(block_, KindOf(kind), layer, store_.spec().layers[layer]);
  }
  Lanes::AddedPtr JobOfTail(const char* kind, LayerId layer = 0) const {
    return builder_.JobOf(*block_, KindOf(kind), layer);
  }
  // Asked for at once again it is not built, and after a while it is.
  void ExpectInVain(const char* kind) {
    SCOPED_TRACE(kind);
    EXPECT_EQ(GetOfTail(kind), nullptr);
    Wait();
    const Lanes::AddedPtr job = JobOfTail(kind);
    ASSERT_NE(job, nullptr);
    now_ns_ += Builder::kAskAgainNs - 1;
    EXPECT_EQ(GetOfTail(kind), nullptr);
    EXPECT_EQ(JobOfTail(kind), job);
    now_ns_ += 1;
    EXPECT_EQ(GetOfTail(kind), nullptr);
    Wait();
    EXPECT_NE(JobOfTail(kind), nullptr);
    EXPECT_NE(JobOfTail(kind), job);
  }

  const std::shared_ptr<const storage::TailBlock> block_ = MakeBlock();
};

TEST_F(TailBuilderTest, ALayerThatIsAskedForIsMadeUnlessItHasAWindow) {
  Stick();
  EXPECT_EQ(GetOfTail("asked", 0), nullptr);
  EXPECT_EQ(GetOfTail("asked", 1), nullptr);
  EXPECT_NE(JobOfTail("asked", 0), nullptr);
  EXPECT_EQ(JobOfTail("asked", 1), nullptr);
  unstick_.Set();
  Wait();
  EXPECT_NE(GetOfTail("asked"), nullptr);
  EXPECT_EQ(JobOfTail("asked"), nullptr) << "what is ready is not asked for";
}

TEST_F(TailBuilderTest, WhatHasNoRoomIsAskedForAgainAfterAWhile) {
  broken_ = Status::ResourceExhausted("test");
  ExpectInVain("broken");
  ExpectInVain("custom_large");
  ATTNDB_ASSERT_OK_AND_ASSIGN(const storage::Reservation all,
                              budget_.Reserve(kPlenty - budget_.used_bytes(), "all"));
  ExpectInVain("asked");
}

class GrowingBuilderTest : public BuilderTest, public ::testing::WithParamInterface<bool> {
 protected:
  GrowingBuilderTest() : BuilderTest({.grows = GetParam()}) {}
};
INSTANTIATE_TEST_SUITE_P(Grows, GrowingBuilderTest, ::testing::Bool());

// The same segment stands for the first of the merged ones and for the merged segment.
TEST_P(GrowingBuilderTest, AMergedObjectGrowsFromTheFirstWhereTheStoreIsOpenedSo) {
  const SegmentFacts merged = store_.facts();
  builder_.GrowFrom(store_.segment(), merged, merged);
  (void)Order("growing");
  Wait();
  EXPECT_THAT(priors_, ElementsAre(0, 0)) << "the first has no object";

  const SegmentFacts first = store_.facts();
  ASSERT_EQ(first.objects.size(), 1u);
  const storage::ObjectName name = {FakeStore::kSegment, "growing", first.objects[0].generation};
  store_.ReportLoss(name, Status::Ok());
  cache_.Forget(name);
  priors_.clear();
  builder_.GrowFrom(store_.segment(), first, merged);
  EXPECT_EQ(store_.num_opened(), 1u) << "nothing is built before it is asked for";
  (void)Order("growing");
  Wait();
  const uint64_t expected = GetParam() ? FakeStore::kTokens : 0;
  EXPECT_THAT(priors_, ElementsAre(expected, expected));
}

class ReaderBuilderTest : public BuilderTest {
 protected:
  ReaderBuilderTest() : BuilderTest({.writes = false, .looks_again = true}) {}
};

TEST_F(ReaderBuilderTest, BuildsInMemoryAndWritesNothing) {
  (void)Get("asked");
  builder_.Schedule(store_.facts());
  Wait();
  ExpectReady("asked");
  EXPECT_THAT(OnDisk(), IsEmpty());
  EXPECT_THAT(store_.facts().wishes, IsEmpty());
  EXPECT_EQ(builder_.num_written(), 0u);
  EXPECT_EQ(Order("always"), nullptr);
}

TEST_F(ReaderBuilderTest, FindsWhatAnotherProcessPublished) {
  release_slow_.Set();
  EXPECT_EQ(Get("slow"), nullptr);
  Wait();
  EXPECT_EQ(Get("slow"), nullptr);
  ATTNDB_ASSERT_OK(store_.WriteObject(KindOf("slow")));
  now_ns_ += Builder::kAskAgainNs;
  EXPECT_EQ(Get("slow"), nullptr);
  Wait();
  ExpectReady("slow");
}

class MemoryBuilderTest : public BuilderTest {
 protected:
  MemoryBuilderTest() : BuilderTest({.writes = false, .looks_again = false}) {}
};

TEST_F(MemoryBuilderTest, LooksForNothingThatNobodyCanPublish) {
  (void)Get("slow");
  Wait();
  EXPECT_EQ(store_.num_opened(), 0u);
  (void)Get("asked");
  Wait();
  ExpectReady("asked");
}

}  // namespace
}  // namespace attndb::derived
