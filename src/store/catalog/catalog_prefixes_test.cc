// Goal:   lookups reuse what may be reused, and explain what may not.
// Method: small stores, one behaviour a test; Verify at the end of each. Rows that SQL has changed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "store/catalog/catalog_test_util.h"
#include "testing/matchers.h"

namespace attndb::store {
namespace {

using ::attndb::test::FailsWith;
using std::chrono::seconds;
using ::testing::HasSubstr;

using Reason = PrefixNearMiss::Reason;

TEST_F(CatalogTest, ModelsAreKeptApartUnlessDeclaredEqual) {
  const ContextId id = harness_.MustPublish(Range(0, 100));
  const ModelSpec original = harness_.spec();
  harness_.set_spec(TestSpec("b"));
  EXPECT_FALSE(harness_.Longest(Range(0, 100)).has_value());
  ATTNDB_ASSERT_OK(harness_->owners()->DeclareEqual(tenant(), "weights", "a"));
  EXPECT_FALSE(harness_.Longest(Range(0, 100)).has_value());
  ATTNDB_ASSERT_OK(harness_->owners()->DeclareEqual(tenant(), "b", "a"));
  EXPECT_EQ(harness_.Longest(Range(0, 100)), (PrefixMatch{id, 100}));  // Through "a".
  const ContextId more = harness_.MustPublish(Range(0, 120), {.base = id, .num_shared = 100});
  harness_.set_spec(original);
  EXPECT_EQ(harness_.Longest(Range(0, 130)), (PrefixMatch{more, 120}));
  ModelSpec other_layout = TestSpec("b");
  other_layout.layers[0].rope.base = 7;
  harness_.set_spec(other_layout);
  EXPECT_FALSE(harness_.Longest(Range(0, 100)).has_value());
  EXPECT_EQ(harness_->owners()->DeclareEqual(tenant(), "", "a").code(),
            StatusCode::kInvalidArgument);
  EXPECT_EQ(harness_->owners()->DeclareEqual(tenant(), "a", std::string(257, 'x')).code(),
            StatusCode::kInvalidArgument);
}

TEST_F(CatalogTest, WhatWasDeclaredEqualIsTakenBack) {
  const ContextId id = harness_.MustPublish(Range(0, 100));
  CatalogOwners* const owners = harness_->owners();
  for (const char* between : {"a", "c"}) {
    ATTNDB_ASSERT_OK(owners->DeclareEqual(tenant(), "weights", between));
    ATTNDB_ASSERT_OK(owners->DeclareEqual(tenant(), between, "b"));
  }
  harness_.set_spec(TestSpec("b"));
  ATTNDB_ASSERT_OK(owners->RevokeEqual(tenant(), "a", "weights"));
  EXPECT_EQ(harness_.Longest(Range(0, 100)), (PrefixMatch{id, 100})) << "through c";
  const TenantId other = owners->EnsureTenant("other")->id;
  EXPECT_EQ(owners->RevokeEqual(other, "c", "b").code(), StatusCode::kNotFound);
  ATTNDB_ASSERT_OK(owners->RevokeEqual(tenant(), "c", "b"));
  EXPECT_FALSE(harness_.Longest(Range(0, 100)).has_value());
  EXPECT_EQ(owners->RevokeEqual(tenant(), "c", "b").code(), StatusCode::kNotFound);
}

TEST_F(CatalogTest, WhatATenantDeclaresEqualIsEqualForThatTenantAlone) {
  const TenantId first = tenant();
  const TenantId other = harness_->owners()->EnsureTenant("other")->id;
  const ContextId of_first = harness_.MustPublish(Range(0, 100));
  harness_.set_tenant(other);
  const ContextId of_other = harness_.MustPublish(Range(0, 100));
  harness_.set_spec(TestSpec("b"));
  ATTNDB_ASSERT_OK(harness_->owners()->DeclareEqual(other, "weights", "b"));
  EXPECT_EQ(harness_.Longest(Range(0, 100)), (PrefixMatch{of_other, 100}));
  harness_.set_tenant(first);
  EXPECT_FALSE(harness_.Longest(Range(0, 100)).has_value());
  EXPECT_FALSE(*harness_->owners()->SameModel(first, Get(of_first).model, harness_.spec()));
  EXPECT_TRUE(*harness_->owners()->SameModel(other, Get(of_first).model, harness_.spec()));
}

// The rows of a store of a build before, whose declarations held for all tenants.
TEST_F(CatalogTest, WhatABuildBeforeDeclaredHoldsForAllAndGoesOnWithWhatATenantDeclares) {
  const ContextId id = harness_.MustPublish(Range(0, 100));
  harness_.Close();
  {
    const auto database = *SqliteDatabase::Open(harness_.path(), SqliteDatabase::Mode::kReadWrite);
    const auto bytes = [](std::string_view text) { return std::as_bytes(std::span(text)); };
    ATTNDB_ASSERT_OK(database->Run("INSERT INTO equal_fingerprints VALUES(?1, ?2), (?2, ?1)",
                                   bytes("weights"), bytes("b")));
  }
  harness_.Reopen();
  harness_.set_spec(TestSpec("b"));
  EXPECT_EQ(harness_.Longest(Range(0, 100)), (PrefixMatch{id, 100}));
  ASSERT_TRUE(harness_->owners()->EnsureModel(TestSpec("b")).ok());
  ATTNDB_ASSERT_OK(harness_->owners()->DeclareEqual(tenant(), "b", "c"));
  harness_.set_spec(TestSpec("c"));
  EXPECT_EQ(harness_.Longest(Range(0, 100)), (PrefixMatch{id, 100}));
}

TEST_F(CatalogTest, OfEquallyLongMatchesTheOldestIsTaken) {
  const ContextId a = harness_.MustPublish(Range(0, 100));
  const ContextId b = harness_.MustPublish(Range(0, 100));
  const ContextId c = harness_.MustPublish(Range(0, 150));
  EXPECT_EQ(harness_.Longest(Range(0, 100))->context, a);
  ATTNDB_ASSERT_OK(harness_->contexts()->Drop(tenant(), a));
  EXPECT_EQ(harness_.Longest(Range(0, 100))->context, b);
  EXPECT_EQ(harness_.Longest(Range(0, 101))->context, c);
}

TEST_F(CatalogTest, ExplainNamesWhatWasMissed) {
  const ContextId best = harness_.MustPublish(Range(0, 17), {.name = "best"});
  harness_.MustPublish(Range(0, 50));
  const ContextId expired = harness_.MustPublish(Range(0, 60), {.ttl = seconds(0)});
  const ContextId moved = harness_.MustPublish(Range(0, 80), {.first_position = 5});
  harness_.set_spec(TestSpec("other"));
  const ContextId foreign = harness_.MustPublish(Range(0, 90));
  harness_.set_spec(TestSpec());
  ATTNDB_ASSERT_OK(harness_->segments()->Quarantine(2, "test"));
  std::vector<TokenId> prompt = Range(0, 100);
  ATTNDB_ASSERT_OK_AND_ASSIGN(PrefixReport report,
                              harness_->prefixes()->Explain(harness_.Query(prompt)));
  EXPECT_EQ(report.best, (PrefixMatch{best, 17}));
  EXPECT_EQ(report.next_token, std::nullopt);
  ASSERT_EQ(report.near_misses.size(), 4u);
  EXPECT_EQ(report.near_misses[0].reason, Reason::kDamaged);
  EXPECT_EQ(report.near_misses[0].num_contexts, 1u);
  EXPECT_EQ(report.near_misses[0].best, PrefixMatch());  // The expired one agrees longer.
  EXPECT_EQ(report.near_misses[1].reason, Reason::kExpired);
  EXPECT_EQ(report.near_misses[1].best, (PrefixMatch{expired, 60}));
  EXPECT_EQ(report.near_misses[2].reason, Reason::kOtherModel);
  EXPECT_EQ(report.near_misses[2].best, (PrefixMatch{foreign, 90}));
  EXPECT_EQ(report.near_misses[3].reason, Reason::kOtherPosition);
  EXPECT_EQ(report.near_misses[3].best, (PrefixMatch{moved, 80}));
  prompt[10] = 99;
  ATTNDB_ASSERT_OK_AND_ASSIGN(report, harness_->prefixes()->Explain(harness_.Query(prompt)));
  EXPECT_EQ(report.best, (PrefixMatch{best, 10}));
  EXPECT_EQ(report.next_token, 10);
}

// The model of "weights" is looked into first.
TEST_F(CatalogTest, OfModelsDeclaredEqualTheLongestMatchIsTakenAndOfEquallyLongOnesTheOldest) {
  ATTNDB_ASSERT_OK(harness_->owners()->DeclareEqual(tenant(), "weights", "b"));
  const auto publish = [&](const char* fingerprint, const std::vector<TokenId>& tokens) {
    harness_.set_spec(TestSpec(fingerprint));
    return harness_.MustPublish(tokens);
  };
  const struct {
    const char* model_of_older;
    size_t tokens_of_older;
    const char* model_of_newer;
    size_t tokens_of_newer;
  } cases[] = {
      {"weights", 100, "b", 100}, {"b", 100, "weights", 100}, {"weights", 50, "b", 100},
      {"b", 50, "weights", 100},  {"weights", 100, "b", 50},  {"b", 100, "weights", 50},
  };
  for (TokenId first = 0; const auto& c : cases) {
    SCOPED_TRACE(first);
    const ContextId older = publish(c.model_of_older, Range(first, c.tokens_of_older));
    const ContextId newer = publish(c.model_of_newer, Range(first, c.tokens_of_newer));
    const ContextId taken = c.tokens_of_newer > c.tokens_of_older ? newer : older;
    EXPECT_EQ(harness_.Longest(Range(first, 200)), (PrefixMatch{taken, 100}));
    first += 1000;
  }
}

TEST_F(CatalogTest, ALookupForASpecThatCantBeIsRefused) {
  harness_.MustPublish(Range(0, 10));
  ModelSpec bad = TestSpec();
  bad.fingerprint.clear();
  const std::vector<TokenId> tokens = Range(0, 10);
  const PrefixQuery query{tenant(), &bad, 0, tokens};
  EXPECT_EQ(harness_->prefixes()->Longest(query).status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(harness_->prefixes()->Explain(query).status().code(), StatusCode::kInvalidArgument);
}

TEST_F(CatalogTest, ANearMissIsNamedOnlyIfItAgreesLongerThanWhatIsReused) {
  const ContextId best = harness_.MustPublish(Range(0, 17));
  const std::vector<TokenId> prompt = Range(0, 100);
  for (const size_t num_tokens : {16u, 17u, 18u}) {
    const ContextId moved = harness_.MustPublish(Range(0, num_tokens), {.first_position = 5});
    ATTNDB_ASSERT_OK_AND_ASSIGN(const PrefixReport report,
                                harness_->prefixes()->Explain(harness_.Query(prompt)));
    EXPECT_EQ(report.best, (PrefixMatch{best, 17}));
    ASSERT_EQ(report.near_misses.size(), 1u);
    EXPECT_EQ(report.near_misses[0].reason, Reason::kOtherPosition);
    EXPECT_EQ(report.near_misses[0].num_contexts, 1u);
    EXPECT_EQ(report.near_misses[0].best,
              num_tokens > 17 ? (PrefixMatch{moved, num_tokens}) : PrefixMatch());
    ATTNDB_ASSERT_OK(harness_->contexts()->Drop(tenant(), moved));
  }
}

TEST_F(CatalogTest, OfOtherTreesTheNewestWithTheLongestAgreementIsNamed) {
  harness_.MustPublish(Range(0, 50), {.first_position = 4});
  harness_.MustPublish(Range(0, 30), {.first_position = 5});
  const ContextId named = harness_.MustPublish(Range(0, 50), {.first_position = 6});
  harness_.MustPublish(Range(0, 20), {.first_position = 7});
  harness_.MustPublish(Range(500, 20), {.first_position = 8});  // Agrees with nothing.
  const std::vector<TokenId> prompt = Range(0, 100);
  ATTNDB_ASSERT_OK_AND_ASSIGN(const PrefixReport report,
                              harness_->prefixes()->Explain(harness_.Query(prompt)));
  EXPECT_EQ(report.best, std::nullopt);
  ASSERT_EQ(report.near_misses.size(), 1u);
  EXPECT_EQ(report.near_misses[0].reason, Reason::kOtherPosition);
  EXPECT_EQ(report.near_misses[0].num_contexts, 5u);
  EXPECT_EQ(report.near_misses[0].best, (PrefixMatch{named, 50}));
}

// Tokens behind a cut are no near miss for a query that wants whole histories only.
TEST_F(CatalogTest, ANearMissIsOfTheHistoriesThatAreAskedFor) {
  const std::vector<TokenId> tokens = Range(0, 400);
  const std::vector<Cut> cuts = {{200, {{4, 100}}}};
  const ContextId id = harness_.MustPublish(tokens, {.first_position = 5, .cuts = cuts});
  PrefixQuery query = harness_.Query(tokens);
  ATTNDB_ASSERT_OK_AND_ASSIGN(PrefixReport report, harness_->prefixes()->Explain(query));
  ASSERT_EQ(report.near_misses.size(), 1u);
  EXPECT_EQ(report.near_misses[0].best, (PrefixMatch{id, 400, cuts}));
  query.truncated = false;
  ATTNDB_ASSERT_OK_AND_ASSIGN(report, harness_->prefixes()->Explain(query));
  ASSERT_EQ(report.near_misses.size(), 1u);
  EXPECT_EQ(report.near_misses[0].best, (PrefixMatch{id, 192}));  // Blocks before the cut.
}

// --- Rows as no writer leaves them, of what is explained and not reused.

TEST(CatalogPrefixRows, AnExplanationTellsOfADamagedContextThatIsCorrupt) {
  CatalogHarness harness;
  const std::vector<TokenId> tokens = Range(0, 50);
  harness.MustPublish(tokens);
  ATTNDB_ASSERT_OK(harness->segments()->Quarantine(1, "test"));
  harness.Close();
  ChangeRows(harness.path(), "DELETE FROM context_numbers");
  harness.Reopen();
  EXPECT_EQ(harness.Longest(tokens), std::nullopt);
  EXPECT_THAT(harness->prefixes()->Explain(harness.Query(tokens)),
              FailsWith(StatusCode::kCorruption, HasSubstr("context 1: column 13")));
}

TEST(CatalogPrefixRows, AnExplanationTellsOfAnotherModelThatIsCorrupt) {
  CatalogHarness harness;
  const ModelSpec spec = TestSpec();
  ModelSpec other = spec;
  other.layers[0].rope.base = 7;
  harness.set_spec(other);
  const std::vector<TokenId> tokens = Range(0, 50);
  harness.MustPublish(tokens);
  harness.Close();
  ChangeRows(harness.path(),
             "PRAGMA ignore_check_constraints = ON; UPDATE models SET identity = x'00' "
             "WHERE id = 2");
  harness.Reopen();
  const PrefixQuery query{harness.tenant(), &spec, 0, tokens};
  EXPECT_EQ(harness->prefixes()->Longest(query).value(), std::nullopt);
  EXPECT_THAT(harness->prefixes()->Explain(query),
              FailsWith(StatusCode::kCorruption, HasSubstr("model 2: column 1 is 1 bytes")));
}

}  // namespace
}  // namespace attndb::store
