// What a session that a ToyModel ran must answer, computed in float64 from the definition of
// attention and from nothing that a session stores: the generator's K and V, rounded to the spec's
// kv_dtype.
//
//   EXPECT_LT(OutputError(model, out, OracleStep(model, tokens, begin)), 1e-3);
//
// Threads: pure functions.
#ifndef ATTNDB_TESTING_TOY_ORACLE_H_
#define ATTNDB_TESTING_TOY_ORACLE_H_

#include <cstdint>
#include <span>
#include <vector>

#include "attndb/types.h"
#include "testing/toy_model.h"

namespace attndb::test {

// The outputs of ToyModel::Step for tokens [begin, end) after those before them.
std::vector<double> OracleStep(const ToyModel& model, std::span<const TokenId> tokens,
                               uint64_t begin);

// The outputs of ToyModel::Probe with `probe` on a session that holds `tokens`, all seen by `full`.
std::vector<double> OracleProbe(const ToyModel& model, std::span<const TokenId> tokens,
                                TokenId probe);

// The definition alone: one token's q, [num_q_heads, head_dim], over the first `num_visible` tokens
// of k [tokens, num_kv_heads, head_dim] and v, of which the layer's window may hide some.
// [num_q_heads, v_head_dim].
std::vector<double> OracleAttend(const LayerSpec& spec, std::span<const float> k,
                                 std::span<const float> v, std::span<const float> q,
                                 uint64_t num_visible);

// The largest |found - expected| / |expected| of a row and q head, by the Euclidean norm; a NaN
// gives infinity. REQUIRES: equal sizes, those of some number of rows in all layers.
double OutputError(const ToyModel& model, std::span<const float> found,
                   std::span<const double> expected);
double OutputError(const ToyModel& model, std::span<const float> found,
                   std::span<const float> expected);

}  // namespace attndb::test

#endif  // ATTNDB_TESTING_TOY_ORACLE_H_
