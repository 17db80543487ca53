// Goal:   under a filter a session answers like a session that holds only the tokens that pass.
//         This holds for every plan, for segments, a tail and its blocks. Tokens appended under the
//         filter are visible. Store does not store them as if they had attended to all tokens.
// Method: toy model; the same plan on a session to which the rows that are left were appended, and
//         attention in float64 over these rows. Hidden rows are made to shout.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
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
using ::testing::HasSubstr;

using Ranges = std::vector<TokenRange>;

class SessionFilterTest : public DBFixture {
 protected:
  SessionFilterTest() : DBFixture(/*background_builds=*/true) {}

  // Rows of a layer's K or V, [tokens, heads, dim], of the tokens in the ranges.
  static std::vector<float> Gather(const std::vector<float>& rows, size_t row,
                                   const Ranges& ranges) {
    std::vector<float> left;
    for (const TokenRange& range : ranges) {
      left.insert(left.end(), rows.begin() + static_cast<ptrdiff_t>(range.begin * row),
                  rows.begin() + static_cast<ptrdiff_t>(range.end * row));
    }
    return left;
  }
  struct Rows {
    std::vector<float> k;
    std::vector<float> v;
  };
  Rows Left(LayerId layer, const Tokens& tokens, const Ranges& ranges) const {
    const LayerSpec& spec = model_.spec().layers[layer];
    return {
        Gather(model_.Keys(layer, tokens, 0), size_t{spec.num_kv_heads} * spec.head_dim, ranges),
        Gather(model_.Values(layer, tokens, 0), size_t{spec.num_kv_heads} * spec.v_head_dim,
               ranges)};
  }

  // A session that holds the tokens that pass, and nothing else.
  Session HoldingLeft(const Tokens& tokens, const Ranges& ranges) {
    Session session = NewSession();
    for (LayerId layer = 0; layer < model_.spec().num_layers(); ++layer) {
      const LayerSpec& spec = model_.spec().layers[layer];
      const Rows rows = Left(layer, tokens, ranges);
      ATTNDB_EXPECT_OK(session.Append(layer, test::ViewOf(rows.k, spec.num_kv_heads, spec.head_dim),
                                      test::ViewOf(rows.v, spec.num_kv_heads, spec.v_head_dim)));
    }
    return session;
  }

  // The output of a probe of all layers, in float64, by q of the position `position`.
  std::vector<double> Expected(const Tokens& tokens, const Ranges& ranges,
                               uint64_t position) const {
    std::vector<double> out;
    const TokenId probe = 7;
    for (LayerId layer = 0; layer < model_.spec().num_layers(); ++layer) {
      const LayerSpec& spec = model_.spec().layers[layer];
      const Rows rows = Left(layer, tokens, ranges);
      const uint64_t count = rows.k.size() / (size_t{spec.num_kv_heads} * spec.head_dim);
      const std::vector<double> of_layer = test::OracleAttend(
          spec, rows.k, rows.v, model_.Queries(layer, {&probe, 1}, position), count);
      out.insert(out.end(), of_layer.begin(), of_layer.end());
    }
    return out;
  }

  // The probe of the filtered session, in the place of the other's newest token.
  std::vector<float> ProbeAt(Session* session, uint64_t position) {
    std::vector<float> out;
    ATTNDB_EXPECT_OK(model_.ProbeAt(session, 7, position, &out));
    return out;
  }
};

TEST_F(SessionFilterTest, FullAttendsToWhatIsLeft) {
  const Tokens stored = StoreChain("a", std::vector<uint64_t>{900, 400, 100}, 1);
  Session session = Resume(stored);
  const Tokens all = test::Concat(stored, ToyModel::Tokens(20, 9));
  const uint64_t last = all.size() - 1;
  for (const Ranges& ranges :
       {Ranges{{0, 4}, {100, 333}}, Ranges{{5, 6}}, Ranges{{899, 901}, {1290, 1420}},
        Ranges{{0, 1420}},
        Ranges{{1, 2}, {2, 3}, {7, 9}, {640, 705}, {1300, 1301}, {1405, 1410}}}) {
    ATTNDB_ASSERT_OK(session.SetFilter(ranges));
    EXPECT_LT(OutputError(model_, ProbeAt(&session, last), Expected(all, ranges, last)), 2e-3)
        << ranges[0].begin;
  }
  ATTNDB_ASSERT_OK(session.SetFilter({}));
  EXPECT_LT(OutputError(model_, Probe(&session), OracleProbe(model_, all, 7)), 1e-3);
}

