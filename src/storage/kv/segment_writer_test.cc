// Goal:   a segment exists wholly or not at all, and acknowledged segments survive a power cut.
// Method: the n-th operation of the file system fails, for every n, once and for good, in four
//         ways; power cuts after every operation; cancelling at every moment; sources that are
//         wrong.
// Replay: ATTNDB_SEED=17 ctest -R storage_test
#include "storage/kv/segment_writer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "common/aligned_buffer.h"
#include "storage/kv/kv_layout.h"
#include "storage/kv/segment.h"
#include "storage/vfs/format.h"
#include "storage/vfs/store_files.h"
#include "testing/event.h"
#include "testing/fault_file_system.h"
#include "testing/matchers.h"
#include "testing/memory_file_system.h"
#include "testing/seed.h"
#include "testing/segment_data.h"

namespace attndb::storage {
namespace {

using test::DataSource;
using test::FailsWith;
using test::FaultFileSystem;
using test::FaultKind;
using test::MemoryFileSystem;
using test::RandomSegment;
using test::SegmentData;
using test::UniformShape;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

const std::string kDir = "segments";
constexpr uint64_t kPlenty = uint64_t{1} << 30;

bool KnowsNone(const ObjectName&) { return false; }

// More than one buffer of the writer, so that there are several appends.
SegmentData SomeData(Random* random, uint64_t num_tokens = 900) {
  const KvShape shape =
      UniformShape(DType::kFloat16, 3, {.num_kv_heads = 2, .head_dim = 64, .v_head_dim = 64});
  return RandomSegment({.shape = shape, .num_tokens = num_tokens, .num_queries = 20}, random);
}

Result<WrittenSegment> Write(FileSystem* file_system, const SegmentData& data,
                             const std::atomic<bool>* cancel = nullptr) {
  DataSource source(&data, 64);
  return WriteSegment(
      {.file_system = file_system, .dir = kDir, .identity = data.identity, .cancel = cancel},
      &source);
}

Status Verify(FileSystem* file_system, const SegmentData& data, const Sha256Digest& root_hash) {
  MemoryBudget budget(kPlenty);
  ATTNDB_ASSIGN_OR_RETURN(
      const auto segment,
      Segment::Open(file_system, kDir, {.identity = data.identity, .root_hash = root_hash},
                    &budget));
  ATTNDB_ASSIGN_OR_RETURN(const std::vector<TokenId> tokens, segment->ReadTokens());
  EXPECT_EQ(tokens, data.tokens);
  return segment->FindDamage().status;
}

class SegmentWriterTest : public ::testing::Test {
 protected:
  SegmentWriterTest() { ATTNDB_EXPECT_OK(fs_.CreateDir(kDir)); }

  void RemoveAll(const std::vector<std::string>& names) {
    for (const std::string& name : names) {
      ATTNDB_EXPECT_OK(fs_.Remove(JoinPath(kDir, name)));
    }
  }

