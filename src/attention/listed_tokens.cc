#include "attention/listed_tokens.h"

#include <algorithm>

#include "common/lane_sum.h"
#include "kernels/attend.h"
#include "kernels/score.h"

namespace attndb::attention {
namespace {

// Calls f(run, first, count) for the tokens of each run that has some: those from place `first` of
// the list on, meanwhile relative to the run.
template <typename F>
void ForEachRun(std::span<const HeadRun> runs, const ListedTokens& listed, const F& f) {
  size_t first = 0;
  for (const HeadRun& run : runs) {
    if (first == listed.count) return;
    uint32_t* const begin = listed.tokens + first;
    uint32_t* const end = std::lower_bound(begin, listed.tokens + listed.count,
                                           static_cast<uint32_t>(run.tokens.end));
    const auto count = static_cast<size_t>(end - begin);
    const auto offset = static_cast<uint32_t>(run.tokens.begin);
    for (uint32_t* i = begin; i != end; ++i) *i -= offset;
    f(run, first, count);
    first += count;
  }
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
  const float norm = runs.empty() ? 0 : NormOf(q, runs[0].k.num_elements);
  float largest = 0;
  for (const HeadRun& run : runs) {
    if (run.estimates != nullptr) {
      largest = std::max(largest, run.estimates->ScoreError(bits, norm));
    }
  }
  return largest;
}

void ScoreListed(std::span<const HeadRun> runs, const ListedTokens& listed, const QueryRows& q,
                 float* scores, size_t scores_stride, CallCost* cost) {
  ForEachRun(runs, listed, [&](const HeadRun& run, size_t first, size_t count) {
    uint32_t* const tokens = listed.tokens + first;
    if (run.estimates != nullptr && count > 0) {
      kernels::ScoreGather(run.k, tokens, count, q.q, q.stride, q.count, scores + first,
                           scores_stride);
      cost->num_candidates += count * q.count;
      cost->bytes_touched += count * run.k.num_elements * DTypeBytes(run.k.dtype);
    }
    const auto offset = static_cast<uint32_t>(run.tokens.begin);
    for (size_t i = 0; i < count; ++i) tokens[i] += offset;
  });
}

void AttendListed(std::span<const HeadRun> runs, const ListedTokens& listed,
                  const ListedScores& scores, const kernels::LogitSpec& logit, bool by_codes,
                  const kernels::StateRows& states, CallCost* cost) {
  ForEachRun(runs, listed, [&](const HeadRun& run, size_t first, size_t count) {
    const uint32_t* const tokens = listed.tokens + first;
    const float* const from = scores.scores + first;
    if (by_codes && run.values != nullptr) {
      kernels::AttendCoded(from, scores.stride, scores.num_q_rows, *run.values, tokens, count,
                           logit, states);
      cost->bytes_touched += count * run.v.num_elements;
    } else {
      kernels::AttendScored(from, scores.stride, scores.num_q_rows, run.v, tokens, count, logit,
                            states);
      cost->bytes_touched += count * run.v.num_elements * DTypeBytes(run.v.dtype);
    }
  });
}

void AttendAll(std::span<const HeadRun> runs, uint64_t num_tokens, const QueryRows& q,
               const kernels::LogitSpec& logit, const kernels::StateRows& states, CallCost* cost) {
  for (const HeadRun& run : runs) {
    const uint64_t end = std::min(run.tokens.end, num_tokens);
    if (run.tokens.begin >= end) return;
    const uint64_t count = end - run.tokens.begin;
    kernels::AttendRows(run.k, run.v, count, q.q, q.stride, q.count, logit, states);
    cost->bytes_touched +=
        count * (run.k.num_elements + run.v.num_elements) * DTypeBytes(run.k.dtype);
  }
}

}  // namespace attndb::attention
