// A model without weights: q, k and v are a pure function of (token, position, layer, head), so
// that a test can run any tokens through a session and know what every other way to the same tokens
// gives.
//
//   const ToyModel model;
//   std::vector<float> out = model.Run(&session, rest);    // all layers of all rows, in order
//
// Threads: constant after construction.
#ifndef ATTNDB_TESTING_TOY_MODEL_H_
#define ATTNDB_TESTING_TOY_MODEL_H_

#include <cstdint>
#include <span>
#include <vector>

#include "attndb/session.h"
#include "attndb/types.h"

namespace attndb::test {

class ToyModel {
 public:
  // Two layers of different shape, one of them with RoPE layout kInterleaved.
  ToyModel();
  explicit ToyModel(ModelSpec spec) : spec_(std::move(spec)) {}

  const ModelSpec& spec() const { return spec_; }

  // K or V of `tokens`, the first of which is at `position`: [tokens, num_kv_heads, dim].
  std::vector<float> Keys(LayerId layer, std::span<const TokenId> tokens, uint64_t position) const;
  std::vector<float> Values(LayerId layer, std::span<const TokenId> tokens,
                            uint64_t position) const;
  std::vector<float> Queries(LayerId layer, std::span<const TokenId> tokens,
                             uint64_t position) const;

  // One step: appends `tokens` and attends in every layer. `out`, if not null, gets the outputs of
  // layer 0, then of layer 1, ..., each [tokens, num_q_heads, v_head_dim].
  Status Step(Session* session, std::span<const TokenId> tokens,
              std::vector<float>* out = nullptr) const;

  // Attention of the newest token in every layer, without appending anything.
  Status Probe(Session* session, TokenId token, std::vector<float>* out) const;
  // As Probe, with q of another position than the newest token's.
  Status ProbeAt(Session* session, TokenId token, uint64_t position, std::vector<float>* out) const;

  // `n` token ids in [0, alphabet), by the seed.
  static std::vector<TokenId> Tokens(uint64_t n, uint64_t seed, TokenId alphabet = 1000);

 private:
  std::vector<float> Rows(uint32_t kind, LayerId layer, uint32_t num_heads, uint32_t dim,
                          std::span<const TokenId> tokens, uint64_t position) const;

  ModelSpec spec_;
};

}  // namespace attndb::test

#endif  // ATTNDB_TESTING_TOY_MODEL_H_
