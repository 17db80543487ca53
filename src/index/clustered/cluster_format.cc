#include "index/clustered/cluster_format.h"

#include <algorithm>
#include <bitset>
#include <string>

#include "common/check.h"
#include "common/coding.h"
#include "index/clustered/key_order.h"
#include "kernels/weights.h"
#include "storage/vfs/field_check.h"

namespace attndb::index {
namespace {

using storage::ExpectEqual;
using storage::Mismatch;

Status CheckHeader(std::span<const std::byte> order, uint64_t num_keys, std::string_view object) {
  ByteReader in(order, object);
  ATTNDB_RETURN_IF_ERROR(
      storage::CheckMagicAndVersion(&in, object, kClustersMagic, kClustersVersion));
  const uint32_t piece_keys = in.U32("piece_keys");
  const uint64_t found_keys = in.U64("num_keys");
  ATTNDB_RETURN_IF_ERROR(storage::ReadZeros(&in, object, kClustersHeaderBytes));
  ATTNDB_RETURN_IF_ERROR(ExpectEqual(object, "piece_keys", piece_keys, kPieceKeys));
  return ExpectEqual(object, "num_keys", found_keys, num_keys);
}

// `first`: of the piece, to name a place.
Status CheckPiece(std::span<const uint16_t> numbers, size_t first, std::string_view object) {
  std::bitset<kPieceKeys> named;
  for (size_t i = 0; i < numbers.size(); ++i) {
    const uint16_t number = numbers[i];
    if (number < numbers.size() && !named[number]) {
      named.set(number);
      continue;
    }
    return Mismatch(object, "number[" + std::to_string(first + i) + ']',
                    "one below " + std::to_string(numbers.size()) + " that is not there yet",
                    std::to_string(number));
  }
  return Status::Ok();
}

}  // namespace

OrderLayout::OrderLayout(uint64_t num_keys) {
  reaches = numbers + RoundUpToPiece(num_keys * sizeof(uint16_t));
  total_bytes = reaches + RoundUpToPiece(kernels::NumWeightBlocks(num_keys) * sizeof(float));
}

void EncodeOrderHeader(uint64_t num_keys, std::span<std::byte> out) {
  ByteWriter writer;
  writer.Bytes(BytesOf(kClustersMagic));
  writer.U32(kClustersVersion);
  writer.U32(uint32_t{kPieceKeys});
  writer.U64(num_keys);
  writer.PadTo(kClustersHeaderBytes);
  ATTNDB_CHECK(out.size() == kClustersHeaderBytes);
  std::ranges::copy(writer.bytes(), out.begin());
}

Status CheckOrder(std::span<const std::byte> order, uint64_t num_keys, std::string_view object) {
  ATTNDB_CHECK(reinterpret_cast<uintptr_t>(order.data()) % kPieceAlignment == 0);
  ATTNDB_RETURN_IF_ERROR(CheckHeader(order, num_keys, object));
  const OrderLayout layout(num_keys);
  ATTNDB_RETURN_IF_ERROR(ExpectEqual(object, "order bytes", order.size(), layout.total_bytes));
  const auto numbers = PieceOf<uint16_t>(order, layout.numbers, num_keys);
  for (size_t first = 0; first < num_keys; first += kPieceKeys) {
    const size_t count = std::min<size_t>(kPieceKeys, num_keys - first);
    ATTNDB_RETURN_IF_ERROR(CheckPiece(numbers.subspan(first, count), first, object));
  }
  const auto reaches = PieceOf<uint32_t>(order, layout.reaches, kernels::NumWeightBlocks(num_keys));
  return ExpectBits(object, "reaches", reaches, ~0u, 0u, kInfinityBits);
}

}  // namespace attndb::index
