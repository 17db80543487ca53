#include "storage/vfs/section_table.h"

#include "common/check.h"
#include "common/checked_math.h"
#include "common/coding.h"
#include "storage/vfs/field_check.h"
#include "storage/vfs/format.h"

namespace attndb::storage {
namespace {

void EncodeEntry(const SectionEntry& section, ByteWriter* out) {
  const size_t end = out->size() + kSectionEntryBytes;
  WriteKindName(section.kind, out);
  out->U32(section.layer);
  out->U32(section.head);
  out->U32(section.flags);
  out->U32(0);
  out->U64(section.offset);
  out->U64(section.length);
  out->U64(section.num_rows);
  out->PadTo(end);
}

Result<SectionEntry> DecodeEntry(ByteReader* in, std::string_view object) {
  const uint64_t end = in->position() + kSectionEntryBytes;
  SectionEntry section;
  ATTNDB_ASSIGN_OR_RETURN(section.kind, ReadKindName(in, object));
  section.layer = in->U32("layer");
  section.head = in->U32("head");
  section.flags = in->U32("flags");
  ATTNDB_RETURN_IF_ERROR(ReadZeros(in, object, in->position() + sizeof(uint32_t)));
  section.offset = in->U64("offset");
  section.length = in->U64("length");
  section.num_rows = in->U64("num_rows");
  ATTNDB_RETURN_IF_ERROR(ReadZeros(in, object, end));
  if ((section.flags & ~kKnownSectionFlags) != 0) {
    return Mismatch(object, "flags of " + Describe(section), "a combination of 1 and 2",
                    std::to_string(section.flags));
  }
  return section;
}

// The section must start at the end of the one before it, rounded up, and end in the object.
Status CheckPlace(const SectionEntry& section, const SectionEntry* previous,
                  const SectionBounds& bounds, std::string_view object) {
  const uint64_t alignment = bounds.packed ? kSectionAlignment : AlignmentOf(section, previous);
  const CheckedSize begin =
      CheckedRoundUp(previous == nullptr ? bounds.begin : previous->end(), alignment);
  if (!begin || section.offset != *begin) {
    return Mismatch(object, "offset of " + Describe(section),
                    begin ? std::to_string(*begin) : "a 64-bit number",
                    std::to_string(section.offset));
  }
  const CheckedSize end = CheckedAdd(section.offset, section.length);
  if (!end || *end > bounds.end) {
    return Mismatch(object, "length of " + Describe(section),
                    "an end up to " + std::to_string(bounds.end),
                    std::to_string(section.length) + " from " + std::to_string(section.offset));
  }
  return Status::Ok();
}

}  // namespace

uint64_t AlignmentOf(const SectionEntry& section, const SectionEntry* previous) {
  const bool starts_layer = previous == nullptr || previous->layer != section.layer;
  const uint64_t least = starts_layer ? kGranuleBytes : kLargeSectionBytes;
  return section.length >= least ? kGranuleBytes : kSectionAlignment;
}

uint64_t SectionTableBytes(uint64_t num_sections) {
  ATTNDB_CHECK(num_sections <= kMaxSections);
  return RoundUp(num_sections * kSectionEntryBytes, kGranuleBytes);
}

std::vector<std::byte> EncodeSectionTable(std::span<const SectionEntry> sections) {
  ByteWriter out;
  for (const SectionEntry& section : sections) EncodeEntry(section, &out);
  out.PadTo(SectionTableBytes(sections.size()));
  return out.Release();
}

Result<std::vector<SectionEntry>> DecodeSectionTable(std::span<const std::byte> table,
                                                     uint64_t num_sections,
                                                     const SectionBounds& bounds,
                                                     std::string_view object) {
  ATTNDB_CHECK(num_sections <= table.size() / kSectionEntryBytes);
  ByteReader in(table, object);
  std::vector<SectionEntry> sections;
  sections.reserve(num_sections);
  for (uint64_t i = 0; i < num_sections; ++i) {
    ATTNDB_ASSIGN_OR_RETURN(SectionEntry section, DecodeEntry(&in, object));
    const SectionEntry* const previous = sections.empty() ? nullptr : &sections.back();
    ATTNDB_RETURN_IF_ERROR(CheckPlace(section, previous, bounds, object));
    sections.push_back(std::move(section));
  }
  const uint64_t end = sections.empty() ? bounds.begin : sections.back().end();
  ATTNDB_RETURN_IF_ERROR(ExpectEqual(object, "end of the last section", end, bounds.end));
  ATTNDB_RETURN_IF_ERROR(ReadZeros(&in, object, table.size()));
  return sections;
}

std::string Describe(const SectionEntry& section) {
  std::string text = section.kind;
  if (section.layer != kNoLayer) text += " of layer " + std::to_string(section.layer);
  if (section.head != kNoHead) text += ", head " + std::to_string(section.head);
  return text;
}

}  // namespace attndb::storage
