// Goal:   a ByteReader reads what a ByteWriter has written, and never reads past the end.
// Method: round trips; every cut of a structure; a reader's first error is its last.
#include "common/coding.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>

#include "testing/matchers.h"

namespace attndb {
namespace {

using test::FailsWith;
using test::IsOk;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(Coding, NumbersAreLittleEndian) {
  ByteWriter out;
  out.U16(0x0102);
  out.U32(0x03040506);
  EXPECT_THAT(out.bytes(), ElementsAre(std::byte{2}, std::byte{1}, std::byte{6}, std::byte{5},
                                       std::byte{4}, std::byte{3}));
}

TEST(Coding, ReadsBackWhatWasWritten) {
  const std::array<uint32_t, 2> raw = {7, 8};
  ByteWriter out;
  out.U8(0xfe);
  out.U64(0x0123456789abcdefu);
  out.I64(-5);
  out.Bytes(BytesOf(raw));
  out.PadTo(32);

  ByteReader in(out.bytes(), "object");
  EXPECT_EQ(in.U8("a"), 0xfe);
  EXPECT_EQ(in.U64("b"), 0x0123456789abcdefu);
  EXPECT_EQ(in.I64("c"), -5);
  std::array<uint32_t, 2> found = {};
  in.ReadInto(std::as_writable_bytes(std::span(found)), "d");
  EXPECT_EQ(found, raw);
  EXPECT_EQ(in.remaining(), 32u - 25u);
  EXPECT_THAT(in.Finish(), FailsWith(StatusCode::kCorruption, HasSubstr("found 7 more bytes")));
  EXPECT_EQ(in.Bytes(7, "padding").size(), 7u);
  EXPECT_THAT(in.Finish(), IsOk());
}

TEST(Coding, EveryCutIsAnErrorThatNamesTheFieldThatIsShort) {
  ByteWriter out;
  out.U32(1);
  out.U64(2);
  for (size_t size = 0; size < out.size(); ++size) {
    ByteReader in(out.bytes().first(size), "header");
    (void)in.U32("version");
    (void)in.U64("num_tokens");
    const char* field = size < 4 ? "header: version at offset 0" : "num_tokens at offset 4";
    EXPECT_THAT(in.status(), FailsWith(StatusCode::kCorruption, HasSubstr(field))) << size;
  }
}

TEST(Coding, AfterAnErrorEveryReadGivesZeros) {
  ByteWriter out;
  out.U32(0xffffffff);
  ByteReader in(out.bytes(), "object");
  EXPECT_EQ(in.U64("long"), 0u);
  const Status first = in.status();
  EXPECT_EQ(in.U32("short"), 0u);  // Would fit, but the reader is lost.
  std::array<std::byte, 2> filled = {std::byte{9}, std::byte{9}};
  in.ReadInto(filled, "array");
  EXPECT_THAT(filled, ElementsAre(std::byte{0}, std::byte{0}));
  EXPECT_EQ(in.status(), first);
}

TEST(Coding, HugeLengthsDoNotWrapAround) {
  ByteWriter out;
  out.U64(0);
  ByteReader in(out.bytes(), "object");
  (void)in.U8("first");
  EXPECT_TRUE(in.Bytes(UINT64_MAX, "rest").empty());
  EXPECT_THAT(in.status(), FailsWith(StatusCode::kCorruption, HasSubstr("18446744073709551615")));
}

}  // namespace
}  // namespace attndb
