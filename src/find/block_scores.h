// The best score of a question's tokens in each block of keys.
//
// Shapes:  maxima [num_rows, num_blocks]: rows as in PlacedQuestion, blocks as in Blocks; unscaled
//          scores. They are NaN, and do not count, for a run whose head holds NaN or Inf, and for a
//          block with only sinks.
// Place:   the question stands directly behind the block, wherever the block lies, if it can be
//          rotated there.
// Errors:  as KvRun::ReadRows.
// Threads: stateless; calls for different runs may share `maxima`.
#ifndef ATTNDB_FIND_BLOCK_SCORES_H_
#define ATTNDB_FIND_BLOCK_SCORES_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "attndb/status.h"
#include "attndb/types.h"
#include "find/key_run.h"
#include "find/placed_question.h"

namespace attndb::find {

// The turns that take a question behind the first block of a run, behind the second and so on; all
// runs of a layer share them.
std::vector<Turn> TurnsBehind(const LayerSpec& layer, uint64_t block_tokens, size_t num_blocks);

// One kv head of one layer.
struct HeadKeys {
  LayerId layer = 0;
  uint32_t kv_head = 0;
};

// Fills the columns of run `run`. `turns` covers at least the run's blocks, or is empty if the
// question can't be turned.
Status ScoreRun(const KeyRun& keys, const HeadKeys& head, const PlacedQuestion& question,
                const std::vector<Turn>& turns, const Blocks& blocks, size_t run, float* maxima);

// Sets all scores of a run that can't be read to NaN.
void SilenceRun(const Blocks& blocks, size_t run, size_t num_rows, float* maxima);

}  // namespace attndb::find

#endif  // ATTNDB_FIND_BLOCK_SCORES_H_
