// Goal:   a session over several contexts attends to the stored tokens of all of them, by every
//         plan and for any number of threads. New tokens follow the longest context. Unsupported
//         calls of such a session are refused by name.
// Method: toy model; attention in float64 over the contexts' K and V laid one behind the other; the
//         same plan on a session to which these rows were appended.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "api/db_test_util.h"
#include "attndb/context_name.h"

namespace attndb {
namespace {

using test::Concat;
using test::DBFixture;
using test::FailsWith;
using test::Tokens;
using test::ToyModel;
using test::ViewOf;
using ::testing::HasSubstr;

using Names = std::vector<std::string>;

// Tokens that stand at consecutive positions, in the order of the session.
struct Piece {
  Tokens tokens;
  uint64_t position = 0;
};

class SessionOverTest : public DBFixture {
 protected:
  SessionOverTest() : DBFixture(/*background_builds=*/true) {}

  Session Over(const Names& names, const std::string& plan = "full") {
    Result<Session> session = db_->CreateSessionOver(model_.spec(), names, {.plan = plan});
    EXPECT_THAT(session, test::IsOk());
    return *std::move(session);
  }

  std::vector<float> RowsOf(bool keys, LayerId layer, const std::vector<Piece>& runs) const {
    std::vector<float> rows;
    for (const Piece& run : runs) {
      const std::vector<float> more = keys ? model_.Keys(layer, run.tokens, run.position)
                                           : model_.Values(layer, run.tokens, run.position);
      rows.insert(rows.end(), more.begin(), more.end());
    }
    return rows;
  }

  Status Append(Session* session, const std::vector<Piece>& runs) {
    for (LayerId layer = 0; layer < model_.spec().num_layers(); ++layer) {
      const LayerSpec& spec = model_.spec().layers[layer];
      const std::vector<float> k = RowsOf(true, layer, runs);
      const std::vector<float> v = RowsOf(false, layer, runs);
      ATTNDB_RETURN_IF_ERROR(session->Append(layer, ViewOf(k, spec.num_kv_heads, spec.head_dim),
                                             ViewOf(v, spec.num_kv_heads, spec.v_head_dim)));
    }
    return Status::Ok();
  }

  // The output of the newest token in all layers, with q of that position.
  std::vector<float> ProbeAt(Session* session, uint64_t position) {
    std::vector<float> out;
    ATTNDB_EXPECT_OK(model_.ProbeAt(session, 7, position, &out));
    return out;
  }

  // The same in float64, over these rows.
  std::vector<double> Expected(const std::vector<Piece>& runs, uint64_t position) const {
    std::vector<double> out;
    const TokenId probe = 7;
    for (LayerId layer = 0; layer < model_.spec().num_layers(); ++layer) {
      const LayerSpec& spec = model_.spec().layers[layer];
      const std::vector<float> k = RowsOf(true, layer, runs);
      const std::vector<double> of_layer = test::OracleAttend(
          spec, k, RowsOf(false, layer, runs), model_.Queries(layer, {&probe, 1}, position),
          k.size() / (size_t{spec.num_kv_heads} * spec.head_dim));
      out.insert(out.end(), of_layer.begin(), of_layer.end());
    }
    return out;
  }

