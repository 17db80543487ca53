#include "index/coarse/block_format.h"

#include <algorithm>

#include "common/check.h"
#include "common/coding.h"
#include "storage/vfs/field_check.h"

namespace attndb::index {
namespace {

using storage::ExpectEqual;

constexpr uint16_t kFloat16Infinity = 0x7c00;

Status CheckHeader(std::span<const std::byte> bytes, const BlockShape& shape,
                   std::string_view object) {
  ByteReader in(bytes, object);
  ATTNDB_RETURN_IF_ERROR(storage::CheckMagicAndVersion(&in, object, kBlocksMagic, kBlocksVersion));
  const uint32_t num_channels = in.U32("num_channels");
  const uint64_t num_keys = in.U64("num_keys");
  const uint32_t summary = in.U32("summary");
  const uint32_t block_keys = in.U32("block_keys");
  const uint32_t num_representatives = in.U32("num_representatives");
  const uint32_t key_dtype = in.U32("key_dtype");
  ATTNDB_RETURN_IF_ERROR(storage::ReadZeros(&in, object, kBlocksHeaderBytes));

  ATTNDB_RETURN_IF_ERROR(ExpectEqual(object, "num_channels", num_channels, shape.num_channels));
  ATTNDB_RETURN_IF_ERROR(ExpectEqual(object, "num_keys", num_keys, shape.num_keys));
  ATTNDB_RETURN_IF_ERROR(
      ExpectEqual(object, "summary", summary, static_cast<uint32_t>(shape.form.summary)));
  ATTNDB_RETURN_IF_ERROR(ExpectEqual(object, "block_keys", block_keys, shape.form.block_keys));
  ATTNDB_RETURN_IF_ERROR(ExpectEqual(object, "num_representatives", num_representatives,
                                     shape.form.num_representatives));
  return ExpectEqual(object, "key_dtype", key_dtype, static_cast<uint32_t>(shape.key_dtype));
}

template <typename T>
Status CheckFinite(std::span<const std::byte> bytes, T sign_mask, T infinity,
                   std::string_view object) {
  const size_t count = (bytes.size() - kBlocksHeaderBytes) / sizeof(T);
  return ExpectBits<T>(object, "rows", PieceOf<T>(bytes, kBlocksHeaderBytes, count), sign_mask, 0,
                       infinity);
}

}  // namespace

void EncodeBlocksHeader(const BlockShape& shape, std::span<std::byte> out) {
  ByteWriter writer;
  writer.Bytes(BytesOf(kBlocksMagic));
  writer.U32(kBlocksVersion);
  writer.U32(static_cast<uint32_t>(shape.num_channels));
  writer.U64(shape.num_keys);
  writer.U32(static_cast<uint32_t>(shape.form.summary));
  writer.U32(shape.form.block_keys);
  writer.U32(shape.form.num_representatives);
  writer.U32(static_cast<uint32_t>(shape.key_dtype));
  writer.PadTo(kBlocksHeaderBytes);
  ATTNDB_CHECK(out.size() == kBlocksHeaderBytes);
  std::ranges::copy(writer.bytes(), out.begin());
}

Status CheckBlocks(std::span<const std::byte> bytes, const BlockShape& shape,
                   std::string_view object) {
  ATTNDB_CHECK(reinterpret_cast<uintptr_t>(bytes.data()) % kPieceAlignment == 0);
  ATTNDB_RETURN_IF_ERROR(CheckHeader(bytes, shape, object));
  ATTNDB_RETURN_IF_ERROR(ExpectEqual(object, "bytes", bytes.size(), shape.total_bytes()));
  switch (shape.row_dtype()) {
    case DType::kFloat32:
      return CheckFinite<uint32_t>(bytes, 0x7fffffff, kInfinityBits, object);
    case DType::kFloat16:
      return CheckFinite<uint16_t>(bytes, 0x7fff, kFloat16Infinity, object);
    case DType::kBFloat16:
      return CheckFinite<uint16_t>(bytes, 0x7fff, kBFloat16Infinity, object);
  }
  return Status::Internal("no such element type");
}

}  // namespace attndb::index
