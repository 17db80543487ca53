// Goal:   a manifest says exactly which object it belongs to, and every byte of it means something.
// Method: round trips; each byte changed; sizes at the ends of their ranges.
#include "storage/vfs/manifest.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "storage/vfs/format.h"
#include "testing/matchers.h"

namespace attndb::storage {
namespace {

using test::FailsWith;
using ::testing::HasSubstr;

Manifest Some(uint64_t object_bytes) {
  Manifest manifest{.name = {.segment_id = 7, .kind = "planes", .generation = 2},
                    .object_bytes = object_bytes,
                    .granule_crcs = {}};
  for (uint64_t i = 0; i < NumGranules(object_bytes); ++i) {
    manifest.granule_crcs.push_back(static_cast<uint32_t>(i * 0x01010101u + 1));
  }
  return manifest;
}

TEST(Manifest, RoundTripsAtEverySizeOfTheLastGranule) {
  for (const uint64_t object_bytes : {0u, 1u, 4095u, 4096u, 4097u, 40960u, 41000u}) {
    const Manifest manifest = Some(object_bytes);
    const std::vector<std::byte> bytes = EncodeManifest(manifest);
    EXPECT_EQ(bytes.size(), ManifestBytes(object_bytes));
    ATTNDB_ASSERT_OK_AND_ASSIGN(const Manifest found, DecodeManifest(bytes, manifest.name));
    EXPECT_EQ(found.name, manifest.name);
    EXPECT_EQ(found.object_bytes, object_bytes);
    EXPECT_EQ(found.granule_crcs, manifest.granule_crcs);
  }
}

TEST(Manifest, BelongsToOneObject) {
  const Manifest manifest = Some(100);
  const std::vector<std::byte> bytes = EncodeManifest(manifest);
  for (const ObjectName& other :
       {ObjectName{8, "planes", 2}, ObjectName{7, "planet", 2}, ObjectName{7, "planes", 3}}) {
    EXPECT_THAT(DecodeManifest(bytes, other),
                FailsWith(StatusCode::kCorruption, HasSubstr("planes.2 of segment")));
  }
}

TEST(Manifest, EveryBitCounts) {
  const Manifest manifest = Some(5000);
  const std::vector<std::byte> clean = EncodeManifest(manifest);
  for (size_t bit = 0; bit < 8 * clean.size(); ++bit) {
    std::vector<std::byte> bytes = clean;
    bytes[bit / 8] ^= static_cast<std::byte>(1u << bit % 8);
    const Result<Manifest> found = DecodeManifest(bytes, manifest.name);
    // Refused, or a manifest of other contents: nothing is passed over.
    EXPECT_FALSE(found.ok() && found->object_bytes == manifest.object_bytes &&
                 found->granule_crcs == manifest.granule_crcs)
        << bit;
  }
}

TEST(Manifest, SizesThatDoNotBelongTogetherAreRefusedBeforeMemoryIsTaken) {
  constexpr size_t kObjectBytesAt = 56;
  std::vector<std::byte> bytes = EncodeManifest(Some(5000));
  for (const uint64_t claimed : {uint64_t{0}, uint64_t{4096}, uint64_t{8193}, kMaxObjectBytes,
                                 kMaxObjectBytes + 1, uint64_t{1} << 62, UINT64_MAX}) {
    std::memcpy(bytes.data() + kObjectBytesAt, &claimed, sizeof(claimed));
    EXPECT_THAT(DecodeManifest(bytes, Some(0).name),
                FailsWith(StatusCode::kCorruption, HasSubstr("expected")))
        << claimed;
  }
}

TEST(Manifest, EveryCutIsRefused) {
  const std::vector<std::byte> bytes = EncodeManifest(Some(9000));
  for (size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_EQ(DecodeManifest(std::span(bytes).first(size), Some(0).name).status().code(),
              StatusCode::kCorruption)
        << size;
  }
}

}  // namespace
}  // namespace attndb::storage
