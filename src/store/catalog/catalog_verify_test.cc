// Goal:   Verify finds every kind of contradiction between rows, and nothing in a sound catalog.
// Method: a catalog that is changed behind the API, by SQL, so that SQLite and the page checksums
//         are content; each change must give the finding that names it, and no call may crash.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <future>
#include <thread>

#include "store/catalog/catalog_test_util.h"
#include "store/catalog/sqlite.h"
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
    const bool in_time = found.wait_for(std::chrono::seconds(20)) == std::future_status::ready;
    EXPECT_TRUE(in_time);
    // Whoever holds the lock must end for the thread to end.
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

TEST(CatalogVerifyBeside, EndsWithTheCallersError) {
  CatalogHarness harness;
  harness.MustPublish(Range(0, 200), {.name = "first"});
  EXPECT_THAT(harness->Verify([] { return Status::Cancelled("enough"); }).status(),
              test::FailsWith(StatusCode::kCancelled, "enough"));
}

INSTANTIATE_TEST_SUITE_P(Changes, CatalogVerify, ::testing::ValuesIn(kChanges));

}  // namespace
}  // namespace attndb::store
