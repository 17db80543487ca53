#include "storage/vfs/field_check.h"

#include <algorithm>

#include "common/check.h"
#include "common/hex.h"
#include "storage/vfs/format.h"
#include "storage/vfs/object_name.h"

namespace attndb::storage {

Status Mismatch(std::string_view object, std::string_view field, std::string_view expected,
                std::string_view found) {
  std::string message(object);
  message.append(": ").append(field).append(": expected ").append(expected);
  message.append(", found ").append(found);
  return Status::Corruption(std::move(message));
}

Status ExpectEqual(std::string_view object, std::string_view field, uint64_t found,
                   uint64_t expected) {
  if (found == expected) return Status::Ok();
  return Mismatch(object, field, std::to_string(expected), std::to_string(found));
}

Status ExpectAtMost(std::string_view object, std::string_view field, uint64_t found,
                    uint64_t limit) {
  if (found <= limit) return Status::Ok();
  return Mismatch(object, field, "at most " + std::to_string(limit), std::to_string(found));
}

Status CheckMagicAndVersion(ByteReader* in, std::string_view object, std::string_view magic,
                            uint32_t version) {
  return ReadMagicAndVersion(in, object, magic, {version, version}).status();
}

Result<uint32_t> ReadMagicAndVersion(ByteReader* in, std::string_view object,
                                     std::string_view magic, const VersionRange& versions) {
  const std::span<const std::byte> found = in->Bytes(magic.size(), "magic");
  const uint32_t version = in->U32("version");
  ATTNDB_RETURN_IF_ERROR(in->status());
  if (!std::ranges::equal(found, BytesOf(magic))) {
    return Mismatch(object, "magic", HexEncode(BytesOf(magic)), HexEncode(found));
  }
  const auto [oldest, newest] = versions;
  if (version < oldest || version > newest) {
    const std::string from = oldest < newest ? std::to_string(oldest) + " to " : "";
    return Status::Unsupported(std::string(object) + ": version: expected " + from +
                               std::to_string(newest) + ", found " + std::to_string(version));
  }
  return version;
}

void WriteKindName(std::string_view kind, ByteWriter* out) {
  ATTNDB_CHECK(IsKindName(kind));
  const size_t end = out->size() + kKindNameBytes;
  out->Bytes(BytesOf(kind));
  out->PadTo(end);
}

Result<std::string> ReadKindName(ByteReader* in, std::string_view object) {
  const std::span<const std::byte> bytes = in->Bytes(kKindNameBytes, "kind");
  ATTNDB_RETURN_IF_ERROR(in->status());
  const std::string text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  const size_t length = std::min(text.find('\0'), text.size());
  const bool padded = text.find_first_not_of('\0', length) == std::string::npos;
  std::string kind = text.substr(0, length);
  if (!padded || !IsKindName(kind)) {
    return Mismatch(object, "kind", "a name of [a-z0-9_], NUL padded", HexEncode(bytes));
  }
  return kind;
}

Status ReadZeros(ByteReader* in, std::string_view object, uint64_t end) {
  ATTNDB_CHECK(in->position() <= end || !in->status().ok());
  if (!in->status().ok()) return in->status();
  const size_t begin = in->position();
  const std::span<const std::byte> bytes = in->Bytes(end - begin, "reserved bytes");
  ATTNDB_RETURN_IF_ERROR(in->status());
  const auto found = std::ranges::find_if(bytes, [](std::byte b) { return b != std::byte{0}; });
  if (found == bytes.end()) return Status::Ok();
  const auto offset = begin + static_cast<size_t>(found - bytes.begin());
  return Mismatch(object, "reserved byte at offset " + std::to_string(offset), "0",
                  std::to_string(std::to_integer<int>(*found)));
}

}  // namespace attndb::storage
