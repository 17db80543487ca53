// Goal:   a failing file system costs only the call that met the failure: a typed error, an
//         unchanged session, nothing half visible. The same call succeeds later.
// Method: each scenario runs with its n-th operation failing, n = 1, 2, ... until it runs through
//         without meeting the fault; operations of storage and of SQLite, once and from then on,
//         EIO, ENOSPC, torn writes and errors of work that was done. After each run: the open
//         store, what a crash at that moment would leave, the call again, and the store closed and
//         reopened. Most faults leave one of few stores, byte for byte: each of these is read once.
// Sizes:  under AddressSanitizer every fifth n, in a long run every n.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <functional>
#include <map>
#include <set>

#include "api/database.h"
#include "testing/fault_file_system.h"
#include "testing/fault_sqlite.h"
#include "testing/matchers.h"
#include "testing/sanitizers.h"
#include "testing/temp_dir.h"
#include "testing/test_size.h"
#include "tests/crash/examination.h"
#include "tests/crash/store_image.h"

namespace attndb::test {
namespace {

using internal::Database;
using internal::SessionImpl;
using Tokens = std::vector<TokenId>;

constexpr const char* kTenant = "default";
constexpr TokenId kProbe = 99;

int64_t StandingClock() { return 1'000'000'000; }

TensorView RowsView(const std::vector<float>& data, size_t rows, uint32_t heads, uint32_t dim) {
  return TensorView::Contiguous(data.data(), DType::kFloat32, static_cast<int64_t>(rows), heads,
                                dim);
}

// Like ToyModel::Step and Probe, below the public interface: `tokens` are appended, unless there
// are none; `q_tokens` ask.
Status Feed(const ToyModel& model, SessionImpl* session, const Tokens& tokens,
            const Tokens& q_tokens, std::vector<float>* out) {
  const uint64_t begin = session->num_tokens();
  for (LayerId layer = 0; layer < model.spec().num_layers(); ++layer) {
    const LayerSpec& spec = model.spec().layers[layer];
    if (!tokens.empty()) {
      const std::vector<float> k = model.Keys(layer, tokens, begin);
      const std::vector<float> v = model.Values(layer, tokens, begin);
      ATTNDB_RETURN_IF_ERROR(
          session->Append(layer, RowsView(k, tokens.size(), spec.num_kv_heads, spec.head_dim),
                          RowsView(v, tokens.size(), spec.num_kv_heads, spec.v_head_dim)));
    }
    const std::vector<float> q =
        model.Queries(layer, q_tokens, begin + tokens.size() - q_tokens.size());
    std::vector<float> rows(q_tokens.size() * spec.num_q_heads * spec.v_head_dim);
    ATTNDB_RETURN_IF_ERROR(
        session->Attend(layer, RowsView(q, q_tokens.size(), spec.num_q_heads, spec.head_dim),
                        MutableTensorView::Contiguous(rows.data(), DType::kFloat32,
                                                      static_cast<int64_t>(q_tokens.size()),
                                                      spec.num_q_heads, spec.v_head_dim),
                        nullptr));
    out->insert(out->end(), rows.begin(), rows.end());
  }
  return Status::Ok();
}

// The store that a scenario works on.
struct Bench {
  explicit Bench(storage::FileSystem* base) : files(base) {}

  FaultFileSystem files;
  std::shared_ptr<Database> db;
  std::unique_ptr<SessionImpl> session;
  Tokens tokens;  // Tokens of the session.
};

struct Scenario {
  std::string name;
  std::function<Status(Bench*)> prepare;  // Without faults.
  std::function<Status(Bench*)> act;      // With one.
  // The change of the store's contexts after a success.
  std::function<void(std::vector<KnownContext>*)> apply = [](std::vector<KnownContext>*) {};
};

enum class Victim { kStorage, kSqlite };

class FaultTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { SqliteFaults::Install(); }

  FaultTest() : dir_(TempDir::InMemory()), path_(dir_.File("store")) {
    const DB db = *DB::Open(path_, {.clock = StandingClock});
    const auto store = [&](const std::string& name, const Tokens& tokens) {
      SessionStart start = *db.CreateSession(model_.spec(), tokens);
      EXPECT_THAT(model_.Step(&start.session, start.rest), IsOk());
      EXPECT_THAT(db.Store(start.session, tokens, {.name = name}), IsOk());
      contexts_.push_back({kTenant, name, tokens});
    };
    store("doc", doc_);
    Tokens longer = doc_;
    longer.insert(longer.end(), {7, 8, 9});
    store("longer", longer);
    store("alone", ToyModel::Tokens(20, 5));
  }
  void SetUp() override { image_ = StoreImage::Capture(path_); }

  Status Open(Bench* bench) const {
    ATTNDB_ASSIGN_OR_RETURN(bench->db,
                            Database::Open(path_, {.clock = StandingClock}, &bench->files));
    return Status::Ok();
  }
  // A session that goes on from a stored context, with a tail of its own.
  Status OpenWithTail(Bench* bench, const Tokens& prefix, uint64_t num_new) const {
    ATTNDB_RETURN_IF_ERROR(Open(bench));
    bench->tokens = prefix;
    for (uint64_t i = 0; i < num_new; ++i) bench->tokens.push_back(static_cast<TokenId>(500 + i));
    ATTNDB_ASSIGN_OR_RETURN(
        bench->session,
        bench->db->OpenSession(kTenant, model_.spec(), bench->tokens, prefix.size(), {}));
    const Tokens rest(
        bench->tokens.begin() + static_cast<int64_t>(bench->session->chain().num_tokens()),
        bench->tokens.end());
    std::vector<float> out;
    return Feed(model_, bench->session.get(), rest, rest, &out);
  }

  void RunEveryFault(const Scenario& scenario);
  // Whether the fault was met.
  bool RunFault(const Scenario& scenario, Victim victim, const FaultFileSystem::Plan& plan);
  void CheckCode(const Status& status) const {
    EXPECT_TRUE(status.code() == StatusCode::kIoError ||
                status.code() == StatusCode::kResourceExhausted)
        << status;
  }
  // A store of bytes that were found to hold these contexts is not read again.
  void CheckStore(const std::string& path, const std::vector<KnownContext>& contexts);
  void ReadStore(const std::string& path, const std::vector<KnownContext>& contexts) const;
  // The names of the contexts in the store at `path`; none if it does not open.
  const std::set<std::string>& NamesIn(const std::string& path);
  bool Holds(const std::string& path, const std::vector<KnownContext>& contexts);

  TempDir dir_;
  std::string path_;
  const Tokens doc_ = ToyModel::Tokens(40, 1);
  ToyModel model_;
  std::vector<KnownContext> contexts_;
  StoreImage image_;
  std::map<StoreImage::Files, std::set<std::string>> names_;  // Results of NamesIn().
  // Files and contexts' tokens that CheckStore() has read.
  std::set<std::pair<StoreImage::Files, std::vector<Tokens>>> good_;
  uint64_t num_runs_ = 0;
  uint64_t num_failed_calls_ = 0;
};

// The files that opening a store depends on: all except SQLite's index of its log, which the first
// open makes anew.
StoreImage::Files DurableFiles(const std::string& path) {
  StoreImage::Files files = StoreImage::Capture(path).files();
  std::erase_if(files, [](const auto& file) { return file.first.ends_with("-shm"); });
  return files;
}

const std::set<std::string>& FaultTest::NamesIn(const std::string& path) {
  const auto [entry, is_new] = names_.try_emplace(DurableFiles(path));
  if (!is_new) return entry->second;
  const Result<DB> db = DB::Open(path, {.clock = StandingClock});
  EXPECT_THAT(db, IsOk());
  if (!db.ok()) return entry->second;
  const std::vector<ContextInfo> infos = *db->List();
  for (const ContextInfo& info : infos) entry->second.insert(info.name);
  return entry->second;
}

bool FaultTest::Holds(const std::string& path, const std::vector<KnownContext>& contexts) {
  std::set<std::string> expected;
  for (const KnownContext& context : contexts) expected.insert(context.name);
  return NamesIn(path) == expected;
}

void FaultTest::CheckStore(const std::string& path, const std::vector<KnownContext>& contexts) {
  EXPECT_TRUE(Holds(path, contexts));
  std::vector<Tokens> expected;
  for (const KnownContext& context : contexts) expected.push_back(context.tokens);
  if (good_.emplace(DurableFiles(path), std::move(expected)).second) ReadStore(path, contexts);
}

void FaultTest::ReadStore(const std::string& path,
                          const std::vector<KnownContext>& contexts) const {
  const Examination found = Examine(path, {.clock = StandingClock}, model_, contexts);
  for (const Examination::Report& report : found.reports) ADD_FAILURE() << report.message;
  EXPECT_THAT(found.wrong_outputs, ::testing::IsEmpty());
  EXPECT_THAT(found.lost, ::testing::IsEmpty());
  // No file is left over: two for each segment that is used.
  const DB db = *DB::Open(path, {.clock = StandingClock});
  std::set<int64_t> segments;
  for (const KnownContext& context : contexts) {
    const ContextInfo info = *db.Describe(context.name);
    for (const SegmentInfo& segment : info.segments) segments.insert(segment.segment_id);
  }
  const StoreImage image = StoreImage::Capture(path);
  EXPECT_EQ(image.PathsWith(".seg").size() + image.PathsWith(".manifest").size(),
            2 * segments.size());
  EXPECT_THAT(image.PathsWith(".tmp"), ::testing::IsEmpty());
}

bool FaultTest::RunFault(const Scenario& scenario, Victim victim,
                         const FaultFileSystem::Plan& plan) {
  SqliteFaults& sqlite = SqliteFaults::Install();
  image_.Restore(path_);
  std::vector<KnownContext> after = contexts_;
  scenario.apply(&after);
  bool met = false;
  Status status;
  const std::string crashed = dir_.File("crashed");
  {
    Bench bench(storage::PosixFileSystem());
    EXPECT_THAT(scenario.prepare(&bench), IsOk());
    std::vector<float> before;
    if (bench.session) {
      EXPECT_THAT(Feed(model_, bench.session.get(), {}, {kProbe}, &before), IsOk());
    }
    const uint64_t num_stored = bench.session ? bench.session->chain().num_tokens() : 0;

    victim == Victim::kStorage ? bench.files.SetPlan(plan) : sqlite.SetPlan(plan);
    status = scenario.act(&bench);
    // Background work of a Store, such as merges, meets faults too, and changes no file later.
    if (bench.db) (void)bench.db->store()->background()->Wait(nullptr);
    met = victim == Victim::kStorage ? bench.files.num_faults() > 0 : sqlite.num_faults() > 0;
    bench.files.SetPlan({});
    sqlite.SetPlan({});
    EXPECT_TRUE(met || status.ok()) << status;
    StoreImage::Capture(path_).Restore(crashed);

    if (!status.ok()) {
      CheckCode(status);
      ++num_failed_calls_;
      if (bench.session && bench.session->num_tokens() == bench.tokens.size()) {
        EXPECT_EQ(bench.session->chain().num_tokens(), num_stored);
        std::vector<float> again;
        EXPECT_THAT(Feed(model_, bench.session.get(), {}, {kProbe}, &again), IsOk());
        EXPECT_TRUE(again == before) << "the session answers otherwise";
      }
      const Status retried = scenario.act(&bench);
      EXPECT_THAT(retried, IsOk()) << "after " << status;
    }
  }
  // A crash right after the call: with its effect or without, but if it succeeded with it.
  if (!(!status.ok() && Holds(crashed, contexts_))) CheckStore(crashed, after);
  CheckStore(path_, after);
  ++num_runs_;
  return met;
}

void FaultTest::RunEveryFault(const Scenario& scenario) {
  constexpr FaultKind kKinds[] = {FaultKind::kIoError, FaultKind::kNoSpace, FaultKind::kTornWrite,
                                  FaultKind::kErrorAfter};
  // AddressSanitizer takes four times as long, and looks for other faults than wrong stores: in the
  // release build every operation fails. 5 shares no factor with 4, so each kind has its turn.
  const uint64_t step = HasAddressSanitizer() ? Sized(5, 1) : 1;
  for (const Victim victim : {Victim::kStorage, Victim::kSqlite}) {
    for (const bool sticky : {false, true}) {
      uint64_t n = 1;
      for (bool met = true; met && !HasFailure(); n += step) {
        // SQLite's operations are many: each of them fails in one way and not in four.
        for (size_t i = 0; i < std::size(kKinds); ++i) {
          if (victim == Victim::kSqlite && i != (n + (sticky ? 1 : 0)) % std::size(kKinds))
            continue;
          SCOPED_TRACE(scenario.name + ": operation " + std::to_string(n) + " of " +
                       (victim == Victim::kStorage ? "storage" : "SQLite") + ", kind " +
                       std::to_string(i) + (sticky ? ", sticky" : ""));
          met = RunFault(scenario, victim, {.fail_at = n, .sticky = sticky, .kind = kKinds[i]});
        }
      }
    }
  }
  PrintCount(num_runs_, "operations that failed during: " + scenario.name);
  std::printf("%llu calls failed, %zu stores\n", static_cast<unsigned long long>(num_failed_calls_),
              good_.size());
}

TEST_F(FaultTest, Open) {
  RunEveryFault({.name = "open",
                 .prepare = [](Bench*) { return Status::Ok(); },
                 .act = [this](Bench* bench) { return Open(bench); }});
}

TEST_F(FaultTest, OpenAndAttend) {
  RunEveryFault({.name = "attend",
                 .prepare = [this](Bench* bench) { return Open(bench); },
                 .act = [this](Bench* bench) -> Status {
                   Tokens prompt = contexts_[1].tokens;
                   ATTNDB_ASSIGN_OR_RETURN(
                       const std::unique_ptr<SessionImpl> session,
                       bench->db->OpenSession(kTenant, model_.spec(), prompt, prompt.size(), {}));
                   EXPECT_EQ(session->chain().num_tokens(), prompt.size());
                   std::vector<float> out;
                   return Feed(model_, session.get(), {}, {kProbe}, &out);
                 }});
}

TEST_F(FaultTest, Store) {
  RunEveryFault(
      {.name = "store",
       .prepare = [this](Bench* bench) { return OpenWithTail(bench, doc_, 10); },
       .act =
           [](Bench* bench) {
             return bench->db->Store(bench->session.get(), bench->tokens, {.name = "new"}).status();
           },
       .apply =
           [this](std::vector<KnownContext>* contexts) {
             Tokens tokens = doc_;
             for (TokenId i = 0; i < 10; ++i) tokens.push_back(500 + i);
             contexts->push_back({kTenant, "new", tokens});
           }});
}

// The tail is as long as the context before it, so that both are merged.
TEST_F(FaultTest, StoreThatReplacesAndMerges) {
  RunEveryFault(
      {.name = "replace and merge",
       .prepare = [this](Bench* bench) { return OpenWithTail(bench, contexts_[2].tokens, 40); },
       .act =
           [](Bench* bench) {
             return bench->db
                 ->Store(bench->session.get(), bench->tokens, {.name = "alone", .replace = true})
                 .status();
           },
       .apply =
           [](std::vector<KnownContext>* contexts) {
             for (TokenId i = 0; i < 40; ++i) (*contexts)[2].tokens.push_back(500 + i);
           }});
}

TEST_F(FaultTest, Drop) {
  RunEveryFault({.name = "drop",
                 .prepare = [this](Bench* bench) { return Open(bench); },
                 .act =
                     [](Bench* bench) {
                       const Status status =
                           bench->db->store()->publisher()->Drop(kTenant, "alone");
                       // The first try may have got through although its answer got lost.
                       return status.code() == StatusCode::kNotFound ? Status::Ok() : status;
                     },
                 .apply = [](std::vector<KnownContext>* contexts) { contexts->pop_back(); }});
}

// Beside the others, a context of three segments, which no Store has merged: they shrink.
class CompactFaultTest : public FaultTest {
 protected:
  CompactFaultTest() {
    const DB db = *DB::Open(path_, {.clock = StandingClock});
    Tokens tokens;
    for (const uint64_t size : {20u, 9u, 4u}) {
      const Tokens more = ToyModel::Tokens(size, 50 + size);
      tokens.insert(tokens.end(), more.begin(), more.end());
      SessionStart start = *db.CreateSession(model_.spec(), tokens);
      EXPECT_THAT(model_.Step(&start.session, start.rest), IsOk());
      EXPECT_THAT(db.Store(start.session, tokens, {.name = "chain", .replace = true}), IsOk());
    }
    EXPECT_EQ(NumSegments(db), 3u);
    contexts_.push_back({kTenant, "chain", tokens});
  }

  static size_t NumSegments(const DB& db) { return db.Describe("chain")->segments.size(); }
  void RunCompact(const CompactOptions& options, size_t num_segments) {
    RunEveryFault({.name = "compact to " + std::to_string(options.segment_tokens),
                   .prepare = [this](Bench* bench) { return Open(bench); },
                   .act =
                       [&](Bench* bench) {
                         return bench->db->store()->merger()->Compact(kTenant, options);
                       }});
    EXPECT_EQ(NumSegments(*DB::Open(path_, {.clock = StandingClock})), num_segments);
  }
};

TEST_F(CompactFaultTest, Compact) { RunCompact({}, 1); }

TEST_F(CompactFaultTest, CompactToALength) { RunCompact({.segment_tokens = 29}, 2); }

}  // namespace
}  // namespace attndb::test
