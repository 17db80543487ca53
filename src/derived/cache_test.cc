// Goal:   the cache tells which objects are ready without reading files: those that it learned of,
//         less those that were lost or dropped since. Layers are read once, shared, and dropped
//         when memory is needed.
// Method: a folder with a segment and objects of it, damaged and removed.
#include "derived/cache.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <list>
#include <memory>
#include <utility>

#include "derived/derived_test_util.h"
#include "storage/kv/tail_block.h"
#include "storage/vfs/object_name.h"

namespace attndb::derived {
namespace {

using test::FakeStore;
using test::FirstBytesKind;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr uint64_t kLimit = uint64_t{1} << 20;

class CacheTest : public ::testing::Test {
 protected:
  CacheTest() : store_(&budget_), kinds_(MakeKinds()), kind_(*kinds_.all()[0]) {}

  static Kinds MakeKinds() {
    Kinds kinds;
    kinds.Add(std::make_unique<FirstBytesKind>(FirstBytesKind::Of("first")));
    kinds.Add(std::make_unique<FirstBytesKind>(FirstBytesKind::Of("other")));
    return kinds;
  }
  void WriteAndLearn() {
    ATTNDB_ASSERT_OK(store_.WriteObject(kind_));
    cache_.Learn(store_.segment_ptr(), store_.facts());
  }
  storage::ObjectName NameOf(uint64_t generation) const {
    return {FakeStore::kSegment, "first", generation};
  }
  LayerObjectsPtr Find() {
    return cache_.Find(store_.segment(), kind_, 0, store_.spec().layers[0]);
  }

  // Lets all layers in memory go.
  void DropFromMemory() { ATTNDB_ASSERT_OK(budget_.Reserve(kLimit, "all")); }
  // The place of the bytes of the object.
  static std::string PathOf(const storage::ObjectName& name) {
    return "segments/" + storage::FileNameOf(name, storage::ObjectFile::kData);
  }
  // A segment of another id, which nobody else has open.
  std::shared_ptr<const storage::Segment> OpenOther(uint64_t id) {
    Random random(2);
    const test::SegmentData data =
        test::RandomSegment({.shape = store_.segment().shape(), .segment_id = id}, &random);
    test::DataSource source(&data, 1);
    const auto written = storage::WriteSegment(
        {.file_system = &store_.file_system(), .dir = "segments", .identity = data.identity},
        &source);
    EXPECT_THAT(written, test::IsOk());
    return *storage::Segment::Open(&store_.file_system(), "segments",
                                   {data.identity, written->root_hash}, &budget_);
  }

