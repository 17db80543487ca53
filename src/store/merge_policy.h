// Which segments of a chain to merge: a pure function.
//
// Segments below kSmallTokens are merged as a binary counter counts: a new one is merged with the
// older ones before it as long as these are not larger than what is merged already. So each of them
// is shorter than the one before it, also where a merge comes behind several turns. A token is
// rewritten O(log(kSmallTokens)) times in all, and a chain of n tokens, stored in any number of
// turns of like length, has at most n / kSmallTokens + log2(kSmallTokens) + 1 segments. What a long
// import seals is larger from the start and rewritten only by a Compact that is told a length.
//
// Threads: pure functions.
#ifndef ATTNDB_STORE_MERGE_POLICY_H_
#define ATTNDB_STORE_MERGE_POLICY_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace attndb::store {

inline constexpr uint64_t kSmallTokens = 2048;
// Segments that other contexts use stay on disk when they are merged for one of them; only a run of
// this many is worth its copy.
inline constexpr size_t kMinSharedRun = 8;

struct MergeLink {
  uint64_t num_tokens = 0;
  uint32_t num_contexts = 1;  // Contexts that use the segment; it is shared if there are several.
  bool mergeable = true;      // Whether its model is that of the others, and it is not damaged.
};

struct MergeChoice {
  size_t begin = 0;
  size_t end = 0;  // Links [begin, end), at least two.
};

// The run among the small segments at the chain's end that should be merged next; none most of the
// time. The run that ends last is the first. It is not always at the end: several Stores may have
// passed since the last merge, and the last of them may have sealed a shorter segment.
std::optional<MergeChoice> ChooseMerge(std::span<const MergeLink> chain);

// Which segments Compact merges, and how far.
struct CompactRule {
  uint64_t small_tokens = kSmallTokens;  // Segments below this are merged.
  uint64_t max_tokens = UINT64_MAX;      // A merged segment has at most so many tokens.
};

// What Compact merges: disjoint runs, in order, of at least two small segments that the same number
// of contexts use. A run across a change of that number would copy what is shared for each context
// that shares it. Greedy from the front: a run ends where the next segment would make it longer
// than max_tokens, so that what becomes of it does not fit together with what follows, and a chain
// whose runs are merged has none.
std::vector<MergeChoice> ChooseThoroughMerges(std::span<const MergeLink> chain,
                                              const CompactRule& rule);

}  // namespace attndb::store

#endif  // ATTNDB_STORE_MERGE_POLICY_H_
