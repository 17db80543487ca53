// Internal to planes: of the blocks of a Keep with reaches, how much noise a key must have to be
// worth scoring; and what leaving out the others may have missed.
//
// Audit:   blocks in their turn are scored whatever they need. What is kept of them, and would have
//          been left out, says what the reaches miss: without bias, as every block has its turn.
// Threads: a value of one call.
#ifndef ATTNDB_INDEX_PLANES_BLOCK_NEEDS_H_
#define ATTNDB_INDEX_PLANES_BLOCK_NEEDS_H_

#include <array>
#include <cstddef>
#include <cstdint>

#include "index/key_estimates.h"
#include "kernels/planes.h"
#include "kernels/weights.h"

namespace attndb::index {

class BlockNeeds {
 public:
  struct Blocks {
    size_t first = 0;
    size_t end_key = 0;  // At most kMost blocks after the first one's.
  };

  // The call must outlive it.
  BlockNeeds(const KeepCall& call, const Blocks& blocks);

  // of_means[r * stride + b]: q_r times the mean of block first + b.
  void Find(const float* of_means, size_t stride);

  // From a block on, the least noise by which a key of it may be kept. REQUIRES: Find.
  const float* From(size_t block) const { return needs_.data() + (block - blocks_.first); }

  // Of kept tokens from first_kept on. REQUIRES: Find; none of them are of other blocks.
  uint64_t CountMissed(const kernels::KeptTokens& kept, size_t first_kept) const;

 private:
  static constexpr size_t kMost = kernels::kMostSkipping / kernels::kWeightBlock;

  void Audit();
  bool IsMissed(size_t key) const;

  const KeepCall& call_;
  const Blocks blocks_;
  const size_t num_blocks_;
  std::array<float, kMost> needs_;
  std::array<float, kMost> audited_;  // What an audited block needed; -inf for the others.
};

}  // namespace attndb::index

#endif  // ATTNDB_INDEX_PLANES_BLOCK_NEEDS_H_
