// Goal:   HeaviestTokens weighs the tokens that the session sees, by the queries of the session's
//         own tokens only. Tokens may be stored or not, behind a cut, after crops, Stores and
//         forks. Tokens that cannot be read are reported.
// Method: a key that all queries agree with; queries of which every row is sampled.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <span>
#include <string>
#include <vector>

#include "api/db_test_util.h"

namespace attndb {
namespace {

using test::Concat;
using test::DBFixture;
using test::FailsWith;
using test::Tokens;
using test::ToyModel;
using ::testing::HasSubstr;

using Ranges = std::vector<TokenRange>;

class SessionHeaviestTest : public DBFixture {
 protected:
  SessionHeaviestTest() { Open({.query_sample = 16}); }

  // The session takes tokens [begin, end) of all_, and attends to them by queries that agree with
  // the key of the token `loud` alone.
  void Read(Session* session, uint64_t begin, uint64_t end, uint64_t loud) {
    const auto shout = [&](LayerId layer, std::vector<float>* k, std::vector<float>* /*v*/) {
      const LayerSpec& spec = model_.spec().layers[layer];
      const size_t row = size_t{spec.num_kv_heads} * spec.head_dim;
      if (loud < begin || loud >= end) return;
      for (size_t i = 0; i < row; ++i) (*k)[(loud - begin) * row + i] = 9.0f;
    };
    ATTNDB_ASSERT_OK(AppendTokens(session, std::span(all_).subspan(begin, end - begin), shout));
    const auto num_rows = static_cast<int64_t>(end - begin);
    for (LayerId layer = 0; layer < model_.spec().num_layers(); ++layer) {
      const LayerSpec& spec = model_.spec().layers[layer];
      const std::vector<float> q((end - begin) * spec.num_q_heads * spec.head_dim, 0.2f);
      std::vector<float> out((end - begin) * spec.num_q_heads * spec.v_head_dim);
      ATTNDB_ASSERT_OK(
          session->Attend(layer, test::ViewOf(q, spec.num_q_heads, spec.head_dim),
                          MutableTensorView::Contiguous(out.data(), DType::kFloat32, num_rows,
                                                        spec.num_q_heads, spec.v_head_dim)));
    }
  }
  void Store(Session* session, uint64_t num_tokens, const std::string& name) {
    ATTNDB_ASSERT_OK(db_->Store(*session, std::span(all_).first(num_tokens), {.name = name}));
  }
  // Nobody has asked anything that the session could weigh by.
  static void ExpectNoQueries(Session* session) {
    EXPECT_THAT(session->HeaviestTokens({0, session->num_tokens()}, 16),
                FailsWith(StatusCode::kFailedPrecondition, HasSubstr("no queries are sampled")));
  }

