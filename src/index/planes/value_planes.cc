#include "index/planes/value_planes.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "common/check.h"
#include "common/coding.h"
#include "common/lane_sum.h"
#include "index/piece_check.h"
#include "index/planes/key_sample.h"
#include "kernels/convert.h"
#include "storage/vfs/format.h"

namespace attndb::index {
namespace {

using kernels::kValueBlock;
using kernels::NumValueBlocks;
using storage::ExpectEqual;

constexpr std::string_view kValuePlanesMagic = "attnvcod";
constexpr std::string_view kValueMeansMagic = "attnvmea";
constexpr uint32_t kVersion = 1;
constexpr size_t kHeaderBytes = 64;

// One scale serves all channels and tokens of a block. Some single values may be so large that
// codes of the others are off by more than this share. Such codes would be wrong unnoticed: a
// sample's error is estimated from the distance of its halves, and both halves read the same codes.
constexpr double kMostOff = 0.02;

// The places of the pieces: a float32 for each block, followed by `piece_bytes`.
struct Layout {
  Layout(const ValueShape& shape, size_t piece_bytes)
      : piece(RoundUpToPiece(floats + NumValueBlocks(shape.num_tokens) * sizeof(float))),
        bytes(piece + piece_bytes) {}

  size_t floats = kHeaderBytes;
  size_t piece;
  size_t bytes;
};

Layout LayoutOfPlanes(const ValueShape& shape) {
  return {shape, shape.num_tokens * shape.num_elements};
}

Layout LayoutOfMeans(const ValueShape& shape) {
  return {shape, NumValueBlocks(shape.num_tokens) * shape.num_elements * sizeof(uint16_t)};
}

// The header, and zeros up to the piece.
Result<AlignedBuffer> BeginBytes(std::string_view magic, const ValueShape& shape,
                                 const Layout& layout) {
  ATTNDB_ASSIGN_OR_RETURN(AlignedBuffer buffer, AlignedBuffer::Allocate(layout.bytes));
  std::fill_n(buffer.data(), layout.piece, std::byte{0});
  ByteWriter writer;
  writer.Bytes(BytesOf(magic));
  writer.U32(kVersion);
  writer.U32(static_cast<uint32_t>(shape.num_elements));
  writer.U64(shape.num_tokens);
  std::ranges::copy(writer.bytes(), buffer.data());
  return buffer;
}

// Header, length and floats.
Status CheckBytes(std::span<const std::byte> bytes, std::string_view magic,
                  const ValueShape& expected, const Layout& layout, std::string_view floats,
                  std::string_view object) {
  ATTNDB_CHECK(reinterpret_cast<uintptr_t>(bytes.data()) % kPieceAlignment == 0);
  ByteReader in(bytes, object);
  ATTNDB_RETURN_IF_ERROR(storage::CheckMagicAndVersion(&in, object, magic, kVersion));
  const uint32_t num_elements = in.U32("num_elements");
  const uint64_t num_tokens = in.U64("num_tokens");
  ATTNDB_RETURN_IF_ERROR(storage::ReadZeros(&in, object, kHeaderBytes));
  ATTNDB_RETURN_IF_ERROR(ExpectEqual(object, "num_elements", num_elements, expected.num_elements));
  ATTNDB_RETURN_IF_ERROR(ExpectEqual(object, "num_tokens", num_tokens, expected.num_tokens));
  ATTNDB_RETURN_IF_ERROR(ExpectEqual(object, "bytes", bytes.size(), layout.bytes));
  const size_t num_blocks = NumValueBlocks(expected.num_tokens);
  return ExpectBits<uint32_t>(object, floats, PieceOf<uint32_t>(bytes, layout.floats, num_blocks),
                              ~0u, 0, kInfinityBits);
}

// Calls f(number, block), which says whether to go on, for each block of the values.
template <typename F>
Status ForEachBlock(const kernels::RowsView& values, size_t num_tokens, const F& f) {
  ATTNDB_ASSIGN_OR_RETURN(
      AlignedBuffer spare,
      AlignedBuffer::Allocate(kValueBlock * values.num_elements * sizeof(float)));
  auto* const rows = reinterpret_cast<float*>(spare.data());
  for (size_t block = 0; block < NumValueBlocks(num_tokens); ++block) {
    const size_t first = block * kValueBlock;
    const size_t count = std::min(kValueBlock, num_tokens - first);
    kernels::LoadRows(values, first, count, rows);
    if (!f(block, kernels::ValueRows{rows, values.num_elements, count, values.num_elements})) break;
  }
  return Status::Ok();
}

// The largest scale of codes that are good enough for these values.
double MostScale(const kernels::ValueRows& block) {
  const size_t count = block.num_tokens * block.num_elements;
  const auto square = LaneSum<double>(
      count, [&](size_t i) { return double{block.rows[i]} * double{block.rows[i]}; });
  return kMostOff * std::sqrt(12.0 * square / static_cast<double>(count));
}

}  // namespace

ValuePlanes::ValuePlanes(const ValueShape& shape, std::span<const std::byte> bytes)
    : StoredValues(shape, bytes) {
  const Layout layout = LayoutOfPlanes(shape);
  view_.scales = reinterpret_cast<const float*>(bytes.data() + layout.floats);
  view_.codes = reinterpret_cast<const uint8_t*>(bytes.data() + layout.piece);
}

uint64_t ValuePlanes::BytesFor(const ValueShape& shape) { return LayoutOfPlanes(shape).bytes; }

Result<ValuePlanes> ValuePlanes::Build(const kernels::RowsView& values, size_t num_tokens) {
  if (num_tokens == 0) return ValuePlanes();
  const ValueShape shape = {num_tokens, values.num_elements};
  const Layout layout = LayoutOfPlanes(shape);
  ATTNDB_ASSIGN_OR_RETURN(AlignedBuffer buffer, BeginBytes(kValuePlanesMagic, shape, layout));
  auto* const scales = reinterpret_cast<float*>(buffer.data() + layout.floats);
  auto* const codes = reinterpret_cast<uint8_t*>(buffer.data() + layout.piece);
  bool good = true;
  ATTNDB_RETURN_IF_ERROR(
      ForEachBlock(values, num_tokens, [&](size_t i, const kernels::ValueRows& block) {
        kernels::EncodeValues(block, codes + i * kValueBlock * values.num_elements, scales + i);
        return good = double{scales[i]} <= MostScale(block);
      }));
  if (!good) return ValuePlanes();
  ValuePlanes planes(shape, buffer.span());
  planes.buffer_ = std::move(buffer);
  return planes;
}

Result<ValuePlanes> ValuePlanes::Parse(std::span<const std::byte> bytes, const ValueShape& expected,
                                       std::string_view object) {
  ATTNDB_RETURN_IF_ERROR(
      CheckBytes(bytes, kValuePlanesMagic, expected, LayoutOfPlanes(expected), "scales", object));
  return ValuePlanes(expected, bytes);
}

ValueMeans::ValueMeans(const ValueShape& shape, std::span<const std::byte> bytes)
    : StoredValues(shape, bytes) {
  const Layout layout = LayoutOfMeans(shape);
  view_.norms = reinterpret_cast<const float*>(bytes.data() + layout.floats);
  view_.means = reinterpret_cast<const uint16_t*>(bytes.data() + layout.piece);
}

uint64_t ValueMeans::BytesFor(const ValueShape& shape) { return LayoutOfMeans(shape).bytes; }

Result<ValueMeans> ValueMeans::Build(const kernels::RowsView& values, size_t num_tokens) {
  if (num_tokens == 0) return ValueMeans();
  const ValueShape shape = {num_tokens, values.num_elements};
  const Layout layout = LayoutOfMeans(shape);
  ATTNDB_ASSIGN_OR_RETURN(AlignedBuffer buffer, BeginBytes(kValueMeansMagic, shape, layout));
  auto* const norms = reinterpret_cast<float*>(buffer.data() + layout.floats);
  auto* const means = reinterpret_cast<uint16_t*>(buffer.data() + layout.piece);
  bool finite = true;
  ATTNDB_RETURN_IF_ERROR(
      ForEachBlock(values, num_tokens, [&](size_t i, const kernels::ValueRows& block) {
        kernels::MeanOfValues(block, means + i * values.num_elements, norms + i);
        return finite = std::isfinite(norms[i]);
      }));
  if (!finite) return ValueMeans();
  ValueMeans made(shape, buffer.span());
  made.buffer_ = std::move(buffer);
  return made;
}

Result<ValueMeans> ValueMeans::Parse(std::span<const std::byte> bytes, const ValueShape& expected,
                                     std::string_view object) {
  const Layout layout = LayoutOfMeans(expected);
  ATTNDB_RETURN_IF_ERROR(CheckBytes(bytes, kValueMeansMagic, expected, layout, "norms", object));
  const size_t num_means = NumValueBlocks(expected.num_tokens) * expected.num_elements;
  ATTNDB_RETURN_IF_ERROR(ExpectBits<uint16_t>(object, "means",
                                              PieceOf<uint16_t>(bytes, layout.piece, num_means),
                                              0x7fff, 0, kBFloat16Infinity));
  return ValueMeans(expected, bytes);
}

}  // namespace attndb::index
