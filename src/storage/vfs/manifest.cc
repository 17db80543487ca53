#include "storage/vfs/manifest.h"

#include <string>
#include <string_view>

#include "common/check.h"
#include "common/coding.h"
#include "storage/vfs/field_check.h"
#include "storage/vfs/format.h"

namespace attndb::storage {
namespace {

// Length of the file, as a field of it, and of everything before the CRCs.
Status CheckLengths(uint64_t object_bytes, uint64_t manifest_bytes, uint64_t found_bytes,
                    std::string_view object) {
  ATTNDB_RETURN_IF_ERROR(ExpectAtMost(object, "object_bytes", object_bytes, kMaxObjectBytes));
  ATTNDB_RETURN_IF_ERROR(
      ExpectEqual(object, "manifest_bytes", manifest_bytes, ManifestBytes(object_bytes)));
  return ExpectEqual(object, "length of the manifest", found_bytes, manifest_bytes);
}

}  // namespace

uint64_t NumGranules(uint64_t object_bytes) {
  return object_bytes / kGranuleBytes + (object_bytes % kGranuleBytes != 0 ? 1 : 0);
}

uint64_t ManifestBytes(uint64_t object_bytes) {
  ATTNDB_CHECK(object_bytes <= kMaxObjectBytes);
  return kManifestHeaderBytes + NumGranules(object_bytes) * sizeof(uint32_t);
}

std::vector<std::byte> EncodeManifest(const Manifest& manifest) {
  ATTNDB_CHECK(manifest.granule_crcs.size() == NumGranules(manifest.object_bytes));
  ByteWriter out;
  out.Bytes(BytesOf(kManifestMagic));
  out.U32(kManifestVersion);
  out.U32(static_cast<uint32_t>(kGranuleBytes));
  out.U64(ManifestBytes(manifest.object_bytes));
  out.U64(manifest.name.segment_id);
  WriteKindName(manifest.name.kind, &out);
  out.U64(manifest.name.generation);
  out.U64(manifest.object_bytes);
  out.PadTo(kManifestHeaderBytes);
  out.Bytes(BytesOf(manifest.granule_crcs));
  return out.Release();
}

Result<Manifest> DecodeManifest(std::span<const std::byte> bytes, const ObjectName& expected) {
  const std::string object = "manifest of " + Describe(expected);
  ByteReader in(bytes, object);
  ATTNDB_RETURN_IF_ERROR(CheckMagicAndVersion(&in, object, kManifestMagic, kManifestVersion));
  const uint32_t granule_bytes = in.U32("granule_bytes");
  const uint64_t manifest_bytes = in.U64("manifest_bytes");
  Manifest manifest;
  manifest.name.segment_id = in.U64("segment_id");
  ATTNDB_ASSIGN_OR_RETURN(manifest.name.kind, ReadKindName(&in, object));
  manifest.name.generation = in.U64("generation");
  manifest.object_bytes = in.U64("object_bytes");
  ATTNDB_RETURN_IF_ERROR(ReadZeros(&in, object, kManifestHeaderBytes));

  ATTNDB_RETURN_IF_ERROR(ExpectEqual(object, "granule_bytes", granule_bytes, kGranuleBytes));
  if (manifest.name != expected) {
    return Status::Corruption(object + ": expected it to name " + Describe(expected) + ", found " +
                              Describe(manifest.name));
  }
  ATTNDB_RETURN_IF_ERROR(CheckLengths(manifest.object_bytes, manifest_bytes, bytes.size(), object));
  manifest.granule_crcs.resize(NumGranules(manifest.object_bytes));
  in.ReadInto(std::as_writable_bytes(std::span(manifest.granule_crcs)), "granule_crcs");
  ATTNDB_RETURN_IF_ERROR(in.Finish());
  return manifest;
}

}  // namespace attndb::storage
