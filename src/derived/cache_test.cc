// Goal:   the cache says what is ready without looking further: what it has learned, less what was
//         lost or dropped since; layers are read once, shared, and dropped for other memory.
// Method: a folder with a segment and objects of it, damaged and removed.
#include "derived/cache.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "derived/derived_test_util.h"

namespace attndb::derived {
namespace {

using test::FakeStore;
using test::FirstBytesKind;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr uint64_t kLimit = uint64_t{1} << 20;

class CacheTest : public ::testing::Test {
 protected:
  CacheTest() : store_(&budget_), kinds_(MakeKinds()), kind_(*kinds_.all()[0]) {}

  static Kinds MakeKinds() {
    Kinds kinds;
    kinds.Add(std::make_unique<FirstBytesKind>(FirstBytesKind::Of("first")));
    kinds.Add(std::make_unique<FirstBytesKind>(FirstBytesKind::Of("other")));
    return kinds;
  }
  void WriteAndLearn() {
    ATTNDB_ASSERT_OK(store_.WriteObject(kind_));
    cache_.Learn(store_.segment_ptr(), store_.facts());
  }
  storage::ObjectName NameOf(uint64_t generation) const {
    return {FakeStore::kSegment, "first", generation};
  }
  LayerObjectsPtr Find() {
    return cache_.Find(store_.segment(), kind_, 0, store_.spec().layers[0]);
  }

  storage::MemoryBudget budget_{kLimit};
  FakeStore store_;
  const Kinds kinds_;
  const Kind& kind_;
  std::vector<storage::ObjectName> lost_;
  Cache cache_{&kinds_, &budget_, &store_.files(),
               [this](const auto& name, const Kind&, const Status&) { lost_.push_back(name); }};
};

TEST_F(CacheTest, WhatItHasNotLearnedIsNotThere) {
  ATTNDB_ASSERT_OK(store_.WriteObject(kind_));
  EXPECT_EQ(Find(), nullptr);
  cache_.Learn(store_.segment_ptr(), store_.facts());
  const LayerObjectsPtr objects = Find();
  ASSERT_NE(objects, nullptr);
  EXPECT_EQ(FirstBytesKind::BytesOf(objects->head(1)), store_.ExpectedOf(1));
  EXPECT_EQ(Find(), objects);
  EXPECT_EQ(cache_.counters(kind_).num_read, 1u);
  EXPECT_EQ(cache_.Find(store_.segment(), *kinds_.all()[1], 0, store_.spec().layers[0]), nullptr);
}

TEST_F(CacheTest, TheVersionTellsWhenWhatIsReadyHasChanged) {
  EXPECT_TRUE(cache_.ReadyKinds(FakeStore::kSegment, 0).none());
  uint64_t version = cache_.version();
  WriteAndLearn();
  EXPECT_GT(cache_.version(), version);
  EXPECT_EQ(cache_.ReadyKinds(FakeStore::kSegment, 0), KindSet(1));
  (void)Find();
  version = cache_.version();
  (void)Find();
  cache_.Learn(store_.segment_ptr(), store_.facts());
  EXPECT_EQ(cache_.version(), version) << "nothing new";
  cache_.Forget(NameOf(1));
  EXPECT_GT(cache_.version(), version);
}

TEST_F(CacheTest, ALostObjectIsReportedOnceAndNotLearnedAgain) {
  WriteAndLearn();
  store_.files().Remove(NameOf(1));
  EXPECT_EQ(Find(), nullptr);
  EXPECT_EQ(Find(), nullptr);
  EXPECT_THAT(lost_, SizeIs(1));
  cache_.Learn(store_.segment_ptr(), store_.facts());  // As from a record that was read before.
  EXPECT_FALSE(cache_.IsOnDisk(FakeStore::kSegment, kind_));
  WriteAndLearn();  // A newer one.
  EXPECT_NE(Find(), nullptr);
}

TEST_F(CacheTest, WhatIsDroppedIsForgottenUnlessItWasReplaced) {
  WriteAndLearn();
  WriteAndLearn();
  cache_.Forget(NameOf(1));
  EXPECT_TRUE(cache_.IsOnDisk(FakeStore::kSegment, kind_));
  cache_.Forget(NameOf(2));
  EXPECT_FALSE(cache_.IsOnDisk(FakeStore::kSegment, kind_));
  EXPECT_EQ(Find(), nullptr);
  cache_.Forget({FakeStore::kSegment, "unknown", 3});
  cache_.Forget({8, "first", 3});
  EXPECT_THAT(lost_, IsEmpty());
}

TEST_F(CacheTest, LayersGoWhenMemoryIsWantedAndAreReadAgain) {
  WriteAndLearn();
  ASSERT_NE(Find(), nullptr);
  {
    ATTNDB_ASSERT_OK_AND_ASSIGN(const storage::Reservation all, budget_.Reserve(kLimit, "all"));
    EXPECT_FALSE(cache_.IsInMemory(FakeStore::kSegment, kind_, 0));
    EXPECT_EQ(Find(), nullptr) << "no memory is no loss";
    EXPECT_TRUE(cache_.IsOnDisk(FakeStore::kSegment, kind_));
  }
  EXPECT_NE(Find(), nullptr);
  EXPECT_EQ(cache_.counters(kind_).num_read, 2u);
  EXPECT_THAT(lost_, IsEmpty());
}

// A kind whose layers can't be made of what is read, as long as it has a status that says why.
class FailingKind final : public Kind {
 public:
  explicit FailingKind(const Status* status)
      : Kind(FirstBytesKind::Of("failing")), status_(status) {}

