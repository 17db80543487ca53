#include "index/pq/pq_format.h"

#include <algorithm>
#include <bit>
#include <string>

#include "common/check.h"
#include "common/coding.h"
#include "kernels/layout.h"
#include "kernels/product_codes.h"
#include "kernels/weights.h"
#include "storage/vfs/field_check.h"
#include "storage/vfs/format.h"

namespace attndb::index {
namespace {

using storage::ExpectAtMost;
using storage::ExpectEqual;
using storage::Mismatch;

static_assert(kernels::kCodeKeys == kernels::kWeightBlock);

Result<PqHeader> DecodeHeader(std::span<const std::byte> bytes, std::string_view object) {
  ByteReader in(bytes, object);
  ATTNDB_RETURN_IF_ERROR(storage::CheckMagicAndVersion(&in, object, kPqMagic, kPqVersion));
  PqHeader header;
  header.num_channels = in.U32("num_channels");
  header.num_keys = in.U64("num_keys");
  header.num_subspaces = in.U32("num_subspaces");
  header.bits = in.U32("bits");
  const uint32_t error[] = {in.U32("error")};
  header.num_pairs = in.U32("num_pairs");
  ATTNDB_RETURN_IF_ERROR(storage::ReadZeros(&in, object, kPqHeaderBytes));

  if (header.num_keys == 0) return Mismatch(object, "num_keys", "1 or more", "0");
  ATTNDB_RETURN_IF_ERROR(
      ExpectAtMost(object, "num_keys", header.num_keys, storage::kMaxSegmentTokens));
  if (!kernels::IsCodeShape(header.num_subspaces, header.bits)) {
    return Mismatch(object, "num_subspaces and bits", "2, 4, 8, 16 or 32 of 4, 6 or 8 bits",
                    std::to_string(header.num_subspaces) + " of " + std::to_string(header.bits));
  }
  if (header.num_channels == 0 || header.num_channels > kernels::kMaxRowElements ||
      header.num_channels % header.num_subspaces != 0) {
    return Mismatch(object, "num_channels",
                    "a multiple of " + std::to_string(header.num_subspaces) + " up to " +
                        std::to_string(kernels::kMaxRowElements),
                    std::to_string(header.num_channels));
  }
  ATTNDB_RETURN_IF_ERROR(
      ExpectAtMost(object, "num_pairs", header.num_pairs, header.num_channels / 2));
  ATTNDB_RETURN_IF_ERROR(ExpectBits<uint32_t>(object, "error", error, ~0u, 0, kInfinityBits));
  header.error = std::bit_cast<float>(error[0]);
  return header;
}

// Codes of 4 and 8 bits need no check: all values of a byte are codes.
Status CheckSixBits(std::span<const uint8_t> codes, std::string_view object) {
  uint8_t bits = 0;
  for (const uint8_t code : codes) bits |= code;
  if (bits < 64) return Status::Ok();
  const auto found = std::ranges::find_if(codes, [](uint8_t code) { return code >= 64; });
  return Mismatch(object, "codes[" + std::to_string(found - codes.begin()) + ']', "below 64",
                  std::to_string(*found));
}

}  // namespace

PqLayout::PqLayout(const PqHeader& header) {
  const size_t num_blocks = kernels::NumWeightBlocks(header.num_keys);
  const size_t num_floats = header.num_channels * kernels::CodeEntries(header.bits);
  bounds = centroids + RoundUpToPiece(num_floats * sizeof(float));
  codes = bounds + RoundUpToPiece(num_blocks * sizeof(float));
  total_bytes = codes + num_blocks * kernels::CodeBlockBytes(header.num_subspaces, header.bits);
}

void EncodePqHeader(const PqHeader& header, std::span<std::byte> out) {
  ByteWriter writer;
  writer.Bytes(BytesOf(kPqMagic));
  writer.U32(kPqVersion);
  writer.U32(header.num_channels);
  writer.U64(header.num_keys);
  writer.U32(header.num_subspaces);
  writer.U32(header.bits);
  writer.U32(std::bit_cast<uint32_t>(header.error));
  writer.U32(header.num_pairs);
  writer.PadTo(kPqHeaderBytes);
  ATTNDB_CHECK(out.size() == kPqHeaderBytes);
  std::ranges::copy(writer.bytes(), out.begin());
}

Result<PqHeader> DecodePq(std::span<const std::byte> bytes, const PqShape& expected,
                          std::string_view object) {
  ATTNDB_CHECK(reinterpret_cast<uintptr_t>(bytes.data()) % kPieceAlignment == 0);
  ATTNDB_ASSIGN_OR_RETURN(const PqHeader header, DecodeHeader(bytes, object));
  ATTNDB_RETURN_IF_ERROR(
      ExpectEqual(object, "num_channels", header.num_channels, expected.num_channels));
  ATTNDB_RETURN_IF_ERROR(ExpectEqual(object, "num_keys", header.num_keys, expected.num_keys));
  const PqLayout layout(header);
  ATTNDB_RETURN_IF_ERROR(ExpectEqual(object, "bytes", bytes.size(), layout.total_bytes));
  const size_t num_floats = header.num_channels * kernels::CodeEntries(header.bits);
  ATTNDB_RETURN_IF_ERROR(ExpectBits<uint32_t>(
      object, "centroids", PieceOf<uint32_t>(bytes, layout.centroids, num_floats), 0x7fffffff, 0,
      kInfinityBits));
  const size_t num_bounds = kernels::NumWeightBlocks(header.num_keys);
  ATTNDB_RETURN_IF_ERROR(ExpectBits<uint32_t>(object, "bounds",
                                              PieceOf<uint32_t>(bytes, layout.bounds, num_bounds),
                                              ~0u, 0, kInfinityBits));
  const auto codes = PieceOf<uint8_t>(bytes, layout.codes, bytes.size() - layout.codes);
  if (header.bits == 6) ATTNDB_RETURN_IF_ERROR(CheckSixBits(codes, object));
  return header;
}

}  // namespace attndb::index
