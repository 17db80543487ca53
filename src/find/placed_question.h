// Rows of q of a question in the q heads of one kv head, which can be placed at any position.
//
// A score depends on a distance: RoPE turns q and k by angles in proportion to their positions. A
// question that was run alone has q at positions of its own, which are far from those of most
// stored tokens. So its rows are turned back to position 0, and from there to where they are to
// stand.
//
// Shapes:  rows [num_q_heads * num_tokens, RowElements(head_dim)] float32, RoPE layout half, the
//          rows of a q head together.
// Limits:  of a RoPE scaling whose angles are not known (common/rope_frequencies.h) rows stay at
//          the positions where they were run. Without RoPE rows have no position.
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

// Radians a position by which RoPE turns each pair of channels of the layer; none: its rows can't
// be turned.
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
  // The turn that moves rows on by `distance` positions. REQUIRES: can_turn().
  Turn TurnBy(int64_t distance) const { return {frequencies_, distance}; }
  // Rows with the first token at position 0; as they were given if they can't be turned.
  const float* rows() const { return rows_.data(); }

 private:
  const size_t num_tokens_;
  const size_t stride_;
  const std::vector<double> frequencies_;
  std::vector<float> rows_;
};

}  // namespace attndb::find

#endif  // ATTNDB_FIND_PLACED_QUESTION_H_