  MemoryFileSystem fs_;
  Random random_{test::SeedOr(40)};
};

TEST_F(SegmentWriterTest, LeavesTwoFilesAndSaysHowLongTheyAre) {
  const SegmentData data = SomeData(&random_);
  ATTNDB_ASSERT_OK_AND_ASSIGN(const WrittenSegment written, Write(&fs_, data));
  EXPECT_THAT(*fs_.List(kDir), ElementsAre("0000000000000001.manifest", "0000000000000001.seg"));
  EXPECT_EQ(written.file_bytes, *fs_.FileSize(JoinPath(kDir, "0000000000000001.manifest")) +
                                    *fs_.FileSize(JoinPath(kDir, "0000000000000001.seg")));
  uint64_t query_bytes = 0;
  for (const auto& layer : data.layers) {
    for (const auto& head : layer) query_bytes += head.q.size() + 8 * head.query_tokens.size();
  }
  EXPECT_EQ(written.query_bytes, query_bytes);
  ATTNDB_EXPECT_OK(Verify(&fs_, data, written.root_hash));
}

TEST_F(SegmentWriterTest, WhatItTakesIsKnownBeforehand) {
  for (const uint64_t num_tokens : {1u, 7u, 300u}) {
    const KvShape shape = UniformShape(num_tokens == 7 ? DType::kFloat32 : DType::kFloat16, 3,
                                       {.num_kv_heads = 2, .head_dim = 40, .v_head_dim = 64});
    const SegmentData data = RandomSegment(
        {.shape = shape, .num_tokens = num_tokens, .segment_id = num_tokens}, &random_);
    std::vector<std::vector<uint64_t>> num_queries;
    for (const auto& layer : data.layers) {
      num_queries.emplace_back();
      for (const auto& head : layer) num_queries.back().push_back(head.query_tokens.size());
    }
    ATTNDB_ASSERT_OK_AND_ASSIGN(const WrittenSegment written, Write(&fs_, data));
    EXPECT_EQ(SegmentFileBytes(shape, num_tokens, num_queries), written.file_bytes);
    EXPECT_EQ(SegmentFileBytes(shape, uint64_t{1} << 60, num_queries), std::nullopt);
  }
}

TEST_F(SegmentWriterTest, ThePriceOfASmallSegmentIsSmall) {
  const KvShape shape =
      UniformShape(DType::kFloat16, 30, {.num_kv_heads = 3, .head_dim = 64, .v_head_dim = 64});
  for (const uint64_t num_tokens : {1u, 100u}) {
    const SegmentData data = RandomSegment(
        {.shape = shape, .num_tokens = num_tokens, .segment_id = num_tokens}, &random_);
    ATTNDB_ASSERT_OK_AND_ASSIGN(const WrittenSegment written, Write(&fs_, data));
    EXPECT_LE(written.file_bytes, num_tokens * BytesPerToken(shape) * 101 / 100 + 48 * 1024);
  }
}

// --- Faults.

struct FaultCase {
  FaultKind kind;
  bool sticky;
  bool removes_fail;
};

class SegmentWriterFaultTest : public SegmentWriterTest,
                               public ::testing::WithParamInterface<FaultCase> {};

TEST_P(SegmentWriterFaultTest, AFailedWriteLeavesNothingThatIsTakenForASegment) {
  const SegmentData data = SomeData(&random_);
  const FaultCase& fault = GetParam();
  FaultFileSystem faults(&fs_);
  uint64_t num_failures = 0;
  for (uint64_t n = 1;; ++n) {
    faults.SetPlan({.fail_at = n,
                    .sticky = fault.sticky,
                    .kind = fault.kind,
                    .removes_fail = fault.removes_fail});
    const Result<WrittenSegment> written = Write(&faults, data);
    if (faults.num_faults() == 0) {
      ATTNDB_ASSERT_OK(written);
      ATTNDB_EXPECT_OK(Verify(&fs_, data, written->root_hash));
      break;
    }
    ++num_failures;
    ASSERT_FALSE(written.ok()) << n;
    ASSERT_THAT(written.status().message(), HasSubstr("injected fault")) << n;
    // A file that could not be removed is found at the next open. Then the id may be used again.
    ATTNDB_ASSERT_OK_AND_ASSIGN(const std::vector<std::string> orphans,
                                ListOrphans(&fs_, kDir, KnowsNone));
    ASSERT_EQ(orphans, *fs_.List(kDir)) << n;
    // A file that was created or renamed by a call that reported failure may be anyone's.
    const bool may_leave_files = fault.removes_fail || fault.kind == FaultKind::kErrorAfter;
    ASSERT_TRUE(may_leave_files || orphans.empty()) << n;
    RemoveAll(orphans);
  }
  EXPECT_GE(num_failures, 12u);
}

INSTANTIATE_TEST_SUITE_P(Kinds, SegmentWriterFaultTest,
                         ::testing::Values(FaultCase{FaultKind::kIoError, false, false},
                                           FaultCase{FaultKind::kIoError, true, true},
                                           FaultCase{FaultKind::kNoSpace, false, false},
                                           FaultCase{FaultKind::kNoSpace, true, false},
                                           FaultCase{FaultKind::kTornWrite, false, false},
                                           FaultCase{FaultKind::kTornWrite, true, true},
                                           FaultCase{FaultKind::kErrorAfter, false, false},
                                           FaultCase{FaultKind::kErrorAfter, true, true}));

// A segment of zeros with one head, whose sections have `num_rows` rows each.
SegmentData LongSections(uint64_t num_rows, Random* random) {
  const KvShape shape =
      UniformShape(DType::kFloat16, 1, {.num_kv_heads = 1, .head_dim = 16, .v_head_dim = 16});
  SegmentData data = RandomSegment({.shape = shape}, random);
  data.identity.num_tokens = num_rows;
  data.tokens.assign(num_rows, 0);
  test::HeadData& head = data.layers[0][0];
  for (AlignedBuffer* rows : {&head.k, &head.v, &head.q}) {
    *rows = *AlignedBuffer::AllocateZeroed(num_rows * KRowBytes(shape, 0));
  }
  head.query_tokens.assign(num_rows, 0);
  head.query_heads.assign(num_rows, 0);
  return data;
}

// The file does not remember the error, so that it is lost unless the writer sees it where it is
// met: at the end of a section's rows or, with one row less, in the padding behind them.
TEST_F(SegmentWriterTest, AWriteThatFailsOnceInAnySectionFailsTheSegment) {
  constexpr uint64_t kBufferBytes = uint64_t{512} << 10;  // The object writer's.
  constexpr uint64_t kTokensOfBuffer = kBufferBytes / sizeof(TokenId);
  // The room for the head, and buffers that are full by the end of tokens, keys, values, queries
  // and their indices.
  const std::vector<uint64_t> last_buffers = {0, 1, 9, 17, 25, 27};
  for (const uint64_t num_rows : {kTokensOfBuffer, kTokensOfBuffer - 1}) {
    const SegmentData data = LongSections(num_rows, &random_);
    for (const uint64_t buffer : last_buffers) {
      const uint64_t operation = 2 + buffer;  // A file is created first.
      FaultFileSystem faults(&fs_);
      faults.SetPlan({.fail_at = operation, .removes_fail = false, .forgets = true});
      DataSource source(&data, num_rows);
      EXPECT_THAT(
          WriteSegment({.file_system = &faults, .dir = kDir, .identity = data.identity}, &source),
          FailsWith(StatusCode::kIoError, HasSubstr("injected fault: append")));
      EXPECT_EQ(faults.num_operations(), operation) << "the writer went on";
      EXPECT_THAT(*fs_.List(kDir), IsEmpty());
      RemoveAll(*fs_.List(kDir));
    }
  }
}

TEST_F(SegmentWriterTest, AReadFaultIsAnErrorOnceAndNoLastingDamage) {
  const SegmentData data = SomeData(&random_);
  ATTNDB_ASSERT_OK_AND_ASSIGN(const WrittenSegment written, Write(&fs_, data));
  FaultFileSystem faults(&fs_);
  const SegmentExpectation expected{.identity = data.identity, .root_hash = written.root_hash};
  uint64_t num_failures = 0;
  for (uint64_t n = 1;; ++n) {
    MemoryBudget budget(kPlenty);
    faults.SetPlan({.fail_at = n});
    Result<std::shared_ptr<Segment>> segment = Segment::Open(&faults, kDir, expected, &budget);
    const auto read = [&]() -> Status {
      if (!segment.ok()) return segment.status();
      ATTNDB_RETURN_IF_ERROR((*segment)->ReadTokens().status());
      for (LayerId layer = 0; layer < 3; ++layer) {
        ATTNDB_RETURN_IF_ERROR((*segment)->PinLayer(layer).status());
        ATTNDB_RETURN_IF_ERROR((*segment)->ReadQueries(layer).status());
      }
      // Opened anew, like in Verify.
      ATTNDB_ASSIGN_OR_RETURN(const auto fresh, Segment::Open(&faults, kDir, expected, &budget));
      return fresh->FindDamage().status;
    };
    const Status first = read();
    if (faults.num_faults() == 0) {
      ATTNDB_EXPECT_OK(first);
      break;
    }
    ++num_failures;
    ASSERT_THAT(first, FailsWith(StatusCode::kIoError, HasSubstr("injected fault"))) << n;
    if (!segment.ok()) continue;
    ATTNDB_ASSERT_OK(read()) << n;
  }
  EXPECT_GE(num_failures, 20u);
}

// --- Power cuts.

TEST_F(SegmentWriterTest, AnAcknowledgedSegmentSurvivesEveryPowerCut) {
  const SegmentData data = SomeData(&random_);
  for (uint64_t seed = 0; seed < 50; ++seed) {
    MemoryFileSystem fs;
    ATTNDB_ASSERT_OK(fs.CreateDir(kDir));
    ATTNDB_ASSERT_OK_AND_ASSIGN(const WrittenSegment written, Write(&fs, data));
    fs.PowerCut(seed);
    ATTNDB_ASSERT_OK(Verify(&fs, data, written.root_hash)) << "power cut " << seed;
  }
}

TEST_F(SegmentWriterTest, APowerCutAtAnyOperationLeavesOnlyOrphans) {
  const SegmentData data = SomeData(&random_);
  for (uint64_t n = 1;; ++n) {
    MemoryFileSystem fs;
    ATTNDB_ASSERT_OK(fs.CreateDir(kDir));
    FaultFileSystem dying(&fs);
    dying.SetPlan({.fail_at = n, .sticky = true});
    const bool finished = Write(&dying, data).ok();
    fs.PowerCut(random_.Next());
    ATTNDB_ASSERT_OK_AND_ASSIGN(const std::vector<std::string> orphans,
                                ListOrphans(&fs, kDir, KnowsNone));
    ASSERT_EQ(orphans, *fs.List(kDir)) << n;
    if (finished) break;
    for (const std::string& name : orphans) {
      ATTNDB_ASSERT_OK(fs.Remove(JoinPath(kDir, name)));
    }
    ATTNDB_ASSERT_OK_AND_ASSIGN(const WrittenSegment again, Write(&fs, data));
    ATTNDB_ASSERT_OK(Verify(&fs, data, again.root_hash)) << n;
  }
}

// Forgets one kind of sync: the bug that the power cuts above must be able to find.
class ForgetfulFileSystem final : public FileSystem {
 public:
  ForgetfulFileSystem(FileSystem* base, bool forget_files) : base_(base), files_(forget_files) {}

