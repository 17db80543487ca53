// Goal:   the counts of one tenant are told to that tenant alone.
#include "store/tenant_counts.h"

#include <gtest/gtest.h>

namespace attndb::store {
namespace {

TEST(TenantCountsTest, EachTenantHasItsOwn) {
  TenantCounts counts;
  CountsOfTenant* const a = counts.Of("a");
  a->num_stores.Add(2);
  a->num_sessions.Add(3);
  a->num_sessions.Subtract(1);
  counts.Of("b")->bytes_merged.Add(7);
  EXPECT_EQ(counts.Of("a"), a);
  DBStats of_a;
  counts.Of("a")->AddTo(&of_a);
  EXPECT_EQ(of_a.num_stores, 2u);
  EXPECT_EQ(of_a.num_sessions, 2u);
  EXPECT_EQ(of_a.bytes_merged, 0u);
  DBStats of_b;
  counts.Of("b")->AddTo(&of_b);
  EXPECT_EQ(of_b.num_stores, 0u);
  EXPECT_EQ(of_b.bytes_merged, 7u);
  DBStats of_all;
  counts.AddAllTo(&of_all);
  EXPECT_EQ(of_all.num_stores, 2u);
  EXPECT_EQ(of_all.bytes_merged, 7u);
}

TEST(TenantCountsTest, EachNumberIsAddedToItsOwn) {
  CountsOfTenant counts;
  counts.num_sessions.Add(1);
  counts.num_lookups.Add(2);
  counts.num_prompt_tokens.Add(3);
  counts.num_reused_tokens.Add(4);
  counts.num_stores.Add(5);
  counts.evictions.Add(std::vector<std::string>(6, "a"));
  counts.bytes_written.Add(7);
  counts.bytes_merged.Add(8);
  counts.num_companions_built.Add(9);
  DBStats stats;
  counts.AddTo(&stats);
  counts.AddTo(&stats);
  EXPECT_EQ(stats.num_sessions, 2u);
  EXPECT_EQ(stats.num_lookups, 4u);
  EXPECT_EQ(stats.num_prompt_tokens, 6u);
  EXPECT_EQ(stats.num_reused_tokens, 8u);
  EXPECT_EQ(stats.num_stores, 10u);
  EXPECT_EQ(stats.num_evictions, 12u);
  EXPECT_EQ(stats.bytes_written, 14u);
  EXPECT_EQ(stats.bytes_merged, 16u);
  EXPECT_EQ(stats.num_companions_built, 18u);
  EXPECT_TRUE(stats.evicted.empty());
}

TEST(EvictedContextsTest, TheNewestAreKnownByName) {
  constexpr size_t kMax = EvictedContexts::kMaxLabels;
  EvictedContexts evicted;
  std::vector<std::string> labels;
  for (size_t i = 0; i < kMax + 2; ++i) labels.push_back(std::to_string(i));
  evicted.Add({});
  EXPECT_TRUE(evicted.labels().empty());
  evicted.Add(std::span(labels).first(3));
  evicted.Add(std::span(labels).subspan(3));
  EXPECT_EQ(evicted.number(), kMax + 2);
  EXPECT_EQ(evicted.labels(), std::vector<std::string>(labels.begin() + 2, labels.end()));
}

}  // namespace
}  // namespace attndb::store
