#include "index/coarse/block_keys.h"

#include <algorithm>
#include <utility>

#include "common/check.h"
#include "index/coarse/block_bounds.h"
#include "index/coarse/block_representatives.h"
#include "index/coarse/block_search.h"
#include "kernels/score.h"

namespace attndb::index {

Result<BlockKeys> BlockKeys::Build(const BlockSource& source, const BlockForm& form) {
  const BlockShape shape = {.form = form,
                            .num_keys = source.num_keys,
                            .num_channels = source.keys.num_elements,
                            .key_dtype = source.keys.dtype};
  ATTNDB_CHECK(shape.num_keys > 0 && shape.fits_kernels());
  ATTNDB_ASSIGN_OR_RETURN(AlignedBuffer buffer, AlignedBuffer::Allocate(shape.total_bytes()));
  EncodeBlocksHeader(shape, buffer.span().first(kBlocksHeaderBytes));
  std::byte* const rows = buffer.data() + kBlocksHeaderBytes;
  if (form.summary == BlockSummary::kBounds) {
    WriteBounds(source, form.block_keys, rows);
  } else {
    WriteRepresentatives(source, form, reinterpret_cast<float*>(rows));
  }
  BlockKeys keys(shape, buffer.span());
  keys.buffer_ = std::move(buffer);
  return keys;
}

Result<BlockKeys> BlockKeys::Parse(std::span<const std::byte> bytes, const BlockShape& expected,
                                   std::string_view object) {
  ATTNDB_RETURN_IF_ERROR(CheckBlocks(bytes, expected, object));
  return BlockKeys(expected, bytes);
}

void BlockKeys::Prepare(const float* q, size_t q_stride, size_t num_q_rows, float* prepared) const {
  for (size_t r = 0; r < num_q_rows; ++r, q += q_stride, prepared += shape_.row_elements()) {
    if (shape_.form.summary == BlockSummary::kBounds) {
      SplitQuery(q, shape_.num_channels, prepared);
    } else {
      std::copy_n(q, shape_.num_channels, prepared);
    }
  }
}

void BlockKeys::ScoreBlocks(const float* prepared, size_t num_q_rows, size_t first_block,
                            size_t num_blocks, float* scores, size_t scores_stride) const {
  ATTNDB_DCHECK(first_block + num_blocks <= shape_.num_blocks());
  const kernels::RowsView rows = {bytes_.data() + kBlocksHeaderBytes, shape_.row_elements(),
                                  shape_.row_elements(), shape_.row_dtype()};
  kernels::ScoreRows(kernels::RowsFrom(rows, first_block), num_blocks, prepared,
                     shape_.row_elements(), num_q_rows, scores, scores_stride);
}

size_t BlockKeys::ScratchBytes(const IndexCall& call) const {
  return BlockSearch(call, nullptr, nullptr).scratch_bytes();
}

Status BlockKeys::Search(const IndexCall& call, void* scratch, FoundKeys* found,
                         SearchCost* cost) const {
  ATTNDB_CHECK(call.spec.kind == SearchKind::kTopK);
  return BlockSearch(call, scratch, cost).Run(found);
}

}  // namespace attndb::index
