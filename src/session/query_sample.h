// The q rows that a session keeps for its tail, on which indexes are trained later.
//
// A hash of (position, layer, q head) decides which rows are kept, so that the sample does not
// depend on how the tokens came in; on average `rate` rows are kept per token and kv head.
//
// A sample can be frozen: what it has is shared then and not changed any more, and what is offered
// later goes to rows of its own.
//
// Memory:  counted in the budget. Rows that find no memory are left out: an index is trained with
//          fewer then.
// Shapes:  rows [n, RowElements(head_dim)] of kv_dtype in RoPE layout half; token indices count
//          from the first token of the tail.
// Threads: one thread at a time. A fork is independent.
#ifndef ATTNDB_SESSION_QUERY_SAMPLE_H_
#define ATTNDB_SESSION_QUERY_SAMPLE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "attndb/tensor_view.h"
#include "attndb/types.h"
#include "common/turn.h"
#include "storage/kv/memory_budget.h"
#include "storage/kv/query_rows.h"

namespace attndb::internal {

class QuerySample {
 public:
  // `budget` must outlive it, and what is frozen of it.
  QuerySample(const ModelSpec& spec, double rate, storage::MemoryBudget* budget);

  // Rows of q as an engine gives them, and how they are turned to the session's positions; null:
  // not at all.
  struct Queries {
    TensorView rows;
    const Turn* shift = nullptr;
  };
  // How many rows a sample has of each layer and kv head once q of all tokens at these positions
  // was offered, if all found memory and none was without use.
  static std::vector<std::vector<uint64_t>> Count(const ModelSpec& spec, double rate,
                                                  int64_t first_position, uint64_t num_tokens);

  // Offers q of consecutive tokens, the first of which is token `tail_token` of the tail and has
  // position `position`. Tokens that were offered before are ignored.
  void Offer(const ModelSpec& spec, LayerId layer, const Queries& q, uint64_t tail_token,
             int64_t position);

  // Forgets the rows of tokens from `num_tail_tokens` on.
  void Crop(uint64_t num_tail_tokens);
  // Forgets the rows of the tail's first tokens; the others are counted from there on.
  void DropFirst(uint64_t num_tail_tokens);

  // The rows that are there now, by layer and kv head, in pieces that follow each other. They stay
  // as they are, whatever becomes of the sample. Copies no row.
  using Frozen = std::vector<std::vector<std::vector<storage::SharedQueries>>>;
  Frozen Freeze();
  // A sample that has the same rows, and shares their memory.
  QuerySample Fork();

  // The head's rows, in pieces that follow each other. Valid until the next call that changes the
  // sample.
  std::vector<storage::QueryRows> rows(LayerId layer, uint32_t kv_head) const;
  uint64_t memory_bytes() const;

 private:
  struct Head {
    std::vector<storage::SharedQueries> frozen;
    storage::QueryBuffer open;  // Its rows follow the frozen ones.
  };
  struct Layer {
    std::vector<Head> heads;
    uint64_t next_token = 0;  // First token of the tail that was not offered.
    uint64_t row_bytes = 0;
  };

  QuerySample(double rate, storage::MemoryBudget* budget) : rate_(rate), budget_(budget) {}

  // Whether there is room for one row more.
  bool HasRoom(storage::QueryBuffer* open, size_t row_bytes) const;
  void Keep(const ModelSpec& spec, LayerId layer, const Queries& q, uint64_t row, uint32_t q_head,
            uint64_t tail_token);

  // Cuts a head's rows to those of tokens before `num_tail_tokens`.
  static void CropHead(uint64_t num_tail_tokens, uint64_t row_bytes, Head* head);

  double rate_;
  storage::MemoryBudget* budget_;
  std::vector<Layer> layers_;
  std::vector<float> scratch_;
};

}  // namespace attndb::internal

#endif  // ATTNDB_SESSION_QUERY_SAMPLE_H_
