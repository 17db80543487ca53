// Goal:   a cut is read back as it was written, and nothing else is taken for one.
// Method: round trips; each byte of an encoding changed; hand-made faults.
#include "store/catalog/cut_bytes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "testing/matchers.h"

namespace attndb::store {
namespace {

using ::attndb::test::FailsWith;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(CutBytesTest, RoundTrip) {
  for (const Cut& cut : {Cut{2, {{0, 1}}}, Cut{4096, {{4, 2048}}},
                         Cut{uint64_t{1} << 31, {{0, 3}, {5, 6}, {7, 1u << 30}}}}) {
    const std::vector<std::byte> bytes = EncodeCut(cut);
    EXPECT_TRUE(IsCut(bytes));
    EXPECT_EQ(bytes.size(), 9 + 16 * cut.dropped.size());
    EXPECT_EQ(*DecodeCut(bytes), cut);
  }
}

// Every encoding has one text: what is not refused is another cut, which reads back.
TEST(CutBytesTest, ChangedBytesAreRefusedOrAnotherCut) {
  const Cut cut = {4096, {{4, 2048}, {3000, 3001}}};
  const std::vector<std::byte> bytes = EncodeCut(cut);
  for (size_t i = 0; i < bytes.size(); ++i) {
    for (int bit = 0; bit < 8; ++bit) {
      std::vector<std::byte> changed = bytes;
      changed[i] ^= static_cast<std::byte>(1 << bit);
      const Result<Cut> found = DecodeCut(changed);
      if (!found.ok()) {
        EXPECT_EQ(found.status().code(), StatusCode::kCorruption);
        continue;
      }
      EXPECT_NE(*found, cut);
      EXPECT_EQ(EncodeCut(*found), changed);
    }
  }
  for (size_t size = 0; size < bytes.size(); ++size) {
    if ((size - 9) % 16 == 0 && size > 9) continue;
    EXPECT_EQ(DecodeCut(std::span(bytes).first(size)).status().code(), StatusCode::kCorruption);
  }
}

TEST(CutBytesTest, FaultyCutsAreNamed) {
  const auto refuses = [](std::vector<Cut> cuts, const char* message) {
    EXPECT_THAT(CheckCuts(cuts, 100), FailsWith(StatusCode::kInvalidArgument, HasSubstr(message)));
  };
  ATTNDB_EXPECT_OK(CheckCuts({}, 0));
  ATTNDB_EXPECT_OK(CheckCuts(std::vector<Cut>{{50, {{4, 10}}}, {100, {{2, 3}, {10, 20}}}}, 100));
  refuses({{0, {{0, 1}}}}, "cut 0 is at 0 tokens");
  refuses({{101, {{0, 1}}}}, "cut 0 is at 101 of 100 tokens");
  refuses({{50, {}}}, "drops nothing");
  refuses({{50, {{5, 5}}}}, "drops [5, 5)");
  refuses({{50, {{5, 4}}}}, "drops [5, 4)");
  refuses({{50, {{5, 50}}}}, "expected ranges in order, not adjacent, below 50");
  refuses({{50, {{5, 8}, {8, 9}}}}, "drops [8, 9)");
  refuses({{50, {{5, 8}}}, {50, {{9, 10}}}}, "cut 1 is at 50, after one at 50");
  refuses({{50, {{5, 8}}}, {60, {{7, 10}}}}, "the cuts drop token 7 twice");
  std::vector<Cut> often;
  for (uint64_t i = 0; i <= kMaxCuts; ++i) often.push_back({10 + i, {{i, i + 1}}});
  EXPECT_THAT(CheckCuts(often, 100000),
              FailsWith(StatusCode::kInvalidArgument, HasSubstr("1025 cuts")));
  often.pop_back();
  ATTNDB_EXPECT_OK(CheckCuts(often, 100000));
  std::vector<Cut> gaps;
  for (uint64_t i = 0; i <= kMaxCutRanges; ++i) gaps.push_back({10 + 2 * i, {{2 * i, 2 * i + 1}}});
  EXPECT_THAT(CheckCuts(gaps, 100000),
              FailsWith(StatusCode::kInvalidArgument, HasSubstr("129 gaps")));
  Cut many = {100000, {}};
  for (uint64_t i = 0; i <= kMaxCutRanges; ++i) many.dropped.push_back({2 * i, 2 * i + 1});
  EXPECT_THAT(CheckCuts({&many, 1}, 100000),
              FailsWith(StatusCode::kInvalidArgument, HasSubstr("129 ranges")));
  EXPECT_EQ(DecodeCut(EncodeCut(many)).status().code(), StatusCode::kCorruption);
}

TEST(CutBytesTest, ACutMayHaveAsManyRangesAsItsLimitSays) {
  Cut most = {100000, {}};
  for (uint64_t i = 0; i < kMaxCutRanges; ++i) most.dropped.push_back({2 * i, 2 * i + 1});
  ATTNDB_EXPECT_OK(CheckCuts({&most, 1}, 100000));
  EXPECT_EQ(DecodeCut(EncodeCut(most)).value(), most);
}

TEST(CutBytesTest, TheFirstCutHasNoneBeforeIt) {
  const std::vector<Cut> cuts = {{90, {{0, 1}}}, {50, {{4, 10}}}};
  ATTNDB_EXPECT_OK(CheckCuts(std::span(cuts).subspan(1), 100));
}

TEST(CutBytesTest, BytesThatAreNoCutAreDescribed) {
  const std::vector<std::byte> bytes = EncodeCut({50, {}});
  ASSERT_EQ(bytes.size(), 9u);
  EXPECT_THAT(DecodeCut(bytes), FailsWith(StatusCode::kCorruption, "a cut that drops nothing"));
  EXPECT_THAT(DecodeCut(std::span(bytes).first(8)),
              FailsWith(StatusCode::kCorruption, "a cut of 8 bytes"));
}

TEST(CutBytesTest, CutsOfAPrefix) {
  const std::vector<Cut> cuts = {{50, {{4, 10}}}, {100, {{10, 20}}}};
  EXPECT_TRUE(CutsWithin(cuts, 49).empty());
  EXPECT_THAT(CutsWithin(cuts, 50), ElementsAre(cuts[0]));
  EXPECT_EQ(CutsWithin(cuts, 100), cuts);
}

}  // namespace
}  // namespace attndb::store
