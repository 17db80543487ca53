// Goal:   a process with a store stays within its memory limit and a constant: sampled queries,
//         scratch of sparse plans, derived objects, and damaged files that claim to be huge; each
//         alone, and all at once.
// Method: a limit far below the needs of the work. A thread watches the process's resident memory,
//         minus its size before the store was opened. Calls that are refused for lack of memory are
//         tried again, and must succeed in the end.
#include <malloc.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <fstream>
#include <thread>

#include "api/database.h"
#include "api/db_access.h"
#include "api/db_test_util.h"
#include "storage/io/file_system.h"
#include "testing/sanitizers.h"

namespace attndb {
namespace {

using test::DBFixture;
using test::FailsWith;
using test::Tokens;
using test::ToyModel;
using ::testing::HasSubstr;

using namespace std::chrono_literals;

constexpr uint64_t kMiB = uint64_t{1} << 20;
constexpr uint64_t kLimit = 48 * kMiB;
constexpr uint64_t kBeyond = 64 * kMiB;  // Code, catalog, lists, and the allocator's reserves.

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
            std::this_thread::sleep_for(1ms);
          }
        }) {}
  ~PeakMemory() { (void)Stop(); }
  // Bytes beyond those at the beginning. Sanitizers keep several bytes for each byte, and freed
  // bytes, too: under them nothing can be measured.
  uint64_t Stop() {
    stop_.store(true);
    if (watcher_.joinable()) watcher_.join();
#if defined(__SANITIZE_THREAD__)
    return 0;
#endif
    return test::HasAddressSanitizer() ? 0 : peak_ - std::min(peak_, start_);
  }

 private:
  // First returns the memory that earlier tests have freed, so that it does not hide new
  // allocations.
  static uint64_t Begin() {
    (void)malloc_trim(0);
    return ResidentBytes();
  }

  const uint64_t start_ = Begin();
  std::atomic<bool> stop_ = false;
  uint64_t peak_ = 0;
  std::thread watcher_;
};

constexpr std::array kSparsePlans = {
    "topk(k=8000)",
    "mass(p=0.99)",
    "topk(k=5000,bits=4,remainder=mean)",
    "topk(k=4000,index=clustered)",
    "topk(k=4000,index=quest)",
    "topk(k=4000,index=pq)",
    "dipr(beta=4)",
};

// A call that fails for lack of memory is retried until other threads have freed theirs.
template <typename F>
Status Insist(const F& attempt, std::chrono::milliseconds patience = 60s) {
  const auto end = std::chrono::steady_clock::now() + patience;
  for (;;) {
    Status status = attempt();
    if (status.code() != StatusCode::kResourceExhausted) return status;
    if (std::chrono::steady_clock::now() > end) return status;
    std::this_thread::sleep_for(1ms);
  }
}

class MemoryLimitTest : public DBFixture {
 protected:
  static constexpr size_t kCallsAtOnce = 40;

  MemoryLimitTest() : DBFixture(/*background_builds=*/true) {}

  void OpenWith(DBOptions options) {
    options.host_memory_bytes = kLimit;
    Open(options);
  }
  // A machine of our own, as its files tell of it.
  void WriteOfMachine(const std::string& path, const std::string& content) {
    const std::filesystem::path file = dir_.File("machine" + path);
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << content;
  }
  void OpenOnMachine(DBOptions options) {
    db_.reset();
    options.clock = [this] { return now_us_; };
    ATTNDB_ASSERT_OK_AND_ASSIGN(
        const auto database, internal::Database::Open(store(), options, storage::PosixFileSystem(),
                                                      {.machine_root = dir_.File("machine")}));
    db_.emplace(internal::DbAccess::Wrap(database));
  }
  void OpenInContainer(uint64_t free_bytes, const DBOptions& options) {
    WriteOfMachine("/proc/meminfo", "MemAvailable: 8388608 kB\n");
    WriteOfMachine("/proc/self/cgroup", "0::/\n");
    WriteOfMachine("/sys/fs/cgroup/memory.max", std::to_string(1024 * kMiB) + "\n");
    WriteOfMachine("/sys/fs/cgroup/memory.current",
                   std::to_string(1024 * kMiB - free_bytes) + "\n");
    OpenOnMachine(options);
  }
  static ModelSpec OneLayer(uint32_t num_q_heads, uint32_t num_kv_heads, uint32_t dim,
                            const std::string& fingerprint) {
    LayerSpec layer;
    layer.num_q_heads = num_q_heads;
    layer.num_kv_heads = num_kv_heads;
    layer.head_dim = dim;
    layer.v_head_dim = dim;
    return ModelSpec::Uniform(1, layer, DType::kFloat16, fingerprint);
  }

