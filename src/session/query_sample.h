// The q rows that a session keeps for its tail, on which indexes are trained later.
//
// A hash of (position, layer, q head) decides which rows are kept, so that the sample does not
// depend on how the tokens came in; on average `rate` rows are kept per token and kv head.
//
// Shapes:  rows [n, RowElements(head_dim)] of kv_dtype in RoPE layout half; token indices count
//          from the first token of the tail.
// Threads: one thread at a time. A copy is independent.
#ifndef ATTNDB_SESSION_QUERY_SAMPLE_H_
#define ATTNDB_SESSION_QUERY_SAMPLE_H_

#include <cstdint>
#include <vector>

#include "attndb/tensor_view.h"
#include "attndb/types.h"
#include "storage/kv/query_rows.h"

namespace attndb::internal {

class QuerySample {
 public:
  QuerySample(const ModelSpec& spec, double rate);

  // Offers q of `q.rows()` consecutive tokens, the first of which is token `tail_token` of the tail
  // and has position `position`. Tokens that were offered before are ignored.
  void Offer(const ModelSpec& spec, LayerId layer, const TensorView& q, uint64_t tail_token,
             int64_t position);

  // Forgets the rows of tokens from `num_tail_tokens` on.
  void Crop(uint64_t num_tail_tokens);

  storage::QueryRows rows(LayerId layer, uint32_t kv_head) const;
  uint64_t memory_bytes() const;

 private:
  struct Head {
    std::vector<std::byte> rows;
    std::vector<uint32_t> tokens;
    std::vector<uint32_t> q_heads;
  };
  struct Layer {
    std::vector<Head> heads;
    uint64_t next_token = 0;  // First token of the tail that was not offered.
    uint64_t row_bytes = 0;
  };

  bool IsChosen(int64_t position, LayerId layer, uint32_t q_head, uint32_t group_size) const;
  void Keep(const ModelSpec& spec, LayerId layer, const TensorView& q, uint64_t row,
            uint32_t q_head, uint64_t tail_token);

  double rate_;
  std::vector<Layer> layers_;
  std::vector<float> scratch_;
};

}  // namespace attndb::internal

#endif  // ATTNDB_SESSION_QUERY_SAMPLE_H_
