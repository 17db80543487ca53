// Goal:   sessions of a batch give, bit for bit, the output of each alone, whatever the threads and
//         the neighbours are. A session that fails or waits for the disk harms no other.
// Method: toy sessions of chosen lengths; batches by one thread and by several.
#include "attndb/session_batch.h"

#include <atomic>
#include <thread>

#include "api/stopped_db_test_util.h"

namespace attndb {
namespace {

using test::Event;
using test::FailsWith;
using test::Tokens;
using test::ToyModel;
using ::testing::HasSubstr;

constexpr uint32_t kThreads = 3;
constexpr char kReadsPlanes[] = "topk(k=5,bits=4)";

// The rows of several sessions, one after another.
struct Rows {
  std::vector<float> data;
  uint32_t num_heads = 0;
  uint32_t dim = 0;

  void Add(const std::vector<float>& rows) { data.insert(data.end(), rows.begin(), rows.end()); }
  TensorView View() const { return test::ViewOf(data, num_heads, dim); }
  int64_t num_rows() const { return View().shape[0]; }
};

class SessionBatchTest : public test::StoppedDBFixture {
 protected:
  SessionBatchTest() : StoppedDBFixture({.background_builds = false}) {}

  // The engine's input for a step: the new tokens of each session.
  struct Step {
    std::vector<Session*> sessions;
    std::vector<Tokens> tokens;

    std::vector<SessionBatch::Entry> Entries() const {
      std::vector<SessionBatch::Entry> entries;
      for (size_t i = 0; i < sessions.size(); ++i) {
        entries.push_back({sessions[i], static_cast<int64_t>(tokens[i].size())});
      }
      return entries;
    }
  };

  enum class Part { kKeys, kValues, kQueries };
  Rows RowsOf(const Step& step, LayerId layer, Part part) const {
    const LayerSpec& shape = model_.spec().layers[layer];
    Rows rows;
    rows.num_heads = part == Part::kQueries ? shape.num_q_heads : shape.num_kv_heads;
    rows.dim = part == Part::kValues ? shape.v_head_dim : shape.head_dim;
    for (size_t i = 0; i < step.sessions.size(); ++i) {
      const uint64_t first = first_[i];
      switch (part) {
        case Part::kKeys:
          rows.Add(model_.Keys(layer, step.tokens[i], first));
          break;
        case Part::kValues:
          rows.Add(model_.Values(layer, step.tokens[i], first));
          break;
        case Part::kQueries:
          rows.Add(model_.Queries(layer, step.tokens[i], first));
      }
    }
    return rows;
  }

  template <typename Call>
  static void OnThreads(uint32_t num_threads, const Call& call) {
    std::vector<std::thread> threads;
    for (uint32_t t = 0; t < num_threads; ++t) threads.emplace_back([&call, t] { call(t); });
    for (std::thread& thread : threads) thread.join();
  }

  // One step of all layers; the outputs of the last one.
  std::vector<float> Run(const Step& step, SessionBatch* batch, uint32_t num_threads) {
    first_.clear();
    for (const Session* session : step.sessions) first_.push_back(session->num_tokens());
    std::vector<float> out;
    for (LayerId layer = 0; layer < model_.spec().num_layers(); ++layer) {
      const LayerSpec& shape = model_.spec().layers[layer];
      Rows k = RowsOf(step, layer, Part::kKeys);
      const Rows v = RowsOf(step, layer, Part::kValues);
      const Rows q = RowsOf(step, layer, Part::kQueries);
      if (edit_) edit_(layer, &k.data);
      out.assign(static_cast<size_t>(q.num_rows()) * shape.num_q_heads * shape.v_head_dim, -1.0f);
      const auto out_view = MutableTensorView::Contiguous(out.data(), DType::kFloat32, q.num_rows(),
                                                          shape.num_q_heads, shape.v_head_dim);
      OnThreads(num_threads, [&](uint32_t part) {
        ATTNDB_EXPECT_OK(batch->AppendPart(layer, k.View(), v.View(), part, num_threads));
      });
      OnThreads(num_threads, [&](uint32_t part) {
        ATTNDB_EXPECT_OK(batch->AttendPart(layer, q.View(), out_view, nullptr, part, num_threads));
      });
    }
    return out;
  }
  std::vector<float> Run(const Step& step, uint32_t num_threads) {
    SessionBatch batch(step.Entries());
    std::vector<float> out = Run(step, &batch, num_threads);
    for (size_t i = 0; i < batch.size(); ++i) ATTNDB_EXPECT_OK(batch.status(i));
    return out;
  }

