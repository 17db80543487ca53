// Goal:   Verify finds every kind of contradiction between rows, and nothing in a sound catalog.
// Method: a catalog that is changed behind the API, by SQL, so that SQLite and the page checksums
//         are content; each change must give the finding that names it, and no call may crash.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <future>
#include <thread>

#include "store/catalog/catalog_test_util.h"
#include "store/catalog/sqlite.h"
#include "testing/event.h"
#include "testing/matchers.h"

namespace attndb::store {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;

struct Change {
  const char* sql;
  const char* finding;
};

constexpr Change kChanges[] = {
    {"UPDATE contexts SET num_tokens = num_tokens + 1 WHERE id = 1",
     "row 1: chain does not hold the context's tokens"},
    {"UPDATE contexts SET num_tokens = num_tokens + 1 WHERE id = 1",
     "context 1: 201 tokens, but its path has 200"},
    {"UPDATE chain SET idx = 5 WHERE context = 2 AND idx = 1",
     "row 2: chain is not numbered from 0"},
    {"UPDATE chain SET num_tokens_used = 100000 WHERE context = 2",
     "row 2: chain uses more tokens than a segment has"},
    {"UPDATE segments SET tenant = 2 WHERE id = 1", "row 1: chain has a segment of another tenant"},
    {"UPDATE segments SET first_position = -5 WHERE id = 2",
     "row 2: chain has a segment of other positions"},
    {"UPDATE segments SET model = 2 WHERE id = 1", "row 1: chain has a segment of another layout"},
    {"UPDATE contexts SET damaged = 1 WHERE id = 1",
     "row 1: damaged flag disagrees with its segments"},
    {"UPDATE meta SET next_segment = 2", "row 2: segment id was never reserved"},
    {"INSERT INTO companions VALUES(1, 'planes', 999, 0, 1, zeroblob(32))",
     "row 1: companion has a generation that was never reserved"},
    {"INSERT INTO companions VALUES(1, 'planes', 1, 0, 1, zeroblob(32)), "
     "(1, 'planes', 2, 0, 1, zeroblob(32))",
     "row 1: segment has two companions of a kind"},
    {"DELETE FROM context_numbers WHERE context = 2", "row 2: context has no number"},
    {"UPDATE context_numbers SET tenant = 2 WHERE context = 1", "row 1: context has no number"},
    {"DELETE FROM segment_numbers WHERE segment = 2", "row 2: segment has no number"},
    {"UPDATE segment_numbers SET tenant = 2 WHERE segment = 1", "row 1: segment has no number"},
    {"UPDATE context_numbers SET number = 3 WHERE context = 1",
     "row 1: context has a number that its tenant did not give yet"},
    {"UPDATE next_numbers SET context = 2 WHERE tenant = 1",
     "row 2: context has a number that its tenant did not give yet"},
    {"UPDATE next_numbers SET segment = 1 WHERE tenant = 1",
     "row 1: segment has a number that its tenant did not give yet"},
    {"DELETE FROM next_numbers WHERE tenant = 2", "row 2: tenant has no next numbers"},
    {"PRAGMA foreign_keys = OFF; INSERT INTO segment_numbers VALUES(99, 2, 1)",
     "foreign_key_check: segment_numbers"},
    {"DELETE FROM segment_uses WHERE segment = 2", "row 2: segment has no counters"},
    {"UPDATE segment_uses SET num_contexts = 9 WHERE segment = 1",
     "row 1: segment counts the contexts that have it wrongly"},
    {"UPDATE segment_uses SET tenant = 2 WHERE segment = 1",
     "row 1: segment counts the contexts that have it wrongly"},
    {"UPDATE segment_uses SET num_contexts = -1", "row 1: segment counts"},
    {"UPDATE segment_uses SET num_settled = num_changes + 1 WHERE segment = 1",
     "row 1: segment is settled beyond its changes"},
    {"DELETE FROM tenant_uses", "row 1: tenant has no counters"},
    {"UPDATE tenant_uses SET num_contexts = 1 WHERE tenant = 1",
     "row 1: tenant counts its contexts wrongly"},
    {"UPDATE tenant_uses SET num_tokens = -1", "row 1: tenant counts its segments wrongly"},
    {"UPDATE tenant_uses SET file_bytes = file_bytes + 1 WHERE tenant = 1",
     "row 1: tenant counts its segments wrongly"},
    {"UPDATE tenant_uses SET num_damaged = 1", "row 2: tenant counts its segments wrongly"},
    {"UPDATE tenant_uses SET companion_bytes = 7", "row 2: tenant counts its companions wrongly"},
    {"UPDATE nodes SET num_uses = num_uses + 1 WHERE id = 2",
     "row 2: prefix node counts its uses wrongly"},
    {"INSERT INTO nodes(parent, key, tokens, num_uses) VALUES(1, zeroblob(32), x'00000063', 0)",
     "prefix node without uses"},
    {"UPDATE nodes SET context = 2 WHERE id = 2",
     "row 2: prefix node does not name its oldest good context"},
    {"UPDATE nodes SET tokens = x'00000001' WHERE id = 2",
     "row 2: prefix node with children has less than 64 tokens"},
    {"UPDATE nodes SET key = zeroblob(32) WHERE id = 2",
     "prefix node 2: key is not that of its tokens"},
    {"UPDATE models SET spec = x'00' WHERE id = 1", "model 1: "},
    {"UPDATE models SET fingerprint = x'00' WHERE id = 1",
     "model 1: identity is not that of its spec"},
    {"UPDATE models SET identity = zeroblob(32) WHERE id = 1",
     "model 1: identity is not that of its spec"},
    {"UPDATE models SET layout = zeroblob(32) WHERE id = 1",
     "model 1: identity is not that of its spec"},
    {"DELETE FROM prefix_roots", "row 1: context's prefix tree is missing"},
    {"DELETE FROM prefix_roots", "prefix nodes, but 0 in trees"},
    {"PRAGMA foreign_keys = OFF; DELETE FROM segments", "foreign_key_check: chain"},
};

class CatalogVerify : public ::testing::TestWithParam<Change> {};

TEST_P(CatalogVerify, NamesTheContradiction) {
  CatalogHarness harness;
  const ContextId first = harness.MustPublish(Range(0, 200), {.name = "first"});
  harness.MustPublish(Range(0, 300), {.name = "second", .base = first, .num_shared = 150});
  ModelSpec other_layout = TestSpec();
  other_layout.layers[0].rope.base = 7;
  harness.set_spec(other_layout);
  ATTNDB_ASSERT_OK(harness->owners()->EnsureTenant("other"));
  ASSERT_THAT(harness->Verify().value(), ::testing::IsEmpty());
  harness.Close();
  {
    const auto database =
        SqliteDatabase::Open(harness.path(), SqliteDatabase::Mode::kReadWrite).value();
    ATTNDB_ASSERT_OK(database->Execute(GetParam().sql));
  }
  const auto catalog = harness.Open(/*read_only=*/true);
  ATTNDB_ASSERT_OK(catalog);
  (void)CatalogHarness::Dump(**catalog, TestSpec()).ok();  // Any answer will do, a crash won't.
  EXPECT_THAT((*catalog)->Verify().value(), Contains(HasSubstr(GetParam().finding)));
}

class CatalogVerifyTest : public ::testing::Test {
 protected:
  void Change(const char* sql) {
    harness_.Close();
    const auto database =
        SqliteDatabase::Open(harness_.path(), SqliteDatabase::Mode::kReadWrite).value();
    ATTNDB_ASSERT_OK(database->Execute(sql));
  }
  std::vector<std::string> FoundByAReader() {
    return harness_.Open(/*read_only=*/true).value()->Verify().value();
  }

