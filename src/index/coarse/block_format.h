// The byte form of the block summaries of one kv head, which is also their form in memory:
// docs/formats/block_summaries.md is the grammar.
//
// Units:   offsets and sizes in bytes; rows start at a multiple of kPieceAlignment, and so must the
//          bytes in memory.
// Errors:  kCorruption, or kUnsupported for another version, naming object, field, expected and
//          found.
// Threads: values and pure functions.
#ifndef ATTNDB_INDEX_COARSE_BLOCK_FORMAT_H_
#define ATTNDB_INDEX_COARSE_BLOCK_FORMAT_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "attndb/dtype.h"
#include "attndb/status.h"
#include "index/piece_check.h"
#include "kernels/layout.h"

namespace attndb::index {

inline constexpr std::string_view kBlocksMagic = "attnblck";
inline constexpr uint32_t kBlocksVersion = 1;
inline constexpr size_t kBlocksHeaderBytes = 64;

// The summary that represents the keys of a block. The numbers are part of the format.
enum class BlockSummary : uint32_t {
  kBounds = 1,           // Each channel's largest value, then each channel's smallest.
  kRepresentatives = 2,  // The mean of a few of the keys.
};

// How a head's keys are summarised.
struct BlockForm {
  BlockSummary summary = BlockSummary::kBounds;
  uint32_t block_keys = 0;           // The last block may have fewer.
  uint32_t num_representatives = 0;  // Only for kRepresentatives.
};

// The shape of the summarised keys, and the form. A summary is a row that kernels score like a key.
struct BlockShape {
  BlockForm form;
  uint64_t num_keys = 0;
  size_t num_channels = 0;  // Padded elements of a key.
  DType key_dtype = DType::kFloat32;

  uint64_t num_blocks() const { return (num_keys + form.block_keys - 1) / form.block_keys; }
  // Bounds keep the type of the keys, means are float32.
  DType row_dtype() const {
    return form.summary == BlockSummary::kBounds ? key_dtype : DType::kFloat32;
  }
  size_t row_elements() const {
    return form.summary == BlockSummary::kBounds ? 2 * num_channels : num_channels;
  }
  size_t row_bytes() const { return row_elements() * DTypeBytes(row_dtype()); }
  uint64_t total_bytes() const { return kBlocksHeaderBytes + num_blocks() * row_bytes(); }
  // Whether kernels accept rows of that length.
  bool fits_kernels() const { return row_elements() <= kernels::kMaxRowElements; }
};

// Writes kBlocksHeaderBytes.
void EncodeBlocksHeader(const BlockShape& shape, std::span<std::byte> out);

// Checks that the bytes have this shape, and that their numbers are finite. `object` names them in
// errors. REQUIRES: aligned as above.
Status CheckBlocks(std::span<const std::byte> bytes, const BlockShape& shape,
                   std::string_view object);

}  // namespace attndb::index

#endif  // ATTNDB_INDEX_COARSE_BLOCK_FORMAT_H_
