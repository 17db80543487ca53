// Goal:   reader and writer agree on which section is which, and only a fitting table passes.
// Method: indices against the list of sections; each rule broken once; sections of later versions.
#include "storage/kv/segment_layout.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "storage/vfs/format.h"
#include "storage/vfs/manifest.h"
#include "testing/matchers.h"

namespace attndb::storage {
namespace {

using test::FailsWith;
using ::testing::HasSubstr;

const KvShape kShape{.dtype = DType::kFloat16,
                     .layers = {{.num_kv_heads = 2, .head_dim = 16, .v_head_dim = 32},
                                {.num_kv_heads = 1, .head_dim = 64, .v_head_dim = 64}}};

// 10 tokens, 3 sampled queries a head.
std::vector<SectionEntry> Some() {
  std::vector<SectionEntry> sections = SectionsOf(kShape);
  for (SectionEntry& section : sections) {
    const bool query = section.kind == kQueriesSection || section.kind == kQueryRefsSection;
    section.num_rows = query ? 3 : 10;
    const uint64_t k_row = section.layer == 1 ? 128 : 32, v_row = section.layer == 1 ? 128 : 64;
    section.length = section.num_rows * (section.kind == kTokensSection      ? 4
                                         : section.kind == kQueryRefsSection ? 8
                                         : section.kind == kValuesSection    ? v_row
                                                                             : k_row);
  }
  return sections;
}

TEST(SegmentLayout, IndicesNameTheSections) {
  const SegmentLayout layout(kShape);
  const std::vector<SectionEntry> sections = SectionsOf(kShape);
  ASSERT_EQ(layout.num_sections(), sections.size());
  EXPECT_EQ(sections[layout.tokens()].kind, kTokensSection);
  for (uint32_t layer = 0; layer < 2; ++layer) {
    for (uint32_t head = 0; head < kShape.layers[layer].num_kv_heads; ++head) {
      const auto expect = [&](uint64_t index, std::string_view kind) {
        EXPECT_EQ(sections[index].kind, kind);
        EXPECT_EQ(sections[index].layer, layer);
        EXPECT_EQ(sections[index].head, head);
      };
      expect(layout.keys(layer, head), kKeysSection);
      expect(layout.values(layer, head), kValuesSection);
      expect(layout.queries(layer, head), kQueriesSection);
      expect(layout.query_refs(layer, head), kQueryRefsSection);
    }
  }
}

TEST(SegmentLayout, AFittingTablePassesAsItIs) {
  ATTNDB_ASSERT_OK_AND_ASSIGN(const auto found, CheckSections(Some(), kShape, 10, "segment"));
  EXPECT_EQ(found, Some());
}

TEST(SegmentLayout, EachRuleIsChecked) {
  const SegmentLayout layout(kShape);
  const auto expect = [&](const char* message, auto change) {
    std::vector<SectionEntry> sections = Some();
    change(&sections);
    EXPECT_THAT(CheckSections(std::move(sections), kShape, 10, "segment 7"),
                FailsWith(StatusCode::kCorruption, HasSubstr(message)));
  };
  using Sections = std::vector<SectionEntry>*;
  expect("number of sections: expected 13, found 12", [](Sections s) { s->pop_back(); });
  expect("section: expected keys of layer 0, head 0, found values of layer 0, head 0",
         [](Sections s) { std::swap((*s)[1], (*s)[2]); });
  expect("found keys of layer 1, head 0", [](Sections s) { (*s)[1].layer = 1; });
  expect("found keys of layer 0, head 1", [](Sections s) { (*s)[1].head = 1; });
  expect("num_rows of keys of layer 0, head 1: expected 10, found 9",
         [&](Sections s) { (*s)[layout.keys(0, 1)].num_rows = 9; });
  expect("length of values of layer 1, head 0: expected 1280, found 1281",
         [&](Sections s) { (*s)[layout.values(1, 0)].length += 1; });
  expect("num_rows of query_refs of layer 0, head 0: expected 3, found 2", [&](Sections s) {
    (*s)[layout.query_refs(0, 0)].num_rows = 2;
    (*s)[layout.query_refs(0, 0)].length = 16;
  });
  expect("length of queries of layer 0, head 0: expected a 64-bit number",
         [&](Sections s) { (*s)[layout.queries(0, 0)].num_rows = UINT64_MAX / 2; });
}

TEST(SegmentLayout, SectionsOfLaterVersionsAreSkippedOnlyIfTheyMayBe) {
  std::vector<SectionEntry> sections = Some();
  sections.insert(sections.begin() + 3,
                  SectionEntry{.kind = "norms", .flags = kSectionOptional, .num_rows = 1});
  ATTNDB_ASSERT_OK_AND_ASSIGN(const auto found, CheckSections(sections, kShape, 10, "segment"));
  EXPECT_EQ(found, Some());
  sections[3].flags = 0;
  EXPECT_THAT(CheckSections(sections, kShape, 10, "segment 7"),
              FailsWith(StatusCode::kUnsupported, HasSubstr("segment 7: section kind 'norms'")));
}

// K and V of a layer end before its queries, which end before the next layer.
TEST(SegmentLayout, ALayersRangesAreThoseOfItsOwnSections) {
  const SegmentLayout layout(kShape);
  std::vector<SectionEntry> sections = Some();
  uint64_t offset = 8192;
  for (SectionEntry& section : sections) {
    section.offset = offset;
    offset += section.length + 10;  // Room between them, so that each edge is another number.
  }
  for (uint32_t layer = 0; layer < 2; ++layer) {
    const uint32_t last = kShape.layers[layer].num_kv_heads - 1;
    const ByteRange kv = layout.KvRange(sections, layer);
    EXPECT_EQ(kv.begin, sections[layout.keys(layer, 0)].offset);
    EXPECT_EQ(kv.end, sections[layout.values(layer, last)].end());
    const ByteRange queries = layout.QueryRange(sections, layer);
    EXPECT_EQ(queries.begin, kv.end + 10);
    EXPECT_EQ(queries.end, sections[layout.query_refs(layer, last)].end());
  }
}

TEST(SegmentLayout, ASegmentsBytesAreKnownUpToThoseOfTheLargestObject) {
  // K and V take 64 bytes a token each, and no query was sampled: tokens, keys and values begin at
  // granules, the first at 8192.
  const KvShape shape{.dtype = DType::kFloat32,
                      .layers = {{.num_kv_heads = 1, .head_dim = 16, .v_head_dim = 16}}};
  const std::vector<std::vector<uint64_t>> no_queries = {{0}};
  constexpr uint64_t kFew = 65536;
  constexpr uint64_t kFewBytes = 8192 + 132 * kFew;
  EXPECT_EQ(SegmentFileBytes(shape, kFew, no_queries), kFewBytes + ManifestBytes(kFewBytes));
  // 2 granules, 8134408 of tokens, and 130150523 of keys and of values are 2^28.
  constexpr uint64_t kMost = uint64_t{130150523} * 64;
  EXPECT_EQ(SegmentFileBytes(shape, kMost, no_queries),
            kMaxObjectBytes + ManifestBytes(kMaxObjectBytes));
  EXPECT_EQ(SegmentFileBytes(shape, kMost + 1, no_queries), std::nullopt);
}

}  // namespace
}  // namespace attndb::storage
