// The table that says where each section of an object lies.
//
// Sections are listed in the order in which they lie, each at the next multiple of its alignment
// after the one before, the first at the given start and the last ending where the object ends: no
// overlap, no gap but alignment, nothing unlisted.
//
// Units:   bytes; offsets count from the start of the object.
// Errors:  kCorruption naming object, section, expected and found.
// Threads: values and pure functions.
#ifndef ATTNDB_STORAGE_VFS_SECTION_TABLE_H_
#define ATTNDB_STORAGE_VFS_SECTION_TABLE_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "attndb/result.h"

namespace attndb::storage {

// A section that belongs to no layer or head.
inline constexpr uint32_t kNoLayer = UINT32_MAX;
inline constexpr uint32_t kNoHead = UINT32_MAX;

// A reader that does not know the section's kind may skip it; else it must refuse the object.
inline constexpr uint32_t kSectionOptional = 1;
// Its numbers include NaN or inf.
inline constexpr uint32_t kSectionNonFinite = 2;
inline constexpr uint32_t kKnownSectionFlags = kSectionOptional | kSectionNonFinite;

struct SectionEntry {
  std::string kind;  // REQUIRES: IsKindName(kind).
  uint32_t layer = kNoLayer;
  uint32_t head = kNoHead;
  uint32_t flags = 0;
  uint64_t offset = 0;
  uint64_t length = 0;
  uint64_t num_rows = 0;

  uint64_t end() const { return offset + length; }
  friend bool operator==(const SectionEntry&, const SectionEntry&) = default;
};

// The multiple at which `section`, whose layer and length are set, starts behind `previous` (null:
// it is the first). That is a granule if the section is large, or if it is the first of its layer
// and fills a granule; else 64 bytes.
uint64_t AlignmentOf(const SectionEntry& section, const SectionEntry* previous);

// Bytes of a table, padded to whole granules.
uint64_t SectionTableBytes(uint64_t num_sections);

std::vector<std::byte> EncodeSectionTable(std::span<const SectionEntry> sections);

// The bytes of an object in which its sections must lie.
struct SectionBounds {
  uint64_t begin = 0;   // Offset of the first section; a multiple of kGranuleBytes.
  uint64_t end = 0;     // Length of the object.
  bool packed = false;  // All sections are aligned to 64 bytes, as in kPackedVersion.
};

// REQUIRES: table.size() >= num_sections * kSectionEntryBytes. `object` names the file in errors.
Result<std::vector<SectionEntry>> DecodeSectionTable(std::span<const std::byte> table,
                                                     uint64_t num_sections,
                                                     const SectionBounds& bounds,
                                                     std::string_view object);

// "keys of layer 3, head 0": for messages.
std::string Describe(const SectionEntry& section);

}  // namespace attndb::storage

#endif  // ATTNDB_STORAGE_VFS_SECTION_TABLE_H_
