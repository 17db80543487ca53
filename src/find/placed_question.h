// Rows of q of a question, in the q heads of one kv head, that can be placed at any position.
//
// A score depends on a distance: RoPE rotates q and k by angles in proportion to their positions. A
// question that was run alone has q at positions far from those of most stored tokens. So its rows
// are rotated back to position 0, and from there to the wanted position.
//
// Shapes:  rows [num_q_heads * num_tokens, RowElements(head_dim)] float32, RoPE layout half, the
//          rows of a q head together.
// Limits:  with a RoPE scaling of unknown angles (common/rope_frequencies.h) rows stay at the
//          positions where they were run. Without RoPE rows have no position.
// Errors:  none.
// Threads: constant after construction.
#ifndef ATTNDB_FIND_PLACED_QUESTION_H_
#define ATTNDB_FIND_PLACED_QUESTION_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "attndb/types.h"
#include "common/turn.h"

namespace attndb::find {

// Radians per position by which RoPE rotates each pair of channels of the layer; empty: its rows
// can't be rotated.
std::vector<double> FrequenciesOf(const LayerSpec& layer);

class PlacedQuestion {
 public:
  // `rows`: row i of each q head stands at position first_position + i.
  PlacedQuestion(const LayerSpec& layer, std::vector<float> rows, size_t num_tokens,
                 int64_t first_position);

  size_t num_rows() const { return rows_.size() / stride_; }
  size_t num_tokens() const { return num_tokens_; }
  size_t stride() const { return stride_; }
  bool can_turn() const { return !frequencies_.empty(); }
  // The rotation that moves rows on by `distance` positions. REQUIRES: can_turn().
  Turn TurnBy(int64_t distance) const { return {frequencies_, distance}; }
  // Rows with the first token at position 0; the given rows if they can't be rotated.
  const float* rows() const { return rows_.data(); }

 private:
  const size_t num_tokens_;
  const size_t stride_;
  const std::vector<double> frequencies_;
  std::vector<float> rows_;
};

}  // namespace attndb::find

#endif  // ATTNDB_FIND_PLACED_QUESTION_H_
