// Goal:   whatever goes wrong in the middle of a pass ends it with its own status; sessions and
//         engine go on as if the pass had not been.
// Method: budgets that run out, stored bytes that are flipped, callbacks that say no, wrong
//         arguments; afterwards the logits must agree with plain llama.cpp again. Both variants of
//         the hook.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <filesystem>
#include <fstream>
#include <functional>
#include <optional>
#include <thread>

#include "attndb/db.h"
#include "engines/llama/engine_test_util.h"
#include "engines/llama/llama_engine.h"
#include "engines/llama/plain_context.h"
#include "testing/matchers.h"
#include "testing/temp_dir.h"

namespace attndb::llama {
namespace {

namespace fs = std::filesystem;
using ::attndb::test::FailsWith;
using ::testing::_;
using ::testing::HasSubstr;

class EngineFailureTest : public ::testing::TestWithParam<HookVariant> {
 protected:
  void SetUp() override {
    EngineOptions options = TinyOptions(GetParam());
    options.cache_dir = directory_.File("cache");
    options.max_sessions = 3;
    ATTNDB_ASSERT_OK_AND_ASSIGN(LlamaEngine engine, LlamaEngine::Open(TinyModel("qwen2"), options));
    engine_.emplace(std::move(engine));
  }

  LlamaEngine& engine() { return *engine_; }
  std::vector<TokenId> Ids(size_t count) {
    return RandomIds(count, 41, engine().info().vocab_size);
  }
  Result<DB> OpenStore(const DBOptions& options = {}) {
    return DB::Open(directory_.File("store"), options);
  }
  Result<Session> NewSession(const DB& db) {
    ATTNDB_ASSIGN_OR_RETURN(SessionStart start, db.CreateSession(engine().spec(), Ids(1)));
    return std::move(start.session);
  }
  // The engine still computes what plain llama.cpp does.
  void ExpectHealthy(Session& session, std::span<const TokenId> held) {
    ASSERT_EQ(session.num_tokens(), held.size());
    std::vector<TokenId> tokens(held.begin(), held.end());
    const std::vector<TokenId> more = RandomIds(3, 7, engine().info().vocab_size);
    tokens.insert(tokens.end(), more.begin(), more.end());
    ATTNDB_ASSERT_OK_AND_ASSIGN(const LogitRows plain, PlainRows(engine(), tokens));
    for (size_t i = held.size(); i < tokens.size(); ++i) {
      ATTNDB_ASSERT_OK(engine().Decode(session, tokens[i]));
      EXPECT_LT(RowDifference(*engine().Logits(), plain[i]), 1e-4);
    }
    EXPECT_EQ(engine().engine_cache().num_used, 0u);
  }

  ::attndb::test::TempDir directory_;

