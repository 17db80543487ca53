#include "index/planes/plane_format.h"

#include <algorithm>
#include <bit>
#include <string>

#include "common/check.h"
#include "common/coding.h"
#include "index/piece_check.h"
#include "kernels/layout.h"
#include "kernels/planes.h"
#include "kernels/weights.h"
#include "storage/vfs/field_check.h"
#include "storage/vfs/format.h"

namespace attndb::index {
namespace {

using storage::ExpectAtMost;
using storage::ExpectEqual;
using storage::Mismatch;

// No rotary embedding turns by more than one radian a position.
constexpr double kMaxFrequency = 1.0;

// The bits of float32 values, so that a NaN is a number like others.
std::span<const uint32_t> Bits(std::span<const std::byte> part, size_t offset, size_t count) {
  return PieceOf<uint32_t>(part, offset, count);
}

Status CheckFrequencies(std::string_view object, std::span<const double> frequencies,
                        size_t num_pairs) {
  for (size_t i = 0; i < frequencies.size(); ++i) {
    const double max = i < num_pairs ? kMaxFrequency : 0.0;
    if (frequencies[i] >= 0.0 && frequencies[i] <= max) continue;
    return Mismatch(object, "frequency[" + std::to_string(i) + ']', "0 to " + std::to_string(max),
                    std::to_string(frequencies[i]));
  }
  return Status::Ok();
}

Result<PlaneHeader> DecodeHeader(std::span<const std::byte> main, std::string_view object) {
  ByteReader in(main, object);
  ATTNDB_RETURN_IF_ERROR(storage::CheckMagicAndVersion(&in, object, kPlanesMagic, kPlanesVersion));
  PlaneHeader header;
  header.num_channels = in.U32("num_channels");
  header.num_keys = in.U64("num_keys");
  header.first_position = in.I64("first_position");
  const uint32_t transform = in.U32("transform");
  header.num_pairs = in.U32("num_pairs");
  const uint32_t statistics[] = {in.U32("error4"), in.U32("error8"), in.U32("added_norm")};
  ATTNDB_RETURN_IF_ERROR(storage::ReadZeros(&in, object, kPlanesHeaderBytes));

  if (header.num_channels == 0 || header.num_channels % kernels::kRowMultiple != 0 ||
      header.num_channels > kernels::kMaxRowElements) {
    return Mismatch(object, "num_channels",
                    "a multiple of 16 up to " + std::to_string(kernels::kMaxRowElements),
                    std::to_string(header.num_channels));
  }
  if (header.num_keys == 0) return Mismatch(object, "num_keys", "1 or more", "0");
  ATTNDB_RETURN_IF_ERROR(
      ExpectAtMost(object, "num_keys", header.num_keys, storage::kMaxSegmentTokens));
  ATTNDB_RETURN_IF_ERROR(
      ExpectAtMost(object, "num_pairs", header.num_pairs, header.num_channels / 2));
  if (!FindTransform(transform)) {
    return Status::Unsupported(std::string(object) + ": transform: expected 4 to 6, found " +
                               std::to_string(transform));
  }
  header.transform = static_cast<TransformId>(transform);
  ATTNDB_RETURN_IF_ERROR(
      ExpectBits<uint32_t>(object, "statistics", statistics, ~0u, 0, kInfinityBits));
  header.error4 = std::bit_cast<float>(statistics[0]);
  header.error8 = std::bit_cast<float>(statistics[1]);
  header.added_norm = std::bit_cast<float>(statistics[2]);
  return header;
}

}  // namespace

PlaneLayout::PlaneLayout(uint64_t num_keys, size_t num_channels, TransformId transform) {
  const uint64_t num_blocks = (num_keys + kernels::kPlaneKeys - 1) / kernels::kPlaneKeys;
  const size_t vector_bytes = RoundUpToPiece(num_channels * sizeof(float));
  mean = kPlanesHeaderBytes;
  channel_scale = mean + vector_bytes;
  bias = channel_scale + vector_bytes;
  frequency = bias + vector_bytes;
  bounds = frequency + RoundUpToPiece(num_channels / 2 * sizeof(double));
  const uint64_t num_bounds = kernels::NumWeightBlocks(num_keys);
  block_means = bounds + RoundUpToPiece(num_bounds * sizeof(PlaneBound));
  const bool has_means = !TransformOf(transform).removes_bias;
  scales = block_means + (has_means ? num_bounds * num_channels * sizeof(uint16_t) : 0);
  scales = RoundUpToPiece(scales);
  high = scales + RoundUpToPiece(num_blocks * kernels::kPlaneKeys * sizeof(uint16_t));
  low_bytes = num_blocks * kernels::PlaneBlockBytes(num_channels);
  main_bytes = high + low_bytes;
}

void EncodePlaneHeader(const PlaneHeader& header, std::span<std::byte> out) {
  ByteWriter writer;
  writer.Bytes(BytesOf(kPlanesMagic));
  writer.U32(kPlanesVersion);
  writer.U32(header.num_channels);
  writer.U64(header.num_keys);
  writer.I64(header.first_position);
  writer.U32(static_cast<uint32_t>(header.transform));
  writer.U32(header.num_pairs);
  writer.U32(std::bit_cast<uint32_t>(header.error4));
  writer.U32(std::bit_cast<uint32_t>(header.error8));
  writer.U32(std::bit_cast<uint32_t>(header.added_norm));
  writer.PadTo(kPlanesHeaderBytes);
  ATTNDB_CHECK(out.size() == kPlanesHeaderBytes);
  std::ranges::copy(writer.bytes(), out.begin());
}

Result<PlaneHeader> DecodePlaneParts(const PlaneParts& parts, const PlaneShape& expected,
                                     std::string_view object) {
  ATTNDB_CHECK(reinterpret_cast<uintptr_t>(parts.main.data()) % kPieceAlignment == 0);
  ATTNDB_CHECK(reinterpret_cast<uintptr_t>(parts.low.data()) % kPieceAlignment == 0);
  ATTNDB_ASSIGN_OR_RETURN(const PlaneHeader header, DecodeHeader(parts.main, object));
  const size_t channels = header.num_channels;
  ATTNDB_RETURN_IF_ERROR(ExpectEqual(object, "num_channels", channels, expected.num_channels));
  ATTNDB_RETURN_IF_ERROR(ExpectEqual(object, "num_keys", header.num_keys, expected.num_keys));
  const PlaneLayout layout(header.num_keys, channels, header.transform);
  ATTNDB_RETURN_IF_ERROR(ExpectEqual(object, "main bytes", parts.main.size(), layout.main_bytes));
  ATTNDB_RETURN_IF_ERROR(ExpectEqual(object, "low bytes", parts.low.size(),
                                     expected.main_only ? 0 : layout.low_bytes));
  const auto floats = [&](std::string_view field, size_t offset, size_t count, uint32_t mask,
                          uint32_t min) {
    return ExpectBits(object, field, Bits(parts.main, offset, count), mask, min, kInfinityBits);
  };
  constexpr uint32_t kMagnitude = 0x7fffffff;
  ATTNDB_RETURN_IF_ERROR(floats("mean", layout.mean, channels, kMagnitude, 0));
  ATTNDB_RETURN_IF_ERROR(
      floats("channel_scale", layout.channel_scale, channels, ~0u, kLeastNormalBits));
  ATTNDB_RETURN_IF_ERROR(floats("bias", layout.bias, channels, kMagnitude, 0));
  ATTNDB_RETURN_IF_ERROR(CheckFrequencies(
      object, PieceOf<double>(parts.main, layout.frequency, channels / 2), header.num_pairs));
  const size_t num_bounds = kernels::NumWeightBlocks(header.num_keys);
  ATTNDB_RETURN_IF_ERROR(floats("bounds", layout.bounds, 3 * num_bounds, ~0u, 0));
  const auto halves = [&](std::string_view field, size_t begin, size_t end, uint16_t mask) {
    const auto bits = PieceOf<uint16_t>(parts.main, begin, (end - begin) / sizeof(uint16_t));
    return ExpectBits<uint16_t>(object, field, bits, mask, 0, kBFloat16Infinity);
  };
  ATTNDB_RETURN_IF_ERROR(halves("block_means", layout.block_means, layout.scales, 0x7fff));
  ATTNDB_RETURN_IF_ERROR(halves("scales", layout.scales, layout.high, 0xffff));
  return header;
}

}  // namespace attndb::index
