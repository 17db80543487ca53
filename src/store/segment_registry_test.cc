// Goal:   a segment is open once, stays open for the next reader, and is closed when too many are
//         that nobody reads: the longest unused first.
// Method: more small segments in memory than may stay open.
#include "store/segment_registry.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "store/catalog/catalog_test_util.h"
#include "testing/matchers.h"
#include "testing/memory_file_system.h"
#include "testing/segment_data.h"

namespace attndb::store {
namespace {

class SegmentRegistryTest : public CatalogTest {
 protected:
  SegmentRegistryTest() { ATTNDB_EXPECT_OK(files_.CreateDir("segments")); }

  SegmentRecord Write() {
    const test::SegmentData data =
        test::RandomSegment({.shape = ShapeOf(harness_.spec()), .num_tokens = 1}, &random_);
    test::DataSource source(&data, 1);
    SegmentRecord record;
    record.model = harness_.model();
    record.num_tokens = 1;
    ATTNDB_EXPECT_OK(registry_.Write(&source, &record));
    return record;
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

}  // namespace
}  // namespace attndb::store