  Result<std::unique_ptr<RandomAccessFile>> OpenForRead(const std::string& path) override {
    return base_->OpenForRead(path);
  }
  Result<std::unique_ptr<WritableFile>> CreateNew(const std::string& path) override {
    ATTNDB_ASSIGN_OR_RETURN(auto file, base_->CreateNew(path));
    if (!files_) return file;
    return std::unique_ptr<WritableFile>(std::make_unique<NeverSynced>(std::move(file)));
  }
  Status Rename(const std::string& from, const std::string& to) override {
    return base_->Rename(from, to);
  }
  Status Remove(const std::string& path) override { return base_->Remove(path); }
  Result<std::vector<std::string>> List(const std::string& dir) override {
    return base_->List(dir);
  }
  Status CreateDir(const std::string& path) override { return base_->CreateDir(path); }
  Status SyncDir(const std::string& dir) override {
    return files_ ? base_->SyncDir(dir) : Status::Ok();
  }
  Result<uint64_t> FileSize(const std::string& path) override { return base_->FileSize(path); }
  Result<uint64_t> FreeBytes(const std::string& dir) override { return base_->FreeBytes(dir); }
  Result<std::unique_ptr<FileLock>> Lock(const std::string& path) override {
    return base_->Lock(path);
  }

 private:
  class NeverSynced final : public WritableFile {
   public:
    explicit NeverSynced(std::unique_ptr<WritableFile> base) : base_(std::move(base)) {}
    Status Append(std::span<const std::byte> data) override { return base_->Append(data); }
    Status WriteAt(uint64_t offset, std::span<const std::byte> data) override {
      return base_->WriteAt(offset, data);
    }
    Status Sync() override { return Status::Ok(); }
    Status Close() override { return base_->Close(); }

