// Goal:   sections lie where docs/formats/segment.md says, and padding costs as much as it says.
//         Segments of the former version, with packed sections, are read as they are.
// Method: files of segments of several lengths, their tables read with the offsets of the worked
//         example; the files rearranged as the former version had them; a flipped bit in each byte.
// Replay: ATTNDB_SEED=17 ctest -R storage_test
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "common/checked_math.h"
#include "common/crc32c.h"
#include "storage/kv/segment.h"
#include "storage/kv/segment_writer.h"
#include "storage/vfs/format.h"
#include "storage/vfs/manifest.h"
#include "testing/matchers.h"
#include "testing/memory_file_system.h"
#include "testing/seed.h"
#include "testing/segment_data.h"

namespace attndb::storage {
namespace {

using test::FailsWith;
using test::RandomSegment;
using test::SegmentData;
using ::testing::HasSubstr;

const std::string kDir = "segments";
const std::string kDataPath = "segments/0000000000000001.seg";
const std::string kManifestPath = "segments/0000000000000001.manifest";
constexpr size_t kTableOffset = 4096;

uint32_t U32At(const std::vector<std::byte>& file, size_t offset) {
  uint32_t number = 0;
  std::memcpy(&number, file.data() + offset, sizeof(number));
  return number;
}
uint64_t U64At(const std::vector<std::byte>& file, size_t offset) {
  uint64_t number = 0;
  std::memcpy(&number, file.data() + offset, sizeof(number));
  return number;
}
void SetU64(uint64_t number, size_t offset, std::vector<std::byte>* file) {
  std::memcpy(file->data() + offset, &number, sizeof(number));
}

// The entry of a section in a file's table.
struct Place {
  size_t entry = 0;  // Offset of the table's entry.
  uint32_t layer = 0;
  uint64_t offset = 0, length = 0;
};

std::vector<Place> PlacesIn(const std::vector<std::byte>& file) {
  std::vector<Place> places(U64At(file, 104));
  for (size_t i = 0; i < places.size(); ++i) {
    const size_t entry = kTableOffset + 64 * i;
    places[i] = {.entry = entry,
                 .layer = U32At(file, entry + 16),
                 .offset = U64At(file, entry + 32),
                 .length = U64At(file, entry + 40)};
  }
  return places;
}

// The same segment with all sections at the next multiple of 64, under `version`.
std::vector<std::byte> Packed(const std::vector<std::byte>& file, uint32_t version) {
  const std::vector<Place> places = PlacesIn(file);
  std::vector<std::byte> packed(file.begin(),
                                file.begin() + static_cast<ptrdiff_t>(places[0].offset));
  for (const Place& place : places) {
    packed.resize(RoundUp(packed.size(), 64));
    SetU64(packed.size(), place.entry + 32, &packed);
    const auto begin = file.begin() + static_cast<ptrdiff_t>(place.offset);
    packed.insert(packed.end(), begin, begin + static_cast<ptrdiff_t>(place.length));
  }
  std::memcpy(packed.data() + 8, &version, sizeof(version));
  SetU64(packed.size(), 88, &packed);
  return packed;
}

class SegmentAlignmentTest : public ::testing::Test {
 protected:
  SegmentAlignmentTest() { ATTNDB_EXPECT_OK(fs_.CreateDir(kDir)); }

  // Writes a segment of `shape`, in place of the one before.
  void Write(const KvShape& shape, uint64_t num_tokens, uint64_t num_queries = 0) {
    (void)fs_.Remove(kDataPath);
    (void)fs_.Remove(kManifestPath);
    data_ = RandomSegment({.shape = shape, .num_tokens = num_tokens, .num_queries = num_queries},
                          &random_);
    test::DataSource source(&data_, 100);
    ATTNDB_ASSERT_OK_AND_ASSIGN(
        const WrittenSegment written,
        WriteSegment({.file_system = &fs_, .dir = kDir, .identity = data_.identity}, &source));
    expected_ = {.identity = data_.identity, .root_hash = written.root_hash};
    file_ = fs_.Contents(kDataPath);
  }

  // Puts `file` on disk, under a manifest that fits it.
  void Seal(const std::vector<std::byte>& file) {
    Manifest manifest{.name = {.segment_id = 1}, .object_bytes = file.size(), .granule_crcs = {}};
    for (size_t begin = 0; begin < file.size(); begin += kGranuleBytes) {
      const size_t size = std::min<size_t>(kGranuleBytes, file.size() - begin);
      manifest.granule_crcs.push_back(Crc32c(std::span(file).subspan(begin, size)));
    }
    const std::vector<std::byte> bytes = EncodeManifest(manifest);
    fs_.SetContents(kDataPath, file);
    fs_.SetContents(kManifestPath, bytes);
    expected_.root_hash = Sha256::Of(bytes);
  }

  Result<std::shared_ptr<Segment>> Open() { return Segment::Open(&fs_, kDir, expected_, &budget_); }

