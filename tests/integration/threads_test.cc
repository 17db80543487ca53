// Goal:   many threads use one DB at once. Each session answers as if it were alone, each context
//         has exactly its stored tokens, and nothing is left over.
// Method: four threads talk, store, drop, compact, verify and list by chance, each with names of
//         its own, over documents that all of them begin with. Outputs against float64 attention,
//         contexts against each thread's own record. Run under ThreadSanitizer as well.
// Replay: ATTNDB_SEED=17 ctest -R integration_test
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <map>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "attndb/db.h"
#include "common/random.h"
#include "testing/matchers.h"
#include "testing/seed.h"
#include "testing/store_files.h"
#include "testing/temp_dir.h"
#include "testing/toy_model.h"
#include "testing/toy_oracle.h"

namespace attndb::test {
namespace {

using ::testing::IsEmpty;
using Tokens = std::vector<TokenId>;

constexpr uint64_t kNumDocuments = 3;
constexpr double kTolerance = 1e-4;

// The work of one thread. Nothing in it is shared except the DB. Errors are collected, because not
// every assertion may be used off the main thread.
class Worker {
 public:
  // With `lacks_memory`, any call may fail for that reason, and must then be without effect.
  Worker(DB db, uint64_t id, uint64_t seed, bool lacks_memory)
      : db_(std::move(db)),
        prefix_("t" + std::to_string(id) + "/"),
        lacks_memory_(lacks_memory),
        random_(seed + 1000 * id) {}

  void Run(int num_steps);

  // Calls that failed for want of memory.
  uint64_t num_refused() const { return num_refused_; }
  // The contexts that it stored and did not drop, by name.
  const std::map<std::string, Tokens>& contexts() const { return contexts_; }
  const std::vector<std::string>& errors() const { return errors_; }

 private:
  struct Talk {
    Session session;
    Tokens tokens;
  };

  void Step();
  // A session upon a document that the others use too, or upon a context of its own.
  void Begin();
  void GoOn();
  // Appends what the session lacks of the tokens, and compares the newest one's outputs. Whether
  // the session can go on.
  bool Feed(Talk* talk);
  void Store(Talk* talk);
  void Drop();
  void Verify();
  void List();

  // Whether it is ok; else it is an error or was refused.
  bool Check(const std::string& call, const Status& status);
  std::string SomeName() { return prefix_ + std::to_string(random_.Uniform(3)); }
  void AddTokens(uint64_t n, Tokens* tokens) {
    for (; n > 0; --n) tokens->push_back(static_cast<TokenId>(random_.Uniform(1000)));
  }

  const ToyModel model_;
  const DB db_;
  const std::string prefix_;  // Prefix of its contexts' names.
  const bool lacks_memory_;
  Random random_;
  uint64_t num_refused_ = 0;
  std::deque<Talk> talks_;
  std::map<std::string, Tokens> contexts_;
  std::vector<std::string> errors_;
};

void Worker::Run(int num_steps) {
  for (int i = 0; i < num_steps && errors_.empty(); ++i) Step();
  talks_.clear();
}

bool Worker::Check(const std::string& call, const Status& status) {
  if (status.ok()) return true;
  if (lacks_memory_ && status.code() == StatusCode::kResourceExhausted) {
    ++num_refused_;
  } else {
    errors_.push_back(prefix_ + " " + call + ": " + status.ToString());
  }
  return false;
}

void Worker::Step() {
  const uint64_t dice = random_.Uniform(20);
  if (dice < 8) return Begin();
  if (dice < 15) return GoOn();
  if (dice < 17) return Drop();
  if (dice == 17) return Verify();
  if (dice == 18) return List();
  const uint64_t segment_tokens = random_.OneIn(2) ? 0 : 1 + random_.Uniform(1000);
  Check("compact", db_.Compact({.segment_tokens = segment_tokens}));
}

void Worker::Begin() {
  constexpr size_t kMaxTalks = 3;
  const std::string name = SomeName();
  const auto own = contexts_.find(name);
  SessionOptions options;
  Tokens tokens;
  if (own != contexts_.end() && random_.OneIn(2)) {
    tokens = own->second;
    options.context = name;
  } else {
    tokens = ToyModel::Tokens(20 + random_.Uniform(80), random_.Uniform(kNumDocuments));
  }
  AddTokens(1 + random_.Uniform(10), &tokens);
  Result<SessionStart> start = db_.CreateSession(model_.spec(), tokens, options);
  if (!Check("session", start.status())) return;
  if (!options.context.empty() && start->session.num_reused() < own->second.size()) {
    errors_.push_back(name + ": " + std::to_string(start->session.num_reused()) +
                      " tokens are reused, expected " + std::to_string(own->second.size()));
  }
  talks_.push_back({std::move(start->session), std::move(tokens)});
  if (!Feed(&talks_.back())) return talks_.pop_back();
  if (talks_.size() > kMaxTalks) talks_.pop_front();
}

void Worker::GoOn() {
  if (talks_.empty()) return Begin();
  const auto talk = talks_.begin() + static_cast<int64_t>(random_.Uniform(talks_.size()));
  if (random_.OneIn(3)) return Store(&*talk);
  AddTokens(1 + random_.Uniform(10), &talk->tokens);
  if (!Feed(&*talk)) talks_.erase(talk);
}

bool Worker::Feed(Talk* talk) {
  const std::span<const TokenId> rest =
      std::span<const TokenId>(talk->tokens).subspan(talk->session.num_tokens());
  std::vector<float> out;
  Status status;
  if (rest.size() > 1) status = model_.Step(&talk->session, rest.first(rest.size() - 1));
  if (status.ok()) status = model_.Step(&talk->session, rest.last(1), &out);
  if (!Check("step", status)) return false;
  const double error =
      OutputError(model_, out, OracleStep(model_, talk->tokens, talk->tokens.size() - 1));
  if (error <= kTolerance) return true;
  errors_.push_back(prefix_ + " an answer after " + std::to_string(talk->tokens.size()) +
                    " tokens is " + std::to_string(error) + " off");
  return false;
}

void Worker::Store(Talk* talk) {
  StoreOptions options;
  if (random_.OneIn(4)) {
    options.drop_base = true;  // And no name: a checkpoint.
  } else {
    options.name = SomeName();
    options.replace = true;
  }
  const Status status = db_.Store(talk->session, talk->tokens, options).status();
  if (!Check("store", status)) return;
  if (!options.name.empty()) contexts_[options.name] = talk->tokens;
}

void Worker::Drop() {
  const std::string name = SomeName();
  const Status status = db_.Drop(name);
  const bool known = contexts_.erase(name) > 0;
  if (known || status.code() != StatusCode::kNotFound) Check("drop " + name, status);
}

void Worker::Verify() {
  const Result<VerifyReport> report = db_.Verify();
  if (!Check("verify", report.status())) return;
  for (const Damage& damage : report->damages) errors_.push_back("verify: " + damage.message);
}

void Worker::List() {
  const Result<std::vector<ContextInfo>> infos = db_.List();
  if (!Check("list", infos.status())) return;
  std::map<std::string, uint64_t> found;
  for (const ContextInfo& info : *infos) {
    if (info.name.starts_with(prefix_)) found[info.name] = info.num_tokens;
    if (info.damaged) errors_.push_back("list: " + info.name + " is damaged");
  }
  std::map<std::string, uint64_t> expected;
  for (const auto& [name, tokens] : contexts_) expected[name] = tokens.size();
  if (found != expected) errors_.push_back(prefix_ + " list: other contexts than were stored");
  for (const auto& [name, tokens] : contexts_) {
    const Result<Tokens> stored = db_.Tokens(name);
    if (Check("tokens of " + name, stored.status()) && *stored != tokens) {
      errors_.push_back("tokens of " + name + ": not those that were stored");
    }
  }
}

class ThreadsTest : public ::testing::Test {
 protected:
  std::string path() const { return dir_.File("store"); }
  // Runs the threads to their end.
  void RunWorkers(const DB& db, int num_steps, bool lack_memory);
  // Checks that the store is good and holds the contexts that the threads expect.
  void CheckStore(const DB& db) const;

