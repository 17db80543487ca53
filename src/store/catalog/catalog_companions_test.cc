// Goal:   a companion is stored wholly or not at all. It is removed with its segment,
//         its bytes are counted, and it can be dropped without harm to other rows.
// Method: small stores, one behaviour a test; Verify at the end of each. Rows that SQL has changed,
//         and a damaged page.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "store/catalog/catalog_test_util.h"
#include "testing/matchers.h"

namespace attndb::store {
namespace {

using ::attndb::test::FailsWith;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

using Name = storage::ObjectName;

class CatalogCompanions : public CatalogTest {
 protected:
  // One of 100 bytes and a generation of its own.
  CompanionRecord Planes(const std::string& kind = "planes") {
    CompanionRecord companion;
    companion.kind = kind;
    companion.generation = harness_->companions()->ReserveGeneration().value();
    companion.file_bytes = 100;
    companion.root_hash.fill(std::byte{7});
    return companion;
  }
  std::vector<SegmentId> Missing(uint64_t min_tokens = 1) {
    return harness_->companions()->SegmentsWithout(tenant(), {"planes", min_tokens}).value();
  }
};

TEST_F(CatalogCompanions, OneIsPublishedAndSurvivesAReopen) {
  const ContextId context = harness_.MustPublish(Range(0, 100));
  const uint64_t bytes = harness_->Stats(tenant())->file_bytes;
  const CompanionRecord planes = Planes();
  EXPECT_THAT(harness_->companions()->Publish(1, planes).value(), IsEmpty());
  harness_.Reopen();
  const SegmentRecord segment = harness_->segments()->Get(1).value();
  const CompanionRecord* const found = segment.FindCompanion("planes");
  ASSERT_NE(found, nullptr);
  EXPECT_EQ(found->generation, planes.generation);
  EXPECT_EQ(found->root_hash, planes.root_hash);
  EXPECT_EQ(segment.FindCompanion("graph"), nullptr);
  EXPECT_EQ(segment.total_bytes(), segment.file_bytes + 100);
  const CatalogStats stats = harness_->Stats(tenant()).value();
  EXPECT_EQ(stats.num_companions, 1u);
  EXPECT_EQ(stats.companion_bytes, 100u);
  EXPECT_EQ(stats.file_bytes, bytes + 100);
  const ContextDetail detail = harness_->contexts()->Describe(tenant(), context).value();
  EXPECT_EQ(detail.file_bytes, bytes + 100);
  EXPECT_EQ(detail.own_bytes, bytes + 100);
  EXPECT_THAT(harness_->companions()->KnownObjects().value(),
              ElementsAre(Name{1, "planes", planes.generation}, Name{.segment_id = 1}));
}

TEST_F(CatalogCompanions, ANewerOneTakesThePlaceOfTheOldAndAnOlderIsRefused) {
  harness_.MustPublish(Range(0, 100));
  const CompanionRecord first = Planes();
  const CompanionRecord second = Planes();
  ATTNDB_ASSERT_OK(harness_->companions()->Publish(1, Planes("graph")));
  ATTNDB_ASSERT_OK(harness_->companions()->Publish(1, first));
  const std::vector<CompanionRecord> replaced = harness_->companions()->Publish(1, second).value();
  ASSERT_EQ(replaced.size(), 1u);
  EXPECT_EQ(replaced[0].generation, first.generation);
  for (const CompanionRecord& again : {first, second}) {
    EXPECT_THAT(harness_->companions()->Publish(1, again),
                FailsWith(StatusCode::kAlreadyExists, HasSubstr("expected less than")));
  }
  EXPECT_EQ(harness_->segments()->Get(1)->companions.size(), 2u);
}

TEST_F(CatalogCompanions, OnlyASegmentInUseCanHaveOne) {
  const ContextId context = harness_.MustPublish(Range(0, 100));
  harness_.MustPublish(Range(5, 100));
  ATTNDB_ASSERT_OK(harness_->segments()->Quarantine(2, "bits"));
  EXPECT_THAT(harness_->companions()->Publish(2, Planes()),
              FailsWith(StatusCode::kFailedPrecondition, HasSubstr("quarantined: bits")));
  ATTNDB_ASSERT_OK(harness_->contexts()->Drop(tenant(), context));
  EXPECT_THAT(harness_->companions()->Publish(1, Planes()),
              FailsWith(StatusCode::kFailedPrecondition, HasSubstr("no context uses the segment")));
  EXPECT_THAT(harness_->companions()->Publish(99, Planes()),
              FailsWith(StatusCode::kFailedPrecondition, HasSubstr("not in the store")));
}

TEST_F(CatalogCompanions, ItGoesWithItsSegment) {
  const ContextId context = harness_.MustPublish(Range(0, 100));
  ATTNDB_ASSERT_OK(harness_->companions()->Publish(1, Planes()));
  ATTNDB_ASSERT_OK(harness_->contexts()->Drop(tenant(), context));
  const std::vector<SegmentRecord> removed =
      harness_->segments()->Remove(std::vector<SegmentId>{1}).value();
  ASSERT_EQ(removed.size(), 1u);
  EXPECT_EQ(removed[0].companions.size(), 1u);
  EXPECT_THAT(harness_->companions()->KnownObjects().value(), IsEmpty());
  EXPECT_EQ(harness_->Stats(tenant())->file_bytes, 0u);
}

TEST_F(CatalogCompanions, WhatAnOpenForgetsTakesItAlong) {
  const ContextId context = harness_.MustPublish(Range(0, 100));
  ATTNDB_ASSERT_OK(harness_->companions()->Publish(1, Planes()));
  ATTNDB_ASSERT_OK(harness_->contexts()->Drop(tenant(), context));
  harness_.Reopen();
  EXPECT_THAT(harness_->companions()->KnownObjects().value(), IsEmpty());
}

TEST_F(CatalogCompanions, DroppedOnesAreGoneAndTheirContextsAreNot) {
  const ContextId context = harness_.MustPublish(Range(0, 100));
  const CompanionRecord planes = Planes();
  ATTNDB_ASSERT_OK(harness_->companions()->Publish(1, planes));
  EXPECT_FALSE(harness_->companions()->Drop(1, "planes", planes.generation + 1).value());
  EXPECT_FALSE(harness_->companions()->Drop(1, "graph", planes.generation).value());
  EXPECT_TRUE(harness_->companions()->Drop(1, "planes", planes.generation).value());
  EXPECT_FALSE(harness_->companions()->Drop(1, "planes", planes.generation).value());
  EXPECT_FALSE(Get(context).damaged);
  EXPECT_EQ(harness_->Stats(tenant())->num_companions, 0u);
}

TEST_F(CatalogCompanions, AKindCanBeDroppedFromAllSegments) {
  harness_.MustPublish(Range(0, 100));
  harness_.MustPublish(Range(5, 100));
  const CompanionRecord planes = Planes();
  ATTNDB_ASSERT_OK(harness_->companions()->Publish(1, planes));
  ATTNDB_ASSERT_OK(harness_->companions()->Publish(1, Planes("graph")));
  ATTNDB_ASSERT_OK(harness_->companions()->Publish(2, Planes("graph")));
  for (int i = 0; i < 2; ++i) {
    ATTNDB_ASSERT_OK(harness_->companions()->DropKind("graph"));
    EXPECT_THAT(harness_->companions()->Droppable(TenantId::kNone).value(),
                ElementsAre(Name{1, "planes", planes.generation}));
  }
}

TEST_F(CatalogCompanions, ATenantsCanBeDroppedTogetherButForRequiredOnes) {
  harness_.MustPublish(Range(0, 100));
  harness_.MustPublish(Range(5, 100));
  const CompanionRecord first = Planes();
  const CompanionRecord second = Planes();
  CompanionRecord required = Planes("keys");
  required.required = true;
  ATTNDB_ASSERT_OK(harness_->companions()->Publish(1, first));
  ATTNDB_ASSERT_OK(harness_->companions()->Publish(2, second));
  ATTNDB_ASSERT_OK(harness_->companions()->Publish(2, required));
  const TenantId other = harness_->owners()->EnsureTenant("other")->id;
  EXPECT_THAT(harness_->companions()->DropAll(other).value(), IsEmpty());
  EXPECT_THAT(harness_->companions()->Droppable(other).value(), IsEmpty());
  for (const TenantId of : {tenant(), TenantId::kNone}) {
    EXPECT_THAT(
        harness_->companions()->Droppable(of).value(),
        ElementsAre(Name{1, "planes", first.generation}, Name{2, "planes", second.generation}));
  }
  EXPECT_THAT(
      harness_->companions()->DropAll(tenant()).value(),
      ElementsAre(Name{1, "planes", first.generation}, Name{2, "planes", second.generation}));
  EXPECT_EQ(harness_->Stats(tenant())->num_companions, 1u);
}

TEST_F(CatalogCompanions, SegmentsThatCouldHaveOneAreFound) {
  harness_.MustPublish(Range(0, 100));
  const ContextId dropped = harness_.MustPublish(Range(5, 200));
  harness_.MustPublish(Range(7, 300));
  harness_.MustPublish(Range(9, 400));
  EXPECT_THAT(Missing(), ElementsAre(1, 2, 3, 4));
  EXPECT_THAT(Missing(200), ElementsAre(2, 3, 4));
  ATTNDB_ASSERT_OK(harness_->contexts()->Drop(tenant(), dropped));
  ATTNDB_ASSERT_OK(harness_->segments()->Quarantine(3, "bits"));
  ATTNDB_ASSERT_OK(harness_->companions()->Publish(4, Planes("graph")));
  EXPECT_THAT(Missing(), ElementsAre(1, 4));
  ATTNDB_ASSERT_OK(harness_->companions()->Publish(4, Planes()));
  EXPECT_THAT(Missing(), ElementsAre(1));
  const TenantId other = harness_->owners()->EnsureTenant("other")->id;
  EXPECT_THAT(harness_->companions()->SegmentsWithout(other, {"planes", 1}).value(), IsEmpty());
  EXPECT_THAT(harness_->companions()->SegmentsWithout(TenantId::kNone, {"planes", 1}).value(),
              ElementsAre(1));
}

TEST_F(CatalogCompanions, GenerationsAreNeverUsedAgain) {
  std::vector<uint64_t> generations;
  for (int i = 0; i < 100; ++i) {
    generations.push_back(harness_->companions()->ReserveGeneration().value());
    if (i % 30 == 0) harness_.Reopen();
  }
  EXPECT_TRUE(std::ranges::is_sorted(generations));
  EXPECT_EQ(std::ranges::adjacent_find(generations), generations.end());
}

// A commit asks for the folder twice: before it, and before it is acknowledged.
TEST_F(CatalogCompanions, ADropOfNothingCommitsNothing) {
  harness_.MustPublish(Range(0, 100));
  int num_asked = 0;
  harness_.check_place = [&] {
    ++num_asked;
    return Status();
  };
  EXPECT_FALSE(harness_->companions()->Drop(1, "planes", 7).value());
  ATTNDB_EXPECT_OK(harness_->companions()->DropKind("planes"));
  EXPECT_THAT(harness_->companions()->DropAll(tenant()).value(), IsEmpty());
  harness_.check_place = nullptr;
  EXPECT_EQ(num_asked, 3);
}

// --- Rows and pages as no writer leaves them.

TEST(CatalogCompanionRows, WhatCanBeNoCompanionsNameIsCorrupt) {
  CatalogHarness harness;
  harness.MustPublish(Range(0, 100));
  ATTNDB_ASSERT_OK(harness->companions()->Publish(1, {.kind = "planes", .generation = 3}));
  const struct {
    const char* sql;
    Name name;  // One of kSegmentKind: the row is corrupt.
  } cases[] = {
      {"UPDATE companions SET generation = 0", {1, "planes", 0}},
      {"UPDATE companions SET generation = -1", {}},
      {"UPDATE companions SET generation = 3, kind = 'No kind'", {}},
      {"UPDATE companions SET generation = 0, kind = 'segment'", {}},
      {"UPDATE companions SET generation = 4, kind = 'k'", {1, "k", 4}},
  };
  for (const auto& [sql, name] : cases) {
    SCOPED_TRACE(sql);
    harness.Close();
    ChangeRows(harness.path(), sql);
    harness.Reopen();
    const auto known = harness->companions()->KnownObjects();
    const auto droppable = harness->companions()->Droppable(TenantId::kNone);
    if (name.kind != storage::kSegmentKind) {
      EXPECT_THAT(known.value(), ElementsAre(name, Name{.segment_id = 1}));
      EXPECT_THAT(droppable.value(), ElementsAre(name));
      continue;
    }
    const auto is_corrupt =
        FailsWith(StatusCode::kCorruption, HasSubstr("companion of segment 1: kind"));
    EXPECT_THAT(known, is_corrupt);
    EXPECT_THAT(droppable, is_corrupt);
  }
}

TEST(CatalogCompanionRows, ADamagedPageDoesNotHideWhatLacksACompanion) {
  CatalogHarness harness;
  harness.MustPublish(Range(0, 100));
  harness.Close();
  DamageRootPageOf(harness.path(), "segments");
  const auto is_corrupt = FailsWith(StatusCode::kCorruption, HasSubstr("is damaged"));
  for (const bool read_only : {true, false}) {
    const auto catalog = harness.Open(read_only);
    if (!catalog.ok()) {  // SQLite may have read the page already.
      EXPECT_THAT(catalog, is_corrupt);
      continue;
    }
    for (int i = 0; i < 2; ++i) {
      EXPECT_THAT((*catalog)->companions()->SegmentsWithout(TenantId::kNone, {"planes", 1}),
                  is_corrupt);
    }
  }
}

}  // namespace
}  // namespace attndb::store
