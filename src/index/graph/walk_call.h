// Internal to graph: the arguments and the scratch of a walk, and how it reads and scores keys.
//
// Threads: one thread.
#ifndef ATTNDB_INDEX_GRAPH_WALK_CALL_H_
#define ATTNDB_INDEX_GRAPH_WALK_CALL_H_

#include <cstddef>
#include <cstdint>

#include "attndb/result.h"
#include "index/key_index.h"
#include "index/search_scratch.h"
#include "kernels/prefetch.h"
#include "kernels/score.h"

namespace attndb::index {

// One run of a search; keys are numbered as in the graph.
struct WalkCall {
  SearchSpec spec;
  kernels::RowsView keys;             // Form of the keys.
  storage::RowLease* rows = nullptr;  // The lease that reads keys.
  storage::Strip strip;               // The strip that has the keys.
  size_t first_key = 0;               // Row of the strip that is the graph's key 0.
  size_t first_visible = 0;
  size_t num_visible = 0;  // > first_visible.
  const float* q = nullptr;
  size_t q_stride = 0;
  size_t num_q_rows = 0;
  const float* best = nullptr;  // See IndexCall; null: not known.
};

// Keys in sight are scored in batches of at most this many.
inline constexpr size_t kBatchKeys = 256;

// Reads keys of a run and scores them.
class KeyScorer {
 public:
  // `listed` has room for a batch.
  KeyScorer(const WalkCall& call, uint32_t* listed)
      : call_(call),
        row_bytes_(call.keys.num_elements * DTypeBytes(call.keys.dtype)),
        resident_(static_cast<const std::byte*>(call.rows->Resident(call.strip))),
        listed_(listed) {}

  size_t row_bytes() const { return row_bytes_; }

  void Prefetch(uint32_t key) const {
    if (resident_ == nullptr) return;
    const std::byte* const row = resident_ + (call_.first_key + key) * row_bytes_;
    for (size_t byte = 0; byte < row_bytes_; byte += 64) kernels::PrefetchNear(row + byte);
  }

  // Scores `keys`, at most a batch, for `num_rows` q rows; row r's scores begin at scores + r *
  // kBatchKeys.
  Status Score(const uint32_t* keys, size_t count, const float* q, size_t num_rows, float* scores) {
    const auto first_key = static_cast<uint32_t>(call_.first_key);
    for (size_t i = 0; i < count; ++i) listed_[i] = first_key + keys[i];
    call_.rows->Clear();
    call_.rows->RequestListed(call_.strip, listed_, count);
    ATTNDB_RETURN_IF_ERROR(call_.rows->Read());
    const storage::ListedRows rows = call_.rows->Listed(0);
    kernels::ScoreGather(rows.rows, rows.list, count, q, call_.q_stride, num_rows, scores,
                         kBatchKeys);
    return Status::Ok();
  }

 private:
  const WalkCall& call_;
  size_t row_bytes_;
  const std::byte* resident_;  // Row 0 of the strip if it is in memory, else null.
  uint32_t* listed_;           // The batch, as rows of the strip.
};

}  // namespace attndb::index

#endif  // ATTNDB_INDEX_GRAPH_WALK_CALL_H_