 private:
  std::optional<LlamaEngine> engine_;
};

TEST_P(EngineFailureTest, AMemoryLimitEndsThePassWithItsStatus) {
  const std::vector<TokenId> ids = Ids(900);
  const uint64_t token_bytes = engine().spec().KvBytesPerToken();
  ATTNDB_ASSERT_OK_AND_ASSIGN(
      const DB db, OpenStore({.query_sample = 0, .host_memory_bytes = 600 * token_bytes}));
  ATTNDB_ASSERT_OK_AND_ASSIGN(Session session, NewSession(db));
  EXPECT_THAT(engine().Prefill(session, ids), FailsWith(StatusCode::kResourceExhausted, _));
  const uint64_t held = session.num_tokens();
  EXPECT_GT(held, 0u);
  EXPECT_LT(held, 640u);
  EXPECT_EQ(held % 64, 0u) << "whole ubatches stay";
  ATTNDB_ASSERT_OK(session.Crop(64));
  ExpectHealthy(session, std::span(ids).first(64));
}

// Gives a function that says no at its call number `num_calls` + 1, and from then on.
std::function<bool()> StopsAfter(int num_calls) {
  return [left = num_calls]() mutable { return left-- > 0; };
}

TEST_P(EngineFailureTest, OpenStopsAtEachPlaceWhereItIsTold) {
  EngineOptions options = TinyOptions(GetParam());
  int num_calls = 0;
  for (;; ++num_calls) {
    options.cache_dir = directory_.File("cache" + std::to_string(num_calls));  // Hashes anew.
    options.keep_going = StopsAfter(num_calls);
    const Result<LlamaEngine> engine = LlamaEngine::Open(TinyModel("qwen2"), options);
    if (engine.ok()) break;
    EXPECT_THAT(engine, FailsWith(StatusCode::kCancelled, HasSubstr("qwen2")));
  }
  EXPECT_GE(num_calls, 2);  // While weights are loaded, and while they are hashed.
}

TEST_P(EngineFailureTest, AComparisonStopsAtEachPlaceWhereItIsTold) {
  const std::vector<TokenId> ids = Ids(1100);  // Three batches of plain llama.cpp.
  const std::vector<TokenId> generated = {1, 2};
  int num_calls = 0;
  for (;; ++num_calls) {
    const auto report = engine().CheckAgainstPlain(
        ids, generated, {.measure_spread = true, .keep_going = StopsAfter(num_calls)});
    if (report.ok()) break;
    EXPECT_THAT(report, FailsWith(StatusCode::kCancelled, HasSubstr("stopped")));
  }
  EXPECT_EQ(num_calls, 2 * 2 + 2);
}

// In a batch each session has a status of its own: one whose store has no memory left ends alone.
TEST_P(EngineFailureTest, ASessionThatFailsInABatchEndsAlone) {
  const std::vector<TokenId> ids = Ids(130);
  const uint64_t token_bytes = engine().spec().KvBytesPerToken();
  ATTNDB_ASSERT_OK_AND_ASSIGN(const DB small,
                              DB::Open(directory_.File("small"),
                                       {.query_sample = 0, .host_memory_bytes = 60 * token_bytes}));
  ATTNDB_ASSERT_OK_AND_ASSIGN(const DB db, OpenStore());
  ATTNDB_ASSERT_OK_AND_ASSIGN(Session first, NewSession(db));
  ATTNDB_ASSERT_OK_AND_ASSIGN(Session fails, NewSession(small));
  ATTNDB_ASSERT_OK_AND_ASSIGN(Session last, NewSession(db));
  ATTNDB_ASSERT_OK(engine().Prefill(first, std::span(ids).first(64)));
  const std::span<const TokenId> some(ids.data(), 20);
  const BatchEntry entries[] = {
      {&first, std::span(ids).subspan(64, 1)}, {&fails, std::span(ids).first(40)}, {&last, some}};
  std::vector<Status> statuses;
  ATTNDB_ASSERT_OK(engine().DecodeBatch(entries, &statuses));
  EXPECT_THAT(statuses, ::testing::ElementsAre(
                            Status(), FailsWith(StatusCode::kResourceExhausted, _), Status()));
  EXPECT_EQ(fails.num_tokens(), 0u);
  ATTNDB_ASSERT_OK_AND_ASSIGN(const LogitRows plain, PlainRows(engine(), std::span(ids).first(65)));
  EXPECT_LT(RowDifference(*engine().Logits(0), plain[64]), 1e-4);
  EXPECT_LT(RowDifference(*engine().Logits(2), plain[19]), 1e-4);
  ExpectHealthy(first, std::span(ids).first(65));
  ExpectHealthy(last, some);

  // Without statuses it is all or nothing.
  EXPECT_THAT(engine().DecodeBatch(std::array{entries[1], BatchEntry{&last, some}}),
              FailsWith(StatusCode::kResourceExhausted, _));
  EXPECT_EQ(last.num_tokens(), some.size() + 3) << "cropped back";
}

// Checkpoints need no memory of their own: their layers come and go within the limit. A
// merge holds a layer of the run that it copies. Its thread has a low priority, and a busy machine
// would let it hold the layer for long: each checkpoint waits for the merge.
TEST_P(EngineFailureTest, CheckpointsKeepAnImportWithinItsMemory) {
  const std::vector<TokenId> ids = Ids(900);
  constexpr uint64_t kScratchBytes = 512 << 10;  // Calls of 64 rows by two threads need as much.
  const uint64_t token_bytes = engine().spec().KvBytesPerToken();
  const uint64_t limit = 500 * token_bytes + kScratchBytes;
  ASSERT_LT(limit, ids.size() * token_bytes) << "all fits";
  ATTNDB_ASSERT_OK_AND_ASSIGN(const DB db,
                              OpenStore({.query_sample = 0, .host_memory_bytes = limit}));
  ATTNDB_ASSERT_OK_AND_ASSIGN(Session session, NewSession(db));
  uint64_t most_bytes = 0;
  PrefillOptions options;
  options.checkpoint = [&](uint64_t tokens_done) {
    most_bytes = std::max(most_bytes, db.Stats()->memory_bytes);
    if (tokens_done % 128 != 0) return Status();
    ATTNDB_RETURN_IF_ERROR(
        db.Store(session, std::span(ids).first(tokens_done), {.drop_base = true}).status());
    return db.WaitForBackground();
  };
  ATTNDB_ASSERT_OK(engine().Prefill(session, ids, options));
  EXPECT_EQ(session.num_tokens(), ids.size());
  EXPECT_GT(most_bytes, 0u);
  EXPECT_LE(most_bytes, limit);
  ExpectHealthy(session, ids);
}

TEST_P(EngineFailureTest, ADamagedSegmentEndsThePassWithItsStatus) {
  const std::vector<TokenId> ids = Ids(200);
  {
    ATTNDB_ASSERT_OK_AND_ASSIGN(const DB db, OpenStore({.query_sample = 0}));
    ATTNDB_ASSERT_OK_AND_ASSIGN(Session session, NewSession(db));
    ATTNDB_ASSERT_OK(engine().Prefill(session, ids));
    ATTNDB_ASSERT_OK(db.Store(session, ids, {.name = "damaged"}));
  }
  // A byte of the last third of the largest segment: rows of a later layer, for no
  // sampled q lie between them.
  fs::path largest;
  for (const auto& entry : fs::recursive_directory_iterator(directory_.File("store/segments"))) {
    if (entry.is_regular_file() &&
        (largest.empty() || entry.file_size() > fs::file_size(largest))) {
      largest = entry.path();
    }
  }
  {
    std::fstream file(largest, std::ios::binary | std::ios::in | std::ios::out);
    const auto at = static_cast<std::streamoff>(fs::file_size(largest) * 2 / 3);
    file.seekg(at);
    const auto byte = static_cast<char>(file.get() ^ 1);
    file.seekp(at);
    file.put(byte);
  }
  ATTNDB_ASSERT_OK_AND_ASSIGN(const DB db, OpenStore());
  Result<SessionStart> start = db.CreateSession(engine().spec(), ids, {.context = "damaged"});
  if (start.ok()) {
    EXPECT_THAT(engine().Prefill(start->session, start->rest),
                FailsWith(StatusCode::kCorruption, _));
    start->session.Reset();
    ExpectHealthy(start->session, {});
  } else {
    EXPECT_THAT(start, FailsWith(StatusCode::kCorruption, _));
  }
  ATTNDB_ASSERT_OK_AND_ASSIGN(Session fresh, NewSession(db));
  ExpectHealthy(fresh, {});
}

TEST_P(EngineFailureTest, OneSessionsFailureLeavesTheOthersOfTheBatchAsTheyWere) {
  const std::vector<TokenId> ids = Ids(64);
  ATTNDB_ASSERT_OK_AND_ASSIGN(const DB db, OpenStore());
  ATTNDB_ASSERT_OK_AND_ASSIGN(Session good, NewSession(db));
  ATTNDB_ASSERT_OK(engine().Prefill(good, ids));
  const uint64_t token_bytes = engine().spec().KvBytesPerToken();
  ATTNDB_ASSERT_OK_AND_ASSIGN(const DB small,
                              DB::Open(directory_.File("small"),
                                       {.query_sample = 0, .host_memory_bytes = token_bytes / 2}));
  ATTNDB_ASSERT_OK_AND_ASSIGN(Session poor, NewSession(small));
  const BatchEntry batch[] = {{&good, std::span(ids).first(1)}, {&poor, std::span(ids).first(1)}};
  EXPECT_THAT(engine().DecodeBatch(batch), FailsWith(StatusCode::kResourceExhausted, _));
  EXPECT_EQ(poor.num_tokens(), 0u);
  ExpectHealthy(good, ids);
}

TEST_P(EngineFailureTest, ACancelledPrefillKeepsWholeUbatches) {
  const std::vector<TokenId> ids = Ids(300);
  ATTNDB_ASSERT_OK_AND_ASSIGN(const DB db, OpenStore());
  ATTNDB_ASSERT_OK_AND_ASSIGN(Session session, NewSession(db));
  std::vector<uint64_t> seen;
  PrefillOptions options;
  options.progress = [&](const PrefillProgress& progress) {
    EXPECT_EQ(progress.tokens_total, 300u);
    EXPECT_GT(progress.tokens_per_second, 0);
    seen.push_back(progress.tokens_done);
    return progress.tokens_done < 128;
  };
  EXPECT_THAT(engine().Prefill(session, ids, options),
              FailsWith(StatusCode::kCancelled, HasSubstr("128 of 300")));
  EXPECT_THAT(seen, ::testing::ElementsAre(64, 128));
  ExpectHealthy(session, std::span(ids).first(128));
}

TEST_P(EngineFailureTest, CheckpointsMayStoreAndMayFail) {
  const std::vector<TokenId> ids = Ids(200);
  ATTNDB_ASSERT_OK_AND_ASSIGN(const DB db, OpenStore());
  ATTNDB_ASSERT_OK_AND_ASSIGN(Session session, NewSession(db));
  PrefillOptions options;
  options.checkpoint = [&](uint64_t done) -> Status {
    if (done == 192) return Status::IoError("the test says so");
    return db.Store(session, std::span(ids).first(done)).status();
  };
  EXPECT_THAT(engine().Prefill(session, ids, options),
              FailsWith(StatusCode::kIoError, HasSubstr("the test says so")));
  EXPECT_EQ(session.num_reused(), 128u) << "what the checkpoints stored";
  ExpectHealthy(session, std::span(ids).first(192));
}

TEST_P(EngineFailureTest, WrongArgumentsChangeNothing) {
  const std::vector<TokenId> ids = Ids(10);
  ATTNDB_ASSERT_OK_AND_ASSIGN(const DB db, OpenStore());
  ATTNDB_ASSERT_OK_AND_ASSIGN(Session session, NewSession(db));
  ATTNDB_ASSERT_OK(engine().Prefill(session, ids));
  const auto refuses = [&](const Status& status, const char* text) {
    EXPECT_THAT(status, FailsWith(StatusCode::kInvalidArgument, HasSubstr(text)));
    EXPECT_EQ(session.num_tokens(), 10u);
  };
  refuses(engine().Prefill(session, {}), "no token");
  const std::vector<TokenId> beyond = {5, 320};
  refuses(engine().Prefill(session, beyond), "token 1 is id 320");
  refuses(engine().Decode(session, -1), "id -1");
  refuses(engine().DecodeBatch({}), "0 sessions");
  const BatchEntry twice[] = {{&session, ids}, {&session, ids}};
  refuses(engine().DecodeBatch(twice), "twice");
  const std::vector<TokenId> many = Ids(65);
  const BatchEntry large[] = {{&session, many}};
  refuses(engine().DecodeBatch(large), "65 tokens");
  const std::vector<BatchEntry> crowd(4, {&session, ids});
  refuses(engine().DecodeBatch(crowd), "4 sessions");

  ModelSpec other_model = engine().spec();
  other_model.fingerprint = "another";
  ATTNDB_ASSERT_OK_AND_ASSIGN(SessionStart foreign, db.CreateSession(other_model, ids));
  EXPECT_THAT(engine().Prefill(foreign.session, ids),
              FailsWith(StatusCode::kInvalidArgument, HasSubstr("another")));
  ModelSpec other_dtype = engine().spec();
  other_dtype.kv_dtype = DType::kFloat16;
  ATTNDB_ASSERT_OK_AND_ASSIGN(SessionStart half, db.CreateSession(other_dtype, ids));
  EXPECT_THAT(engine().Prefill(half.session, ids),
              FailsWith(StatusCode::kInvalidArgument, HasSubstr("kv_dtype")));
  ExpectHealthy(session, ids);
}

TEST_P(EngineFailureTest, LogitsThatTheLastCallDidNotGiveAreAnError) {
  const std::vector<TokenId> ids = Ids(10);
  const auto lacks = [this](size_t entry, const char* text) {
    EXPECT_THAT(engine().Logits(entry),
                FailsWith(StatusCode::kFailedPrecondition, HasSubstr(text)));
  };
  lacks(0, "entry 0: the engine has run nothing");
  ATTNDB_ASSERT_OK_AND_ASSIGN(const DB db, OpenStore());
  ATTNDB_ASSERT_OK_AND_ASSIGN(Session first, NewSession(db));
  ATTNDB_ASSERT_OK_AND_ASSIGN(Session second, NewSession(db));
  const BatchEntry both[] = {{&first, ids}, {&second, ids}};
  ATTNDB_ASSERT_OK(engine().DecodeBatch(both));
  ATTNDB_EXPECT_OK(engine().Logits(1));
  lacks(2, "entry 2: the engine's last call had 2");

  // A call of one entry leaves none of the rows of two.
  ATTNDB_ASSERT_OK(engine().Decode(first, 1));
  ATTNDB_EXPECT_OK(engine().Logits(0));
  lacks(1, "entry 1: the engine's last call had 1");
  ATTNDB_ASSERT_OK(engine().Prefill(first, ids));
  lacks(1, "entry 1: the engine's last call had 1");

  // Nor does a call that fails, before or after it has run.
  EXPECT_FALSE(engine().Prefill(first, {}).ok());
  lacks(0, "its last call failed");
  ATTNDB_ASSERT_OK(engine().Decode(first, 1));
  EXPECT_FALSE(engine().Decode(first, 1, {.window_tokens = 4, .keep_first = 4}).ok());
  lacks(0, "its last call failed");
  ATTNDB_ASSERT_OK(engine().Decode(first, 1));
  EXPECT_FALSE(engine().Generate(first, ids, {.sampler = {.top_p = 2}}).ok());
  lacks(0, "its last call failed");
}

TEST_P(EngineFailureTest, AnEntryThatFailsHasNoLogits) {
  const std::vector<TokenId> ids = Ids(10);
  ATTNDB_ASSERT_OK_AND_ASSIGN(const DB db, OpenStore());
  ATTNDB_ASSERT_OK_AND_ASSIGN(Session good, NewSession(db));
  const uint64_t half = engine().spec().KvBytesPerToken() / 2;
  ATTNDB_ASSERT_OK_AND_ASSIGN(
      const DB small,
      DB::Open(directory_.File("small"), {.query_sample = 0, .host_memory_bytes = half}));
  ATTNDB_ASSERT_OK_AND_ASSIGN(Session poor, NewSession(small));
  const BatchEntry entries[] = {{&poor, ids}, {&good, ids}};
  std::vector<Status> statuses;
  ATTNDB_ASSERT_OK(engine().DecodeBatch(entries, &statuses));
  EXPECT_THAT(engine().Logits(0),
              FailsWith(StatusCode::kFailedPrecondition, HasSubstr("entry 0: the entry failed")));
  ATTNDB_ASSERT_OK_AND_ASSIGN(const LogitRows plain, PlainRows(engine(), ids));
  EXPECT_LT(RowDifference(*engine().Logits(1), plain.back()), 1e-4);
}

// A pass inside a pass would overwrite the logits that the outer one still gives.
TEST_P(EngineFailureTest, CallbacksCantRunTheEngine) {
  const std::vector<TokenId> ids = Ids(100);  // Two ubatches.
  ATTNDB_ASSERT_OK_AND_ASSIGN(const DB db, OpenStore());
  ATTNDB_ASSERT_OK_AND_ASSIGN(Session session, NewSession(db));
  ATTNDB_ASSERT_OK_AND_ASSIGN(Session other, NewSession(db));
  ATTNDB_ASSERT_OK_AND_ASSIGN(const LogitRows plain, PlainRows(engine(), ids));
  size_t num_refused = 0;
  const auto try_to_run = [&] {
    const BatchEntry entry = {.session = &other, .tokens = std::span(ids).first(1)};
    for (const Status& status :
         {engine().Prefill(other, ids), engine().Decode(other, 1),
          engine().DecodeBatch({&entry, 1}), engine().Generate(other, ids).status()}) {
      EXPECT_THAT(status, FailsWith(StatusCode::kFailedPrecondition, HasSubstr("callback")));
    }
    ++num_refused;
  };
  PrefillOptions options;
  options.on_logits = [&](uint64_t index, std::span<const float> logits) {
    try_to_run();
    EXPECT_LT(RowDifference(logits, plain[index]), 1e-4);
  };
  options.progress = [&](const PrefillProgress&) {
    try_to_run();
    return true;
  };
  options.checkpoint = [&](uint64_t) {
    try_to_run();
    return Status();
  };
  ATTNDB_ASSERT_OK(engine().Prefill(session, ids, options));
  EXPECT_EQ(num_refused, 100u + 2u + 1u);
  EXPECT_LT(RowDifference(*engine().Logits(), plain.back()), 1e-4);
  EXPECT_EQ(other.num_tokens(), 0u);
  ExpectHealthy(session, ids);
}

TEST_P(EngineFailureTest, APlainContextWithoutARunHasNoLogits) {
  ATTNDB_ASSERT_OK_AND_ASSIGN(const auto plain, engine().OpenPlain({.num_tokens = 256}));
  const auto lacks = FailsWith(StatusCode::kFailedPrecondition, HasSubstr("no logits"));
  EXPECT_THAT(plain->Logits(), lacks);
  ATTNDB_ASSERT_OK(plain->Run(Ids(10)));
  ATTNDB_EXPECT_OK(plain->Logits());
  EXPECT_THAT(plain->Run(Ids(300)), FailsWith(StatusCode::kResourceExhausted, _));
  EXPECT_THAT(plain->Logits(), lacks);
}

TEST_P(EngineFailureTest, LlamaCppsOwnCacheStaysAtOneUbatch) {
  ATTNDB_ASSERT_OK_AND_ASSIGN(const DB db, OpenStore());
  ATTNDB_ASSERT_OK_AND_ASSIGN(Session session, NewSession(db));
  ATTNDB_ASSERT_OK(engine().Prefill(session, Ids(900)));
  EXPECT_EQ(engine().engine_cache().num_used, 0u);
  EXPECT_LE(engine().engine_cache().num_cells, 256u) << "llama.cpp rounds 64 up to 256";
}

TEST(EngineOptionsTest, AreChecked) {
  EngineOptions options;
  options.ubatch_tokens = 0;
  EXPECT_THAT(LlamaEngine::Open(TinyModel("llama"), options),
              FailsWith(StatusCode::kInvalidArgument, HasSubstr("ubatch_tokens")));
  options = {};
  options.max_sessions = 1000;
  EXPECT_THAT(LlamaEngine::Open(TinyModel("llama"), options),
              FailsWith(StatusCode::kInvalidArgument, HasSubstr("max_sessions")));
}

// Else the weights of one file would run under the fingerprint of another. The model's kept digest
// is a pipe, so that the engine waits there, once all is loaded and before the adapter is hashed.
TEST(EngineOpenTest, WeightsThatAreReplacedOnceTheyAreLoadedAreRefused) {
  const ::attndb::test::TempDir directory;
  const std::string model = directory.File("model.gguf");
  const std::string adapter = directory.File("adapter.gguf");
  const std::string other = directory.File("other.gguf");
  fs::copy_file(TinyModel("llama"), model);
  fs::copy_file(TinyModel("llama_lora"), adapter);
  fs::copy_file(TinyModel("llama_lora"), other);
  EngineOptions options = TinyOptions(HookVariant::kRewrite);
  options.cache_dir = directory.File("cache");
  ATTNDB_ASSERT_OK(LlamaEngine::Open(model, options));
  const fs::path digest = fs::directory_iterator(options.cache_dir + "/digests")->path();
  fs::remove(digest);
  ASSERT_EQ(::mkfifo(digest.c_str(), 0600), 0);

  options.adapters.push_back({.path = adapter});
  std::atomic<bool> is_open = false;
  std::thread replacer([&] {
    int pipe = -1;
    while (pipe < 0 && !is_open) {  // Until there is a reader.
      pipe = ::open(digest.c_str(), O_WRONLY | O_NONBLOCK | O_CLOEXEC);
      std::this_thread::yield();
    }
    fs::rename(other, adapter);
    if (pipe >= 0) ::close(pipe);  // The reader goes on.
  });
  const Result<LlamaEngine> engine = LlamaEngine::Open(model, options);
  is_open = true;
  replacer.join();
  EXPECT_THAT(engine, FailsWith(StatusCode::kFailedPrecondition,
                                HasSubstr(adapter + "' was replaced or changed")));
}

INSTANTIATE_TEST_SUITE_P(Variants, EngineFailureTest,
                         ::testing::Values(HookVariant::kRewrite, HookVariant::kObserve),
                         [](const auto& param_info) {
                           return param_info.param == HookVariant::kRewrite ? "Rewrite" : "Observe";
                         });

}  // namespace
}  // namespace attndb::llama
