// Goal:   a segment is open once and stays open for the next reader. When too many unread segments
//         are open, the least recently used is closed first. A segment is marked until a commit
//         names it.
// Method: more small segments in memory than may stay open.
#include "store/segment_registry.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "storage/vfs/object_name.h"
#include "store/catalog/catalog_test_util.h"
#include "store/hooked_files_test_util.h"
#include "testing/matchers.h"
#include "testing/memory_file_system.h"
#include "testing/segment_data.h"

namespace attndb::store {
namespace {

using test::FailsWith;
using ::testing::HasSubstr;

class SegmentRegistryTest : public CatalogTest {
 protected:
  SegmentRegistryTest() { ATTNDB_EXPECT_OK(files_.CreateDir("segments")); }

  Status WriteTo(SegmentRegistry* registry, SegmentRecord* record) {
    const test::SegmentData data =
        test::RandomSegment({.shape = ShapeOf(harness_.spec()), .num_tokens = 1}, &random_);
    test::DataSource source(&data, 1);
    record->model = harness_.model();
    record->num_tokens = 1;
    return registry->Write(&source, record);
  }
  SegmentRecord Write() {
    SegmentRecord record;
    ATTNDB_EXPECT_OK(WriteTo(&registry_, &record));
    return record;
  }
  // Whether it has the mark of what no commit names.
  bool IsLoose(SegmentId id) {
    return files_.FileSize("segments/" + storage::LooseNameOf(static_cast<uint64_t>(id))).ok();
  }

