// Goal:   a caller's own type selects the tokens, as a query and as an index of topk and dipr. This
//         holds over segments, prefixes, filters and a tail's blocks. The type's estimate is
//         merged. A fault of the type is an error that names the type, and the session continues.
// Method: a type whose Build and Select are the test's; toy model; attention in float64 over the
//         tokens that were selected. An exact estimate of the rest must give what `full` gives.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "api/db_test_util.h"
#include "attndb/custom_index.h"
#include "testing/toy_oracle.h"

namespace attndb {
namespace {

using test::Concat;
using test::DBFixture;
using test::FailsWith;
using test::Tokens;
using test::ToyModel;
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr uint64_t kPage = 8;
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();

struct KeptRows final : CustomObject {
  uint64_t memory_bytes() const override { return bytes; }
  std::vector<float> keys;
  std::vector<float> values;
  uint64_t bytes = 1000;
};

using Selections = std::span<CustomSelection>;

// Keeps all rows, and does what a test's functions do.
class TestIndex final : public CustomIndex {
 public:
  Result<CustomObjectPtr> Build(const CustomRows& rows) const override {
    ++num_built;
    num_queries += rows.query_rows.size();
    if (build) return build(rows);
    auto kept = std::make_shared<KeptRows>();
    kept->keys.assign(rows.keys.begin(), rows.keys.end());
    kept->values.assign(rows.values.begin(), rows.values.end());
    return CustomObjectPtr(std::move(kept));
  }
  Result<CustomObjectPtr> Extend(const CustomRows& rows) const override {
    ++num_extended;
    return Build(rows);
  }
  Status Select(const CustomQuery& query, Selections selections) const override {
    ++num_selected;
    return select(query, selections);
  }

  std::function<Result<CustomObjectPtr>(const CustomRows&)> build;
  std::function<Status(const CustomQuery&, Selections)> select;
  mutable std::atomic<int> num_built = 0;
  mutable std::atomic<int> num_extended = 0;
  mutable std::atomic<int> num_selected = 0;
  mutable std::atomic<uint64_t> num_queries = 0;
};

Status SelectAll(const CustomQuery& query, Selections selections) {
  for (CustomSelection& selection : selections) {
    for (uint32_t part = 0; part < query.parts.size(); ++part) {
      selection.ranges.push_back({part, 0, query.parts[part].num_rows});
    }
  }
  return Status::Ok();
}

bool IsPageSelected(uint64_t row) { return row / kPage % 2 == 1; }

Status SelectOddPages(const CustomQuery& query, Selections selections) {
  for (CustomSelection& selection : selections) {
    for (uint32_t part = 0; part < query.parts.size(); ++part) {
      const uint64_t num_rows = query.parts[part].num_rows;
      for (uint64_t row = kPage; row < num_rows; row += 2 * kPage) {
        selection.ranges.push_back({part, row, std::min(row + kPage, num_rows)});
      }
    }
  }
  return Status::Ok();
}

// By all visible rows of the other pages: nothing is estimated that could not be known.
void FillExactRest(const CustomQuery& query, uint32_t head, CustomSelection* selection) {
  const float* const q = query.q.data() + size_t{head} * query.head_dim;
  double sum = 0;
  std::vector<double> mean(query.v_head_dim);
  for (const CustomPart& part : query.parts) {
    const auto& rows = static_cast<const KeptRows&>(*part.object);
    for (uint64_t row = part.visible.begin; row < part.visible.end; ++row) {
      if (IsPageSelected(row)) continue;
      double score = 0;
      for (uint32_t i = 0; i < query.head_dim; ++i) {
        score += double{q[i]} * double{rows.keys[row * query.head_dim + i]};
      }
      score *= double{query.scale};
      if (query.soft_cap != 0) {
        score = double{query.soft_cap} * std::tanh(score / double{query.soft_cap});
      }
      sum += std::exp(score);
      for (uint32_t i = 0; i < query.v_head_dim; ++i) {
        mean[i] += std::exp(score) * double{rows.values[row * query.v_head_dim + i]};
      }
    }
  }
  selection->rest_lse = static_cast<float>(std::log(sum));
  for (const double x : mean) selection->rest_value.push_back(static_cast<float>(x / sum));
}

Status SelectWithExactRest(const CustomQuery& query, Selections selections) {
  ATTNDB_RETURN_IF_ERROR(SelectOddPages(query, selections));
  for (uint32_t head = 0; head < query.group_size; ++head) {
    FillExactRest(query, head, &selections[head]);
  }
  return Status::Ok();
}

class SessionCustomTest : public DBFixture {
 protected:
  SessionCustomTest() : DBFixture(/*background_builds=*/true) { OpenWith({}); }

