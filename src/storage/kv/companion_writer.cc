#include "storage/kv/companion_writer.h"

#include <utility>

#include "common/check.h"
#include "storage/vfs/format.h"

namespace attndb::storage {

std::vector<SectionEntry> SectionsOf(const CompanionShape& shape) {
  std::vector<SectionEntry> sections;
  for (uint32_t layer = 0; layer < shape.segment.layers.size(); ++layer) {
    for (uint32_t head = 0; head < shape.segment.layers[layer].num_kv_heads; ++head) {
      for (const std::string& part : shape.parts) {
        sections.push_back({.kind = part, .layer = layer, .head = head});
      }
    }
  }
  return sections;
}

CompanionWriter::CompanionWriter(Key, const CompanionWriteOptions& options,
                                 std::vector<SectionEntry> sections,
                                 std::unique_ptr<ObjectWriter> object)
    : identity_(options.identity),
      cancel_(options.cancel),
      sections_(std::move(sections)),
      object_(std::move(object)) {}

Result<std::unique_ptr<CompanionWriter>> CompanionWriter::Create(
    const CompanionWriteOptions& options) {
  const ObjectName& name = options.identity.name;
  ATTNDB_CHECK(IsKindName(name.kind) && name.kind != kSegmentKind);
  std::vector<SectionEntry> sections = SectionsOf(options.shape);
  ATTNDB_ASSIGN_OR_RETURN(
      std::unique_ptr<ObjectWriter> object,
      ObjectWriter::Create(
          {.file_system = options.file_system,
           .dir = options.dir,
           .name = name,
           .head_bytes = kCompanionHeaderBytes + SectionTableBytes(sections.size()),
           .cancel = options.keeps_begun ? nullptr : options.cancel}));
  return std::make_unique<CompanionWriter>(Key(), options, std::move(sections), std::move(object));
}

Status CompanionWriter::AddPart(std::span<const std::byte> bytes, uint64_t num_rows) {
  ATTNDB_CHECK(num_added_ < sections_.size());
  SectionEntry& section = sections_[num_added_];
  section.length = bytes.size();
  section.num_rows = num_rows;
  const SectionEntry* const previous = num_added_ == 0 ? nullptr : &sections_[num_added_ - 1];
  ATTNDB_RETURN_IF_ERROR(object_->Align(AlignmentOf(section, previous)));
  section.offset = object_->position();
  ++num_added_;
  if (num_rows > 0) ++num_filled_;
  return object_->Append(bytes);
}

Result<WrittenObject> CompanionWriter::FinishBegun(const std::string& kind) {
  ATTNDB_CHECK(IsKindName(kind) && kind != kSegmentKind);
  while (num_added_ < sections_.size()) ATTNDB_RETURN_IF_ERROR(AddPart({}, 0));
  identity_.name.kind = kind;
  object_->NameAs(kind);
  return Finish();
}

Result<WrittenObject> CompanionWriter::Finish() {
  ATTNDB_CHECK(num_added_ == sections_.size());
  std::vector<std::byte> head = EncodeCompanionHeader({.identity = identity_,
                                                       .num_sections = sections_.size(),
                                                       .object_bytes = object_->position()});
  const std::vector<std::byte> table = EncodeSectionTable(sections_);
  head.insert(head.end(), table.begin(), table.end());
  return object_->Finish(head);
}

}  // namespace attndb::storage