 private:
  const TempDir dir_ = TempDir::InMemory();
  std::map<std::string, Tokens> contexts_;
};

void ThreadsTest::RunWorkers(const DB& db, int num_steps, bool lack_memory) {
  constexpr uint64_t kNumWorkers = 4;
  const uint64_t seed = SeedOr(1);
  std::deque<Worker> workers;
  for (uint64_t id = 0; id < kNumWorkers; ++id) workers.emplace_back(db, id, seed, lack_memory);
  std::vector<std::thread> threads;
  for (Worker& worker : workers) {
    threads.emplace_back([&worker, num_steps] { worker.Run(num_steps); });
  }
  for (std::thread& thread : threads) thread.join();
  uint64_t num_refused = 0;
  for (const Worker& worker : workers) {
    num_refused += worker.num_refused();
    EXPECT_THAT(worker.errors(), IsEmpty());
    contexts_.insert(worker.contexts().begin(), worker.contexts().end());
  }
  EXPECT_EQ(num_refused > 0, lack_memory);
}

void ThreadsTest::CheckStore(const DB& db) const {
  ATTNDB_ASSERT_OK(db.WaitForBackground());
  ATTNDB_ASSERT_OK_AND_ASSIGN(const VerifyReport report, db.Verify());
  for (const Damage& damage : report.damages) ADD_FAILURE() << damage.message;
  ATTNDB_ASSERT_OK_AND_ASSIGN(const DBStats stats, db.Stats());
  EXPECT_EQ(stats.num_sessions, 0u);
  EXPECT_EQ(stats.num_damaged_segments, 0u);
  EXPECT_EQ(NumFilesIn(path() + "/segments"), 2 * (stats.num_segments + stats.num_companions));
  ATTNDB_ASSERT_OK_AND_ASSIGN(const auto segments, SegmentBytes(db));
  EXPECT_EQ(segments.size(), stats.num_segments);
  std::map<std::string, Tokens> found;
  ATTNDB_ASSERT_OK_AND_ASSIGN(const std::vector<ContextInfo> infos, db.List());
  for (const ContextInfo& info : infos) {
    if (!info.name.empty()) found[info.name] = *db.Tokens(info.name);
  }
  EXPECT_EQ(found, contexts_);
}

TEST_F(ThreadsTest, ShareOneStore) {
  {
    const DB db = *DB::Open(path());
    RunWorkers(db, 300, /*lack_memory=*/false);
    CheckStore(db);
  }
  CheckStore(*DB::Open(path()));
}

// Less than the threads' sessions need together: segments are loaded and given back all the time,
// and calls are refused.
TEST_F(ThreadsTest, ShareOneStoreAndTooLittleMemory) {
  {
    const DB db = *DB::Open(path(), {.host_memory_bytes = 320 << 10});
    RunWorkers(db, 300, /*lack_memory=*/true);
    CheckStore(db);
  }
  CheckStore(*DB::Open(path()));
}

}  // namespace
}  // namespace attndb::test