  void OpenWith(DBOptions options) {
    index_ = std::make_shared<TestIndex>();
    index_->select = SelectAll;
    options.custom_indexes = {Type("mine")};
    Open(options);
  }
  CustomIndexType Type(const std::string& name) const {
    return {.name = name,
            .keys = {{.name = "pages", .min = 1, .max = 64, .whole = true, .fallback = 4},
                     {.name = "share", .min = 0, .max = 1, .fallback = 0.5}},
            .index = index_};
  }
  void Await(Session* session) {
    for (LayerId layer = 0; layer < model_.spec().num_layers(); ++layer) {
      ATTNDB_ASSERT_OK(session->AwaitDerived(layer));
    }
  }
  std::vector<float> Answer(Session* session, const std::string& plan) {
    ATTNDB_EXPECT_OK(session->SetPlan(plan));
    Await(session);
    return Probe(session);
  }
  std::vector<float> FullAnswer(const Tokens& stored) {
    Session session = Resume(stored, 20);
    return ProbeWith(&session, "full");
  }
  Status AttendOnce(Session* session) {
    std::vector<float> out;
    return model_.Probe(session, 7, &out);
  }
  // The tokens that `plan` finds in layer 1, by q head.
  std::vector<CriticalTokens> Found(Session* session, const std::string& plan) {
    ATTNDB_EXPECT_OK(session->SetPlan(plan));
    const LayerSpec& shape = model_.spec().layers[1];
    const TokenId token = 7;
    const std::vector<float> q = model_.Queries(1, {&token, 1}, session->num_tokens());
    auto found = session->Search(1, test::ViewOf(q, shape.num_q_heads, shape.head_dim));
    EXPECT_THAT(found, test::IsOk());
    return *std::move(found);
  }

