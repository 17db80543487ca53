// Goal:   what a writer keeps of segments that lack a companion is what a walk over all finds.
// Method: random publishes, drops, quarantines, merges, companions that come and go, transactions
//         that fail and reopenings; after each the writer is asked, and a reader, who walks.
#include "store/catalog/lacking_companions.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/random.h"
#include "store/catalog/catalog_test_util.h"
#include "testing/matchers.h"
#include "testing/seed.h"

namespace attndb::store {
namespace {

class LackingCompanions : public CatalogTest {
 protected:
  LackingCompanions() : random_(test::SeedOr(1)) {}

  std::string AnyKind() { return random_.OneIn(2) ? "planes" : "graph"; }
  // Fails for a segment that is gone, or in no chain.
  void PublishCompanion() {
    const std::vector<SegmentId> segments = harness_.SegmentIds();
    if (segments.empty()) return;
    CompanionRecord companion;
    companion.kind = AnyKind();
    companion.generation = harness_->companions()->ReserveGeneration().value();
    (void)harness_->companions()
        ->Publish(segments[random_.Uniform(segments.size())], companion)
        .ok();
  }
  void DropCompanion() {
    for (const storage::ObjectName& name : harness_->companions()->Droppable(tenant()).value()) {
      if (!random_.OneIn(3)) continue;
      const auto segment = static_cast<SegmentId>(name.segment_id);
      EXPECT_TRUE(harness_->companions()->Drop(segment, name.kind, name.generation).value());
    }
  }
  void DropContext() {
    const auto contexts = harness_->contexts()->List(tenant()).value();
    if (contexts.empty()) return;
    const ContextId context = contexts[random_.Uniform(contexts.size())].id;
    const DropOutcome outcome = harness_->contexts()->Drop(tenant(), context).value();
    if (random_.OneIn(2)) return;
    ATTNDB_ASSERT_OK(harness_->segments()->Remove(outcome.unreferenced));
  }
  void Store() {
    Published options;
    const auto contexts = harness_->contexts()->List(tenant()).value();
    if (!contexts.empty() && random_.OneIn(2)) {
      options.base = contexts[random_.Uniform(contexts.size())].id;
      options.num_shared = harness_->contexts()->Tokens(options.base)->size();
    }
    const TokenId first = options.num_shared == 0 ? static_cast<TokenId>(random_.Uniform(9)) : 0;
    std::vector<TokenId> tokens = Range(first, 1 + random_.Uniform(80));
    if (options.num_shared > 0) {
      const std::vector<TokenId> more = tokens;
      tokens = harness_->contexts()->Tokens(options.base).value();
      tokens.insert(tokens.end(), more.begin(), more.end());
    }
    (void)harness_.Publish(tokens, options).ok();  // A base that is damaged is refused.
  }
  void Quarantine() {
    const std::vector<SegmentId> segments = harness_.SegmentIds();
    if (segments.empty() || !random_.OneIn(3)) return;
    ATTNDB_ASSERT_OK(
        harness_->segments()->Quarantine(segments[random_.Uniform(segments.size())], "torn"));
  }

  Random random_;
};

TEST_F(LackingCompanions, AreThoseThatAWalkFinds) {
  size_t num_found = 0;
  for (int step = 0; step < 200; ++step) {
    SCOPED_TRACE(step);
    switch (random_.Uniform(8)) {
      case 0:
      case 1:
      case 2:
        Store();
        break;
      case 3:
        DropContext();
        break;
      case 4:
        Quarantine();
        break;
      case 5:
        DropCompanion();
        if (random_.OneIn(9)) {
          ATTNDB_ASSERT_OK(harness_->companions()->DropKind("graph"));
        }
        if (random_.OneIn(9)) harness_.Reopen();
        break;
      default:
        PublishCompanion();
    }
    ATTNDB_ASSERT_OK_AND_ASSIGN(const auto reader, harness_.Open(/*read_only=*/true));
    for (const MissingCompanions& missing :
         {MissingCompanions{"planes", 1}, {"planes", 40}, {"graph", 20}, {"none", 60}}) {
      for (const TenantId of : {tenant(), TenantId::kNone, static_cast<TenantId>(9)}) {
        const std::vector<SegmentId> found =
            harness_->companions()->SegmentsWithout(of, missing).value();
        EXPECT_EQ(found, reader->companions()->SegmentsWithout(of, missing).value())
            << missing.kind;
        num_found += found.size();
      }
    }
  }
  EXPECT_GT(num_found, 1000u);
}

}  // namespace
}  // namespace attndb::store
