// Positions that go on without end, against keys that stand where the engine puts them.
//
// Method:  a text runs through a window that loses tokens once, in a session whose first token has
//          a large position: once as the engine does it, which is told small positions
//          (Session::Rebase), once at the large positions by the engine's own angles. Compared with
//          the same at position 0, token by token. The weights are float32: with those of 4 bits
//          ggml rounds activations to 8 bits at each layer, and any other arithmetic flips
//          roundings, which hides what positions change.
// Units:   negative log-likelihood in nats a token.
// Threads: one thread.
// Errors:  of the engine and of Session; kInvalidArgument (the text is too short).
#ifndef ATTNDB_BENCH_E2E_TRUNCATION_POSITIONS_H_
#define ATTNDB_BENCH_E2E_TRUNCATION_POSITIONS_H_

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "attndb/db.h"
#include "attndb/result.h"
#include "engines/llama/llama_engine.h"

namespace attndb::bench {

struct PositionsResult {
  int64_t first_position = 0;
  double rebased_max = 0;     // Largest |difference of negative log-likelihood| over tokens.
  double own_angles_max = 0;  // Likewise, without Rebase.
  double rebased_mean = 0;    // Difference of the means.
  double own_angles_mean = 0;
};

// Runs the first 512 of `tokens`, loses 256 of them, and scores the 256 that follow.
Result<std::vector<PositionsResult>> ComparePositions(std::span<const int64_t> first_positions,
                                                      std::span<const TokenId> tokens, const DB& db,
                                                      llama::LlamaEngine* engine);

// Writes `model` with its weights in float32 to `path`.
Status WriteFloat32Model(const std::string& model, const std::string& path);

}  // namespace attndb::bench

#endif  // ATTNDB_BENCH_E2E_TRUNCATION_POSITIONS_H_
