// The stored tokens that a search visits: runs, each of one segment, cut into blocks.
//
// Blocks:  block_tokens tokens each, from the run's first token on; the last block may be shorter.
//          A passage is a block and the next one of its run, so that text across the end of one
//          passage is inside another. A run of one block is a passage of its own.
// Sinks:   the first tokens of a context attract the attention of every question (Xiao et al. 2023,
//          arXiv:2309.17453): their keys do not count.
// Threads: values.
#ifndef ATTNDB_FIND_KEY_RUN_H_
#define ATTNDB_FIND_KEY_RUN_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "storage/kv/kv_run.h"

namespace attndb::find {

struct KeyRun {
  std::shared_ptr<const storage::KvRun> keys;
  uint64_t num_tokens = 0;  // The run's first tokens; 1 to keys->num_tokens().
  uint64_t num_sinks = 0;   // The number of first tokens that are sinks.
};

// The blocks of each run: those of run r are [first_block(r), first_block(r + 1)).
class Blocks {
 public:
  // REQUIRES: block_tokens > 0.
  Blocks(std::span<const KeyRun> runs, uint64_t block_tokens) : block_tokens_(block_tokens) {
    for (const KeyRun& run : runs) {
      const size_t num_blocks = (run.num_tokens + block_tokens - 1) / block_tokens;
      first_blocks_.push_back(first_blocks_.back() + num_blocks);
      longest_run_ = std::max(longest_run_, num_blocks);
    }
  }

  uint64_t block_tokens() const { return block_tokens_; }
  size_t num_runs() const { return first_blocks_.size() - 1; }
  size_t num_blocks() const { return first_blocks_.back(); }
  size_t longest_run() const { return longest_run_; }  // Number of blocks of the longest run.
  size_t first_block(size_t run) const { return first_blocks_[run]; }

 private:
  uint64_t block_tokens_;
  size_t longest_run_ = 0;
  std::vector<size_t> first_blocks_ = {0};
};

}  // namespace attndb::find

#endif  // ATTNDB_FIND_KEY_RUN_H_
