// Scores of keys for the q heads of a group, one row each, in pieces that the caller reads while
// they lie in the cache: exact scores for sinks, window and runs without estimates, estimates for
// the others.
//
// Shapes:  q head g's score of the piece's token i at scores[g * stride + i].
// Memory:  scratch is the caller's; nothing is allocated.
// Threads: one thread at a time.
#ifndef ATTNDB_ATTENTION_GROUP_SCORER_H_
#define ATTNDB_ATTENTION_GROUP_SCORER_H_

#include <cstddef>
#include <cstdint>
#include <span>

#include "attention/arena.h"
#include "attention/call_view.h"
#include "attention/listed_tokens.h"
#include "index/key_estimates.h"

namespace attndb::attention {

class GroupScorer {
 public:
  // Tokens that are scored before the caller reads the scores: the scores of a group are then still
  // in the L1 cache.
  static constexpr uint64_t kTileTokens = index::KeepCall::kWork;

  void Take(const CallView& call, Arena* arena);
  // Begins with the q rows that part->q holds. REQUIRES: a unit of one row.
  void Begin(const WorkUnit& unit, Part* part);

  // Writes scores of tokens of one run.
  Status Score(const HeadRun& run, TokenRange tokens, const GroupScores& to);
  Status ScoreExactly(const HeadRun& run, TokenRange tokens, const GroupScores& to);
  // The group's queries, prepared for scans of the run's estimates. REQUIRES: it has some.
  std::span<const index::EstimateQuery> Prepared(const HeadRun& run);

 private:
  void Estimate(const HeadRun& run, TokenRange tokens, const GroupScores& to);

  const CallView* call_ = nullptr;
  Part* part_ = nullptr;
  TokenRange middle_;
  const index::KeyEstimates* prepared_ = nullptr;  // The estimates that queries_ was prepared for.
  std::byte* codes_ = nullptr;                     // Codes of the queries.
  index::EstimateQuery* queries_ = nullptr;        // [group]
};

}  // namespace attndb::attention

#endif  // ATTNDB_ATTENTION_GROUP_SCORER_H_
