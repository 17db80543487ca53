// The q rows that a session keeps for its tail, to train indexes later.
//
// A hash of (position, layer, q head) decides which rows are kept, so that the sample does not
// depend on how the tokens came in. On average it keeps `rate` rows per token and kv head.
//
// A sample can be frozen: its present rows are then shared and do not change, and later rows go to
// new memory.
//
// Memory:  counted in the budget. Rows that find no memory are left out; an index is then trained
//          with fewer rows.
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
  // `budget` must outlive the sample and its frozen rows.
  QuerySample(const ModelSpec& spec, double rate, storage::MemoryBudget* budget);

  // Rows of q as an engine gives them, and their rotation to the session's positions; null: none.
  struct Queries {
    TensorView rows;
    const Turn* shift = nullptr;
  };
  // The number of rows of each layer and kv head after q of all tokens at these positions was
  // offered, if all found memory and none was unusable.
  static std::vector<std::vector<uint64_t>> Count(const ModelSpec& spec, double rate,
                                                  int64_t first_position, uint64_t num_tokens);

  // Offers q of consecutive tokens. The first one is token `tail_token` of the tail and has
  // position `position`. Ignores tokens that were offered before.
  void Offer(const ModelSpec& spec, LayerId layer, const Queries& q, uint64_t tail_token,
             int64_t position);

  // Forgets the rows of tokens from `num_tail_tokens` on.
  void Crop(uint64_t num_tail_tokens);
  // Forgets the rows of the tail's first tokens. Other tokens count from there on.
  void DropFirst(uint64_t num_tail_tokens);

  // The present rows, by layer and kv head, in consecutive pieces. They do not change with the
  // sample. Copies no row.
  using Frozen = std::vector<std::vector<std::vector<storage::SharedQueries>>>;
  Frozen Freeze();
  // Returns a sample with the same rows, which shares their memory.
  QuerySample Fork();

  // The head's rows, in consecutive pieces. Valid until the next call that changes the sample.
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

  // Whether there is room for one more row.
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
