// Goal:   with tail=exact a plan attends to the whole tail, and to a window of the stored tokens
//         before it. No token of the tail is a candidate, and nothing is derived from the tail.
// Method: toy model; such a plan against one whose window is longer by the tail.
#include <algorithm>

#include "api/database.h"
#include "api/db_access.h"
#include "api/db_test_util.h"

namespace attndb {
namespace {

using test::DBFixture;
using test::Tokens;
using test::ToyModel;
using ::testing::HasSubstr;

constexpr uint64_t kTail = 200;

class SessionExactTailTest : public DBFixture {
 protected:
  SessionExactTailTest() : DBFixture(/*background_builds=*/true) {}

  std::vector<float> Queries(LayerId layer, uint64_t num_rows, uint64_t position) const {
    return model_.Queries(layer, ToyModel::Tokens(num_rows, 5), position);
  }
  // Attention of these rows in a layer.
  std::vector<float> Attend(Session* session, LayerId layer, const std::vector<float>& q) {
    const LayerSpec& shape = model_.spec().layers[layer];
    const TensorView rows = test::ViewOf(q, shape.num_q_heads, shape.head_dim);
    std::vector<float> out(static_cast<size_t>(rows.rows()) * shape.num_q_heads * shape.v_head_dim);
    ATTNDB_EXPECT_OK(
        session->Attend(layer, rows,
                        MutableTensorView::Contiguous(out.data(), DType::kFloat32, rows.rows(),
                                                      shape.num_q_heads, shape.v_head_dim)));
    return out;
  }
  uint64_t NumBuilt(const std::string& use) {
    const internal::Database& database = *internal::DbAccess::database(*db_);
    return database.store().objects().counters(database.kinds().ForUse(use)).num_built;
  }
};

TEST_F(SessionExactTailTest, IsAWindowThatIsLongerByTheTail) {
  const Tokens stored = StoreChain("a", std::vector<uint64_t>{3000, 600}, 1);
  for (const std::string query :
       {"topk(k=40,", "topk(ratio=0.2,", "dipr(alpha=0.1,", "mass(p=0.5,", "topk(k=40,bits=8,",
        "topk(k=40,index=clustered,", "dipr(alpha=0.1,index=graph,", "topk(k=9,index=pq,m=16,",
        "topk(k=40,remainder=sample:64,", "topk(k=40,exact_fallback=0.9,"}) {
    MakeReady(stored, query + "sink=4,window=50)");
    Session session = Resume(stored, kTail);
    const std::vector<float> longer = ProbeWith(&session, query + "sink=4,window=250)");
    EXPECT_EQ(ProbeWith(&session, query + "sink=4,window=50,tail=exact)"), longer) << query;
    const LayerExplain layer = *session.Explain(1);
    EXPECT_EQ(layer.num_middle, stored.size() - 54) << query;
  }
}

TEST_F(SessionExactTailTest, EveryRowHasTheWindowOfStoredTokens) {
  const Tokens stored = StoreChain("a", std::vector<uint64_t>{1500}, 1);
  Session session = Resume(stored, kTail);
  ATTNDB_ASSERT_OK(session.SetPlan("topk(k=20,sink=4,window=50,tail=exact)"));
  constexpr uint64_t kRows = 3;
  const uint64_t first = session.num_tokens() - kRows;
  const std::vector<float> q = Queries(1, kRows, first);
  const std::vector<float> together = Attend(&session, 1, q);
  for (uint64_t row = kRows; row-- > 0;) {
    ATTNDB_ASSERT_OK(session.Crop(first + row + 1));
    const auto width = static_cast<std::ptrdiff_t>(q.size() / kRows);
    const auto begin = q.begin() + static_cast<std::ptrdiff_t>(row) * width;
    const std::vector<float> alone = Attend(&session, 1, std::vector<float>(begin, begin + width));
    const auto of_row = together.begin() + static_cast<std::ptrdiff_t>(row * alone.size());
    ExpectNear(alone, {of_row, of_row + static_cast<std::ptrdiff_t>(alone.size())});
  }
}

TEST_F(SessionExactTailTest, WhatAFilterHidesIsNoPartOfWindowOrTail) {
  const Tokens stored = StoreChain("a", std::vector<uint64_t>{1500}, 1);
  Session session = Resume(stored, kTail);
  // The filter leaves 170 of the tail's 200 tokens.
  const TokenRange seen[] = {{0, 300}, {700, 1480}, {1530, 1700}};
  ATTNDB_ASSERT_OK(session.SetFilter(seen));
  for (const std::string query : {"topk(k=40,", "topk(ratio=0.2,", "dipr(alpha=0.1,"}) {
    const std::vector<float> longer = ProbeWith(&session, query + "sink=4,window=220)");
    EXPECT_EQ(ProbeWith(&session, query + "sink=4,window=50,tail=exact)"), longer) << query;
    EXPECT_EQ(session.Explain(1)->num_middle, 300u + 780 - 54) << query;
  }
}

TEST_F(SessionExactTailTest, SearchFindsNoTokenOfTheTail) {
  const Tokens stored = StoreChain("a", std::vector<uint64_t>{1500}, 1);
  Session session = Resume(stored, kTail);
  ATTNDB_ASSERT_OK(session.SetPlan("topk(k=400,sink=4,window=50,tail=exact)"));
  const LayerSpec& shape = model_.spec().layers[1];
  const std::vector<float> q = Queries(1, 1, session.num_tokens() - 1);
  ATTNDB_ASSERT_OK_AND_ASSIGN(
      const std::vector<CriticalTokens> found,
      session.Search(1, test::ViewOf(q, shape.num_q_heads, shape.head_dim)));
  for (const CriticalTokens& head : found) {
    EXPECT_EQ(head.tokens.size(), 400u);
    EXPECT_LT(*std::ranges::max_element(head.tokens), 1450u);
  }
}

TEST_F(SessionExactTailTest, NothingIsDerivedFromTheTailNorAwaitedForIt) {
  Session session = NewSession("topk(k=60,index=pq,m=16,tail=exact,await=1)");
  ATTNDB_ASSERT_OK(AppendTokens(&session, ToyModel::Tokens(5000, 3), nullptr));
  ATTNDB_ASSERT_OK(session.AwaitDerived(0));
  EXPECT_FALSE(session.awaits_derived(0));
  ATTNDB_ASSERT_OK(AppendTokens(&session, ToyModel::Tokens(5000, 4), nullptr));
  EXPECT_FALSE(session.awaits_derived(0));
  ATTNDB_ASSERT_OK(db_->WaitForBackground());
  EXPECT_EQ(NumBuilt("pq_16x8"), 0u);
}

TEST_F(SessionExactTailTest, WhatIsStoredIsSearched) {
  const Tokens tokens = ToyModel::Tokens(1500, 3);
  Session session = NewSession("retrieval_attention");
  ATTNDB_ASSERT_OK(AppendTokens(&session, tokens, nullptr));
  const std::vector<float> out = Probe(&session);
  EXPECT_THAT(session.Explain(1)->reason, HasSubstr("with the tail, hold all tokens"));
  EXPECT_EQ(session.Explain(1)->num_middle, 0u);
  EXPECT_EQ(ProbeWith(&session, "full"), out);
  ATTNDB_ASSERT_OK(session.SetPlan("retrieval_attention"));
  ATTNDB_ASSERT_OK(db_->Store(session, tokens, {.name = "a"}));
  (void)Probe(&session);
  const LayerExplain layer = *session.Explain(1);
  EXPECT_EQ(layer.reason, "");
  EXPECT_EQ(layer.num_middle, 1500u - 128 - 512);
  EXPECT_EQ(layer.selected_mean, 100);
}

}  // namespace
}  // namespace attndb
