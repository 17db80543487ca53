#include "storage/kv/segment_layout.h"

#include <algorithm>
#include <array>
#include <string>

#include "attndb/types.h"
#include "common/check.h"
#include "common/checked_math.h"
#include "storage/kv/kv_layout.h"
#include "storage/kv/segment_header.h"
#include "storage/vfs/field_check.h"
#include "storage/vfs/format.h"
#include "storage/vfs/manifest.h"

namespace attndb::storage {
namespace {

constexpr std::array kKnownKinds = {kTokensSection, kKeysSection, kValuesSection, kQueriesSection,
                                    kQueryRefsSection};

bool IsQueryKind(std::string_view kind) {
  return kind == kQueriesSection || kind == kQueryRefsSection;
}

uint64_t RowBytesOf(const SectionEntry& section, const KvShape& shape) {
  if (section.kind == kTokensSection) return sizeof(TokenId);
  if (section.kind == kQueryRefsSection) return kQueryRefBytes;
  return section.kind == kValuesSection ? VRowBytes(shape, section.layer)
                                        : KRowBytes(shape, section.layer);
}

Status CheckSection(const SectionEntry& found, const SectionEntry& expected, const KvShape& shape,
                    uint64_t num_tokens, std::string_view object) {
  if (found.kind != expected.kind || found.layer != expected.layer || found.head != expected.head) {
    return Mismatch(object, "section", Describe(expected), Describe(found));
  }
  if (!IsQueryKind(found.kind)) {
    ATTNDB_RETURN_IF_ERROR(
        ExpectEqual(object, "num_rows of " + Describe(found), found.num_rows, num_tokens));
  }
  const CheckedSize length = CheckedMul(found.num_rows, RowBytesOf(expected, shape));
  if (length && found.length == *length) return Status::Ok();
  return Mismatch(object, "length of " + Describe(found),
                  length ? std::to_string(*length) : "a 64-bit number",
                  std::to_string(found.length));
}

// Removes the sections that may be skipped.
Status EraseUnknown(std::vector<SectionEntry>* sections, std::string_view object) {
  const auto is_unknown = [](const SectionEntry& section) {
    return std::ranges::find(kKnownKinds, section.kind) == kKnownKinds.end();
  };
  for (const SectionEntry& section : *sections) {
    if (is_unknown(section) && (section.flags & kSectionOptional) == 0) {
      return Status::Unsupported(std::string(object) + ": section kind '" + section.kind +
                                 "' is required, and unknown to this version");
    }
  }
  std::erase_if(*sections, is_unknown);
  return Status::Ok();
}

}  // namespace

SegmentLayout::SegmentLayout(const KvShape& shape) {
  num_sections_ = 1;  // The tokens.
  layers_.reserve(shape.layers.size());
  for (const LayerShape& layer : shape.layers) {
    layers_.push_back({.first = num_sections_, .num_heads = layer.num_kv_heads});
    num_sections_ += uint64_t{4} * layer.num_kv_heads;
  }
}

ByteRange SegmentLayout::KvRange(const std::vector<SectionEntry>& sections, uint32_t layer) const {
  return {.begin = sections[keys(layer, 0)].offset,
          .end = sections[values(layer, layers_[layer].num_heads - 1)].end()};
}

ByteRange SegmentLayout::QueryRange(const std::vector<SectionEntry>& sections,
                                    uint32_t layer) const {
  return {.begin = sections[queries(layer, 0)].offset,
          .end = sections[query_refs(layer, layers_[layer].num_heads - 1)].end()};
}

std::vector<SectionEntry> SectionsOf(const KvShape& shape) {
  std::vector<SectionEntry> sections = {{.kind = std::string(kTokensSection)}};
  const auto add = [&](std::string_view kind, uint32_t layer, uint32_t head) {
    sections.push_back({.kind = std::string(kind), .layer = layer, .head = head});
  };
  for (uint32_t layer = 0; layer < shape.layers.size(); ++layer) {
    const uint32_t num_heads = shape.layers[layer].num_kv_heads;
    for (uint32_t head = 0; head < num_heads; ++head) {
      add(kKeysSection, layer, head);
      add(kValuesSection, layer, head);
    }
    for (uint32_t head = 0; head < num_heads; ++head) {
      add(kQueriesSection, layer, head);
      add(kQueryRefsSection, layer, head);
    }
  }
  ATTNDB_CHECK(sections.size() == SegmentLayout(shape).num_sections());
  return sections;
}

CheckedSize SegmentFileBytes(const KvShape& shape, uint64_t num_tokens,
                             const std::vector<std::vector<uint64_t>>& num_queries) {
  std::vector<SectionEntry> sections = SectionsOf(shape);
  CheckedSize end = kSegmentHeaderBytes + SectionTableBytes(sections.size());
  for (size_t i = 0; i < sections.size(); ++i) {
    SectionEntry& section = sections[i];
    section.num_rows =
        IsQueryKind(section.kind) ? num_queries[section.layer][section.head] : num_tokens;
    const CheckedSize length = CheckedMul(section.num_rows, RowBytesOf(section, shape));
    if (!length) return std::nullopt;
    section.length = *length;
    const SectionEntry* const previous = i == 0 ? nullptr : &sections[i - 1];
    end = CheckedAdd(CheckedRoundUp(end, AlignmentOf(section, previous)), length);
  }
  if (!end || *end > kMaxObjectBytes) return std::nullopt;
  return CheckedAdd(end, ManifestBytes(*end));
}

Result<std::vector<SectionEntry>> CheckSections(std::vector<SectionEntry> found,
                                                const KvShape& shape, uint64_t num_tokens,
                                                std::string_view object) {
  ATTNDB_RETURN_IF_ERROR(EraseUnknown(&found, object));
  const std::vector<SectionEntry> expected = SectionsOf(shape);
  ATTNDB_RETURN_IF_ERROR(ExpectEqual(object, "number of sections", found.size(), expected.size()));
  for (size_t i = 0; i < found.size(); ++i) {
    ATTNDB_RETURN_IF_ERROR(CheckSection(found[i], expected[i], shape, num_tokens, object));
    if (found[i].kind == kQueryRefsSection) {
      ATTNDB_RETURN_IF_ERROR(ExpectEqual(object, "num_rows of " + Describe(found[i]),
                                         found[i].num_rows, found[i - 1].num_rows));
    }
  }
  return found;
}

}  // namespace attndb::storage
