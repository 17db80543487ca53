// Keys in blocks of consecutive tokens; one row represents all keys of a block (block_bounds.h,
// block_representatives.h). A search scores these rows, selects whole blocks for the group, and
// scores their keys exactly (block_search.h).
//
// Queries: only the k best. A block's row does not tell how the keys of the block spread, so it
//          can't answer ranges and masses.
// Errors:  kResourceExhausted: no memory; Parse: those of block_format.h. Keys must be finite
//          (heads with NaN or Inf run `full`).
// Threads: constant after construction.
#ifndef ATTNDB_INDEX_COARSE_BLOCK_KEYS_H_
#define ATTNDB_INDEX_COARSE_BLOCK_KEYS_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "attndb/result.h"
#include "common/aligned_buffer.h"
#include "index/coarse/block_format.h"
#include "index/coarse/block_source.h"
#include "index/key_index.h"

namespace attndb::index {

class BlockKeys final : public KeyIndex {
 public:
  // REQUIRES: source.num_keys > 0; rows of such summaries fit kernels.
  static Result<BlockKeys> Build(const BlockSource& source, const BlockForm& form);

  // Takes summaries that were written before; `bytes` lie at a multiple of kPieceAlignment, are
  // used in place and must outlive the result. They may hold anything. `object` names them in
  // errors.
  static Result<BlockKeys> Parse(std::span<const std::byte> bytes, const BlockShape& expected,
                                 std::string_view object);

  // The bytes that Parse reads, as long as this lives.
  std::span<const std::byte> bytes() const { return bytes_; }
  const BlockShape& shape() const { return shape_; }
  size_t block_keys() const { return shape_.form.block_keys; }

  // Prepares the q rows of a group for blocks' rows, of any keys of the same shape: prepared
  // [num_q_rows, row_elements].
  void Prepare(const float* q, size_t q_stride, size_t num_q_rows, float* prepared) const;
  // scores[r * scores_stride + i]: score of row r and block first_block + i.
  void ScoreBlocks(const float* prepared, size_t num_q_rows, size_t first_block, size_t num_blocks,
                   float* scores, size_t scores_stride) const;

  size_t num_keys() const override { return shape_.num_keys; }
  uint64_t memory_bytes() const override { return buffer_.size(); }
  size_t ScratchBytes(const IndexCall& call) const override;
  // REQUIRES: SearchKind::kTopK.
  Status Search(const IndexCall& call, void* scratch, FoundKeys* found,
                SearchCost* cost) const override;

 private:
  BlockKeys(const BlockShape& shape, std::span<const std::byte> bytes)
      : shape_(shape), bytes_(bytes) {}

  BlockShape shape_;
  std::span<const std::byte> bytes_;
  AlignedBuffer buffer_;  // Holds the bytes, if they were built here.
};

}  // namespace attndb::index

#endif  // ATTNDB_INDEX_COARSE_BLOCK_KEYS_H_
