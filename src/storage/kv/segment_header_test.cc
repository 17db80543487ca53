// Goal:   the header page carries an identity exactly, and each field of it is compared.
// Method: round trips; each field out of range; a page of the largest shape.
#include "storage/kv/segment_header.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "storage/vfs/format.h"
#include "testing/matchers.h"

namespace attndb::storage {
namespace {

using test::FailsWith;
using ::testing::HasSubstr;

SegmentHeader Some() {
  SegmentHeader header;
  header.identity.store_uuid.fill(std::byte{0x11});
  header.identity.segment_id = 0x2a;
  header.identity.model_identity.fill(std::byte{0x22});
  header.identity.first_position = -5;
  header.identity.num_tokens = 1000;
  header.identity.shape = {.dtype = DType::kBFloat16,
                           .layers = {{.num_kv_heads = 3, .head_dim = 64, .v_head_dim = 32},
                                      {.num_kv_heads = 1, .head_dim = 7, .v_head_dim = 9}}};
  header.num_sections = 17;
  header.object_bytes = 123456;
  return header;
}

TEST(SegmentHeader, RoundTrips) {
  SegmentHeader header = Some();
  for (const size_t num_layers : {size_t{2}, size_t{kMaxLayers}}) {
    header.identity.shape.layers.resize(num_layers, {1, 2, 3});
    const std::vector<std::byte> page = EncodeSegmentHeader(header);
    ASSERT_EQ(page.size(), kSegmentHeaderBytes);
    ATTNDB_ASSERT_OK_AND_ASSIGN(const SegmentHeader found, DecodeSegmentHeader(page, "segment"));
    EXPECT_EQ(found.identity, header.identity);
    EXPECT_EQ(found.num_sections, header.num_sections);
    EXPECT_EQ(found.object_bytes, header.object_bytes);
    ATTNDB_EXPECT_OK(CheckIdentity(found.identity, header.identity, "segment"));
  }
}

template <typename T>
Result<SegmentHeader> DecodeWith(size_t offset, T value) {
  std::vector<std::byte> page = EncodeSegmentHeader(Some());
  std::memcpy(page.data() + offset, &value, sizeof(value));
  return DecodeSegmentHeader(page, "segment 7");
}

TEST(SegmentHeader, FieldsOutOfRangeAreRefusedByName) {
  const auto expect = [](const Result<SegmentHeader>& found, const char* message) {
    EXPECT_THAT(found, FailsWith(StatusCode::kCorruption, HasSubstr(message)));
  };
  expect(DecodeWith(0, 'b'), "segment 7: magic");
  expect(DecodeWith(12, uint32_t{8192}), "header_bytes: expected 4096, found 8192");
  expect(DecodeWith(80, uint64_t{1} << 32), "num_tokens: expected at most");
  expect(DecodeWith(96, uint64_t{0}), "table_offset: expected 4096, found 0");
  expect(DecodeWith(104, UINT64_MAX), "num_sections: expected at most");
  expect(DecodeWith(112, uint32_t{3}), "dtype");
  expect(DecodeWith(112, uint32_t{256}), "dtype");  // 0 if it were cut to a byte.
  expect(DecodeWith(116, UINT32_MAX), "num_layers: expected at most 256");
  expect(DecodeWith(116, uint32_t{0}), "num_layers");
  expect(DecodeWith(120, char{1}), "reserved byte at offset 120");
  expect(DecodeWith(256, uint32_t{0}), "layer 0: num_kv_heads");
  expect(DecodeWith(256 + 16, UINT32_MAX), "layer 1: head_dim");
  expect(DecodeWith(4095, char{1}), "reserved byte at offset 4095");
  EXPECT_THAT(DecodeWith(8, uint32_t{3}),
              FailsWith(StatusCode::kUnsupported, HasSubstr("version: expected 1 to 2, found 3")));
  EXPECT_EQ(DecodeWith(8, kPackedVersion)->version, kPackedVersion);
}

TEST(SegmentHeader, APageThatEndsInTheShapeIsRefused) {
  const std::vector<std::byte> page = EncodeSegmentHeader(Some());
  EXPECT_THAT(DecodeSegmentHeader(std::span(page).first(260), "segment 7"),
              FailsWith(StatusCode::kCorruption, HasSubstr("head_dim at offset 260")));
}

TEST(SegmentHeader, AnyBitThatChangesTheIdentityIsNoticed) {
  const std::vector<std::byte> clean = EncodeSegmentHeader(Some());
  for (size_t bit = 0; bit < 8 * clean.size(); ++bit) {
    std::vector<std::byte> page = clean;
    page[bit / 8] ^= static_cast<std::byte>(1u << bit % 8);
    const Result<SegmentHeader> found = DecodeSegmentHeader(page, "segment");
    if (!found.ok()) continue;
    const bool same_numbers =
        found->num_sections == Some().num_sections && found->object_bytes == Some().object_bytes;
    EXPECT_FALSE(same_numbers && CheckIdentity(found->identity, Some().identity, "segment").ok())
        << bit;
  }
}

}  // namespace
}  // namespace attndb::storage
