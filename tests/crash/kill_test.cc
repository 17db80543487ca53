// Goal:   a process killed at any moment loses nothing that it acknowledged and leaves nothing that
//         it did not acknowledge. The next process opens the store without a repair.
// Method: kill_worker stores, continues, imports, evicts, merges, drops, pins and asks by indexes,
//         which are built in the background, in a loop and reports each success with chains and
//         hashes of outputs. It is killed with SIGKILL 200 times on one store (short: 40 times, or
//         more until what is rare was there): while it opens, or a random time after it began its
//         first, second or third operation, so that a slow build or machine sees as many operations
//         as a fast one. After each kill the store is opened here and compared with the last
//         report; what was under way may have happened or not, wholly.
// Replay: ATTNDB_SEED=17 ctest -R kill_test (the moments of the kills vary)
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <mutex>
#include <string_view>
#include <thread>

#include "common/random.h"
#include "testing/matchers.h"
#include "testing/seed.h"
#include "testing/store_files.h"
#include "testing/temp_dir.h"
#include "testing/test_size.h"
#include "tests/crash/kill_protocol.h"

namespace attndb::test {
namespace {

constexpr uint64_t kNumKills = 200;     // At most, and in a long run.
constexpr uint64_t kMaxOperations = 3;  // Begun by one worker before it is killed, or few more.
// Workers killed beyond the plan begin more: they live long enough for an index to be built.
constexpr uint64_t kMaxOperationsBeyond = 20;
constexpr uint64_t kMaxDelayMicros = 200'000;

// A worker in its own process; its output is read by a thread, so that it never waits for us.
class WorkerProcess {
 public:
  WorkerProcess(const std::string& store, uint64_t seed) {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) std::abort();
    const std::string seed_text = std::to_string(seed);
    pid_ = fork();
    if (pid_ == 0) {
      dup2(ends[1], STDOUT_FILENO);
      execl(ATTNDB_KILL_WORKER, "kill_worker", store.c_str(), seed_text.c_str(), nullptr);
      _exit(127);
    }
    close(ends[1]);
    reader_ = std::thread([this, fd = ends[0]] {
      char buffer[65536];
      ssize_t num_read = 0;
      while ((num_read = read(fd, buffer, sizeof(buffer))) > 0) {
        Append(std::string_view(buffer, static_cast<size_t>(num_read)));
      }
      close(fd);
      const std::lock_guard lock(mutex_);
      is_closed_ = true;
      changed_.notify_one();
    });
  }

  // Until it has begun so many operations, or has ended.
  void WaitForOperations(uint64_t num_operations) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return num_operations_ >= num_operations || is_closed_; });
  }

  // Everything that it said. `killed`: it did not end by itself before.
  std::string Kill(bool* killed) {
    kill(pid_, SIGKILL);
    int status = 0;
    waitpid(pid_, &status, 0);
    reader_.join();
    *killed = WIFSIGNALED(status);
    return std::move(output_);
  }

 private:
  void Append(std::string_view text) {
    const std::lock_guard lock(mutex_);
    output_ += text;
    num_operations_ = ParseWorkerReport(output_).num_begun;
    changed_.notify_one();
  }

  pid_t pid_ = -1;
  std::thread reader_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::string output_;
  uint64_t num_operations_ = 0;
  bool is_closed_ = false;
};

class KillTest : public ::testing::Test {
 protected:
  KillTest() : dir_(TempDir::InMemory()), path_(dir_.File("store")), model_(KillModel()) {}

  void CheckStore(const WorkerReport& report);
  void CheckGone(const WorkerReport& report, const StoreState& found);
  void CheckVisible(const DB& db, const WorkerReport& report, const StoreState& found);
  void CheckFiles(const DB& db);
  // Kills one worker and looks at what it left.
  void KillOne(uint64_t max_operations, Random* random);
  // Whether rare states occurred: under way or present when a worker was killed.
  bool WasWorthLooking() const {
    return num_companions_ > 0 && num_indexes_ > 0 && num_under_way_.size() >= 3;
  }

  TempDir dir_;
  std::string path_;
  ToyModel model_;
  StoreState last_;  // The contents of the store at the last look.
  std::map<std::string, uint64_t> num_under_way_;
  uint64_t num_checked_ = 0;
  uint64_t num_bit_identical_ = 0;
  uint64_t num_completed_ = 0;
  uint64_t num_companions_ = 0;
  uint64_t num_indexes_ = 0;
  uint64_t num_acknowledged_ = 0;
};

void KillTest::CheckStore(const WorkerReport& report) {
  // Without builds the files are those that the worker left.
  ATTNDB_ASSERT_OK_AND_ASSIGN(const DB db, DB::Open(path_, {.background_builds = false}));
  ATTNDB_ASSERT_OK_AND_ASSIGN(const VerifyReport verified, db.Verify());
  ASSERT_TRUE(verified.ok()) << verified.damages[0].file << ": " << verified.damages[0].message;
  ATTNDB_ASSERT_OK_AND_ASSIGN(const StoreState found, ObserveAll(db, model_));
  CheckGone(report, found);
  CheckVisible(db, report, found);
  CheckFiles(db);
  ATTNDB_ASSERT_OK_AND_ASSIGN(last_, ObserveAll(db, model_));
}

