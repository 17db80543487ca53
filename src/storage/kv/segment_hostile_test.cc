// Goal:   no bytes in a segment's files crash a reader, make it read outside its memory or take
//         memory without end.
// Method: a valid segment is changed at random, mostly in its numbers; CRCs, root hash and the
//         catalog's view are then made to fit, so that the change gets as deep as it can. Run under
//         ASan and UBSan too.
// Replay: ATTNDB_SEED=17 ctest -R storage_test
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "common/crc32c.h"
#include "storage/kv/kv_layout.h"
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

using test::MemoryFileSystem;
using test::RandomSegment;
using test::SegmentData;

const std::string kDir = "segments";
const std::string kDataPath = "segments/0000000000000001.seg";
const std::string kManifestPath = "segments/0000000000000001.manifest";
constexpr uint64_t kBudget = uint64_t{1} << 26;

class SegmentHostileTest : public ::testing::Test {
 protected:
  SegmentHostileTest() {
    ATTNDB_EXPECT_OK(fs_.CreateDir(kDir));
    const KvShape shape{.dtype = DType::kFloat16,
                        .layers = {{.num_kv_heads = 2, .head_dim = 16, .v_head_dim = 32},
                                   {.num_kv_heads = 1, .head_dim = 40, .v_head_dim = 16}}};
    const SegmentData data =
        RandomSegment({.shape = shape, .num_tokens = 50, .num_queries = 9}, &random_);
    test::DataSource source(&data, 20);
    const Result<WrittenSegment> written =
        WriteSegment({.file_system = &fs_, .dir = kDir, .identity = data.identity}, &source);
    EXPECT_THAT(written, test::IsOk());
    expected_ = {.identity = data.identity, .root_hash = written->root_hash};
    query_tokens_ = data.head(0, 0).query_tokens;
    data_ = fs_.Contents(kDataPath);
    manifest_ = fs_.Contents(kManifestPath);
  }

  // Puts `data` on disk under a manifest that fits it.
  SegmentExpectation Seal(const std::vector<std::byte>& data) {
    Manifest manifest{.name = {.segment_id = 1}, .object_bytes = data.size(), .granule_crcs = {}};
    for (size_t begin = 0; begin < data.size(); begin += kGranuleBytes) {
      const size_t size = std::min<size_t>(kGranuleBytes, data.size() - begin);
      manifest.granule_crcs.push_back(Crc32c(std::span(data).subspan(begin, size)));
    }
    const std::vector<std::byte> bytes = EncodeManifest(manifest);
    fs_.SetContents(kDataPath, data);
    fs_.SetContents(kManifestPath, bytes);
    SegmentExpectation expected = expected_;
    expected.root_hash = Sha256::Of(bytes);
    return expected;
  }

  // Uses everything a reader offers, touching every byte it hands out.
  void UseAll(const SegmentExpectation& expected);

  MemoryFileSystem fs_;
  std::vector<uint32_t> query_tokens_;  // Tokens of head 0 of layer 0.
  Random random_{test::SeedOr(70)};
  SegmentExpectation expected_;
  std::vector<std::byte> data_, manifest_;
  uint64_t num_opened_ = 0, num_pinned_ = 0;
  uint64_t checksum_ = 0;  // Keeps the reads from being optimised away.
};

uint64_t SumOf(const std::byte* data, uint64_t size) {
  uint64_t sum = 0;
  for (uint64_t i = 0; i < size; ++i) sum += std::to_integer<uint64_t>(data[i]);
  return sum;
}

void SegmentHostileTest::UseAll(const SegmentExpectation& expected) {
  MemoryBudget budget(kBudget);
  const Result<std::shared_ptr<Segment>> segment = Segment::Open(&fs_, kDir, expected, &budget);
  if (!segment.ok()) {
    EXPECT_NE(segment.status().code(), StatusCode::kInternal);
    return;
  }
  ++num_opened_;
  const KvShape& shape = (*segment)->shape();
  for (LayerId layer = 0; layer < shape.layers.size(); ++layer) {
    const Result<LayerPin> pin = (*segment)->PinLayer(layer);
    const Result<LayerQueries> queries = (*segment)->ReadQueries(layer);
    for (uint32_t head = 0; head < shape.layers[layer].num_kv_heads; ++head) {
      if (pin.ok()) {
        const KvRows& rows = pin->rows(head);
        checksum_ += SumOf(rows.k, rows.num_tokens * KRowBytes(shape, layer));
        checksum_ += SumOf(rows.v, rows.num_tokens * VRowBytes(shape, layer));
        ++num_pinned_;
      }
      if (queries.ok()) {
        const QueryRows& rows = queries->rows(head);
        checksum_ += SumOf(rows.q, rows.num_rows() * KRowBytes(shape, layer));
        for (const uint32_t token : rows.tokens) ASSERT_LT(token, (*segment)->num_tokens());
        for (const uint32_t q_head : rows.q_heads) checksum_ += q_head;
      }
    }
  }
  const Result<std::vector<TokenId>> tokens = (*segment)->ReadTokens();
  EXPECT_TRUE(!tokens.ok() || tokens->size() == (*segment)->num_tokens());
  (void)(*segment)->FindDamage();
}

