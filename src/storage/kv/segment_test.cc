// Goal:   a segment gives back exactly the rows written, and only verified bytes.
// Method: random data over shapes and dtypes; every single-bit flip, cut and swap of both files;
//         pins under a tight budget and from many threads (run under TSan too).
// Replay: ATTNDB_SEED=17 ctest -R storage_test
#include "storage/kv/segment.h"
#include "attndb/units.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <new>
#include <string>
#include <thread>
#include <vector>

#include "storage/kv/kv_layout.h"
#include "storage/kv/segment_writer.h"
#include "storage/vfs/format.h"
#include "storage/vfs/store_files.h"
#include "testing/fault_file_system.h"
#include "testing/kv_data.h"
#include "testing/matchers.h"
#include "testing/memory_file_system.h"
#include "testing/seed.h"
#include "testing/segment_data.h"
#include "testing/temp_dir.h"

namespace attndb::storage {
namespace {

using test::DataSource;
using test::FailsWith;
using test::HeadData;
using test::MemoryFileSystem;
using test::RandomSegment;
using test::SegmentData;
using test::UniformShape;
using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::HasSubstr;

const std::string kDir = "segments";
constexpr uint64_t kPlenty = uint64_t{1} << 30;

class SegmentTest : public ::testing::Test {
 protected:
  SegmentTest() { ATTNDB_EXPECT_OK(fs_.CreateDir(kDir)); }

  SegmentExpectation Write(const SegmentData& data, uint64_t run_tokens = 7) {
    DataSource source(&data, run_tokens);
    Result<WrittenSegment> written =
        WriteSegment({.file_system = &fs_, .dir = kDir, .identity = data.identity}, &source);
    EXPECT_THAT(written, test::IsOk());
    return {.identity = data.identity, .root_hash = written->root_hash};
  }

  Result<std::shared_ptr<Segment>> Open(const SegmentExpectation& expected) {
    return Segment::Open(&fs_, kDir, expected, &budget_);
  }

  // Everything a caller can read: the first failure, or Ok if all of it equals `data`.
  Status ReadAll(const SegmentExpectation& expected, const SegmentData& data);

