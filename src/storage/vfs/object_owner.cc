#include "storage/vfs/object_owner.h"

#include <algorithm>
#include <memory>
#include <span>
#include <string_view>

#include "storage/vfs/format.h"

namespace attndb::storage {

Result<std::optional<std::array<std::byte, 16>>> OwnerOf(FileSystem* file_system,
                                                         const std::string& path) {
  // Both headers begin alike: magic, version, header_bytes, uuid.
  constexpr size_t kUuidOffset = 16;
  std::array<std::byte, kUuidOffset + 16> begin{};
  ATTNDB_ASSIGN_OR_RETURN(const std::unique_ptr<RandomAccessFile> file,
                          file_system->OpenForRead(path));
  ATTNDB_ASSIGN_OR_RETURN(const uint64_t num_bytes, file->Size());
  if (num_bytes < begin.size()) return std::optional<std::array<std::byte, 16>>();
  ATTNDB_RETURN_IF_ERROR(file->ReadAt(0, begin));
  const auto has_magic = [&](std::string_view magic) {
    return std::ranges::equal(std::span(begin).first(magic.size()),
                              std::as_bytes(std::span(magic)));
  };
  if (!has_magic(kSegmentMagic) && !has_magic(kCompanionMagic)) {
    return std::optional<std::array<std::byte, 16>>();
  }
  std::array<std::byte, 16> uuid{};
  std::ranges::copy(std::span(begin).subspan(kUuidOffset), uuid.begin());
  return std::optional(uuid);
}

}  // namespace attndb::storage
