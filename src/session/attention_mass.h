// Finds the tokens of a session that its newest queries attend to, over all layers and heads. A cut
// should keep these tokens ([AS] 3.4, selective preservation).
//
// Queries: the sampled queries for the training of indexes (DBOptions::query_sample), the newest
//          kMaxRows of each kv head and layer, from the tail and from the chain's last segment.
// Mass:    each query's attention weights sum to 1 over the tokens that it saw and that are still
//          there, each at its present position. A token's mass is the sum over queries.
// Errors:  those of reading rows; kFailedPrecondition (there are no sampled queries).
// Threads: one thread at a time, while no call of the session is under way.
#ifndef ATTNDB_SESSION_ATTENTION_MASS_H_
#define ATTNDB_SESSION_ATTENTION_MASS_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "attention/head_run.h"
#include "attndb/status.h"
#include "attndb/types.h"
#include "common/turn.h"
#include "storage/kv/query_rows.h"
#include "storage/kv/row_source.h"

namespace attndb::internal {

class AttentionMass {
 public:
  static constexpr size_t kMaxRows = 16;

  // num_seen: number of tokens that the session attends to; the mass lists them in order.
  explicit AttentionMass(uint64_t num_seen) : mass_(num_seen) {}

  // The keys of one kv head, and the newest queries of its group.
  struct HeadKeys {
    const LayerSpec* spec = nullptr;
    DType dtype = DType::kFloat16;
    std::span<const attention::HeadRun> runs;  // All visible tokens, in order.
    std::span<const uint32_t> turn_of_run;     // [runs]: 0, or 1 + index of a turn.
    std::span<const Turn> turns;
    const storage::RowSource* rows = nullptr;
  };
  // `seen_before[i]`: number of visible tokens that query row i saw, its own included.
  Status Add(const HeadKeys& keys, const storage::QueryRows& queries,
             std::span<const uint64_t> seen_before);

  bool has_queries() const { return num_queries_ > 0; }
  std::span<const double> mass() const { return mass_; }  // By visible token.

 private:
  std::vector<double> mass_;
  uint64_t num_queries_ = 0;
  std::vector<float> q_;       // [rows][head_dim padded]
  std::vector<float> turned_;  // Like q_.
  std::vector<float> scores_;  // [rows][seen tokens]
};

// Returns the blocks of block_tokens in `among` with the most mass, as many as fit into num_tokens.
// They are ranges in order; neighbours are one range. mass: by token of the session.
std::vector<TokenRange> HeaviestBlocks(std::span<const double> mass, TokenRange among,
                                       uint64_t num_tokens, uint64_t block_tokens);

}  // namespace attndb::internal

#endif  // ATTNDB_SESSION_ATTENTION_MASS_H_