  CatalogHarness harness_;
};

TEST_F(CatalogVerifyTest, AListOfRowsEnds) {
  harness_.MustPublish(Range(0, 200));
  Change(
      "WITH RECURSIVE n(i) AS (VALUES(1000) UNION ALL SELECT i + 1 FROM n WHERE i < 2100) "
      "INSERT INTO companions SELECT 1, 'planes', i, 0, 1, zeroblob(32) FROM n");
  EXPECT_EQ(FoundByAReader().size(), 1000u);
}

// A rule holds from the very version on that brought what it is about.
TEST_F(CatalogVerifyTest, ACatalogOfBeforeIsHeldToTheRulesOfItsVersion) {
  harness_.MustPublish(Range(0, 200));
  Change(
      "DROP TABLE continuations; DROP TABLE context_notes; DROP TABLE context_titles;"
      "DROP TABLE text_layouts; DROP TABLE model_sources; PRAGMA user_version = 6;"
      "DELETE FROM context_numbers WHERE context = 1");
  EXPECT_THAT(FoundByAReader(), Contains(HasSubstr("row 1: context has no number")));
}

TEST_F(CatalogVerifyTest, ACatalogOfTheVersionThatBroughtSoundTokensHasThem) {
  harness_.MustPublish(Range(0, 200));
  ATTNDB_ASSERT_OK(harness_->segments()->Quarantine(1, "granule", 200));
  Change(kDropNumbers);
  Change("PRAGMA user_version = 5");
  EXPECT_THAT(FoundByAReader(), ::testing::IsEmpty());
}

// The log's pages replace pages of the file, which may be half-written.
TEST_F(CatalogVerifyTest, PagesOfTheFileAreNotJudgedWhileTheLogHoldsCommits) {
  harness_.MustPublish(Range(0, 200));
  {
    const auto reader =
        SqliteDatabase::Open(harness_.path(), SqliteDatabase::Mode::kReadOnly).value();
    const Transaction snapshot = Transaction::Begin(reader.get(), Transaction::Kind::kRead).value();
    ATTNDB_ASSERT_OK(reader->Select("SELECT * FROM meta").Step());
    harness_.MustPublish(Range(1000, 200));
    ASSERT_FALSE(ReadFile(harness_.path() + "-wal").empty());
    std::fstream file(harness_.path(), std::ios::binary | std::ios::in | std::ios::out);
    file.seekp(4096 + 2000);  // In page 2, which is that of meta.
    file.put('!');
    file.close();
    EXPECT_THAT(harness_->Verify().value(), ::testing::IsEmpty());
  }
  ASSERT_TRUE(harness_->EmptyLog());
  EXPECT_THAT(harness_->Verify().value(), ::testing::IsEmpty());
}

// A catalog on a slow disk: what looks for a context must not wait for a check of all of it.
TEST(CatalogVerifyBeside, OtherCallsGoOnMeanwhile) {
  CatalogHarness harness;
  harness.MustPublish(Range(0, 200), {.name = "first"});
  int num_calls = 0;
  const auto find_and_publish = [&] {
    std::promise<bool> done;
    std::future<bool> found = done.get_future();
    std::thread beside([&] {
      const bool ok = harness->contexts()->Find("", "first").ok();
      harness.MustPublish(Range(0, 10), {.name = "later" + std::to_string(num_calls)});
      done.set_value(ok);
    });
    const bool in_time = found.wait_for(test::kPatience) == std::future_status::ready;
    EXPECT_TRUE(in_time);
    // The holder of the lock must end for the thread to end.
    if (in_time)
      beside.join();
    else
      beside.detach();
    ++num_calls;
    return in_time ? Status::Ok() : Status::Cancelled("nobody else can look");
  };
  EXPECT_THAT(harness->Verify(find_and_publish).value(), ::testing::IsEmpty());
  EXPECT_GT(num_calls, 4);
}

// Once before the pages of a small catalog, and once before each of the seven kinds of checks.
TEST(CatalogVerifyBeside, EndsWithTheCallersErrorAtOnce) {
  CatalogHarness harness;
  harness.MustPublish(Range(0, 200), {.name = "first"});
  int num_calls = 0;
  int last = 0;
  const auto go_on = [&] {
    return ++num_calls == last ? Status::Cancelled("enough") : Status::Ok();
  };
  EXPECT_THAT(harness->Verify(go_on).value(), ::testing::IsEmpty());
  EXPECT_EQ(num_calls, 8);
  for (last = 1; last <= 8; ++last) {
    num_calls = 0;
    EXPECT_THAT(harness->Verify(go_on).status(), test::FailsWith(StatusCode::kCancelled, "enough"));
    EXPECT_EQ(num_calls, last);
  }
}

INSTANTIATE_TEST_SUITE_P(Changes, CatalogVerify, ::testing::ValuesIn(kChanges));

}  // namespace
}  // namespace attndb::store