  // Sessions of 500 tokens that together would keep 4 times the limit of q, and half of it of K and
  // V; no more are begun once there is no memory for another one.
  void RunWithSampledQueries() {
    const ToyModel wide(OneLayer(32, 2, 128, "wide"));
    const Tokens tokens = ToyModel::Tokens(500, 1);
    std::vector<Session> sessions;
    const auto begin_another = [&]() -> Status {
      ATTNDB_ASSIGN_OR_RETURN(SessionStart start,
                              db_->CreateSession(wide.spec(), tokens, {.reuse = false}));
      ATTNDB_RETURN_IF_ERROR(wide.Step(&start.session, tokens));
      sessions.push_back(std::move(start.session));
      return Status::Ok();
    };
    ATTNDB_EXPECT_OK(Insist(begin_another));
    Status status;
    while (status.ok() && sessions.size() < 48) status = Insist(begin_another, 200ms);
    EXPECT_TRUE(status.ok() || status.code() == StatusCode::kResourceExhausted) << status;
  }

  // A context whose scores take more than its K and V.
  void ImportLong() {
    const test::KvArrays kv(grouped_, long_);
    ATTNDB_ASSERT_OK(db_->Import(grouped_.spec(), long_, kv.layers(), {.name = "long"}));
    ATTNDB_ASSERT_OK(db_->WaitForBackground());
  }

  // Begins calls of the plan, each of a session of its own and with scratch of its own, until there
  // is no memory for another one; then ends them all. Gives their number, at most kCallsAtOnce.
  size_t RunAtOnce(const std::string& plan) {
    std::vector<Call> calls;
    ATTNDB_EXPECT_OK(Insist([&]() -> Status {
      while (calls.size() < kCallsAtOnce) {
        Result<Call> call = BeginCall(plan);
        if (!call.ok()) return calls.empty() ? call.status() : Status::Ok();
        calls.push_back(*std::move(call));
      }
      return Status::Ok();
    }));
    EXPECT_GE(calls.size(), 1u) << plan;
    for (Call& call : calls) ATTNDB_EXPECT_OK(RunPart(1, &call));
    return calls.size();
  }

  void RunSparsePlans() {
    for (const char* plan : kSparsePlans) EXPECT_LT(RunAtOnce(plan), kCallsAtOnce) << plan;
    (void)RunAtOnce("auto(error=0.01)");  // It may choose a plan whose scratch is small.
  }

  // A context whose manifests claim, by their length, to be that large; most of each is a hole.
  void StoreAndExtendManifests(int64_t num_bytes) {
    ATTNDB_ASSERT_OK(StoreTokens(extended_, {.name = "extended"}));
    ATTNDB_ASSERT_OK(db_->WaitForBackground());
    db_.reset();
    for (const auto& entry : std::filesystem::directory_iterator(store() + "/segments")) {
      const std::string name = entry.path().filename().string();
      if (name.find("manifest") == std::string::npos) continue;
      ASSERT_EQ(truncate(entry.path().c_str(), num_bytes), 0);
    }
    Open();
  }
  Status ReadExtended() { return Read("extended", extended_); }

  Status Read(const std::string& name, const Tokens& tokens) {
    ATTNDB_ASSIGN_OR_RETURN(
        SessionStart start,
        db_->CreateSession(model_.spec(), test::Concat(tokens, Tokens{1}), {.context = name}));
    EXPECT_EQ(start.session.num_reused(), tokens.size());
    return model_.Step(&start.session, start.rest);
  }
  void StoreAndRead(uint64_t i) {
    const Tokens tokens = ToyModel::Tokens(300, 2000 + i);
    const std::string name = "read" + std::to_string(i % 4);
    ATTNDB_EXPECT_OK(Insist([&]() -> Status {
      ATTNDB_ASSIGN_OR_RETURN(SessionStart start, db_->CreateSession(model_.spec(), tokens));
      ATTNDB_RETURN_IF_ERROR(model_.Step(&start.session, start.rest));
      return db_->Store(start.session, tokens, {.name = name, .replace = true}).status();
    }));
    ATTNDB_EXPECT_OK(Insist([&] { return Read(name, tokens); }));
  }

 private:
  // An Attend in two parts, of which one may not have come yet.
  struct Call {
    Session session;
    std::vector<float> q;
    std::vector<float> out;
  };

