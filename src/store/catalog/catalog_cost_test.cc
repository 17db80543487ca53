// Goal:   what a call costs does not grow with the number of contexts: all that does is in an
//         index.
// Method: steps of SQLite's virtual machine that a call takes among 20 contexts and among 1,000
//         that share a prefix, and rows of tables that it scanned. Steps are no times: they are the
//         same on every machine. They are counted by SQLite itself, on every connection of this
//         process.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sqlite3.h>

#include <functional>

#include "store/catalog/catalog_test_util.h"
#include "testing/matchers.h"

namespace attndb::store {
namespace {

constexpr int kFew = 20;
constexpr int kMany = 1000;
constexpr uint64_t kPrefixTokens = 200;

struct Cost {
  int64_t num_steps = 0;
  int64_t num_scanned = 0;  // Rows of tables that were read without an index.
  std::string scans;        // By which statements.
};
Cost total;

int NoteStatement(unsigned, void*, void* statement, void*) {
  auto* const stmt = static_cast<sqlite3_stmt*>(statement);
  total.num_steps += sqlite3_stmt_status(stmt, SQLITE_STMTSTATUS_VM_STEP, /*resetFlg=*/1);
  const int num_scanned = sqlite3_stmt_status(stmt, SQLITE_STMTSTATUS_FULLSCAN_STEP, 1);
  total.num_scanned += num_scanned;
  if (num_scanned > 0) total.scans.append(sqlite3_sql(stmt)).append("\n");
  return 0;
}

// As sqlite3_auto_extension wants it.
int CountSteps(sqlite3* handle, const char**, const void*) {
  return sqlite3_trace_v2(handle, SQLITE_TRACE_PROFILE, NoteStatement, nullptr);
}

class CatalogCost : public ::testing::Test {
 protected:
  CatalogCost() {
    sqlite3_auto_extension(reinterpret_cast<void (*)()>(CountSteps));
    few_ = MakeStore(kFew);
    many_ = MakeStore(kMany);
  }
  ~CatalogCost() override {
    sqlite3_cancel_auto_extension(reinterpret_cast<void (*)()>(CountSteps));
  }

  static std::unique_ptr<CatalogHarness> MakeStore(int num_contexts) {
    auto store = std::make_unique<CatalogHarness>();
    store->MustPublish(Range(0, kPrefixTokens), {.name = "prefix", .pin = true});
    for (int i = 0; i < num_contexts; ++i) Publish(store.get(), i);
    return store;
  }
  static std::vector<TokenId> TokensOf(int i) {
    std::vector<TokenId> tokens = Range(0, kPrefixTokens);
    tokens.insert(tokens.end(), {1, static_cast<TokenId>(i), 3});
    return tokens;
  }
  // The number of the context is that of its id, but for the prefix.
  static ContextId Publish(CatalogHarness* store, int i) {
    return store->MustPublish(TokensOf(i), {.base = ContextId{1}, .num_shared = kPrefixTokens});
  }

  void Expect(const std::function<void(CatalogHarness*)>& call) {
    call(few_.get());  // Statements are prepared.
    call(many_.get());
    total = {};
    call(few_.get());
    const Cost beside_few = total;
    total = {};
    call(many_.get());
    EXPECT_LE(total.num_steps, beside_few.num_steps + 20);
    EXPECT_LE(total.num_scanned, beside_few.num_scanned) << total.scans;
  }