  // Ok if everything can be read; then all of it is as it was written.
  Status ReadAll() {
    ATTNDB_ASSIGN_OR_RETURN(const auto segment, Open());
    ATTNDB_ASSIGN_OR_RETURN(const std::vector<TokenId> tokens, segment->ReadTokens());
    EXPECT_EQ(tokens, data_.tokens);
    for (LayerId layer = 0; layer < data_.layers.size(); ++layer) {
      ATTNDB_ASSIGN_OR_RETURN(const LayerPin pin, segment->PinLayer(layer));
      ATTNDB_ASSIGN_OR_RETURN(const LayerQueries queries, segment->ReadQueries(layer));
      for (uint32_t head = 0; head < data_.layers[layer].size(); ++head) {
        const test::HeadData& wanted = data_.head(layer, head);
        EXPECT_EQ(std::memcmp(pin.rows(head).k, wanted.k.data(), wanted.k.size()), 0);
        EXPECT_EQ(std::memcmp(pin.rows(head).v, wanted.v.data(), wanted.v.size()), 0);
        EXPECT_TRUE(std::ranges::equal(queries.rows(head).tokens, wanted.query_tokens));
        EXPECT_TRUE(std::ranges::equal(queries.rows(head).q_heads, wanted.query_heads));
      }
    }
    return segment->FindDamage().status;
  }

  test::MemoryFileSystem fs_;
  MemoryBudget budget_{uint64_t{1} << 30};
  Random random_{test::SeedOr(50)};
  SegmentData data_;
  SegmentExpectation expected_;
  std::vector<std::byte> file_;
};

// 30 layers of 3 heads of 64.
KvShape SmolShape() {
  return test::UniformShape(DType::kFloat16, 30,
                            {.num_kv_heads = 3, .head_dim = 64, .v_head_dim = 64});
}

// Two layers of 2 heads, rows of 128 bytes.
KvShape SomeShape() {
  return test::UniformShape(DType::kFloat16, 2,
                            {.num_kv_heads = 2, .head_dim = 64, .v_head_dim = 64});
}

TEST_F(SegmentAlignmentTest, LayersAndLargeSectionsStartAtAGranule) {
  for (const uint64_t num_tokens : {31u, 32u, 100u, 1023u, 1024u, 1100u}) {
    Write(SomeShape(), num_tokens, 40);
    uint64_t end = 0;
    uint32_t layer = 0;
    for (const Place& place : PlacesIn(file_)) {
      const bool starts_layer = end == 0 || place.layer != layer;
      const bool granule = place.length >= (starts_layer ? 4096u : 131072u);
      EXPECT_EQ(place.offset % (granule ? 4096 : 64), 0u);
      if (end != 0) {
        EXPECT_LT(place.offset - end, granule ? 4096u : 64u);
        for (uint64_t i = end; i < place.offset; ++i) ASSERT_EQ(file_[i], std::byte{0});
      }
      end = place.offset + place.length;
      layer = place.layer;
    }
    EXPECT_EQ(end, file_.size());
    ATTNDB_EXPECT_OK(ReadAll());
  }
}

// The arithmetic of docs/formats/segment.md: less than a granule for each layer, or for each large
// section.
TEST_F(SegmentAlignmentTest, AlignmentCostsATurnLittle) {
  const auto growth = [&](uint64_t num_tokens) {
    Write(SmolShape(), num_tokens, num_tokens / 10);
    const size_t packed = Packed(file_, kPackedVersion).size();
    return static_cast<double>(file_.size() - packed) / static_cast<double>(packed);
  };
  EXPECT_EQ(growth(1), 0);
  EXPECT_LT(growth(32), 4096.0 / (6 * 32 * 128));
  EXPECT_LT(growth(100), 4096.0 / (6 * 100 * 128));  // 5.3 %; expected is half of it.
  EXPECT_LT(growth(1100), 4096.0 / (1100 * 128));
}

TEST_F(SegmentAlignmentTest, TheFormerVersionIsRead) {
  for (const uint64_t num_tokens : {1u, 100u, 1100u}) {
    Write(SomeShape(), num_tokens, 40);
    Seal(Packed(file_, 1));
    ATTNDB_EXPECT_OK(ReadAll());
  }
}

TEST_F(SegmentAlignmentTest, NeitherVersionIsTakenForTheOther) {
  Write(SomeShape(), 100, 40);
  Seal(Packed(file_, 2));
  EXPECT_THAT(Open(), FailsWith(StatusCode::kCorruption, HasSubstr("offset of keys of layer 0")));
  std::vector<std::byte> other = file_;
  other[8] = std::byte{1};
  Seal(other);
  EXPECT_THAT(Open(), FailsWith(StatusCode::kCorruption, HasSubstr("offset of keys of layer 0")));
  other[8] = std::byte{3};
  Seal(other);
  EXPECT_THAT(Open(),
              FailsWith(StatusCode::kUnsupported, HasSubstr("version: expected 1 to 2, found 3")));
}

// Zeros between sections are of granules that are checked, too.
TEST_F(SegmentAlignmentTest, AFlipInAnyByteIsFoundInBothVersions) {
  Write(
      test::UniformShape(DType::kFloat16, 2, {.num_kv_heads = 1, .head_dim = 16, .v_head_dim = 16}),
      130, 3);
  for (const std::vector<std::byte>& file : {file_, Packed(file_, 1)}) {
    Seal(file);
    ATTNDB_ASSERT_OK(ReadAll());
    for (size_t i = 0; i < file.size(); ++i) {
      std::vector<std::byte> damaged = file;
      damaged[i] ^= static_cast<std::byte>(1u << random_.Uniform(8));
      fs_.SetContents(kDataPath, std::move(damaged));
      ASSERT_THAT(ReadAll(), FailsWith(StatusCode::kCorruption, HasSubstr("expected"))) << i;
    }
  }
}

}  // namespace
}  // namespace attndb::storage
