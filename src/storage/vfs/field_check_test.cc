// Goal:   the common fields of every format refuse any wrong value and say why.
// Method: good and bad bytes.
#include "storage/vfs/field_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <string_view>

#include "testing/matchers.h"

namespace attndb::storage {
namespace {

using test::FailsWith;
using ::testing::HasSubstr;

TEST(FieldCheck, MismatchNamesObjectFieldExpectedAndFound) {
  EXPECT_EQ(ExpectEqual("segment 7", "num_tokens", 4, 5),
            Status::Corruption("segment 7: num_tokens: expected 5, found 4"));
  EXPECT_EQ(ExpectAtMost("segment 7", "num_layers", 9, 8),
            Status::Corruption("segment 7: num_layers: expected at most 8, found 9"));
  ATTNDB_EXPECT_OK(ExpectEqual("x", "y", 3, 3));
  ATTNDB_EXPECT_OK(ExpectAtMost("x", "y", 3, 3));
}

Status CheckStart(std::string_view bytes) {
  ByteReader in(BytesOf(bytes), "object");
  return CheckMagicAndVersion(&in, "object", "attnmagi", 1);
}

TEST(FieldCheck, AnotherVersionIsUnsupportedAndAnotherMagicIsDamage) {
  using std::string_view_literals::operator""sv;
  ATTNDB_EXPECT_OK(CheckStart("attnmagi\1\0\0\0"sv));
  EXPECT_THAT(CheckStart("attnmagi\2\0\0\0"sv),
              FailsWith(StatusCode::kUnsupported, HasSubstr("version: expected 1, found 2")));
  EXPECT_THAT(CheckStart("attnmagj\1\0\0\0"sv),
              FailsWith(StatusCode::kCorruption, HasSubstr("magic")));
  EXPECT_THAT(CheckStart("attnmagi\1\0"sv),
              FailsWith(StatusCode::kCorruption, HasSubstr("version")));
}

TEST(FieldCheck, VersionsOfARangeAreToldApart) {
  using std::string_view_literals::operator""sv;
  const auto read = [](std::string_view bytes) {
    ByteReader in(BytesOf(bytes), "object");
    return ReadMagicAndVersion(&in, "object", "attnmagi", {.oldest = 2, .newest = 3});
  };
  EXPECT_EQ(*read("attnmagi\2\0\0\0"sv), 2u);
  EXPECT_EQ(*read("attnmagi\3\0\0\0"sv), 3u);
  for (const std::string_view bytes : {"attnmagi\1\0\0\0"sv, "attnmagi\4\0\0\0"sv}) {
    EXPECT_THAT(read(bytes),
                FailsWith(StatusCode::kUnsupported, HasSubstr("version: expected 2 to 3, found")));
  }
}

Result<std::string> ReadKind(std::string_view bytes) {
  ByteReader in(BytesOf(bytes), "object");
  return ReadKindName(&in, "object");
}

TEST(FieldCheck, KindNamesFillTheirSixteenBytes) {
  using std::string_view_literals::operator""sv;
  for (const std::string_view kind : {"a"sv, "keys"sv, "exactly_16_chars"sv}) {
    ByteWriter out;
    WriteKindName(kind, &out);
    ASSERT_EQ(out.size(), 16u);
    ByteReader in(out.bytes(), "object");
    ATTNDB_ASSERT_OK_AND_ASSIGN(const std::string found, ReadKindName(&in, "object"));
    EXPECT_EQ(found, kind);
  }
  for (const std::string_view bytes :
       {"\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0"sv, "ke\0ys\0\0\0\0\0\0\0\0\0\0\0"sv,
        "Keys\0\0\0\0\0\0\0\0\0\0\0\0"sv, "keys\0\0\0\0\0\0\0\0\0\0\0x"sv, "keys"sv}) {
    EXPECT_EQ(ReadKind(bytes).status().code(), StatusCode::kCorruption);
  }
  EXPECT_THAT(ReadKind("keys"),
              FailsWith(StatusCode::kCorruption,
                        HasSubstr("kind at offset 0: expected 16 bytes, found 4")));
}

TEST(FieldCheck, ReservedBytesMustBeZero) {
  std::array<std::byte, 16> bytes = {};
  {
    ByteReader in(bytes, "object");
    ATTNDB_EXPECT_OK(ReadZeros(&in, "object", 16));
    ATTNDB_EXPECT_OK(in.Finish());
  }
  {
    ByteReader in(bytes, "object");
    EXPECT_THAT(ReadZeros(&in, "object", 17),
                FailsWith(StatusCode::kCorruption, HasSubstr("expected 17 bytes, found 16")));
  }
  bytes[11] = std::byte{3};
  ByteReader in(bytes, "object");
  (void)in.U32("first");
  EXPECT_THAT(ReadZeros(&in, "object", 16),
              FailsWith(StatusCode::kCorruption,
                        HasSubstr("reserved byte at offset 11: expected 0, found 3")));
}

}  // namespace
}  // namespace attndb::storage