// A number that often breaks readers, or one next to the number found.
uint64_t EvilNumber(uint64_t found, Random* random) {
  switch (random->Uniform(7)) {
    case 0:
      return uint64_t{1} << random->Uniform(64);
    case 1:
      return (uint64_t{1} << random->Uniform(64)) - 1;
    case 2:
      return UINT64_MAX - random->Uniform(100);
    case 3:
      return found + 1 + random->Uniform(64);
    case 4:
      return found - 1 - random->Uniform(64);
    case 5:
      return found * (2 + random->Uniform(4));
    default:
      return random->Next();
  }
}

// Changes a number of 1, 4 or 8 bytes in the first `limit` bytes.
void Mutate(std::vector<std::byte>* bytes, uint64_t limit, Random* random) {
  constexpr size_t kWidths[] = {1, 4, 4, 8, 8};
  const size_t width = kWidths[random->Uniform(5)];
  const uint64_t at = random->Uniform(std::min<uint64_t>(limit, bytes->size()) / width) * width;
  uint64_t value = 0;
  std::memcpy(&value, bytes->data() + at, width);
  value = EvilNumber(value, random);
  std::memcpy(bytes->data() + at, &value, width);
}

// Bytes of the object that hold numbers: header fields, shape, section table.
uint64_t MutableBytes(Random* random) {
  return random->OneIn(3) ? 300 : kSegmentHeaderBytes + 14 * kSectionEntryBytes;
}

TEST_F(SegmentHostileTest, HeadersAndTablesWithFittingChecksums) {
  for (int i = 0; i < 30000; ++i) {
    std::vector<std::byte> data = data_;
    for (uint64_t changes = 1 + random_.Uniform(3); changes-- > 0;) {
      Mutate(&data, MutableBytes(&random_), &random_);
    }
    if (random_.OneIn(10)) data.resize(random_.Uniform(2 * data.size()));
    UseAll(Seal(data));
  }
  EXPECT_GT(num_opened_, 0u);
}

TEST_F(SegmentHostileTest, HeadersThatTheCatalogAgreesWith) {
  for (int i = 0; i < 30000; ++i) {
    std::vector<std::byte> data = data_;
    for (uint64_t changes = 1 + random_.Uniform(3); changes-- > 0;) {
      Mutate(&data, MutableBytes(&random_), &random_);
    }
    SegmentExpectation expected = Seal(data);
    const Result<SegmentHeader> header =
        DecodeSegmentHeader(std::span(data).first(kSegmentHeaderBytes), "hostile");
    if (header.ok()) expected.identity = header->identity;
    UseAll(expected);
  }
  EXPECT_GT(num_pinned_, 0u);
}

TEST_F(SegmentHostileTest, ContentsWithFittingChecksums) {
  const uint64_t first_section = kSegmentHeaderBytes + SectionTableBytes(13);
  for (int i = 0; i < 3000; ++i) {
    std::vector<std::byte> data = data_;
    for (int changes = 0; changes < 10; ++changes) {
      data[first_section + random_.Uniform(data.size() - first_section)] =
          static_cast<std::byte>(random_.Next());
    }
    UseAll(Seal(data));
  }
  EXPECT_GT(num_pinned_, 0u);
}

TEST_F(SegmentHostileTest, ManifestsWithFittingRootHash) {
  for (int i = 0; i < 30000; ++i) {
    std::vector<std::byte> manifest = manifest_;
    Mutate(&manifest, manifest.size(), &random_);
    if (random_.OneIn(4)) manifest.resize(random_.Uniform(2 * manifest.size()));
    fs_.SetContents(kManifestPath, manifest);
    SegmentExpectation expected = expected_;
    expected.root_hash = Sha256::Of(manifest);
    UseAll(expected);
  }
}

