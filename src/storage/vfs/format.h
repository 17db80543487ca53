// Every number of the on-disk form of storage objects; docs/formats/segment.md is the grammar.
//
// Threads: constants.
#ifndef ATTNDB_STORAGE_VFS_FORMAT_H_
#define ATTNDB_STORAGE_VFS_FORMAT_H_

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace attndb::storage {

// Unit of checksums. A partial read verifies the whole granules around it.
inline constexpr uint64_t kGranuleBytes = 4096;

// Sections start at multiples of this, in the file and so in memory.
inline constexpr uint64_t kSectionAlignment = 64;

// A section of at least this many bytes starts at a multiple of kGranuleBytes, and so does the
// first section of a layer if it fills a granule. Smaller sections are packed behind it: one
// granule each would make the segment of a short turn larger by a quarter
// (docs/formats/segment.md).
inline constexpr uint64_t kLargeSectionBytes = uint64_t{128} << 10;

// Names of object kinds and of section kinds: lower-case letters, digits and '_', NUL padded.
inline constexpr size_t kKindNameBytes = 16;

inline constexpr std::string_view kManifestMagic = "attnmfst";
inline constexpr uint32_t kManifestVersion = 1;
inline constexpr uint64_t kManifestHeaderBytes = 96;

inline constexpr std::string_view kSegmentMagic = "attnsegm";
inline constexpr uint32_t kSegmentVersion = 2;
inline constexpr uint64_t kSegmentHeaderBytes = kGranuleBytes;
// Offset of the first LayerShape in the header.
inline constexpr uint64_t kSegmentShapeOffset = 256;

inline constexpr std::string_view kCompanionMagic = "attncomp";
inline constexpr uint32_t kCompanionVersion = 2;
inline constexpr uint64_t kCompanionHeaderBytes = kGranuleBytes;

inline constexpr uint64_t kSectionEntryBytes = 64;

// The former version of segments and companions, which is still read: all sections are packed.
inline constexpr uint32_t kPackedVersion = 1;

// Hard caps: the largest values that a parser accepts, far beyond those that are written. 1 TiB,
// whose manifest takes 1 GiB.
inline constexpr uint64_t kMaxObjectBytes = uint64_t{1} << 40;
inline constexpr uint32_t kMaxLayers = 256;
inline constexpr uint32_t kMaxKvHeads = 1024;
inline constexpr uint32_t kMaxHeadDim = 1024;
inline constexpr uint64_t kMaxSegmentTokens = uint64_t{1} << 31;
inline constexpr uint64_t kMaxSections = uint64_t{1} << 21;

}  // namespace attndb::storage

#endif  // ATTNDB_STORAGE_VFS_FORMAT_H_
