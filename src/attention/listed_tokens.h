// Listed tokens of one kv head, from any of its runs: exact scores for them, and attention over
// them.
//
// Shapes:  scores [num_q_rows] rows, scores_stride apart, one element per token; q [num_q_rows]
//          rows.
// Rows:    the rows of all runs are requested at once.
// Errors:  those of reads.
// Memory:  nothing is allocated.
// Threads: stateless.
#ifndef ATTNDB_ATTENTION_LISTED_TOKENS_H_
#define ATTNDB_ATTENTION_LISTED_TOKENS_H_

#include <cstddef>
#include <cstdint>
#include <span>

#include "attention/call_cost.h"
#include "attention/head_run.h"
#include "attndb/status.h"
#include "attndb/types.h"
#include "index/key_estimates.h"
#include "kernels/attention_state.h"

namespace attndb::attention {

// Token indices, ascending.
struct ListedTokens {
  uint32_t* tokens = nullptr;
  size_t count = 0;
};

// Scores of listed tokens: q row r's score of token i is at scores[r * stride + i].
struct ListedScores {
  const float* scores = nullptr;
  size_t stride = 0;
  size_t num_q_rows = 1;
};

// Tokens of the middle that were selected, with exact scores.
struct SelectedTokens {
  const uint32_t* tokens = nullptr;
  const float* scores = nullptr;
  size_t count = 0;
};

// Rows of q of a call's part (Part::q), so that each run finds them turned as it needs them.
struct GroupQueries {
  const float* q = nullptr;
  size_t stride = 0;
  size_t count = 0;
};

// Memory for scores: q row r's score of token i goes to scores[r * stride + i].
struct GroupScores {
  float* scores = nullptr;
  size_t stride = 0;
};

// Writes exact scores of consecutive tokens of one run.
Status ScoreRange(const HeadRun& run, TokenRange tokens, const GroupQueries& q,
                  const GroupScores& to, storage::RowLease* rows);

// Standard deviation of the error of estimates of a q row's scores.
float ScoreError(const index::KeyEstimates& estimates, uint32_t bits, const float* q,
                 size_t num_elements);

// The largest such error of all runs; 0 where all scores are exact.
float LargestScoreError(std::span<const HeadRun> runs, uint32_t bits, const float* q);

// By how much estimates with this error are lowered so that the weights that they give are right in
// the mean: the mean of exp(scale * x) for normal x of deviation `error` is exp((scale * error)^2 /
// 2).
inline float ScoreShift(float error, float scale) { return 0.5f * scale * error * error; }

// Whether errors of scores are so small that estimated weights are good enough over many tokens. On
// SmolLM2's heads, with 4-bit errors of .28 nats, reading only V of twice as many tokens gives less
// error than reading K and V of the drawn ones. At 1 nat, estimated weights are wrong by factors.
inline bool ErrorsEvenOut(float error, float scale) { return error * scale <= 0.5f; }

// Replaces estimated scores by exact ones, from K.
Status ScoreListed(std::span<const HeadRun> runs, const ListedTokens& listed, const GroupQueries& q,
                   const GroupScores& scores, storage::RowLease* rows, CallCost* cost);

// Writes exact scores of all listed tokens, from K.
Status ReadScores(std::span<const HeadRun> runs, const ListedTokens& listed, const GroupQueries& q,
                  const GroupScores& scores, storage::RowLease* rows, CallCost* cost);

// Folds the tokens into a state for each q row: by V, or by its codes of 8 bits in runs that have
// them.
Status AttendListed(std::span<const HeadRun> runs, const ListedTokens& listed,
                    const ListedScores& scores, const kernels::LogitSpec& logit, bool by_codes,
                    const kernels::StateRows& states, storage::RowLease* rows, CallCost* cost);

// Folds every visible token, by exact scores, into a state for each q row.
Status AttendAll(std::span<const HeadRun> runs, uint64_t num_tokens, const GroupQueries& q,
                 const kernels::LogitSpec& logit, const kernels::StateRows& states,
                 storage::RowLease* rows, CallCost* cost);

}  // namespace attndb::attention

#endif  // ATTNDB_ATTENTION_LISTED_TOKENS_H_
