// Goal:   each reason why a prompt is not reused whole has its sentence.
#include "store/prefix_reasons.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace attndb::store {
namespace {

using ::testing::ElementsAre;

const std::vector<TokenId> kPrompt = {5, 6, 7, 8};
const ContextId kContext = static_cast<ContextId>(1);

TEST(PrefixReasonsTest, WhereTheLongestMatchEnds) {
  PrefixReport report;
  EXPECT_THAT(PrefixReasons(report, kPrompt, {}),
              ElementsAre("no context of this model begins with the prompt's first token"));
  report.best = PrefixMatch{kContext, 2};
  EXPECT_THAT(PrefixReasons(report, kPrompt, {}),
              ElementsAre("the longest match is a whole context of 2 tokens"));
  report.next_token = 9;
  EXPECT_THAT(PrefixReasons(report, kPrompt, {}),
              ElementsAre("the longest match ends after 2 tokens: the context has token 9 where "
                          "the prompt has 7"));
  report.best = PrefixMatch{kContext, 4};
  EXPECT_THAT(PrefixReasons(report, kPrompt, {}),
              ElementsAre("all of the prompt is stored; one token is left for the engine"));
}

TEST(PrefixReasonsTest, WhatElseThereIs) {
  PrefixReport report;
  report.best = PrefixMatch{kContext, 4};
  report.near_misses = {{PrefixNearMiss::Reason::kOtherModel, 2, {kContext, 3}},
                        {PrefixNearMiss::Reason::kExpired, 0, {}},
                        {PrefixNearMiss::Reason::kDamaged, 1, {}}};
  EXPECT_THAT(
      PrefixReasons(report, kPrompt, {.reuse = false}),
      ElementsAre(
          "reuse is switched off", "all of the prompt is stored; one token is left for the engine",
          "2 contexts are of another model, kv_dtype or RoPE setting; the best agrees for 3 "
          "tokens",
          "1 context is damaged"));
}

}  // namespace
}  // namespace attndb::store
