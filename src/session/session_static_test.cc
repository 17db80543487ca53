// Goal:   static=prefill:n also attends to the stored tokens that the prompt's last queries weighed
//         most, among the tokens that the session sees, once these are known. Without sampled
//         queries there are none.
// Method: a toy model of one kv head whose queries are all sampled, against float64 loops over the
//         generator's rows, which know nothing of what is stored.
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

constexpr uint32_t kDim = 32;
constexpr uint32_t kGroup = 3;
constexpr uint64_t kStored = 1500;
constexpr uint64_t kSink = 4;
constexpr uint64_t kWindow = 50;
constexpr uint64_t kWeighing = 64;  // index::kPrefillQueries

ToyModel OneHead() {
  LayerSpec layer;
  layer.num_q_heads = kGroup;
  layer.num_kv_heads = 1;
  layer.head_dim = layer.v_head_dim = kDim;
  layer.rope.layout = RopeLayout::kHalf;
  return ToyModel(ModelSpec::Uniform(1, layer, DType::kFloat16, "static"));
}

std::vector<float> Rounded(std::vector<float> rows) {
  for (float& x : rows)
    x = kernels::ToFloat32(kernels::FromFloat32(x, DType::kFloat16), DType::kFloat16);
  return rows;
}

class SessionStaticTest : public DBFixture {
 protected:
  SessionStaticTest() : DBFixture(/*background_builds=*/true) {
    model_ = OneHead();
    Open({.query_sample = 16});
  }

  Tokens StorePrompt() {
    const Tokens tokens = ToyModel::Tokens(kStored, 3);
    EXPECT_THAT(StoreTokens(tokens, {.name = "a"}), test::IsOk());
    return tokens;
  }

  static double Logit(const float* q, const float* k) {
    double score = 0;
    for (uint32_t d = 0; d < kDim; ++d) score += double{q[d]} * double{k[d]};
    return score / std::sqrt(double{kDim});
  }

  // The weights of the stored prompt's tokens by its last queries.
  std::vector<double> Weights(const Tokens& prompt) const {
    const std::vector<float> k = Rounded(model_.Keys(0, prompt, 0));
    const std::vector<float> q = Rounded(model_.Queries(0, prompt, 0));
    std::vector<double> weights(prompt.size());
    for (uint64_t row = prompt.size() * kGroup - kWeighing; row < prompt.size() * kGroup; ++row) {
      std::vector<double> of_row;
      for (uint64_t i = 0; i <= row / kGroup; ++i) {
        of_row.push_back(std::exp(Logit(&q[row * kDim], &k[i * kDim])));
      }
      const double sum = std::accumulate(of_row.begin(), of_row.end(), 0.0);
      for (uint64_t i = 0; i < of_row.size(); ++i) weights[i] += of_row[i] / sum;
    }
    return weights;
  }

  // Attention of the probe over sinks, window, n static tokens and the k best of the others, of the
  // tokens of the session that are seen; the first of these are those of the prompt.
  std::vector<double> Expected(const Tokens& all, const Tokens& prompt,
                               const std::vector<uint64_t>& seen, uint64_t n, uint64_t k) const {
    const std::vector<float> keys = Rounded(model_.Keys(0, all, 0));
    const std::vector<float> values = Rounded(model_.Values(0, all, 0));
    const std::vector<float> q = model_.Queries(0, Tokens{7}, all.size() - 1);
    const std::vector<double> weights = Weights(prompt);
    const std::span<const uint64_t> middle =
        std::span(seen).subspan(kSink, seen.size() - kSink - kWindow);
    std::vector<uint64_t> others(middle.begin(), middle.end());
    const auto weight = [&](uint64_t i) { return i < weights.size() ? weights[i] : -1.0; };
    std::ranges::stable_sort(others, std::greater(), weight);
    std::vector<uint64_t> fixed(seen.begin(), seen.begin() + kSink);
    fixed.insert(fixed.end(), seen.end() - kWindow, seen.end());
    fixed.insert(fixed.end(), others.begin(), others.begin() + static_cast<std::ptrdiff_t>(n));
    others.erase(others.begin(), others.begin() + static_cast<std::ptrdiff_t>(n));
    std::vector<double> out;
    for (uint32_t head = 0; head < kGroup; ++head) {
      const auto logit = [&](uint64_t i) { return Logit(&q[head * kDim], &keys[i * kDim]); };
      std::vector<uint64_t> best = others;
      std::ranges::stable_sort(best, std::greater(), logit);
      best.resize(k);
      best.insert(best.end(), fixed.begin(), fixed.end());
      double sum = 0;
      std::vector<double> mean(kDim);
      for (const uint64_t i : best) {
        const double of_token = std::exp(logit(i));
        sum += of_token;
        for (uint32_t d = 0; d < kDim; ++d) mean[d] += of_token * double{values[i * kDim + d]};
      }
      for (const double x : mean) out.push_back(x / sum);
    }
    return out;
  }

  static std::vector<uint64_t> Range(uint64_t begin, uint64_t end) {
    std::vector<uint64_t> tokens(end - begin);
    std::iota(tokens.begin(), tokens.end(), begin);
    return tokens;
  }

