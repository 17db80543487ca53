// Goal:   a process with a store stays within its memory limit and a constant: sampled queries,
//         scratch of sparse plans, what is derived, and damaged files that claim to be huge.
// Method: a limit far below what the work would take; the process's resident memory, looked at all
//         the while by a thread, less what it had before the store was opened.
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <fstream>
#include <thread>

#include "api/db_test_util.h"

namespace attndb {
namespace {

using test::DBFixture;
using test::FailsWith;
using test::Tokens;
using test::ToyModel;
using ::testing::HasSubstr;

constexpr uint64_t kMiB = uint64_t{1} << 20;
constexpr uint64_t kLimit = 48 * kMiB;
constexpr uint64_t kBeyond = 64 * kMiB;  // Code, catalog, lists, and what the allocator keeps.

uint64_t ResidentBytes() {
  std::ifstream statm("/proc/self/statm");
  uint64_t total_pages = 0;
  uint64_t resident_pages = 0;
  statm >> total_pages >> resident_pages;
  return resident_pages * static_cast<uint64_t>(sysconf(_SC_PAGE_SIZE));
}

// The most that the process held while this lived.
class PeakMemory {
 public:
  PeakMemory()
      : watcher_([this] {
          while (!stop_.load()) {
            peak_ = std::max(peak_, ResidentBytes());
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
          }
        }) {}
  ~PeakMemory() { (void)Stop(); }
  // Bytes beyond those at the beginning.
  uint64_t Stop() {
    stop_.store(true);
    if (watcher_.joinable()) watcher_.join();
    return peak_ - std::min(peak_, start_);
  }

 private:
  const uint64_t start_ = ResidentBytes();
  std::atomic<bool> stop_ = false;
  uint64_t peak_ = 0;
  std::thread watcher_;
};

class MemoryLimitTest : public DBFixture {
 protected:
  MemoryLimitTest() : DBFixture(/*background_builds=*/true) {}

  void OpenWith(DBOptions options) {
    options.host_memory_bytes = kLimit;
    Open(options);
  }
  // A session whose q takes much more than its K and V.
  static ModelSpec WideSpec() {
    LayerSpec layer;
    layer.num_q_heads = 8;
    layer.num_kv_heads = 8;
    layer.head_dim = 128;
    layer.v_head_dim = 128;
    return ModelSpec::Uniform(1, layer, DType::kFloat16, "wide");
  }
};

TEST_F(MemoryLimitTest, SampledQueriesAreCounted) {
  OpenWith({.query_sample = 16.0});
  const ToyModel wide(WideSpec());
  PeakMemory peak;
  Session session =
      std::move(db_->CreateSession(wide.spec(), Tokens{1}, {.reuse = false})->session);
  for (uint64_t step = 0; step < 20; ++step) {
    ATTNDB_ASSERT_OK(wide.Step(&session, ToyModel::Tokens(250, step)));
  }
  EXPECT_EQ(session.num_tokens(), 5000u);  // 20 MB of K and V, and room for 30 of 170 MB of q.
  EXPECT_LE(peak.Stop(), kLimit + kBeyond);
  EXPECT_LE(db_->Stats()->memory_bytes, kLimit);
}

TEST_F(MemoryLimitTest, SparsePlansTakeNoMoreThanTheLimit) {
  OpenWith({});
  const Tokens tokens = ToyModel::Tokens(16'000, 1);
  {
    const test::KvArrays kv(model_, tokens);
    ATTNDB_ASSERT_OK(db_->Import(model_.spec(), tokens, kv.layers(), {.name = "long"}));
  }
  ATTNDB_ASSERT_OK(db_->WaitForBackground());
  OpenWith({});
  PeakMemory peak;
  for (const char* plan : {"topk(k=8000)", "mass(p=0.99)", "topk(k=5000,bits=4,remainder=mean)",
                           "auto(error=0.01)", "topk(k=4000,index=clustered)",
                           "topk(k=4000,index=quest)", "topk(k=4000,index=pq)", "dipr(beta=4)"}) {
    SCOPED_TRACE(plan);
    std::vector<Session> sessions;
    for (int i = 0; i < 3; ++i) {
      SessionStart start = Start(test::Concat(tokens, Tokens{5}), {.plan = plan});
      const Status status = model_.Step(&start.session, start.rest);
      EXPECT_TRUE(status.ok() || status.code() == StatusCode::kResourceExhausted) << status;
      sessions.push_back(std::move(start.session));
    }
    (void)db_->WaitForBackground();
  }
  EXPECT_LE(peak.Stop(), kLimit + kBeyond);
}

TEST_F(MemoryLimitTest, AManifestThatWasExtendedIsRefusedBeforeItIsHeld) {
  OpenWith({.query_sample = 0.0});
  const Tokens tokens = ToyModel::Tokens(100, 1);
  ATTNDB_ASSERT_OK(StoreTokens(tokens, {.name = "a"}));
  ATTNDB_ASSERT_OK(db_->WaitForBackground());
  db_.reset();
  for (const auto& entry : std::filesystem::directory_iterator(store() + "/segments")) {
    const std::string name = entry.path().filename().string();
    if (name.find("manifest") == std::string::npos) continue;
    ASSERT_EQ(truncate(entry.path().c_str(), 256 * kMiB), 0);  // A hole: it takes no disk.
  }
  OpenWith({});
  PeakMemory peak;
  EXPECT_THAT(
      db_->CreateSession(model_.spec(), test::Concat(tokens, Tokens{1}), {.context = "a"}).status(),
      FailsWith(StatusCode::kCorruption, HasSubstr("manifest")));
  EXPECT_LE(peak.Stop(), kBeyond);
}

}  // namespace
}  // namespace attndb
