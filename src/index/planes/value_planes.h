// Smaller forms of the values of one kv head of a run of tokens (kernels/value_planes.h). Value
// planes are codes of 8 bits, for tokens whose weight does not justify a read of V. Value means are
// means of blocks with bounds of their norms, for tokens that are not read one by one.
//
// Byte form: docs/formats/value_planes.md; also their form in memory.
// Errors:    kResourceExhausted: no memory; Parse: kCorruption, or kUnsupported for another
//            version, naming object, field, expected and found. Values must be finite (heads with
//            NaN or Inf run `full`).
// Threads:   constant after construction.
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

// The shape that the values of a kv head must have.
struct ValueShape {
  uint64_t num_tokens = 0;
  size_t num_elements = 0;  // Padded.
};

// Shared by both forms: bytes, which were built here or lie elsewhere, and a view of them.
template <typename ViewType>
class StoredValues {
 public:
  using View = ViewType;

  size_t num_tokens() const { return num_tokens_; }
  const View& view() const { return view_; }
  // The bytes that Parse reads, as long as this lives.
  std::span<const std::byte> bytes() const { return bytes_; }
  uint64_t memory_bytes() const { return buffer_.size(); }

 protected:
  StoredValues() = default;  // Has no tokens.
  StoredValues(const ValueShape& shape, std::span<const std::byte> bytes)
      : num_tokens_(shape.num_tokens), bytes_(bytes) {
    view_.num_elements = shape.num_elements;
  }

  size_t num_tokens_ = 0;
  View view_;
  std::span<const std::byte> bytes_;
  AlignedBuffer buffer_;  // Holds the bytes, if they were built here.
};

// For both: Build gives an object without tokens if values have no such form. Parse takes an object
// that was written before; `bytes` lie at a multiple of kPieceAlignment, are used in place and must
// outlive the result. They may hold anything. `object` names them in errors.
class ValuePlanes final : public StoredValues<kernels::ValuePlanesView> {
 public:
  ValuePlanes() = default;

  static uint64_t BytesFor(const ValueShape& shape);
  // No tokens where 8 bits are too few, as single values of a block are much larger than the
  // others.
  static Result<ValuePlanes> Build(const kernels::RowsView& values, size_t num_tokens);
  static Result<ValuePlanes> Parse(std::span<const std::byte> bytes, const ValueShape& expected,
                                   std::string_view object);

 private:
  ValuePlanes(const ValueShape& shape, std::span<const std::byte> bytes);
};

class ValueMeans final : public StoredValues<kernels::ValueMeansView> {
 public:
  ValueMeans() = default;

  static uint64_t BytesFor(const ValueShape& shape);
  // No tokens where the squares of a value overflow float32.
  static Result<ValueMeans> Build(const kernels::RowsView& values, size_t num_tokens);
  static Result<ValueMeans> Parse(std::span<const std::byte> bytes, const ValueShape& expected,
                                  std::string_view object);

 private:
  ValueMeans(const ValueShape& shape, std::span<const std::byte> bytes);
};

}  // namespace attndb::index

#endif  // ATTNDB_INDEX_PLANES_VALUE_PLANES_H_