   private:
    const std::unique_ptr<WritableFile> base_;
  };

  FileSystem* const base_;
  const bool files_;
};

TEST_F(SegmentWriterTest, PowerCutsFindAForgottenSync) {
  const SegmentData data = SomeData(&random_);
  for (const bool forget_files : {true, false}) {
    int num_damaged = 0;
    for (uint64_t seed = 0; seed < 20; ++seed) {
      MemoryFileSystem fs;
      ATTNDB_ASSERT_OK(fs.CreateDir(kDir));
      ForgetfulFileSystem forgetful(&fs, forget_files);
      ATTNDB_ASSERT_OK_AND_ASSIGN(const WrittenSegment written, Write(&forgetful, data));
      fs.PowerCut(seed);
      if (!Verify(&fs, data, written.root_hash).ok()) ++num_damaged;
    }
    EXPECT_GT(num_damaged, 0) << "forget_files " << forget_files;
  }
}

// --- Cancelling, and sources that are wrong.

TEST_F(SegmentWriterTest, CancellingLeavesNothing) {
  const SegmentData data = SomeData(&random_);
  const std::atomic<bool> cancelled = true;
  FaultFileSystem files(&fs_);
  EXPECT_THAT(Write(&files, data, &cancelled), FailsWith(StatusCode::kCancelled, HasSubstr("1")));
  EXPECT_EQ(files.num_operations(), 0u);
}

// The last moment at which nothing has its final name yet.
TEST_F(SegmentWriterTest, CancellingWhileTheManifestIsSyncedLeavesNothing) {
  const SegmentData data = SomeData(&random_, 10);
  FaultFileSystem files(&fs_);
  ATTNDB_ASSERT_OK(Write(&files, data));
  constexpr uint64_t kOperationsBehind = 4;  // Close, two renames, and a sync of the folder.
  const uint64_t sync = files.num_operations() - kOperationsBehind;
  RemoveAll(*fs_.List(kDir));
  test::Event in_sync, go_on;
  files.SetPlan({.fail_at = sync, .waits_for = &go_on, .waiting = &in_sync});
  std::atomic<bool> cancel = false;
  std::thread canceller([&] {
    in_sync.Await();
    cancel = true;
    go_on.Set();
  });
  EXPECT_THAT(Write(&files, data, &cancel), FailsWith(StatusCode::kCancelled, HasSubstr("1")));
  canceller.join();
  EXPECT_EQ(files.num_operations(), sync + 1 + 2) << "closed, and two files removed";
  EXPECT_THAT(*fs_.List(kDir), IsEmpty());
}

// A source that does something in each layer, before it serves the data.
class HookedSource final : public SegmentSource {
 public:
  using Hook = std::function<Status(LayerId)>;
  HookedSource(const SegmentData* data, Hook hook) : base_(data, 100), hook_(std::move(hook)) {}