  storage::MemoryBudget budget_{kLimit};
  FakeStore store_;
  const Kinds kinds_;
  const Kind& kind_;
  std::vector<storage::ObjectName> lost_;
  Cache cache_{&kinds_, &budget_, &store_.files(),
               [this](const auto& name, const Kind&, const Status&) { lost_.push_back(name); }};
};

TEST_F(CacheTest, WhatItHasNotLearnedIsNotThere) {
  ATTNDB_ASSERT_OK(store_.WriteObject(kind_));
  EXPECT_EQ(Find(), nullptr);
  cache_.Learn(store_.segment_ptr(), store_.facts());
  const LayerObjectsPtr objects = Find();
  ASSERT_NE(objects, nullptr);
  EXPECT_EQ(FirstBytesKind::BytesOf(objects->head(1)), store_.ExpectedOf(1));
  EXPECT_EQ(Find(), objects);
  EXPECT_EQ(cache_.counters(kind_).num_read, 1u);
  EXPECT_EQ(cache_.Find(store_.segment(), *kinds_.all()[1], 0, store_.spec().layers[0]), nullptr);
}

TEST_F(CacheTest, TheVersionTellsWhenWhatIsReadyHasChanged) {
  EXPECT_TRUE(cache_.ReadyKinds(FakeStore::kSegment, 0).none());
  uint64_t version = cache_.version();
  WriteAndLearn();
  EXPECT_GT(cache_.version(), version);
  EXPECT_EQ(cache_.ReadyKinds(FakeStore::kSegment, 0), KindSet(1));
  (void)Find();
  version = cache_.version();
  (void)Find();
  cache_.Learn(store_.segment_ptr(), store_.facts());
  EXPECT_EQ(cache_.version(), version) << "nothing new";
  cache_.Forget(NameOf(1));
  EXPECT_GT(cache_.version(), version);
}

TEST_F(CacheTest, ALostObjectIsReportedOnceAndNotLearnedAgain) {
  WriteAndLearn();
  store_.files().Remove(NameOf(1));
  EXPECT_EQ(Find(), nullptr);
  EXPECT_EQ(Find(), nullptr);
  EXPECT_THAT(lost_, SizeIs(1));
  cache_.Learn(store_.segment_ptr(), store_.facts());  // An outdated record.
  EXPECT_FALSE(cache_.IsOnDisk(FakeStore::kSegment, kind_));
  WriteAndLearn();  // A newer one.
  EXPECT_NE(Find(), nullptr);
}

TEST_F(CacheTest, WhatIsDroppedIsForgottenUnlessItWasReplaced) {
  WriteAndLearn();
  WriteAndLearn();
  cache_.Forget(NameOf(1));
  EXPECT_TRUE(cache_.IsOnDisk(FakeStore::kSegment, kind_));
  cache_.Forget(NameOf(2));
  EXPECT_FALSE(cache_.IsOnDisk(FakeStore::kSegment, kind_));
  EXPECT_EQ(Find(), nullptr);
  cache_.Forget({FakeStore::kSegment, "unknown", 3});
  cache_.Forget({8, "first", 3});
  EXPECT_THAT(lost_, IsEmpty());
}

TEST_F(CacheTest, LayersGoWhenMemoryIsWantedAndAreReadAgain) {
  WriteAndLearn();
  ASSERT_NE(Find(), nullptr);
  {
    ATTNDB_ASSERT_OK_AND_ASSIGN(const storage::Reservation all, budget_.Reserve(kLimit, "all"));
    EXPECT_FALSE(cache_.IsInMemory(FakeStore::kSegment, kind_, 0));
    EXPECT_EQ(Find(), nullptr) << "no memory is no loss";
    EXPECT_TRUE(cache_.IsOnDisk(FakeStore::kSegment, kind_));
  }
  EXPECT_NE(Find(), nullptr);
  EXPECT_EQ(cache_.counters(kind_).num_read, 2u);
  EXPECT_THAT(lost_, IsEmpty());
}

// A kind whose Parse fails with the status, unless that is ok.
class FailingKind final : public Kind {
 public:
  explicit FailingKind(const Status* status)
      : Kind(FirstBytesKind::Of("failing")), status_(status) {}

  uint64_t HeadBytes(const storage::KvRun& run, LayerId layer,
                     const LayerSpec& spec) const override {
    return base_.HeadBytes(run, layer, spec);
  }
  Result<BuiltHead> Build(const HeadSource& source) const override { return base_.Build(source); }
  Result<Head> Parse(HeadParts parts) const override {
    ATTNDB_RETURN_IF_ERROR(*status_);
    return base_.Parse(std::move(parts));
  }

