// Shared by tests of derived objects: a kind whose objects are the first bytes of each head's rows,
// and a store of one segment that records its calls.
//
// Threads: FakeStore is thread-safe.
#ifndef ATTNDB_DERIVED_DERIVED_TEST_UTIL_H_
#define ATTNDB_DERIVED_DERIVED_TEST_UTIL_H_

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/mutex.h"
#include "common/random.h"
#include "derived/cache.h"
#include "derived/kinds.h"
#include "derived/object_files.h"
#include "derived/owned_head.h"
#include "derived/store.h"
#include "storage/kv/segment.h"
#include "storage/kv/segment_writer.h"
#include "testing/matchers.h"
#include "testing/memory_file_system.h"
#include "testing/segment_data.h"

namespace attndb::test {

class FirstBytesKind final : public derived::Kind {
 public:
  static constexpr size_t kBytes = 32;
  using Bytes = std::vector<std::byte>;
  using Hook = std::function<Status(const derived::HeadSource&)>;

  // `on_build` is called before each head is built, and fails the build with its status.
  explicit FirstBytesKind(Traits traits, Hook on_build = nullptr)
      : Kind(std::move(traits)), on_build_(std::move(on_build)) {}

  static Traits Of(const std::string& name) {
    return {.use = name, .object = name, .parts = {"first"}, .min_tokens = 100};
  }
  // The bytes of a head; empty if it has none.
  static Bytes BytesOf(const derived::Head& head) {
    if (head.owner == nullptr) return {};
    return std::static_pointer_cast<const derived::OwnedHead<Bytes>>(head.owner)->object;
  }

  uint64_t HeadBytes(const storage::KvRun&, LayerId, const LayerSpec&) const override {
    return kBytes;
  }
  Result<derived::BuiltHead> Build(const derived::HeadSource& source) const override {
    if (on_build_) {
      ATTNDB_RETURN_IF_ERROR(on_build_(source));
    }
    const auto owned = derived::Own(Bytes(source.rows, source.rows + kBytes));
    return derived::BuiltHead{{.owner = owned}, {owned->object}, source.run->num_tokens()};
  }
  Result<derived::Head> Parse(derived::HeadParts parts) const override {
    const auto bytes = parts.parts[0].bytes;
    return derived::Head{.owner = derived::Own(Bytes(bytes.begin(), bytes.end()))};
  }

 private:
  const Hook on_build_;
};

// A folder with a segment of 300 tokens, with two kv heads in each of two layers. The second layer
// has a sliding window.
class FakeStore final : public derived::Store {
 public:
  static constexpr uint64_t kSegment = 7;
  static constexpr uint64_t kTokens = 300;

  explicit FakeStore(storage::MemoryBudget* budget) : budget_(budget), files_(&fs_, kDir, {}) {
    ATTNDB_EXPECT_OK(fs_.CreateDir(kDir));
    Random random(1);
    data_ = RandomSegment({.shape = UniformShape(DType::kFloat16, 2, {2, 16, 16}),
                           .num_tokens = kTokens,
                           .num_queries = 8,
                           .segment_id = kSegment},
                          &random);
    DataSource source(&data_, kTokens);
    const auto written = storage::WriteSegment(
        {.file_system = &fs_, .dir = kDir, .identity = data_.identity}, &source);
    EXPECT_THAT(written, IsOk());
    segment_ = *storage::Segment::Open(&fs_, kDir, {data_.identity, written->root_hash}, budget_);
    LayerSpec layer;
    layer.num_q_heads = layer.num_kv_heads = 2;
    layer.head_dim = layer.v_head_dim = 16;
    spec_ = ModelSpec::Uniform(2, layer, DType::kFloat16, "test");
    spec_.layers[1].sliding_window = 50;
  }

  const ModelSpec& spec() const { return spec_; }
  const storage::Segment& segment() const { return *segment_; }
  const std::shared_ptr<const storage::Segment>& segment_ptr() const { return segment_; }
  const derived::ObjectFiles& files() const { return files_; }
  MemoryFileSystem& file_system() { return fs_; }
  // The expected bytes of a head in an object that is made of keys.
  FirstBytesKind::Bytes ExpectedOf(uint32_t kv_head) const {
    const std::byte* const k = data_.head(0, kv_head).k.data();
    return {k, k + FirstBytesKind::kBytes};
  }