  Session SessionOf(size_t num_tokens, uint64_t seed) {
    Session session = NewSession();
    ATTNDB_EXPECT_OK(model_.Step(&session, ToyModel::Tokens(num_tokens, seed)));
    return session;
  }
  // By another process, as it were: this store builds nothing.
  void BuildPlanes(const char* context) {
    db_.reset();
    {
      ATTNDB_ASSERT_OK_AND_ASSIGN(DB db, DB::Open(store()));
      ATTNDB_ASSERT_OK(db.Build(context, "planes").status());
    }
    OpenWithFiles();
  }
  size_t OutputsPerRow() const {
    const LayerSpec& shape = model_.spec().layers.back();
    return size_t{shape.num_q_heads} * shape.v_head_dim;
  }

  std::vector<uint64_t> first_;  // [session]: the first new token.
  std::function<void(LayerId layer, std::vector<float>* k)> edit_;
};

TEST_F(SessionBatchTest, StepsAreThoseOfEachSessionAlone) {
  const std::vector<size_t> lengths = {40, 3000, 1, 700, 1500};
  const std::vector<size_t> num_new = {1, 1, 9, 200, 1};
  std::vector<Session> alone;
  std::vector<Session> together;
  Step step;
  for (size_t i = 0; i < lengths.size(); ++i) {
    alone.push_back(SessionOf(lengths[i], i));
    together.push_back(SessionOf(lengths[i], i));
    step.tokens.push_back(ToyModel::Tokens(num_new[i], 100 + i));
  }
  for (Session& session : together) step.sessions.push_back(&session);
  const std::vector<float> found = Run(step, kThreads);
  std::vector<float> expected;
  for (size_t i = 0; i < alone.size(); ++i) {
    const std::vector<float> own = Run({{&alone[i]}, {step.tokens[i]}}, kThreads);
    expected.insert(expected.end(), own.begin(), own.end());
    EXPECT_EQ(together[i].num_tokens(), lengths[i] + num_new[i]);
  }
  EXPECT_EQ(found, expected);
}

TEST_F(SessionBatchTest, ASessionThatFailsIsLeftOutAlone) {
  std::vector<Session> sessions;
  Step step;
  for (uint64_t i = 0; i < 3; ++i) {
    sessions.push_back(SessionOf(1200, i));
    step.tokens.push_back(ToyModel::Tokens(2, 10 + i));
  }
  for (Session& session : sessions) step.sessions.push_back(&session);
  Session good = SessionOf(1200, 2);
  const std::vector<float> expected = Run({{&good}, {step.tokens[2]}}, kThreads);

  // Keys of the second session that no float16 holds.
  edit_ = [&](LayerId layer, std::vector<float>* k) {
    if (layer == 1) (*k)[k->size() / 2] = 1e30f;
  };
  SessionBatch batch(step.Entries());
  const std::vector<float> out = Run(step, &batch, kThreads);
  ATTNDB_EXPECT_OK(batch.status(0));
  EXPECT_THAT(batch.status(1), FailsWith(StatusCode::kInvalidArgument, HasSubstr("layer 1")));
  ATTNDB_EXPECT_OK(batch.status(2));
  EXPECT_FALSE(batch.all_failed());
  const auto rows = [&](size_t session) {
    const auto begin = out.begin() + static_cast<std::ptrdiff_t>(2 * session * OutputsPerRow());
    return std::vector<float>(begin, begin + static_cast<std::ptrdiff_t>(2 * OutputsPerRow()));
  };
  EXPECT_EQ(rows(1), std::vector<float>(2 * OutputsPerRow(), 0.0f));
  EXPECT_EQ(rows(2), expected);
  // It goes on once it was cropped.
  edit_ = nullptr;
  ATTNDB_ASSERT_OK(sessions[1].Crop(1200));
  Session other = SessionOf(1200, 1);
  EXPECT_EQ(Run({{&sessions[1]}, {step.tokens[1]}}, kThreads),
            Run({{&other}, {step.tokens[1]}}, kThreads));
}

TEST_F(SessionBatchTest, ABatchKnowsWhenNoSessionIsLeft) {
  Session a = SessionOf(10, 1);
  Session b = SessionOf(20, 2);
  const Step step = {{&a, &b}, {Tokens{1}, Tokens{2}}};
  edit_ = [](LayerId, std::vector<float>* k) { std::ranges::fill(*k, 1e30f); };
  SessionBatch batch(step.Entries());
  const std::vector<float> out = Run(step, &batch, 1);
  EXPECT_TRUE(batch.all_failed());
  EXPECT_EQ(out, std::vector<float>(out.size(), 0.0f));
}

TEST_F(SessionBatchTest, BadArgumentsConcernAll) {
  Session session = SessionOf(10, 1);
  SessionBatch batch(std::vector<SessionBatch::Entry>{{&session, 2}});
  const LayerSpec& shape = model_.spec().layers[0];
  const std::vector<float> q(size_t{3} * shape.num_q_heads * shape.head_dim);
  const std::vector<float> k(size_t{3} * shape.num_kv_heads * shape.head_dim);
  const TensorView q_view = test::ViewOf(q, shape.num_q_heads, shape.head_dim);
  const TensorView k_view = test::ViewOf(k, shape.num_kv_heads, shape.head_dim);
  std::vector<float> out(3 * OutputsPerRow());
  const auto out_view = MutableTensorView::Contiguous(out.data(), DType::kFloat32, 3,
                                                      shape.num_q_heads, shape.v_head_dim);
  EXPECT_THAT(batch.AppendPart(0, k_view, k_view, 0, 1),
              FailsWith(StatusCode::kInvalidArgument, HasSubstr("2 rows in all, but k has 3")));
  EXPECT_THAT(batch.AttendPart(0, q_view, out_view, nullptr, 0, 1),
              FailsWith(StatusCode::kInvalidArgument, HasSubstr("2 rows in all, but q has 3")));
  EXPECT_THAT(batch.AttendPart(0, q_view, out_view, nullptr, 2, 2),
              FailsWith(StatusCode::kInvalidArgument, HasSubstr("part 2 of 2")));
  EXPECT_THAT(batch.AttendPart(9, q_view, out_view, nullptr, 0, 1),
              FailsWith(StatusCode::kInvalidArgument, HasSubstr("layer 9")));
  ATTNDB_EXPECT_OK(batch.status(0));
}

TEST_F(SessionBatchTest, ABatchIsOneStep) {
  Session session = SessionOf(10, 1);
  SessionBatch batch(std::vector<SessionBatch::Entry>{{&session, 1}});
  const Step step = {{&session}, {Tokens{1}}};
  const std::vector<float> once = Run(step, &batch, 2);
  const Rows k = RowsOf(step, 0, Part::kKeys);
  const Rows v = RowsOf(step, 0, Part::kValues);
  const Rows q = RowsOf(step, 0, Part::kQueries);
  std::vector<float> out(OutputsPerRow(), -1.0f);
  const auto out_view = MutableTensorView::Contiguous(out.data(), DType::kFloat32, 1, q.num_heads,
                                                      model_.spec().layers[0].v_head_dim);
  const auto is_refused = FailsWith(StatusCode::kFailedPrecondition, HasSubstr("one step"));
  EXPECT_THAT(batch.AppendPart(0, k.View(), v.View(), 0, 2), is_refused);
  EXPECT_THAT(batch.AttendPart(0, q.View(), out_view, nullptr, 0, 2), is_refused);
  EXPECT_THAT(batch.Attend(0, q.View(), out_view), is_refused);
  EXPECT_EQ(out, std::vector<float>(out.size(), -1.0f));
  EXPECT_EQ(session.num_tokens(), 11u) << "nothing was appended twice";
  ATTNDB_EXPECT_OK(batch.status(0));
}

TEST_F(SessionBatchTest, AttendBatchTellsEachSession) {
  Session a = SessionOf(1500, 1);
  Session b = SessionOf(7, 2);
  const LayerSpec& shape = model_.spec().layers[0];
  const std::vector<float> q = model_.Queries(0, Tokens{1, 2, 3}, 0);
  const TensorView q_view = test::ViewOf(q, shape.num_q_heads, shape.head_dim);
  const size_t row = size_t{shape.num_q_heads} * shape.v_head_dim;
  std::vector<float> out(3 * row);
  std::vector<float> lse(size_t{3} * shape.num_q_heads);
  const auto out_of = [&](float* data, int64_t num_rows) {
    return MutableTensorView::Contiguous(data, DType::kFloat32, num_rows, shape.num_q_heads,
                                         shape.v_head_dim);
  };
  Session* const sessions[] = {&a, &b};
  const int64_t num_rows[] = {1, 2};
  ATTNDB_ASSERT_OK(AttendBatch(sessions, num_rows, 0, q_view, out_of(out.data(), 3), lse.data()));
  std::vector<float> expected(out.size());
  std::vector<float> expected_lse(lse.size());
  TensorView q_of = q_view;
  q_of.shape[0] = 1;
  ATTNDB_ASSERT_OK(a.Attend(0, q_of, out_of(expected.data(), 1), expected_lse.data()));
  q_of = test::ViewOf(q, shape.num_q_heads, shape.head_dim);
  q_of.data = q.data() + size_t{shape.num_q_heads} * shape.head_dim;
  q_of.shape[0] = 2;
  ATTNDB_ASSERT_OK(
      b.Attend(0, q_of, out_of(expected.data() + row, 2), expected_lse.data() + shape.num_q_heads));
  EXPECT_EQ(out, expected);
  EXPECT_EQ(lse, expected_lse);

  // More rows than it has tokens: its own error, by name and in the list.
  const int64_t swapped[] = {1, 2};
  Session empty = NewSession();
  Session* const with_empty[] = {&a, &empty};
  EXPECT_THAT(AttendBatch(with_empty, swapped, 0, q_view, out_of(out.data(), 3)),
              FailsWith(StatusCode::kInvalidArgument, HasSubstr("session 1 of the batch")));
  std::vector<Status> statuses;
  ATTNDB_EXPECT_OK(
      AttendBatch(with_empty, swapped, 0, q_view, out_of(out.data(), 3), nullptr, &statuses));
  ASSERT_EQ(statuses.size(), 2u);
  ATTNDB_EXPECT_OK(statuses[0]);
  EXPECT_EQ(statuses[1].code(), StatusCode::kInvalidArgument);
  const int64_t too_few[] = {1, 1};
  EXPECT_THAT(AttendBatch(sessions, too_few, 0, q_view, out_of(out.data(), 3)),
              FailsWith(StatusCode::kInvalidArgument, HasSubstr("2 rows in all")));
  EXPECT_THAT(AttendBatch(sessions, {}, 0, q_view, out_of(out.data(), 3)),
              FailsWith(StatusCode::kInvalidArgument, HasSubstr("0 numbers of rows")));
}

TEST_F(SessionBatchTest, ASessionThatWaitsForTheDiskHoldsUpNoOther) {
  const Tokens slow = ToyModel::Tokens(1000, 1);
  ATTNDB_ASSERT_OK(StoreTokens(slow, {.name = "slow"}));
  OpenWithFiles();
  SessionStart cold = Start(test::Concat(slow, Tokens{1}));
  ASSERT_EQ(cold.session.num_reused(), slow.size());
  Session ready = SessionOf(50, 2);
  const uint64_t before = ready.Explain(0)->num_queries;
  const Step step = {{&cold.session, &ready}, {Tokens{1}, Tokens{2}}};
  SessionBatch batch(step.Entries());
  Event waiting;
  files_.SetPlan({.fail_at = 1, .waits_for = &release_, .waiting = &waiting});
  std::vector<float> out(2 * OutputsPerRow(), -1.0f);
  std::thread engine([&] { out = Run(step, &batch, 1); });
  waiting.Await();
  // One thread alone, and yet the ready session's attention was done before the wait.
  EXPECT_EQ(ready.Explain(0)->num_queries, before + 1);
  release_.Set();
  engine.join();
  ATTNDB_EXPECT_OK(batch.status(0));
}

// K and V alone are in memory: the plan that holds then reads planes, too.
TEST_F(SessionBatchTest, ASessionThatWaitsForItsPlanesHoldsUpNoOther) {
  const Tokens slow = ToyModel::Tokens(1000, 1);
  ATTNDB_ASSERT_OK(StoreTokens(slow, {.name = "slow"}));
  BuildPlanes("slow");
  SessionStart cold = Start(test::Concat(slow, Tokens{1}));
  ATTNDB_ASSERT_OK(cold.session.SetPlan("full"));
  ATTNDB_ASSERT_OK(cold.session.Load());
  ATTNDB_ASSERT_OK(cold.session.SetPlan(kReadsPlanes));
  Session ready = SessionOf(50, 2);
  const uint64_t before = ready.Explain(0)->num_queries;
  const Step step = {{&cold.session, &ready}, {Tokens{1}, Tokens{2}}};
  SessionBatch batch(step.Entries());
  Event waiting;
  files_.SetPlan({.fail_at = 1, .waits_for = &release_, .waiting = &waiting});
  std::atomic<bool> has_ended = false;
  std::thread engine([&] {
    (void)Run(step, &batch, 1);
    has_ended.store(true);
    waiting.Set();
  });
  waiting.Await();
  EXPECT_FALSE(has_ended.load()) << "nothing was read";
  EXPECT_EQ(ready.Explain(0)->num_queries, before + 1);
  release_.Set();
  engine.join();
  ATTNDB_EXPECT_OK(batch.status(0));
}

TEST_F(SessionBatchTest, PlanesThatWereLoadedAreNotReadAgain) {
  const Tokens stored = ToyModel::Tokens(1000, 1);
  ATTNDB_ASSERT_OK(StoreTokens(stored, {.name = "stored"}));
  BuildPlanes("stored");
  SessionStart start = Start(test::Concat(stored, Tokens{1}));
  ATTNDB_ASSERT_OK(start.session.SetPlan(kReadsPlanes));
  ATTNDB_ASSERT_OK(start.session.Load());
  files_.SetPlan({.fail_at = 1, .sticky = true});
  (void)Run({{&start.session}, {Tokens{1}}}, 1);
  EXPECT_EQ(files_.num_faults(), 0u);
  EXPECT_GT(start.session.Explain(0)->heads[0].selected_mean, 0) << "the plan ran";
}

TEST_F(SessionBatchTest, WhatWasLoadedDoesNotWait) {
  const Tokens stored = ToyModel::Tokens(1000, 1);
  ATTNDB_ASSERT_OK(StoreTokens(stored, {.name = "stored"}));
  OpenWithFiles();
  SessionStart start = Start(test::Concat(stored, Tokens{1}));
  ATTNDB_ASSERT_OK(start.session.Load());
  files_.SetPlan({.fail_at = 1, .sticky = true});
  (void)Run({{&start.session}, {Tokens{1}}}, 1);
  EXPECT_EQ(files_.num_faults(), 0u);
}

TEST_F(SessionBatchTest, LoadTellsWhatItCanNotRead) {
  const Tokens stored = ToyModel::Tokens(1000, 1);
  ATTNDB_ASSERT_OK(StoreTokens(stored, {.name = "stored"}));
  OpenWithFiles();
  SessionStart start = Start(test::Concat(stored, Tokens{1}));
  files_.SetPlan({.fail_at = 1, .sticky = true});
  EXPECT_EQ(start.session.Load().code(), StatusCode::kIoError);
  files_.SetPlan({});
  ATTNDB_EXPECT_OK(start.session.Load());
}

}  // namespace
}  // namespace attndb