TEST_F(SessionFilterTest, PlansChooseAmongWhatIsLeft) {
  const Tokens stored = StoreChain("a", std::vector<uint64_t>{6000, 2500, 700, 100}, 1);
  const Ranges ranges = {{0, 30}, {77, 3001}, {3300, 5990}, {6100, 8000}, {8400, 9305}};
  const uint64_t last = stored.size() + 19;
  Session session = Resume(stored);
  Session left = HoldingLeft(test::Concat(stored, ToyModel::Tokens(20, 9)), ranges);
  for (const std::string query : {"topk(k=60", "dipr(alpha=0.02", "mass(p=0.9"}) {
    ATTNDB_ASSERT_OK(session.SetFilter(ranges));
    ATTNDB_ASSERT_OK(session.SetPlan(query + ")"));
    ATTNDB_ASSERT_OK(left.SetPlan(query + ")"));
    const std::vector<float> expected = ProbeAt(&left, last);
    EXPECT_LT(Difference(ProbeAt(&session, last), expected), 1e-5) << query;
    std::vector<std::string> settings = {",bits=8"};
    if (query.starts_with("mass")) {
      settings.emplace_back(",index=pq,m=16,effort=60");
    } else {
      for (const char* index :
           {",index=clustered,effort=100", ",index=graph,beam_width=6000",
            ",index=graph,graphs=head,beam_width=6000", ",index=graph,beam_width=6000,expand=all",
            ",index=roargraph,beam_width=6000", ",index=roargraph,beam_width=6000,expand=all",
            ",index=pq,m=16,b=8,effort=60"}) {
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
      (void)ProbeAt(&session, last);
      ATTNDB_ASSERT_OK(db_->WaitForBackground());
      EXPECT_LT(Difference(ProbeAt(&session, last), expected), 0.05) << plan;
    }
  }
}

// Algorithm 1 begins at one key of each range: of ranges of a few keys the graph's edges may not
// lead from there to the others.
TEST_F(SessionFilterTest, PublishedWalksChooseAmongWhatIsLeftOfLongRanges) {
  const Tokens stored = StoreChain("a", std::vector<uint64_t>{2800, 2200, 300}, 1);
  const Ranges ranges = {{0, 1501}, {1600, 2790}, {2850, 4905}, {5010, 5310}};
  const uint64_t last = stored.size() + 19;
  Session session = Resume(stored);
  Session left = HoldingLeft(test::Concat(stored, ToyModel::Tokens(20, 9)), ranges);
  ATTNDB_ASSERT_OK(session.SetFilter(ranges));
  ATTNDB_ASSERT_OK(left.SetPlan("dipr(alpha=0.02)"));
  const std::vector<float> expected = ProbeAt(&left, last);
  for (const std::string index : {"graph", "roargraph"}) {
    for (const std::string expand : {"hidden", "all"}) {
      const std::string plan =
          "dipr(alpha=0.02,index=" + index + ",walk=diprs,l0=6000,expand=" + expand + ")";
      ATTNDB_ASSERT_OK(session.SetPlan(plan));
      (void)ProbeAt(&session, last);
      ATTNDB_ASSERT_OK(db_->WaitForBackground());
      EXPECT_LT(Difference(ProbeAt(&session, last), expected), 0.01) << plan;
      EXPECT_GT(session.Explain().layers[0].heads[0].visited_mean, 0) << plan;
    }
  }
}

// Estimates of tokens that were not selected ignore hidden tokens.
TEST_F(SessionFilterTest, RemaindersAndDrawsAreOfWhatIsLeft) {
  Open({.measure_machine = false});
  const Ranges ranges = {{0, 30}, {77, 3001}, {3300, 5990}, {6100, 8000}, {8400, 9320}};
  const auto shout = [&](LayerId layer, std::vector<float>* k, std::vector<float>* v) {
    const LayerSpec& spec = model_.spec().layers[layer];
    for (uint64_t token = 30;
         token < 77 && token < k->size() / (size_t{spec.num_kv_heads} * spec.head_dim); ++token) {
      for (uint32_t i = 0; i < spec.num_kv_heads * spec.head_dim; ++i) {
        (*k)[token * spec.num_kv_heads * spec.head_dim + i] *= 3;
      }
      for (uint32_t i = 0; i < spec.num_kv_heads * spec.v_head_dim; ++i) {
        (*v)[token * spec.num_kv_heads * spec.v_head_dim + i] = 100;
      }
    }
  };
  const Tokens stored = StoreChain("a", std::vector<uint64_t>{9300}, 1, shout);
  const Tokens all = test::Concat(stored, ToyModel::Tokens(20, 9));
  Session session = Resume(stored);
  Session left = HoldingLeft(all, ranges);
  ATTNDB_ASSERT_OK(session.SetFilter(ranges));
  ATTNDB_ASSERT_OK(left.SetPlan("full"));
  const uint64_t last = all.size() - 1;
  const std::vector<float> full = ProbeAt(&left, last);
  for (const std::string plan :
       {"topk(k=60,bits=8,remainder=sample:9000)", "topk(k=6000,remainder=mean)",
        "topk(k=60,bits=8,exact_fallback=0.001)", "auto(error=0.05)",
        "auto(error=0.05,index=clustered)", "auto(error=0.05,index=pq,m=16)",
        "topk(k=6000,index=wave,effort=1000)", "topk(k=6000,index=pq,remainder=clusters)"}) {
    ATTNDB_ASSERT_OK(session.SetPlan(plan));
    (void)ProbeAt(&session, last);
    ATTNDB_ASSERT_OK(db_->WaitForBackground());
    EXPECT_LT(Difference(ProbeAt(&session, last), full),
              plan.find("topk(k=6000") != plan.npos ? 0.5 : 0.15)
        << plan;
  }
}

TEST_F(SessionFilterTest, BlocksOfTheTailAreFilteredToo) {
  const Tokens all = ToyModel::Tokens(9000, 3);
  const Ranges ranges = {{3, 500}, {4000, 4200}, {7000, 8900}};
  Session session = NewSession();
  ATTNDB_ASSERT_OK(AppendTokens(&session, all, nullptr));
  Session left = HoldingLeft(all, ranges);
  ATTNDB_ASSERT_OK(left.SetPlan("topk(k=60)"));
  ATTNDB_ASSERT_OK(session.SetFilter(ranges));
  const std::vector<float> expected = ProbeAt(&left, 8999);
  for (const std::string plan :
       {"topk(k=60)", "topk(k=60,bits=8)", "topk(k=60,index=pq,m=16,effort=60)"}) {
    ATTNDB_ASSERT_OK(session.SetPlan(plan));
    (void)ProbeAt(&session, 8999);
    ATTNDB_ASSERT_OK(db_->WaitForBackground());
    EXPECT_LT(Difference(ProbeAt(&session, 8999), expected), 0.05) << plan;
  }
}

TEST_F(SessionFilterTest, WhatIsAppendedLaterIsSeen) {
  const Tokens stored = StoreChain("a", std::vector<uint64_t>{900}, 1);
  Session session = Resume(stored, 1);
  Tokens all = test::Concat(stored, ToyModel::Tokens(1, 9));
  const Ranges ranges = {{0, 10}, {200, 300}};
  ATTNDB_ASSERT_OK(session.SetFilter(ranges));
  const Tokens more = ToyModel::Tokens(40, 5);
  std::vector<float> out;
  ATTNDB_ASSERT_OK(model_.Step(&session, more, &out));
  all = test::Concat(all, more);
  const Ranges seen = {{0, 10}, {200, 300}, {901, 941}};
  EXPECT_LT(OutputError(model_, ProbeAt(&session, 940), Expected(all, seen, 940)), 2e-3);
  // The first row of the step saw itself and none of those after it.
  Session first = HoldingLeft(all, {{0, 10}, {200, 300}, {901, 902}});
  const LayerSpec& spec = model_.spec().layers[0];
  const std::vector<float> q = model_.Queries(0, {more.data(), 1}, 901);
  std::vector<float> row(size_t{spec.num_q_heads} * spec.v_head_dim);
  ATTNDB_ASSERT_OK(first.Attend(0, test::ViewOf(q, spec.num_q_heads, spec.head_dim),
                                MutableTensorView::Contiguous(row.data(), DType::kFloat32, 1,
                                                              spec.num_q_heads, spec.v_head_dim)));
  out.resize(row.size());
  ExpectNear(out, row);
}

TEST_F(SessionFilterTest, SearchNamesTokensOfTheSession) {
  const Tokens stored = StoreChain("a", std::vector<uint64_t>{900}, 1);
  Session session = Resume(stored);
  ATTNDB_ASSERT_OK(session.SetFilter(Ranges{{3, 50}, {400, 700}}));
  ATTNDB_ASSERT_OK(session.SetPlan("topk(k=40,sink=2,window=5)"));
  const LayerSpec& spec = model_.spec().layers[1];
  const TokenId probe = 7;
  const std::vector<float> q = model_.Queries(1, {&probe, 1}, 919);
  ATTNDB_ASSERT_OK_AND_ASSIGN(const auto found,
                              session.Search(1, test::ViewOf(q, spec.num_q_heads, spec.head_dim)));
  const std::vector<float> keys = model_.Keys(1, stored, 0);
  for (uint32_t head = 0; head < spec.num_q_heads; ++head) {
    ASSERT_EQ(found[head].tokens.size(), 40u);
    for (size_t i = 0; i < found[head].tokens.size(); ++i) {
      const uint32_t token = found[head].tokens[i];
      EXPECT_TRUE((token >= 5 && token < 50) || (token >= 400 && token < 695)) << token;
      double score = 0;
      for (uint32_t d = 0; d < spec.head_dim; ++d) {
        const uint32_t kv_head = head / spec.group_size();
        score += double{q[head * spec.head_dim + d]} *
                 double{keys[(token * spec.num_kv_heads + kv_head) * spec.head_dim + d]};
      }
      EXPECT_NEAR(found[head].scores[i], score, 0.02 * std::abs(score) + 0.02) << token;
    }
  }
}

TEST_F(SessionFilterTest, CropForkResetAndExplain) {
  const Tokens stored = StoreChain("a", std::vector<uint64_t>{900}, 1);
  Session session = Resume(stored);
  ATTNDB_ASSERT_OK(session.SetFilter(Ranges{{0, 10}, {200, 300}}));
  EXPECT_THAT(session.Explain(0)->notes, HasSubstr("filter: 810 of 920 tokens are hidden"));
  ATTNDB_ASSERT_OK_AND_ASSIGN(Session fork, session.Fork());
  EXPECT_EQ(ProbeAt(&fork, 919), ProbeAt(&session, 919));
  ATTNDB_ASSERT_OK(fork.SetFilter({}));
  EXPECT_NE(ProbeAt(&fork, 919), ProbeAt(&session, 919));
  ATTNDB_ASSERT_OK(session.Crop(250));
  const Ranges cropped = {{0, 10}, {200, 250}};
  EXPECT_LT(OutputError(model_, ProbeAt(&session, 249), Expected(stored, cropped, 249)), 2e-3);
  session.Reset();
  ATTNDB_ASSERT_OK(model_.Step(&session, Tokens{1, 2, 3}));
  ExpectOracle(&session, Tokens{1, 2, 3});
}

TEST_F(SessionFilterTest, WhatDidNotSeeAllIsNotStored) {
  const Tokens stored = StoreChain("a", std::vector<uint64_t>{900}, 1);
  Session session = Resume(stored);
  const Tokens tail = ToyModel::Tokens(20, 9);
  ATTNDB_ASSERT_OK(session.SetFilter(Ranges{{0, 10}}));
  ATTNDB_ASSERT_OK(model_.Step(&session, Tokens{5, 6}));
  ATTNDB_ASSERT_OK(session.SetFilter({}));
  const Tokens all = test::Concat(test::Concat(stored, tail), Tokens{5, 6});
  const auto is_refused = FailsWith(StatusCode::kFailedPrecondition, HasSubstr("Crop(920)"));
  EXPECT_THAT(db_->Store(session, all, {.name = "b"}), is_refused);
  ATTNDB_ASSERT_OK_AND_ASSIGN(Session fork, session.Fork());
  EXPECT_THAT(db_->Store(fork, all, {.name = "b"}), is_refused);
  ATTNDB_ASSERT_OK(session.Crop(920));
  ATTNDB_ASSERT_OK(db_->Store(session, test::Concat(stored, tail), {.name = "b"}));
}

TEST_F(SessionFilterTest, AfterAResetWhatIsAppendedIsStoredAsEver) {
  Session session = NewSession();
  ATTNDB_ASSERT_OK(model_.Step(&session, ToyModel::Tokens(30, 1)));
  ATTNDB_ASSERT_OK(session.SetFilter(Ranges{{0, 10}}));
  ATTNDB_ASSERT_OK(model_.Step(&session, Tokens{5, 6}));
  session.Reset();
  const Tokens tokens = ToyModel::Tokens(40, 2);
  ATTNDB_ASSERT_OK(model_.Step(&session, tokens));
  ATTNDB_EXPECT_OK(db_->Store(session, tokens, {.name = "b"}));
}

TEST_F(SessionFilterTest, InsideAStepNothingIsHidden) {
  Session session = NewSession();
  ATTNDB_ASSERT_OK(model_.Step(&session, ToyModel::Tokens(30, 1)));
  ATTNDB_ASSERT_OK(AppendLayer(&session, 0, Tokens{5}, 30));
  EXPECT_THAT(session.SetFilter(Ranges{{0, 10}}),
              FailsWith(StatusCode::kFailedPrecondition, HasSubstr("a step is under way")));
  ATTNDB_ASSERT_OK(AppendLayer(&session, 1, Tokens{5}, 30));
  EXPECT_THAT(session.Explain(0)->notes, ::testing::Not(HasSubstr("hidden")));
}

// Each part of a call that can't be is told so, and the next call goes on.
TEST_F(SessionFilterTest, PartsOfACallForHiddenTokensAreRefused) {
  Session session = NewSession();
  ATTNDB_ASSERT_OK(model_.Step(&session, ToyModel::Tokens(30, 1)));
  ATTNDB_ASSERT_OK(session.SetFilter(Ranges{{0, 10}}));
  const LayerSpec& spec = model_.spec().layers[0];
  const std::vector<float> q(size_t{2} * spec.num_q_heads * spec.head_dim, 0.5f);
  std::vector<float> out(size_t{2} * spec.num_q_heads * spec.v_head_dim);
  for (uint32_t part = 0; part < 2; ++part) {
    EXPECT_THAT(session.AttendPart(0, test::ViewOf(q, spec.num_q_heads, spec.head_dim),
                                   MutableTensorView::Contiguous(out.data(), DType::kFloat32, 2,
                                                                 spec.num_q_heads, spec.v_head_dim),
                                   nullptr, part, 2),
                FailsWith(StatusCode::kFailedPrecondition, HasSubstr("only the newest 0 have")));
  }
  (void)ProbeAt(&session, 29);
}

TEST_F(SessionFilterTest, BadFiltersAreNamedAndChangeNothing) {
  const Tokens stored = StoreChain("a", std::vector<uint64_t>{900}, 1);
  Session session = Resume(stored);
  ATTNDB_ASSERT_OK(session.SetFilter(Ranges{{0, 10}, {200, 300}}));
  const std::vector<float> before = ProbeAt(&session, 919);
  const struct {
    Ranges ranges;
    const char* says;
  } kBad[] = {{{{5, 5}}, "[5, 5) holds no token"},
              {{{9, 3}}, "[9, 3) holds no token"},
              {{{0, 10}, {9, 20}}, "[9, 20) begins before the end"},
              {{{50, 60}, {0, 10}}, "[0, 10) begins before the end"},
              {{{0, 921}}, "beyond the 920 tokens"},
              {{{~uint64_t{0} - 1, ~uint64_t{0}}}, "beyond the 920 tokens"}};
  for (const auto& bad : kBad) {
    EXPECT_THAT(session.SetFilter(bad.ranges),
                FailsWith(StatusCode::kInvalidArgument, HasSubstr(bad.says)));
  }
  EXPECT_EQ(ProbeAt(&session, 919), before);
  // Two rows, of which the first would be of a hidden token.
  const LayerSpec& spec = model_.spec().layers[0];
  const std::vector<float> q(size_t{2} * spec.num_q_heads * spec.head_dim, 0.5f);
  std::vector<float> out(size_t{2} * spec.num_q_heads * spec.v_head_dim);
  EXPECT_THAT(session.Attend(0, test::ViewOf(q, spec.num_q_heads, spec.head_dim),
                             MutableTensorView::Contiguous(out.data(), DType::kFloat32, 2,
                                                           spec.num_q_heads, spec.v_head_dim)),
              FailsWith(StatusCode::kFailedPrecondition, HasSubstr("only the newest 0 have")));
  // Nothing is left once the only range was cropped away.
  ATTNDB_ASSERT_OK(session.SetFilter(Ranges{{500, 510}}));
  ATTNDB_ASSERT_OK(session.Crop(400));
  const std::vector<float> one_q(q.size() / 2, 0.5f);
  EXPECT_THAT(session.Attend(0, test::ViewOf(one_q, spec.num_q_heads, spec.head_dim),
                             MutableTensorView::Contiguous(out.data(), DType::kFloat32, 1,
                                                           spec.num_q_heads, spec.v_head_dim)),
              FailsWith(StatusCode::kFailedPrecondition, HasSubstr("leaves no token")));
}

TEST_F(SessionFilterTest, SlidingWindowsRefuse) {
  ModelSpec spec = model_.spec();
  spec.layers[1].sliding_window = 100;
  ATTNDB_ASSERT_OK_AND_ASSIGN(SessionStart start, db_->CreateSession(spec, Tokens{1, 2}, {}));
  const ToyModel windowed(spec);
  ATTNDB_ASSERT_OK(windowed.Step(&start.session, Tokens{1, 2}));
  EXPECT_THAT(start.session.SetFilter(Ranges{{0, 1}}),
              FailsWith(StatusCode::kUnsupported, HasSubstr("layer 1 has a sliding window")));
  ATTNDB_EXPECT_OK(start.session.SetFilter({}));
}

}  // namespace
}  // namespace attndb
