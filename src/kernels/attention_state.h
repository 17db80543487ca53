// Partial softmax attention of q rows, and the merge of partial results.
//
// A state is the contribution of a set of tokens to one q row: max, the largest logit; sum, the sum
// of exp(logit - max); out, the sum of exp(logit - max) * v, NOT divided by sum. Logits are score *
// scale, or soft_cap * tanh(score * scale / soft_cap); natural exponentials.
//
// Empty:   max = -inf, sum = 0, out = 0; the identity of MergeStates.
// Values:  a NaN in q, in a key or in a value of non-empty weight gives NaN in the results that use
//          it. A logit of +inf gives NaN, as in an IEEE softmax (inf - inf). A logit of -inf weighs
//          exactly 0, and a set of only such tokens is the empty set (IEEE softmax: NaN). Otherwise
//          the result would depend on where a set is split.
// Tricks:  adding c to max multiplies the set's weight by e^c (a sample that represents n/m as many
//          tokens: c = ln(n/m)). A finished (out, lse) is a state again: max = lse, sum = 1.
// Sinks:   the learned sinks of a model are called denominator logits here: AddToDenominators.
// Threads: stateless; concurrent calls must not share states.
// Source:  Milakov & Gimelshein 2018 (arXiv:1805.02867), Alg. 3; merge: RetrievalAttention, App. B.
#ifndef ATTNDB_KERNELS_ATTENTION_STATE_H_
#define ATTNDB_KERNELS_ATTENTION_STATE_H_

#include <cstddef>

namespace attndb::kernels {

// How a score (q.k) becomes a logit.
struct LogitSpec {
  float scale = 1.0f;     // Usually 1/sqrt(head_dim).
  float soft_cap = 0.0f;  // 0: none.
};

// States of consecutive q rows; not owned. Row r is (max[r], sum[r], out + r * out_stride).
struct StateRows {
  float* max = nullptr;
  float* sum = nullptr;
  float* out = nullptr;
  size_t out_stride = 0;  // Elements; >= the padded v_head_dim.
};

// The states of rows [first_row, ...).
constexpr StateRows StatesFrom(const StateRows& states, size_t first_row) {
  return {states.max + first_row, states.sum + first_row,
          states.out + first_row * states.out_stride, states.out_stride};
}

// Makes `num_rows` states empty. v_head_dim: padded elements of out.
void InitStates(const StateRows& states, size_t num_rows, size_t v_head_dim);

// Folds `from` into `into`, as if both token sets had been attended to in one pass; equal to that
// up to rounding, in any order. O(num_rows * v_head_dim).
// REQUIRES: no overlap of memory; no token in both sets.
void MergeStates(const StateRows& from, const StateRows& into, size_t num_rows, size_t v_head_dim);

// Adds exp(logits[r]) to the sum of row r, and nothing to its out, as a token of value 0 does. To
// be called once, on states that are about to be finished. REQUIRES: logits are finite.
void AddToDenominators(const float* logits, const StateRows& states, size_t num_rows,
                       size_t v_head_dim);

// out = softmax-weighted mean of v, lse = natural log of the sum of exp(logit); the empty set gives
// zeros and -inf; a zero of `out` is never -0. `out` may be states.out (with its stride); `lse`
// [num_rows] may be null.
// v_head_dim: elements to write, padded or not.
void FinishStates(const StateRows& states, size_t num_rows, size_t v_head_dim, float* out,
                  size_t out_stride, float* lse);

// Merges finished results: (from_out, from_lse) into (*into_out, *into_lse). For partial results of
// other devices or machines. Any order; -inf is the identity.
void MergeFinished(const float* from_out, float from_lse, size_t v_head_dim, float* into_out,
                   float* into_lse);

}  // namespace attndb::kernels

#endif  // ATTNDB_KERNELS_ATTENTION_STATE_H_