 private:
  const FirstBytesKind base_{FirstBytesKind::Of("failing")};
  const Status* const status_;
};

TEST_F(CacheTest, WhatIsShortOfMemoryIsNotLostAndWhatIsDamagedIs) {
  Status status = Status::ResourceExhausted("test");
  Kinds kinds;
  kinds.Add(std::make_unique<FailingKind>(&status));
  const Kind& failing = *kinds.all()[0];
  Cache cache(&kinds, &budget_, &store_.files(),
              [this](const auto& name, const Kind&, const Status&) { lost_.push_back(name); });
  ATTNDB_ASSERT_OK(store_.WriteObject(failing));
  cache.Learn(store_.segment_ptr(), store_.facts());
  const auto find = [&] {
    return cache.Find(store_.segment(), failing, 0, store_.spec().layers[0]);
  };
  EXPECT_EQ(find(), nullptr);
  EXPECT_TRUE(cache.IsOnDisk(FakeStore::kSegment, failing));
  EXPECT_THAT(lost_, IsEmpty());
  status = Status::Corruption("test");
  EXPECT_EQ(find(), nullptr);
  EXPECT_FALSE(cache.IsOnDisk(FakeStore::kSegment, failing));
  EXPECT_THAT(lost_, SizeIs(1));
}

TEST_F(CacheTest, TheFirstLayerInMemoryIsKept) {
  std::vector<Head> heads(2);
  const uint64_t version = cache_.version();
  cache_.Keep(store_.segment(), kind_, 0, *budget_.ReserveIfFree(100), heads);
  EXPECT_EQ(cache_.version(), version + 1) << "it is ready now";
  EXPECT_EQ(cache_.ReadyKinds(FakeStore::kSegment, 0), KindSet(1));
  EXPECT_TRUE(cache_.ReadyKinds(FakeStore::kSegment, 1).none());
  const LayerObjectsPtr first = Find();
  ASSERT_NE(first, nullptr);
  cache_.Keep(store_.segment(), kind_, 0, *budget_.ReserveIfFree(100), heads);
  EXPECT_EQ(Find(), first);
  EXPECT_EQ(cache_.version(), version + 1);
  EXPECT_EQ(cache_.counters(kind_).num_built, 2u);
  EXPECT_FALSE(cache_.IsOnDisk(FakeStore::kSegment, kind_));
}

TEST_F(CacheTest, ASegmentsOwnerIsLearned) {
  EXPECT_EQ(cache_.OwnerOf(FakeStore::kSegment), 0u);
  SegmentFacts facts = store_.facts();
  facts.owner = 5;
  cache_.Learn(store_.segment_ptr(), facts);
  EXPECT_EQ(cache_.OwnerOf(FakeStore::kSegment), 5u);
  EXPECT_EQ(cache_.OwnerOf(FakeStore::kSegment + 1), 0u);
}

TEST_F(CacheTest, OfSeveralRecordsOfAKindTheNewestIsLearned) {
  SegmentFacts facts = store_.facts();
  for (const uint64_t generation : {2u, 3u, 1u}) {
    facts.objects.push_back({.kind = "first", .generation = generation});
  }
  facts.objects.push_back({.kind = "other", .generation = 9});
  cache_.Learn(store_.segment_ptr(), facts);
  cache_.Forget(NameOf(2));
  EXPECT_TRUE(cache_.IsOnDisk(FakeStore::kSegment, kind_));
  cache_.Forget(NameOf(3));
  EXPECT_FALSE(cache_.IsOnDisk(FakeStore::kSegment, kind_));
  EXPECT_TRUE(cache_.IsOnDisk(FakeStore::kSegment, *kinds_.all()[1]));
}

TEST_F(CacheTest, OfTooManyEntriesThoseGoThatHaveNeitherSegmentNorLayer) {
  constexpr uint64_t kGone = 8;
  WriteAndLearn();
  cache_.Learn(OpenOther(kGone), {.id = kGone, .owner = 5});
  const auto shape = std::make_shared<const storage::KvShape>(store_.segment().shape());
  std::list<storage::TailBlock> blocks;
  const auto keep_a_block = [&] {
    const storage::TailBlock& block = blocks.emplace_back(shape, 0);
    cache_.Keep(block, kind_, 0, *budget_.ReserveIfFree(1), std::vector<Head>(2));
  };
  while (blocks.size() + 2 < Cache::kMaxIdle) keep_a_block();
  EXPECT_EQ(cache_.OwnerOf(kGone), 5u) << "there is room for so many";
  keep_a_block();
  EXPECT_EQ(cache_.OwnerOf(kGone), 0u);
  EXPECT_TRUE(cache_.IsOnDisk(FakeStore::kSegment, kind_)) << "somebody has it open";
  for (const storage::TailBlock& block : blocks) {
    EXPECT_TRUE(cache_.IsInMemory(block.id(), kind_, 0));
  }
}

// A file system that knows how many files are open to be read, and how many ever were.
class CountedFiles final : public storage::FileSystem {
 public:
  using ReadableFile = storage::RandomAccessFile;

  explicit CountedFiles(storage::FileSystem* base) : base_(base) {}

  int num_open() const { return num_open_; }
  int num_opened() const { return num_opened_; }
  // Called once, when a file is opened next.
  void set_on_open(std::function<void()> on_open) { on_open_ = std::move(on_open); }

  Result<std::unique_ptr<ReadableFile>> OpenForRead(const std::string& path) override {
    if (on_open_) std::exchange(on_open_, nullptr)();
    ATTNDB_ASSIGN_OR_RETURN(std::unique_ptr<ReadableFile> file, base_->OpenForRead(path));
    ++num_opened_;
    return std::unique_ptr<ReadableFile>(std::make_unique<Reader>(std::move(file), &num_open_));
  }
  Result<std::unique_ptr<storage::WritableFile>> CreateNew(const std::string& path) override {
    return base_->CreateNew(path);
  }
  Status Rename(const std::string& from, const std::string& to) override {
    return base_->Rename(from, to);
  }
  Status Remove(const std::string& path) override { return base_->Remove(path); }
  Result<std::vector<std::string>> List(const std::string& dir) override {
    return base_->List(dir);
  }
  Status CreateDir(const std::string& path) override { return base_->CreateDir(path); }
  Status SyncDir(const std::string& dir) override { return base_->SyncDir(dir); }
  Result<uint64_t> FileSize(const std::string& path) override { return base_->FileSize(path); }
  Result<uint64_t> FreeBytes(const std::string& dir) override { return base_->FreeBytes(dir); }
  Result<std::unique_ptr<storage::FileLock>> Lock(const std::string& path) override {
    return base_->Lock(path);
  }

