// What the committed stores of tests/upgrade/data hold: contexts of a model without weights, whose
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

// Two layers: one whose rows are padded, with values of another size, a scale, a soft cap and
// interleaved RoPE with a scaling; one of a group of four with a sliding window.
ModelSpec HeldSpec();

// In the order in which they were stored: one that is long enough for planes, and pinned; one that
// shares its first 200 tokens, and expires; one of another tenant.
std::vector<HeldContext> HeldContexts();

inline constexpr const char* kOtherTenant = "other";
inline constexpr uint64_t kOtherQuota = 1 << 30;       // Of the other tenant.
inline constexpr const char* kEqualName = "declared";  // A fingerprint equal to the spec's.

// When the stores were made.
inline constexpr std::chrono::microseconds kHeldMade = std::chrono::seconds(1'795'500'000);

// Options with the clock at `since` after that, with fixed prices, so that nothing depends on the
// machine.
DBOptions HeldOptions(std::chrono::microseconds since);

}  // namespace attndb::test

#endif  // ATTNDB_TESTS_UPGRADE_HELD_CONTEXTS_H_
