// Internal to planes: for a Keep with reaches, computes the least noise that makes a key of each
// block worth scoring, and counts what leaving out the other blocks may have missed.
//
// Audit:   blocks are scored in turn, whatever they need. An audited block's kept keys that would
//          have been left out tell what the reaches miss. The count has no bias, because every
//          block has its turn.
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
    size_t end_key = 0;  // At most kMost blocks, counted from `first`.
  };

  // The call must outlive it.
  BlockNeeds(const KeepCall& call, const Blocks& blocks);

  // of_means[r * stride + b]: q_r times the mean of block first + b.
  void Find(const float* of_means, size_t stride);

  // For `block` and later ones: the least noise by which a key of the block may be kept. REQUIRES:
  // Find.
  const float* From(size_t block) const { return needs_.data() + (block - blocks_.first); }

  // Counts the missed tokens among those kept from first_kept on. REQUIRES: Find; all of them
  // belong to these blocks.
  uint64_t CountMissed(const kernels::KeptTokens& kept, size_t first_kept) const;

 private:
  static constexpr size_t kMost = kernels::kMostSkipping / kernels::kWeightBlock;

  void Audit();
  bool IsMissed(size_t key) const;

  const KeepCall& call_;
  const Blocks blocks_;
  const size_t num_blocks_;
  std::array<float, kMost> needs_;
  // The need of an audited block; -inf for the others.
  std::array<float, kMost> audited_;
};

}  // namespace attndb::index

#endif  // ATTNDB_INDEX_PLANES_BLOCK_NEEDS_H_