  const Tokens all_ = ToyModel::Tokens(700, 1);
};

TEST_F(SessionHeaviestTest, ATokenOfTheTailIsFoundBehindStoredOnes) {
  Session session = NewSession();
  Read(&session, 0, 400, 555);
  Store(&session, 400, "a");
  Read(&session, 400, 700, 555);
  EXPECT_EQ(*session.HeaviestTokens({0, 700}, 16), (Ranges{{544, 560}}));
  ATTNDB_ASSERT_OK_AND_ASSIGN(Session fork, session.Fork());
  EXPECT_EQ(*fork.HeaviestTokens({0, 700}, 16), (Ranges{{544, 560}}));
}

TEST_F(SessionHeaviestTest, StoredQueriesAloneSayWhatIsHeavy) {
  {
    Session session = NewSession();
    Read(&session, 0, 400, 100);
    Store(&session, 400, "a");
  }
  SessionStart start = Start(Concat(std::span(all_).first(400), Tokens{1}));
  ASSERT_EQ(start.session.num_tokens(), 400u);
  EXPECT_EQ(*start.session.HeaviestTokens({0, 400}, 16), (Ranges{{96, 112}}));
  ATTNDB_ASSERT_OK(start.session.Crop(300));
  EXPECT_EQ(*start.session.HeaviestTokens({0, 300}, 16), (Ranges{{96, 112}}));
}

TEST_F(SessionHeaviestTest, MassIsThatOfTheTokensBehindACut) {
  Session session = NewSession();
  Read(&session, 0, 100, 40);
  ATTNDB_ASSERT_OK(session.DropOldest(36, {.keep_first = 4}));
  ASSERT_EQ(session.cuts().at(0).dropped, (Ranges{{4, 40}}));
  EXPECT_EQ(*session.HeaviestTokens({0, 100}, 16), (Ranges{{32, 48}}));
}

TEST_F(SessionHeaviestTest, OfNoTokensNoneIsHeavyAndInsideAStepNobodyIsTold) {
  Session session = NewSession();
  Read(&session, 0, 100, 40);
  ATTNDB_ASSERT_OK_AND_ASSIGN(const Ranges none, session.HeaviestTokens({5, 5}, 16));
  EXPECT_TRUE(none.empty());
  ATTNDB_ASSERT_OK(AppendLayer(&session, 0, Tokens{5}, 100));
  EXPECT_THAT(session.HeaviestTokens({0, 100}, 16),
              FailsWith(StatusCode::kFailedPrecondition, HasSubstr("a step is under way")));
}

TEST_F(SessionHeaviestTest, QueriesGoWithTheirTokens) {
  for (const bool by_reset : {false, true}) {
    Session session = NewSession();
    Read(&session, 0, 100, 40);
    if (by_reset) {
      session.Reset();
    } else {
      ATTNDB_ASSERT_OK(session.Crop(0));
    }
    ATTNDB_ASSERT_OK(AppendTokens(&session, std::span(all_).first(20), nullptr));
    ExpectNoQueries(&session);
  }
}

TEST_F(SessionHeaviestTest, AQueryOfAStoredTokenIsNotSampledAgain) {
  Open({.query_sample = 0});
  ATTNDB_ASSERT_OK(StoreTokens(std::span(all_).first(200)));
  Open({.query_sample = 16});
  SessionStart start = Start(Concat(std::span(all_).first(200), Tokens{1}));
  ASSERT_EQ(start.session.num_tokens(), 200u);
  (void)Probe(&start.session);
  ExpectNoQueries(&start.session);
}

// It saw a part of the prompt alone.
TEST_F(SessionHeaviestTest, AQueryUnderAFilterIsNotSampled) {
  Session session = NewSession();
  ATTNDB_ASSERT_OK(AppendTokens(&session, std::span(all_).first(100), nullptr));
  ATTNDB_ASSERT_OK(session.SetFilter(Ranges{{0, 10}}));
  (void)Probe(&session);
  ExpectNoQueries(&session);
}

TEST_F(SessionHeaviestTest, AfterAStoreTheSampleIsOfTheTailAlone) {
  Session session = NewSession();
  Read(&session, 0, 100, 40);
  Store(&session, 100, "a");
  Read(&session, 100, 130, 40);
  Store(&session, 130, "b");
  Session alone = NewSession();
  Read(&alone, 500, 530, 40);
  ATTNDB_ASSERT_OK(db_->Store(alone, std::span(all_).subspan(500, 30), {.name = "c"}));
  const uint64_t of_a = db_->Describe("a")->query_sample_bytes;
  EXPECT_GT(of_a, 0u);
  EXPECT_EQ(db_->Describe("b")->query_sample_bytes, of_a + db_->Describe("c")->query_sample_bytes);
}

TEST_F(SessionHeaviestTest, KeysThatCannotBeReadAreTold) {
  Open({.query_sample = 0});
  const Tokens stored = StoreChain("a", std::vector<uint64_t>{400}, 1);
  Open({.query_sample = 16});
  SessionStart start = Start(Concat(stored, Tokens{1}), {.plan = "window(sink=0,window=10)"});
  ATTNDB_ASSERT_OK(AppendTokens(&start.session, ToyModel::Tokens(20, 9), nullptr));
  (void)Probe(&start.session);  // Reads the tail alone.
  for (const auto& [path, bytes] : FilesIn(store() + "/segments")) {
    std::string damaged = bytes;
    for (size_t at = 8192; at < damaged.size(); at += 512) damaged[at] ^= 1;
    if (damaged != bytes) std::ofstream(path, std::ios::binary) << damaged;
  }
  EXPECT_EQ(start.session.HeaviestTokens({0, 420}, 16).status().code(), StatusCode::kCorruption);
}

}  // namespace
}  // namespace attndb
