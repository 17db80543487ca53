// Goal:   access times are kept until they are written, and no number is handed out twice.
// Method: a catalog that is closed and opened again, and one that is only read.
#include "store/catalog/catalog_core.h"

#include <gtest/gtest.h>

#include <set>

#include "store/catalog/catalog_test_util.h"
#include "testing/matchers.h"

namespace attndb::store {
namespace {

TEST_F(CatalogTest, AccessTimesSurviveAClose) {
  const ContextId id = harness_.MustPublish(Range(0, 10));
  harness_.now_us += 5;
  harness_->contexts()->Touch(id);
  EXPECT_EQ(Get(id).last_access_us, harness_.now_us);
  harness_.Reopen();
  EXPECT_EQ(Get(id).last_access_us, harness_.now_us);
}

TEST_F(CatalogTest, AnAccessIsTheLaterOfWhatIsNotedAndWhatIsStored) {
  CatalogOptions options;
  options.path = harness_.path();
  options.read_only = true;
  options.clock = [] { return int64_t{100}; };
  CatalogCore reader(options);
  ATTNDB_ASSERT_OK(reader.Open());
  constexpr ContextId kContext{7};
  reader.Touch(kContext);
  MutexLock lock(reader.mutex());
  EXPECT_EQ(reader.LastAccess(kContext, 99), 100);
  EXPECT_EQ(reader.LastAccess(kContext, 101), 101);
  EXPECT_EQ(reader.LastAccess(ContextId{8}, 99), 99);
  EXPECT_EQ(reader.BeginWrite().status().code(), StatusCode::kReadOnly);
}

TEST_F(CatalogTest, NoNumberIsHandedOutTwice) {
  std::set<int64_t> numbers;
  for (int open = 0; open < 3; ++open) {
    for (int i = 0; i < 100; ++i) {
      ATTNDB_ASSERT_OK_AND_ASSIGN(const SegmentId id, harness_->segments()->ReserveId());
      ATTNDB_ASSERT_OK_AND_ASSIGN(const uint64_t generation,
                                  harness_->companions()->ReserveGeneration());
      EXPECT_TRUE(numbers.insert(id).second);
      EXPECT_TRUE(numbers.insert(static_cast<int64_t>(generation)).second);
    }
    harness_.Reopen();
  }
}

}  // namespace
}  // namespace attndb::store
