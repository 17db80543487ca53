// Goal:   a publish makes exactly the requested rows, or changes nothing.
// Method: small stores, one behaviour a test; Verify at the end of each. Rows that SQL has changed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "attndb/context_name.h"
#include "store/catalog/catalog_test_util.h"
#include "store/catalog/names.h"
#include "testing/matchers.h"

namespace attndb::store {
namespace {

using ::attndb::test::FailsWith;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST_F(CatalogTest, NamesAreChecked) {
  for (const char* const name : {"", "a b", "a/b", "ä", "a\n"}) {
    EXPECT_THAT(harness_->owners()->EnsureTenant(name),
                FailsWith(StatusCode::kInvalidArgument, HasSubstr("tenant name")));
  }
  EXPECT_EQ(CheckTenantName(std::string(65, 'a')).code(), StatusCode::kInvalidArgument);
  ATTNDB_EXPECT_OK(CheckTenantName(std::string(64, 'a')));
  for (const char* const name : {"#1", "a b", "a\"", "*"}) {
    EXPECT_THAT(harness_.Publish(Range(0, 3), {.name = name}),
                FailsWith(StatusCode::kInvalidArgument, HasSubstr("context name")));
  }
  EXPECT_EQ(CheckContextName(std::string(129, 'a')).code(), StatusCode::kInvalidArgument);
  harness_.MustPublish(Range(0, 3), {.name = std::string(122, 'a') + "/:@+-_"});
  EXPECT_EQ(ParseContextNumber("#12"), ContextNumber{12});
  for (const char* const text : {"12", "#", "#0", "#01", "#-1", "#1x", "#99999999999999999999"}) {
    EXPECT_EQ(ParseContextNumber(text), std::nullopt) << text;
  }
}

TEST_F(CatalogTest, ATakenNameIsKeptUnlessReplaced) {
  const ContextId first = harness_.MustPublish(Range(0, 70), {.name = "doc"});
  const std::string before = CatalogHarness::Dump(*harness_, TestSpec()).value();
  EXPECT_THAT(harness_.Publish(Range(5, 10), {.name = "doc"}),
              FailsWith(StatusCode::kAlreadyExists, HasSubstr("\"doc\" exists (70 tokens)")));
  EXPECT_EQ(CatalogHarness::Dump(*harness_, TestSpec()).value(), before);
  const PublishOutcome outcome =
      harness_.Publish(Range(5, 10), {.name = "doc", .replace = true}).value();
  EXPECT_NE(outcome.id, first);
  EXPECT_THAT(outcome.dropped, ElementsAre(first));
  EXPECT_THAT(outcome.unreferenced, ElementsAre(1));
  EXPECT_FALSE(harness_.Longest(Range(0, 70)).has_value());
}

TEST_F(CatalogTest, AChatGrowsUnderOneId) {
  const ContextId id = harness_.MustPublish(Range(0, 40), {.name = "chat"});
  for (size_t num_tokens = 80; num_tokens <= 400; num_tokens += 40) {
    const PublishOutcome outcome =
        harness_
            .Publish(Range(0, num_tokens),
                     {.name = "chat", .replace = true, .base = id, .num_shared = num_tokens - 40})
            .value();
    EXPECT_EQ(outcome.id, id);
    EXPECT_TRUE(outcome.grown);
    EXPECT_THAT(outcome.dropped, IsEmpty());
    EXPECT_THAT(outcome.unreferenced, IsEmpty());
    EXPECT_EQ(harness_.Longest(Range(0, 1000))->num_tokens, num_tokens);
  }
  EXPECT_EQ(harness_->contexts()->Chain(id)->size(), 10u);
  EXPECT_EQ(harness_->contexts()->List(tenant())->size(), 1u);
}

TEST_F(CatalogTest, ABaseGrowsUnderItsOwnNameAndWholeOnly) {
  const ContextId named = harness_.MustPublish(Range(0, 40), {.name = "a"});
  PublishOutcome outcome =
      harness_
          .Publish(Range(0, 60), {.name = "b", .replace = true, .base = named, .num_shared = 40})
          .value();
  EXPECT_FALSE(outcome.grown);
  EXPECT_EQ(harness_->contexts()->Find(tenant(), "a")->id, named);
  EXPECT_EQ(harness_->contexts()->Find(tenant(), "b")->id, outcome.id);
  const ContextId unnamed = harness_.MustPublish(Range(100, 40));
  outcome = harness_.Publish(Range(100, 20), {.base = unnamed, .num_shared = 20, .drop_base = true})
                .value();
  EXPECT_FALSE(outcome.grown);
  EXPECT_THAT(outcome.dropped, IsEmpty());
  EXPECT_EQ(Get(unnamed).num_tokens, 40u);
}

// Sessions upon the longer one go on from tokens that a crop would take away.
TEST_F(CatalogTest, ACropIsAnotherContext) {
  const ContextId whole = harness_.MustPublish(Range(0, 100), {.name = "chat"});
  const PublishOutcome outcome =
      harness_
          .Publish(Range(0, 90), {.name = "chat", .replace = true, .base = whole, .num_shared = 80})
          .value();
  EXPECT_NE(outcome.id, whole);
  EXPECT_FALSE(outcome.grown);
  EXPECT_THAT(outcome.dropped, ElementsAre(whole));
}

TEST_F(CatalogTest, CheckpointsOfAnImportVanishIntoTheWhole) {
  ContextId id = harness_.MustPublish(Range(0, 100));
  for (size_t num_tokens = 200; num_tokens <= 500; num_tokens += 100) {
    id = harness_.MustPublish(Range(0, num_tokens), {.name = num_tokens == 500 ? "book" : "",
                                                     .base = id,
                                                     .num_shared = num_tokens - 100,
                                                     .drop_base = true});
  }
  EXPECT_EQ(harness_->contexts()->List(tenant())->size(), 1u);
  EXPECT_EQ(Get(id).name, "book");
  EXPECT_EQ(harness_->contexts()->Tokens(id).value(), Range(0, 500));
}

TEST_F(CatalogTest, DropBaseSparesNamedAndPinnedContexts) {
  const ContextId named = harness_.MustPublish(Range(0, 10), {.name = "base"});
  harness_.MustPublish(Range(0, 20), {.base = named, .num_shared = 10, .drop_base = true});
  const ContextId pinned = harness_.MustPublish(Range(100, 10), {.pin = true});
  harness_.MustPublish(Range(100, 20), {.base = pinned, .num_shared = 10, .drop_base = true});
  EXPECT_EQ(harness_->contexts()->List(tenant())->size(), 4u);
}

TEST_F(CatalogTest, ABaseThatIsGoneCostsNothingButTime) {
  const ContextId base = harness_.MustPublish(Range(0, 100));
  const std::vector<ChainLink> chain = harness_->contexts()->Chain(base).value();
  ATTNDB_ASSERT_OK(harness_->contexts()->Drop(tenant(), base));
  PublishRequest request;
  request.tenant = tenant();
  request.model = harness_.model();
  const std::vector<TokenId> tokens = Range(0, 100);
  request.tokens = tokens;
  request.base = base;
  request.num_shared = 100;
  request.chain = chain;  // Its segment is there until RemoveSegments: a session holds it.
  ATTNDB_EXPECT_OK(harness_->contexts()->Publish(request));
  EXPECT_THAT(harness_->segments()->Remove(std::vector<SegmentId>{1}).value(), IsEmpty());
  EXPECT_EQ(harness_.Longest(tokens)->num_tokens, 100u);
}

// Keys are turned by their positions: the same tokens at other ones have nothing in common.
TEST_F(CatalogTest, ABaseAtAnotherPositionGivesNothing) {
  const ContextId base = harness_.MustPublish(Range(0, 40), {.name = "chat"});
  const std::vector<TokenId> tokens = Range(0, 60);
  PublishRequest request;
  request.tenant = tenant();
  request.model = harness_.model();
  request.first_position = 5;
  request.tokens = tokens;
  request.base = base;
  request.num_shared = 40;
  for (const uint64_t num_tokens : {40u, 20u}) {
    SegmentRecord segment;
    segment.id = harness_->segments()->ReserveId().value();
    segment.first_position = request.new_segments.empty() ? 5 : 45;
    segment.num_tokens = num_tokens;
    segment.non_finite = {std::byte{0}, std::byte{0}};
    request.new_segments.push_back(segment);
    request.chain.push_back({segment.id, num_tokens});
  }
  ATTNDB_ASSERT_OK_AND_ASSIGN(const PublishOutcome beside, harness_->contexts()->Publish(request));
  EXPECT_EQ(harness_->contexts()->Chain(beside.id).value(), request.chain);
  EXPECT_EQ(harness_.Longest(tokens, 5), (PrefixMatch{beside.id, 60}));
  EXPECT_EQ(harness_.Longest(tokens, 0), (PrefixMatch{base, 40}));
  EXPECT_EQ(harness_.Longest(tokens, 4), std::nullopt);

  request.new_segments.clear();
  request.name = "chat";
  request.replace = true;
  ATTNDB_ASSERT_OK_AND_ASSIGN(const PublishOutcome instead, harness_->contexts()->Publish(request));
  EXPECT_FALSE(instead.grown);
  EXPECT_THAT(instead.dropped, ElementsAre(base));
  EXPECT_EQ(Get(instead.id).first_position, 5);
  EXPECT_EQ(harness_.Longest(tokens, 0), std::nullopt);
}

TEST_F(CatalogTest, TheSameTextAtAnotherPositionMendsNothing) {
  harness_.MustPublish(Range(0, 40), {.name = "a"});
  ATTNDB_ASSERT_OK(harness_->segments()->Quarantine(1, "test"));
  EXPECT_THAT(harness_.Publish(Range(0, 40), {.name = "a", .first_position = 5}),
              FailsWith(StatusCode::kAlreadyExists, HasSubstr("\"a\" exists")));
  ATTNDB_EXPECT_OK(harness_.Publish(Range(0, 40), {.name = "a"}));
}

TEST_F(CatalogTest, OnlyTheSameHistoryMendsADamagedContext) {
  const ContextId first = harness_.MustPublish(Range(0, 40), {.name = "a"});
  const auto is_taken =
      FailsWith(StatusCode::kAlreadyExists, HasSubstr("\"a\" exists (40 tokens)"));
  EXPECT_THAT(harness_.Publish(Range(0, 40), {.name = "a"}), is_taken);  // It needs no mending.
  ATTNDB_ASSERT_OK(harness_->segments()->Quarantine(1, "test"));
  EXPECT_THAT(harness_.Publish(Range(1, 40), {.name = "a"}), is_taken);
  EXPECT_THAT(harness_.Publish(Range(0, 41), {.name = "a"}), is_taken);
  EXPECT_THAT(harness_.Publish(Range(0, 40), {.name = "a", .cuts = {{20, {{0, 5}}}}}), is_taken);
  harness_.set_spec(TestSpec("other"));
  EXPECT_THAT(harness_.Publish(Range(0, 40), {.name = "a"}), is_taken);
  harness_.set_spec(TestSpec());
  ATTNDB_ASSERT_OK_AND_ASSIGN(const PublishOutcome outcome,
                              harness_.Publish(Range(0, 40), {.name = "a"}));
  EXPECT_THAT(outcome.dropped, ElementsAre(first));
  EXPECT_EQ(harness_.Longest(Range(0, 40)), (PrefixMatch{outcome.id, 40}));
}

TEST_F(CatalogTest, WhatMendsAPinnedContextIsPinnedAndWhatReplacesItIsNot) {
  const struct {
    bool was_pinned;
    bool mends;
    bool pin;
    bool is_pinned;
  } cases[] = {{false, true, false, false},
               {true, true, false, true},
               {true, false, false, false},
               {false, true, true, true},
               {false, false, true, true}};
  for (TokenId first = 0; const auto& c : cases) {
    SCOPED_TRACE(first);
    const std::string name = "c" + std::to_string(first);
    harness_.MustPublish(Range(first, 40), {.name = name, .pin = c.was_pinned});
    if (c.mends) {
      ATTNDB_ASSERT_OK(harness_->segments()->Quarantine(harness_.SegmentIds().back(), "test"));
    }
    const std::vector<TokenId> tokens = Range(c.mends ? first : first + 500, 40);
    const ContextId id =
        harness_.MustPublish(tokens, {.name = name, .replace = !c.mends, .pin = c.pin});
    EXPECT_EQ(Get(id).pinned, c.is_pinned);
    first += 1000;
  }
}

// The caller knows the chain as of its open.
TEST_F(CatalogTest, WhatWasMergedMeanwhileIsSharedAsItIsNow) {
  const ContextId first = harness_.MustPublish(Range(0, 10));
  const ContextId base = harness_.MustPublish(Range(0, 20), {.base = first, .num_shared = 10});
  MergeRequest merge;
  merge.run = harness_->contexts()->Chain(base).value();
  ASSERT_THAT(merge.run, ElementsAre(ChainLink{1, 10}, ChainLink{2, 10}));
  merge.merged.id = harness_->segments()->ReserveId().value();
  merge.merged.num_tokens = 20;
  ATTNDB_ASSERT_OK(harness_->segments()->ReplaceRun(merge));
  for (const uint64_t num_shared : {20u, 10u}) {
    SCOPED_TRACE(num_shared);
    std::vector<TokenId> tokens = Range(0, num_shared);
    tokens.insert(tokens.end(), 5, 99);
    PublishRequest request;
    request.tenant = tenant();
    request.model = harness_.model();
    request.tokens = tokens;
    request.base = base;
    request.num_shared = num_shared;
    SegmentRecord segment;
    segment.id = harness_->segments()->ReserveId().value();
    segment.first_position = static_cast<int64_t>(num_shared);
    segment.num_tokens = 5;
    request.new_segments = {segment};
    request.chain = merge.run;
    request.chain.resize(num_shared / 10);
    request.chain.push_back({segment.id, 5});
    ATTNDB_ASSERT_OK_AND_ASSIGN(const PublishOutcome outcome,
                                harness_->contexts()->Publish(request));
    EXPECT_THAT(outcome.chain,
                ElementsAre(ChainLink{merge.merged.id, num_shared}, ChainLink{segment.id, 5}));
    EXPECT_EQ(harness_->contexts()->Chain(outcome.id).value(), outcome.chain);
  }
}

// The base's links would be damaged, too.
TEST_F(CatalogTest, ADamagedBaseGivesNothing) {
  const ContextId base = harness_.MustPublish(Range(0, 40));
  ATTNDB_ASSERT_OK(harness_->segments()->Quarantine(1, "test"));
  const std::vector<TokenId> tokens = Range(0, 60);
  PublishRequest request;
  request.tenant = tenant();
  request.model = harness_.model();
  request.tokens = tokens;
  request.base = base;
  request.num_shared = 40;
  for (const uint64_t num_tokens : {40u, 20u}) {
    SegmentRecord segment;
    segment.id = harness_->segments()->ReserveId().value();
    segment.first_position = request.new_segments.empty() ? 0 : 40;
    segment.num_tokens = num_tokens;
    request.new_segments.push_back(segment);
    request.chain.push_back({segment.id, num_tokens});
  }
  ATTNDB_ASSERT_OK_AND_ASSIGN(const PublishOutcome outcome, harness_->contexts()->Publish(request));
  EXPECT_EQ(outcome.chain, request.chain);
  EXPECT_FALSE(outcome.grown);
  EXPECT_EQ(harness_.Longest(tokens), (PrefixMatch{outcome.id, 60}));
}

TEST_F(CatalogTest, AChainThatEndsBeforeWhatIsSharedIsRefused) {
  const ContextId first = harness_.MustPublish(Range(0, 10));
  const ContextId base = harness_.MustPublish(Range(0, 20), {.base = first, .num_shared = 10});
  const std::vector<TokenId> tokens = Range(0, 15);
  PublishRequest request;
  request.tenant = tenant();
  request.model = harness_.model();
  request.tokens = tokens;
  request.base = base;
  request.num_shared = 15;
  request.chain = {{1, 10}, {2, 5}};
  request.chain.pop_back();  // A read beyond the end would find the link that fits.
  EXPECT_THAT(harness_->contexts()->Publish(request),
              FailsWith(StatusCode::kInternal, HasSubstr("holds 10 tokens, expected 15")));
}

TEST_F(CatalogTest, ASegmentOfAnotherModelIsRefusedUnlessThatIsDeclaredEqual) {
  harness_.MustPublish(Range(0, 10));
  harness_.set_spec(TestSpec("b"));
  const std::vector<TokenId> tokens = Range(0, 10);
  PublishRequest request;
  request.tenant = tenant();
  request.model = harness_.model();
  request.tokens = tokens;
  request.chain = {{1, 10}};
  EXPECT_THAT(harness_->contexts()->Publish(request),
              FailsWith(StatusCode::kInternal, HasSubstr("to this tenant and model")));
  ATTNDB_ASSERT_OK(harness_->owners()->DeclareEqual(tenant(), "weights", "b"));
  ATTNDB_EXPECT_OK(harness_->contexts()->Publish(request));
}

TEST_F(CatalogTest, AStoreEvictsEachContextOnceAndNeverTheOneThatItMakes) {
  const ContextId chat = harness_.MustPublish(Range(0, 40), {.name = "chat"});
  const ContextId first = harness_.MustPublish(Range(100, 10), {.name = "first"});
  const ContextId second = harness_.MustPublish(Range(200, 10));
  PublishOutcome outcome = harness_
                               .Publish(Range(0, 60), {.name = "chat",
                                                       .replace = true,
                                                       .base = chat,
                                                       .num_shared = 40,
                                                       .evict = {chat, first, second}})
                               .value();
  EXPECT_EQ(outcome.id, chat);
  EXPECT_THAT(outcome.dropped, ElementsAre(second, first));
  EXPECT_THAT(outcome.evicted, ElementsAre("first", "#3"));
  EXPECT_EQ(harness_->contexts()->List(tenant())->size(), 1u);

  // The context with the name is dropped by `replace`.
  const ContextId third = harness_.MustPublish(Range(300, 10));
  outcome =
      harness_.Publish(Range(500, 10), {.name = "chat", .replace = true, .evict = {chat, third}})
          .value();
  EXPECT_THAT(outcome.dropped, ElementsAre(third, chat));
  EXPECT_THAT(outcome.evicted, ElementsAre("#4"));
  EXPECT_EQ(harness_->contexts()->List(tenant())->size(), 1u);
}

TEST_F(CatalogTest, AChainThatDoesNotFitIsRefused) {
  harness_.MustPublish(Range(0, 10));
  const std::vector<TokenId> tokens = Range(0, 10);
  PublishRequest request;
  request.tenant = tenant();
  request.model = harness_.model();
  request.tokens = tokens;
  const std::string before = CatalogHarness::Dump(*harness_, TestSpec()).value();
  request.chain = {{1, 9}};
  EXPECT_THAT(harness_->contexts()->Publish(request),
              FailsWith(StatusCode::kInternal, HasSubstr("holds 9 tokens, expected 10")));
  request.chain = {{1, 11}};
  EXPECT_THAT(harness_->contexts()->Publish(request),
              FailsWith(StatusCode::kInternal, HasSubstr("can't give 11 tokens")));
  request.chain = {{1, 5}, {1, 5}};
  EXPECT_THAT(harness_->contexts()->Publish(request),
              FailsWith(StatusCode::kInternal, HasSubstr("from position 5")));
  request.chain = {{77, 10}};
  EXPECT_THAT(
      harness_->contexts()->Publish(request),
      FailsWith(StatusCode::kFailedPrecondition, HasSubstr("a segment of the chain is not")));
  request.chain = {{1, 10}};
  request.tenant = harness_->owners()->EnsureTenant("other")->id;
  EXPECT_THAT(harness_->contexts()->Publish(request),
              FailsWith(StatusCode::kInternal, HasSubstr("tenant")));
  request.tokens = {};
  EXPECT_THAT(harness_->contexts()->Publish(request),
              FailsWith(StatusCode::kInvalidArgument, HasSubstr("no tokens")));
  const std::vector<TokenId> negative = {1, 2, -3};
  request.tokens = negative;
  EXPECT_THAT(harness_->contexts()->Publish(request),
              FailsWith(StatusCode::kInvalidArgument, HasSubstr("token 2 is -3")));
  EXPECT_EQ(CatalogHarness::Dump(*harness_, TestSpec()).value(), before + "tenant other quota 0\n");
}

// --- Rows as no writer leaves them.

TEST(CatalogPublishRows, ABaseWhoseChainContradictsItsSegmentsIsNotBuiltUpon) {
  CatalogHarness harness;
  const std::vector<TokenId> tokens = Range(0, 10);
  const ContextId base = harness.MustPublish(tokens);
  harness.Close();
  ChangeRows(harness.path(), "UPDATE chain SET num_tokens_used = 11");
  harness.Reopen();
  PublishRequest request;
  request.tenant = harness.tenant();
  request.model = harness.model();
  request.tokens = tokens;
  request.base = base;
  request.num_shared = 10;
  request.chain = {{1, 10}};
  EXPECT_THAT(harness->contexts()->Publish(request),
              FailsWith(StatusCode::kCorruption, HasSubstr("uses 11 tokens of segment 1")));
}

TEST(CatalogPublishRows, ABaseThatLacksALinkIsNotBuiltUpon) {
  CatalogHarness harness;
  const std::vector<TokenId> tokens = Range(0, 20);
  const ContextId first = harness.MustPublish(Range(0, 10));
  const ContextId base = harness.MustPublish(tokens, {.base = first, .num_shared = 10});
  PublishRequest request;
  request.tenant = harness.tenant();
  request.model = harness.model();
  request.tokens = tokens;
  request.base = base;
  request.num_shared = 20;
  request.chain = harness->contexts()->Chain(base).value();
  ASSERT_EQ(request.chain.size(), 2u);
  harness.Close();
  ChangeRows(harness.path(), "DELETE FROM chain WHERE idx = 1");
  harness.Reopen();
  EXPECT_THAT(harness->contexts()->Publish(request),
              FailsWith(StatusCode::kInternal, HasSubstr("holds 10 tokens, expected 20")));
}

TEST(CatalogPublishRows, AVictimThatIsCorruptIsNotPassedOver) {
  CatalogHarness harness;
  const ContextId victim = harness.MustPublish(Range(0, 10));
  harness.Close();
  ChangeRows(harness.path(), "DELETE FROM context_numbers");
  harness.Reopen();
  EXPECT_THAT(harness.Publish(Range(50, 10), {.evict = {victim}}),
              FailsWith(StatusCode::kCorruption, HasSubstr("context 1: column 13")));
}

}  // namespace
}  // namespace attndb::store