  MemoryFileSystem fs_;
  MemoryBudget budget_{kPlenty};
  Random random_{test::SeedOr(20)};
};

bool EqualBytes(const std::byte* found, const AlignedBuffer& expected) {
  return std::equal(expected.span().begin(), expected.span().end(), found);
}

void ExpectLayer(const LayerPin& pin, const SegmentData& data, LayerId layer) {
  const std::vector<HeadData>& heads = data.layers[layer];
  ASSERT_EQ(pin.num_kv_heads(), heads.size());
  for (uint32_t head = 0; head < heads.size(); ++head) {
    const KvRows& rows = pin.rows(head);
    ASSERT_EQ(rows.num_tokens, data.tokens.size());
    ASSERT_EQ(reinterpret_cast<uintptr_t>(rows.k) % kBufferAlignment, 0u);
    ASSERT_EQ(reinterpret_cast<uintptr_t>(rows.v) % kBufferAlignment, 0u);
    ASSERT_TRUE(EqualBytes(rows.k, heads[head].k)) << layer << ' ' << head;
    ASSERT_TRUE(EqualBytes(rows.v, heads[head].v)) << layer << ' ' << head;
  }
}

void ExpectQueries(const LayerQueries& queries, const SegmentData& data, LayerId layer) {
  const std::vector<HeadData>& heads = data.layers[layer];
  ASSERT_EQ(queries.num_kv_heads(), heads.size());
  for (uint32_t head = 0; head < heads.size(); ++head) {
    const QueryRows& rows = queries.rows(head);
    ASSERT_EQ(rows.num_rows(), heads[head].query_tokens.size());
    ASSERT_TRUE(EqualBytes(rows.q, heads[head].q)) << layer << ' ' << head;
    ASSERT_TRUE(std::ranges::equal(rows.tokens, heads[head].query_tokens));
    ASSERT_TRUE(std::ranges::equal(rows.q_heads, heads[head].query_heads));
  }
}

Status SegmentTest::ReadAll(const SegmentExpectation& expected, const SegmentData& data) {
  ATTNDB_ASSIGN_OR_RETURN(const std::shared_ptr<Segment> segment, Open(expected));
  ATTNDB_ASSIGN_OR_RETURN(const std::vector<TokenId> tokens, segment->ReadTokens());
  EXPECT_EQ(tokens, data.tokens);
  for (LayerId layer = 0; layer < data.layers.size(); ++layer) {
    ATTNDB_ASSIGN_OR_RETURN(const LayerPin pin, segment->PinLayer(layer));
    ExpectLayer(pin, data, layer);
    ATTNDB_ASSIGN_OR_RETURN(const LayerQueries queries, segment->ReadQueries(layer));
    ExpectQueries(queries, data, layer);
    for (uint32_t head = 0; head < data.layers[layer].size(); ++head) {
      ATTNDB_ASSIGN_OR_RETURN(const HeadRows keys, segment->ReadRows(layer, head, RowPart::kKeys));
      EXPECT_TRUE(EqualBytes(keys.data(), data.head(layer, head).k)) << layer << ' ' << head;
      ATTNDB_ASSIGN_OR_RETURN(const HeadRows values,
                              segment->ReadRows(layer, head, RowPart::kValues));
      EXPECT_TRUE(EqualBytes(values.data(), data.head(layer, head).v)) << layer << ' ' << head;
    }
  }
  return segment->FindDamage().status;
}

// --- What was written comes back.

TEST_F(SegmentTest, RoundTripsOverDtypesAndShapes) {
  std::vector<KvShape> shapes;
  for (const DType dtype : {DType::kFloat32, DType::kFloat16, DType::kBFloat16}) {
    shapes.push_back(UniformShape(dtype, 3, {.num_kv_heads = 2, .head_dim = 64, .v_head_dim = 64}));
    shapes.push_back(UniformShape(dtype, 1, {.num_kv_heads = 1, .head_dim = 80, .v_head_dim = 48}));
    shapes.push_back({.dtype = dtype,
                      .layers = {{.num_kv_heads = 1, .head_dim = 7, .v_head_dim = 256},
                                 {.num_kv_heads = 5, .head_dim = 128, .v_head_dim = 1},
                                 {.num_kv_heads = 2, .head_dim = 16, .v_head_dim = 17}}});
  }
  uint64_t id = 1;
  for (const KvShape& shape : shapes) {
    for (const uint64_t num_tokens : {1u, 2u, 33u, 257u}) {
      const SegmentData data = RandomSegment(
          {.shape = shape, .num_tokens = num_tokens, .num_queries = 40, .segment_id = id++},
          &random_);
      ATTNDB_EXPECT_OK(ReadAll(Write(data, 1 + random_.Uniform(50)), data));
    }
  }
}

TEST_F(SegmentTest, SaysWhichHeadsHoldNanOrInf) {
  const KvShape shape =
      UniformShape(DType::kBFloat16, 2, {.num_kv_heads = 3, .head_dim = 32, .v_head_dim = 32});
  SegmentData data = RandomSegment({.shape = shape, .num_tokens = 100}, &random_);
  test::SetNan({shape.dtype, 100, 32}, 99, 31, data.layers[0][1].k.data());
  test::SetNan({shape.dtype, 100, 32}, 0, 0, data.layers[1][2].v.data());
  ATTNDB_ASSERT_OK_AND_ASSIGN(const auto segment, Open(Write(data)));
  for (LayerId layer = 0; layer < 2; ++layer) {
    ATTNDB_ASSERT_OK_AND_ASSIGN(const LayerPin pin, segment->PinLayer(layer));
    for (uint32_t head = 0; head < 3; ++head) {
      const bool expected = (layer == 0 && head == 1) || (layer == 1 && head == 2);
      EXPECT_EQ(pin.non_finite(head), expected) << layer << ' ' << head;
      EXPECT_EQ(segment->non_finite(layer, head), expected) << layer << ' ' << head;
    }
  }
}

// --- Damage.

KvShape SmallShape() {
  return UniformShape(DType::kFloat16, 2, {.num_kv_heads = 1, .head_dim = 16, .v_head_dim = 16});
}

TEST_F(SegmentTest, EverySingleBitFlipIsDetected) {
  const SegmentData data =
      RandomSegment({.shape = SmallShape(), .num_tokens = 5, .num_queries = 3}, &random_);
  const SegmentExpectation expected = Write(data);
  ATTNDB_ASSERT_OK(ReadAll(expected, data));
  for (const ObjectFile file : {ObjectFile::kData, ObjectFile::kManifest}) {
    const std::string path = JoinPath(kDir, FileNameOf({.segment_id = 1}, file));
    const std::vector<std::byte> clean = fs_.Contents(path);
    for (size_t bit = 0; bit < 8 * clean.size(); ++bit) {
      std::vector<std::byte> damaged = clean;
      damaged[bit / 8] ^= static_cast<std::byte>(1u << bit % 8);
      fs_.SetContents(path, std::move(damaged));
      ASSERT_THAT(ReadAll(expected, data),
                  FailsWith(StatusCode::kCorruption, HasSubstr("expected")))
          << path << " bit " << bit;
      // A verification finds the damage in every part of the file.
      const auto segment = Open(expected);
      ASSERT_FALSE(segment.ok() && (*segment)->FindDamage().status.ok()) << path << " bit " << bit;
    }
    fs_.SetContents(path, clean);
  }
  ATTNDB_EXPECT_OK(ReadAll(expected, data));
}

TEST_F(SegmentTest, EveryCutAndEveryExtensionIsDetected) {
  const SegmentData data =
      RandomSegment({.shape = SmallShape(), .num_tokens = 3, .num_queries = 2}, &random_);
  const SegmentExpectation expected = Write(data);
  for (const ObjectFile file : {ObjectFile::kData, ObjectFile::kManifest}) {
    const std::string path = JoinPath(kDir, FileNameOf({.segment_id = 1}, file));
    const std::vector<std::byte> clean = fs_.Contents(path);
    for (size_t size = 0; size < clean.size() + 20; ++size) {
      if (size == clean.size()) continue;
      std::vector<std::byte> damaged = clean;
      damaged.resize(size);
      fs_.SetContents(path, std::move(damaged));
      ASSERT_THAT(Open(expected), FailsWith(StatusCode::kCorruption, HasSubstr("expected")))
          << path << " size " << size;
    }
    fs_.SetContents(path, clean);
  }
}

TEST_F(SegmentTest, AFileThatShrinksOrGrowsAfterOpenIsDetected) {
  const SegmentData data = RandomSegment({.shape = SmallShape(), .num_tokens = 300}, &random_);
  ATTNDB_ASSERT_OK_AND_ASSIGN(const auto segment, Open(Write(data)));
  const std::string path = JoinPath(kDir, FileNameOf({.segment_id = 1}, ObjectFile::kData));
  std::vector<std::byte> contents = fs_.Contents(path);
  contents.resize(contents.size() - 1);
  fs_.SetContents(path, contents);
  EXPECT_THAT(segment->PinLayer(1), FailsWith(StatusCode::kCorruption, HasSubstr("layer 1")));
  contents.resize(contents.size() + 2);
  fs_.SetContents(path, contents);
  EXPECT_THAT(segment->FindDamage().status,
              FailsWith(StatusCode::kCorruption, HasSubstr("length")));
}

TEST_F(SegmentTest, AMissingFileIsDamageNotAbsence) {
  const SegmentData data = RandomSegment({.shape = SmallShape(), .num_tokens = 3}, &random_);
  const SegmentExpectation expected = Write(data);
  for (const ObjectFile file : {ObjectFile::kData, ObjectFile::kManifest}) {
    const std::string path = JoinPath(kDir, FileNameOf({.segment_id = 1}, file));
    const std::vector<std::byte> contents = fs_.Contents(path);
    ATTNDB_ASSERT_OK(fs_.Remove(path));
    EXPECT_THAT(Open(expected), FailsWith(StatusCode::kCorruption, HasSubstr(path)));
    fs_.SetContents(path, contents);
  }
}

TEST_F(SegmentTest, SwappedFilesAreDetected) {
  const KvShape shape = SmallShape();
  const SegmentData a = RandomSegment({.shape = shape, .num_tokens = 3, .segment_id = 1}, &random_);
  const SegmentData b = RandomSegment({.shape = shape, .num_tokens = 3, .segment_id = 2}, &random_);
  const SegmentExpectation expected = Write(a);
  (void)Write(b);
  const auto copy = [&](ObjectFile file) {
    fs_.SetContents(JoinPath(kDir, FileNameOf({.segment_id = 1}, file)),
                    fs_.Contents(JoinPath(kDir, FileNameOf({.segment_id = 2}, file))));
  };
  copy(ObjectFile::kData);
  EXPECT_THAT(Open(expected), FailsWith(StatusCode::kCorruption, HasSubstr("CRC-32C")));
  copy(ObjectFile::kManifest);
  EXPECT_THAT(Open(expected), FailsWith(StatusCode::kCorruption, HasSubstr("SHA-256")));
}

// The catalog names the right files for the wrong segment: each field of the identity matters.
TEST_F(SegmentTest, AForeignSegmentIsDetectedByEachFieldOfItsIdentity) {
  const SegmentData data = RandomSegment({.shape = SmallShape(), .num_tokens = 3}, &random_);
  const SegmentExpectation right = Write(data);
  const auto expect = [&](const char* field, auto change) {
    SegmentExpectation wrong = right;
    change(&wrong.identity);
    EXPECT_THAT(Open(wrong),
                FailsWith(StatusCode::kCorruption, AllOf(HasSubstr(field), HasSubstr("expected"))))
        << field;
  };
  expect("store_uuid", [](SegmentIdentity* id) { id->store_uuid[3] ^= std::byte{1}; });
  expect("model_identity", [](SegmentIdentity* id) { id->model_identity[31] ^= std::byte{1}; });
  expect("first_position", [](SegmentIdentity* id) { ++id->first_position; });
  expect("num_tokens", [](SegmentIdentity* id) { ++id->num_tokens; });
  expect("shape", [](SegmentIdentity* id) { id->shape.dtype = DType::kBFloat16; });
  expect("shape", [](SegmentIdentity* id) { id->shape.layers[1].v_head_dim = 15; });
  expect("shape", [](SegmentIdentity* id) { id->shape.layers.pop_back(); });

  // And the id, which is in the file name: the files of another under this one's name.
  for (const ObjectFile file : {ObjectFile::kData, ObjectFile::kManifest}) {
    ATTNDB_ASSERT_OK(fs_.Rename(JoinPath(kDir, FileNameOf({.segment_id = 1}, file)),
                                JoinPath(kDir, FileNameOf({.segment_id = 9}, file))));
  }
  expect("segment 0000000000000009", [](SegmentIdentity* id) { id->segment_id = 9; });
}

TEST_F(SegmentTest, ADamagedLayerIsReportedEachTimeAndTheOthersWork) {
  const SegmentData data = RandomSegment({.shape = SmallShape(), .num_tokens = 500}, &random_);
  ATTNDB_ASSERT_OK_AND_ASSIGN(const auto segment, Open(Write(data)));
  const std::string path = JoinPath(kDir, FileNameOf({.segment_id = 1}, ObjectFile::kData));
  std::vector<std::byte> contents = fs_.Contents(path);
  contents[contents.size() - 100] ^= std::byte{4};
  fs_.SetContents(path, contents);
  for (int i = 0; i < 3; ++i) {
    EXPECT_THAT(segment->PinLayer(1),
                FailsWith(StatusCode::kCorruption,
                          AllOf(HasSubstr(path), HasSubstr("layer 1"), HasSubstr("granule"),
                                HasSubstr("expected"), HasSubstr("found"))));
  }
  ATTNDB_ASSERT_OK_AND_ASSIGN(const LayerPin pin, segment->PinLayer(0));
  ExpectLayer(pin, data, 0);
}

// --- Life in memory.

TEST_F(SegmentTest, AnOpenSegmentOutlivesItsFilesAndAPinOutlivesTheSegment) {
  const SegmentData data = RandomSegment({.shape = SmallShape(), .num_tokens = 10}, &random_);
  ATTNDB_ASSERT_OK_AND_ASSIGN(auto segment, Open(Write(data)));
  ATTNDB_ASSERT_OK(RemoveSegment(&fs_, kDir, 1));
  ATTNDB_ASSERT_OK_AND_ASSIGN(LayerPin pin, segment->PinLayer(0));
  segment.reset();
  ExpectLayer(pin, data, 0);
  EXPECT_GT(budget_.used_bytes(), 0u);
  pin = LayerPin();
  EXPECT_EQ(budget_.used_bytes(), 0u);
}

TEST_F(SegmentTest, APinnedLayerIsReadOnce) {
  const SegmentData data = RandomSegment({.shape = SmallShape(), .num_tokens = 10}, &random_);
  ATTNDB_ASSERT_OK_AND_ASSIGN(const auto segment, Open(Write(data)));
  EXPECT_EQ(segment->resident_bytes(), 0u);
  ATTNDB_ASSERT_OK_AND_ASSIGN(const LayerPin first, segment->PinLayer(0));
  ATTNDB_ASSERT_OK_AND_ASSIGN(const LayerPin second, segment->PinLayer(0));
  EXPECT_EQ(first.rows(0).k, second.rows(0).k);
  EXPECT_EQ(segment->resident_bytes(), budget_.used_bytes());
}

TEST_F(SegmentTest, UnderATightBudgetUnpinnedLayersAreDroppedAndReadAgain) {
  const KvShape shape =
      UniformShape(DType::kFloat16, 4, {.num_kv_heads = 2, .head_dim = 64, .v_head_dim = 64});
  const SegmentData data = RandomSegment({.shape = shape, .num_tokens = 100}, &random_);
  const SegmentExpectation expected = Write(data);
  const uint64_t layer_bytes = 100 * LayerBytesPerToken(shape, 0) + 2 * kGranuleBytes;
  MemoryBudget tight(2 * layer_bytes);
  ATTNDB_ASSERT_OK_AND_ASSIGN(const auto segment, Segment::Open(&fs_, kDir, expected, &tight));
  for (int round = 0; round < 3; ++round) {
    for (LayerId layer = 0; layer < 4; ++layer) {
      ATTNDB_ASSERT_OK_AND_ASSIGN(const LayerPin pin, segment->PinLayer(layer));
      ExpectLayer(pin, data, layer);
      EXPECT_LE(tight.used_bytes(), tight.limit_bytes());
    }
  }
  // Two of four layers fit. A round finds one of them there, where dropping the least recently used
  // would find none.
  EXPECT_GE(tight.num_dropped(), 6u);
  EXPECT_LE(tight.num_dropped(), 8u);

  ATTNDB_ASSERT_OK_AND_ASSIGN(const LayerPin zero, segment->PinLayer(0));
  ATTNDB_ASSERT_OK_AND_ASSIGN(const LayerPin one, segment->PinLayer(1));
  EXPECT_THAT(segment->PinLayer(2),
              FailsWith(StatusCode::kResourceExhausted,
                        AllOf(HasSubstr("layer 2"), HasSubstr(FormatBytes(tight.limit_bytes())))));
  ExpectLayer(zero, data, 0);
  ExpectLayer(one, data, 1);
}

TEST_F(SegmentTest, TheSegmentThatWasPinnedLongestAgoMakesRoom) {
  const KvShape shape =
      UniformShape(DType::kFloat16, 1, {.num_kv_heads = 1, .head_dim = 64, .v_head_dim = 64});
  MemoryBudget tight(2 * 64 * LayerBytesPerToken(shape, 0) + 2 * kGranuleBytes);
  std::vector<std::shared_ptr<Segment>> segments;
  for (uint64_t id = 1; id <= 3; ++id) {
    const SegmentData data =
        RandomSegment({.shape = shape, .num_tokens = 64, .segment_id = id}, &random_);
    segments.push_back(Segment::Open(&fs_, kDir, Write(data), &tight).value());
  }
  for (const size_t pinned : {0u, 1u, 0u, 2u}) ATTNDB_ASSERT_OK(segments[pinned]->PinLayer(0));
  EXPECT_GT(segments[0]->resident_bytes(), 0u);
  EXPECT_EQ(segments[1]->resident_bytes(), 0u);
  EXPECT_GT(segments[2]->resident_bytes(), 0u);
}

// The reads of a decoder with a context that is a little larger than memory.
TEST_F(SegmentTest, GoingRoundTheLayersReadsLittleMoreThanWhatDoesNotFit) {
  constexpr uint32_t kLayers = 10, kFit = 8, kRounds = 20;
  const KvShape shape =
      UniformShape(DType::kFloat16, kLayers, {.num_kv_heads = 1, .head_dim = 64, .v_head_dim = 64});
  const SegmentData data = RandomSegment({.shape = shape, .num_tokens = 64}, &random_);
  const SegmentExpectation expected = Write(data);
  MemoryBudget tight(kFit * (64 * LayerBytesPerToken(shape, 0) + 2 * kGranuleBytes));
  ATTNDB_ASSERT_OK_AND_ASSIGN(const auto segment, Segment::Open(&fs_, kDir, expected, &tight));
  for (uint32_t round = 0; round < kRounds; ++round) {
    for (LayerId layer = 0; layer < kLayers; ++layer) {
      ATTNDB_ASSERT_OK(segment->PinLayer(layer));
    }
  }
  EXPECT_LE(tight.num_dropped(), kRounds * (kLayers - kFit + 1));
}

TEST_F(SegmentTest, OfManyFirstPinsOneReads) {
  const KvShape shape =
      UniformShape(DType::kFloat16, 1, {.num_kv_heads = 4, .head_dim = 64, .v_head_dim = 64});
  const SegmentData data = RandomSegment({.shape = shape, .num_tokens = 2000}, &random_);
  const SegmentExpectation expected = Write(data);
  test::FaultFileSystem counting(&fs_);
  uint64_t num_reads_of_one = 0;
  for (const uint32_t num_threads : {1u, 4u}) {
    ATTNDB_ASSERT_OK_AND_ASSIGN(const auto segment,
                                Segment::Open(&counting, kDir, expected, &budget_));
    counting.SetPlan({});
    std::vector<std::thread> threads;
    std::atomic<uint32_t> num_ready = 0;
    for (uint32_t i = 0; i < num_threads; ++i) {
      threads.emplace_back([&] {
        ++num_ready;
        while (num_ready < num_threads) std::this_thread::yield();
        ATTNDB_ASSERT_OK_AND_ASSIGN(const LayerPin pin, segment->PinLayer(0));
        ExpectLayer(pin, data, 0);
      });
    }
    for (std::thread& thread : threads) thread.join();
    if (num_threads == 1) num_reads_of_one = counting.num_operations();
    EXPECT_EQ(counting.num_operations(), num_reads_of_one);
  }
  EXPECT_GT(num_reads_of_one, 0u);
}

TEST_F(SegmentTest, AnExceptionWhileALayerLoadsLeavesItToTheNextThatAsks) {
  const KvShape shape =
      UniformShape(DType::kFloat16, 1, {.num_kv_heads = 2, .head_dim = 16, .v_head_dim = 16});
  const SegmentData data = RandomSegment({.shape = shape, .num_tokens = 40}, &random_);
  const SegmentExpectation expected = Write(data);
  test::FaultFileSystem faults(&fs_);
  ATTNDB_ASSERT_OK_AND_ASSIGN(const std::shared_ptr<Segment> segment,
                              Segment::Open(&faults, kDir, expected, &budget_));
  faults.SetPlan({.fail_at = 1, .kind = test::FaultKind::kNoMemory});
  EXPECT_THROW((void)segment->PinLayer(0), std::bad_alloc);
  EXPECT_THAT(segment->PinLayer(0), test::IsOk());  // Waits for nobody.
  EXPECT_GT(segment->resident_bytes(), 0u);
}

TEST_F(SegmentTest, RoundTripsOnTheMachinesFiles) {
  const KvShape shape =
      UniformShape(DType::kBFloat16, 2, {.num_kv_heads = 2, .head_dim = 128, .v_head_dim = 128});
  const SegmentData data =
      RandomSegment({.shape = shape, .num_tokens = 1500, .num_queries = 50}, &random_);
  const test::TempDir dir;
  DataSource source(&data, 256);
  ATTNDB_ASSERT_OK_AND_ASSIGN(
      const WrittenSegment written,
      WriteSegment({.file_system = PosixFileSystem(), .dir = dir.path(), .identity = data.identity},
                   &source));
  ATTNDB_ASSERT_OK_AND_ASSIGN(
      const auto segment,
      Segment::Open(PosixFileSystem(), dir.path(),
                    {.identity = data.identity, .root_hash = written.root_hash}, &budget_));
  EXPECT_EQ(segment->file_bytes(), written.file_bytes);
  for (LayerId layer = 0; layer < 2; ++layer) {
    ATTNDB_ASSERT_OK_AND_ASSIGN(const LayerPin pin, segment->PinLayer(layer));
    ExpectLayer(pin, data, layer);
    ATTNDB_ASSERT_OK_AND_ASSIGN(const LayerQueries queries, segment->ReadQueries(layer));
    ExpectQueries(queries, data, layer);
  }
  ATTNDB_EXPECT_OK(segment->FindDamage().status);
  ATTNDB_EXPECT_OK(RemoveSegment(PosixFileSystem(), dir.path(), 1));
  EXPECT_TRUE(PosixFileSystem()->List(dir.path())->empty());
}

TEST_F(SegmentTest, ManyThreadsPinUnderATightBudget) {
  const KvShape shape =
      UniformShape(DType::kBFloat16, 6, {.num_kv_heads = 1, .head_dim = 32, .v_head_dim = 32});
  const SegmentData data = RandomSegment({.shape = shape, .num_tokens = 200}, &random_);
  const SegmentExpectation expected = Write(data);
  // Room for each thread's pin and one more: layers come and go all the time.
  constexpr uint32_t kThreads = 4;
  MemoryBudget tight((kThreads + 1) * (200 * LayerBytesPerToken(shape, 0) + 2 * kGranuleBytes));
  ATTNDB_ASSERT_OK_AND_ASSIGN(const auto segment, Segment::Open(&fs_, kDir, expected, &tight));
  std::vector<std::thread> threads;
  for (uint32_t thread = 0; thread < kThreads; ++thread) {
    threads.emplace_back([&, thread] {
      Random random(thread);
      for (int i = 0; i < 300; ++i) {
        const auto layer = static_cast<LayerId>(random.Uniform(6));
        ATTNDB_ASSERT_OK_AND_ASSIGN(const LayerPin pin, segment->PinLayer(layer));
        ExpectLayer(pin, data, layer);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_LE(tight.used_bytes(), tight.limit_bytes());
}

TEST_F(SegmentTest, FindDamageReportsProgressAndCanBeStopped) {
  const KvShape shape =
      UniformShape(DType::kFloat32, 2, {.num_kv_heads = 2, .head_dim = 128, .v_head_dim = 128});
  const SegmentData data = RandomSegment({.shape = shape, .num_tokens = 700}, &random_);
  ATTNDB_ASSERT_OK_AND_ASSIGN(const auto segment, Open(Write(data)));
  std::vector<uint64_t> steps;
  const SegmentDamage found = segment->FindDamage([&](uint64_t done) {
    steps.push_back(done);
    return true;
  });
  ATTNDB_EXPECT_OK(found.status);
  EXPECT_TRUE(std::ranges::is_sorted(steps));
  EXPECT_GE(steps.size(), 2u);
  EXPECT_EQ(steps.back(), *fs_.FileSize(JoinPath(kDir, "0000000000000001.seg")));
  EXPECT_THAT(segment->FindDamage([](uint64_t) { return false; }).status,
              FailsWith(StatusCode::kCancelled, HasSubstr("offset")));
  EXPECT_EQ(budget_.used_bytes(), 0u);
}

// --- Mistakes of the caller.

TEST_F(SegmentTest, AShapeThatNoSegmentHasIsNotOpened) {
  const SegmentData data = RandomSegment({.shape = SmallShape(), .num_tokens = 3}, &random_);
  SegmentExpectation expected = Write(data);
  expected.identity.shape.layers.clear();
  EXPECT_THAT(Open(expected), FailsWith(StatusCode::kInvalidArgument, HasSubstr("num_layers")));
}

TEST_F(SegmentTest, LayersAndTokensThatItHasNotAreMistakes) {
  constexpr uint64_t kTokens = 10;
  const SegmentData data = RandomSegment({.shape = SmallShape(), .num_tokens = kTokens}, &random_);
  ATTNDB_ASSERT_OK_AND_ASSIGN(const auto segment, Open(Write(data)));
  const char* const no_layer = "layer < shape\\(\\).layers.size";
  EXPECT_DEATH((void)segment->PinLayer(2, 1), no_layer);
  EXPECT_DEATH((void)segment->PinLayer(0, kTokens + 1), "num_first <= num_tokens");
  EXPECT_DEATH((void)segment->ReadQueries(2), no_layer);
  const auto read = [&](uint64_t begin, uint64_t end) {
    return segment->ReadRows(0, 0, RowPart::kKeys, {begin, end}).status();
  };
  EXPECT_DEATH((void)read(5, 4), "tokens.begin <= tokens.end");
  EXPECT_DEATH((void)read(0, kTokens + 1), "tokens.end <= num_tokens");
  ATTNDB_EXPECT_OK(read(kTokens, kTokens));
}

}  // namespace
}  // namespace attndb::storage
