// Goal:   an Attend runs as DBOptions say, and Explain reports what ran: threads, the limit of
//         dense rows, selected tokens, bytes and times.
#include <limits>
#include <thread>

#include "api/db_test_util.h"

namespace attndb {
namespace {

using test::DBFixture;
using test::Tokens;
using test::ToyModel;
using test::ViewOf;
using ::testing::HasSubstr;

// Output and lse of one layer.
struct Answer {
  std::vector<float> out, lse;
  friend bool operator==(const Answer&, const Answer&) = default;
};

class AttendTest : public DBFixture {
 protected:
  // A session that holds `num_tokens`, in a store of `options`.
  Session Run(uint64_t num_tokens, const DBOptions& options) {
    Open(options);
    Session session = NewSession();
    ATTNDB_EXPECT_OK(AppendTokens(&session, ToyModel::Tokens(num_tokens, 1), nullptr));
    return session;
  }

  // Attend of the newest `num_rows` tokens, or AttendPart in `num_parts`, one thread each.
  Answer Attend(Session* session, LayerId layer, uint64_t num_rows, uint32_t num_parts = 0) {
    const LayerSpec& shape = model_.spec().layers[layer];
    const std::vector<float> q = model_.Queries(layer, ToyModel::Tokens(num_rows, 2), 0);
    const TensorView q_view = ViewOf(q, shape.num_q_heads, shape.head_dim);
    Answer answer;
    answer.out.resize(num_rows * shape.num_q_heads * shape.v_head_dim);
    answer.lse.resize(num_rows * shape.num_q_heads);
    const auto out = MutableTensorView::Contiguous(answer.out.data(), DType::kFloat32,
                                                   static_cast<int64_t>(num_rows),
                                                   shape.num_q_heads, shape.v_head_dim);
    if (num_parts == 0) {
      ATTNDB_EXPECT_OK(session->Attend(layer, q_view, out, answer.lse.data()));
      return answer;
    }
    std::vector<std::thread> threads;
    for (uint32_t part = 0; part < num_parts; ++part) {
      threads.emplace_back([&, part] {
        ATTNDB_EXPECT_OK(
            session->AttendPart(layer, q_view, out, answer.lse.data(), part, num_parts));
      });
    }
    for (std::thread& thread : threads) thread.join();
    return answer;
  }
};

struct Case {
  std::string plan;
  LayerId layer;
  uint64_t num_rows;
};

std::vector<Case> Cases() {
  std::vector<Case> cases;
  for (const char* plan : {"full", "topk(k=32,sink=4,window=16)", "dipr(beta=5)", "window"}) {
    for (const LayerId layer : {0u, 1u}) {
      for (const uint64_t num_rows : {1u, 2u, 7u, 100u}) cases.push_back({plan, layer, num_rows});
    }
  }
  return cases;
}

// 3,000 tokens are more than one range of keys for each part, even for one row.
TEST_F(AttendTest, ThreadsOfTheDbEqualPartsOfTheCaller) {
  constexpr uint64_t kNumTokens = 3100;
  const std::vector<Case> cases = Cases();
  const auto answers = [&](uint32_t num_threads, uint32_t num_parts) {
    Session session = Run(kNumTokens, {.num_threads = num_threads});
    std::vector<Answer> found;
    for (const Case& c : cases) {
      ATTNDB_EXPECT_OK(session.SetPlan(c.plan));
      found.push_back(Attend(&session, c.layer, c.num_rows, num_parts));
    }
    return found;
  };
  const std::vector<Answer> threads = answers(3, 0);
  const std::vector<Answer> parts = answers(1, 3);
  const std::vector<Answer> alone = answers(1, 0);
  EXPECT_EQ(alone, answers(1, 1));
  for (size_t i = 0; i < threads.size(); ++i) {
    const Case& c = cases[i];
    EXPECT_TRUE(threads[i] == parts[i]) << c.plan << " layer " << c.layer << " rows " << c.num_rows;
    EXPECT_TRUE(c.plan != "full" || threads[i] == alone[i]) << "layer " << c.layer;
    for (size_t j = 0; j < alone[i].out.size(); ++j) {
      ASSERT_NEAR(threads[i].out[j], alone[i].out[j], 1e-4) << c.plan << " " << c.num_rows;
    }
  }
}

TEST_F(AttendTest, MoreRowsThanDenseQueryTokensRunFull) {
  constexpr const char* kPlan = "topk(k=8,sink=4,window=16)";
  Session sparse = Run(200, {.dense_query_tokens = 4});
  ATTNDB_ASSERT_OK_AND_ASSIGN(Session full, sparse.Fork());
  ATTNDB_ASSERT_OK(sparse.SetPlan(kPlan));
  for (const LayerId layer : {0u, 1u}) {
    const Answer five = Attend(&sparse, layer, 5);
    EXPECT_EQ(sparse.Explain(layer)->num_queries, 5u);
    EXPECT_EQ(sparse.Explain(layer)->selected_mean, 0.0);  // No row chose.
    EXPECT_EQ(five, Attend(&full, layer, 5));
    const Answer four = Attend(&sparse, layer, 4);
    EXPECT_EQ(sparse.Explain(layer)->num_queries, 9u);
    EXPECT_EQ(sparse.Explain(layer)->selected_mean, 8.0);  // Mean over the rows that did.
    EXPECT_NE(four, Attend(&full, layer, 4));
  }
}

TEST_F(AttendTest, WhereNoRowMayChooseExplainSaysSo) {
  Session session = Run(200, {.dense_query_tokens = 0});
  ATTNDB_ASSERT_OK(session.SetPlan("topk(k=8,sink=4,window=16)"));
  EXPECT_EQ(session.Explain(0)->reason, "more rows than dense_query_tokens: full");
  EXPECT_EQ(session.Explain(0)->num_middle, 0u);
}

// From 2,048 tokens on there is work for two threads, which share the memory bandwidth.
TEST_F(AttendTest, ThreadsShareWhatIsWorthSharing) {
  Session session = Run(2047, {.num_threads = 2});
  const auto heads_us = [&] {
    const LayerExplain layer = *session.Explain(1);
    double sum = 0;
    for (const HeadExplain& head : layer.heads) sum += head.predicted_us;
    return sum;
  };
  const double us_of_one = heads_us();
  EXPECT_NEAR(session.Explain(1)->predicted_us, us_of_one, us_of_one * 1e-6);
  ATTNDB_ASSERT_OK(AppendTokens(&session, Tokens{5}, nullptr));
  EXPECT_GT(heads_us(), 1.05 * us_of_one) << "the work of a thread";
  EXPECT_LT(session.Explain(1)->predicted_us, 0.99 * us_of_one);
}

class ExplainTest : public AttendTest {};

TEST_F(ExplainTest, SaysWhatTopKSelectedReadAndTook) {
  Session session = NewSession("topk(k=8,sink=4,window=16)");
  ATTNDB_ASSERT_OK(model_.Step(&session, ToyModel::Tokens(200, 1)));
  Probe(&session);
  for (const LayerExplain& layer : session.Explain().layers) {
    SCOPED_TRACE(layer.layer);
    EXPECT_EQ(layer.reason, "");
    EXPECT_EQ(layer.num_tokens, 200u);
    EXPECT_EQ(layer.num_middle, 180u);
    EXPECT_EQ(layer.num_queries, 201u);
    EXPECT_EQ(layer.selected_mean, 8.0);
    EXPECT_EQ(layer.predicted_selected, 8.0);
    // K of all tokens, V of sink, window and the chosen for each q head.
    const uint64_t num_kv_heads = layer.layer == 0 ? 2 : 3;
    const uint64_t v_row = layer.layer == 0 ? 16 : 32;  // Elements, padded.
    EXPECT_EQ(layer.bytes_touched, 2 * (200 * num_kv_heads * 32 + 6 * (4 + 16 + 8) * v_row));
    EXPECT_EQ(layer.predicted_bytes, layer.bytes_touched);
    for (uint32_t i = 0; i < layer.heads.size(); ++i) {
      EXPECT_EQ(layer.heads[i].kv_head, i);
      EXPECT_EQ(layer.heads[i].predicted_selected, 8.0);
      EXPECT_EQ(layer.heads[i].other_us, -1) << "the plan leaves no choice";
    }
    EXPECT_GT(layer.append_us, 0.0);
    EXPECT_GT(layer.score_us, 0.0);
    EXPECT_GT(layer.select_us, 0.0);
    EXPECT_GT(layer.attend_us, 0.0);
  }
}

// No more than people read: lines, and columns of a terminal.
void ExpectShort(const std::string& summary) {
  EXPECT_LE(std::ranges::count(summary, '\n'), 8) << summary;
  size_t columns = 0;
  for (const char c : summary) {
    columns = c == '\n' ? 0 : columns + 1;
    ASSERT_LE(columns, 100u) << summary;
  }
}

TEST_F(ExplainTest, CountsWhatIsReusedAndWhatHasLeftOrMoved) {
  const Tokens stored = StoreChain("a", std::vector<uint64_t>{200, 60}, 1);
  Session session = Resume(stored, 20);
  ATTNDB_ASSERT_OK(session.DropOldest(30, {.keep_first = 4}));
  const Explain explain = session.Explain();
  EXPECT_EQ(explain.num_tokens, 280u);
  EXPECT_EQ(explain.num_reused, 260u);
  EXPECT_EQ(explain.num_segments, 2u);
  EXPECT_EQ(explain.num_dropped, 30u);
  EXPECT_EQ(explain.num_moved, 4u);
  EXPECT_EQ(explain.kv_bytes, 280 * model_.spec().KvBytesPerToken());
  double predicted_us = 0;
  for (const LayerExplain& layer : explain.layers) predicted_us += layer.predicted_us;
  EXPECT_GT(predicted_us, 0);
  EXPECT_DOUBLE_EQ(explain.predicted_us, predicted_us);
}

TEST_F(ExplainTest, BytesAreThoseOfTheTypeThatIsStored) {
  ModelSpec spec = model_.spec();
  spec.kv_dtype = DType::kFloat32;
  model_ = ToyModel(spec);
  Session session = NewSession();
  ATTNDB_ASSERT_OK(model_.Step(&session, ToyModel::Tokens(200, 1)));
  Probe(&session);
  ATTNDB_ASSERT_OK_AND_ASSIGN(const LayerExplain layer, session.Explain(0));
  EXPECT_EQ(layer.bytes_touched, 4u * 200 * 2 * (32 + 16));
  EXPECT_EQ(layer.predicted_bytes, layer.bytes_touched);
}

TEST_F(ExplainTest, ALayerWithASlidingWindowHasNoMiddle) {
  ModelSpec spec = model_.spec();
  spec.layers[1].sliding_window = 37;
  model_ = ToyModel(spec);
  Session session = NewSession("topk(k=8,sink=4,window=16)");
  ATTNDB_ASSERT_OK(model_.Step(&session, ToyModel::Tokens(200, 1)));
  EXPECT_EQ(session.Explain(0)->num_middle, 180u);
  EXPECT_EQ(session.Explain(1)->num_middle, 0u);
  EXPECT_EQ(session.Explain(1)->reason, "sliding-window layer: exact over its window");
}

// How many tokens are within beta of the best nobody knows before.
TEST_F(ExplainTest, WhatARangeSelectedIsWhatIsExpected) {
  Session session = NewSession("dipr(beta=5,sink=4,window=16)");
  ATTNDB_ASSERT_OK(AppendTokens(&session, ToyModel::Tokens(200, 1), nullptr));
  EXPECT_EQ(session.Explain(1)->predicted_selected, -1);
  Probe(&session);
  ATTNDB_ASSERT_OK_AND_ASSIGN(const LayerExplain layer, session.Explain(1));
  EXPECT_GT(layer.selected_mean, 0);
  EXPECT_EQ(layer.predicted_selected, layer.selected_mean);
}

// 3 q heads of layer 0 share a kv head, 2 of layer 1.
TEST_F(ExplainTest, BoundsOfTheLastRowAreThoseOfEachQHead) {
  Session session = NewSession("topk(k=8,sink=4,window=16,exact_fallback=1)");
  ATTNDB_ASSERT_OK(AppendTokens(&session, ToyModel::Tokens(200, 1), nullptr));
  Probe(&session);
  for (const LayerExplain& layer : session.Explain().layers) {
    SCOPED_TRACE(layer.layer);
    const size_t group = layer.layer == 0 ? 3 : 2;
    for (const HeadExplain& head : layer.heads) {
      ASSERT_EQ(head.last_mass_bounds.size(), group);
      EXPECT_EQ(head.last_out_bounds.size(), group);
      double sum = 0;
      for (const double bound : head.last_mass_bounds) {
        EXPECT_GT(bound, 0);
        sum += bound;
      }
      EXPECT_NEAR(head.mass_bound, sum / static_cast<double>(group), 1e-5);
      EXPECT_EQ(head.num_fallbacks, 0u);
    }
  }
  // These are of the last call.
  (void)ProbeWith(&session, "topk(k=8,sink=4,window=16)");
  EXPECT_TRUE(session.Explain(1)->heads[0].last_mass_bounds.empty());
}

TEST_F(ExplainTest, RowsThatFellBackAreCountedAndHaveNoBound) {
  Session session = NewSession("topk(k=8,sink=4,window=16,exact_fallback=0.001)");
  ATTNDB_ASSERT_OK(AppendTokens(&session, ToyModel::Tokens(200, 1), nullptr));
  Probe(&session);
  Probe(&session);
  const LayerExplain layer = *session.Explain(0);
  for (const HeadExplain& head : layer.heads) {
    EXPECT_EQ(head.num_fallbacks, 2u * 3);
    EXPECT_EQ(head.mass_bound, 0);
  }
}

TEST_F(ExplainTest, AHeadThatRunsFullHasNoBounds) {
  Session session = NewSession("topk(k=8,sink=4,window=16,exact_fallback=1)");
  ATTNDB_ASSERT_OK(AppendTokens(&session, ToyModel::Tokens(200, 1),
                                [](LayerId, std::vector<float>* k, std::vector<float>*) {
                                  (*k)[32] = std::numeric_limits<float>::quiet_NaN();
                                }));
  Probe(&session);
  const std::vector<HeadExplain> heads = session.Explain(0)->heads;
  EXPECT_EQ(heads[0].last_mass_bounds.size(), 3u);
  EXPECT_TRUE(heads[1].last_mass_bounds.empty());
  EXPECT_EQ(heads[1].mass_bound, -1);
  EXPECT_EQ(heads[1].predicted_selected, 0);
}

// Prices matter to `auto` alone: for another plan nobody measures the machine.
TEST_F(ExplainTest, APlanThatIsNotPricedMeasuresNothing) {
  Session session = NewSession("topk(k=8,sink=4,window=16)");
  ATTNDB_ASSERT_OK(model_.Step(&session, ToyModel::Tokens(200, 1)));
  Probe(&session);
  ATTNDB_ASSERT_OK(db_->WaitForBackground());
  EXPECT_FALSE(db_->Machine()->measured);
}

TEST_F(ExplainTest, TheSummarySaysWhatIsReadInFewLines) {
  Session session = NewSession("topk(k=8,sink=4,window=16); layers 0: full");
  ATTNDB_ASSERT_OK(model_.Step(&session, ToyModel::Tokens(200, 1)));
  const Explain before = session.Explain();
  EXPECT_THAT(before.Summary(), HasSubstr("tokens    200, 0 of them reused, in 0 segments\n"));
  EXPECT_THAT(before.Summary(),
              HasSubstr("layers    1 searches (3 of 5 kv heads), 1 reads everything\n"));
  EXPECT_THAT(before.Summary(), HasSubstr("dearest layers "));
  EXPECT_EQ(before.kv_bytes, 200 * model_.spec().KvBytesPerToken());
  uint64_t num_bytes = 0;
  for (const LayerExplain& layer : before.layers) num_bytes += layer.predicted_bytes;
  EXPECT_LT(num_bytes, before.kv_bytes);
  Probe(&session);
  EXPECT_THAT(session.Explain().Summary(), HasSubstr("ms of one thread in the last call"));
  for (const char* plan : {"full", "auto(error=0.01)", "auto(error=0.003)", "auto(tpot=0.001)",
                           "topk(k=8,sink=4,window=16); layers 0: dipr(beta=50); "
                           "layers 1: mass(p=0.9,bits=8,remainder=sample:64)"}) {
    ATTNDB_ASSERT_OK(session.SetPlan(plan));
    ExpectShort(session.Explain().Summary());
  }
  ATTNDB_ASSERT_OK(session.SetPlan("full"));
  EXPECT_THAT(session.Explain().Summary(), HasSubstr("plan      full: exact\n"));
  EXPECT_THAT(session.Explain().Summary(), HasSubstr("layers    all 2 read everything\n"));
  ATTNDB_ASSERT_OK(session.SetPlan("auto(error=0.003)"));
  EXPECT_THAT(session.Explain().Summary(), HasSubstr("expected error <= 0.30 %"));
}

TEST_F(ExplainTest, OfAFullLayerNothingIsScoredOrSelected) {
  Session session = NewSession("topk(k=8,sink=4,window=16); layers 0: full");
  ATTNDB_ASSERT_OK(model_.Step(&session, ToyModel::Tokens(200, 1)));
  Probe(&session);
  ATTNDB_ASSERT_OK_AND_ASSIGN(const LayerExplain full, session.Explain(0));
  EXPECT_EQ(full.num_middle, 0u);
  EXPECT_EQ(full.predicted_selected, 0.0);
  EXPECT_EQ(full.heads[0].predicted_selected, 0.0);
  EXPECT_EQ(full.selected_mean, 0.0);
  EXPECT_EQ(full.bytes_touched, 2u * 200 * 2 * (32 + 16));
  EXPECT_EQ(full.score_us, 0.0);
  EXPECT_EQ(full.select_us, 0.0);
  EXPECT_GT(full.attend_us, 0.0);
  EXPECT_GT(full.append_us, 0.0);
  EXPECT_EQ(session.Explain(1)->selected_mean, 8.0);
}

TEST_F(ExplainTest, CountsWhatASmallMiddleHas) {
  Session session = NewSession("topk(k=8,sink=4,window=16)");
  ATTNDB_ASSERT_OK(model_.Step(&session, ToyModel::Tokens(23, 1)));  // Rows see 0 to 3 tokens.
  Session other = NewSession("topk(k=8,sink=4,window=16)");
  ATTNDB_ASSERT_OK(AppendTokens(&other, ToyModel::Tokens(23, 1), nullptr));
  Probe(&other);
  EXPECT_EQ(other.Explain(0)->num_middle, 3u);
  EXPECT_EQ(other.Explain(0)->selected_mean, 3.0);
  ATTNDB_ASSERT_OK(session.Crop(20));
  Probe(&session);
  EXPECT_EQ(session.Explain(0)->num_middle, 0u);
  EXPECT_THAT(session.Explain(0)->reason, HasSubstr("sink and window hold all tokens"));
}

}  // namespace
}  // namespace attndb