  void ExpectAttends(const std::vector<float>& out, const std::vector<double>& expected) const {
    EXPECT_LT(test::OutputError(model_, out, expected), 1e-3);
  }

  static constexpr const char* kPlan = "topk(k=9,sink=4,window=50,static=prefill:40)";
  static constexpr const char* kWithout = "topk(k=9,sink=4,window=50)";
};

TEST_F(SessionStaticTest, AreThoseThatTheLastQueriesWeighedMost) {
  const Tokens prompt = StorePrompt();
  const Tokens all = test::Concat(prompt, ToyModel::Tokens(20, 9));
  Session session = Resume(prompt);
  const std::vector<float> before = ProbeWith(&session, kPlan);
  ATTNDB_ASSERT_OK(db_->WaitForBackground());
  const std::vector<uint64_t> seen = Range(0, all.size());
  const std::vector<float> out = ProbeWith(&session, kPlan);
  ExpectAttends(out, Expected(all, prompt, seen, 40, 9));
  ExpectAttends(ProbeWith(&session, kWithout), Expected(all, prompt, seen, 0, 9));
  const auto without = Expected(all, prompt, seen, 0, 9);
  EXPECT_GT(test::OutputError(model_, out, without), 0.01) << "static tokens make no difference";
  // Exact scores decide in the end, whether planes are ready or not.
  EXPECT_LT(
      Difference(ProbeWith(&session, "topk(k=9,bits=8,sink=4,window=50,static=prefill:40)"), out),
      1e-3);
  ExpectAttends(ProbeWith(&session, "topk(k=9,sink=4,window=50,static=prefill:4096)"),
                Expected(all, prompt, seen, kStored - kSink - (kWindow - 20), 0));
  EXPECT_EQ(session.Explain(0)->plan, "topk(k=9,sink=4,window=50,static=prefill:4096)");
}

// Keys that no index covers are all scored, beside static tokens that are among them.
TEST_F(SessionStaticTest, AreAttendedToBesideWhatNoIndexCovers) {
  const Tokens prompt = StorePrompt();
  const Tokens all = test::Concat(prompt, ToyModel::Tokens(20, 9));
  const std::string indexed = "topk(k=9,index=graph,sink=4,window=50,static=prefill:";
  MakeReady(prompt, kPlan);
  for (const uint64_t n : {40u, 700u, 1400u}) {
    Session session = Resume(prompt);
    ExpectAttends(ProbeWith(&session, indexed + std::to_string(n) + ")"),
                  Expected(all, prompt, Range(0, all.size()), n, 9));
  }
}

TEST_F(SessionStaticTest, ATailIsNoneOfThemAndMayBeAttendedToWhole) {
  const Tokens prompt = StorePrompt();
  const Tokens all = test::Concat(prompt, ToyModel::Tokens(300, 9));
  Session session = Resume(prompt, 300);
  MakeReady(prompt, kPlan);
  ExpectAttends(ProbeWith(&session, kPlan), Expected(all, prompt, Range(0, all.size()), 40, 9));
  // A window that is longer by the tail.
  const std::string exact = "topk(k=9,sink=4,window=50,tail=exact,static=prefill:40)";
  EXPECT_EQ(ProbeWith(&session, exact),
            ProbeWith(&session, "topk(k=9,sink=4,window=350,static=prefill:40)"));
}

TEST_F(SessionStaticTest, WhatAPrefixHidesIsPassedOver) {
  const Tokens prompt = StorePrompt();
  MakeReady(prompt, kPlan);
  for (const uint64_t num_tokens : {1400u, 700u, 120u}) {
    Session session = Resume(prompt);
    ATTNDB_ASSERT_OK(session.Crop(num_tokens));
    const Tokens kept(prompt.begin(), prompt.begin() + static_cast<std::ptrdiff_t>(num_tokens));
    ExpectAttends(ProbeWith(&session, kPlan), Expected(kept, prompt, Range(0, num_tokens), 40, 9));
  }
  // A prompt that shares 800 tokens, and goes on otherwise.
  const Tokens other = test::Concat(std::span(prompt).first(800), ToyModel::Tokens(60, 11));
  SessionStart start = Start(other);
  EXPECT_EQ(start.session.num_reused(), 800u);
  ATTNDB_ASSERT_OK(model_.Step(&start.session, start.rest));
  ExpectAttends(ProbeWith(&start.session, kPlan),
                Expected(other, prompt, Range(0, other.size()), 40, 9));
}

TEST_F(SessionStaticTest, WhatAFilterHidesIsPassedOver) {
  const Tokens prompt = StorePrompt();
  const Tokens all = test::Concat(prompt, ToyModel::Tokens(20, 9));
  MakeReady(prompt, kPlan);
  Session session = Resume(prompt);
  const TokenRange ranges[] = {{100, 300}, {700, 1480}, {1505, 1520}};
  ATTNDB_ASSERT_OK(session.SetFilter(ranges));
  std::vector<uint64_t> seen;
  for (const TokenRange& range : ranges) {
    const std::vector<uint64_t> part = Range(range.begin, range.end);
    seen.insert(seen.end(), part.begin(), part.end());
  }
  ExpectAttends(ProbeWith(&session, kPlan), Expected(all, prompt, seen, 40, 9));
}