  std::span<const TokenId> tokens() const override { return base_.tokens(); }
  Status LoadLayer(LayerId layer) override {
    ATTNDB_RETURN_IF_ERROR(hook_(layer));
    return base_.LoadLayer(layer);
  }
  std::span<const KvRows> rows(uint32_t kv_head) override { return base_.rows(kv_head); }
  std::span<const QueryRows> queries(uint32_t kv_head) override { return base_.queries(kv_head); }

 private:
  DataSource base_;
  const Hook hook_;
};

// Layers are longer than the writer's buffer, so that none is loaded after the one that is stopped.
TEST_F(SegmentWriterTest, CancellingInAnyLayerLeavesNothing) {
  const SegmentData data = SomeData(&random_, 1200);
  for (LayerId stop_at = 0; stop_at < 3; ++stop_at) {
    std::atomic<bool> cancel = false;
    HookedSource source(&data, [&](LayerId layer) {
      if (layer == stop_at) cancel = true;
      EXPECT_LE(layer, stop_at);
      return Status::Ok();
    });
    EXPECT_THAT(
        WriteSegment(
            {.file_system = &fs_, .dir = kDir, .identity = data.identity, .cancel = &cancel},
            &source),
        FailsWith(StatusCode::kCancelled, HasSubstr("segment 0000000000000001")));
    EXPECT_THAT(*fs_.List(kDir), IsEmpty());
  }
}

TEST_F(SegmentWriterTest, TheSourcesErrorIsPassedOn) {
  const SegmentData data = SomeData(&random_);
  HookedSource source(&data, [](LayerId layer) {
    return layer == 2 ? Status::Corruption("an older segment") : Status::Ok();
  });
  EXPECT_EQ(
      WriteSegment({.file_system = &fs_, .dir = kDir, .identity = data.identity}, &source).status(),
      Status::Corruption("an older segment"));
  EXPECT_THAT(*fs_.List(kDir), IsEmpty());
}

TEST_F(SegmentWriterTest, ArgumentsThatDoNotFitAreRefusedByName) {
  const SegmentData good = SomeData(&random_);
  const auto expect = [&](const char* message, auto damage) {
    Random random(1);
    SegmentData bad = SomeData(&random);
    damage(&bad);
    EXPECT_THAT(Write(&fs_, bad), FailsWith(StatusCode::kInvalidArgument, HasSubstr(message)));
    EXPECT_THAT(*fs_.List(kDir), IsEmpty());
  };
  expect("token 7: expected 0 or more, found -3", [](SegmentData* d) { d->tokens[7] = -3; });
  expect("tokens: expected 901, found 900", [](SegmentData* d) { d->identity.num_tokens = 901; });
  expect("num_tokens: expected 1 to", [](SegmentData* d) { d->identity.num_tokens = 0; });
  expect("num_tokens: expected 1 to", [](SegmentData* d) { d->identity.num_tokens = 1ull << 40; });
  expect("num_tokens: expected 1 to 2147483648, found 2147483649",
         [](SegmentData* d) { d->identity.num_tokens = kMaxSegmentTokens + 1; });
  expect("tokens: expected 2147483648, found 900",
         [](SegmentData* d) { d->identity.num_tokens = kMaxSegmentTokens; });
  expect("num_layers", [](SegmentData* d) { d->identity.shape.layers.clear(); });
  expect("layer 1: head_dim", [](SegmentData* d) { d->identity.shape.layers[1].head_dim = 5000; });
  expect("queries of layer 1, head 0: token index: expected 0 to 899, found 900",
         [](SegmentData* d) {
           d->layers[1][0].query_tokens.assign(1, 900);
           d->layers[1][0].query_heads.assign(1, 0);
         });
  expect("token index: expected 5 to 899, found 4", [](SegmentData* d) {
    d->layers[2][1].query_tokens = {5, 4};
    d->layers[2][1].query_heads = {0, 0};
  });
}

TEST_F(SegmentWriterTest, RunsMustHoldAllTokens) {
  const SegmentData data = SomeData(&random_);
  const SegmentData shorter = SomeData(&random_, 899);
  class ShortSource final : public SegmentSource {
   public:
    ShortSource(const SegmentData* tokens, const SegmentData* rows)
        : tokens_(tokens), base_(rows, 100) {}
    std::span<const TokenId> tokens() const override { return tokens_->tokens; }
    Status LoadLayer(LayerId layer) override { return base_.LoadLayer(layer); }
    std::span<const KvRows> rows(uint32_t kv_head) override { return base_.rows(kv_head); }
    std::span<const QueryRows> queries(uint32_t) override { return {}; }

   private:
    const SegmentData* const tokens_;
    DataSource base_;
  };
  ShortSource source(&data, &shorter);
  EXPECT_THAT(WriteSegment({.file_system = &fs_, .dir = kDir, .identity = data.identity}, &source),
              FailsWith(StatusCode::kInvalidArgument,
                        HasSubstr("layer 0, head 0: expected 900, found 899")));
}

TEST_F(SegmentWriterTest, FilesThatAreThereAlreadyAreNotTouched) {
  const SegmentData data = SomeData(&random_);
  for (const bool temporary : {true, false}) {
    for (const ObjectFile file : {ObjectFile::kData, ObjectFile::kManifest}) {
      const ObjectName name{.segment_id = 1};
      const std::string path =
          JoinPath(kDir, temporary ? TemporaryNameOf(name, file) : FileNameOf(name, file));
      const std::vector<std::byte> theirs = {std::byte{7}};
      fs_.SetContents(path, theirs);
      EXPECT_THAT(Write(&fs_, data), FailsWith(StatusCode::kAlreadyExists, HasSubstr(path)));
      EXPECT_THAT(*fs_.List(kDir), ElementsAre(path.substr(kDir.size() + 1)));
      EXPECT_EQ(fs_.Contents(path), theirs);
      ATTNDB_ASSERT_OK(fs_.Remove(path));
    }
  }
}

}  // namespace
}  // namespace attndb::storage
