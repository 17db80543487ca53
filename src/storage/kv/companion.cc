#include "storage/kv/companion.h"

#include <utility>

#include "common/check.h"
#include "storage/vfs/field_check.h"
#include "storage/vfs/format.h"

namespace attndb::storage {
namespace {

// The section is the one that stands at this place in every companion of the kind.
Status CheckSection(const SectionEntry& found, const SectionEntry& expected,
                    std::string_view object) {
  if (found.kind == expected.kind && found.layer == expected.layer && found.head == expected.head &&
      found.flags == 0) {
    return Status::Ok();
  }
  return Mismatch(object, "section", Describe(expected), Describe(found));
}

Result<std::vector<SectionEntry>> ReadSections(const ObjectReader& object,
                                               const CompanionExpectation& expected) {
  const std::string& name = object.description();
  const uint64_t length = object.length();
  if (length < kCompanionHeaderBytes) {
    return Mismatch(name, "length", "at least " + std::to_string(kCompanionHeaderBytes),
                    std::to_string(length));
  }
  ATTNDB_ASSIGN_OR_RETURN(const ObjectRange page, object.Read(0, kCompanionHeaderBytes));
  ATTNDB_ASSIGN_OR_RETURN(const CompanionHeader header, DecodeCompanionHeader(page.bytes, name));
  ATTNDB_RETURN_IF_ERROR(CheckIdentity(header.identity, expected.identity, name));
  ATTNDB_RETURN_IF_ERROR(ExpectEqual(name, "object_bytes", header.object_bytes, length));
  const std::vector<SectionEntry> wanted = SectionsOf(expected.shape);
  ATTNDB_RETURN_IF_ERROR(ExpectEqual(name, "num_sections", header.num_sections, wanted.size()));
  const uint64_t table_bytes = SectionTableBytes(header.num_sections);
  ATTNDB_RETURN_IF_ERROR(ExpectAtMost(name, "bytes of the section table", table_bytes,
                                      length - kCompanionHeaderBytes));
  ATTNDB_ASSIGN_OR_RETURN(const ObjectRange table, object.Read(kCompanionHeaderBytes, table_bytes));
  const SectionBounds bounds{.begin = kCompanionHeaderBytes + table_bytes,
                             .end = length,
                             .packed = header.version == kPackedVersion};
  ATTNDB_ASSIGN_OR_RETURN(std::vector<SectionEntry> sections,
                          DecodeSectionTable(table.bytes, header.num_sections, bounds, name));
  for (size_t i = 0; i < sections.size(); ++i) {
    ATTNDB_RETURN_IF_ERROR(CheckSection(sections[i], wanted[i], name));
  }
  return sections;
}

}  // namespace

Companion::Companion(Key, const CompanionExpectation& expected,
                     std::unique_ptr<const ObjectReader> object, std::vector<SectionEntry> sections)
    : name_(expected.identity.name),
      shape_(expected.shape),
      object_(std::move(object)),
      sections_(std::move(sections)) {
  size_t num_heads = 0;
  for (const LayerShape& layer : shape_.segment.layers) {
    first_heads_.push_back(num_heads);
    num_heads += layer.num_kv_heads;
  }
}

Result<std::shared_ptr<const Companion>> Companion::Open(FileSystem* file_system,
                                                         const std::string& dir,
                                                         const CompanionExpectation& expected) {
  ATTNDB_ASSIGN_OR_RETURN(
      std::unique_ptr<const ObjectReader> object,
      ObjectReader::Open(file_system, dir, expected.identity.name, expected.root_hash));
  ATTNDB_ASSIGN_OR_RETURN(std::vector<SectionEntry> sections, ReadSections(*object, expected));
  return std::make_shared<const Companion>(Key(), expected, std::move(object), std::move(sections));
}

const SectionEntry& Companion::At(const PartPlace& place) const {
  ATTNDB_CHECK(place.layer < shape_.segment.layers.size() &&
               place.kv_head < shape_.segment.layers[place.layer].num_kv_heads &&
               place.part < shape_.parts.size());
  const size_t head = first_heads_[place.layer] + place.kv_head;
  return sections_[head * shape_.parts.size() + place.part];
}

uint64_t Companion::PartBytes(const PartPlace& place) const {
  const SectionEntry& section = At(place);
  return section.length == 0 ? 0 : object_->ReadBufferBytes(section.offset, section.length);
}

Result<ObjectRange> Companion::ReadPart(const PartPlace& place) const {
  const SectionEntry& section = At(place);
  Result<ObjectRange> data = object_->Read(section.offset, section.length);
  if (!data.ok()) return data.status().WithContext(Describe(section));
  return data;
}

}  // namespace attndb::storage