 private:
  class Reader final : public ReadableFile {
   public:
    Reader(std::unique_ptr<ReadableFile> file, int* num_open)
        : file_(std::move(file)), num_open_(num_open) {
      ++*num_open_;
    }
    ~Reader() override { --*num_open_; }
    Status ReadAt(uint64_t offset, std::span<std::byte> out) const override {
      return file_->ReadAt(offset, out);
    }
    Result<uint64_t> Size() const override { return file_->Size(); }

   private:
    const std::unique_ptr<ReadableFile> file_;
    int* const num_open_;
  };

  storage::FileSystem* const base_;
  std::function<void()> on_open_;
  int num_open_ = 0;
  int num_opened_ = 0;
};

// A cache of the store's objects whose files are counted.
class CacheFilesTest : public CacheTest {
 protected:
  void WriteAndLearn(const Kind& kind) {
    ATTNDB_ASSERT_OK(store_.WriteObject(kind));
    Learn();
  }
  void Learn() { counted_.Learn(store_.segment_ptr(), store_.facts()); }
  LayerObjectsPtr Find(const Kind& kind, LayerId layer = 0) {
    return counted_.Find(store_.segment(), kind, layer, store_.spec().layers[layer]);
  }
  // Reads the layer from its file.
  void Read(const Kind& kind) {
    DropFromMemory();
    EXPECT_NE(Find(kind), nullptr);
  }
  // Damages the bytes of the object's rows.
  void Damage(const storage::ObjectName& name) {
    std::vector<std::byte> bytes = store_.file_system().Contents(PathOf(name));
    std::ranges::fill(bytes, std::byte{0x55});
    store_.file_system().SetContents(PathOf(name), std::move(bytes));
  }

  CountedFiles file_system_{&store_.file_system()};
  const ObjectFiles files_{&file_system_, "segments", {}};
  Cache counted_{&kinds_, &budget_, &files_,
                 [this](const auto& name, const Kind&, const Status&) { lost_.push_back(name); }};
};

TEST_F(CacheFilesTest, AFileIsOpenedOnceForAllItsLayers) {
  WriteAndLearn(kind_);
  ASSERT_NE(Find(kind_, 0), nullptr);
  EXPECT_EQ(file_system_.num_open(), 1);
  const int num_opened = file_system_.num_opened();
  ASSERT_NE(Find(kind_, 1), nullptr);
  Read(kind_);
  EXPECT_EQ(file_system_.num_opened(), num_opened);
}

// Else the disk would have its bytes until the process ends.
TEST_F(CacheFilesTest, TheFileOfAnObjectThatIsDroppedIsClosed) {
  WriteAndLearn(kind_);
  ASSERT_NE(Find(kind_), nullptr);
  counted_.Forget(NameOf(1));
  EXPECT_EQ(file_system_.num_open(), 0);
}

TEST_F(CacheFilesTest, ANewerObjectIsReadFromItsOwnFile) {
  WriteAndLearn(kind_);
  ASSERT_NE(Find(kind_), nullptr);
  WriteAndLearn(kind_);
  EXPECT_EQ(file_system_.num_open(), 0) << "the older one's is closed";
  Damage(NameOf(1));
  Read(kind_);
  EXPECT_THAT(lost_, IsEmpty());
}

TEST_F(CacheFilesTest, AFileThatWasReplacedWhileItWasOpenedIsNotKept) {
  WriteAndLearn(kind_);
  ATTNDB_ASSERT_OK(store_.WriteObject(kind_));
  file_system_.set_on_open([this] { Learn(); });
  ASSERT_NE(Find(kind_), nullptr);
  EXPECT_EQ(file_system_.num_open(), 0);
  Damage(NameOf(1));
  Read(kind_);
  EXPECT_THAT(lost_, IsEmpty());
}

TEST_F(CacheFilesTest, FilesAreClosedOnceSoManyWereOpened) {
  const Kind& other = *kinds_.all()[1];
  WriteAndLearn(other);
  Read(other);
  for (size_t i = 1; i < Cache::kMaxIdle; ++i) {
    WriteAndLearn(kind_);
    Read(kind_);
    ASSERT_EQ(file_system_.num_open(), 2) << "after " << i + 1;
  }
  WriteAndLearn(kind_);
  Read(kind_);
  EXPECT_EQ(file_system_.num_open(), 1);
  Read(other);
  EXPECT_EQ(file_system_.num_open(), 2) << "counted anew";
}

}  // namespace
}  // namespace attndb::derived
