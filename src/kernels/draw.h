// Drawing tokens by weight: heavy ones for certain, light ones by chance.
//
// Units:   as weights.h; noise is added to logits, in nats.
// Values:  a NaN score is lifted by +inf and always selected; one of -inf never, unless a threshold
//          is that too.
// Errors:  none; num_scores < 2^31.
// Threads: stateless.
#ifndef ATTNDB_KERNELS_DRAW_H_
#define ATTNDB_KERNELS_DRAW_H_

#include <cstddef>
#include <cstdint>

#include "kernels/attention_state.h"

namespace attndb::kernels {

// The sum of min(weight, limit).
float SumAtMost(const float* weights, size_t num_weights, float limit);

// By how much a token's logit lies over a threshold, for the q row of which that is most:
// lifts[i] = max over rows r of logit(scores[r * stride + i]) - thresholds[r]; +inf for NaN, and
// where a threshold is -inf.
void LiftScores(const float* scores, size_t stride, size_t num_rows, size_t num_scores,
                const LogitSpec& logit, const float* thresholds, float* lifts);

// Writes the indices, ascending, of all with lifts[i] + noise[i] >= 0, and returns how many.
// REQUIRES: `indices` holds num_lifts + kSelectSlack (select.h).
size_t SelectLifted(const float* lifts, const float* noise, size_t num_lifts, uint32_t* indices);

}  // namespace attndb::kernels

#endif  // ATTNDB_KERNELS_DRAW_H_
