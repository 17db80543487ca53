// Goal:   rows that no writer of ours stores are refused by name, never used.
// Method: queries that make up the values.
#include "store/catalog/catalog_rows.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "store/catalog/catalog_test_util.h"
#include "store/catalog/counters.h"
#include "testing/matchers.h"

namespace attndb::store {
namespace {

using ::attndb::test::FailsWith;
using ::testing::HasSubstr;

class CatalogRows : public ::testing::Test {
 protected:
  CatalogRows() {
    database_ = SqliteDatabase::Open(harness_.path(), SqliteDatabase::Mode::kReadOnly).value();
  }
  Query Row(const char* sql) {
    Query query = database_->Select(sql);
    EXPECT_TRUE(query.Step().value());
    return query;
  }

  CatalogHarness harness_;
  std::unique_ptr<SqliteDatabase> database_;
};

TEST_F(CatalogRows, AContextHasNoNegativeCounts) {
  ATTNDB_EXPECT_OK(ReadContext(Row("SELECT 7,1,1,'n',0,5,5,1,1,NULL,0,0,3,4")));
  EXPECT_THAT(ReadContext(Row("SELECT 7,1,1,'n',0,-5,5,1,1,NULL,0,0,3,4")),
              FailsWith(StatusCode::kCorruption, HasSubstr("context 7: column 5 is -5")));
  EXPECT_THAT(ReadContext(Row("SELECT 7,1,1,'n',0,5,-1,1,1,NULL,0,0,3,4")),
              FailsWith(StatusCode::kCorruption, HasSubstr("column 6 is -1")));
}

TEST_F(CatalogRows, AContextWithoutNameOrTtlHasNone) {
  ATTNDB_ASSERT_OK_AND_ASSIGN(const ContextRow row,
                              ReadContext(Row("SELECT 7,1,2,NULL,-4,5,6,8,9,NULL,1,1,3,4")));
  EXPECT_EQ(row.record.Label(), "#4");
  EXPECT_EQ(row.record.first_position, -4);
  EXPECT_EQ(row.record.ttl_seconds, std::nullopt);
  EXPECT_TRUE(row.record.pinned);
  EXPECT_TRUE(row.record.damaged);
  EXPECT_EQ(row.leaf, static_cast<NodeId>(3));
}

TEST_F(CatalogRows, ASegmentHasARootHashOf32Bytes) {
  ATTNDB_EXPECT_OK(ReadSegment(Row("SELECT 7,1,1,0,5,6,7,8,zeroblob(32),x'',NULL,6")));
  EXPECT_THAT(ReadSegment(Row("SELECT 7,1,1,0,5,6,7,8,zeroblob(31),x'',NULL,6")),
              FailsWith(StatusCode::kCorruption, HasSubstr("segment 7: column 8 is 31 bytes")));
  EXPECT_THAT(ReadSegment(Row("SELECT 7,1,1,0,5,6,7,8,NULL,x'',NULL,6")),
              FailsWith(StatusCode::kCorruption, HasSubstr("0 bytes")));
}

TEST_F(CatalogRows, EachHasANumberOfItsTenant) {
  for (const char* const sql :
       {"SELECT 7,1,1,'n',0,5,5,1,1,NULL,0,0,3,NULL", "SELECT 7,1,1,'n',0,5,5,1,1,NULL,0,0,3,0"}) {
    EXPECT_THAT(ReadContext(Row(sql)),
                FailsWith(StatusCode::kCorruption, HasSubstr("context 7: column 13 is no number")));
  }
  EXPECT_THAT(ReadSegment(Row("SELECT 7,1,1,0,5,6,7,8,zeroblob(32),x'',NULL,-1")),
              FailsWith(StatusCode::kCorruption, HasSubstr("segment 7: column 11 is no number")));
}

TEST_F(CatalogRows, CompanionsComeWithTheirSegment) {
  harness_.MustPublish(Range(0, 10));
  harness_.Close();
  database_ = SqliteDatabase::Open(harness_.path(), SqliteDatabase::Mode::kReadWrite).value();
  ATTNDB_ASSERT_OK(KeepCounters(database_.get()));
  ATTNDB_ASSERT_OK(
      database_->Execute("INSERT INTO companions VALUES(1, 'planes', 1, 1, 100, zeroblob(32))"));
  ATTNDB_ASSERT_OK_AND_ASSIGN(const std::optional<SegmentRecord> segment,
                              FindSegment(database_.get(), 1));
  ASSERT_EQ(segment->companions.size(), 1u);
  EXPECT_EQ(segment->companions[0].kind, "planes");
  EXPECT_EQ(segment->companions[0].generation, 1u);
  EXPECT_TRUE(segment->companions[0].required);
  database_.reset();
  harness_.Reopen();
  const uint64_t bytes = harness_->Stats(harness_.tenant())->file_bytes;
  EXPECT_EQ(bytes, segment->file_bytes + 100);
  ATTNDB_ASSERT_OK(harness_->contexts()->Drop(harness_.tenant(), static_cast<ContextId>(1)));
  ATTNDB_EXPECT_OK(harness_->segments()->Remove(std::vector<SegmentId>{1}));
  EXPECT_EQ(harness_->Stats(harness_.tenant())->file_bytes, 0u);
  EXPECT_EQ(harness_->Verify().value(), std::vector<std::string>());
}

}  // namespace
}  // namespace attndb::store