  std::unique_ptr<CatalogHarness> few_;
  std::unique_ptr<CatalogHarness> many_;
};

TEST_F(CatalogCost, IsCounted) {
  total = {};
  ATTNDB_EXPECT_OK((*few_)->contexts()->List(few_->tenant()));
  EXPECT_GT(total.num_steps, kFew);
  EXPECT_LT(total.num_steps, 100 * kFew);
  total = {};
  ATTNDB_EXPECT_OK((*many_)->contexts()->List(many_->tenant()));
  EXPECT_GT(total.num_steps, 100 * kFew);
  total = {};
  ATTNDB_EXPECT_OK(
      (*few_)->companions()->KnownObjects());  // Which reads the table of segments from end to end.
  EXPECT_GE(total.num_scanned, kFew);
}

TEST_F(CatalogCost, OfALookup) {
  Expect([](CatalogHarness* store) {
    EXPECT_EQ(store->Longest(TokensOf(7))->num_tokens, kPrefixTokens + 3);
    EXPECT_EQ(store->Longest(Range(0, 150))->num_tokens, 150u);
    EXPECT_FALSE((*store)->contexts()->AnyExpired().value());
    EXPECT_EQ((*store)->contexts()->Chain(ContextId{9})->size(), 2u);
    ATTNDB_EXPECT_OK((*store)->contexts()->Find(store->tenant(), "prefix"));
    ATTNDB_EXPECT_OK((*store)->contexts()->Find(store->tenant(), "#9"));
    ATTNDB_EXPECT_OK((*store)->companions()->WishesOf(1));
    (*store)->contexts()->Touch(ContextId{9});
  });
}

TEST_F(CatalogCost, OfDescribingWhatAllShare) {
  Expect([](CatalogHarness* store) {
    const auto detail = (*store)->contexts()->Describe(store->tenant(), ContextId{9});
    EXPECT_GE(detail->chain[0].num_contexts, static_cast<uint32_t>(kFew));
    EXPECT_GE((*store)->Stats(store->tenant())->num_contexts, static_cast<uint64_t>(kFew));
  });
}

TEST_F(CatalogCost, OfAPublishThatEvicts) {
  int next = kMany;
  Expect([&](CatalogHarness* store) {
    const auto evictions =
        (*store)->contexts()->ChooseEvictions({store->tenant(), {}, 1, true}).value();
    EXPECT_EQ(evictions.contexts.size(), 1u);
    PublishRequest request;
    request.tenant = store->tenant();
    request.model = store->model();
    const std::vector<TokenId> tokens = TokensOf(next++);
    request.tokens = tokens;
    request.base = ContextId{1};
    request.num_shared = kPrefixTokens;
    request.evict = evictions.contexts;
    SegmentRecord segment;
    segment.id = (*store)->segments()->ReserveId().value();
    segment.first_position = kPrefixTokens;
    segment.num_tokens = 3;
    segment.file_bytes = 4096;
    request.new_segments = {segment};
    request.chain = {{1, kPrefixTokens}, {segment.id, 3}};
    ATTNDB_ASSERT_OK_AND_ASSIGN(const PublishOutcome outcome,
                                (*store)->contexts()->Publish(request));
    EXPECT_EQ(outcome.evicted.size(), 1u);
    ATTNDB_EXPECT_OK((*store)->segments()->Remove(outcome.unreferenced));
  });
}

TEST_F(CatalogCost, OfADropAndAnExpiry) {
  int next = kMany;
  Expect([&](CatalogHarness* store) {
    ATTNDB_EXPECT_OK((*store)->contexts()->Drop(store->tenant(), Publish(store, next++)));
    const ContextId expiring = Publish(store, next++);
    ATTNDB_EXPECT_OK(
        (*store)->contexts()->SetTtl(store->tenant(), expiring, std::chrono::seconds(0)));
    EXPECT_EQ((*store)->contexts()->Expire({})->dropped.size(), 1u);
  });
}

TEST_F(CatalogCost, OfACompactWithNothingToDo) {
  for (CatalogHarness* const store : {few_.get(), many_.get()}) {
    ATTNDB_EXPECT_OK(
        (*store)->segments()->Settle((*store)->segments()->Unsettled(store->tenant()).value()));
  }
  Expect([&](CatalogHarness* store) {
    ATTNDB_EXPECT_OK((*store)->segments()->UnsettleForLength(store->tenant(), 0));
    EXPECT_THAT((*store)->segments()->Unsettled(store->tenant()).value(), ::testing::IsEmpty());
    // All but the prefix are too short.
    EXPECT_EQ((*store)->companions()->SegmentsWithout(store->tenant(), {"planes", 100})->size(),
              1u);
    EXPECT_THAT((*store)->companions()->Wishes(store->tenant()).value(), ::testing::IsEmpty());
  });
}

TEST_F(CatalogCost, OfACompactAfterAPublish) {
  for (CatalogHarness* const store : {few_.get(), many_.get()}) {
    ATTNDB_EXPECT_OK(
        (*store)->segments()->Settle((*store)->segments()->Unsettled(store->tenant()).value()));
  }
  int next = kMany;
  Expect([&](CatalogHarness* store) {
    const ContextId context = Publish(store, next++);
    const auto segments = (*store)->segments()->Unsettled(store->tenant()).value();
    EXPECT_EQ(segments.size(), 2u);
    const auto contexts = (*store)->segments()->ContextsToCompact(segments).value();
    EXPECT_LE(contexts.size(), 2u);
    EXPECT_EQ(contexts.back(), context);
    ATTNDB_EXPECT_OK((*store)->segments()->Settle(segments));
  });
}

TEST_F(CatalogCost, OfAMergeOfWhatOneContextHas) {
  int next = kMany;
  Expect([&](CatalogHarness* store) {
    const ContextId context = Publish(store, next++);
    MergeRequest request;
    request.run = (*store)->contexts()->Chain(context).value();
    request.merged.id = (*store)->segments()->ReserveId().value();
    request.merged.num_tokens = kPrefixTokens + 3;
    ATTNDB_ASSERT_OK_AND_ASSIGN(const MergeOutcome outcome,
                                (*store)->segments()->ReplaceRun(request));
    EXPECT_EQ(outcome.changed.size(), 1u);
  });
}

}  // namespace
}  // namespace attndb::store
