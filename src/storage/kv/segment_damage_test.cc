// Goal:   damage affects only its granules. The first tokens of a segment are served, bit for bit,
//         up to the first token with a part in a damaged granule, and their number is known.
// Method: each granule of a small segment is damaged, one at a time and two at a time; what rows of
//         single heads say, read by themselves, is the reference.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "storage/kv/segment.h"
#include "storage/kv/segment_writer.h"
#include "storage/vfs/format.h"
#include "testing/matchers.h"
#include "testing/memory_file_system.h"
#include "testing/seed.h"
#include "testing/segment_data.h"

namespace attndb::storage {
namespace {

using test::FailsWith;
using ::testing::HasSubstr;

const std::string kDir = "segments";
constexpr uint64_t kTokens = 300;

class SegmentDamageTest : public ::testing::Test {
 protected:
  SegmentDamageTest() {
    ATTNDB_EXPECT_OK(fs_.CreateDir(kDir));
    test::DataSource source(&data_, 7);
    Result<WrittenSegment> written =
        WriteSegment({.file_system = &fs_, .dir = kDir, .identity = data_.identity}, &source);
    ATTNDB_EXPECT_OK(written.status());
    expected_ = {.identity = data_.identity, .root_hash = written->root_hash};
    whole_ = fs_.Contents(path_);
    // Before it are the header and the table of sections, without which nothing is opened.
    do {
      Damage({++first_granule_});
    } while (!Segment::Open(&fs_, kDir, expected_, &budget_).ok());
    fs_.SetContents(path_, whole_);
  }

  std::shared_ptr<Segment> Open() {
    Result<std::shared_ptr<Segment>> segment = Segment::Open(&fs_, kDir, expected_, &budget_);
    ATTNDB_EXPECT_OK(segment.status());
    return *std::move(segment);
  }
  uint64_t num_granules() const { return (whole_.size() + kGranuleBytes - 1) / kGranuleBytes; }
  void Damage(const std::vector<uint64_t>& granules) {
    std::vector<std::byte> damaged = whole_;
    for (const uint64_t granule : granules) {
      const uint64_t end = std::min<uint64_t>((granule + 1) * kGranuleBytes, whole_.size());
      damaged[granule * kGranuleBytes + random_.Uniform(end - granule * kGranuleBytes)] ^=
          std::byte{4};
    }
    fs_.SetContents(path_, std::move(damaged));
  }

  // By rows of single heads: how many first tokens of a layer can be read.
  static uint64_t NumReadable(const Segment& segment, LayerId layer) {
    uint64_t num_readable = kTokens;
    for (uint32_t head = 0; head < segment.shape().layers[layer].num_kv_heads; ++head) {
      for (const RowPart part : {RowPart::kKeys, RowPart::kValues}) {
        while (!segment.ReadRows(layer, head, part, {0, num_readable}).ok()) --num_readable;
      }
    }
    return num_readable;
  }

  // Pins of the layer give exactly the readable tokens.
  void ExpectPins(Segment* segment, LayerId layer, uint64_t num_readable) const {
    if (num_readable < kTokens) {
      EXPECT_THAT(segment->PinLayer(layer, num_readable + 1),
                  FailsWith(StatusCode::kCorruption, HasSubstr("granule")));
    }
    ATTNDB_ASSERT_OK_AND_ASSIGN(const LayerPin pin, segment->PinLayer(layer, num_readable));
    for (uint32_t head = 0; head < pin.num_kv_heads(); ++head) {
      const test::HeadData& written = data_.layers[layer][head];
      ASSERT_EQ(pin.rows(head).num_tokens, num_readable);
      ASSERT_TRUE(IsBeginning(pin.rows(head).k, written.k, num_readable));
      ASSERT_TRUE(IsBeginning(pin.rows(head).v, written.v, num_readable));
    }
    // The layer is in memory by now. A caller that needs more tokens still gets the error.
    EXPECT_EQ(segment->PinLayer(layer).ok(), num_readable == kTokens);
    EXPECT_GT(segment->resident_bytes(), 0u);
  }
  static bool IsBeginning(const std::byte* rows, const AlignedBuffer& written,
                          uint64_t num_tokens) {
    const size_t num_bytes = written.size() / kTokens * num_tokens;
    return std::equal(rows, rows + num_bytes, written.data());
  }

