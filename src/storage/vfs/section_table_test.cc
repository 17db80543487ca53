// Goal:   sections never overlap, leave no gaps and stay in the object, whatever the table says.
// Method: round trips; each rule broken once; numbers that overflow.
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

std::vector<SectionEntry> Some() {
  return {{.kind = "tokens", .offset = kBegin, .length = 100, .num_rows = 25},
          {.kind = "keys",
           .layer = 0,
           .head = 1,
           .flags = kSectionNonFinite,
           .offset = kBegin + 128,
           .length = 64,
           .num_rows = 2},
          {.kind = "empty", .layer = 3, .offset = kBegin + 192, .length = 0, .num_rows = 0},
          {.kind = "last", .flags = kSectionOptional, .offset = kBegin + 192, .length = 7}};
}

Result<std::vector<SectionEntry>> Decode(const std::vector<SectionEntry>& sections,
                                         uint64_t end = kBegin + 199) {
  const std::vector<std::byte> table = EncodeSectionTable(sections);
  EXPECT_EQ(table.size() % kGranuleBytes, 0u);
  return DecodeSectionTable(table, sections.size(), {.begin = kBegin, .end = end}, "object");
}

TEST(SectionTable, RoundTrips) {
  ATTNDB_ASSERT_OK_AND_ASSIGN(const std::vector<SectionEntry> found, Decode(Some()));
  EXPECT_EQ(found, Some());
  ATTNDB_EXPECT_OK(Decode({}, kBegin));
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
  expect("offset of keys", [](Sections s) { (*s)[0].length = 129; });  // Overlap.
  expect("offset of keys", [](Sections s) { (*s)[0].length = 10; });   // Gap.
  expect("end of the last section", [](Sections s) { (*s)[3].length = 6; });
  expect("length of last", [](Sections s) { (*s)[3].length = 8; });
  expect("length of last", [](Sections s) { (*s)[3].length = UINT64_MAX; });
  expect("length of tokens", [](Sections s) { (*s)[0].length = UINT64_MAX - kBegin; });
  expect("flags of tokens", [](Sections s) { (*s)[0].flags = 4; });
}

TEST(SectionTable, ReservedAndUnusedBytesMustBeZero) {
  const std::vector<SectionEntry> sections = Some();
  const std::vector<std::byte> clean = EncodeSectionTable(sections);
  for (const size_t at : {size_t{28}, size_t{63}, 4 * kSectionEntryBytes, clean.size() - 1}) {
    std::vector<std::byte> table = clean;
    table[at] = std::byte{1};
    EXPECT_THAT(DecodeSectionTable(table, 4, {.begin = kBegin, .end = kBegin + 199}, "object"),
                FailsWith(StatusCode::kCorruption, HasSubstr("reserved byte")))
        << at;
  }
}

TEST(SectionTable, DescriptionsLeaveOutWhatASectionDoesNotHave) {
  EXPECT_EQ(Describe(Some()[0]), "tokens");
  EXPECT_EQ(Describe(Some()[1]), "keys of layer 0, head 1");
  EXPECT_EQ(Describe(Some()[2]), "empty of layer 3");
}

}  // namespace
}  // namespace attndb::storage
