// What the committed stores of tests/upgrade/data hold: contexts of models without weights, whose
// keys and values are a function of token, position, layer and head (testing/toy_model.h). Never
// changed: what made the data and what reads it years later must agree.
//
// Threads: pure functions.
#ifndef ATTNDB_TESTS_UPGRADE_HELD_CONTEXTS_H_
#define ATTNDB_TESTS_UPGRADE_HELD_CONTEXTS_H_

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "attndb/options.h"
#include "attndb/types.h"

namespace attndb::test {

struct HeldContext {
  std::string tenant;  // Empty = the default one.
  std::string name;
  std::vector<TokenId> tokens;
  bool pinned = false;
  std::optional<std::chrono::seconds> ttl;
};

struct HeldStore {
  std::string folder;  // Below that of a version.
  ModelSpec spec;
  // In the order in which they were stored: one that is long enough for what the plans read, and
  // pinned; one that shares its first 200 tokens, and expires; one of another tenant.
  std::vector<HeldContext> contexts;
  std::vector<std::string> plans;  // Run on each context, so that what they read got written.
};

// Planes, and two layers: one whose rows are padded, with values of another size, a scale, a soft
// cap and interleaved RoPE with a scaling; one of a group of four with a sliding window.
HeldStore PlainStore();

// Clusters and a graph, and two layers with denominator logits, one of them with a sliding window.
HeldStore DenominatorStore();

// The other indexes, too, and means of values: RoarGraph, graphs of each q head, product codes,
// blocks, clusters of directions; and what the prompt's last queries weighed most. The same layers
// without logits in their denominators.
HeldStore IndexStore();

inline constexpr const char* kOtherTenant = "other";
inline constexpr uint64_t kOtherQuota = 1 << 30;       // Quota of the other tenant.
inline constexpr const char* kEqualName = "declared";  // A fingerprint equal to the spec's.

// When the stores were made.
inline constexpr std::chrono::microseconds kHeldMade = std::chrono::seconds(1'795'500'000);

// Options with the clock at `since` after that, with fixed prices, so that nothing depends on the
// machine.
DBOptions HeldOptions(std::chrono::microseconds since);

}  // namespace attndb::test

#endif  // ATTNDB_TESTS_UPGRADE_HELD_CONTEXTS_H_
