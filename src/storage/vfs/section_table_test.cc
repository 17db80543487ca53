// Goal:   for any table, sections never overlap, leave no gaps and stay in the object.
// Method: round trips; each rule broken once; numbers that overflow; tables of the former version.
#include "storage/vfs/section_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "storage/vfs/format.h"
#include "testing/matchers.h"

namespace attndb::storage {
namespace {

using test::FailsWith;
using ::testing::HasSubstr;

constexpr uint64_t kBegin = 8192;
constexpr uint64_t kLarge = kBegin + 12288 + kLargeSectionBytes;  // The start of a large section.
constexpr uint64_t kEnd = kLarge + kLargeSectionBytes + kGranuleBytes - 1;

std::vector<SectionEntry> Some() {
  return {{.kind = "tokens", .offset = kBegin, .length = 100, .num_rows = 25},
          {.kind = "keys",
           .layer = 0,
           .head = 1,
           .flags = kSectionNonFinite,
           .offset = kBegin + 4096,  // The first one of its layer, and of a granule.
           .length = kGranuleBytes,
           .num_rows = 2},
          {.kind = "values", .layer = 0, .head = 1, .offset = kBegin + 8192, .length = 65},
          {.kind = "keys",
           .layer = 0,
           .head = 2,
           .offset = kBegin + 8192 + 128,
           .length = kLargeSectionBytes - 1},
          {.kind = "values", .layer = 0, .head = 2, .offset = kLarge, .length = kLargeSectionBytes},
          {.kind = "empty", .layer = 3, .offset = kLarge + kLargeSectionBytes},
          {.kind = "last",
           .layer = 4,
           .flags = kSectionOptional,
           .offset = kLarge + kLargeSectionBytes,
           .length = kGranuleBytes - 1}};
}

// The same sections as the former version has them.
std::vector<SectionEntry> Packed() {
  std::vector<SectionEntry> sections = Some();
  uint64_t offset = kBegin;
  for (SectionEntry& section : sections) {
    section.offset = offset;
    offset += (section.length + 63) / 64 * 64;
  }
  return sections;
}

Result<std::vector<SectionEntry>> Decode(const std::vector<SectionEntry>& sections,
                                         const SectionBounds& bounds = {.begin = kBegin,
                                                                        .end = kEnd}) {
  const std::vector<std::byte> table = EncodeSectionTable(sections);
  EXPECT_EQ(table.size() % kGranuleBytes, 0u);
  return DecodeSectionTable(table, sections.size(), bounds, "object");
}

TEST(SectionTable, RoundTrips) {
  ATTNDB_ASSERT_OK_AND_ASSIGN(const std::vector<SectionEntry> found, Decode(Some()));
  EXPECT_EQ(found, Some());
  ATTNDB_EXPECT_OK(Decode({}, {.begin = kBegin, .end = kBegin}));
}

TEST(SectionTable, EachRuleOfPlaceIsChecked) {
  const auto expect = [](const char* message, auto change) {
    std::vector<SectionEntry> sections = Some();
    change(&sections);
    EXPECT_THAT(Decode(sections), FailsWith(StatusCode::kCorruption, HasSubstr(message)));
  };
  using Sections = std::vector<SectionEntry>*;
  expect("offset of tokens: expected 8192, found 8256", [](Sections s) { (*s)[0].offset += 64; });
  expect("offset of keys of layer 0, head 1", [](Sections s) { (*s)[1].offset -= 64; });
  expect("offset of keys of layer 0, head 1", [](Sections s) { (*s)[1].offset += 1; });
  expect("offset of keys of layer 0, head 1", [](Sections s) { (*s)[1].offset = kBegin + 128; });
  expect("offset of keys of layer 0, head 1", [](Sections s) { --(*s)[1].length; });
  expect("offset of keys of layer 0, head 2", [](Sections s) { (*s)[3].offset = kBegin + 12288; });
  expect("offset of keys of layer 0, head 2", [](Sections s) { ++(*s)[3].length; });
  expect("offset of values of layer 0, head 2", [](Sections s) { --(*s)[4].length; });
  expect("offset of keys", [](Sections s) { (*s)[0].length = 4097; });  // Overlap.
  expect("offset of keys", [](Sections s) { (*s)[2].length = 10; });    // Gap.
  expect("end of the last section", [](Sections s) { (*s)[6].length = 6; });
  expect("length of last", [](Sections s) { ++(*s)[6].length; });
  expect("length of last", [](Sections s) { (*s)[6].length = UINT64_MAX; });
  expect("length of tokens", [](Sections s) { (*s)[0].length = UINT64_MAX - kBegin; });
  expect("flags of tokens", [](Sections s) { (*s)[0].flags = 4; });
}

TEST(SectionTable, PackedOnesArePackedAndOthersAreNot) {
  const std::vector<SectionEntry> packed = Packed();
  const SectionBounds bounds{.begin = kBegin, .end = packed.back().end(), .packed = true};
  ATTNDB_ASSERT_OK_AND_ASSIGN(const std::vector<SectionEntry> found, Decode(packed, bounds));
  EXPECT_EQ(found, packed);
  EXPECT_THAT(Decode(packed, {.begin = kBegin, .end = bounds.end}),
              FailsWith(StatusCode::kCorruption, HasSubstr("offset of keys of layer 0, head 1")));
  EXPECT_THAT(Decode(Some(), {.begin = kBegin, .end = kEnd, .packed = true}),
              FailsWith(StatusCode::kCorruption, HasSubstr("offset of keys of layer 0, head 1")));
  std::vector<SectionEntry> overflown = packed;
  overflown[0].length = UINT64_MAX - kBegin;
  EXPECT_THAT(Decode(overflown, bounds),
              FailsWith(StatusCode::kCorruption, HasSubstr("length of tokens")));
}

TEST(SectionTable, ReservedAndUnusedBytesMustBeZero) {
  const std::vector<SectionEntry> sections = Some();
  const std::vector<std::byte> clean = EncodeSectionTable(sections);
  for (const size_t at : {size_t{28}, size_t{63}, 7 * kSectionEntryBytes, clean.size() - 1}) {
    std::vector<std::byte> table = clean;
    table[at] = std::byte{1};
    EXPECT_THAT(DecodeSectionTable(table, 7, {.begin = kBegin, .end = kEnd}, "object"),
                FailsWith(StatusCode::kCorruption, HasSubstr("reserved byte")))
        << at;
  }
}

TEST(SectionTable, DescriptionsLeaveOutWhatASectionDoesNotHave) {
  EXPECT_EQ(Describe(Some()[0]), "tokens");
  EXPECT_EQ(Describe(Some()[1]), "keys of layer 0, head 1");
  EXPECT_EQ(Describe(Some()[5]), "empty of layer 3");
}

TEST(SectionTable, IsOfWholeGranulesUpToTheMostSections) {
  EXPECT_EQ(SectionTableBytes(0), 0u);
  EXPECT_EQ(SectionTableBytes(1), kGranuleBytes);
  EXPECT_EQ(SectionTableBytes(64), kGranuleBytes);
  EXPECT_EQ(SectionTableBytes(65), 2 * kGranuleBytes);
  EXPECT_EQ(SectionTableBytes(kMaxSections), kMaxSections * kSectionEntryBytes);
  EXPECT_DEATH((void)SectionTableBytes(kMaxSections + 1), "num_sections <= kMaxSections");
}

}  // namespace
}  // namespace attndb::storage
