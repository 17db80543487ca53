// Goal:   plans over clusters and graphs count a layer's denominators. Their out and lse equal a
//         softmax over the chosen tokens plus one weight without a value. With room for all tokens
//         they equal the result of `full`.
// Method: toy model whose denominators weigh from nothing to more than all tokens; float64
//         attention in this file, from the generator's K and V, over the tokens that Search names,
//         which are held against those of largest float64 score.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "api/db_test_util.h"
#include "kernels/convert.h"

namespace attndb {
namespace {

using test::DBFixture;
using test::Tokens;
using test::ToyModel;

constexpr uint32_t kSink = 16, kWindow = 128;  // A plan's defaults.
constexpr double kTolerance = 1e-4;            // Rounding of float32 sums.

// One q head of one row.
struct HeadAnswer {
  std::vector<double> out;
  double lse = 0;
};

// A session's inputs in float64, and the definition of attention over any of its tokens.
class Float64Layer {
 public:
  Float64Layer(const ToyModel& model, LayerId layer, const Tokens& tokens)
      : spec_(model.spec().layers[layer]),
        k_(Stored(model.spec().kv_dtype, model.Keys(layer, tokens, 0))),
        v_(Stored(model.spec().kv_dtype, model.Values(layer, tokens, 0))) {}

  // Dot products of q [head_dim] with each of the first `num_visible` keys, unscaled.
  std::vector<double> Scores(uint32_t q_head, const float* q, uint64_t num_visible) const {
    std::vector<double> scores(num_visible);
    for (uint64_t token = 0; token < num_visible; ++token) {
      const double* const k = Row(k_, token, q_head, spec_.head_dim);
      scores[token] = std::inner_product(k, k + spec_.head_dim, q, 0.0);
    }
    return scores;
  }

  HeadAnswer Attend(uint32_t q_head, const std::vector<double>& scores,
                    const std::vector<uint32_t>& tokens) const {
    HeadAnswer answer = {std::vector<double>(spec_.v_head_dim), 0};
    double sum = std::exp(double{spec_.denominator_logits[q_head]});
    for (const uint32_t token : tokens) {
      const double weight = std::exp(scores[token] / std::sqrt(spec_.head_dim * 1.0));
      sum += weight;
      const double* const v = Row(v_, token, q_head, spec_.v_head_dim);
      for (uint32_t d = 0; d < spec_.v_head_dim; ++d) answer.out[d] += weight * v[d];
    }
    for (double& element : answer.out) element /= sum;
    answer.lse = std::log(sum);
    return answer;
  }

 private:
  static std::vector<double> Stored(DType dtype, const std::vector<float>& rows) {
    std::vector<double> stored;
    stored.reserve(rows.size());
    for (const float value : rows) {
      stored.push_back(double{kernels::ToFloat32(kernels::FromFloat32(value, dtype), dtype)});
    }
    return stored;
  }

  const double* Row(const std::vector<double>& rows, uint64_t token, uint32_t q_head,
                    uint32_t dim) const {
    return &rows[(token * spec_.num_kv_heads + q_head / spec_.group_size()) * dim];
  }