  static Tokens Part(const Tokens& tokens, size_t begin, size_t end) {
    return {tokens.begin() + static_cast<ptrdiff_t>(begin),
            tokens.begin() + static_cast<ptrdiff_t>(end)};
  }
};

TEST_F(SessionOverTest, AttendsToAllContextsAtTheirOwnPositions) {
  const Tokens a = StoreChain("a", std::vector<uint64_t>{300, 40}, 1);
  const Tokens b = StoreChain("b", std::vector<uint64_t>{700}, 11);
  const Tokens c = StoreChain("c", std::vector<uint64_t>{5}, 21);
  Session session = Over({"a", "b", "c"});
  EXPECT_EQ(session.num_tokens(), 1045u);
  EXPECT_EQ(session.num_reused(), 1045u);
  EXPECT_EQ(session.next_position(), 700);
  EXPECT_EQ(session.context_id(), ContextId::kNone);
  std::vector<Piece> runs = {{a, 0}, {b, 0}, {c, 0}};
  EXPECT_LT(OutputError(model_, ProbeAt(&session, 699), Expected(runs, 699)), 1e-3);

  const Tokens more = ToyModel::Tokens(80, 5);
  ATTNDB_ASSERT_OK(Append(&session, {{more, 700}}));
  runs.push_back({more, 700});
  EXPECT_EQ(session.next_position(), 780);
  EXPECT_LT(OutputError(model_, ProbeAt(&session, 779), Expected(runs, 779)), 1e-3);
  const std::vector<Piece> without_c = {{a, 0}, {b, 0}, {more, 700}};
  EXPECT_GT(OutputError(model_, ProbeAt(&session, 779), Expected(without_c, 779)), 1e-3);
  // Every order gives the same.
  Session other = Over({"c", "b", "a"});
  ATTNDB_ASSERT_OK(Append(&other, {{more, 700}}));
  EXPECT_LT(OutputError(model_, ProbeAt(&other, 779), Expected(runs, 779)), 1e-3);
}

// Rows of a prefill see all contexts, and one another up to themselves.
TEST_F(SessionOverTest, RowsOfAPromptAreCausal) {
  const Tokens a = StoreChain("a", std::vector<uint64_t>{300}, 1);
  const Tokens b = StoreChain("b", std::vector<uint64_t>{900}, 11);
  Session session = Over({"a", "b"});
  const Tokens more = ToyModel::Tokens(100, 5);
  ATTNDB_ASSERT_OK(Append(&session, {{more, 900}}));
  const LayerSpec& spec = model_.spec().layers[1];
  const std::vector<float> q = model_.Queries(1, more, 900);
  std::vector<float> out(more.size() * spec.num_q_heads * spec.v_head_dim);
  ATTNDB_ASSERT_OK(session.Attend(
      1, ViewOf(q, spec.num_q_heads, spec.head_dim),
      MutableTensorView::Contiguous(out.data(), DType::kFloat32, static_cast<int64_t>(more.size()),
                                    spec.num_q_heads, spec.v_head_dim)));
  const size_t row = size_t{spec.num_q_heads} * spec.v_head_dim;
  for (const size_t i : {size_t{0}, size_t{1}, size_t{63}, size_t{99}}) {
    const std::vector<Piece> seen = {{a, 0}, {b, 0}, {Part(more, 0, i + 1), 900}};
    const std::vector<float> k = RowsOf(true, 1, seen);
    const std::vector<double> expected = test::OracleAttend(
        spec, k, RowsOf(false, 1, seen), model_.Queries(1, {&more[i], 1}, 900 + i), 1200 + i + 1);
    for (size_t d = 0; d < row; ++d) EXPECT_NEAR(out[i * row + d], expected[d], 2e-3) << i;
  }
}

TEST_F(SessionOverTest, SharedBeginningsAreHeldOnce) {
  const Tokens prefix = ToyModel::Tokens(64, 77);
  const Tokens a = Concat(prefix, ToyModel::Tokens(200, 1));
  const Tokens b = Concat(prefix, ToyModel::Tokens(500, 2));
  const Tokens c = Concat(Part(a, 0, 150), ToyModel::Tokens(30, 3));
  const Tokens d = Part(b, 0, 100);
  // b is stored whole and c upon a's segment, so that runs begin inside segments.
  ATTNDB_ASSERT_OK(StoreTokens(a, {.name = "a"}));
  const test::KvArrays rows_of_b(model_, b);
  ATTNDB_ASSERT_OK(db_->Import(model_.spec(), b, rows_of_b.layers(), {.name = "b"}));
  ATTNDB_ASSERT_OK(StoreTokens(c, {.name = "c"}));
  ATTNDB_ASSERT_OK(StoreTokens(d, {.name = "d"}));
  Session session = Over({"a", "b", "c", "d"});
  const std::vector<SessionContext>& contexts = session.contexts();
  ASSERT_EQ(contexts.size(), 4u);
  EXPECT_EQ(contexts[0].tokens, (TokenRange{0, 264}));
  EXPECT_EQ(contexts[1].tokens, (TokenRange{264, 764}));
  EXPECT_EQ(contexts[1].first_token, 64u);
  EXPECT_EQ(contexts[2].tokens, (TokenRange{764, 794}));
  EXPECT_EQ(contexts[2].first_token, 150u);
  EXPECT_EQ(contexts[3].tokens, (TokenRange{794, 794})) << "all of it is b's, too";
  EXPECT_EQ(contexts[2].name, "c");
  EXPECT_EQ(session.next_position(), 564);
  const std::vector<Piece> runs = {{a, 0}, {Part(b, 64, 564), 64}, {Part(c, 150, 180), 150}};
  EXPECT_LT(OutputError(model_, ProbeAt(&session, 563), Expected(runs, 563)), 1e-3);

  // ReadKv reads the rows of the session's tokens.
  const LayerSpec& spec = model_.spec().layers[0];
  std::vector<float> k(size_t{40} * spec.num_kv_heads * spec.head_dim);
  ATTNDB_ASSERT_OK(session.ReadKv(0, {750, 790},
                                  MutableTensorView::Contiguous(k.data(), DType::kFloat32, 40,
                                                                spec.num_kv_heads, spec.head_dim),
                                  {}));
  const std::vector<float> all = RowsOf(true, 0, runs);
  const size_t row = size_t{spec.num_kv_heads} * spec.head_dim;
  for (size_t i = 0; i < k.size(); ++i) EXPECT_NEAR(k[i], all[750 * row + i], 2e-3) << i;
}

TEST_F(SessionOverTest, PlansChooseAmongAllContextsByTwoThreads) {
  Open({.num_threads = 2, .measure_machine = false});
  const Tokens prefix = ToyModel::Tokens(100, 77);
  const Tokens a = Concat(prefix, ToyModel::Tokens(4500, 1));
  const Tokens b = Concat(prefix, ToyModel::Tokens(5000, 2));
  const Tokens c = ToyModel::Tokens(300, 3);
  const std::vector<std::pair<std::string, Tokens>> kNamed = {{"a", a}, {"b", b}, {"c", c}};
  for (const auto& [name, tokens] : kNamed) {
    const test::KvArrays rows(model_, tokens);
    ATTNDB_ASSERT_OK(db_->Import(model_.spec(), tokens, rows.layers(), {.name = name}));
  }
  const Tokens more = ToyModel::Tokens(20, 5);
  const std::vector<Piece> runs = {{a, 0}, {Part(b, 100, 5100), 100}, {c, 0}, {more, 5100}};
  Session session = Over({"a", "b", "c"});
  ATTNDB_ASSERT_OK(Append(&session, {{more, 5100}}));
  Session whole = NewSession();
  ATTNDB_ASSERT_OK(Append(&whole, runs));
  const std::vector<double> exact = Expected(runs, 5119);
  EXPECT_LT(OutputError(model_, ProbeAt(&whole, 5119), exact), 2e-3);
  struct Case {
    const char* plan;
    const char* same_as;  // Plan of the session with one tail that gives the same; null: full.
    double tolerance;
  };
  const Case kCases[] = {
      {"full", nullptr, 1e-3},
      {"topk(k=60)", "topk(k=60)", 1e-5},
      {"dipr(alpha=0.02)", "dipr(alpha=0.02)", 1e-5},
      {"mass(p=0.9)", "mass(p=0.9)", 1e-5},
      {"topk(k=60,bits=8)", "topk(k=60)", 0.05},
      {"topk(k=60,index=clustered,effort=100)", "topk(k=60)", 0.05},
      {"topk(k=60,index=graph,beam_width=6000)", "topk(k=60)", 0.05},
      {"topk(k=60,index=pq,m=16,b=8,effort=60)", "topk(k=60)", 0.05},
      {"topk(k=60,index=quest,effort=1000)", "topk(k=60)", 0.05},
      {"topk(k=60,index=wave,effort=1000,remainder=drop)", "topk(k=60)", 0.05},
      {"dipr(alpha=0.02,index=graph,beam_width=6000)", "dipr(alpha=0.02)", 0.05},
      {"auto(error=0.05)", nullptr, 0.15},
      {"auto(error=0.05,index=clustered)", nullptr, 0.15},
  };
  for (const Case& test : kCases) {
    ATTNDB_ASSERT_OK(session.SetPlan(test.plan));
    (void)ProbeAt(&session, 5119);
    ATTNDB_ASSERT_OK(db_->WaitForBackground());
    const std::vector<float> out = ProbeAt(&session, 5119);
    if (test.same_as == nullptr) {
      EXPECT_LT(OutputError(model_, out, exact), test.tolerance) << test.plan;
      continue;
    }
    ATTNDB_ASSERT_OK(whole.SetPlan(test.same_as));
    EXPECT_LT(Difference(out, ProbeAt(&whole, 5119)), test.tolerance) << test.plan;
  }
}

TEST_F(SessionOverTest, SearchFilterForkCropAndResetKeepToTheSessionsTokens) {
  const Tokens prefix = ToyModel::Tokens(64, 77);
  const Tokens a = Concat(prefix, ToyModel::Tokens(300, 1));
  const Tokens b = Concat(prefix, ToyModel::Tokens(500, 2));
  ATTNDB_ASSERT_OK(StoreTokens(a, {.name = "a"}));
  ATTNDB_ASSERT_OK(StoreTokens(b, {.name = "b"}));
  Session session = Over({"a", "b"});
  const Tokens more = ToyModel::Tokens(20, 5);
  ATTNDB_ASSERT_OK(Append(&session, {{more, 564}}));

  // Search names tokens of the session.
  ATTNDB_ASSERT_OK(session.SetPlan("topk(k=40,sink=2,window=5)"));
  const LayerSpec& spec = model_.spec().layers[0];
  const TokenId probe = 7;
  const std::vector<float> q = model_.Queries(0, {&probe, 1}, 583);
  ATTNDB_ASSERT_OK_AND_ASSIGN(const auto found,
                              session.Search(0, ViewOf(q, spec.num_q_heads, spec.head_dim)));
  const std::vector<float> keys = RowsOf(true, 0, {{a, 0}, {Part(b, 64, 564), 64}, {more, 564}});
  for (uint32_t head = 0; head < spec.num_q_heads; ++head) {
    ASSERT_EQ(found[head].tokens.size(), 40u);
    for (size_t i = 0; i < found[head].tokens.size(); ++i) {
      const size_t token = found[head].tokens[i];
      double score = 0;
      for (uint32_t d = 0; d < spec.head_dim; ++d) {
        const uint32_t kv_head = head / spec.group_size();
        score += double{q[head * spec.head_dim + d]} *
                 double{keys[(token * spec.num_kv_heads + kv_head) * spec.head_dim + d]};
      }
      EXPECT_NEAR(found[head].scores[i], score, 0.02 * std::abs(score) + 0.02) << token;
    }
  }

  // A filter that leaves one context leaves that context.
  ATTNDB_ASSERT_OK(session.SetPlan("full"));
  const std::vector<TokenRange> kRanges = {{0, 64}, session.contexts()[1].tokens, {864, 884}};
  ATTNDB_ASSERT_OK(session.SetFilter(kRanges));
  const std::vector<Piece> only_b = {{b, 0}, {more, 564}};
  EXPECT_LT(OutputError(model_, ProbeAt(&session, 583), Expected(only_b, 583)), 2e-3);
  ATTNDB_ASSERT_OK(session.SetFilter({}));

  // A fork goes on by itself, also after the first is gone.
  ATTNDB_ASSERT_OK_AND_ASSIGN(Session fork, session.Fork());
  EXPECT_EQ(fork.contexts().size(), 2u);
  EXPECT_EQ(fork.next_position(), 584);
  EXPECT_EQ(ProbeAt(&fork, 583), ProbeAt(&session, 583));

  // Crop removes appended tokens, but none of a context.
  ATTNDB_ASSERT_OK(session.Crop(870));
  EXPECT_EQ(session.next_position(), 570);
  EXPECT_THAT(session.Crop(863),
              FailsWith(StatusCode::kFailedPrecondition, HasSubstr("2 whole contexts of 864")));
  ATTNDB_ASSERT_OK(session.Crop(864));
  session.Reset();
  EXPECT_TRUE(session.contexts().empty());
  EXPECT_EQ(session.next_position(), 0);
  ATTNDB_ASSERT_OK(model_.Step(&session, Tokens{1, 2, 3}));
  ExpectOracle(&session, Tokens{1, 2, 3});
  EXPECT_EQ(fork.num_tokens(), 884u);
}

TEST_F(SessionOverTest, ExplainNamesTheContexts) {
  ATTNDB_ASSERT_OK(StoreTokens(ToyModel::Tokens(300, 1), {.name = "a"}));
  ATTNDB_ASSERT_OK_AND_ASSIGN(const ContextId id, StoreTokens(ToyModel::Tokens(500, 2)));
  Session session = Over({"a", IdName(id)});
  const Explain explain = session.Explain();
  ASSERT_EQ(explain.contexts.size(), 2u);
  EXPECT_THAT(explain.ToText(), HasSubstr("'a' at [0, 300), from its token 0 on"));
  EXPECT_THAT(explain.ToText(), HasSubstr("'#2' at [300, 800)"));
  EXPECT_THAT(explain.ToJson(), HasSubstr(R"({"id":2,"name":"#2","begin":300,"end":800,)"));
  EXPECT_EQ(explain.num_tokens, 800u);
}

TEST_F(SessionOverTest, WhatSawSeveralContextsIsNotStored) {
  const Tokens a = ToyModel::Tokens(300, 1);
  ATTNDB_ASSERT_OK(StoreTokens(a, {.name = "a"}));
  ATTNDB_ASSERT_OK(StoreTokens(ToyModel::Tokens(500, 2), {.name = "b"}));
  Session session = Over({"a", "b"});
  const Tokens both = Concat(a, ToyModel::Tokens(500, 2));
  EXPECT_THAT(db_->Store(session, both, {.name = "both"}),
              FailsWith(StatusCode::kFailedPrecondition, HasSubstr("over 2 contexts")));
  EXPECT_EQ(db_->List()->size(), 2u);
  EXPECT_THAT(session.DropOldest(1),
              FailsWith(StatusCode::kFailedPrecondition, HasSubstr("not one prompt")));
  EXPECT_THAT(session.HeaviestTokens({0, 100}, 16),
              FailsWith(StatusCode::kFailedPrecondition, HasSubstr("not one prompt")));
  // One name is continued and stored as ever.
  Session one = Over({"a"});
  EXPECT_TRUE(one.contexts().empty());
  ATTNDB_ASSERT_OK(model_.Step(&one, Tokens{5, 6}));
  ATTNDB_ASSERT_OK(db_->Store(one, Concat(a, Tokens{5, 6}), {.name = "longer"}));
  ExpectAnswers(Concat(a, Tokens{5, 6, 7}), 302);
}

TEST_F(SessionOverTest, BadRequestsAreNamed) {
  ATTNDB_ASSERT_OK(StoreTokens(ToyModel::Tokens(300, 1), {.name = "a"}));
  ATTNDB_ASSERT_OK(StoreTokens(ToyModel::Tokens(500, 2), {.name = "b"}));
  const ModelSpec& spec = model_.spec();
  const auto over = [&](const ModelSpec& of, const Names& names, const SessionOptions& options) {
    return db_->CreateSessionOver(of, names, options).status();
  };
  EXPECT_THAT(over(spec, {}, {}), FailsWith(StatusCode::kInvalidArgument, HasSubstr("0 contexts")));
  EXPECT_THAT(over(spec, Names(1025, "a"), {}),
              FailsWith(StatusCode::kInvalidArgument, HasSubstr("expected 1 to 1,024")));
  EXPECT_THAT(over(spec, {"a", "b", "#1"}, {}),
              FailsWith(StatusCode::kInvalidArgument, HasSubstr("'a' is named twice")));
  EXPECT_THAT(over(spec, {"a", "z"}, {}), FailsWith(StatusCode::kNotFound, HasSubstr("\"z\"")));
  EXPECT_THAT(over(spec, {"a", "b"}, {.context = "a"}),
              FailsWith(StatusCode::kInvalidArgument, HasSubstr("no options.context")));
  EXPECT_THAT(over(spec, {"a", "b"}, {.reuse = false}),
              FailsWith(StatusCode::kInvalidArgument, HasSubstr("options.reuse")));
  EXPECT_THAT(over(spec, {"a", "b"}, {.plan = "topk(k=0)"}).code(),
              ::testing::Eq(StatusCode::kInvalidArgument));
  EXPECT_THAT(over(spec, {"a", "b"}, {.first_position = 5}),
              FailsWith(StatusCode::kFailedPrecondition, HasSubstr("begins at position 0")));
  ModelSpec other = spec;
  other.fingerprint = "other";
  EXPECT_THAT(over(other, {"a", "b"}, {}),
              FailsWith(StatusCode::kOtherModel, HasSubstr("of another model")));
  other = spec;
  other.kv_dtype = DType::kFloat32;
  EXPECT_THAT(over(other, {"a", "b"}, {}),
              FailsWith(StatusCode::kOtherModel, HasSubstr("kv_dtype float16")));
  other = spec;
  other.layers[1].sliding_window = 64;
  EXPECT_THAT(over(other, {"a", "b"}, {}),
              FailsWith(StatusCode::kUnsupported, HasSubstr("layer 1 has a sliding window")));
  ATTNDB_ASSERT_OK_AND_ASSIGN(const DB tenant, db_->ForTenant("else"));
  EXPECT_THAT(tenant.CreateSessionOver(spec, Names{"a", "b"}),
              FailsWith(StatusCode::kNotFound, HasSubstr("\"a\"")));
  EXPECT_EQ(db_->Stats()->num_sessions, 0u);
}

TEST_F(SessionOverTest, ContextsThatAreReadAreNotEvicted) {
  for (uint64_t i = 0; i < 3; ++i) {
    ATTNDB_ASSERT_OK(StoreTokens(ToyModel::Tokens(300, i), {.name = std::string(1, "abc"[i])}));
  }
  ATTNDB_ASSERT_OK(db_->WaitForBackground());
  ATTNDB_ASSERT_OK(db_->SetQuota(db_->Stats()->file_bytes));
  std::optional<Session> session = Over({"a", "b"});
  ATTNDB_ASSERT_OK_AND_ASSIGN(std::optional<Session> fork, session->Fork());
  session.reset();
  ATTNDB_ASSERT_OK(StoreTokens(ToyModel::Tokens(300, 7), {.name = "d"}));
  EXPECT_THAT(db_->Describe("c"), FailsWith(StatusCode::kNotFound, HasSubstr("c")));
  ATTNDB_EXPECT_OK(db_->Describe("a"));
  ATTNDB_EXPECT_OK(db_->Describe("b"));
  // A context that is dropped stays readable for the session.
  ATTNDB_ASSERT_OK(db_->Drop("a"));
  const std::vector<Piece> runs = {{ToyModel::Tokens(300, 0), 0}, {ToyModel::Tokens(300, 1), 0}};
  EXPECT_LT(OutputError(model_, ProbeAt(&*fork, 299), Expected(runs, 299)), 1e-3);
  fork.reset();
  ATTNDB_ASSERT_OK(StoreTokens(ToyModel::Tokens(600, 8), {.name = "e"}));
  EXPECT_THAT(db_->Describe("b"), FailsWith(StatusCode::kNotFound, HasSubstr("b")));
}

}  // namespace
}  // namespace attndb