// The running call has dropped or evicted every missing context. If it was evicted, the new context
// is there, because both are one commit.
void KillTest::CheckGone(const WorkerReport& report, const StoreState& found) {
  for (const auto& [name, context] : *report.state) {
    if (found.contains(name)) continue;
    ASSERT_TRUE(report.intent.has_value()) << name << " is gone and nothing was under way";
    const Intent& intent = *report.intent;
    const bool dropped = intent.name == name;
    const bool stores =
        intent.operation == "store" || intent.operation == "chat" || intent.operation == "import";
    const bool evicted = stores && !context.pinned && found.contains(intent.name);
    EXPECT_TRUE(dropped || evicted) << name << " is gone after " << intent.operation;
  }
}

// Every present context was acknowledged, or its Store was under way; and it gives the same
// results.
void KillTest::CheckVisible(const DB& db, const WorkerReport& report, const StoreState& found) {
  for (const auto& [name, context] : found) {
    SCOPED_TRACE(name);
    ++num_checked_;
    const std::optional<uint64_t> stream = StreamOf(db, name);
    ASSERT_TRUE(stream.has_value()) << "tokens of no stream";
    const auto before = report.state->find(name);
    if (before != report.state->end() && before->second.chain == context.chain) {
      EXPECT_EQ(before->second.num_tokens, context.num_tokens);
      EXPECT_EQ(before->second.outputs, context.outputs);
      ++num_bit_identical_;
      continue;
    }
    // Its chain is another one. ObserveAll has compared its outputs with float64 already. Of the
    // same tokens: merged, in the background perhaps, while nothing was under way.
    if (before != report.state->end() && before->second.num_tokens == context.num_tokens) continue;
    // Else it was made or continued by what was under way.
    ASSERT_TRUE(report.intent.has_value()) << "changed although nothing was under way";
    const Intent& intent = *report.intent;
    EXPECT_EQ(name, intent.name);
    EXPECT_TRUE(name.starts_with("chat.") ||
                name.ends_with("." + std::to_string(context.num_tokens)));
    ++num_completed_;
  }
}

// Two files for each segment that a context uses and for each companion, and nothing else.
void KillTest::CheckFiles(const DB& db) {
  ATTNDB_ASSERT_OK_AND_ASSIGN(const auto segments, SegmentBytes(db));
  ATTNDB_ASSERT_OK_AND_ASSIGN(const DBStats stats, db.Stats());
  EXPECT_EQ(NumFilesIn(path_ + "/segments"), 2 * (segments.size() + stats.num_companions));
  num_companions_ += stats.num_companions;
  ATTNDB_ASSERT_OK_AND_ASSIGN(const std::vector<ContextInfo> contexts, db.List());
  for (const ContextInfo& context : contexts) {
    if (context.name.empty()) continue;
    ATTNDB_ASSERT_OK_AND_ASSIGN(const ContextInfo detail, db.Describe(context.name));
    for (const SegmentInfo& segment : detail.segments) {
      num_indexes_ += static_cast<uint64_t>(
          std::ranges::count_if(segment.companions, [](const CompanionInfo& companion) {
            return !companion.kind.starts_with("key_planes");
          }));
    }
  }
}

void KillTest::KillOne(uint64_t max_operations, Random* random) {
  WorkerProcess worker(path_, random->Next());
  worker.WaitForOperations(random->Uniform(max_operations + 1));
  std::this_thread::sleep_for(std::chrono::microseconds(random->Uniform(kMaxDelayMicros)));
  bool killed = false;
  WorkerReport report = ParseWorkerReport(worker.Kill(&killed));
  ASSERT_TRUE(killed) << "the worker failed";
  if (!report.state) report.state = last_;  // Killed while it opened.
  if (report.intent) ++num_under_way_[report.intent->operation];
  num_acknowledged_ += report.num_acknowledged;
  CheckStore(report);
}

TEST_F(KillTest, NothingAcknowledgedIsLostAndNothingElseIsThere) {
  Random random(SeedOr(3));
  const auto start = std::chrono::steady_clock::now();
  const uint64_t num_planned = Sized(40, kNumKills);
  uint64_t num_kills = 0;
  while (num_kills < num_planned || (num_kills < kNumKills && !WasWorthLooking())) {
    SCOPED_TRACE("kill " + std::to_string(num_kills));
    KillOne(num_kills < num_planned ? kMaxOperations : kMaxOperationsBeyond, &random);
    if (HasFailure()) break;
    ++num_kills;
  }
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  std::printf(
      "%llu kills in %.0f s: %llu operations acknowledged, %llu contexts checked (%llu bit by "
      "bit with their report, %llu made by what was under way), %llu indexes; killed during",
      static_cast<unsigned long long>(num_kills), seconds,
      static_cast<unsigned long long>(num_acknowledged_),
      static_cast<unsigned long long>(num_checked_),
      static_cast<unsigned long long>(num_bit_identical_),
      static_cast<unsigned long long>(num_completed_),
      static_cast<unsigned long long>(num_indexes_));
  for (const auto& [operation, count] : num_under_way_) {
    std::printf(" %s %llu", operation.c_str(), static_cast<unsigned long long>(count));
  }
  std::printf("\n");
  PrintCount(num_kills, "kills");
  PrintCount(num_acknowledged_, "operations acknowledged before them");
  // It was worth looking, on however slow a machine.
  EXPECT_GE(num_companions_, 1u);
  EXPECT_GE(num_indexes_, 1u);
  EXPECT_GE(num_acknowledged_, num_planned / 10);
  EXPECT_GE(num_bit_identical_, num_planned);
  EXPECT_GE(num_under_way_.size(), 3u);
}

}  // namespace
}  // namespace attndb::test
