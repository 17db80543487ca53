// Goal:   the model computes the same through attndb as through plain llama.cpp, at every position,
//         whatever way the tokens took: ubatches, stored prefixes, batches, crops, forks.
// Method: tiny random float32 models with float32 KV; all logits against plain llama.cpp without
//         flash attention. Both variants of the hook.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <tuple>

#include "attndb/db.h"
#include "engines/llama/engine_test_util.h"
#include "engines/llama/llama_engine.h"
#include "testing/matchers.h"
#include "testing/seed.h"
#include "testing/temp_dir.h"

namespace attndb::llama {
namespace {

class EngineAgreementTest : public ::testing::TestWithParam<std::tuple<std::string, HookVariant>> {
 protected:
  void SetUp() override {
    const auto& [kind, variant] = GetParam();
    // ggml computes GELU, which Gemma uses, through a table of float16: the least difference in an
    // activation flips roundings there, with or without attndb.
    tolerance_ = kind.starts_with("gemma") ? 4e-3 : 1e-4;
    EngineOptions options = TinyOptions(variant);
    options.cache_dir = directory_.File("cache");
    ATTNDB_ASSERT_OK_AND_ASSIGN(LlamaEngine engine, LlamaEngine::Open(TinyModel(kind), options));
    engine_.emplace(std::move(engine));
    seed_ = ::attndb::test::SeedOr(29);
  }

  LlamaEngine& engine() { return *engine_; }
  std::vector<TokenId> Ids(size_t count, uint64_t salt = 0) {
    return RandomIds(count, seed_ + salt, engine().info().vocab_size);
  }
  Result<DB> OpenStore() { return DB::Open(directory_.File("store")); }
  Result<Session> NewSession(const DB& db, std::span<const TokenId> tokens) {
    ATTNDB_ASSIGN_OR_RETURN(SessionStart start,
                            db.CreateSession(engine().spec(), tokens, {.reuse = false}));
    return std::move(start.session);
  }

  double tolerance_ = 0;
  ::attndb::test::TempDir directory_;
  uint64_t seed_ = 0;

