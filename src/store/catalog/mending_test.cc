// Goal:   what is published mends the damaged contexts that have the same tokens where they are
//         damaged, and no others; what they lost is let go of.
// Method: small stores whose contexts share segments, of which one is quarantined; chains before
//         and after. Histories at random: catalog_property_test.cc.
#include "store/catalog/mending.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "store/catalog/catalog_test_util.h"
#include "testing/matchers.h"

namespace attndb::store {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using Chain = std::vector<ChainLink>;

class MendingTest : public CatalogTest {
 protected:
  // "a" is a segment of 100 tokens; "b" goes on from all of it and "c" from 70 tokens.
  void SetUp() override {
    a_ = harness_.MustPublish(Range(0, 100), {.name = "a"});
    b_ = harness_.MustPublish(Range(0, 110), {.name = "b", .base = a_, .num_shared = 100});
    std::vector<TokenId> tokens = Range(0, 70);
    for (const TokenId token : Range(500, 20)) tokens.push_back(token);
    c_ = harness_.MustPublish(tokens, {.name = "c", .base = a_, .num_shared = 70});
    ASSERT_EQ(ChainOf(b_), (Chain{{1, 100}, {2, 10}}));
    ASSERT_EQ(ChainOf(c_), (Chain{{1, 70}, {3, 20}}));
  }
  Chain ChainOf(ContextId id) { return harness_->contexts()->Chain(id).value(); }
  void Quarantine(SegmentId segment, uint64_t num_sound = 0) {
    ATTNDB_ASSERT_OK(harness_->segments()->Quarantine(segment, "test", num_sound));
  }
  // The contexts that are damaged.
  std::vector<std::string> Damaged() {
    std::vector<std::string> names;
    for (const ContextRecord& record : harness_->contexts()->List(tenant()).value()) {
      if (record.damaged) names.push_back(record.name);
    }
    return names;
  }

  ContextId a_, b_, c_;
};

TEST_F(MendingTest, WhatIsRunAgainMendsAllThatHaveIt) {
  Quarantine(1);
  EXPECT_THAT(Damaged(), ElementsAre("a", "b", "c"));
  ATTNDB_ASSERT_OK_AND_ASSIGN(const PublishOutcome outcome, harness_.Publish(Range(0, 105)));
  const SegmentId mended = outcome.chain.front().segment;
  EXPECT_THAT(Damaged(), IsEmpty());
  EXPECT_EQ(ChainOf(a_), (Chain{{mended, 100}}));
  EXPECT_EQ(ChainOf(b_), (Chain{{mended, 100}, {2, 10}}));
  EXPECT_EQ(ChainOf(c_), (Chain{{mended, 70}, {3, 20}}));
  EXPECT_THAT(outcome.unreferenced, ElementsAre(1));
  ATTNDB_ASSERT_OK(harness_->segments()->Remove(outcome.unreferenced));
  EXPECT_EQ(harness_->Stats(tenant())->num_damaged_segments, 0u);
  EXPECT_EQ(harness_.Longest(Range(0, 110)), (PrefixMatch{b_, 110}));
}

TEST_F(MendingTest, TheEndOfTheDamageHasToBeAlike) {
  Quarantine(1);
  harness_.MustPublish(Range(0, 69), {.name = "short"});
  EXPECT_THAT(Damaged(), ElementsAre("a", "b", "c"));
  std::vector<TokenId> tokens = Range(0, 99);
  tokens.push_back(7);
  harness_.MustPublish(tokens, {.name = "other"});
  EXPECT_THAT(Damaged(), ElementsAre("a", "b"));
}

// A damaged catalog: its chain has more tokens than the context.
TEST_F(MendingTest, AContextOfALongerChainStaysDamaged) {
  const ContextId d =
      harness_.MustPublish(Range(0, 70), {.name = "d", .base = a_, .num_shared = 70});
  ASSERT_EQ(ChainOf(d), (Chain{{1, 70}}));
  Quarantine(1);
  const auto use = [&](const char* num_tokens) {
    harness_.Close();
    ChangeRows(harness_.path(), "UPDATE chain SET num_tokens_used = " + std::string(num_tokens) +
                                    " WHERE context = " + std::to_string(static_cast<int64_t>(d)));
    harness_.Reopen();
  };
  use("100");
  harness_.MustPublish(Range(0, 105));
  EXPECT_THAT(Damaged(), ElementsAre("d"));
  use("70");
  harness_.MustPublish(Range(0, 106));
  EXPECT_THAT(Damaged(), IsEmpty());
}

TEST_F(MendingTest, TokensThatAreSoundAreNotReplaced) {
  Quarantine(1, 70);
  EXPECT_THAT(Damaged(), ElementsAre("a", "b"));
  const ContextId mended = harness_.MustPublish(Range(0, 100));
  EXPECT_THAT(Damaged(), IsEmpty());
  EXPECT_EQ(ChainOf(a_), ChainOf(mended));
  EXPECT_EQ(ChainOf(c_), (Chain{{1, 70}, {3, 20}}));
}

TEST_F(MendingTest, DamageBehindWhatIsSharedIsMendedByWhatHasItAll) {
  Quarantine(2);
  EXPECT_THAT(Damaged(), ElementsAre("b"));
  harness_.MustPublish(Range(0, 109), {.base = a_, .num_shared = 100});
  EXPECT_THAT(Damaged(), ElementsAre("b"));
  const ContextId mended = harness_.MustPublish(Range(0, 110), {.base = a_, .num_shared = 100});
  EXPECT_THAT(Damaged(), IsEmpty());
  EXPECT_EQ(ChainOf(b_), ChainOf(mended));
}

TEST_F(MendingTest, OtherCutsTenantsModelsAndPositionsMendNothing) {
  Quarantine(1);
  harness_.MustPublish(Range(0, 110), {.cuts = {{.at = 50, .dropped = {{1, 3}}}}});
  harness_.MustPublish(Range(0, 110), {.first_position = 5});
  const TenantId mine = tenant();
  harness_.set_tenant(harness_->owners()->EnsureTenant("other")->id);
  harness_.MustPublish(Range(0, 110));
  harness_.set_tenant(mine);
  harness_.set_spec(TestSpec("other weights"));
  harness_.MustPublish(Range(0, 110));
  EXPECT_THAT(Damaged(), ElementsAre("a", "b", "c"));
  harness_.set_spec(TestSpec());
  // Attention is as it was, up to the end of the damage.
  harness_.MustPublish(Range(0, 110), {.cuts = {{.at = 105, .dropped = {{1, 3}}}}});
  EXPECT_THAT(Damaged(), IsEmpty());
}

TEST_F(MendingTest, FirstLinksHaveSoManyTokens) {
  const Chain chain = {{1, 10}, {2, 5}};
  EXPECT_THAT(FirstLinks(chain, 0), IsEmpty());
  EXPECT_EQ(FirstLinks(chain, 3), (Chain{{1, 3}}));
  EXPECT_EQ(FirstLinks(chain, 10), (Chain{{1, 10}}));
  EXPECT_EQ(FirstLinks(chain, 12), (Chain{{1, 10}, {2, 2}}));
  EXPECT_EQ(FirstLinks(chain, 99), chain);
}

}  // namespace
}  // namespace attndb::store
