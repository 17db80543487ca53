#include "index/coarse/block_format.h"

#include <algorithm>

#include "common/check.h"
#include "common/coding.h"
#include "storage/vfs/field_check.h"

namespace attndb::index {
namespace {

using storage::ExpectEqual;

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
  return ExpectFinite(object, "rows", bytes.subspan(kBlocksHeaderBytes), shape.row_dtype());
}

}  // namespace attndb::index
