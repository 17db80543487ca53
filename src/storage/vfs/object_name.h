// Names of stored objects and of their files.
//
// An object is (segment id, kind, generation): the segment itself has the kind "segment" and
// generation 0; planes and indexes built from it later are its companions, with kinds of their own.
// Each object is two files:
//   000000000000002a.seg                 000000000000002a.manifest                 a segment
//   000000000000002a.key_planes.3.obj    000000000000002a.key_planes.3.manifest    a companion
// and, while it is written, the same names with ".tmp" behind. Beside a segment that no commit
// names yet, or that will lose its last one, stands an empty file:
//   000000000000002a.loose
//
// Threads: values and pure functions.
#ifndef ATTNDB_STORAGE_VFS_OBJECT_NAME_H_
#define ATTNDB_STORAGE_VFS_OBJECT_NAME_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "attndb/status.h"

namespace attndb::storage {

inline constexpr std::string_view kSegmentKind = "segment";

struct ObjectName {
  uint64_t segment_id = 0;
  std::string kind{kSegmentKind};
  uint64_t generation = 0;

  friend bool operator==(const ObjectName&, const ObjectName&) = default;
  friend auto operator<=>(const ObjectName&, const ObjectName&) = default;
};

enum class ObjectFile : uint8_t { kData, kManifest };

// True for 1 to 16 of [a-z0-9_], the valid names of kinds.
bool IsKindName(std::string_view kind);

// File name inside the store's segment directory. REQUIRES: IsKindName(name.kind), and generation 0
// for a segment.
std::string FileNameOf(const ObjectName& name, ObjectFile file);
std::string TemporaryNameOf(const ObjectName& name, ObjectFile file);

std::string LooseNameOf(uint64_t segment_id);
// The segment with that name; nullopt if the name is not a result of LooseNameOf.
std::optional<uint64_t> ParseLooseName(std::string_view file_name);

struct ParsedFileName {
  ObjectName name;
  ObjectFile file = ObjectFile::kData;
  bool temporary = false;
};

// nullopt if `file_name` is not exactly a result of the two functions above.
std::optional<ParsedFileName> ParseFileName(std::string_view file_name);

// "segment 000000000000002a", "key_planes.3 of segment 000000000000002a": for messages.
std::string Describe(const ObjectName& name);

}  // namespace attndb::storage

#endif  // ATTNDB_STORAGE_VFS_OBJECT_NAME_H_
