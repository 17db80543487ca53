// Chooses the segments of a chain to merge: a pure function.
//
// Segments below kSmallTokens are merged as a binary counter counts. A new segment is merged with
// the older ones before it, as long as these are not larger than the merged part. Each small
// segment is thus shorter than the one before it, also if a merge follows several turns. A token is
// rewritten O(log(kSmallTokens)) times in all. A chain of n tokens, stored in any number of turns
// of similar length, has at most n / kSmallTokens + log2(kSmallTokens) + 1 segments. The segments
// of a long import are larger from the start; only a Compact with a length rewrites them.
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
// A merge for one context leaves the segments that other contexts use on disk. Only a run of at
// least this many is worth the copy.
inline constexpr size_t kMinSharedRun = 8;

struct MergeLink {
  uint64_t num_tokens = 0;
  uint32_t num_contexts = 1;  // Contexts that use the segment; it is shared if there are several.
  bool mergeable = true;      // Whether its model is the others' model, and it is not damaged.
};

struct MergeChoice {
  size_t begin = 0;
  size_t end = 0;  // Links [begin, end), at least two.
};

// Returns the next run to merge among the small segments at the chain's end; usually none. Of
// several runs the last one comes first. The run is not always at the end: several Stores may have
// passed since the last merge, and the last of them may have sealed a shorter segment.
std::optional<MergeChoice> ChooseMerge(std::span<const MergeLink> chain);

// The rule by which Compact chooses segments.
struct CompactRule {
  uint64_t small_tokens = kSmallTokens;  // Segments below this are merged.
  uint64_t max_tokens = UINT64_MAX;      // A merged segment has at most this many tokens.
};

// Returns the runs that Compact merges: disjoint, in order, each of at least two small segments
// that the same number of contexts use. A run across a change of that number would copy a shared
// segment for each context that shares it. Greedy from the front: a run ends before the segment
// that would make it longer than max_tokens. So a merged run and the next segment do not fit
// together, and a chain whose runs are merged has no run left.
std::vector<MergeChoice> ChooseThoroughMerges(std::span<const MergeLink> chain,
                                              const CompactRule& rule);

}  // namespace attndb::store

#endif  // ATTNDB_STORE_MERGE_POLICY_H_