  Result<Call> BeginCall(const std::string& plan) {
    const Tokens more = {5};
    ATTNDB_ASSIGN_OR_RETURN(
        SessionStart start,
        db_->CreateSession(grouped_.spec(), test::Concat(long_, more), {.plan = plan}));
    EXPECT_EQ(start.session.num_reused(), long_.size());
    Call call = {std::move(start.session), grouped_.Queries(0, more, long_.size()), {}};
    call.out.resize(call.q.size());
    const std::vector<float> k = grouped_.Keys(0, more, long_.size());
    const std::vector<float> v = grouped_.Values(0, more, long_.size());
    ATTNDB_RETURN_IF_ERROR(
        call.session.Append(0, test::ViewOf(k, 1, kDim), test::ViewOf(v, 1, kDim)));
    ATTNDB_RETURN_IF_ERROR(RunPart(0, &call));
    return call;
  }
  static Status RunPart(uint32_t part, Call* call) {
    const auto out =
        MutableTensorView::Contiguous(call->out.data(), DType::kFloat32, 1, kGroup, kDim);
    return call->session.AttendPart(0, test::ViewOf(call->q, kGroup, kDim), out, nullptr, part, 2);
  }

  static constexpr uint32_t kGroup = 32;
  static constexpr uint32_t kDim = 16;
  const ToyModel grouped_{OneLayer(kGroup, 1, kDim, "grouped")};
  const Tokens long_ = ToyModel::Tokens(40'000, 1);
  const Tokens extended_ = ToyModel::Tokens(100, 2);
};

TEST_F(MemoryLimitTest, SampledQueriesAreCounted) {
  PeakMemory peak;
  OpenWith({.query_sample = 16.0});
  RunWithSampledQueries();
  EXPECT_LE(peak.Stop(), kLimit + kBeyond);
  EXPECT_LE(db_->Stats()->memory_bytes, kLimit);
}

TEST_F(MemoryLimitTest, SparsePlansTakeNoMoreThanTheLimit) {
  ImportLong();
  db_.reset();
  PeakMemory peak;
  OpenWith({});
  RunSparsePlans();
  EXPECT_LE(peak.Stop(), kLimit + kBeyond);
}

TEST_F(MemoryLimitTest, AManifestThatWasExtendedIsRefusedBeforeItIsHeld) {
  StoreAndExtendManifests(256 * kMiB);
  db_.reset();
  PeakMemory peak;
  OpenWith({});
  EXPECT_THAT(ReadExtended(), FailsWith(StatusCode::kCorruption, HasSubstr("manifest")));
  EXPECT_LE(peak.Stop(), kBeyond);
}

// Sampled q, scratch and the manifest would each exceed the limit: three quarters of a container's
// free memory.
TEST_F(MemoryLimitTest, AllOfItAtOnceStaysWithinTheLimit) {
  StoreAndExtendManifests(1024 * kMiB);
  ImportLong();
  db_.reset();
  PeakMemory peak;
  OpenInContainer(kLimit / 3 * 4, {.query_sample = 16.0, .num_threads = 1});
  EXPECT_EQ(db_->Stats()->memory_limit_bytes, kLimit);
  std::atomic<int> num_running = 3;
  std::thread sampled([&] {
    RunWithSampledQueries();
    --num_running;
  });
  std::thread sparse([&] {
    RunSparsePlans();
    --num_running;
  });
  std::thread extended([&] {
    EXPECT_THAT(Insist([&] { return ReadExtended(); }),
                FailsWith(StatusCode::kCorruption, HasSubstr("manifest")));
    --num_running;
  });
  for (uint64_t i = 0; i < 10 || num_running.load() > 0; ++i) StoreAndRead(i);
  sampled.join();
  sparse.join();
  extended.join();
  EXPECT_LE(peak.Stop(), kLimit + kBeyond);
  EXPECT_LE(db_->Stats()->memory_bytes, kLimit);
}

TEST_F(MemoryLimitTest, TheDefaultIsThreeQuartersOfWhatItsContainerHasLeft) {
  const auto limit = [this](uint64_t asked) {
    OpenOnMachine({.host_memory_bytes = asked});
    return db_->Stats()->memory_limit_bytes;
  };
  WriteOfMachine("/proc/meminfo", "MemAvailable: 8388608 kB\n");
  EXPECT_EQ(limit(0), 6144 * kMiB);
  OpenInContainer(800 * kMiB, {});
  EXPECT_EQ(db_->Stats()->memory_limit_bytes, 600 * kMiB);
  EXPECT_EQ(limit(0), 600 * kMiB);
  EXPECT_EQ(limit(kLimit), kLimit);
}

}  // namespace
}  // namespace attndb
