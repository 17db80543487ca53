// Goal:   a slow build that is told to end, for example because its store closes, keeps its
//         finished heads. The next build makes only the others.
// Method: a store of one segment; a kind that tells its own lane to end after some heads.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "derived/builder.h"
#include "derived/derived_test_util.h"

namespace attndb::derived {
namespace {

using test::FakeStore;
using test::FirstBytesKind;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

class CutBuildsTest : public ::testing::Test {
 protected:
  CutBuildsTest()
      : kinds_(MakeKinds()),
        cache_(&kinds_, &budget_, &store_.files(),
               [](const auto&, const Kind&, const Status&) { FAIL() << "nothing is lost"; }),
        builder_({&kinds_, &cache_, &budget_, &store_.files(), &store_, &lanes_}, {}) {
    cache_.Learn(store_.segment_ptr(), store_.facts());
  }

  Kinds MakeKinds() {
    FirstBytesKind::Traits traits = FirstBytesKind::Of("index");
    traits.slow = true;
    traits.begun = "index_cut";
    Kinds kinds;
    kinds.Add(std::make_unique<FirstBytesKind>(traits, [this](const HeadSource& source) {
      built_.push_back(source.kv_head);
      if (built_.size() == cancel_after_) lanes_.Cancel(FakeStore::kSegment);
      return Status::Ok();
    }));
    return kinds;
  }
  const Kind& kind() const { return kinds_.ForUse("index"); }
  // Builds, and tells the build to end once so many heads have been made in all.
  void BuildUpTo(size_t num_heads) {
    cancel_after_ = num_heads;
    (void)builder_.Order(store_.facts(), kind());
    (void)lanes_.Wait(nullptr);
  }

  storage::MemoryBudget budget_{uint64_t{1} << 30};
  std::vector<uint32_t> built_;  // Heads, in the order in which they were made.
  size_t cancel_after_ = 0;
  FakeStore store_{&budget_};
  const Kinds kinds_;
  Cache cache_;
  Builder builder_;
  Lanes lanes_{{Lanes::Priority::kLowest, Lanes::Priority::kLowest}, 1};
};

TEST_F(CutBuildsTest, TheNextBuildGoesOnWhereItWas) {
  BuildUpTo(1);
  EXPECT_THAT(built_, ElementsAre(0u));
  const SegmentFacts cut = store_.facts();
  ASSERT_NE(cut.Find("index_cut"), nullptr);
  EXPECT_EQ(cut.Find("index"), nullptr);
  const LayerSpec& layer = store_.spec().layers[0];
  EXPECT_EQ(builder_.Get(store_.segment(), kind(), 0, layer), nullptr) << "half is no index";
  (void)lanes_.Wait(nullptr);
  BuildUpTo(0);
  EXPECT_THAT(built_, ElementsAre(0u, 1u)) << "the first head was made again";
  const SegmentFacts whole = store_.facts();
  EXPECT_EQ(whole.Find("index_cut"), nullptr);
  ASSERT_NE(whole.Find("index"), nullptr);
  EXPECT_THAT(store_.Files(), Not(Contains(HasSubstr("index_cut"))));
  const LayerObjectsPtr objects = builder_.Get(store_.segment(), kind(), 0, layer);
  ASSERT_NE(objects, nullptr);
  for (const uint32_t head : {0u, 1u}) {
    EXPECT_EQ(FirstBytesKind::BytesOf(objects->head(head)), store_.ExpectedOf(head));
  }
}

TEST_F(CutBuildsTest, WhatCannotBePublishedLeavesWhatWasThere) {
  BuildUpTo(1);
  const SegmentFacts before = store_.facts();
  ASSERT_NE(before.Find("index_cut"), nullptr);
  const std::vector<std::string> files = store_.Files();
  store_.RefuseToPublish(Status::FailedPrecondition("no room"));
  BuildUpTo(2);
  EXPECT_THAT(built_, ElementsAre(0u, 1u));
  const SegmentFacts after = store_.facts();
  ASSERT_NE(after.Find("index_cut"), nullptr);
  EXPECT_EQ(after.Find("index_cut")->generation, before.Find("index_cut")->generation);
  EXPECT_EQ(store_.Files(), files);
}

// Remains with damaged bytes are useless: everything is built again.
TEST_F(CutBuildsTest, WhatWasKeptAndIsDamagedIsMadeAgain) {
  BuildUpTo(1);
  ASSERT_NE(store_.facts().Find("index_cut"), nullptr);
  for (const std::string& file : store_.Files()) {
    if (file.find("index_cut") == file.npos) continue;
    ATTNDB_EXPECT_OK(store_.file_system().Remove("segments/" + file));
  }
  BuildUpTo(0);
  EXPECT_THAT(built_, ElementsAre(0u, 0u, 1u));
  EXPECT_NE(store_.facts().Find("index"), nullptr);
}

}  // namespace
}  // namespace attndb::derived