  test::MemoryFileSystem fs_;
  MemoryBudget budget_{uint64_t{1} << 30};
  Random random_{test::SeedOr(20)};
  const KvShape shape_ = {.dtype = DType::kFloat16,
                          .layers = {{.num_kv_heads = 2, .head_dim = 32, .v_head_dim = 16},
                                     {.num_kv_heads = 1, .head_dim = 24, .v_head_dim = 64}}};
  const test::SegmentData data_ =
      test::RandomSegment({.shape = shape_, .num_tokens = kTokens, .num_queries = 200}, &random_);
  const std::string path_ = JoinPath(kDir, FileNameOf({.segment_id = 1}, ObjectFile::kData));
  SegmentExpectation expected_;
  std::vector<std::byte> whole_;
  uint64_t first_granule_ = 0;
};

TEST_F(SegmentDamageTest, TheTokensBeforeItAreServedAndCounted) {
  std::vector<uint64_t> counts;
  for (uint64_t granule = first_granule_; granule < num_granules(); ++granule) {
    SCOPED_TRACE(granule);
    Damage({granule});
    const std::shared_ptr<Segment> segment = Open();
    uint64_t num_sound = kTokens;
    for (LayerId layer = 0; layer < shape_.layers.size(); ++layer) {
      const uint64_t num_readable = NumReadable(*segment, layer);
      ExpectPins(segment.get(), layer, num_readable);
      num_sound = std::min(num_sound, num_readable);
    }
    while (!segment->ReadTokens(num_sound).ok()) --num_sound;
    const SegmentDamage damage = segment->FindDamage();
    EXPECT_EQ(damage.status.code(), StatusCode::kCorruption);
    EXPECT_EQ(damage.num_sound, num_sound);
    counts.push_back(num_sound);
  }
  EXPECT_EQ(std::ranges::max(counts), kTokens) << "granules of queries alone harm no token";
  EXPECT_GT(std::ranges::count_if(counts, [](uint64_t n) { return n > 0 && n < kTokens; }), 5);
}

TEST_F(SegmentDamageTest, WhatIsWholeAgainIsServedWhole) {
  Damage({first_granule_ + 1});  // Keys of layer 0.
  const std::shared_ptr<Segment> segment = Open();
  const uint64_t num_readable = NumReadable(*segment, 0);
  ASSERT_LT(num_readable, kTokens);
  ExpectPins(segment.get(), 0, num_readable);
  fs_.SetContents(path_, whole_);
  ExpectPins(segment.get(), 0, kTokens);
}

TEST_F(SegmentDamageTest, OfSeveralTheFirstCounts) {
  for (int i = 0; i < 20; ++i) {
    const uint64_t a = first_granule_ + random_.Uniform(num_granules() - first_granule_);
    const uint64_t b = first_granule_ + random_.Uniform(num_granules() - first_granule_);
    uint64_t least = kTokens;
    for (const uint64_t granule : {a, b}) {
      Damage({granule});
      least = std::min(least, Open()->FindDamage().num_sound);
    }
    Damage({std::min(a, b), std::max(a, b)});
    EXPECT_EQ(Open()->FindDamage().num_sound, least) << a << ' ' << b;
  }
}

TEST_F(SegmentDamageTest, WhatIsWholeAgainIsReadAgain) {
  uint64_t num_layers_tried = 0;
  for (uint64_t granule = first_granule_; granule < num_granules(); ++granule) {
    Damage({granule});
    const std::shared_ptr<Segment> segment = Open();
    for (LayerId layer = 0; layer < shape_.layers.size(); ++layer) {
      const uint64_t num_readable = NumReadable(*segment, layer);
      if (num_readable == kTokens) continue;
      ATTNDB_ASSERT_OK_AND_ASSIGN(const LayerPin before, segment->PinLayer(layer, num_readable));
      EXPECT_FALSE(segment->PinLayer(layer).ok());
      fs_.SetContents(path_, whole_);
      ExpectPins(segment.get(), layer, kTokens);
      EXPECT_EQ(segment->PinLayer(layer, num_readable)->rows(0).num_tokens, kTokens);
      // A holder of earlier reads keeps them.
      ASSERT_EQ(before.rows(0).num_tokens, num_readable);
      ASSERT_TRUE(IsBeginning(before.rows(0).k, data_.layers[layer][0].k, num_readable));
      Damage({granule});
      ++num_layers_tried;
    }
  }
  EXPECT_GT(num_layers_tried, 5u);
  EXPECT_LT(budget_.used_bytes(), uint64_t{2} * whole_.size()) << "what was replaced is dropped";
}

TEST_F(SegmentDamageTest, WithoutTheFrontNoTokenIsSound) {
  const std::shared_ptr<Segment> segment = Open();
  EXPECT_EQ(segment->FindDamage().num_sound, kTokens);
  ATTNDB_EXPECT_OK(segment->FindDamage().status);
  Damage({0});
  EXPECT_EQ(segment->FindDamage().status.code(), StatusCode::kCorruption);
  EXPECT_EQ(segment->FindDamage().num_sound, 0u);
}

}  // namespace
}  // namespace attndb::storage
