// Goal:   the header page carries an identity exactly, and each field of it is compared.
// Method: a round trip; each field changed; each number out of range.
#include "storage/kv/companion_header.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <functional>

#include "storage/vfs/format.h"
#include "testing/matchers.h"

namespace attndb::storage {
namespace {

using test::FailsWith;
using ::testing::HasSubstr;

CompanionHeader Some() {
  CompanionHeader header;
  header.identity.store_uuid.fill(std::byte{0x11});
  header.identity.name = {.segment_id = 0x2a, .kind = "key_planes", .generation = 3};
  header.identity.segment_root_hash.fill(std::byte{0x22});
  header.identity.num_tokens = 1000;
  header.num_sections = 17;
  header.object_bytes = 123456;
  return header;
}

TEST(CompanionHeader, RoundTrips) {
  const std::vector<std::byte> page = EncodeCompanionHeader(Some());
  ASSERT_EQ(page.size(), kCompanionHeaderBytes);
  ATTNDB_ASSERT_OK_AND_ASSIGN(const CompanionHeader found, DecodeCompanionHeader(page, "planes"));
  EXPECT_EQ(found.identity, Some().identity);
  EXPECT_EQ(found.num_sections, 17u);
  EXPECT_EQ(found.object_bytes, 123456u);
  ATTNDB_EXPECT_OK(CheckIdentity(found.identity, Some().identity, "planes"));
}

TEST(CompanionHeader, EveryFieldOfTheIdentityIsCompared) {
  const std::pair<std::function<void(CompanionIdentity*)>, std::string> kChanges[] = {
      {[](auto* identity) { identity->store_uuid[3] = {}; }, "store_uuid: expected 1111"},
      {[](auto* identity) { identity->name.segment_id = 1; },
       "expected key_planes.3 of segment 000000000000002a, found key_planes.3 of segment "
       "0000000000000001"},
      {[](auto* identity) { identity->name.kind = "graph"; }, "found graph.3"},
      {[](auto* identity) { identity->name.generation = 4; }, "found key_planes.4"},
      {[](auto* identity) { identity->segment_root_hash[31] = {}; }, "segment_root_hash"},
      {[](auto* identity) { identity->num_tokens = 999; }, "expected 1000, found 999"},
  };
  for (const auto& [change, message] : kChanges) {
    CompanionIdentity other = Some().identity;
    change(&other);
    EXPECT_THAT(CheckIdentity(other, Some().identity, "planes"),
                FailsWith(StatusCode::kCorruption, HasSubstr(message)));
  }
}

template <typename T>
Status DecodeWith(size_t offset, T value) {
  std::vector<std::byte> page = EncodeCompanionHeader(Some());
  std::memcpy(page.data() + offset, &value, sizeof(value));
  return DecodeCompanionHeader(page, "planes").status();
}

TEST(CompanionHeader, NumbersOutOfRangeAreRefused) {
  EXPECT_THAT(DecodeWith(0, uint64_t{1}), FailsWith(StatusCode::kCorruption, HasSubstr("magic")));
  EXPECT_THAT(DecodeWith(8, uint32_t{3}),
              FailsWith(StatusCode::kUnsupported, HasSubstr("version: expected 1 to 2, found 3")));
  ATTNDB_EXPECT_OK(DecodeWith(8, kPackedVersion));
  EXPECT_THAT(
      DecodeWith(12, uint32_t{1}),
      FailsWith(StatusCode::kCorruption, HasSubstr("header_bytes: expected 4096, found 1")));
  EXPECT_THAT(DecodeWith(40, 'K'), FailsWith(StatusCode::kCorruption, HasSubstr("kind")));
  EXPECT_THAT(DecodeWith(112, kMaxSections + 1),
              FailsWith(StatusCode::kCorruption, HasSubstr("num_sections")));
  EXPECT_THAT(DecodeWith(2000, uint8_t{1}), FailsWith(StatusCode::kCorruption, HasSubstr("2000")));
}

}  // namespace
}  // namespace attndb::storage