// Two tokens have equal keys. k finds only one; static=prefill adds the other.
TEST_F(SessionStaticTest, ANeedleOfThePromptIsHeldBesideWhatIsFound) {
  const Tokens prompt = ToyModel::Tokens(kStored, 3);
  const std::vector<float> q = model_.Queries(0, Tokens{7}, kStored - 1);
  const auto with_needles = [&](LayerId, std::vector<float>* k, std::vector<float>*) {
    double square = 0;
    for (uint32_t d = 0; d < kDim; ++d) square += double{q[d]} * double{q[d]};
    const auto factor = static_cast<float>(14 * std::sqrt(double{kDim}) / square);
    for (const size_t token : {300u, 900u}) {
      for (uint32_t d = 0; d < kDim; ++d) (*k)[token * kDim + d] = factor * q[d];
    }
  };
  Session session = NewSession();
  ATTNDB_ASSERT_OK(AppendTokens(&session, prompt, with_needles));
  std::vector<float> asked;  // The last query of the prompt is the question.
  ATTNDB_ASSERT_OK(model_.ProbeAt(&session, 7, kStored - 1, &asked));
  ATTNDB_ASSERT_OK(db_->Store(session, prompt, {.name = "needles"}));
  const std::string found = "topk(k=1,sink=4,window=50)";
  const std::string held = "topk(k=1,sink=4,window=50,static=prefill:8)";
  (void)ProbeWith(&session, held);
  ATTNDB_ASSERT_OK(db_->WaitForBackground());
  const auto error_of = [&](const std::string& plan) {
    ATTNDB_EXPECT_OK(session.SetPlan(plan));
    std::vector<float> out;
    ATTNDB_EXPECT_OK(model_.ProbeAt(&session, 7, kStored - 1, &out));
    const auto head = [](const std::vector<float>& rows) {
      return std::vector<float>(rows.begin(), rows.begin() + kDim);
    };
    return Difference(head(out), head(asked));
  };
  EXPECT_GT(error_of(found), 0.3);
  EXPECT_LT(error_of(held), 0.05);
}

TEST_F(SessionStaticTest, WithoutSampledQueriesThereAreNone) {
  Open({.query_sample = 0});
  const Tokens prompt = StorePrompt();
  Session session = Resume(prompt);
  (void)ProbeWith(&session, kPlan);
  ATTNDB_ASSERT_OK(session.AwaitDerived(0));
  EXPECT_EQ(ProbeWith(&session, kPlan), ProbeWith(&session, kWithout));
}

TEST_F(SessionStaticTest, AreAwaitedAndOfSegmentsAlone) {
  Session session = NewSession("topk(k=9,static=prefill:40,await=1)");
  const Tokens prompt = ToyModel::Tokens(9000, 3);
  ATTNDB_ASSERT_OK(model_.Step(&session, prompt));
  ATTNDB_ASSERT_OK(session.AwaitDerived(0));
  EXPECT_FALSE(session.awaits_derived(0));
  ATTNDB_ASSERT_OK(db_->Store(session, prompt, {.name = "a"}));
  EXPECT_TRUE(session.awaits_derived(0));
  ATTNDB_ASSERT_OK(session.AwaitDerived(0));
  EXPECT_FALSE(session.awaits_derived(0));
  ATTNDB_ASSERT_OK_AND_ASSIGN(const BuildReport report, db_->Build("a", "static=prefill"));
  EXPECT_EQ(report.num_present, 1u);
}

TEST_F(SessionStaticTest, AreMadeInMemoryOrReadFromTheStore) {
  const Tokens prompt = StorePrompt();
  const Tokens all = test::Concat(prompt, ToyModel::Tokens(20, 9));
  const auto expected = Expected(all, prompt, Range(0, all.size()), 40, 9);
  Open({.query_sample = 16, .background_builds = false});
  MakeReady(prompt, kPlan);
  {
    Session session = Resume(prompt);
    ExpectAttends(ProbeWith(&session, kPlan), expected);
  }
  Open({.query_sample = 16});
  MakeReady(prompt, kPlan);
  Open({.query_sample = 16});
  Session session = Resume(prompt);
  ExpectAttends(ProbeWith(&session, kPlan), expected);
}

TEST_F(SessionStaticTest, AreBuiltWhenAsked) {
  (void)StorePrompt();
  ATTNDB_ASSERT_OK_AND_ASSIGN(const BuildReport report, db_->Build("a", "static=prefill"));
  EXPECT_EQ(report.kind, "static_prefill_1");
  EXPECT_EQ(report.num_built, 1u);
  ATTNDB_ASSERT_OK_AND_ASSIGN(const BuildReport again, db_->Build("a", "static=prefill"));
  EXPECT_EQ(again.num_present, 1u);
}

}  // namespace
}  // namespace attndb