TEST_F(SegmentHostileTest, SampledQueriesOutOfOrderAreRefused) {
  std::vector<std::byte> data = data_;
  const auto wanted = std::as_bytes(std::span(query_tokens_));
  const auto found = std::search(data.begin(), data.end(), wanted.begin(), wanted.end());
  ASSERT_NE(found, data.end());
  constexpr size_t kBytes = sizeof(uint32_t);
  ASSERT_GE(wanted.size(), 2 * kBytes);
  const auto last = found + static_cast<std::ptrdiff_t>(wanted.size() - kBytes);
  std::swap_ranges(found, found + kBytes, last);
  MemoryBudget budget(kBudget);
  ATTNDB_ASSERT_OK_AND_ASSIGN(const auto segment, Segment::Open(&fs_, kDir, Seal(data), &budget));
  EXPECT_THAT(segment->ReadQueries(0),
              test::FailsWith(StatusCode::kCorruption, ::testing::HasSubstr("token index")));
}

TEST_F(SegmentHostileTest, SampledQueriesBehindTheLastTokenAreRefused) {
  std::vector<std::byte> data = data_;
  const auto wanted = std::as_bytes(std::span(query_tokens_));
  const auto found = std::search(data.begin(), data.end(), wanted.begin(), wanted.end());
  ASSERT_NE(found, data.end());
  ASSERT_FALSE(wanted.empty());
  const size_t last = static_cast<size_t>(found - data.begin()) + wanted.size() - sizeof(uint32_t);
  MemoryBudget budget(kBudget);
  for (const uint32_t token : {49u, 50u}) {  // There are 50.
    std::memcpy(data.data() + last, &token, sizeof(token));
    ATTNDB_ASSERT_OK_AND_ASSIGN(const auto segment, Segment::Open(&fs_, kDir, Seal(data), &budget));
    const Result<LayerQueries> queries = segment->ReadQueries(0);
    if (token == 49) {
      ATTNDB_EXPECT_OK(queries);
    } else {
      EXPECT_THAT(queries, test::FailsWith(StatusCode::kCorruption,
                                           ::testing::HasSubstr(" to 49, found 50")));
    }
  }
}

TEST_F(SegmentHostileTest, TokensAreZeroOrMore) {
  const uint64_t tokens = kSegmentHeaderBytes + SectionTableBytes(13);
  MemoryBudget budget(kBudget);
  for (const TokenId token : {0, -1}) {
    std::vector<std::byte> data = data_;
    std::memcpy(data.data() + tokens + 7 * sizeof(token), &token, sizeof(token));
    ATTNDB_ASSERT_OK_AND_ASSIGN(const auto segment, Segment::Open(&fs_, kDir, Seal(data), &budget));
    const Result<std::vector<TokenId>> found = segment->ReadTokens();
    if (token == 0) {
      ATTNDB_ASSERT_OK(found);
      EXPECT_EQ((*found)[7], 0);
    } else {
      EXPECT_THAT(found,
                  test::FailsWith(StatusCode::kCorruption,
                                  ::testing::HasSubstr("token 7: expected 0 or more, found -1")));
    }
  }
}

TEST_F(SegmentHostileTest, ShorterThanItsHeaderIsShorterThanASegment) {
  const std::pair<size_t, std::string> kErrors[] = {
      {4095, "length: expected at least 4096, found 4095"},
      {4096, "object_bytes: expected 4096, found " + std::to_string(data_.size())}};
  for (const auto& [size, message] : kErrors) {
    std::vector<std::byte> data = data_;
    data.resize(size);
    MemoryBudget budget(kBudget);
    EXPECT_THAT(Segment::Open(&fs_, kDir, Seal(data), &budget),
                test::FailsWith(StatusCode::kCorruption, ::testing::HasSubstr(message)));
  }
}

TEST_F(SegmentHostileTest, EmptyAndTinyObjectsWithFittingChecksums) {
  for (const size_t size : {size_t{0}, size_t{1}, size_t{4095}, size_t{4096}, size_t{8191},
                            size_t{8192}, data_.size() - 1}) {
    std::vector<std::byte> data = data_;
    data.resize(size);
    MemoryBudget budget(kBudget);
    EXPECT_THAT(Segment::Open(&fs_, kDir, Seal(data), &budget),
                test::FailsWith(StatusCode::kCorruption, ::testing::HasSubstr("expected")))
        << size;
  }
}

}  // namespace
}  // namespace attndb::storage
