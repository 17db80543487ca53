#include "index/planes/value_planes.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "common/check.h"
#include "common/coding.h"
#include "common/lane_sum.h"
#include "index/planes/key_sample.h"
#include "index/planes/piece_check.h"
#include "storage/vfs/format.h"

namespace attndb::index {
namespace {

using kernels::kValueBlock;
using kernels::NumValueBlocks;
using kernels::ValueRowBytes;
using storage::ExpectEqual;

constexpr std::string_view kMagic = "attnvpln";
constexpr uint32_t kVersion = 1;
constexpr size_t kHeaderBytes = 64;

// One scale serves all channels and tokens of a block. Where single values are so large that codes
// of 8 bits are off by more than this share of the others, they would be wrong unseen: both halves
// of a sample, whose distance tells its error, are read from the same codes.
constexpr double kMostOff = 0.02;

// Where the pieces lie, from the start of the bytes.
struct Layout {
  explicit Layout(const ValueShape& shape) {
    const size_t num_blocks = NumValueBlocks(shape.num_tokens);
    scales = kHeaderBytes;
    norms = RoundUpToPiece(scales + num_blocks * sizeof(float));
    means = RoundUpToPiece(norms + num_blocks * sizeof(float));
    codes = RoundUpToPiece(means + num_blocks * shape.num_elements * sizeof(uint16_t));
    bytes = codes + shape.num_tokens * ValueRowBytes(shape.num_elements, shape.bits);
  }

