// Goal:   rows that no version of attndb writes are refused by name, never used.
// Method: queries that make up the values.
#include "store/catalog/catalog_rows.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "store/catalog/catalog_test_util.h"
#include "store/catalog/counters.h"
#include "store/catalog/model_identity.h"
#include "testing/matchers.h"

namespace attndb::store {
namespace {

using ::attndb::test::FailsWith;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class CatalogRows : public ::testing::Test {
 protected:
  CatalogRows() {
    database_ = SqliteDatabase::Open(harness_.path(), SqliteDatabase::Mode::kReadOnly).value();
  }
  // The catalog with one context of ten tokens, in one segment, after the statements.
  void Change(const char* sql) {
    harness_.MustPublish(Range(0, 10));
    harness_.Close();
    database_ = SqliteDatabase::Open(harness_.path(), SqliteDatabase::Mode::kReadWrite).value();
    ATTNDB_ASSERT_OK(database_->Execute(sql));
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

TEST_F(CatalogRows, AContextIsReadAsItStands) {
  ATTNDB_ASSERT_OK_AND_ASSIGN(const ContextRow row,
                              ReadContext(Row("SELECT 7,1,2,'n',-4,5,6,8,9,10,1,0,3,4")));
  EXPECT_EQ(row.record.id, ContextId{7});
  EXPECT_EQ(row.record.tenant, TenantId{1});
  EXPECT_EQ(row.record.model, ModelId{2});
  EXPECT_EQ(row.record.name, "n");
  EXPECT_EQ(row.record.num_tokens, 5u);
  EXPECT_EQ(row.record.kv_bytes, 6u);
  EXPECT_EQ(row.record.created_us, 8);
  EXPECT_EQ(row.record.last_access_us, 9);
  EXPECT_EQ(row.record.ttl_seconds, 10);
  EXPECT_TRUE(row.record.pinned);
  EXPECT_FALSE(row.record.damaged);
  EXPECT_EQ(row.record.number, ContextNumber{4});
}

TEST_F(CatalogRows, ASegmentIsReadAsItStands) {
  ATTNDB_ASSERT_OK_AND_ASSIGN(
      const SegmentRecord segment,
      ReadSegment(Row("SELECT 7,1,2,-3,5,6,8,9,"
                      "x'000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f',"
                      "x'0102','torn',10")));
  EXPECT_EQ(segment.id, 7);
  EXPECT_EQ(segment.tenant, TenantId{1});
  EXPECT_EQ(segment.model, ModelId{2});
  EXPECT_EQ(segment.first_position, -3);
  EXPECT_EQ(segment.num_tokens, 5u);
  EXPECT_EQ(segment.file_bytes, 6u);
  EXPECT_EQ(segment.kv_bytes, 8u);
  EXPECT_EQ(segment.query_bytes, 9u);
  EXPECT_EQ(segment.root_hash[31], std::byte{0x1f});
  EXPECT_THAT(segment.non_finite, ElementsAre(std::byte{1}, std::byte{2}));
  EXPECT_EQ(segment.damage, "torn");
  EXPECT_EQ(segment.number, SegmentNumber{10});
}

// 2^60 and 2^31.
TEST_F(CatalogRows, PositionsAndCountsHaveTheirLimits) {
  for (const char* const sql : {"SELECT 7,1,1,'n',1152921504606846976,1,5,1,1,NULL,0,0,3,4",
                                "SELECT 7,1,1,'n',-1152921504606846976,1,5,1,1,NULL,0,0,3,4"}) {
    ATTNDB_EXPECT_OK(ReadContext(Row(sql)));
  }
  EXPECT_THAT(ReadContext(Row("SELECT 7,1,1,'n',1152921504606846977,1,5,1,1,NULL,0,0,3,4")),
              FailsWith(StatusCode::kCorruption, HasSubstr("column 4 is 1152921504606846977")));
  EXPECT_THAT(ReadContext(Row("SELECT 7,1,1,'n',-1152921504606846977,1,5,1,1,NULL,0,0,3,4")),
              FailsWith(StatusCode::kCorruption, HasSubstr("column 4 is -1152921504606846977")));
  EXPECT_THAT(ReadContext(Row("SELECT 7,1,1,'n',0,0,5,1,1,NULL,0,0,3,4")),
              FailsWith(StatusCode::kCorruption, HasSubstr("column 5 is 0")));
  ATTNDB_EXPECT_OK(ReadSegment(Row("SELECT 7,1,1,0,2147483648,6,7,8,zeroblob(32),x'',NULL,6")));
  EXPECT_THAT(ReadSegment(Row("SELECT 7,1,1,0,2147483649,6,7,8,zeroblob(32),x'',NULL,6")),
              FailsWith(StatusCode::kCorruption, HasSubstr("column 4 is 2147483649")));
}

TEST_F(CatalogRows, TenantsModelsAndCompanionsThatNoWriterStoresAreNamed) {
  Change(
      "PRAGMA ignore_check_constraints = ON; UPDATE tenants SET quota_bytes = -1;"
      "UPDATE models SET layout = x'00';"
      "INSERT INTO companions VALUES(1, 'planes', -1, 0, 100, zeroblob(32))");
  EXPECT_THAT(LoadTenantRow(database_.get(), TenantId{1}),
              FailsWith(StatusCode::kCorruption, HasSubstr("tenant 1: column 3 is -1")));
  EXPECT_THAT(LoadModelRow(database_.get(), ModelId{1}),
              FailsWith(StatusCode::kCorruption, HasSubstr("model 1: column 2 is 1 bytes")));
  EXPECT_THAT(
      FindSegment(database_.get(), 1),
      FailsWith(StatusCode::kCorruption, HasSubstr("companion of segment 1: column 2 is -1")));
}

TEST_F(CatalogRows, AChainUsesNoMoreThanItsSegmentsHave) {
  Change("PRAGMA foreign_keys = OFF; UPDATE chain SET num_tokens_used = 11");
  EXPECT_THAT(LoadChain(database_.get(), ContextId{1}),
              FailsWith(StatusCode::kCorruption,
                        HasSubstr("context 1: uses 11 tokens of segment 1, which has 10")));
  ATTNDB_ASSERT_OK(database_->Execute("UPDATE chain SET num_tokens_used = 10"));
  EXPECT_THAT(LoadChain(database_.get(), ContextId{1}).value(), ElementsAre(ChainLink{1, 10}));
  ATTNDB_ASSERT_OK(database_->Execute("DELETE FROM segments"));
  EXPECT_THAT(LoadChain(database_.get(), ContextId{1}),
              FailsWith(StatusCode::kCorruption, HasSubstr("which has no row")));
}

TEST_F(CatalogRows, WhatNoChainHasIsToldOnceAndInOrder) {
  harness_.MustPublish(Range(0, 10));
  EXPECT_THAT(Unreferenced(database_.get(), {5, 1, 3, 5}).value(), ElementsAre(3, 5));
}

// Builds before wrote fingerprints into the table as they are; a view that fails for one of them
// stands in for rows that can't be read.
TEST_F(CatalogRows, ADeclarationThatCantBeReadIsNotTakenForNone) {
  harness_.set_spec(TestSpec("others"));
  ATTNDB_ASSERT_OK(harness_->owners()->DeclareEqual(harness_.tenant(), "weights", "others"));
  Change(
      "INSERT INTO equal_fingerprints VALUES(CAST('weights' AS BLOB), x'01'),"
      "  (CAST('others' AS BLOB), x'02')");
  const TenantRow tenant = LoadTenantRow(database_.get(), harness_.tenant()).value();
  const Sha256Digest layout = EncodeModel(TestSpec()).layout;
  EXPECT_EQ(EqualModels(database_.get(), tenant, layout, "weights")->size(), 2u);
  for (const char* const fingerprint : {"weights", "others"}) {
    SCOPED_TRACE(fingerprint);
    const std::string view =
        "CREATE TEMP VIEW equal_fingerprints AS SELECT a, CASE WHEN a = CAST('" +
        std::string(fingerprint) +
        "' AS BLOB) THEN abs(-9223372036854775808) ELSE b END AS b FROM main.equal_fingerprints";
    ATTNDB_ASSERT_OK(database_->Execute(view.c_str()));
    EXPECT_THAT(EqualModels(database_.get(), tenant, layout, "weights"),
                FailsWith(StatusCode::kInternal, HasSubstr("overflow")));
    ATTNDB_ASSERT_OK(database_->Execute("DROP VIEW temp.equal_fingerprints"));
  }
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
  EXPECT_EQ(segment->companions[0].file_bytes, 100u);
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
