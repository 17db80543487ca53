// Goal:   the catalog is no bottleneck: the times of publishes and lookups are printed.
// Method: one context of 100K tokens; 10,000 contexts that share a system prompt. Times are shown,
//         only results are asserted. In memory where the system has /dev/shm: what a disk adds is
//         four syncs a commit.
#include <gtest/gtest.h>

#include <cstdio>
#include <functional>

#include "common/clock.h"
#include "common/random.h"
#include "store/catalog/catalog_test_util.h"
#include "testing/matchers.h"

namespace attndb::store {
namespace {

double Milliseconds(int repeats, const std::function<void()>& work) {
  const Stopwatch watch;
  for (int i = 0; i < repeats; ++i) work();
  return watch.ElapsedSeconds() * 1e3 / repeats;
}

std::vector<TokenId> RandomTokens(size_t num_tokens, uint64_t seed) {
  Random random(seed);
  std::vector<TokenId> tokens(num_tokens);
  for (TokenId& token : tokens) token = static_cast<TokenId>(random.Uniform(50'000));
  return tokens;
}

TEST(CatalogSpeed, OneLongContext) {
  CatalogHarness harness;
  std::vector<TokenId> tokens = RandomTokens(100'000, 1);
  ContextId id = ContextId::kNone;
  std::printf("in %s\n", harness.dir().c_str());
  std::printf("publish of 100K tokens: %.1f ms\n",
              Milliseconds(1, [&] { id = harness.MustPublish(tokens, {.name = "long"}); }));
  std::optional<PrefixMatch> match;
  const auto lookup = [&] { match = harness.Longest(tokens); };
  std::printf("lookup of 100K tokens: %.2f ms\n", Milliseconds(5, lookup));
  EXPECT_EQ(match->num_tokens, tokens.size());
  tokens[70'000] ^= 1;
  std::printf("lookup that differs at token 70,000: %.2f ms\n", Milliseconds(5, lookup));
  EXPECT_EQ(match->num_tokens, 70'000u);
  tokens[70'000] ^= 1;
  std::printf("tokens of the context: %.2f ms\n", Milliseconds(5, [&] {
                EXPECT_EQ(harness->contexts()->Tokens(id)->size(), tokens.size());
              }));
  const double grow_ms = Milliseconds(10, [&] {
    const uint64_t num_shared = tokens.size();
    const std::vector<TokenId> more = RandomTokens(100, num_shared);
    tokens.insert(tokens.end(), more.begin(), more.end());
    EXPECT_EQ(harness.MustPublish(
                  tokens, {.name = "long", .replace = true, .base = id, .num_shared = num_shared}),
              id);
  });
  std::printf("growth by 100 tokens: %.2f ms\n", grow_ms);
  std::printf("drop: %.1f ms\n", Milliseconds(1, [&] {
                ATTNDB_EXPECT_OK(harness->contexts()->Drop(harness.tenant(), id));
              }));
  EXPECT_EQ(harness->Verify().value(), std::vector<std::string>());
}

TEST(CatalogSpeed, ManyContextsWithOneSystemPrompt) {
  CatalogHarness harness;
  constexpr int kContexts = 10'000;
  const std::vector<TokenId> prompt = RandomTokens(1'000, 1);
  const ContextId system = harness.MustPublish(prompt, {.name = "system"});
  const auto tokens_of = [&](int i) {
    std::vector<TokenId> tokens = prompt;
    const std::vector<TokenId> own = RandomTokens(200, static_cast<uint64_t>(i) + 2);
    tokens.insert(tokens.end(), own.begin(), own.end());
    return tokens;
  };
  int next = 0;
  std::printf("publish upon 1,000 shared tokens: %.2f ms\n", Milliseconds(kContexts, [&] {
                harness.MustPublish(tokens_of(next++),
                                    {.base = system, .num_shared = prompt.size()});
              }));
  next = 0;
  std::printf("lookup among %d siblings: %.3f ms\n", kContexts, Milliseconds(kContexts, [&] {
                const std::optional<PrefixMatch> match = harness.Longest(tokens_of(next++));
                EXPECT_EQ(match->num_tokens, 1'200u);
              }));
  std::printf("list: %.1f ms\n", Milliseconds(1, [&] {
                EXPECT_EQ(harness->contexts()->List(harness.tenant())->size(), kContexts + 1u);
              }));
  std::printf("choice of ten to evict: %.2f ms\n", Milliseconds(1, [&] {
                const uint64_t bytes = 10 * (200 * TestSpec().KvBytesPerToken() + 4096);
                const auto chosen =
                    harness->contexts()->ChooseEvictions({harness.tenant(), {}, bytes, true});
                EXPECT_EQ(chosen->freed_bytes, bytes);
              }));
  const SegmentId shared = harness->contexts()->Chain(system)->front().segment;
  std::printf("quarantine of the shared segment: %.1f ms\n", Milliseconds(1, [&] {
                EXPECT_EQ(harness->segments()->Quarantine(shared, "test")->size(), kContexts + 1u);
              }));
  EXPECT_FALSE(harness.Longest(prompt).has_value());
  std::printf("verify: %.1f ms\n", Milliseconds(1, [&] {
                EXPECT_EQ(harness->Verify().value(), std::vector<std::string>());
              }));
  std::printf("open: %.2f ms\n", Milliseconds(1, [&] { harness.Reopen(); }));
}

}  // namespace
}  // namespace attndb::store
