#include "attention/listed_tokens.h"

#include <algorithm>

#include "common/lane_sum.h"
#include "kernels/attend.h"
#include "kernels/score.h"

namespace attndb::attention {
namespace {

// Calls f(run, first, count) for the listed tokens of each run, from place `first` of the list on,
// until a call fails. During a call the tokens are relative to the run.
template <typename F>
Status ForEachRun(std::span<const HeadRun> runs, const ListedTokens& listed, const F& f) {
  size_t first = 0;
  for (const HeadRun& run : runs) {
    if (first == listed.count) break;
    uint32_t* const begin = listed.tokens + first;
    uint32_t* const end = std::lower_bound(begin, listed.tokens + listed.count,
                                           static_cast<uint32_t>(run.tokens.end));
    const auto count = static_cast<size_t>(end - begin);
    const auto offset = static_cast<uint32_t>(run.origin);
    for (uint32_t* i = begin; i != end; ++i) *i -= offset;
    if (count > 0) ATTNDB_RETURN_IF_ERROR(f(run, first, count));
    first += count;
  }
  return Status::Ok();
}

Result<storage::ListedRows> ReadListed(const storage::Strip& strip, const uint32_t* tokens,
                                       size_t count, storage::RowLease* rows) {
  rows->Clear();
  const size_t request = rows->RequestListed(strip, tokens, count);
  ATTNDB_RETURN_IF_ERROR(rows->Read());
  return rows->Listed(request);
}

// Scores listed tokens, whose numbers are rows of the run, from its keys.
Status ReadScoresOfRun(const HeadRun& run, const uint32_t* tokens, size_t count,
                       const GroupQueries& q, const GroupScores& to, storage::RowLease* rows,
                       CallCost* cost) {
  ATTNDB_ASSIGN_OR_RETURN(const storage::ListedRows k,
                          ReadListed(run.k_strip(), tokens, count, rows));
  kernels::ScoreGather(k.rows, k.list, count, q.q + run.q_shift, q.stride, q.count, to.scores,
                       to.stride);
  cost->num_candidates += count * q.count;
  cost->bytes_touched += count * run.k_bytes();
  return Status::Ok();
}

void ToTokensOfCall(const HeadRun& run, uint32_t* tokens, size_t count) {
  const auto offset = static_cast<uint32_t>(run.origin);
  for (size_t i = 0; i < count; ++i) tokens[i] += offset;
}

float NormOf(const float* q, size_t num_elements) {
  return static_cast<float>(Norm({q, num_elements}));
}

}  // namespace

float ScoreError(const index::KeyEstimates& estimates, uint32_t bits, const float* q,
                 size_t num_elements) {
  return estimates.ScoreError(bits, NormOf(q, num_elements));
}

float LargestScoreError(std::span<const HeadRun> runs, uint32_t bits, const float* q) {
  const float norm = runs.empty() ? 0 : NormOf(q, runs[0].k_elements);
  float largest = 0;
  for (const HeadRun& run : runs) {
    if (run.estimates != nullptr) {
      largest = std::max(largest, run.estimates->ScoreError(bits, norm));
    }
  }
  return largest;
}

Status ScoreRange(const HeadRun& run, TokenRange tokens, const GroupQueries& q,
                  const GroupScores& to, storage::RowLease* rows) {
  const uint64_t count = tokens.end - tokens.begin;
  rows->Clear();
  const size_t keys = rows->Request(run.k_strip(), run.RowOf(tokens.begin), count);
  ATTNDB_RETURN_IF_ERROR(rows->Read());
  uint64_t num_rows = 0;
  for (uint64_t from = 0; from < count; from += num_rows) {
    const kernels::RowsView k = rows->Piece(keys, from, &num_rows);
    kernels::ScoreRows(k, num_rows, q.q + run.q_shift, q.stride, q.count, to.scores + from,
                       to.stride);
  }
  return Status::Ok();
}

Status ReadScores(std::span<const HeadRun> runs, const ListedTokens& listed, const GroupQueries& q,
                  const GroupScores& scores, storage::RowLease* rows, CallCost* cost) {
  return ForEachRun(runs, listed, [&](const HeadRun& run, size_t first, size_t count) -> Status {
    ATTNDB_RETURN_IF_ERROR(ReadScoresOfRun(run, listed.tokens + first, count, q,
                                           {scores.scores + first, scores.stride}, rows, cost));
    ToTokensOfCall(run, listed.tokens + first, count);
    return Status::Ok();
  });
}

Status ScoreListed(std::span<const HeadRun> runs, const ListedTokens& listed, const GroupQueries& q,
                   const GroupScores& scores, storage::RowLease* rows, CallCost* cost) {
  return ForEachRun(runs, listed, [&](const HeadRun& run, size_t first, size_t count) -> Status {
    if (run.estimates != nullptr) {
      ATTNDB_RETURN_IF_ERROR(ReadScoresOfRun(run, listed.tokens + first, count, q,
                                             {scores.scores + first, scores.stride}, rows, cost));
    }
    ToTokensOfCall(run, listed.tokens + first, count);
    return Status::Ok();
  });
}

Status AttendListed(std::span<const HeadRun> runs, const ListedTokens& listed,
                    const ListedScores& scores, const kernels::LogitSpec& logit, bool by_codes,
                    const kernels::StateRows& states, storage::RowLease* rows, CallCost* cost) {
  return ForEachRun(runs, listed, [&](const HeadRun& run, size_t first, size_t count) -> Status {
    uint32_t* const tokens = listed.tokens + first;
    const float* const from = scores.scores + first;
    if (by_codes && run.values != nullptr) {
      kernels::AttendCoded(from, scores.stride, scores.num_q_rows, *run.values, tokens, count,
                           logit, states);
      cost->bytes_touched += count * run.v_elements;
    } else {
      ATTNDB_ASSIGN_OR_RETURN(const storage::ListedRows v,
                              ReadListed(run.v_strip(), tokens, count, rows));
      kernels::AttendScored(from, scores.stride, scores.num_q_rows, v.rows, v.list, count, logit,
                            states);
      cost->bytes_touched += count * run.v_bytes();
    }
    ToTokensOfCall(run, tokens, count);
    return Status::Ok();
  });
}

Status AttendAll(std::span<const HeadRun> runs, uint64_t num_tokens, const GroupQueries& q,
                 const kernels::LogitSpec& logit, const kernels::StateRows& states,
                 storage::RowLease* rows, CallCost* cost) {
  for (const HeadRun& run : runs) {
    const uint64_t end = std::min(run.tokens.end, num_tokens);
    if (run.tokens.begin >= end) break;
    const uint64_t count = end - run.tokens.begin;
    rows->Clear();
    const uint64_t first = run.RowOf(run.tokens.begin);
    const size_t keys = rows->Request(run.k_strip(), first, count);
    const size_t values = rows->Request(run.v_strip(), first, count);
    ATTNDB_RETURN_IF_ERROR(rows->Read());
    storage::ForEachPiece(
        *rows, keys, values, [&](const auto& k, const auto& v, uint64_t, uint64_t n) {
          kernels::AttendRows(k, v, 0, n, q.q + run.q_shift, q.stride, q.count, logit, states);
        });
    cost->bytes_touched += count * (run.k_bytes() + run.v_bytes());
  }
  return Status::Ok();
}

}  // namespace attndb::attention
