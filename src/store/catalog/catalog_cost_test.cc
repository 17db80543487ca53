// Goal:   the cost of a call does not grow with the number of contexts, of its tenant or of others,
//         since each lookup uses an index. Calls that visit each context of a tenant, or of the
//         store, grow linearly with their number.
// Method: steps of SQLite's virtual machine that a call takes among 20 contexts of one tenant,
//         among 1,000 that share a prefix, and among those 20 beside 1,000 of 99 other tenants; and
//         rows of tables that it scanned. Steps are no times: they are the same on every machine.
//         They are counted by SQLite itself, on every connection of this process.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sqlite3.h>

#include <array>
#include <functional>
#include <string_view>

#include "store/catalog/catalog_test_util.h"
#include "store/catalog/prefix_index.h"
#include "testing/matchers.h"

namespace attndb::store {
namespace {

constexpr int kFew = 20;
constexpr int kMany = 1000;
constexpr int kTenants = 100;
constexpr uint64_t kPrefixTokens = 200;

struct Cost {
  int64_t num_steps = 0;
  int64_t num_scanned = 0;  // Rows of tables that were read without an index.
  int64_t num_loads = 0;    // Nodes of the prefix index that were read by their ids.
  std::string scans;        // By which statements.
};
Cost total;

int NoteStatement(unsigned, void*, void* statement, void*) {
  auto* const stmt = static_cast<sqlite3_stmt*>(statement);
  total.num_steps += sqlite3_stmt_status(stmt, SQLITE_STMTSTATUS_VM_STEP, /*resetFlg=*/1);
  const int num_scanned = sqlite3_stmt_status(stmt, SQLITE_STMTSTATUS_FULLSCAN_STEP, 1);
  total.num_scanned += num_scanned;
  const std::string_view sql = sqlite3_sql(stmt);
  if (sql.starts_with("SELECT") && sql.ends_with("FROM nodes WHERE id = ?")) ++total.num_loads;
  if (num_scanned > 0) total.scans.append(sqlite3_sql(stmt)).append("\n");
  return 0;
}

// The signature of sqlite3_auto_extension.
int CountSteps(sqlite3* handle, const char**, const void*) {
  return sqlite3_trace_v2(handle, SQLITE_TRACE_PROFILE, NoteStatement, nullptr);
}

class CatalogCost : public ::testing::Test {
 protected:
  CatalogCost() {
    sqlite3_auto_extension(reinterpret_cast<void (*)()>(CountSteps));
    few_ = MakeStore(kFew);
    many_ = MakeStore(kMany);
    beside_others_ = MakeStore(kFew);
    for (int i = 1; i < kTenants; ++i) AddTenant(beside_others_.get(), i);
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

  // Another tenant, with as many contexts as bring all others' to kMany.
  static void AddTenant(CatalogHarness* store, int number) {
    const TenantId first = store->tenant();
    const std::string name = "tenant" + std::to_string(number);
    store->set_tenant((*store)->owners()->EnsureTenant(name)->id);
    const ContextId prefix =
        store->MustPublish(Range(0, kPrefixTokens), {.name = "prefix", .pin = true});
    for (int i = 0; i < kMany / (kTenants - 1); ++i) {
      store->MustPublish(TokensOf(i), {.base = prefix, .num_shared = kPrefixTokens});
    }
    store->set_tenant(first);
  }

  static Cost CostOf(CatalogHarness* store, const std::function<void(CatalogHarness*)>& call) {
    total = {};
    call(store);
    return total;
  }
  void Expect(const std::function<void(CatalogHarness*)>& call) {
    for (CatalogHarness* const store : all()) call(store);  // Statements are prepared.
    const Cost cost = CostOf(few_.get(), call);
    for (CatalogHarness* const store : {many_.get(), beside_others_.get()}) {
      const Cost more = CostOf(store, call);
      EXPECT_LE(more.num_steps, cost.num_steps + 20);
      EXPECT_LE(more.num_scanned, cost.num_scanned) << more.scans;
    }
  }
  // The costs of the tenant's lookups of missing tokens from `first` on: steps and scanned rows of
  // each.
  static std::vector<int64_t> CostsOfMisses(CatalogHarness* store, TenantId tenant, TokenId first) {
    store->set_tenant(tenant);
    std::vector<int64_t> costs;
    for (const size_t num_tokens : {size_t{30}, size_t{kBlockTokens}, size_t{kPrefixTokens}}) {
      const std::vector<TokenId> tokens = Range(first, num_tokens);
      const std::function<void(CatalogHarness*)> calls[] = {
          [&](CatalogHarness*) { EXPECT_FALSE(store->Longest(tokens)); },
          [&](CatalogHarness*) {
            EXPECT_FALSE((*store)->prefixes()->Explain(store->Query(tokens))->best);
          }};
      for (const auto& call : calls) {
        call(store);  // Statements are prepared.
        const Cost cost = CostOf(store, call);
        costs.insert(costs.end(), {cost.num_steps, cost.num_scanned});
      }
    }
    return costs;
  }
  // Each context may add a share, the first twenty's with half of it to spare; 50 times as many
  // that were compared with each other would take 2,500 times as much.
  void ExpectProportional(const std::function<void(CatalogHarness*)>& call, bool to_own) {
    for (CatalogHarness* const store : all()) call(store);
    const Cost cost = CostOf(few_.get(), call);
    constexpr int64_t kTimes = kMany / kFew + kMany / kFew / 2;
    EXPECT_LE(CostOf(many_.get(), call).num_steps, kTimes * cost.num_steps);
    const int64_t most = to_own ? cost.num_steps + 20 : kTimes * cost.num_steps;
    EXPECT_LE(CostOf(beside_others_.get(), call).num_steps, most);
  }
  std::array<CatalogHarness*, 3> all() const {
    return {few_.get(), many_.get(), beside_others_.get()};
  }

  std::unique_ptr<CatalogHarness> few_;
  std::unique_ptr<CatalogHarness> many_;
  std::unique_ptr<CatalogHarness> beside_others_;
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
      (*few_)->companions()->KnownObjects());  // Reads the table of segments from end to end.
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

// To the step, so that no time that it takes can tell.
TEST_F(CatalogCost, OfALookupIsTheSameWhetherAnotherTenantHasThePrefixOrNobodyHas) {
  constexpr TokenId kTheirs = 50'000;
  constexpr TokenId kNobodys = 90'000;
  CatalogHarness* const store = beside_others_.get();
  const TenantId theirs = (*store)->owners()->EnsureTenant("tenant1")->id;
  const TenantId others[] = {store->tenant(), (*store)->owners()->EnsureTenant("has-nothing")->id};
  std::vector<std::vector<int64_t>> before;
  for (const TenantId other : others) before.push_back(CostsOfMisses(store, other, kTheirs));
  store->set_tenant(theirs);
  const std::vector<TokenId> prefix = Range(kTheirs, kPrefixTokens);
  const auto look = [&](CatalogHarness*) { (void)store->Longest(prefix); };
  const int64_t num_steps_of_miss = CostOf(store, look).num_steps;
  store->MustPublish(prefix);
  EXPECT_GT(CostOf(store, look).num_steps, num_steps_of_miss);  // To who has it.
  for (size_t i = 0; i < before.size(); ++i) {
    const std::vector<int64_t> behind = CostsOfMisses(store, others[i], kTheirs);
    EXPECT_GT(behind[0], 0);
    EXPECT_EQ(behind, before[i]);
    EXPECT_EQ(behind, CostsOfMisses(store, others[i], kNobodys));
  }
}

// It counts the contexts that would match but are damaged or expired.
TEST_F(CatalogCost, OfExplainingALookupGrowsWithItsTenantsContexts) {
  ExpectProportional(
      [](CatalogHarness* store) {
        for (const std::vector<TokenId>& tokens : {TokensOf(7), Range(0, 150), Range(5, 100)}) {
          EXPECT_EQ((*store)->prefixes()->Explain(store->Query(tokens))->best.has_value(),
                    tokens[0] == 0);
        }
      },
      /*to_own=*/true);
}

TEST_F(CatalogCost, OfAListGrowsWithItsTenantsContexts) {
  ExpectProportional(
      [](CatalogHarness* store) {
        EXPECT_GT((*store)->contexts()->List(store->tenant())->size(), size_t{kFew});
      },
      /*to_own=*/true);
}

// Verify lists the segments before it first asks whether to go on.
TEST_F(CatalogCost, OfTheStartOfAVerifyGrowsWithItsTenantsSegments) {
  ExpectProportional(
      [](CatalogHarness* store) {
        EXPECT_GT((*store)->segments()->List(store->tenant())->size(), size_t{kFew});
      },
      /*to_own=*/true);
}

TEST_F(CatalogCost, OfAnOpenGrowsWithAllSegments) {
  ExpectProportional(
      [](CatalogHarness* store) {
        store->Reopen();
        ATTNDB_EXPECT_OK((*store)->companions()->KnownObjects());
      },
      /*to_own=*/false);
}

TEST_F(CatalogCost, OfDescribingWhatAllShare) {
  Expect([](CatalogHarness* store) {
    const auto detail = (*store)->contexts()->Describe(store->tenant(), ContextId{9});
    EXPECT_GE(detail->chain[0].num_contexts, static_cast<uint32_t>(kFew));
    EXPECT_GE((*store)->Stats(store->tenant())->num_contexts, static_cast<uint64_t>(kFew));
  });
}

// Without a base, the catalog looks for the context that the new one continues.
TEST_F(CatalogCost, OfAPublishReadsNoBlockThatItAdds) {
  constexpr size_t kBlocks = 100;
  const std::vector<TokenId> tokens = Range(0, kPrefixTokens + kBlocks * kBlockTokens);
  ContextId id = ContextId::kNone;
  const Cost cost =
      CostOf(few_.get(), [&](CatalogHarness* store) { id = store->MustPublish(tokens); });
  EXPECT_GT(cost.num_loads, 0);
  EXPECT_LT(cost.num_loads, 20);
  const ContextRecord prefix = (*few_)->contexts()->Find(few_->tenant(), "prefix").value();
  EXPECT_EQ((*few_)->contexts()->Describe(few_->tenant(), id)->continues, prefix.number);
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
  for (CatalogHarness* const store : all()) {
    ATTNDB_EXPECT_OK(
        (*store)->segments()->Settle((*store)->segments()->Unsettled(store->tenant()).value()));
  }
  Expect([&](CatalogHarness* store) {
    ATTNDB_EXPECT_OK((*store)->segments()->UnsettleForLength(store->tenant(), 0));
    EXPECT_THAT((*store)->segments()->Unsettled(store->tenant()).value(), ::testing::IsEmpty());
    EXPECT_THAT((*store)->companions()->Wishes(store->tenant()).value(), ::testing::IsEmpty());
  });
}

// All but the prefixes are too short. What lacks planes is listed for all tenants together.
TEST_F(CatalogCost, OfFindingWhatLacksPlanesGrowsWithTheirNumber) {
  Expect([](CatalogHarness* store) {
    ATTNDB_EXPECT_OK((*store)->companions()->SegmentsWithout(store->tenant(), {"planes", 201}));
  });
  ExpectProportional(
      [](CatalogHarness* store) {
        EXPECT_EQ((*store)->companions()->SegmentsWithout(store->tenant(), {"planes", 100})->size(),
                  1u);
      },
      /*to_own=*/false);
}

TEST_F(CatalogCost, OfACompactAfterAPublish) {
  for (CatalogHarness* const store : all()) {
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