  derived::SegmentFacts facts() const {
    MutexLock lock(&mutex_);
    return FactsLocked();
  }
  // Sets the status that Admit returns from now on.
  void Refuse(Status status) {
    MutexLock lock(&mutex_);
    admits_ = std::move(status);
  }
  // Sets the status that PublishObject returns from now on.
  void RefuseToPublish(Status status) {
    MutexLock lock(&mutex_);
    publishes_ = std::move(status);
  }
  // Makes OpenSegment fail as if the segment were gone.
  void Drop() {
    MutexLock lock(&mutex_);
    dropped_ = true;
  }
  uint64_t num_opened() const {
    MutexLock lock(&mutex_);
    return num_opened_;
  }
  // The bytes passed to Admit.
  std::vector<uint64_t> admitted_bytes() const {
    MutexLock lock(&mutex_);
    return admitted_bytes_;
  }
  // The number of holders of the segment, this store included, at each call of SegmentReleased.
  std::vector<int64_t> num_holders() const {
    MutexLock lock(&mutex_);
    return num_holders_;
  }
  std::vector<storage::ObjectName> lost() const {
    MutexLock lock(&mutex_);
    return lost_;
  }
  // The statuses of failed reads that were reported since the last call.
  std::vector<Status> TakeDamage() {
    MutexLock lock(&mutex_);
    return std::exchange(damage_, {});
  }
  // Names of the files in the folder.
  std::vector<std::string> Files() { return *fs_.List(kDir); }
  // Publishes an object, as another process would.
  Status WriteObject(const derived::Kind& kind) {
    ATTNDB_ASSIGN_OR_RETURN(const uint64_t generation, ReserveGeneration());
    ATTNDB_ASSIGN_OR_RETURN(const auto writer, files_.Create(*segment_, kind, generation, nullptr));
    ATTNDB_RETURN_IF_ERROR(kind.Write(*segment_, spec_, nullptr, writer.get(), [](LayerId) {}));
    ATTNDB_ASSIGN_OR_RETURN(const storage::WrittenObject written, writer->Finish());
    return PublishObject(kSegment, {.kind = kind.traits().object,
                                    .generation = generation,
                                    .file_bytes = 0,
                                    .root_hash = written.root_hash});
  }

  Result<derived::OpenedSegment> OpenSegment(derived::SegmentId) override {
    MutexLock lock(&mutex_);
    ++num_opened_;
    if (dropped_) return Status::FailedPrecondition("dropped");
    return derived::OpenedSegment{FactsLocked(), spec_, segment_};
  }
  void SegmentReleased() override {
    MutexLock lock(&mutex_);
    num_holders_.push_back(segment_.use_count());
  }
  Status Admit(derived::SegmentId, std::string_view, uint64_t bytes) override {
    MutexLock lock(&mutex_);
    admitted_bytes_.push_back(bytes);
    return admits_;
  }
  Result<uint64_t> ReserveGeneration() override {
    MutexLock lock(&mutex_);
    return ++generation_;
  }
  Status Wish(derived::SegmentId, std::string_view kind) override {
    MutexLock lock(&mutex_);
    wishes_.emplace_back(kind);
    return Status::Ok();
  }
  Status PublishObject(derived::SegmentId, const derived::ObjectRecord& object) override {
    MutexLock lock(&mutex_);
    ATTNDB_RETURN_IF_ERROR(publishes_);
    std::erase_if(objects_, [&](const auto& old) { return old.kind == object.kind; });
    std::erase(wishes_, object.kind);
    objects_.push_back(object);
    return Status::Ok();
  }
  void DropObject(const storage::ObjectName& name) override {
    MutexLock lock(&mutex_);
    std::erase_if(objects_, [&](const auto& old) { return old.kind == name.kind; });
    files_.Remove(name);
  }
  void ReportDamage(const storage::Segment&, const Status& status) override {
    MutexLock lock(&mutex_);
    if (!status.ok()) damage_.push_back(status);
  }
  void ReportLoss(const storage::ObjectName& name, const Status&) override {
    MutexLock lock(&mutex_);
    lost_.push_back(name);
    std::erase_if(objects_, [&](const auto& old) { return old.kind == name.kind; });
  }

 private:
  static constexpr const char* kDir = "segments";

  derived::SegmentFacts FactsLocked() const ATTNDB_REQUIRES(mutex_) {
    return {.id = kSegment,
            .num_tokens = kTokens,
            .kv_bytes = 1000,
            .objects = objects_,
            .wishes = wishes_};
  }

  storage::MemoryBudget* const budget_;
  MemoryFileSystem fs_;
  derived::ObjectFiles files_;
  SegmentData data_;
  std::shared_ptr<const storage::Segment> segment_;
  ModelSpec spec_;

  mutable Mutex mutex_;
  Status admits_ ATTNDB_GUARDED_BY(mutex_);
  Status publishes_ ATTNDB_GUARDED_BY(mutex_);
  bool dropped_ ATTNDB_GUARDED_BY(mutex_) = false;
  uint64_t generation_ ATTNDB_GUARDED_BY(mutex_) = 0;
  uint64_t num_opened_ ATTNDB_GUARDED_BY(mutex_) = 0;
  std::vector<derived::ObjectRecord> objects_ ATTNDB_GUARDED_BY(mutex_);
  std::vector<std::string> wishes_ ATTNDB_GUARDED_BY(mutex_);
  std::vector<uint64_t> admitted_bytes_ ATTNDB_GUARDED_BY(mutex_);
  std::vector<int64_t> num_holders_ ATTNDB_GUARDED_BY(mutex_);
  std::vector<storage::ObjectName> lost_ ATTNDB_GUARDED_BY(mutex_);
  std::vector<Status> damage_ ATTNDB_GUARDED_BY(mutex_);
};

}  // namespace attndb::test

#endif  // ATTNDB_DERIVED_DERIVED_TEST_UTIL_H_
