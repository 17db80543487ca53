// Goal:   a session that dropped its oldest tokens answers like a session that holds only the
//         remaining tokens, moved together. This holds for every plan, for segments, a tail and its
//         blocks, and over several cuts. Crops undo cuts. Engines may count positions in their own
//         way.
// Method: toy model; attention in float64 over the rows that stay, their keys turned in float64;
//         for plans that choose, the same plan on a session to which these rows were appended.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "api/db_test_util.h"
#include "testing/toy_oracle.h"

namespace attndb {
namespace {

using test::DBFixture;
using test::FailsWith;
using test::Tokens;
using test::ToyModel;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class SessionDropTest : public DBFixture {
 protected:
  SessionDropTest() : DBFixture(/*background_builds=*/true) {}

  // A key or q, in the layer's layout, turned on by `positions` in float64.
  static void TurnRow(const LayerSpec& spec, double positions, float* row) {
    const size_t pairs = spec.head_dim / 2;
    const bool half = spec.rope.layout == RopeLayout::kHalf;
    for (size_t i = 0; i < pairs; ++i) {
      const double angle = positions * std::pow(spec.rope.base, -static_cast<double>(i) /
                                                                    static_cast<double>(pairs));
      float& a = row[half ? i : 2 * i];
      float& b = row[half ? i + pairs : 2 * i + 1];
      const double x = a;
      const double y = b;
      a = static_cast<float>(x * std::cos(angle) - y * std::sin(angle));
      b = static_cast<float>(x * std::sin(angle) + y * std::cos(angle));
    }
  }

  struct Rows {
    std::vector<float> k;
    std::vector<float> v;
    uint64_t num_tokens = 0;
  };
  // The kept part of tokens [0, end). Keys move on by the number of dropped tokens behind them.
  Rows Left(LayerId layer, const Tokens& tokens, const std::vector<Cut>& cuts, uint64_t end) const {
    const LayerSpec& spec = model_.spec().layers[layer];
    std::vector<bool> gone(tokens.size());
    for (const Cut& cut : cuts) {
      for (const TokenRange& range : cut.dropped) {
        std::fill(gone.begin() + static_cast<ptrdiff_t>(range.begin),
                  gone.begin() + static_cast<ptrdiff_t>(range.end), true);
      }
    }
    std::vector<float> k = model_.Keys(layer, tokens, 0);
    const std::vector<float> v = model_.Values(layer, tokens, 0);
    const size_t k_row = size_t{spec.num_kv_heads} * spec.head_dim;
    const size_t v_row = size_t{spec.num_kv_heads} * spec.v_head_dim;
    Rows left;
    for (uint64_t i = 0; i < end; ++i) {
      if (gone[i]) continue;
      const auto move = static_cast<double>(
          std::count(gone.begin() + static_cast<ptrdiff_t>(i), gone.end(), true));
      for (uint32_t head = 0; head < spec.num_kv_heads; ++head) {
        TurnRow(spec, move, &k[i * k_row + size_t{head} * spec.head_dim]);
      }
      const auto at_k = k.begin() + static_cast<ptrdiff_t>(i * k_row);
      const auto at_v = v.begin() + static_cast<ptrdiff_t>(i * v_row);
      left.k.insert(left.k.end(), at_k, at_k + static_cast<ptrdiff_t>(k_row));
      left.v.insert(left.v.end(), at_v, at_v + static_cast<ptrdiff_t>(v_row));
      ++left.num_tokens;
    }
    return left;
  }

  // Outputs of tokens [begin, tokens.size()), by layer, in float64.
  std::vector<double> Expected(const Tokens& tokens, const std::vector<Cut>& cuts,
                               uint64_t begin) const {
    std::vector<double> out;
    for (LayerId layer = 0; layer < model_.spec().num_layers(); ++layer) {
      for (uint64_t i = begin; i < tokens.size(); ++i) {
        const Rows rows = Left(layer, tokens, cuts, i + 1);
        const std::vector<double> row =
            test::OracleAttend(model_.spec().layers[layer], rows.k, rows.v,
                               model_.Queries(layer, {&tokens[i], 1}, i), rows.num_tokens);
        out.insert(out.end(), row.begin(), row.end());
      }
    }
    return out;
  }

  // The session takes more tokens, and answers as float64 does.
  void ExpectStep(Session* session, Tokens* tokens, size_t num_more, double tolerance = 2e-3) {
    const Tokens more = ToyModel::Tokens(num_more, tokens->size());
    const uint64_t begin = tokens->size();
    *tokens = test::Concat(*tokens, more);
    std::vector<float> out;
    ATTNDB_ASSERT_OK(model_.Step(session, more, &out));
    EXPECT_EQ(session->num_tokens(), tokens->size());
    EXPECT_LT(OutputError(model_, out, Expected(*tokens, session->cuts(), begin)), tolerance)
        << "tokens from " << begin;
  }
};

TEST_F(SessionDropTest, FullAttendsToWhatStays) {
  const Tokens stored = StoreChain("a", std::vector<uint64_t>{900, 400, 100}, 1);
  const DropOptions kinds[] = {{.keep_first = 4},
                               {},
                               {.sink = false},
                               {.keep_first = 40},
                               {.keep_first = 2, .keep = {{100, 133}, {890, 910}}}};
  for (const DropOptions& options : kinds) {
    for (const uint64_t n : {1u, 700u, 1200u, 1330u}) {
      Session session = Resume(stored);
      Tokens all = test::Concat(stored, ToyModel::Tokens(20, 9));
      ATTNDB_ASSERT_OK(session.DropOldest(n, options));
      EXPECT_EQ(session.num_dropped(), n);
      EXPECT_EQ(session.num_tokens(), all.size());
      EXPECT_EQ(session.next_position(), static_cast<int64_t>(all.size()));
      ExpectStep(&session, &all, 1);
      ExpectStep(&session, &all, 70);
    }
  }
}

TEST_F(SessionDropTest, SeveralCutsFollowEachOther) {
  Session session = NewSession();
  Tokens all;
  ExpectStep(&session, &all, 300);
  for (int cut = 0; cut < 5; ++cut) {
    ATTNDB_ASSERT_OK(session.DropOldest(150, {.keep_first = 4}));
    ExpectStep(&session, &all, 1);
    ExpectStep(&session, &all, 149);
  }
  EXPECT_EQ(session.num_tokens() - session.num_dropped(), 300u);
  EXPECT_EQ(session.cuts().size(), 5u);
  EXPECT_EQ(session.Explain().num_dropped, 750u);
}

TEST_F(SessionDropTest, PlansChooseAmongWhatStays) {
  ModelSpec spec = model_.spec();
  spec.kv_dtype = DType::kFloat32;
  model_ = ToyModel(spec);
  const Tokens stored = StoreChain("a", std::vector<uint64_t>{6000, 2500, 700, 100}, 1);
  const DropOptions options = {.keep_first = 30, .keep = {{1000, 1200}, {6100, 6110}}};
  Session session = Resume(stored);
  ATTNDB_ASSERT_OK(session.DropOldest(6500, options));
  // A session that holds the remaining tokens, and nothing else.
  const Tokens all = test::Concat(stored, ToyModel::Tokens(20, 9));
  Session left = NewSession();
  for (LayerId layer = 0; layer < model_.spec().num_layers(); ++layer) {
    const LayerSpec& shape = model_.spec().layers[layer];
    const Rows rows = Left(layer, all, session.cuts(), all.size());
    ATTNDB_ASSERT_OK(left.Append(layer, test::ViewOf(rows.k, shape.num_kv_heads, shape.head_dim),
                                 test::ViewOf(rows.v, shape.num_kv_heads, shape.v_head_dim)));
  }
  const auto probe = [&](Session* of) {
    std::vector<float> out;
    ATTNDB_EXPECT_OK(model_.ProbeAt(of, 7, all.size() - 1, &out));
    return out;
  };
  for (const std::string query : {"topk(k=60", "dipr(alpha=0.02", "mass(p=0.9"}) {
    ATTNDB_ASSERT_OK(session.SetPlan(query + ")"));
    ATTNDB_ASSERT_OK(left.SetPlan(query + ")"));
    const std::vector<float> expected = probe(&left);
    EXPECT_LT(Difference(probe(&session), expected), 1e-5) << query;
    std::vector<std::string> settings = {",bits=8"};
    if (!query.starts_with("mass")) {
      for (const char* index :
           {",index=clustered,effort=100", ",index=graph,beam_width=6000",
            ",index=graph,graphs=head,beam_width=6000", ",index=roargraph,beam_width=6000",
            ",index=pq,m=16,b=8,effort=60", ",bits=8,static=prefill:20"}) {
        settings.emplace_back(index);
      }
    }
    if (query.starts_with("topk")) {
      settings.emplace_back(",index=quest,effort=1000");
      settings.emplace_back(",index=infllm,block=64,effort=1000");
      settings.emplace_back(",index=wave,effort=1000,remainder=drop");
    }
    for (const std::string& setting : settings) {
      const std::string plan = query + setting + ")";
      ATTNDB_ASSERT_OK(session.SetPlan(plan));
      (void)probe(&session);
      ATTNDB_ASSERT_OK(db_->WaitForBackground());
      EXPECT_LT(Difference(probe(&session), expected), 0.05) << plan;
    }
  }
  ATTNDB_ASSERT_OK(left.SetPlan("full"));
  const std::vector<float> full = probe(&left);
  for (const char* plan :
       {"auto(error=0.02)", "auto(error=0.02,index=pq)", "window(sink=240,window=3000)",
        "auto(rules=alaya)", "topk(k=3000,index=wave,effort=1000)"}) {
    ATTNDB_ASSERT_OK(session.SetPlan(plan));
    for (int i = 0; i < 3; ++i) (void)probe(&session);
    EXPECT_LT(Difference(probe(&session), full), 0.06) << plan;
  }
}

TEST_F(SessionDropTest, BlocksOfTheTailAreChosenFromToo) {
  Session session = NewSession();
  Tokens all = ToyModel::Tokens(9000, 1);
  ATTNDB_ASSERT_OK(model_.Step(&session, all));
  ATTNDB_ASSERT_OK(session.DropOldest(3000, {.keep_first = 4}));
  const std::vector<float> expected = ProbeWith(&session, "topk(k=6000)");
  (void)ProbeWith(&session, "topk(k=6000,index=pq,m=16,b=8,effort=60)");
  ATTNDB_ASSERT_OK(db_->WaitForBackground());
  EXPECT_LT(Difference(Probe(&session), expected), 1e-3);
}

TEST_F(SessionDropTest, ACropTakesCutsBackAndAForkHasThem) {
  const Tokens stored = StoreChain("a", std::vector<uint64_t>{900, 100}, 1);
  Session session = Resume(stored);
  Tokens all = test::Concat(stored, ToyModel::Tokens(20, 9));
  ATTNDB_ASSERT_OK(session.DropOldest(300, {.keep_first = 4}));
  ExpectStep(&session, &all, 10);
  ATTNDB_ASSERT_OK_AND_ASSIGN(Session fork, session.Fork());
  EXPECT_EQ(fork.cuts(), session.cuts());
  Tokens of_fork = all;
  ExpectStep(&fork, &of_fork, 5);
  ATTNDB_ASSERT_OK(session.Crop(1020));
  EXPECT_EQ(session.num_dropped(), 300u);
  all.resize(1020);
  ExpectStep(&session, &all, 3);
  ATTNDB_ASSERT_OK(session.Crop(1019));
  EXPECT_EQ(session.num_dropped(), 0u);
  EXPECT_THAT(session.cuts(), IsEmpty());
  all.resize(1019);
  ExpectStep(&session, &all, 3);
  ExpectStep(&fork, &of_fork, 5);
  fork.Reset();
  EXPECT_EQ(fork.num_dropped(), 0u);
  Tokens none;
  ExpectStep(&fork, &none, 30);
}

// A window counts the tokens that are attended to, as positions do that are moved together.
TEST_F(SessionDropTest, SlidingWindowsCountWhatStays) {
  ModelSpec spec = model_.spec();
  spec.layers[1].sliding_window = 37;
  model_ = ToyModel(spec);
  Session session = NewSession();
  Tokens all;
  ExpectStep(&session, &all, 100);
  ATTNDB_ASSERT_OK(session.DropOldest(80, {.keep_first = 4}));
  ExpectStep(&session, &all, 1);
  ExpectStep(&session, &all, 60);
  ExpectStep(&session, &all, 1);
}

// A denominator logit is no token: it never leaves.
TEST_F(SessionDropTest, DenominatorsStay) {
  ModelSpec spec = model_.spec();
  for (LayerSpec& layer : spec.layers) {
    for (uint32_t head = 0; head < layer.num_q_heads; ++head) {
      layer.denominator_logits.push_back(2.0f * static_cast<float>(head));
    }
  }
  model_ = ToyModel(spec);
  Session session = NewSession();
  Tokens all;
  ExpectStep(&session, &all, 200);
  ATTNDB_ASSERT_OK(session.DropOldest(150, {.keep_first = 4}));
  ExpectStep(&session, &all, 1);
  ExpectStep(&session, &all, 60);
}

TEST_F(SessionDropTest, WhatHasLeftIsNotReadAgain) {
  const Tokens stored = StoreChain("a", std::vector<uint64_t>{4000, 900, 100}, 1);
  ATTNDB_ASSERT_OK(db_->WaitForBackground());
  Open();  // Nothing is in memory.
  for (const char* plan : {"full", "topk(k=10,bits=8)"}) {
    Session session = std::move(Start(test::Concat(stored, Tokens{1})).session);
    ATTNDB_ASSERT_OK(session.SetPlan(plan));
    ATTNDB_ASSERT_OK(session.DropOldest(4200, {.sink = false}));
    (void)Probe(&session);
    EXPECT_LT(session.memory_bytes(), 1500 * model_.spec().KvBytesPerToken()) << plan;
    EXPECT_GT(session.memory_bytes(), 900 * model_.spec().KvBytesPerToken()) << plan;
  }
}

TEST_F(SessionDropTest, SearchGivesIndicesOfTheSession) {
  const Tokens stored = StoreChain("a", std::vector<uint64_t>{900, 100}, 1);
  Session session = Resume(stored);
  ATTNDB_ASSERT_OK(session.DropOldest(500, {.keep_first = 4}));
  ATTNDB_ASSERT_OK(session.SetPlan("topk(k=12,sink=0,window=1)"));
  const TokenId probe = 7;
  const std::vector<float> q = model_.Queries(0, {&probe, 1}, 1019);
  ATTNDB_ASSERT_OK_AND_ASSIGN(const auto found, session.Search(0, test::ViewOf(q, 6, 32)));
  const Rows rows = Left(0, test::Concat(stored, ToyModel::Tokens(20, 9)), session.cuts(), 1020);
  for (uint32_t head = 0; head < 6; ++head) {
    ASSERT_EQ(found[head].tokens.size(), 12u);
    for (size_t i = 0; i < 12; ++i) {
      const uint32_t token = found[head].tokens[i];
      ASSERT_TRUE(token < 4 || token >= 504) << token;
      const float* const key = &rows.k[((token < 4 ? token : token - 500) * 2 + head / 3) * 32];
      double score = 0;
      for (size_t d = 0; d < 32; ++d) score += double{q[head * 32 + d]} * double{key[d]};
      EXPECT_NEAR(double{found[head].scores[i]}, score, 0.02) << token;
    }
  }
}

TEST_F(SessionDropTest, SearchNamesEachTokenThatStays) {
  Session session = NewSession("topk(k=1000,sink=0,window=1)");
  ATTNDB_ASSERT_OK(AppendTokens(&session, ToyModel::Tokens(100, 1), nullptr));
  ATTNDB_ASSERT_OK(session.DropOldest(36, {.keep_first = 4}));
  std::vector<uint32_t> expected = {0, 1, 2, 3};
  for (uint32_t token = 40; token < 99; ++token) expected.push_back(token);  // 99 is the window.
  const std::vector<float> q = model_.Queries(0, Tokens{7}, 99);
  ATTNDB_ASSERT_OK_AND_ASSIGN(auto found, session.Search(0, test::ViewOf(q, 6, 32)));
  for (CriticalTokens& head : found) {
    std::ranges::sort(head.tokens);
    EXPECT_EQ(head.tokens, expected);
  }
}

// A token that all queries shout at is in the ranges, before and behind a cut, stored or not.
TEST_F(SessionDropTest, TheHeaviestTokensAreFound) {
  const Tokens all = ToyModel::Tokens(700, 1);
  const uint64_t loud = 333;
  Session session = NewSession();
  const auto shout = [&](uint64_t begin) {
    return [this, begin](LayerId layer, std::vector<float>* k, std::vector<float>* /*v*/) {
      const LayerSpec& spec = model_.spec().layers[layer];
      const size_t row = size_t{spec.num_kv_heads} * spec.head_dim;
      if (begin > loud || begin * row + k->size() <= loud * row) return;
      for (size_t i = 0; i < row; ++i) (*k)[(loud - begin) * row + i] = 9.0f;
    };
  };
  for (uint64_t begin = 0; begin < 700; begin += 100) {
    const auto piece = std::span(all).subspan(begin, 100);
    ATTNDB_ASSERT_OK(AppendTokens(&session, piece, shout(begin)));
    for (LayerId layer = 0; layer < model_.spec().num_layers(); ++layer) {
      const LayerSpec& spec = model_.spec().layers[layer];
      // q that agrees with the loud key's direction.
      const std::vector<float> q(100 * size_t{spec.num_q_heads} * spec.head_dim, 0.2f);
      std::vector<float> out(100 * size_t{spec.num_q_heads} * spec.v_head_dim);
      ATTNDB_ASSERT_OK(
          session.Attend(layer, test::ViewOf(q, spec.num_q_heads, spec.head_dim),
                         MutableTensorView::Contiguous(out.data(), DType::kFloat32, 100,
                                                       spec.num_q_heads, spec.v_head_dim)));
    }
    if (begin == 400) {
      ATTNDB_ASSERT_OK(db_->Store(session, std::span(all).first(500), {.name = "a"}));
    }
  }
  const std::vector<TokenRange> expected = {{320, 336}};
  EXPECT_EQ(*session.HeaviestTokens({0, 700}, 16), expected);
  EXPECT_EQ(*session.HeaviestTokens({0, 700}, 31), expected);
  EXPECT_EQ(session.HeaviestTokens({0, 700}, 32)->size(), 2u);
  EXPECT_TRUE(session.HeaviestTokens({0, 700}, 15)->empty());
  EXPECT_EQ(*session.HeaviestTokens({333, 334}, 16), (std::vector<TokenRange>{{333, 334}}));
  ATTNDB_ASSERT_OK(session.DropOldest(400, {.keep_first = 4, .keep = expected}));
  EXPECT_EQ(session.cuts()[0].dropped.size(), 2u);
  EXPECT_THAT(session.HeaviestTokens({600, 500}, 16),
              FailsWith(StatusCode::kInvalidArgument, HasSubstr("[600, 500)")));
  EXPECT_THAT(session.HeaviestTokens({0, 701}, 16),
              FailsWith(StatusCode::kInvalidArgument, HasSubstr("of a session of 700")));
  Session silent = NewSession();
  ATTNDB_ASSERT_OK(AppendTokens(&silent, all, nullptr));
  EXPECT_THAT(silent.HeaviestTokens({0, 700}, 16),
              FailsWith(StatusCode::kFailedPrecondition, HasSubstr("query_sample")));
}

// The engine counts from elsewhere: its rows are turned to where the session's stand.
TEST_F(SessionDropTest, EnginesMayCountPositionsTheirOwnWay) {
  const Tokens stored = StoreChain("a", std::vector<uint64_t>{900, 100}, 1);
  Session session = Resume(stored);
  const Tokens all = test::Concat(stored, ToyModel::Tokens(20, 9));
  ATTNDB_ASSERT_OK(session.Rebase(50));
  EXPECT_EQ(session.next_position(), 50);
  // The session should hold this, rotated on by 970 positions.
  const Tokens more = ToyModel::Tokens(40, 3);
  std::vector<float> out;
  for (LayerId layer = 0; layer < model_.spec().num_layers(); ++layer) {
    const LayerSpec& spec = model_.spec().layers[layer];
    const std::vector<float> k = model_.Keys(layer, more, 0);
    const std::vector<float> v = model_.Values(layer, more, 0);
    const std::vector<float> q = model_.Queries(layer, more, 0);
    ATTNDB_ASSERT_OK(session.Append(layer, test::ViewOf(k, spec.num_kv_heads, spec.head_dim),
                                    test::ViewOf(v, spec.num_kv_heads, spec.v_head_dim)));
    std::vector<float> found(more.size() * spec.num_q_heads * spec.v_head_dim);
    ATTNDB_ASSERT_OK(
        session.Attend(layer, test::ViewOf(q, spec.num_q_heads, spec.head_dim),
                       MutableTensorView::Contiguous(found.data(), DType::kFloat32,
                                                     static_cast<int64_t>(more.size()),
                                                     spec.num_q_heads, spec.v_head_dim)));
    std::vector<float> all_k = model_.Keys(layer, all, 0);
    std::vector<float> all_v = model_.Values(layer, all, 0);
    all_k.insert(all_k.end(), k.begin(), k.end());
    all_v.insert(all_v.end(), v.begin(), v.end());
    for (size_t row = all.size() * spec.num_kv_heads; row < all_k.size() / spec.head_dim; ++row) {
      TurnRow(spec, 970, &all_k[row * spec.head_dim]);
    }
    for (const size_t row : {size_t{0}, size_t{39}}) {
      const size_t q_row = size_t{spec.num_q_heads} * spec.head_dim;
      std::vector<float> turned(q.begin() + static_cast<ptrdiff_t>(row * q_row),
                                q.begin() + static_cast<ptrdiff_t>((row + 1) * q_row));
      for (uint32_t head = 0; head < spec.num_q_heads; ++head) {
        TurnRow(spec, 970, &turned[size_t{head} * spec.head_dim]);
      }
      const std::vector<double> expected =
          test::OracleAttend(spec, all_k, all_v, turned, all.size() + row + 1);
      for (size_t i = 0; i < expected.size(); ++i) {
        EXPECT_NEAR(double{found[row * expected.size() + i]}, expected[i], 3e-3);
      }
    }
  }
  EXPECT_EQ(session.next_position(), 90);
  ATTNDB_ASSERT_OK(session.Crop(1020));
  EXPECT_EQ(session.next_position(), 50);
  ATTNDB_ASSERT_OK(session.Crop(960));
  EXPECT_EQ(session.next_position(), 960) << "the engine's would be negative";
  EXPECT_THAT(session.Rebase(-1), FailsWith(StatusCode::kInvalidArgument, HasSubstr("-1")));
}

TEST_F(SessionDropTest, AnEngineMayBeginAgainAndAResetTakesThatBack) {
  Session session = NewSession();
  ATTNDB_ASSERT_OK(model_.Step(&session, ToyModel::Tokens(30, 1)));
  ATTNDB_ASSERT_OK(session.Rebase(0));
  EXPECT_EQ(session.next_position(), 0);
  session.Reset();
  EXPECT_EQ(session.next_position(), 0);
  const Tokens more = ToyModel::Tokens(20, 2);
  ATTNDB_ASSERT_OK(model_.Step(&session, more));
  EXPECT_EQ(session.next_position(), 20);
  ExpectOracle(&session, more);
}

// Each element is within float16, and the pair, turned, is not; a later one that is beyond it as it
// is given lies in another block of the tail.
TEST_F(SessionDropTest, AKeyThatOverflowsAsItIsTurnedIsToldSo) {
  Session session = NewSession();
  ATTNDB_ASSERT_OK(session.Rebase(50));
  const auto enlarge = [](LayerId, std::vector<float>* k, std::vector<float>*) {
    (*k)[size_t{10} * 2 * 32] = (*k)[size_t{10} * 2 * 32 + 1] = 60000.0f;
    (*k)[size_t{256} * 2 * 32 + 5] = 70000.0f;
  };
  EXPECT_THAT(AppendLayer(&session, 0, ToyModel::Tokens(300, 1), 0, enlarge),
              FailsWith(StatusCode::kInvalidArgument,
                        HasSubstr("k of layer 0, head 0, turned to where it is stored, is beyond "
                                  "the range of float16")));
  ATTNDB_ASSERT_OK(model_.Step(&session, ToyModel::Tokens(5, 1)));  // Nothing had changed.
}

TEST_F(SessionDropTest, AForkCountsPositionsAsItsParentDoes) {
  Session session = Resume(StoreChain("a", std::vector<uint64_t>{900, 100}, 1));
  const std::vector<float> before = Probe(&session);
  ATTNDB_ASSERT_OK(session.Rebase(50));
  const std::vector<float> expected = Probe(&session);
  EXPECT_GT(Difference(expected, before), 1e-3) << "q is not turned";
  ATTNDB_ASSERT_OK_AND_ASSIGN(Session fork, session.Fork());
  EXPECT_EQ(fork.next_position(), 50);
  EXPECT_EQ(Probe(&fork), expected);
}

TEST_F(SessionDropTest, FiltersHideAmongWhatStays) {
  const Tokens stored = StoreChain("a", std::vector<uint64_t>{900, 100}, 1);
  Session session = Resume(stored);
  const Tokens all = test::Concat(stored, ToyModel::Tokens(20, 9));
  ATTNDB_ASSERT_OK(session.DropOldest(300, {.keep_first = 4}));
  const std::vector<TokenRange> ranges = {{2, 350}, {400, 1020}};
  ATTNDB_ASSERT_OK(session.SetFilter(ranges));
  const std::vector<Cut> cuts = session.cuts();
  std::vector<float> out;
  ATTNDB_ASSERT_OK(model_.Probe(&session, 7, &out));
  std::vector<double> expected;
  for (LayerId layer = 0; layer < model_.spec().num_layers(); ++layer) {
    const LayerSpec& spec = model_.spec().layers[layer];
    Rows rows = Left(layer, all, cuts, all.size());
    const auto hide = [&](uint64_t first, uint64_t count) {  // Among what stays.
      const auto erase = [&](std::vector<float>* from, size_t row) {
        from->erase(from->begin() + static_cast<ptrdiff_t>(first * row),
                    from->begin() + static_cast<ptrdiff_t>((first + count) * row));
      };
      erase(&rows.k, size_t{spec.num_kv_heads} * spec.head_dim);
      erase(&rows.v, size_t{spec.num_kv_heads} * spec.v_head_dim);
      rows.num_tokens -= count;
    };
    hide(350 - 300, 50);
    hide(0, 2);
    const TokenId probe = 7;
    const std::vector<double> row = test::OracleAttend(
        spec, rows.k, rows.v, model_.Queries(layer, {&probe, 1}, all.size() - 1), rows.num_tokens);
    expected.insert(expected.end(), row.begin(), row.end());
  }
  EXPECT_LT(OutputError(model_, out, expected), 2e-3);
}

TEST_F(SessionDropTest, WrongCallsChangeNothing) {
  Session session = NewSession();
  Tokens all;
  ExpectStep(&session, &all, 100);
  EXPECT_THAT(session.DropOldest(100),
              FailsWith(StatusCode::kInvalidArgument, HasSubstr("only 98 stand between")));
  EXPECT_THAT(session.DropOldest(1, {.keep_first = 101}),
              FailsWith(StatusCode::kInvalidArgument, HasSubstr("keep_first is 101")));
  ATTNDB_ASSERT_OK(AppendLayer(&session, 0, Tokens{5}, 100));
  EXPECT_THAT(session.DropOldest(10),
              FailsWith(StatusCode::kFailedPrecondition, HasSubstr("a step")));
  EXPECT_THAT(session.Rebase(3), FailsWith(StatusCode::kFailedPrecondition, HasSubstr("a step")));
  ATTNDB_ASSERT_OK(session.Crop(100));
  ExpectStep(&session, &all, 1);
  EXPECT_EQ(session.num_dropped(), 0u);
  // An Attend of 60 q rows would include rows of dropped tokens.
  ATTNDB_ASSERT_OK(session.DropOldest(50));
  const LayerSpec& spec = model_.spec().layers[0];
  const std::vector<float> q = model_.Queries(0, std::span(all).first(60), 0);
  std::vector<float> out(q.size());
  EXPECT_THAT(session.Attend(0, test::ViewOf(q, spec.num_q_heads, spec.head_dim),
                             MutableTensorView::Contiguous(out.data(), DType::kFloat32, 60,
                                                           spec.num_q_heads, spec.v_head_dim)),
              FailsWith(StatusCode::kFailedPrecondition, HasSubstr("only the newest 50")));
}

TEST_F(SessionDropTest, ModelsThatCantBeTurnedAreRefusedByName) {
  ModelSpec spec = model_.spec();
  spec.layers[1].rope.scaling = "dynamic:factor=2.0";
  model_ = ToyModel(spec);
  Session session = NewSession();
  ATTNDB_ASSERT_OK(model_.Step(&session, ToyModel::Tokens(50, 1)));
  EXPECT_THAT(session.DropOldest(10),
              FailsWith(StatusCode::kUnsupported, HasSubstr("layer 1: RoPE scaling 'dynamic")));
  EXPECT_EQ(session.num_dropped(), 0u);
  EXPECT_THAT(session.Rebase(10),
              FailsWith(StatusCode::kUnsupported, HasSubstr("layer 1: RoPE scaling 'dynamic")));
  EXPECT_EQ(session.next_position(), 50);
}

}  // namespace
}  // namespace attndb
