// Value planes: the values of one kv head of a run of tokens, quantized to 8 bits
// (kernels/value_planes.h), or the means of blocks of them alone. They stand for V of tokens whose
// weight is not worth a read of V.
//
// Byte form: docs/formats/value_planes.md; it is their form in memory too.
// Errors:    kResourceExhausted: no memory; Parse: kCorruption, or kUnsupported for another
//            version, naming object, field, expected and found. Values must be finite (heads with
//            NaN or Inf run `full`).
// Threads:   constant once made.
#ifndef ATTNDB_INDEX_PLANES_VALUE_PLANES_H_
#define ATTNDB_INDEX_PLANES_VALUE_PLANES_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "attndb/result.h"
#include "common/aligned_buffer.h"
#include "kernels/layout.h"
#include "kernels/value_planes.h"

namespace attndb::index {

// What the planes of a kv head must be.
struct ValueShape {
  uint64_t num_tokens = 0;
  size_t num_elements = 0;  // Padded.
  uint32_t bits = 0;        // 8, or 0: means alone.
};

class ValuePlanes {
 public:
  ValuePlanes() = default;  // Of no tokens.

  static uint64_t BytesFor(const ValueShape& shape);

  // Planes of no tokens if the squares of a block overflow float32, or if 8 bits are too few for
  // what single values of a block are over the others.
  static Result<ValuePlanes> Build(const kernels::RowsView& values, size_t num_tokens,
                                   uint32_t bits);

  // Planes that were written before; `bytes`, at a multiple of kPieceAlignment, are used where they
  // lie and must outlive the result. They may hold anything. `object` names them in errors.
  static Result<ValuePlanes> Parse(std::span<const std::byte> bytes, const ValueShape& expected,
                                   std::string_view object);

  size_t num_tokens() const { return num_tokens_; }
  const kernels::ValuePlanesView& view() const { return view_; }
  // What Parse reads, as long as this lives.
  std::span<const std::byte> bytes() const { return bytes_; }
  uint64_t memory_bytes() const { return buffer_.size(); }

 private:
  ValuePlanes(const ValueShape& shape, std::span<const std::byte> bytes);

  size_t num_tokens_ = 0;
  kernels::ValuePlanesView view_;
  std::span<const std::byte> bytes_;
  AlignedBuffer buffer_;  // The bytes, if they were built here.
};

}  // namespace attndb::index

#endif  // ATTNDB_INDEX_PLANES_VALUE_PLANES_H_
