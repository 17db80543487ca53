// Goal:   a session's chain is cut, moved and forked without losing, doubling or moving a token.
// Method: small real segments; the used tokens of each segment are compared with plain lists.
#include "session/session_chain.h"

#include <gtest/gtest.h>

#include <numeric>
#include <utility>

#include "testing/matchers.h"
#include "testing/small_segments.h"

namespace attndb::internal {
namespace {

using test::FailsWith;
using ::testing::HasSubstr;
using Tokens = std::vector<TokenId>;
using Used = std::vector<std::pair<uint64_t, uint64_t>>;  // Segment and tokens used, by entry.

class SessionChainTest : public ::testing::Test {
 protected:
  HeldChain Held(int64_t context, const Used& used) {
    HeldChain held = {.context = ContextId{context}, .entries = {}, .hold = nullptr};
    for (const auto& [segment, num_tokens] : used) {
      held.entries.push_back({segments_.Get(segment), num_tokens});
    }
    return held;
  }
  static Used UsedOf(const std::vector<ChainEntry>& entries) {
    Used used;
    for (const ChainEntry& entry : entries) {
      used.emplace_back(entry.segment->id(), entry.num_tokens_used);
    }
    return used;
  }
  static Tokens Ids(uint64_t num_tokens) {
    Tokens tokens(num_tokens);
    std::iota(tokens.begin(), tokens.end(), 100);
    return tokens;
  }
  SessionChain Chain() {
    return SessionChain({Held(7, {{1, 20}, {2, 20}, {3, 12}}), Ids(52), 1000, {}, 0});
  }

  test::SmallSegments segments_{3};
};

TEST_F(SessionChainTest, CropsToTheToken) {
  for (const auto& [num_tokens, used] :
       std::vector<std::pair<uint64_t, Used>>{{52, {{1, 20}, {2, 20}, {3, 12}}},
                                              {51, {{1, 20}, {2, 20}, {3, 11}}},
                                              {40, {{1, 20}, {2, 20}}},
                                              {39, {{1, 20}, {2, 19}}},
                                              {1, {{1, 1}}},
                                              {0, {}}}) {
    SCOPED_TRACE(num_tokens);
    SessionChain chain = Chain();
    ATTNDB_EXPECT_OK(chain.CheckCrop(num_tokens));
    chain.Crop(num_tokens);
    EXPECT_EQ(UsedOf(chain.entries()), used);
    EXPECT_EQ(chain.tokens(), Ids(num_tokens));
    EXPECT_EQ(chain.PositionAfter(num_tokens), static_cast<int64_t>(1000 + num_tokens));
  }
}

TEST_F(SessionChainTest, MovesToALongerChainAndGivesBackWhatItHad) {
  SessionChain chain = Chain();
  const HeldChain had = chain.MoveTo(Held(8, {{4, 20}, {5, 20}, {6, 20}}), Ids(55));
  EXPECT_EQ(had.context, ContextId{7});
  EXPECT_EQ(had.num_tokens(), 52u);
  EXPECT_EQ(chain.context(), ContextId{8});
  EXPECT_EQ(UsedOf(chain.entries()), (Used{{4, 20}, {5, 20}, {6, 15}}))
      << "the session was cropped since";
  EXPECT_EQ(chain.tokens(), Ids(55));
  EXPECT_EQ(chain.first_position(), 1000);
  // One of the same tokens will do.
  EXPECT_EQ(chain.MoveTo(Held(9, {{7, 20}, {8, 20}, {9, 15}}), Ids(55)).context, ContextId{8});
  EXPECT_EQ(UsedOf(chain.entries()), (Used{{7, 20}, {8, 20}, {9, 15}}));
}

TEST_F(SessionChainTest, MovesToNoShorterOne) {
  SessionChain chain = Chain();
  EXPECT_DEATH(chain.MoveTo(Held(8, {{4, 20}, {5, 20}, {6, 20}}), Ids(51)),
               "tokens.size\\(\\) >= num_tokens\\(\\)");
}

TEST_F(SessionChainTest, ResetKeepsThePositionAlone) {
  SessionChain chain = Chain();
  chain.Reset();
  EXPECT_EQ(chain.context(), ContextId::kNone);
  EXPECT_TRUE(chain.entries().empty());
  EXPECT_EQ(chain.num_tokens(), 0u);
  EXPECT_EQ(chain.PositionAfter(3), 1003);
}

TEST_F(SessionChainTest, TokensAreComparedWithTheStoredOnes) {
  const SessionChain chain = Chain();
  Tokens tokens = Ids(60);
  ATTNDB_EXPECT_OK(chain.CheckTokens(tokens));
  tokens[51] = 5;
  EXPECT_THAT(chain.CheckTokens(tokens),
              FailsWith(StatusCode::kInvalidArgument, HasSubstr("token 51 has id 5")));
  tokens[51] = 151;
  tokens[55] = -2;
  EXPECT_THAT(chain.CheckTokens(tokens),
              FailsWith(StatusCode::kInvalidArgument, HasSubstr("token 55 has id -2")));
  ATTNDB_EXPECT_OK(chain.CheckTokens(std::span(tokens).first(55))) << "the next is none of them";
  tokens[55] = 0;
  ATTNDB_EXPECT_OK(chain.CheckTokens(tokens));
}

TEST_F(SessionChainTest, OverSeveralContextsItIsNoPromptAndStaysWhole) {
  const SessionChain chain({Held(0, {{1, 20}, {2, 20}}),
                            Ids(40),
                            10,
                            {{ContextId{1}, "a", {0, 20}, 0}, {ContextId{2}, "b", {20, 40}, 0}},
                            20});
  EXPECT_TRUE(chain.is_over_many());
  EXPECT_EQ(chain.PositionAfter(40), 30) << "20 of its tokens stand parallel to others";
  EXPECT_THAT(chain.CheckIsOnePrompt(),
              FailsWith(StatusCode::kFailedPrecondition, HasSubstr("over 2 contexts")));
  ATTNDB_EXPECT_OK(chain.CheckCrop(40));
  EXPECT_THAT(chain.CheckCrop(39), FailsWith(StatusCode::kFailedPrecondition,
                                             HasSubstr("2 whole contexts of 40 tokens")));
}

TEST_F(SessionChainTest, AForkHasAHoldOfItsOwn) {
  SessionChain chain = Chain();
  const auto hold = std::make_shared<const int>(1);
  const SessionChain::Contents fork = chain.Fork(hold);
  EXPECT_EQ(fork.held.hold, hold);
  chain.Crop(10);
  EXPECT_EQ(UsedOf(fork.held.entries), (Used{{1, 20}, {2, 20}, {3, 12}}));
}

}  // namespace
}  // namespace attndb::internal
