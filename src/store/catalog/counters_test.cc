// Goal:   counters are what counting would give, for a catalog of before there were any, too.
// Method: small stores and all that changes a counter, against Verify, which counts again; the same
//         catalogs without their counters, opened for reading and for writing. Random histories:
//         catalog_property_test.cc.
#include "store/catalog/counters.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "store/catalog/catalog_test_util.h"
#include "testing/matchers.h"

namespace attndb::store {
namespace {

using ::testing::IsEmpty;

class Counters : public CatalogTest {
 protected:
  void ExpectStats(const CatalogStats& expected) {
    ExpectStats(harness_->Stats(tenant()).value(), expected);
    EXPECT_THAT(harness_->Verify().value(), IsEmpty());
  }
  static void ExpectStats(const CatalogStats& found, const CatalogStats& expected) {
    EXPECT_EQ(found.num_contexts, expected.num_contexts);
    EXPECT_EQ(found.num_segments, expected.num_segments);
    EXPECT_EQ(found.num_tokens, expected.num_tokens);
    EXPECT_EQ(found.file_bytes, expected.file_bytes);
    EXPECT_EQ(found.num_companions, expected.num_companions);
    EXPECT_EQ(found.companion_bytes, expected.companion_bytes);
    EXPECT_EQ(found.note_bytes, expected.note_bytes);
    EXPECT_EQ(found.num_damaged_segments, expected.num_damaged_segments);
  }
  static uint64_t FileBytes(uint64_t num_tokens) {
    return num_tokens * TestSpec().KvBytesPerToken() + 4096;
  }
  void PublishPlanes(SegmentId segment, uint64_t file_bytes) {
    CompanionRecord companion;
    companion.kind = "planes";
    companion.generation = harness_->companions()->ReserveGeneration().value();
    companion.file_bytes = file_bytes;
    ATTNDB_ASSERT_OK(harness_->companions()->Publish(segment, companion));
  }
  // Removes everything that a catalog before counters lacks.
  void MakeOld() {
    harness_.Close();
    const auto database =
        SqliteDatabase::Open(harness_.path(), SqliteDatabase::Mode::kReadWrite).value();
    ATTNDB_ASSERT_OK(database->Execute(kDropCounters));
    ATTNDB_ASSERT_OK(database->Execute("PRAGMA user_version = 2"));
  }
  uint32_t NumContexts(SegmentId segment, ContextId context) {
    const ContextDetail detail = harness_->contexts()->Describe(tenant(), context).value();
    for (const ChainSegment& link : detail.chain) {
      if (link.segment.id == segment) return link.num_contexts;
    }
    return 0;
  }
};

TEST_F(Counters, FollowContextsSegmentsCompanionsAndDamage) {
  ExpectStats({});
  const ContextId a = harness_.MustPublish(Range(0, 100), {.name = "a"});
  const ContextId b = harness_.MustPublish(Range(0, 120), {.base = a, .num_shared = 100});
  CatalogStats expected = {.num_contexts = 2,
                           .num_segments = 2,
                           .num_tokens = 120,
                           .file_bytes = FileBytes(100) + FileBytes(20)};
  ExpectStats(expected);
  EXPECT_EQ(NumContexts(1, b), 2u);

  PublishPlanes(1, 300);
  PublishPlanes(1, 200);  // In the place of the first.
  PublishPlanes(2, 50);
  expected.num_companions = 2;
  expected.companion_bytes = 250;
  expected.file_bytes += 250;
  ExpectStats(expected);

  ATTNDB_ASSERT_OK(harness_->segments()->Quarantine(2, "torn"));
  ATTNDB_ASSERT_OK(harness_->segments()->Quarantine(2, "torn again"));
  expected.num_damaged_segments = 1;
  ExpectStats(expected);

  // A segment counts until it is forgotten, its companion with it.
  ATTNDB_ASSERT_OK_AND_ASSIGN(const DropOutcome dropped, harness_->contexts()->Drop(tenant(), b));
  expected.num_contexts = 1;
  ExpectStats(expected);
  EXPECT_EQ(NumContexts(1, a), 1u);
  ATTNDB_ASSERT_OK(harness_->segments()->Remove(dropped.unreferenced));
  ExpectStats({.num_contexts = 1,
               .num_segments = 1,
               .num_tokens = 100,
               .file_bytes = FileBytes(100) + 200,
               .num_companions = 1,
               .companion_bytes = 200});
  ATTNDB_ASSERT_OK(harness_->companions()->DropAll(tenant()));
  ExpectStats(
      {.num_contexts = 1, .num_segments = 1, .num_tokens = 100, .file_bytes = FileBytes(100)});
}

TEST_F(Counters, FollowAMergeAndAContextThatGrows) {
  const ContextId a = harness_.MustPublish(Range(0, 10), {.name = "a"});
  const ContextId b =
      harness_.MustPublish(Range(0, 30), {.name = "b", .base = a, .num_shared = 10});
  EXPECT_EQ(harness_.MustPublish(Range(0, 50),
                                 {.name = "b", .replace = true, .base = b, .num_shared = 30}),
            b);
  EXPECT_EQ(NumContexts(1, b), 2u);
  MergeRequest request;
  request.run = {{2, 20}, {3, 20}};
  request.merged.id = harness_->segments()->ReserveId().value();
  request.merged.first_position = 10;
  request.merged.num_tokens = 40;
  ATTNDB_ASSERT_OK(harness_->segments()->ReplaceRun(request));
  EXPECT_EQ(NumContexts(request.merged.id, b), 1u);
  EXPECT_EQ(harness_->Stats(tenant())->num_segments, 4u);  // Two of them to be removed.
  EXPECT_THAT(harness_->Verify().value(), IsEmpty());
}

TEST_F(Counters, AreOfTheirTenantAlone) {
  harness_.MustPublish(Range(0, 100));
  const TenantId mine = tenant();
  const TenantId other = harness_->owners()->EnsureTenant("other")->id;
  ExpectStats(harness_->Stats(other).value(), {});
  harness_.set_tenant(other);
  harness_.MustPublish(Range(0, 7));
  EXPECT_EQ(harness_->Stats(mine)->num_tokens, 100u);
  EXPECT_EQ(harness_->Stats(other)->num_tokens, 7u);
  ExpectStats(harness_->Stats(static_cast<TenantId>(99)).value(), {});
}

TEST_F(Counters, ACatalogWithoutAnyIsReadAsItIsAndCountedByAWriter) {
  const ContextId a = harness_.MustPublish(Range(0, 100), {.name = "a"});
  std::vector<TokenId> tokens = Range(0, 60);
  tokens.insert(tokens.end(), 60, TokenId{7});
  const ContextId b = harness_.MustPublish(tokens, {.base = a, .num_shared = 60});
  PublishPlanes(1, 300);
  ATTNDB_ASSERT_OK(harness_->owners()->EnsureTenant("other"));
  ATTNDB_ASSERT_OK(harness_->segments()->Quarantine(2, "torn"));
  const CatalogStats stats = harness_->Stats(tenant()).value();
  ASSERT_EQ(stats.num_damaged_segments, 1u);
  const std::string all = CatalogHarness::Dump(*harness_, harness_.spec()).value();
  MakeOld();
  const std::string bytes = ReadFile(harness_.path());
  {
    ATTNDB_ASSERT_OK_AND_ASSIGN(const auto reader, harness_.Open(/*read_only=*/true));
    EXPECT_EQ(CatalogHarness::Dump(*reader, harness_.spec()).value(), all);
    ExpectStats(reader->Stats(tenant()).value(), stats);
    EXPECT_THAT(reader->Verify().value(), IsEmpty());
  }
  EXPECT_EQ(ReadFile(harness_.path()), bytes);
  harness_.Reopen();
  EXPECT_EQ(CatalogHarness::Dump(*harness_, harness_.spec()).value(), all);
  ExpectStats(stats);
  harness_.MustPublish(Range(0, 130), {.base = a, .num_shared = 100});
  EXPECT_EQ(NumContexts(1, b), 3u);
  EXPECT_EQ(harness_->Stats(tenant())->num_contexts, 3u);
}

}  // namespace
}  // namespace attndb::store