  test::MemoryFileSystem files_;
  Random random_{1};
  storage::MemoryBudget budget_{uint64_t{1} << 30};
  SegmentRegistry registry_{&files_, "segments", &*harness_, &budget_};
};

TEST_F(SegmentRegistryTest, ASegmentIsOpenOnceAndStaysOpen) {
  const SegmentRecord record = Write();
  EXPECT_FALSE(registry_.InUse(record.id));
  std::shared_ptr<storage::Segment> segment = registry_.Get(record).value();
  EXPECT_EQ(registry_.Get(record).value(), segment);
  EXPECT_NE(registry_.OpenAfresh(record).value(), segment);
  EXPECT_TRUE(registry_.InUse(record.id));
  segment.reset();
  EXPECT_FALSE(registry_.InUse(record.id));
  EXPECT_EQ(registry_.num_open(), 1u);
  EXPECT_TRUE(registry_.Discard(record.id));
  EXPECT_EQ(registry_.num_open(), 0u);
  EXPECT_FALSE(registry_.Get(record).ok());
}

TEST_F(SegmentRegistryTest, TheLongestUnusedAreClosedWhereTooManyAreOpen) {
  constexpr size_t kMost = SegmentRegistry::kMaxIdle;
  std::vector<SegmentRecord> records;
  std::vector<std::weak_ptr<storage::Segment>> open;
  for (size_t i = 0; i <= kMost; ++i) records.push_back(Write());
  std::ranges::reverse(records);  // The numbers of segments tell nothing of their use.
  for (size_t i = 0; i < kMost; ++i) open.push_back(registry_.Get(records[i]).value());
  EXPECT_EQ(registry_.num_open(), kMost);
  (void)registry_.Get(records[0]).value();  // Used again.
  const std::shared_ptr<storage::Segment> held = open[1].lock();
  open.push_back(registry_.Get(records[kMost]).value());
  EXPECT_EQ(registry_.num_open(), kMost * 3 / 4);
  const size_t num_closed = kMost + 1 - kMost * 3 / 4;
  for (size_t i = 0; i <= kMost; ++i) {
    EXPECT_EQ(open[i].expired(), i >= 2 && i < 2 + num_closed) << i;
  }
}

TEST_F(SegmentRegistryTest, ASegmentIsMarkedWhileNoCommitNamesIt) {
  const SegmentRecord record = Write();
  EXPECT_TRUE(IsLoose(record.id));
  registry_.NoteNamed(record.id);
  EXPECT_FALSE(IsLoose(record.id));
  for (int i = 0; i < 2; ++i) {  // It may have the mark already.
    ATTNDB_EXPECT_OK(registry_.NoteLoose(record.id));
    EXPECT_TRUE(IsLoose(record.id));
  }
  EXPECT_TRUE(registry_.Discard(record.id));
  EXPECT_FALSE(IsLoose(record.id));
}

TEST_F(SegmentRegistryTest, NoSegmentIsWrittenThatCanNotBeMarked) {
  HookedFiles files(&files_);
  files.before = [](std::string_view call, const std::string& path) {
    return call == "CreateNew" && path.ends_with(".loose") ? Status::ResourceExhausted("test")
                                                           : Status::Ok();
  };
  SegmentRegistry registry(&files, "segments", &*harness_, &budget_);
  SegmentRecord record;
  const auto is_refused = FailsWith(StatusCode::kResourceExhausted, HasSubstr("test"));
  EXPECT_THAT(WriteTo(&registry, &record), is_refused);
  EXPECT_THAT(registry.NoteLoose(record.id), is_refused);
  EXPECT_TRUE(files_.List("segments")->empty());
  SegmentRegistry nowhere(&files_, "nowhere", &*harness_, &budget_);
  EXPECT_THAT(WriteTo(&nowhere, &record),
              FailsWith(StatusCode::kIoError, HasSubstr("nowhere: was moved")));
}

TEST_F(SegmentRegistryTest, WhatCanNotBeRemovedKeepsItsMark) {
  const SegmentRecord record = Write();
  HookedFiles files(&files_);
  files.before = [](std::string_view call, const std::string& path) {
    return call == "Remove" && path.ends_with(".seg") ? Status::IoError("test") : Status::Ok();
  };
  SegmentRegistry registry(&files, "segments", &*harness_, &budget_);
  EXPECT_FALSE(registry.Discard(record.id));
  EXPECT_TRUE(IsLoose(record.id));
}

TEST_F(SegmentRegistryTest, WhatWasWrittenIsToldAsItIs) {
  const SegmentRecord record = Write();
  const std::shared_ptr<storage::Segment> segment = registry_.Get(record).value();
  EXPECT_EQ(record.file_bytes, segment->file_bytes());
  EXPECT_EQ(record.query_bytes, 0u);
  EXPECT_EQ(record.root_hash, segment->root_hash());
  EXPECT_TRUE(record.non_finite.empty());
}

TEST(ShapeOfTest, KeysOfOneRopeAreTurnedByOne) {
  LayerSpec layer;
  layer.num_q_heads = layer.num_kv_heads = 1;
  layer.head_dim = layer.v_head_dim = 16;
  layer.rope.layout = RopeLayout::kHalf;
  ModelSpec spec = ModelSpec::Uniform(5, layer, DType::kFloat16, "a");
  spec.layers[2].head_dim = 32;
  spec.layers[3].rope.base = 5000;
  spec.layers[4].rope.layout = RopeLayout::kNone;
  EXPECT_EQ(ShapeOf(spec).layers[0].key_turns, nullptr);
  spec.unrotated_keys = true;
  const storage::KvShape shape = ShapeOf(spec);
  ASSERT_EQ(shape.layers.size(), 5u);
  EXPECT_EQ(shape.layers[2].head_dim, 32u);
  EXPECT_NE(shape.layers[0].key_turns, nullptr);
  EXPECT_EQ(shape.layers[1].key_turns, shape.layers[0].key_turns);
  EXPECT_NE(shape.layers[2].key_turns, nullptr);
  EXPECT_NE(shape.layers[2].key_turns, shape.layers[0].key_turns);
  EXPECT_NE(shape.layers[3].key_turns, nullptr);
  EXPECT_NE(shape.layers[3].key_turns, shape.layers[0].key_turns);
  EXPECT_EQ(shape.layers[4].key_turns, nullptr);
}

}  // namespace
}  // namespace attndb::store