  size_t scales = 0;  // float32 [blocks]
  size_t norms = 0;   // The same
  size_t means = 0;   // bfloat16 [blocks, num_elements]
  size_t codes = 0;   // [num_tokens, ValueRowBytes]
  size_t bytes = 0;
};

std::vector<std::byte> EncodeHeader(const ValueShape& shape) {
  ByteWriter writer;
  writer.Bytes(BytesOf(kMagic));
  writer.U32(kVersion);
  writer.U32(static_cast<uint32_t>(shape.num_elements));
  writer.U64(shape.num_tokens);
  writer.U32(shape.bits);
  writer.PadTo(kHeaderBytes);
  const std::span<const std::byte> bytes = writer.bytes();
  return {bytes.begin(), bytes.end()};
}

Status CheckHeader(std::span<const std::byte> bytes, const ValueShape& expected,
                   std::string_view object) {
  ByteReader in(bytes, object);
  ATTNDB_RETURN_IF_ERROR(storage::CheckMagicAndVersion(&in, object, kMagic, kVersion));
  const uint32_t num_elements = in.U32("num_elements");
  const uint64_t num_tokens = in.U64("num_tokens");
  const uint32_t bits = in.U32("bits");
  ATTNDB_RETURN_IF_ERROR(storage::ReadZeros(&in, object, kHeaderBytes));
  ATTNDB_RETURN_IF_ERROR(ExpectEqual(object, "num_elements", num_elements, expected.num_elements));
  ATTNDB_RETURN_IF_ERROR(ExpectEqual(object, "num_tokens", num_tokens, expected.num_tokens));
  return ExpectEqual(object, "bits", bits, expected.bits);
}

// The largest scale of codes of 8 bits that are good enough for these values.
double MostScale(const float* values, size_t count) {
  const auto square =
      LaneSum<double>(count, [&](size_t i) { return double{values[i]} * double{values[i]}; });
  return kMostOff * std::sqrt(12.0 * square / static_cast<double>(count));
}

}  // namespace

ValuePlanes::ValuePlanes(const ValueShape& shape, std::span<const std::byte> bytes)
    : num_tokens_(shape.num_tokens), bytes_(bytes) {
  const Layout layout(shape);
  view_.codes =
      shape.bits == 0 ? nullptr : reinterpret_cast<const uint8_t*>(bytes.data() + layout.codes);
  view_.means = reinterpret_cast<const uint16_t*>(bytes.data() + layout.means);
  view_.scales = reinterpret_cast<const float*>(bytes.data() + layout.scales);
  view_.norms = reinterpret_cast<const float*>(bytes.data() + layout.norms);
  view_.bits = shape.bits;
  view_.num_elements = shape.num_elements;
}

uint64_t ValuePlanes::BytesFor(const ValueShape& shape) { return Layout(shape).bytes; }

Result<ValuePlanes> ValuePlanes::Build(const kernels::RowsView& values, size_t num_tokens,
                                       uint32_t bits) {
  if (num_tokens == 0) return ValuePlanes();
  const ValueShape shape = {num_tokens, values.num_elements, bits};
  const Layout layout(shape);
  ATTNDB_ASSIGN_OR_RETURN(AlignedBuffer buffer, AlignedBuffer::Allocate(layout.bytes));
  std::fill_n(buffer.data(), layout.codes, std::byte{0});
  std::ranges::copy(EncodeHeader(shape), buffer.data());
  ATTNDB_ASSIGN_OR_RETURN(
      AlignedBuffer spare,
      AlignedBuffer::Allocate(kValueBlock * values.num_elements * sizeof(float)));
  auto* const rows = reinterpret_cast<float*>(spare.data());
  auto* const scales = reinterpret_cast<float*>(buffer.data() + layout.scales);
  auto* const norms = reinterpret_cast<float*>(buffer.data() + layout.norms);
  auto* const means = reinterpret_cast<uint16_t*>(buffer.data() + layout.means);
  auto* const codes = reinterpret_cast<uint8_t*>(buffer.data() + layout.codes);
  for (size_t block = 0; block < NumValueBlocks(num_tokens); ++block) {
    const size_t first = block * kValueBlock;
    const size_t count = std::min(kValueBlock, num_tokens - first);
    LoadRows(values, first, count, rows);
    double most_scale = std::numeric_limits<double>::infinity();
    if (bits == 8) most_scale = MostScale(rows, count * values.num_elements);
    kernels::EncodeValues(rows, values.num_elements, count, values.num_elements, bits,
                          {codes + first * ValueRowBytes(values.num_elements, bits),
                           means + block * values.num_elements, scales + block, norms + block});
    if (double{scales[block]} > most_scale) return ValuePlanes();
    if (!std::isfinite(scales[block]) || !std::isfinite(norms[block])) return ValuePlanes();
  }
  ValuePlanes planes(shape, buffer.span());
  planes.buffer_ = std::move(buffer);
  return planes;
}

Result<ValuePlanes> ValuePlanes::Parse(std::span<const std::byte> bytes, const ValueShape& expected,
                                       std::string_view object) {
  ATTNDB_CHECK(reinterpret_cast<uintptr_t>(bytes.data()) % kPieceAlignment == 0);
  ATTNDB_RETURN_IF_ERROR(CheckHeader(bytes, expected, object));
  const Layout layout(expected);
  ATTNDB_RETURN_IF_ERROR(ExpectEqual(object, "bytes", bytes.size(), layout.bytes));
  const size_t num_blocks = NumValueBlocks(expected.num_tokens);
  const auto sizes = [&](std::string_view field, size_t offset) {
    return ExpectBits<uint32_t>(object, field, PieceOf<uint32_t>(bytes, offset, num_blocks), ~0u, 0,
                                kInfinityBits);
  };
  ATTNDB_RETURN_IF_ERROR(sizes("scales", layout.scales));
  ATTNDB_RETURN_IF_ERROR(sizes("norms", layout.norms));
  const size_t num_means = num_blocks * expected.num_elements;
  ATTNDB_RETURN_IF_ERROR(ExpectBits<uint16_t>(object, "means",
                                              PieceOf<uint16_t>(bytes, layout.means, num_means),
                                              0x7fff, 0, kBFloat16Infinity));
  return ValuePlanes(expected, bytes);
}

}  // namespace attndb::index
