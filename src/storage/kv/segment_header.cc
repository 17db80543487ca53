#include "storage/kv/segment_header.h"

#include <string>

#include "common/check.h"
#include "common/coding.h"
#include "common/hex.h"
#include "storage/kv/kv_layout.h"
#include "storage/vfs/field_check.h"
#include "storage/vfs/format.h"

namespace attndb::storage {
namespace {

void EncodeShape(const KvShape& shape, ByteWriter* out) {
  for (const LayerShape& layer : shape.layers) {
    out->U32(layer.num_kv_heads);
    out->U32(layer.head_dim);
    out->U32(layer.v_head_dim);
  }
}

Result<KvShape> DecodeShape(uint32_t dtype, uint32_t num_layers, ByteReader* in,
                            std::string_view object) {
  ATTNDB_RETURN_IF_ERROR(ExpectAtMost(object, "dtype", dtype, UINT8_MAX));
  ATTNDB_RETURN_IF_ERROR(ExpectAtMost(object, "num_layers", num_layers, kMaxLayers));
  KvShape shape{.dtype = static_cast<DType>(dtype), .layers = {}};
  for (uint32_t i = 0; i < num_layers; ++i) {
    LayerShape layer;
    layer.num_kv_heads = in->U32("num_kv_heads");
    layer.head_dim = in->U32("head_dim");
    layer.v_head_dim = in->U32("v_head_dim");
    shape.layers.push_back(layer);
  }
  ATTNDB_RETURN_IF_ERROR(in->status());
  const Status valid = ValidateShape(shape);
  if (!valid.ok()) return Status::Corruption(std::string(object) + ": " + valid.message());
  return shape;
}

std::string ShapeText(const KvShape& shape) {
  std::string text(DTypeName(shape.dtype));
  for (const LayerShape& layer : shape.layers) {
    text += ' ' + std::to_string(layer.num_kv_heads) + 'x' + std::to_string(layer.head_dim) + '/' +
            std::to_string(layer.v_head_dim);
  }
  return text;
}

}  // namespace

std::vector<std::byte> EncodeSegmentHeader(const SegmentHeader& header) {
  static_assert(kSegmentShapeOffset + kMaxLayers * 3 * sizeof(uint32_t) <= kSegmentHeaderBytes);
  const SegmentIdentity& identity = header.identity;
  ATTNDB_CHECK(ValidateShape(identity.shape).ok());
  ByteWriter out;
  out.Bytes(BytesOf(kSegmentMagic));
  out.U32(header.version);
  out.U32(static_cast<uint32_t>(kSegmentHeaderBytes));
  out.Bytes(identity.store_uuid);
  out.U64(identity.segment_id);
  out.Bytes(identity.model_identity);
  out.I64(identity.first_position);
  out.U64(identity.num_tokens);
  out.U64(header.object_bytes);
  out.U64(kSegmentHeaderBytes);  // The section table lies right behind the header.
  out.U64(header.num_sections);
  out.U32(static_cast<uint32_t>(identity.shape.dtype));
  out.U32(static_cast<uint32_t>(identity.shape.layers.size()));
  out.PadTo(kSegmentShapeOffset);
  EncodeShape(identity.shape, &out);
  out.PadTo(kSegmentHeaderBytes);
  return out.Release();
}

Result<SegmentHeader> DecodeSegmentHeader(std::span<const std::byte> page,
                                          std::string_view object) {
  ByteReader in(page, object);
  SegmentHeader header;
  ATTNDB_ASSIGN_OR_RETURN(header.version, ReadMagicAndVersion(&in, object, kSegmentMagic,
                                                              {kPackedVersion, kSegmentVersion}));
  const uint32_t header_bytes = in.U32("header_bytes");
  SegmentIdentity& identity = header.identity;
  in.ReadInto(identity.store_uuid, "store_uuid");
  identity.segment_id = in.U64("segment_id");
  in.ReadInto(identity.model_identity, "model_identity");
  identity.first_position = in.I64("first_position");
  identity.num_tokens = in.U64("num_tokens");
  header.object_bytes = in.U64("object_bytes");
  const uint64_t table_offset = in.U64("table_offset");
  header.num_sections = in.U64("num_sections");
  const uint32_t dtype = in.U32("dtype");
  const uint32_t num_layers = in.U32("num_layers");
  ATTNDB_RETURN_IF_ERROR(ReadZeros(&in, object, kSegmentShapeOffset));
  ATTNDB_ASSIGN_OR_RETURN(identity.shape, DecodeShape(dtype, num_layers, &in, object));
  ATTNDB_RETURN_IF_ERROR(ReadZeros(&in, object, kSegmentHeaderBytes));

  ATTNDB_RETURN_IF_ERROR(ExpectEqual(object, "header_bytes", header_bytes, kSegmentHeaderBytes));
  ATTNDB_RETURN_IF_ERROR(ExpectEqual(object, "table_offset", table_offset, kSegmentHeaderBytes));
  ATTNDB_RETURN_IF_ERROR(ExpectAtMost(object, "num_sections", header.num_sections, kMaxSections));
  ATTNDB_RETURN_IF_ERROR(
      ExpectAtMost(object, "num_tokens", identity.num_tokens, kMaxSegmentTokens));
  return header;
}

Status CheckIdentity(const SegmentIdentity& found, const SegmentIdentity& expected,
                     std::string_view object) {
  if (found.store_uuid != expected.store_uuid) {
    return Mismatch(object, "store_uuid", HexEncode(expected.store_uuid),
                    HexEncode(found.store_uuid));
  }
  if (found.segment_id != expected.segment_id) {
    return Mismatch(object, "segment_id", HexU64(expected.segment_id), HexU64(found.segment_id));
  }
  if (found.model_identity != expected.model_identity) {
    return Mismatch(object, "model_identity", HexEncode(expected.model_identity),
                    HexEncode(found.model_identity));
  }
  if (found.first_position != expected.first_position) {
    return Mismatch(object, "first_position", std::to_string(expected.first_position),
                    std::to_string(found.first_position));
  }
  ATTNDB_RETURN_IF_ERROR(ExpectEqual(object, "num_tokens", found.num_tokens, expected.num_tokens));
  if (found.shape != expected.shape) {
    return Mismatch(object, "shape", ShapeText(expected.shape), ShapeText(found.shape));
  }
  return Status::Ok();
}

}  // namespace attndb::storage