 private:
  std::optional<LlamaEngine> engine_;
};

std::vector<TokenId> Joined(std::vector<TokenId> a, std::span<const TokenId> b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

TEST_P(EngineAgreementTest, EveryPositionAgreesAtUbatchBoundaries) {
  ATTNDB_ASSERT_OK_AND_ASSIGN(const DB db, OpenStore());
  const std::vector<TokenId> ids = Ids(300);
  ATTNDB_ASSERT_OK_AND_ASSIGN(const LogitRows plain, PlainRows(engine(), ids));
  for (const size_t length : {1u, 2u, 63u, 64u, 65u, 300u}) {
    const std::span<const TokenId> prompt(ids.data(), length);
    ATTNDB_ASSERT_OK_AND_ASSIGN(Session session, NewSession(db, prompt));
    ATTNDB_ASSERT_OK_AND_ASSIGN(const LogitRows ours, EngineRows(engine(), session, prompt));
    ASSERT_EQ(ours.size(), length);
    EXPECT_EQ(session.num_tokens(), length);
    EXPECT_LT(LargestDifference(ours, plain), tolerance_) << "prompt of " << length;
    EXPECT_EQ(RowDifference(*engine().Logits(), ours.back()), 0);
  }
}

TEST_P(EngineAgreementTest, ThreadsShareOneAttention) {
  const auto& [kind, variant] = GetParam();
  EngineOptions options = TinyOptions(variant);
  options.cache_dir = directory_.File("cache");
  options.num_threads = 3;
  ATTNDB_ASSERT_OK_AND_ASSIGN(LlamaEngine threaded, LlamaEngine::Open(TinyModel(kind), options));
  ATTNDB_ASSERT_OK_AND_ASSIGN(const DB db, OpenStore());
  const std::vector<TokenId> ids = Ids(80);
  ATTNDB_ASSERT_OK_AND_ASSIGN(const LogitRows plain, PlainRows(engine(), ids));
  ATTNDB_ASSERT_OK_AND_ASSIGN(Session session, NewSession(db, ids));
  ATTNDB_ASSERT_OK_AND_ASSIGN(const LogitRows ours, EngineRows(threaded, session, ids));
  EXPECT_LT(LargestDifference(ours, plain), tolerance_);
}

TEST_P(EngineAgreementTest, TokensDecodedOneByOneAgree) {
  ATTNDB_ASSERT_OK_AND_ASSIGN(const DB db, OpenStore());
  const std::vector<TokenId> ids = Ids(120);
  ATTNDB_ASSERT_OK_AND_ASSIGN(const LogitRows plain, PlainRows(engine(), ids));
  ATTNDB_ASSERT_OK_AND_ASSIGN(Session session, NewSession(db, ids));
  ATTNDB_ASSERT_OK(engine().Prefill(session, std::span(ids).first(70)));
  EXPECT_LT(RowDifference(*engine().Logits(), plain[69]), tolerance_);
  for (size_t i = 70; i < ids.size(); ++i) {
    ATTNDB_ASSERT_OK(engine().Decode(session, ids[i]));
    ASSERT_LT(RowDifference(*engine().Logits(), plain[i]), tolerance_) << "token " << i;
  }
}

TEST_P(EngineAgreementTest, AStoredPrefixGivesTheSameLogitsInAnotherProcessLife) {
  const std::vector<TokenId> ids = Ids(300);
  ATTNDB_ASSERT_OK_AND_ASSIGN(const LogitRows plain, PlainRows(engine(), ids));
  {
    ATTNDB_ASSERT_OK_AND_ASSIGN(const DB db, OpenStore());
    ATTNDB_ASSERT_OK_AND_ASSIGN(Session session, NewSession(db, ids));
    ATTNDB_ASSERT_OK(engine().Prefill(session, std::span(ids).first(200)));
    ATTNDB_ASSERT_OK(db.Store(session, std::span(ids).first(200), {.name = "prefix"}));
    ATTNDB_ASSERT_OK_AND_ASSIGN(const LogitRows ours,
                                EngineRows(engine(), session, std::span(ids).subspan(200)));
    EXPECT_LT(LargestDifference(ours, plain, 200), tolerance_) << "the session that stored";
  }
  ATTNDB_ASSERT_OK_AND_ASSIGN(const DB db, OpenStore());
  ATTNDB_ASSERT_OK_AND_ASSIGN(SessionStart start, db.CreateSession(engine().spec(), ids));
  ASSERT_EQ(start.session.num_reused(), 200u);
  ASSERT_EQ(start.rest.size(), 100u);
  ATTNDB_ASSERT_OK_AND_ASSIGN(const LogitRows ours,
                              EngineRows(engine(), start.session, start.rest));
  EXPECT_LT(LargestDifference(ours, plain, 200), tolerance_) << "a new store handle";
}

TEST_P(EngineAgreementTest, AWhollyStoredPromptRunsItsLastToken) {
  const std::vector<TokenId> ids = Ids(130);
  ATTNDB_ASSERT_OK_AND_ASSIGN(const LogitRows plain, PlainRows(engine(), ids));
  ATTNDB_ASSERT_OK_AND_ASSIGN(const DB db, OpenStore());
  ATTNDB_ASSERT_OK_AND_ASSIGN(Session session, NewSession(db, ids));
  ATTNDB_ASSERT_OK(engine().Prefill(session, ids));
  ATTNDB_ASSERT_OK(db.Store(session, ids));
  ATTNDB_ASSERT_OK_AND_ASSIGN(SessionStart start, db.CreateSession(engine().spec(), ids));
  ASSERT_EQ(start.rest.size(), 1u);
  ATTNDB_ASSERT_OK(engine().Prefill(start.session, start.rest));
  EXPECT_LT(RowDifference(*engine().Logits(), plain.back()), tolerance_);
}

TEST_P(EngineAgreementTest, SessionsOfOneBatchDoNotMix) {
  ATTNDB_ASSERT_OK_AND_ASSIGN(const DB db, OpenStore());
  const std::vector<size_t> begun = {10, 50, 0, 33};  // Tokens before the batch,
  const std::vector<size_t> added = {1, 20, 7, 1};    // and in it.
  std::vector<std::vector<TokenId>> ids;
  std::vector<Session> sessions;
  std::vector<LogitRows> plain;
  for (size_t i = 0; i < begun.size(); ++i) {
    ids.push_back(Ids(begun[i] + added[i] + 1, i));
    ATTNDB_ASSERT_OK_AND_ASSIGN(LogitRows rows, PlainRows(engine(), ids[i]));
    plain.push_back(std::move(rows));
    ATTNDB_ASSERT_OK_AND_ASSIGN(Session session, NewSession(db, ids[i]));
    if (begun[i] > 0) {
      ATTNDB_ASSERT_OK(engine().Prefill(session, std::span(ids[i]).first(begun[i])));
    }
    sessions.push_back(std::move(session));
  }
  std::vector<BatchEntry> batch;
  for (size_t i = 0; i < ids.size(); ++i) {
    batch.push_back({&sessions[i], std::span(ids[i]).subspan(begun[i], added[i])});
  }
  ATTNDB_ASSERT_OK(engine().DecodeBatch(batch));
  for (size_t i = 0; i < ids.size(); ++i) {
    EXPECT_LT(RowDifference(*engine().Logits(i), plain[i][begun[i] + added[i] - 1]), tolerance_)
        << "session " << i;
    batch[i].tokens = std::span(ids[i]).last(1);
  }
  ATTNDB_ASSERT_OK(engine().DecodeBatch(batch));
  for (size_t i = 0; i < ids.size(); ++i) {
    EXPECT_LT(RowDifference(*engine().Logits(i), plain[i].back()), tolerance_) << "session " << i;
  }
}

TEST_P(EngineAgreementTest, ACroppedSessionGoesOnAsIfTheRestHadNeverBeen) {
  ATTNDB_ASSERT_OK_AND_ASSIGN(const DB db, OpenStore());
  const std::vector<TokenId> ids = Ids(150);
  const std::vector<TokenId> other = Ids(70, 1);
  ATTNDB_ASSERT_OK_AND_ASSIGN(Session session, NewSession(db, ids));
  ATTNDB_ASSERT_OK(engine().Prefill(session, ids));
  ATTNDB_ASSERT_OK(db.Store(session, ids));
  ATTNDB_ASSERT_OK(engine().Prefill(session, Ids(30, 2)));
  for (const size_t kept :
       {150u, 149u, 65u, 1u}) {  // The tail, then ever deeper into what is stored.
    ATTNDB_ASSERT_OK(session.Crop(kept));
    const auto tokens = Joined({ids.begin(), ids.begin() + static_cast<ptrdiff_t>(kept)}, other);
    ATTNDB_ASSERT_OK_AND_ASSIGN(const LogitRows plain, PlainRows(engine(), tokens));
    ATTNDB_ASSERT_OK_AND_ASSIGN(const LogitRows ours, EngineRows(engine(), session, other));
    EXPECT_LT(LargestDifference(ours, plain, kept), tolerance_) << "cropped to " << kept;
  }
}

TEST_P(EngineAgreementTest, ForksGoTheirOwnWays) {
  ATTNDB_ASSERT_OK_AND_ASSIGN(const DB db, OpenStore());
  const std::vector<TokenId> ids = Ids(90);
  const std::vector<TokenId> left = Ids(20, 1);
  const std::vector<TokenId> right = Ids(20, 2);
  ATTNDB_ASSERT_OK_AND_ASSIGN(Session session, NewSession(db, ids));
  ATTNDB_ASSERT_OK(engine().Prefill(session, ids));
  ATTNDB_ASSERT_OK_AND_ASSIGN(Session fork, session.Fork());
  ATTNDB_ASSERT_OK_AND_ASSIGN(const LogitRows plain_left, PlainRows(engine(), Joined(ids, left)));
  ATTNDB_ASSERT_OK_AND_ASSIGN(const LogitRows plain_right, PlainRows(engine(), Joined(ids, right)));
  for (size_t i = 0; i < left.size(); ++i) {
    const BatchEntry batch[] = {{&session, std::span(left).subspan(i, 1)},
                                {&fork, std::span(right).subspan(i, 1)}};
    ATTNDB_ASSERT_OK(engine().DecodeBatch(batch));
    ASSERT_LT(RowDifference(*engine().Logits(0), plain_left[90 + i]), tolerance_) << i;
    ASSERT_LT(RowDifference(*engine().Logits(1), plain_right[90 + i]), tolerance_) << i;
  }
}

// An adapter is part of the model: of its logits, and of its identity.
TEST(EngineAdapterTest, AnAdapterAgreesWithPlainAndHasAnIdentityOfItsOwn) {
  ::attndb::test::TempDir directory;
  EngineOptions options = TinyOptions(HookVariant::kRewrite);
  options.cache_dir = directory.File("cache");
  ATTNDB_ASSERT_OK_AND_ASSIGN(LlamaEngine bare, LlamaEngine::Open(TinyModel("llama"), options));
  options.adapters = {{.path = TinyModel("llama_lora"), .scale = 0.5f}};
  ATTNDB_ASSERT_OK_AND_ASSIGN(LlamaEngine adapted, LlamaEngine::Open(TinyModel("llama"), options));
  EXPECT_NE(bare.spec().fingerprint, adapted.spec().fingerprint);
  EXPECT_EQ(bare.spec().layers, adapted.spec().layers);

  const std::vector<TokenId> ids = RandomIds(90, 5, bare.info().vocab_size);
  ATTNDB_ASSERT_OK_AND_ASSIGN(const LogitRows plain, PlainRows(adapted, ids));
  ATTNDB_ASSERT_OK_AND_ASSIGN(const LogitRows plain_bare, PlainRows(bare, ids));
  EXPECT_GT(LargestDifference(plain_bare, plain), 0.1) << "the adapter does nothing";
  ATTNDB_ASSERT_OK_AND_ASSIGN(const DB db, DB::Open(directory.File("store")));
  ATTNDB_ASSERT_OK_AND_ASSIGN(SessionStart start, db.CreateSession(adapted.spec(), ids));
  ATTNDB_ASSERT_OK_AND_ASSIGN(const LogitRows ours, EngineRows(adapted, start.session, ids));
  EXPECT_LT(LargestDifference(ours, plain), 1e-4);
  EXPECT_THAT(bare.Prefill(start.session, ids),
              ::attndb::test::FailsWith(StatusCode::kInvalidArgument, ::testing::_));
  ATTNDB_ASSERT_OK(db.Store(start.session, ids));
  ATTNDB_ASSERT_OK_AND_ASSIGN(SessionStart other, db.CreateSession(bare.spec(), ids));
  EXPECT_EQ(other.session.num_reused(), 0u);
}

std::string ParamName(const ::testing::TestParamInfo<EngineAgreementTest::ParamType>& info) {
  const auto& [kind, variant] = info.param;
  return kind + (variant == HookVariant::kRewrite ? "_rewrite" : "_observe");
}

INSTANTIATE_TEST_SUITE_P(
    Models, EngineAgreementTest,
    ::testing::Combine(::testing::Values("llama", "llama_yarn", "qwen2", "qwen3", "gemma2",
                                         "gemma3", "gpt_oss"),
                       ::testing::Values(HookVariant::kRewrite, HookVariant::kObserve)),
    ParamName);

}  // namespace
}  // namespace attndb::llama
