#include "storage/kv/companion_header.h"

#include "common/coding.h"
#include "common/hex.h"
#include "storage/vfs/field_check.h"
#include "storage/vfs/format.h"

namespace attndb::storage {

std::vector<std::byte> EncodeCompanionHeader(const CompanionHeader& header) {
  const CompanionIdentity& identity = header.identity;
  ByteWriter out;
  out.Bytes(BytesOf(kCompanionMagic));
  out.U32(header.version);
  out.U32(static_cast<uint32_t>(kCompanionHeaderBytes));
  out.Bytes(identity.store_uuid);
  out.U64(identity.name.segment_id);
  WriteKindName(identity.name.kind, &out);
  out.U64(identity.name.generation);
  out.Bytes(identity.segment_root_hash);
  out.U64(identity.num_tokens);
  out.U64(header.object_bytes);
  out.U64(header.num_sections);
  out.PadTo(kCompanionHeaderBytes);
  return out.Release();
}

Result<CompanionHeader> DecodeCompanionHeader(std::span<const std::byte> page,
                                              std::string_view object) {
  ByteReader in(page, object);
  CompanionHeader header;
  ATTNDB_ASSIGN_OR_RETURN(header.version, ReadMagicAndVersion(&in, object, kCompanionMagic,
                                                              {kPackedVersion, kCompanionVersion}));
  const uint32_t header_bytes = in.U32("header_bytes");
  CompanionIdentity& identity = header.identity;
  in.ReadInto(identity.store_uuid, "store_uuid");
  identity.name.segment_id = in.U64("segment_id");
  ATTNDB_ASSIGN_OR_RETURN(identity.name.kind, ReadKindName(&in, object));
  identity.name.generation = in.U64("generation");
  in.ReadInto(identity.segment_root_hash, "segment_root_hash");
  identity.num_tokens = in.U64("num_tokens");
  header.object_bytes = in.U64("object_bytes");
  header.num_sections = in.U64("num_sections");
  ATTNDB_RETURN_IF_ERROR(ReadZeros(&in, object, kCompanionHeaderBytes));

  ATTNDB_RETURN_IF_ERROR(ExpectEqual(object, "header_bytes", header_bytes, kCompanionHeaderBytes));
  ATTNDB_RETURN_IF_ERROR(ExpectAtMost(object, "num_sections", header.num_sections, kMaxSections));
  return header;
}

Status CheckIdentity(const CompanionIdentity& found, const CompanionIdentity& expected,
                     std::string_view object) {
  if (found.store_uuid != expected.store_uuid) {
    return Mismatch(object, "store_uuid", HexEncode(expected.store_uuid),
                    HexEncode(found.store_uuid));
  }
  if (found.name != expected.name) {
    return Mismatch(object, "name", Describe(expected.name), Describe(found.name));
  }
  if (found.segment_root_hash != expected.segment_root_hash) {
    return Mismatch(object, "segment_root_hash", HexEncode(expected.segment_root_hash),
                    HexEncode(found.segment_root_hash));
  }
  return ExpectEqual(object, "num_tokens", found.num_tokens, expected.num_tokens);
}

}  // namespace attndb::storage
