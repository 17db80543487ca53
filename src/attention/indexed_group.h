// Selection and attention for the q heads of one kv head, for one row, under a plan whose index
// finds keys without scoring all of them (index/key_index.h).
//
//   1. Sinks, static tokens (static_tokens.h), window and tokens without an index (the session's
//      tail, short segments) are scored exactly.
//   2. The indexes of all runs are searched at once, for the whole group, given the best score so
//      far: that of sinks and window or, for AlayaDB's Algorithm 1, of all exactly scored tokens.
//   3. Found tokens are filtered by the final best score, and static tokens are dropped from them.
//   4. Each head attends to sinks, static tokens, window and its found tokens, with the exact
//      scores that are known.
//   5. The rest is dropped, or the index's own estimate of it is merged, or it is estimated from
//      clusters (cluster_remainder.h).
//
// Rows:    keys that are scored here are read run by run; an index reads the keys that it scores.
// Errors:  those of reads.
// Memory:  scratch is the caller's; nothing is allocated.
// Threads: one thread a group; groups are independent.
// Source:  [Alaya] 6.1, 7.1 (the window seeds the search); [RA] App. B.
#ifndef ATTNDB_ATTENTION_INDEXED_GROUP_H_
#define ATTNDB_ATTENTION_INDEXED_GROUP_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "attention/arena.h"
#include "attention/call_cost.h"
#include "attention/cluster_remainder.h"
#include "attention/listed_tokens.h"
#include "attndb/status.h"
#include "attndb/types.h"
#include "index/key_index.h"
#include "kernels/attention_state.h"

namespace attndb::attention {

struct IndexedCall {
  const LayerSpec* spec = nullptr;
  index::SearchSpec search;
  std::span<const HeadRun> runs;  // Runs with all tokens, in order.
  GroupQueries q;                 // Queries of the group.
  uint64_t num_tokens = 0;        // Visible tokens.
  TokenRange middle;
  // [group] or null: denominator logits, whose mass needs no tokens.
  const float* denominator_logits = nullptr;
  // Share of the clusters by which tokens that were not found are estimated; 0: none is.
  double estimated_share = 0.0;
  uint32_t num_static = 0;  // Tokens of the middle that are attended to in any case, at most.
  // How many more keys than search.k the indexes are asked for, as static tokens may be among them.
  uint32_t num_spare = 0;
  storage::RowLease* rows = nullptr;
};

struct IndexedScratch {
  // For each q head, room for NumPlaces; tokens of the middle that may be critical come first.
  uint32_t* tokens = nullptr;  // [group][stride]
  float* scores = nullptr;     // [group][stride]
  size_t stride = 0;
  uint32_t* fixed = nullptr;          // Sinks, static tokens and window.
  float* fixed_scores = nullptr;      // [group][stride]: scores of `fixed`.
  float* best = nullptr;              // [group]
  double* log_fixed = nullptr;        // [group]: log of the mass of `fixed` and the denominator.
  float* weights = nullptr;           // [stride]: weights of one head.
  uint64_t* static_bits = nullptr;    // [NumStaticWords(tokens of the call)]
  size_t* count = nullptr;            // [group]
  index::FoundKeys* found = nullptr;  // [group]
  index::IndexRun* runs = nullptr;    // Runs that have an index.
  uint32_t* selected = nullptr;
  void* select = nullptr;  // Scratch of kernels::SelectTopK.
  void* search = nullptr;  // Scratch of the indexes.
  ClusterScratch clusters;

  // num_places: NumPlaces; search_bytes: IndexedGroup::SearchBytes.
  static IndexedScratch Take(uint32_t group, uint64_t num_places, size_t num_runs,
                             size_t search_bytes, Arena* arena);
  // The tokens of the call, with the static ones counted twice. Static tokens are in `fixed`, and
  // also among the tokens without an index, whose scores are read into the room behind those of
  // `fixed`.
  static constexpr uint64_t NumPlaces(uint64_t num_tokens, uint32_t num_static) {
    return num_tokens + std::min<uint64_t>(num_tokens, num_static);
  }
};

class IndexedGroup {
 public:
  // All pointers must outlive it.
  IndexedGroup(const IndexedCall& call, const IndexedScratch& scratch, CallCost* cost);

  // Bytes of the indexes' scratch for a search of these runs; 0 if no run has an index. `list` is
  // overwritten.
  static size_t SearchBytes(std::span<const HeadRun> runs, const index::SearchSpec& search,
                            uint64_t num_tokens, uint32_t group,
                            std::vector<index::IndexRun>* list);

  // Selects tokens for each q head.
  Status Select();
  SelectedTokens selected(uint32_t head) const {
    return {tokens_of(head), scores(head), scratch_.count[head]};
  }
  // Attends to sinks, window and the selected tokens; writes each head's state.
  Status Attend(const kernels::StateRows& states);

 private:
  uint32_t* tokens_of(uint32_t head) const { return scratch_.tokens + head * scratch_.stride; }
  float* scores(uint32_t head) const { return scratch_.scores + head * scratch_.stride; }
  float* fixed_scores(uint32_t head) const {
    return scratch_.fixed_scores + head * scratch_.stride;
  }
  Status ScoreRange(const HeadRun& run, TokenRange tokens, float* scores);
  Status ScoreFixed(TokenRange tokens);
  Status ScoreStatic();
  void DropStaticOf(uint32_t head);
  std::span<const uint32_t> statics() const {
    return {scratch_.fixed + call_.middle.begin, num_static_};
  }
  void RaiseBest(uint32_t head, const float* scores, size_t count);
  Status SearchIndexes();
  Status AddOthers();
  Status SearchSeeded();
  Status AddAll(const HeadRun& run, TokenRange tokens);
  void Filter(uint32_t head);
  void FindFixedMass();
  double LogMass(const float* scores, size_t count) const;
  double LogAttended(uint32_t head) const;
  void AddRest(uint32_t head, const kernels::StateRows& state) const;
  // Selects the fewest listed tokens that hold the mass; returns their number.
  size_t SelectMass(uint32_t head, const float* scores, size_t listed);
  void EstimateRest(const kernels::StateRows& states);

  const IndexedCall& call_;
  const IndexedScratch& scratch_;
  CallCost* const cost_;
  const uint32_t group_;
  const size_t v_padded_;
  size_t num_fixed_ = 0;
  size_t num_static_ = 0;  // Static tokens in `fixed`, after the sinks.
};

}  // namespace attndb::attention

#endif  // ATTNDB_ATTENTION_INDEXED_GROUP_H_