  std::shared_ptr<TestIndex> index_;
};

// In float64, over the tokens of one segment that the type selected, sinks and the window.
TEST_F(SessionCustomTest, AQueryAttendsToWhatIsSelectedAndNothingElse) {
  const Tokens tokens = StoreChain("a", std::vector<uint64_t>{2100}, 1);
  Session session = Resume(tokens, 20);
  index_->select = SelectOddPages;
  const std::vector<float> found = Answer(&session, "mine");
  const Tokens all = Concat(tokens, ToyModel::Tokens(20, 9));
  std::vector<double> expected;
  const TokenId probe = 7;
  for (LayerId layer = 0; layer < model_.spec().num_layers(); ++layer) {
    const LayerSpec& spec = model_.spec().layers[layer];
    const std::vector<float> k = model_.Keys(layer, all, 0);
    const std::vector<float> v = model_.Values(layer, all, 0);
    std::vector<float> k_left;
    std::vector<float> v_left;
    uint64_t count = 0;
    const auto copy = [](const std::vector<float>& from, uint64_t row, size_t size, auto* to) {
      to->insert(to->end(), from.begin() + static_cast<ptrdiff_t>(row * size),
                 from.begin() + static_cast<ptrdiff_t>((row + 1) * size));
    };
    for (uint64_t token = 0; token < all.size(); ++token) {
      if (token >= 16 && token + 128 < all.size() && !IsPageSelected(token)) continue;
      copy(k, token, size_t{spec.num_kv_heads} * spec.head_dim, &k_left);
      copy(v, token, size_t{spec.num_kv_heads} * spec.v_head_dim, &v_left);
      ++count;
    }
    const std::vector<double> of_layer = test::OracleAttend(
        spec, k_left, v_left, model_.Queries(layer, {&probe, 1}, all.size() - 1), count);
    expected.insert(expected.end(), of_layer.begin(), of_layer.end());
  }
  EXPECT_LT(test::OutputError(model_, found, expected), 1e-3);
  EXPECT_GT(Difference(found, ProbeWith(&session, "full")), 0.01) << "nothing was left out";
}

TEST_F(SessionCustomTest, AnExactEstimateOfTheRestGivesFullAttention) {
  const Tokens tokens = StoreChain("a", std::vector<uint64_t>{3000, 1100, 100}, 1);
  Session session = Resume(tokens, 20);
  index_->select = SelectWithExactRest;
  for (const uint64_t num_tokens : {4220u, 3500u, 700u}) {
    ATTNDB_ASSERT_OK(session.Crop(num_tokens));
    const std::vector<float> found = Answer(&session, "mine");
    EXPECT_LT(Difference(found, ProbeWith(&session, "full")), 1e-4) << num_tokens;
  }
}

TEST_F(SessionCustomTest, AnIndexGivesCandidatesOfWhichTheBestAreKept) {
  const Tokens tokens = StoreChain("a", std::vector<uint64_t>{2100, 900}, 1);
  Session session = Resume(tokens, 20);
  (void)Answer(&session, "mine");
  const std::vector<CriticalTokens> by_all = Found(&session, "topk(k=60)");
  const std::vector<CriticalTokens> same = Found(&session, "topk(k=60,index=mine)");
  index_->select = SelectOddPages;
  const std::vector<CriticalTokens> selected = Found(&session, "mine");
  const std::vector<CriticalTokens> best = Found(&session, "topk(k=60,index=mine)");
  for (size_t head = 0; head < by_all.size(); ++head) {
    const auto sorted = [](std::vector<uint32_t> list) {
      std::ranges::sort(list);
      return list;
    };
    EXPECT_EQ(sorted(same[head].tokens), sorted(by_all[head].tokens));
    std::vector<std::pair<float, uint32_t>> ranked;
    for (size_t i = 0; i < selected[head].tokens.size(); ++i) {
      ranked.emplace_back(-selected[head].scores[i], selected[head].tokens[i]);
    }
    ASSERT_GT(ranked.size(), 1000u);
    std::ranges::sort(ranked);
    std::vector<uint32_t> expected;
    for (size_t i = 0; i < 60; ++i) expected.push_back(ranked[i].second);
    EXPECT_EQ(sorted(best[head].tokens), sorted(expected));
  }
  EXPECT_LT(Difference(ProbeWith(&session, "dipr(beta=3,index=mine)"),
                       ProbeWith(&session, "dipr(beta=3)")),
            1.0);
}

TEST_F(SessionCustomTest, ThePlansValuesReachIt) {
  const Tokens tokens = StoreChain("a", std::vector<uint64_t>{2100}, 1);
  Session session = Resume(tokens, 20);
  std::vector<double> values;
  bool is_query = false;
  uint32_t k = 0;
  index_->select = [&](const CustomQuery& query, Selections selections) {
    values.assign(query.values.begin(), query.values.end());
    is_query = query.is_query;
    k = query.k;
    return SelectAll(query, selections);
  };
  (void)Answer(&session, "mine(share=0.25)");
  EXPECT_THAT(values, ::testing::ElementsAre(4, 0.25));
  EXPECT_TRUE(is_query);
  EXPECT_EQ(session.Explain().plan, "mine(share=0.25,sink=16,window=128)");
  (void)Answer(&session, "topk(k=9,index=mine,pages=7)");
  EXPECT_THAT(values, ::testing::ElementsAre(7, 0.5));
  EXPECT_FALSE(is_query);
  EXPECT_EQ(k, 9u);
}

TEST_F(SessionCustomTest, MistakesInPlansAreToldWithTheirColumn) {
  Session session = NewSession();
  const auto fails = [&](const std::string& plan, StatusCode code, const std::string& text) {
    EXPECT_THAT(session.SetPlan(plan), FailsWith(code, HasSubstr(text))) << plan;
  };
  fails("mine(pages=0)", StatusCode::kInvalidArgument,
        "column 12: expected a whole number from 1 to 64");
  fails("mine(pages=65)", StatusCode::kInvalidArgument, "whole number from 1 to 64");
  fails("mine(share=2)", StatusCode::kInvalidArgument,
        "column 12: share must be a number from 0 to 1");
  fails("mine(k=3)", StatusCode::kInvalidArgument, "unknown key 'k' of this query");
  fails("mine(index=flat)", StatusCode::kInvalidArgument, "unknown key 'index'");
  fails("mine(remainder=mean)", StatusCode::kInvalidArgument, "remainder=drop");
  fails("mass(p=0.9,index=mine)", StatusCode::kUnsupported, "needs the scores of all");
  fails("auto(error=0.1,index=mine)", StatusCode::kUnsupported, "needs the scores of all");
  fails("other", StatusCode::kInvalidArgument, "mine");
}

TEST_F(SessionCustomTest, AWrongSelectionFailsTheCallAndTheSessionGoesOn) {
  const Tokens tokens = StoreChain("a", std::vector<uint64_t>{2100}, 1);
  Session session = Resume(tokens, 20);
  const std::vector<float> full = ProbeWith(&session, "full");
  (void)Answer(&session, "mine");
  const auto returns = [](CustomSelection wrong) {
    return [wrong](const CustomQuery&, Selections selections) {
      selections.back() = wrong;
      return Status::Ok();
    };
  };
  struct Case {
    std::function<Status(const CustomQuery&, Selections)> select;
    std::string text;
  };
  const Case cases[] = {
      {returns({.ranges = {{1, 0, 5}}}), "expected a part below 1, found rows [0, 5) of part 1"},
      {returns({.ranges = {{0, 0, 2101}}}), "expected rows in [0, 2100), found rows [0, 2101)"},
      {returns({.ranges = {{0, ~uint64_t{0}, 5}}}), "begin is before its end"},
      {returns({.ranges = {{0, 9, 9}}}), "expected a range whose begin is before its end"},
      {returns({.ranges = {{0, 9, 8}}}), "found rows [9, 8) of part 0"},
      {returns({.ranges = {{0, 50, 60}, {0, 59, 70}}}), "expected a range after rows [50, 60)"},
      {returns({.ranges = {{0, 50, 60}, {0, 10, 20}}}), "found rows [10, 20)"},
      {returns({.rest_lse = kNan}), "expected rest_lse finite or -inf, found"},
      {returns({.rest_lse = kInf}), "expected rest_lse finite or -inf, found inf"},
      {returns({.rest_lse = 0}), "elements, found 0"},
      {returns({.rest_lse = 0, .rest_value = std::vector<float>(3)}), "elements, found 3"},
      {[](const CustomQuery& query, Selections selections) {
         selections[0].rest_lse = 0;
         selections[0].rest_value.assign(query.v_head_dim, kNan);
         return Status::Ok();
       },
       "expected a finite rest_value"},
      {[](const CustomQuery&, Selections) -> Status { throw std::runtime_error("no luck"); },
       "no luck"},
      {[](const CustomQuery&, Selections) -> Status { throw 3; }, "threw what is no"},
      {[](const CustomQuery&, Selections) { return Status::Corruption("a bad page"); },
       "a bad page"}};
  for (const Case& wrong : cases) {
    index_->select = wrong.select;
    ATTNDB_ASSERT_OK(session.SetPlan("mine"));
    EXPECT_THAT(AttendOnce(&session),
                FailsWith(StatusCode::kInvalidArgument,
                          AllOf(HasSubstr("custom index 'mine', layer 0, kv head 0"),
                                HasSubstr(wrong.text))));
    ATTNDB_ASSERT_OK(session.Crop(session.num_tokens()));
    EXPECT_EQ(ProbeWith(&session, "full"), full);
  }
  index_->select = [](const CustomQuery&, Selections) -> Status { throw std::bad_alloc(); };
  ATTNDB_ASSERT_OK(session.SetPlan("mine"));
  EXPECT_EQ(AttendOnce(&session).code(), StatusCode::kResourceExhausted);
  ATTNDB_ASSERT_OK(session.Crop(session.num_tokens()));
  index_->select = SelectAll;
  EXPECT_LT(Difference(ProbeWith(&session, "mine"), full), 1e-5);
  ATTNDB_EXPECT_OK(db_->Verify().status());  // A type's kCorruption says nothing of the store.
}

TEST_F(SessionCustomTest, WhileAnObjectIsMissingItsRowsAreReadExactly) {
  const Tokens tokens = StoreChain("a", std::vector<uint64_t>{2100}, 1);
  const std::vector<float> full = FullAnswer(tokens);
  const std::function<Result<CustomObjectPtr>(const CustomRows&)> builds[] = {
      [](const CustomRows&) -> Result<CustomObjectPtr> { throw std::runtime_error("no luck"); },
      [](const CustomRows&) -> Result<CustomObjectPtr> { return CustomObjectPtr(); },
      [](const CustomRows&) -> Result<CustomObjectPtr> { return Status::Corruption("no luck"); }};
  for (const auto& build : builds) {
    OpenWith({});
    index_->build = build;
    Session session = Resume(tokens, 20);
    ATTNDB_ASSERT_OK(session.SetPlan("mine"));
    EXPECT_THAT(session.AwaitDerived(0),
                FailsWith(StatusCode::kInvalidArgument,
                          HasSubstr("custom index 'mine', layer 0, kv head 0, 2100 rows")));
    EXPECT_LT(Difference(Probe(&session), full), 1e-5);
    EXPECT_EQ(index_->num_selected, 0);
    EXPECT_FALSE(session.AwaitDerived(0).ok()) << "asked again, it has forgotten what failed";
  }
}

// The reported size is reserved: there is no room for this.
TEST_F(SessionCustomTest, AnObjectThatIsTooLargeIsNotKept) {
  const Tokens tokens = StoreChain("a", std::vector<uint64_t>{2100}, 1);
  index_->build = [](const CustomRows&) -> Result<CustomObjectPtr> {
    auto kept = std::make_shared<KeptRows>();
    kept->bytes = ~uint64_t{0} / 2;
    return CustomObjectPtr(std::move(kept));
  };
  Session session = Resume(tokens, 20);
  EXPECT_LT(Difference(Answer(&session, "mine"), ProbeWith(&session, "full")), 1e-5);
  EXPECT_GT(index_->num_built, 0);
  EXPECT_EQ(index_->num_selected, 0);
}

// It selects all rows: those that are hidden are left out.
TEST_F(SessionCustomTest, HiddenTokensAreNeitherShownNorAttendedTo) {
  const Tokens tokens = StoreChain("a", std::vector<uint64_t>{2100, 900}, 1);
  Session session = Resume(tokens, 20);
  uint64_t num_shown = 0;
  index_->select = [&](const CustomQuery& query, Selections selections) {
    num_shown = 0;
    for (const CustomPart& part : query.parts) {
      EXPECT_LT(part.visible.begin, part.visible.end);
      EXPECT_LE(part.visible.end, part.num_rows);
      num_shown += part.visible.end - part.visible.begin;
    }
    return SelectAll(query, selections);
  };
  (void)Answer(&session, "mine");
  EXPECT_EQ(num_shown, 3020u - 16 - 128);
  ATTNDB_ASSERT_OK(session.SetFilter(std::vector<TokenRange>{{0, 100}, {300, 500}, {2000, 2500}}));
  EXPECT_LT(Difference(ProbeWith(&session, "mine"), ProbeWith(&session, "full")), 1e-5);
  EXPECT_EQ(num_shown, 800u - 16 - 128);
  ATTNDB_ASSERT_OK(session.SetFilter({}));
  SessionStart prefix = Start(Concat(std::span(tokens).first(1000), ToyModel::Tokens(5, 3)));
  ASSERT_EQ(prefix.session.num_reused(), 1000u);
  ATTNDB_ASSERT_OK(model_.Step(&prefix.session, prefix.rest));
  EXPECT_LT(Difference(Answer(&prefix.session, "mine"), ProbeWith(&prefix.session, "full")), 1e-5);
  EXPECT_EQ(num_shown, 1005u - 16 - 128);
}

TEST_F(SessionCustomTest, WholeBlocksOfATailAreExtensions) {
  Session session = NewSession("mine");
  ATTNDB_ASSERT_OK(model_.Step(&session, ToyModel::Tokens(4500, 1)));
  index_->select = SelectWithExactRest;
  const std::vector<float> found = Answer(&session, "mine");
  EXPECT_GT(index_->num_extended, 0);
  EXPECT_EQ(index_->num_extended, index_->num_built);
  EXPECT_EQ(index_->num_queries, 0u);
  EXPECT_GT(index_->num_selected, 0);
  EXPECT_LT(Difference(found, ProbeWith(&session, "full")), 1e-4);
}

// The type sees only the tokens that stayed at their places in a session that dropped its oldest
// tokens. Tokens kept in front have moved under RoPE, by as much as q would have to be turned, and
// are read exactly.
TEST_F(SessionCustomTest, WhatHasLeftOrMovedIsNotShown) {
  const Tokens tokens = StoreChain("a", std::vector<uint64_t>{3000, 1100, 100}, 1);
  Session session = Resume(tokens, 20);
  const std::vector<float> whole = ProbeWith(&session, "full");
  ATTNDB_ASSERT_OK(session.DropOldest(1500, {.keep_first = 40, .keep = {{1000, 1200}}}));
  ASSERT_EQ(session.cuts().at(0).dropped, (std::vector<TokenRange>{{40, 1000}, {1200, 1740}}));
  uint64_t num_shown = 0;
  const auto count = [&](const CustomQuery& query) {
    num_shown = 0;
    for (const CustomPart& part : query.parts) {
      num_shown += part.visible.end - part.visible.begin;
    }
  };
  index_->select = [&](const CustomQuery& query, Selections selections) {
    count(query);
    return SelectWithExactRest(query, selections);
  };
  const std::vector<float> full = ProbeWith(&session, "full");
  EXPECT_GT(Difference(full, whole), 0.01) << "nothing has left";
  EXPECT_LT(Difference(Answer(&session, "mine"), full), 1e-4);
  EXPECT_EQ(num_shown, 4220u - 1740 - 128);
  index_->select = SelectAll;
  EXPECT_LT(Difference(Answer(&session, "mine"), full), 1e-5);
  const std::vector<float> best = Answer(&session, "topk(k=60)");
  EXPECT_LT(Difference(Answer(&session, "topk(k=60,index=mine)"), best), 1e-5);
}

TEST_F(SessionCustomTest, BlocksOfATailThatHasLostTokensAreShownAsTheyStay) {
  Session session = NewSession("mine");
  ATTNDB_ASSERT_OK(model_.Step(&session, ToyModel::Tokens(9000, 1)));
  ATTNDB_ASSERT_OK(session.DropOldest(3000, {.keep_first = 4}));
  index_->select = SelectWithExactRest;
  const std::vector<float> found = Answer(&session, "mine");
  EXPECT_GT(index_->num_selected, 0);
  EXPECT_LT(Difference(found, ProbeWith(&session, "full")), 1e-4);
}

TEST_F(SessionCustomTest, SessionsOfSeveralThreadsShareIt) {
  OpenWith({.num_threads = 3});
  const Tokens tokens = ToyModel::Tokens(2100, 1);
  ATTNDB_ASSERT_OK(StoreTokens(tokens).status());
  index_->select = SelectOddPages;
  Session first = Resume(tokens, 20);
  const std::vector<float> expected = Answer(&first, "mine");
  EXPECT_GT(index_->num_queries, 0u);
  std::vector<std::vector<float>> found(3);
  std::vector<Session> sessions;
  for (size_t i = 0; i < found.size(); ++i) sessions.push_back(Resume(tokens, 20));
  std::vector<std::thread> threads;
  for (size_t i = 0; i < found.size(); ++i) {
    threads.emplace_back([&, i] {
      for (int round = 0; round < 5; ++round) found[i] = ProbeWith(&sessions[i], "mine");
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::vector<float>& of_thread : found) EXPECT_EQ(of_thread, expected);
}

TEST_F(SessionCustomTest, ExplainHasItsNameAndWhatItSelected) {
  const Tokens tokens = StoreChain("a", std::vector<uint64_t>{2100}, 1);
  Session session = Resume(tokens, 20);
  index_->select = SelectOddPages;
  (void)Answer(&session, "mine(pages=3)");
  ATTNDB_ASSERT_OK_AND_ASSIGN(const LayerExplain explain, session.Explain(1));
  const HeadExplain& head = explain.heads[0];
  EXPECT_EQ(head.plan, "mine(pages=3,sink=16,window=128)");
  EXPECT_GT(head.selected_mean, 900);
  EXPECT_LT(head.selected_mean, 1100);
  EXPECT_EQ(head.visited_mean, head.selected_mean);
  EXPECT_GT(head.bytes_touched, 0u);
}

}  // namespace
}  // namespace attndb