  uint64_t HeadBytes(const storage::KvRun& run, LayerId layer,
                     const LayerSpec& spec) const override {
    return base_.HeadBytes(run, layer, spec);
  }
  Result<BuiltHead> Build(const HeadSource& source) const override { return base_.Build(source); }
  Result<Head> Parse(HeadParts parts) const override {
    ATTNDB_RETURN_IF_ERROR(*status_);
    return base_.Parse(std::move(parts));
  }

 private:
  const FirstBytesKind base_{FirstBytesKind::Of("failing")};
  const Status* const status_;
};

TEST_F(CacheTest, WhatIsShortOfMemoryIsNotLostAndWhatIsDamagedIs) {
  Status status = Status::ResourceExhausted("test");
  Kinds kinds;
  kinds.Add(std::make_unique<FailingKind>(&status));
  const Kind& failing = *kinds.all()[0];
  Cache cache(&kinds, &budget_, &store_.files(),
              [this](const auto& name, const Kind&, const Status&) { lost_.push_back(name); });
  ATTNDB_ASSERT_OK(store_.WriteObject(failing));
  cache.Learn(store_.segment_ptr(), store_.facts());
  const auto find = [&] {
    return cache.Find(store_.segment(), failing, 0, store_.spec().layers[0]);
  };
  EXPECT_EQ(find(), nullptr);
  EXPECT_TRUE(cache.IsOnDisk(FakeStore::kSegment, failing));
  EXPECT_THAT(lost_, IsEmpty());
  status = Status::Corruption("test");
  EXPECT_EQ(find(), nullptr);
  EXPECT_FALSE(cache.IsOnDisk(FakeStore::kSegment, failing));
  EXPECT_THAT(lost_, SizeIs(1));
}

TEST_F(CacheTest, TheFirstLayerInMemoryIsKept) {
  std::vector<Head> heads(2);
  cache_.Keep(store_.segment(), kind_, 0, *budget_.ReserveIfFree(100), heads);
  const LayerObjectsPtr first = Find();
  ASSERT_NE(first, nullptr);
  cache_.Keep(store_.segment(), kind_, 0, *budget_.ReserveIfFree(100), heads);
  EXPECT_EQ(Find(), first);
  EXPECT_FALSE(cache_.IsOnDisk(FakeStore::kSegment, kind_));
}

}  // namespace
}  // namespace attndb::derived
