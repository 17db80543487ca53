// Goal:   what sessions ask for is made in the background, on disk where the store allows that and
//         else in memory; nobody who asks waits, whatever the background is stuck in; what was
//         asked for and not made is wished for.
// Method: a store of one segment, kinds that copy bytes, and gates that builds wait at.
#include "derived/builder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "derived/derived_test_util.h"
#include "testing/event.h"

namespace attndb::derived {
namespace {

using test::Event;
using test::FakeStore;
using test::FirstBytesKind;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

constexpr uint64_t kPlenty = uint64_t{1} << 30;

class BuilderTest : public ::testing::Test {
 protected:
  // Kinds "always", "asked", and "slow", whose builds wait for release_slow_.
  explicit BuilderTest(const Builder::Options& options = {}, uint64_t memory_bytes = kPlenty)
      : budget_(memory_bytes),
        store_(&budget_),
        kinds_(MakeKinds()),
        cache_(&kinds_, &budget_, &store_.files(),
               [this](const auto& name, const Kind& kind, const Status& status) {
                 builder_.ReportLoss(name, kind, status);
               }),
        builder_({&kinds_, &cache_, &budget_, &store_.files(), &store_, &lanes_}, options) {
    cache_.Learn(store_.segment_ptr(), store_.facts());
  }
  ~BuilderTest() override { release_slow_.Set(); }

  Kinds MakeKinds() {
    Kinds kinds;
    Kind::Traits always = FirstBytesKind::Of("always");
    always.always = true;
    kinds.Add(std::make_unique<FirstBytesKind>(always));
    kinds.Add(std::make_unique<FirstBytesKind>(FirstBytesKind::Of("asked")));
    Kind::Traits slow = FirstBytesKind::Of("slow");
    slow.slow = true;
    kinds.Add(std::make_unique<FirstBytesKind>(slow, [this] { release_slow_.Await(); }));
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
  void Wait() { ATTNDB_EXPECT_OK(lanes_.Wait(nullptr)); }
  std::vector<std::string> OnDisk() const {
    std::vector<std::string> kinds;
    for (const ObjectRecord& object : store_.facts().objects) kinds.push_back(object.kind);
    std::ranges::sort(kinds);
    return kinds;
  }

  storage::MemoryBudget budget_;
  Event release_slow_;
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
  Event stuck;
  lanes_.Add(kFastLane, {.run = [&](Lanes::Control*) {
               stuck.Await();
               return Status::Ok();
             }});
  for (int i = 0; i < 3; ++i) builder_.Schedule(store_.facts());
  stuck.Set();
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

TEST_F(BuilderTest, WhatIsInVainIsNotAskedForAtOnceAgain) {
  store_.Drop();
  for (int i = 0; i < 100; ++i) {
    EXPECT_EQ(Get("asked"), nullptr);
    Wait();
  }
  EXPECT_LT(store_.num_opened(), 10u);  // One a second.
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

// Lanes end, as a process does, before they come to what was asked for.
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
  Event stuck;
  for (const size_t lane : {kFastLane, kSlowLane}) {
    lanes_.Add(lane, {.run = [&](Lanes::Control*) {
                 stuck.Await();
                 return Status::Ok();
               }});
  }
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&] {
      for (int call = 0; call < 1000; ++call) {
        for (const char* kind : {"always", "asked", "slow"}) EXPECT_EQ(Get(kind), nullptr);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  stuck.Set();
  release_slow_.Set();
  Wait();
  for (const char* kind : {"always", "asked", "slow"}) ExpectReady(kind);
}

// Memory for a segment and the objects of a kind, but for as many bytes as the parameter says.
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
  EXPECT_EQ(builder_.num_written(), 0u);
}

TEST_F(ReaderBuilderTest, FindsWhatAnotherProcessPublished) {
  release_slow_.Set();
  EXPECT_EQ(Get("slow"), nullptr);
  Wait();
  EXPECT_EQ(Get("slow"), nullptr);
  ATTNDB_ASSERT_OK(store_.WriteObject(KindOf("slow")));
  while (Get("slow") == nullptr) std::this_thread::yield();
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
