// Goal:   a search finds the keys that a question was made of, in any run, and continues without
//         rows that it can't read.
// Method: random keys in memory; a question of keys of one passage.
#include "find/find_passages.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "find/find_test_util.h"
#include "find/placed_question.h"
#include "testing/matchers.h"

namespace attndb::find {
namespace {

using ::attndb::test::FailsWith;
using ::testing::HasSubstr;

class FindPassagesTest : public ::testing::Test {
 protected:
  FindPassagesTest() {
    for (uint64_t i = 0; i < 5; ++i) {
      keys_.push_back(std::make_shared<FakeRun>(spec_, 700 + i, 0, i));
      runs_.push_back({keys_.back(), 700 + i, 4});
    }
    // Three tokens of run 3, asked for in kv head 1, whose q heads are 2 and 3.
    for (const uint32_t q_head : {2U, 3U}) {
      HeadQuestion head = {0, q_head, {}};
      for (const uint64_t token : {330U, 340U, 345U}) {
        const float* const key = keys_[3]->Key(1, token);
        head.rows.insert(head.rows.end(), key, key + kStride);
      }
      heads_.push_back(head);
    }
    TurnAsAsked();
  }

  // So that the rows, which stand at 100 on, are behind block 10 (tokens 320 to 351) those keys.
  void TurnAsAsked() {
    const LayerSpec& layer = spec_.layers[0];
    for (HeadQuestion& head : heads_) {
      const Turn turn(FrequenciesOf(layer), 100 - 352);
      turn.Rows(head.rows.data(), 3, kStride, head.rows.data());
    }
  }

  PassageSearch Search() {
    return {.spec = &spec_,
            .runs = runs_,
            .heads = heads_,
            .num_tokens = 3,
            .first_position = 100,
            .passage_tokens = 64,
            .limit = 5,
            .budget = &budget_,
            .pool = &pool_};
  }

  static constexpr size_t kStride = 32;
  const ModelSpec spec_ = TestSpec(2, 32);
  std::vector<std::shared_ptr<FakeRun>> keys_;
  std::vector<KeyRun> runs_;
  std::vector<HeadQuestion> heads_;
  storage::MemoryBudget budget_{uint64_t{1} << 20};
  ThreadPool pool_{2};
};

TEST_F(FindPassagesTest, TheRightPassageComesFirst) {
  ATTNDB_ASSERT_OK_AND_ASSIGN(const PassageReport report, FindPassages(Search()));
  ASSERT_EQ(report.passages.size(), 5u);
  EXPECT_EQ(report.passages[0].run, 3u);
  EXPECT_LE(report.passages[0].tokens.begin, 330u);
  EXPECT_GE(report.passages[0].tokens.end, 346u);
  EXPECT_GT(report.passages[0].score, 2 * report.passages[1].score);
  EXPECT_TRUE(report.passages[0].head_scores.empty());
  EXPECT_TRUE(report.lost.empty());
  EXPECT_EQ(report.num_passages, 5u * 22u);
  // Both q heads read the same keys, once.
  EXPECT_EQ(report.key_bytes, (700u + 701 + 702 + 703 + 704) * kStride * sizeof(float));
  EXPECT_EQ(budget_.used_bytes(), 0u);
}

TEST_F(FindPassagesTest, HeadsAreToldInTheOrderOfTheQuestion) {
  HeadQuestion other = heads_[0];
  other.q_head = 0;  // A head of the other kv head, whose keys are none of these.
  heads_.insert(heads_.begin() + 1, other);
  PassageSearch search = Search();
  search.head_scores = true;
  ATTNDB_ASSERT_OK_AND_ASSIGN(const PassageReport report, FindPassages(search));
  const FoundPassage& first = report.passages.at(0);
  EXPECT_EQ(first.run, 3u);
  ASSERT_EQ(first.head_scores.size(), 3u);
  EXPECT_FLOAT_EQ(first.head_scores[0], first.head_scores[2]);
  EXPECT_LT(first.head_scores[1], first.head_scores[0]);
  EXPECT_NEAR((first.head_scores[0] + first.head_scores[1] + first.head_scores[2]) / 3, first.score,
              1e-4);
}

TEST_F(FindPassagesTest, WhatCannotBeReadIsToldAndLeftOut) {
  keys_[3]->Damage();
  keys_[1]->SetNonFinite();
  PassageSearch search = Search();
  search.limit = 1000;
  ATTNDB_ASSERT_OK_AND_ASSIGN(const PassageReport report, FindPassages(search));
  ASSERT_EQ(report.lost.size(), 1u);
  EXPECT_EQ(report.lost[0].run, 3u);
  EXPECT_THAT(report.lost[0].status, FailsWith(StatusCode::kCorruption, HasSubstr("granule")));
  EXPECT_FALSE(report.passages.empty());
  for (const FoundPassage& passage : report.passages) EXPECT_NE(passage.run, 3u);
}

TEST_F(FindPassagesTest, NoRunsAndNoLimitGiveNothing) {
  PassageSearch search = Search();
  search.limit = 0;
  EXPECT_TRUE(FindPassages(search)->passages.empty());
  search.limit = 5;
  search.runs = {};
  EXPECT_TRUE(FindPassages(search)->passages.empty());
}

TEST_F(FindPassagesTest, WhatDoesNotFitIntoMemoryIsRefused) {
  storage::MemoryBudget small(1000);
  PassageSearch search = Search();
  search.budget = &small;
  EXPECT_THAT(FindPassages(search),
              FailsWith(StatusCode::kResourceExhausted, HasSubstr("scores of a find")));
  EXPECT_EQ(small.used_bytes(), 0u);
}

}  // namespace
}  // namespace attndb::find