  const LayerSpec& spec_;
  const std::vector<double> k_, v_;  // [tokens, num_kv_heads, dim], rounded as they are held.
};

// Its parameter: an index that looks at nearly all keys.
class SessionDenominatorsTest : public DBFixture,
                                public ::testing::WithParamInterface<std::string> {
 protected:
  SessionDenominatorsTest() : DBFixture(/*background_builds=*/true) {
    ModelSpec spec = ToyModel().spec();
    spec.layers[0].denominator_logits = {-20, 2, 7, 9, 10.5f, 13};
    spec.layers[1].denominator_logits = {11, 8, 14, -30, 5, 9.5f};
    model_ = ToyModel(spec);
    Open({.measure_machine = false});  // A busy machine may do better with all keys.
    tokens_ = StoreChain("a", std::vector<uint64_t>{5000, 2100, 100}, 1);
  }

  // A session that continues the stored context, with its indexes.
  Session Indexed() {
    Session session = Resume(tokens_);
    tokens_ = test::Concat(tokens_, ToyModel::Tokens(20, 9));
    (void)ProbeWith(&session, "topk(k=8," + GetParam() + ")");
    ATTNDB_EXPECT_OK(db_->WaitForBackground());
    return session;
  }

  const LayerSpec& Spec(LayerId layer) const { return model_.spec().layers[layer]; }

  // q of the newest `num_rows` tokens.
  std::vector<float> Queries(LayerId layer, uint64_t num_rows) const {
    const uint64_t first = tokens_.size() - num_rows;
    return model_.Queries(layer, std::span(tokens_).subspan(first), first);
  }

  // Attends with the session's plan, and holds out and lse of each row and q head against
  // `expected(row, q_head)`; out relative to its norm.
  template <typename Expected>
  void ExpectAttends(Session* session, LayerId layer, uint64_t num_rows, Expected expected,
                     double tolerance = kTolerance) {
    const LayerSpec& spec = Spec(layer);
    const std::vector<float> q = Queries(layer, num_rows);
    const size_t num_heads = num_rows * spec.num_q_heads;
    std::vector<float> out(num_heads * spec.v_head_dim), lse(num_heads);
    const auto rows = static_cast<int64_t>(num_rows);
    ATTNDB_ASSERT_OK(
        session->Attend(layer, test::ViewOf(q, spec.num_q_heads, spec.head_dim),
                        MutableTensorView::Contiguous(out.data(), DType::kFloat32, rows,
                                                      spec.num_q_heads, spec.v_head_dim),
                        lse.data()));
    for (size_t i = 0; i < num_heads; ++i) {
      const HeadAnswer answer =
          expected(i / spec.num_q_heads, static_cast<uint32_t>(i % spec.num_q_heads));
      EXPECT_NEAR(double{lse[i]}, answer.lse, tolerance) << "row and head " << i;
      double square = 0, norm = 0;
      for (size_t d = 0; d < spec.v_head_dim; ++d) {
        square += std::pow(double{out[i * spec.v_head_dim + d]} - answer.out[d], 2);
        norm += std::pow(answer.out[d], 2);
      }
      EXPECT_LT(std::sqrt(square / norm), tolerance) << "row and head " << i;
    }
    // Else the index was not asked, and K was scored.
    ATTNDB_ASSERT_OK_AND_ASSIGN(const LayerExplain explain, session->Explain(layer));
    for (const HeadExplain& head : explain.heads) {
      EXPECT_GT(head.visited_mean, 0) << layer << ": " << head.plan << ": " << head.reason;
    }
  }

  // One row: `expected(q_head, exact scores of all tokens, what the plan finds)`.
  template <typename Expected>
  void ExpectFound(Session* session, LayerId layer, const Float64Layer& exact, Expected expected) {
    const LayerSpec& spec = Spec(layer);
    const std::vector<float> q = Queries(layer, 1);
    ATTNDB_ASSERT_OK_AND_ASSIGN(
        const std::vector<CriticalTokens> found,
        session->Search(layer, test::ViewOf(q, spec.num_q_heads, spec.head_dim)));
    ExpectAttends(session, layer, 1, [&](uint64_t, uint32_t head) {
      const auto scores = exact.Scores(head, &q[size_t{head} * spec.head_dim], tokens_.size());
      return expected(head, scores, found[head]);
    });
  }

  // Three rows: as float64 attention over all that a row sees.
  void ExpectFull(Session* session, const std::string& plan, double tolerance = kTolerance) {
    SCOPED_TRACE(plan);
    ATTNDB_ASSERT_OK(session->SetPlan(plan));
    for (LayerId layer = 0; layer < 2; ++layer) {
      const Float64Layer exact(model_, layer, tokens_);
      const std::vector<float> q = Queries(layer, 3);
      const auto full = [&](uint64_t row, uint32_t head) {
        const size_t at = (row * Spec(layer).num_q_heads + head) * Spec(layer).head_dim;
        const auto scores = exact.Scores(head, &q[at], tokens_.size() - 2 + row);
        std::vector<uint32_t> all(scores.size());
        std::iota(all.begin(), all.end(), 0u);
        return exact.Attend(head, scores, all);
      };
      ExpectAttends(session, layer, 3, full, tolerance);
    }
  }

  Tokens tokens_;  // Tokens of the session.
};

// Sinks, window, and of the middle what was found.
std::vector<uint32_t> Chosen(const std::vector<uint32_t>& found, uint64_t num_tokens) {
  std::vector<uint32_t> chosen(kSink + kWindow);
  std::iota(chosen.begin(), chosen.begin() + kSink, 0u);
  std::iota(chosen.begin() + kSink, chosen.end(), static_cast<uint32_t>(num_tokens - kWindow));
  chosen.insert(chosen.end(), found.begin(), found.end());
  return chosen;
}

// The middle tokens of the k largest scores, or of those not more than beta below the largest.
std::vector<uint32_t> Critical(const std::vector<double>& scores, size_t k, double beta) {
  std::vector<uint32_t> middle(scores.size() - kSink - kWindow);
  std::iota(middle.begin(), middle.end(), kSink);
  const double least = *std::ranges::max_element(scores) - beta;
  std::erase_if(middle, [&](uint32_t token) { return scores[token] < least; });
  std::ranges::sort(middle, std::greater(), [&](uint32_t token) { return scores[token]; });
  middle.resize(std::min(k, middle.size()));
  return middle;
}

TEST_P(SessionDenominatorsTest, WhatIsChosenIsAttendedToWithThem) {
  struct Query {
    const char* text;
    size_t k;
    double beta;
  };
  Session session = Indexed();
  for (const Query& query : {Query{"topk(k=60,", 60, 1e9}, Query{"dipr(beta=9,", 100'000, 9}}) {
    SCOPED_TRACE(query.text);
    ATTNDB_ASSERT_OK(session.SetPlan(query.text + GetParam() + ")"));
    for (LayerId layer = 0; layer < 2; ++layer) {
      const Float64Layer exact(model_, layer, tokens_);
      ExpectFound(
          &session, layer, exact, [&](uint32_t head, const auto& scores, const auto& found) {
            const std::vector<uint32_t> best = Critical(scores, query.k, query.beta);
            const auto num_best = std::ranges::count_if(best, [&](uint32_t token) {
              return std::ranges::find(found.tokens, token) != found.tokens.end();
            });
            EXPECT_LE(found.tokens.size(), best.size());
            EXPECT_GE(num_best, static_cast<long>(0.95 * static_cast<double>(best.size()))) << head;
            return exact.Attend(head, scores, Chosen(found.tokens, tokens_.size()));
          });
    }
  }
}

// A denominator is part of the mass: its own share needs no token.
TEST_P(SessionDenominatorsTest, AMassIsHeldWithThem) {
  if (!GetParam().starts_with("index=pq")) return;  // Others know no mass.
  Session session = Indexed();
  for (const double p : {0.3, 0.9}) {
    ATTNDB_ASSERT_OK(session.SetPlan("mass(p=" + std::to_string(p) + "," + GetParam() + ")"));
    for (LayerId layer = 0; layer < 2; ++layer) {
      const Float64Layer exact(model_, layer, tokens_);
      ExpectFound(&session, layer, exact,
                  [&](uint32_t head, const auto& scores, const auto& found) {
                    std::vector<uint32_t> all(scores.size());
                    std::iota(all.begin(), all.end(), 0u);
                    const std::vector<uint32_t> chosen = Chosen(found.tokens, tokens_.size());
                    const HeadAnswer answer = exact.Attend(head, scores, chosen);
                    const double whole = exact.Attend(head, scores, all).lse;
                    EXPECT_GT(std::exp(answer.lse - whole), p - 0.02) << head;
                    const HeadAnswer fixed = exact.Attend(head, scores, Chosen({}, tokens_.size()));
                    const bool is_held = std::exp(fixed.lse - whole) > p + 0.02;
                    EXPECT_TRUE(!is_held || found.tokens.empty()) << head;
                    return answer;
                  });
    }
  }
}

TEST_P(SessionDenominatorsTest, WithRoomForAllTokensTheyAnswerAsFull) {
  Session session = Indexed();
  ExpectFull(&session, "topk(k=100000," + GetParam() + ")");
  ExpectFull(&session, "dipr(beta=1e9," + GetParam() + ")");
}

// Without the denominators, heads would be off by up to 20 times their output. Graphs draw nothing;
// CodeDrawOperatorTest has draws by codes.
TEST_P(SessionDenominatorsTest, DrawsAnswerNearlyAsFull) {
  Session session = Indexed();
  const std::string plan = "auto(error=0.05," + GetParam() + ")";
  if (GetParam().starts_with("index=graph")) {
    EXPECT_EQ(session.SetPlan(plan).code(), StatusCode::kUnsupported);
    return;
  }
  if (GetParam().starts_with("index=clustered")) ExpectFull(&session, plan, 0.25);
}

INSTANTIATE_TEST_SUITE_P(Indexes, SessionDenominatorsTest,
                         ::testing::Values("index=clustered,effort=100",
                                           "index=graph,beam_width=5000",
                                           "index=pq,m=16,b=8,effort=60"),
                         [](const auto& test) {
                           const bool is_pq = test.param.starts_with("index=pq");
                           const bool is_graph = test.param.starts_with("index=graph");
                           return is_pq ? "Pq" : is_graph ? "Graph" : "Clustered";
                         });

}  // namespace
}  // namespace attndb
