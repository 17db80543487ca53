// Goal:   a segment's wishes are kept until they are fulfilled, over processes and merges, and are
//         forgotten with the segment. A catalog older than wishes is upgraded.
// Method: small stores, one behaviour a test; Verify at the end of each.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "store/catalog/catalog_test_util.h"
#include "testing/matchers.h"

namespace attndb::store {
namespace {

using ::attndb::test::FailsWith;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class CatalogWishes : public CatalogTest {
 protected:
  std::vector<Wish> All() { return harness_->companions()->Wishes(TenantId::kNone).value(); }
  void Publish(SegmentId segment, const std::string& kind) {
    CompanionRecord companion;
    companion.kind = kind;
    companion.generation = harness_->companions()->ReserveGeneration().value();
    companion.file_bytes = 100;
    companion.root_hash.fill(std::byte{7});
    ATTNDB_ASSERT_OK(harness_->companions()->Publish(segment, companion));
  }
};

TEST_F(CatalogWishes, OneIsKnownUntilItIsFulfilled) {
  harness_.MustPublish(Range(0, 100));
  ATTNDB_ASSERT_OK(harness_->companions()->AddWish(1, "graph"));
  ATTNDB_ASSERT_OK(harness_->companions()->AddWish(1, "graph"));
  ATTNDB_ASSERT_OK(harness_->companions()->AddWish(1, "pq"));
  harness_.Reopen();
  EXPECT_THAT(All(), ElementsAre(Wish{1, "graph"}, Wish{1, "pq"}));
  EXPECT_THAT(harness_->companions()->Wishes(tenant()).value(),
              ElementsAre(Wish{1, "graph"}, Wish{1, "pq"}));
  EXPECT_THAT(harness_->companions()->WishesOf(1).value(),
              ElementsAre(Wish{1, "graph"}, Wish{1, "pq"}));
  EXPECT_THAT(harness_->companions()->WishesOf(2).value(), IsEmpty());
  Publish(1, "graph");
  EXPECT_THAT(All(), ElementsAre(Wish{1, "pq"}));
  ATTNDB_ASSERT_OK(harness_->companions()->AddWish(1, "graph"));  // It has one.
  EXPECT_THAT(All(), ElementsAre(Wish{1, "pq"}));
}

TEST_F(CatalogWishes, SegmentsThatThereAreNotHaveNone) {
  ATTNDB_ASSERT_OK(harness_->companions()->AddWish(99, "graph"));
  EXPECT_THAT(All(), IsEmpty());
  harness_.MustPublish(Range(0, 100));
  ASSERT_THAT(harness_->segments()->Quarantine(1, "torn"), test::IsOk());
  ATTNDB_ASSERT_OK(harness_->companions()->AddWish(1, "graph"));
  EXPECT_THAT(All(), IsEmpty());
}

TEST_F(CatalogWishes, OneThatIsKnownAlreadyCommitsNothing) {
  harness_.MustPublish(Range(0, 100));
  int num_asked = 0;  // Before a transaction, and before its commit is acknowledged.
  harness_.check_place = [&num_asked] {
    ++num_asked;
    return Status::Ok();
  };
  ATTNDB_ASSERT_OK(harness_->companions()->AddWish(1, "graph"));
  EXPECT_EQ(num_asked, 2);
  ATTNDB_ASSERT_OK(harness_->companions()->AddWish(1, "graph"));
  EXPECT_EQ(num_asked, 3);
  harness_.check_place = nullptr;
}

// Names of files are made of kinds: none but those of companions goes on to where they are.
TEST_F(CatalogWishes, OneThatNoWriterStoresIsNamed) {
  harness_.MustPublish(Range(0, 100));
  for (const char* const kind : {"../x", "segment"}) {
    harness_.Close();
    {
      const auto database =
          SqliteDatabase::Open(harness_.path(), SqliteDatabase::Mode::kReadWrite).value();
      ATTNDB_ASSERT_OK(database->Execute("DELETE FROM wishes"));
      ATTNDB_ASSERT_OK(
          database->Run("INSERT INTO wishes(segment, kind) VALUES(1, ?)", std::string_view(kind)));
    }
    harness_.Reopen();
    const auto is_named =
        FailsWith(StatusCode::kCorruption,
                  HasSubstr("wish of segment 1: kind \"" + std::string(kind) + "\""));
    EXPECT_THAT(harness_->companions()->Wishes(tenant()), is_named);
    EXPECT_THAT(harness_->companions()->WishesOf(1), is_named);
  }
}

TEST_F(CatalogWishes, TheyGoWithTheirSegmentAndTheirKind) {
  const ContextId context = harness_.MustPublish(Range(0, 100));
  ATTNDB_ASSERT_OK(harness_->companions()->AddWish(1, "graph"));
  ATTNDB_ASSERT_OK(harness_->companions()->AddWish(1, "former"));
  ATTNDB_ASSERT_OK(harness_->companions()->DropKind("former"));
  EXPECT_THAT(All(), ElementsAre(Wish{1, "graph"}));
  const DropOutcome dropped = harness_->contexts()->Drop(tenant(), context).value();
  EXPECT_THAT(All(), IsEmpty()) << "nobody uses the segment";
  ATTNDB_ASSERT_OK(harness_->segments()->Remove(dropped.unreferenced));
}

TEST_F(CatalogWishes, AMergedSegmentTakesThemOver) {
  const ContextId a = harness_.MustPublish(Range(0, 10));
  const ContextId b = harness_.MustPublish(Range(0, 20), {.base = a, .num_shared = 10});
  harness_.MustPublish(Range(0, 30), {.base = b, .num_shared = 20});
  Publish(1, "planes");
  ATTNDB_ASSERT_OK(harness_->companions()->AddWish(2, "graph"));
  ATTNDB_ASSERT_OK(harness_->companions()->AddWish(3, "pq"));
  MergeRequest request;
  request.run = {{1, 10}, {2, 10}};
  request.merged.id = harness_->segments()->ReserveId().value();
  request.merged.num_tokens = 20;
  ATTNDB_ASSERT_OK(harness_->segments()->ReplaceRun(request));
  const SegmentId merged = request.merged.id;
  EXPECT_THAT(harness_->companions()->WishesOf(merged).value(),
              ElementsAre(Wish{merged, "graph"}, Wish{merged, "planes"}));
}

TEST_F(CatalogWishes, ACatalogFromBeforeThereWereAnyIsTakenOn) {
  harness_.MustPublish(Range(0, 100));
  harness_.Close();
  {
    auto database = SqliteDatabase::Open(harness_.path(), SqliteDatabase::Mode::kReadWrite);
    ATTNDB_ASSERT_OK((*database)->Execute(kDropCounters));
    ATTNDB_ASSERT_OK((*database)->Execute("DROP TABLE wishes"));
    ATTNDB_ASSERT_OK((*database)->Execute("PRAGMA user_version = 1"));
  }
  {
    ATTNDB_ASSERT_OK_AND_ASSIGN(const auto reader, harness_.Open(/*read_only=*/true));
    EXPECT_THAT(reader->companions()->Wishes(TenantId::kNone).value(), IsEmpty());
    EXPECT_EQ(reader->segments()->Get(1)->num_tokens, 100u);
  }
  harness_.Reopen();
  ATTNDB_ASSERT_OK(harness_->companions()->AddWish(1, "graph"));
  harness_.Reopen();
  EXPECT_THAT(All(), ElementsAre(Wish{1, "graph"}));
}

}  // namespace
}  // namespace attndb::store
