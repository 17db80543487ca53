// Goal:   a find returns the passage with the keys that the question asks for, of this tenant, this
//         model and the named contexts. It also lists the contexts that it could not search.
// Method: contexts of a toy model, whose keys are known; questions made of some of these keys.
#include <chrono>
#include <deque>
#include <fstream>
#include <limits>
#include <string>
#include <vector>

#include "api/database.h"
#include "api/db_access.h"
#include "api/db_test_util.h"
#include "api/segment_file_test_util.h"

namespace attndb {
namespace {

using test::DBFixture;
using test::FailsWith;
using test::SegmentFile;
using test::Tokens;
using test::ToyModel;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

// The tokens of a context that a question asks for: three in one block of 32.
struct Asked {
  Tokens context;
  uint64_t first_token = 0;
};

class FindTest : public DBFixture {
 protected:
  // Two heads, of both layers and RoPE layouts. What is asked for is keys as they are stored, so
  // the question is said to stand where a find would put it: right behind their block.
  FindQuery Question(const Asked& asked) {
    FindQuery query;
    query.heads = {{0, 4}, {1, 1}};
    query.first_position = static_cast<int64_t>((asked.first_token / 32 + 1) * 32);
    for (const FindHead& head : query.heads) {
      const LayerSpec& layer = model_.spec().layers[head.layer];
      const uint32_t kv_head = head.q_head / layer.group_size();
      const std::vector<float> keys = model_.Keys(head.layer, asked.context, 0);
      std::vector<float>& rows = rows_.emplace_back();
      for (uint64_t token = asked.first_token; token < asked.first_token + 3; ++token) {
        const auto key =
            keys.begin() +
            static_cast<int64_t>((token * layer.num_kv_heads + kv_head) * layer.head_dim);
        rows.insert(rows.end(), key, key + layer.head_dim);
      }
      query.q.push_back(test::ViewOf(rows, 1, layer.head_dim));
    }
    return query;
  }

  Result<FindResult> Find(const FindQuery& query, const FindOptions& options = {}) {
    return db_->Find(model_.spec(), query, options);
  }
  // The first passage is of `context` and holds the requested tokens.
  void ExpectFound(const Result<FindResult>& found, const std::string& context,
                   uint64_t first_token) {
    ATTNDB_ASSERT_OK(found.status());
    ASSERT_FALSE(found->passages.empty());
    const Passage& first = found->passages.front();
    EXPECT_EQ(first.context, context);
    EXPECT_EQ(first.context_id, db_->Describe(context)->id);
    EXPECT_LE(first.tokens.begin, first_token);
    EXPECT_GE(first.tokens.end, first_token + 3);
  }

  void Damage(const std::string& context) {
    const ContextInfo info = *db_->Describe(context);
    db_.reset();
    std::fstream file(SegmentFile(store(), info.segments[0]),
                      std::ios::in | std::ios::out | std::ios::binary);
    const auto file_bytes = static_cast<int64_t>(info.segments[0].file_bytes);
    for (int64_t place = file_bytes / 4; place < file_bytes / 4 * 3; place += 1000) {
      file.seekp(place);
      file.put('\x5a');
    }
    file.close();
    Open();
  }

  const Tokens a_ = ToyModel::Tokens(600, 1);
  const Tokens b_ = ToyModel::Tokens(700, 2);
  std::deque<std::vector<float>> rows_;
};

TEST_F(FindTest, ANameIsLookedThroughForTheTextThatItHasNow) {
  ATTNDB_ASSERT_OK(StoreTokens(a_, {.name = "a"}).status());
  ExpectFound(Find(Question({a_, 450})), "a", 450);
  ATTNDB_ASSERT_OK(StoreTokens(b_, {.name = "a", .replace = true}).status());
  ExpectFound(Find(Question({b_, 450}), {.contexts = {"a"}}), "a", 450);
  ATTNDB_ASSERT_OK_AND_ASSIGN(const FindResult found, Find(Question({b_, 450})));
  EXPECT_EQ(found.num_contexts, 1u);
  EXPECT_EQ(found.num_tokens, b_.size());
  ATTNDB_ASSERT_OK(db_->Rename("a", "b"));
  ExpectFound(Find(Question({b_, 450})), "b", 450);
  ATTNDB_ASSERT_OK(db_->Drop("b"));
  EXPECT_FALSE(Find(Question({b_, 450}), {.contexts = {"b"}}).ok());
}

TEST_F(FindTest, TheRightPassageOfTheRightContextComesFirst) {
  ATTNDB_ASSERT_OK(StoreTokens(a_, {.name = "a"}).status());
  ATTNDB_ASSERT_OK(StoreTokens(b_, {.name = "b"}).status());
  for (const uint64_t token : {10U, 100U, 450U, 590U}) {
    ExpectFound(Find(Question({a_, token})), "a", token);
    ExpectFound(Find(Question({b_, token})), "b", token);
  }
  const Result<FindResult> found = Find(Question({b_, 100}), {.limit = 3, .head_scores = true});
  ASSERT_THAT(found->passages, SizeIs(3));
  EXPECT_EQ(found->num_contexts, 2u);
  EXPECT_EQ(found->num_tokens, 1300u);
  EXPECT_EQ(found->num_passages, 19u + 22);
  EXPECT_GT(found->key_bytes, 1300u * 2 * 32);
  EXPECT_THAT(found->skipped, IsEmpty());
  ASSERT_THAT(found->passages[0].head_scores, SizeIs(2));
  for (const float score : found->passages[0].head_scores) EXPECT_GT(score, 1.0F);
  EXPECT_GT(found->passages[0].score, found->passages[1].score);
}

TEST_F(FindTest, LookingChangesNothing) {
  ATTNDB_ASSERT_OK(StoreTokens(a_, {.name = "a"}).status());
  const int64_t last_access_us = db_->Describe("a")->last_access_us;
  now_us_ += 1'000'000;
  ATTNDB_ASSERT_OK(Find(Question({a_, 100})).status());
  EXPECT_EQ(db_->Describe("a")->last_access_us, last_access_us);
  ATTNDB_EXPECT_OK(db_->Drop("a"));
  EXPECT_EQ(NumSegmentFiles(), 0u);
}

// A context is dropped while a find reads it. Its segments are released afterwards.
TEST_F(FindTest, FilesOfADroppedContextGoWhenNobodyReadsThemAnyMore) {
  ATTNDB_ASSERT_OK(StoreTokens(a_, {.name = "a"}).status());
  {
    ATTNDB_ASSERT_OK_AND_ASSIGN(
        const store::SearchSet reader,
        internal::DbAccess::database(*db_)->store()->lookup()->OpenForSearch(
            db_->tenant(), internal::Resolve(model_.spec()), {}));
    ASSERT_THAT(reader.runs, SizeIs(1));
    ATTNDB_ASSERT_OK(db_->Drop("a"));
  }
  EXPECT_GT(NumSegmentFiles(), 0u);
  ATTNDB_ASSERT_OK(Find(Question({a_, 100})).status());
  EXPECT_EQ(NumSegmentFiles(), 0u);
}

// Three segments, the last two of "long" alone.
TEST_F(FindTest, TokensAreThoseOfTheContextAndSharedOnesAreLookedThroughOnce) {
  ATTNDB_ASSERT_OK(StoreTokens(a_, {.name = "short"}).status());
  const Tokens more = test::Concat(a_, ToyModel::Tokens(300, 5));
  ATTNDB_ASSERT_OK(StoreTokens(more, {.name = "long"}).status());
  const Result<FindResult> found = Find(Question({a_, 100}));
  ExpectFound(found, "short", 100);
  EXPECT_EQ(found->num_tokens, 900u);
  EXPECT_EQ(found->num_contexts, 2u);
  // Position 700 lies in the second segment, which begins at 600: its blocks do, too.
  FindQuery query = Question({more, 700});
  query.first_position = 600 + (700 - 600) / 32 * 32 + 32;
  ExpectFound(Find(query), "long", 700);
}

TEST_F(FindTest, OnlyContextsThatWereNamed) {
  ATTNDB_ASSERT_OK(StoreTokens(a_, {.name = "a"}).status());
  ATTNDB_ASSERT_OK(StoreTokens(b_, {.name = "b"}).status());
  const Result<FindResult> found = Find(Question({a_, 100}), {.contexts = {"b", "b"}});
  ATTNDB_ASSERT_OK(found.status());
  EXPECT_EQ(found->num_contexts, 1u);
  for (const Passage& passage : found->passages) EXPECT_EQ(passage.context, "b");
  EXPECT_THAT(Find(Question({a_, 100}), {.contexts = {"c"}}),
              FailsWith(StatusCode::kNotFound, HasSubstr("c")));
}

TEST_F(FindTest, TenantsSeeNothingOfOthers) {
  ATTNDB_ASSERT_OK(StoreTokens(a_, {.name = "a"}).status());
  const DB other = *db_->ForTenant("other");
  const Result<FindResult> found = other.Find(model_.spec(), Question({a_, 100}));
  ATTNDB_ASSERT_OK(found.status());
  EXPECT_THAT(found->passages, IsEmpty());
  EXPECT_THAT(found->skipped, IsEmpty());
  EXPECT_EQ(found->num_contexts, 0u);
  EXPECT_EQ(found->num_tokens, 0u);
}

TEST_F(FindTest, WhatIsExpiredOrOfAnotherModelIsSkippedAndTold) {
  ATTNDB_ASSERT_OK(StoreTokens(a_, {.name = "old", .ttl = std::chrono::seconds(10)}).status());
  now_us_ += 11'000'000;
  const Result<FindResult> expired = Find(Question({a_, 100}));
  ASSERT_THAT(expired->skipped, SizeIs(1));
  EXPECT_EQ(expired->skipped[0].context, "old");
  EXPECT_EQ(expired->skipped[0].reason, "expired");
  ModelSpec other_spec = model_.spec();
  other_spec.fingerprint = "another";
  const ToyModel other(other_spec);
  const test::KvArrays arrays(other, b_);
  ATTNDB_ASSERT_OK(db_->Import(other_spec, b_, arrays.layers(), {.name = "other"}).status());
  const Result<FindResult> found = Find(Question({a_, 100}));
  ATTNDB_ASSERT_OK(found.status());
  EXPECT_EQ(found->num_contexts, 0u);
  EXPECT_THAT(found->passages, IsEmpty());
  std::vector<std::string> reasons;
  for (const SkippedContext& skipped : found->skipped) {
    reasons.push_back(skipped.context + ": " + skipped.reason);
  }
  EXPECT_THAT(reasons, ::testing::Contains("other: of another model"));
  // Once it was declared equal it is looked through.
  ATTNDB_ASSERT_OK(db_->DeclareEqual("toy", "another"));
  ExpectFound(Find(Question({b_, 100})), "other", 100);
}

TEST_F(FindTest, DamageIsToldAndQuarantinedAndTheRestIsFound) {
  ATTNDB_ASSERT_OK(StoreTokens(a_, {.name = "bad"}).status());
  ATTNDB_ASSERT_OK(StoreTokens(b_, {.name = "good"}).status());
  Damage("bad");
  for (int time = 0; time < 2; ++time) {  // When it is read, and as it was quarantined.
    const Result<FindResult> found = Find(Question({b_, 100}));
    ExpectFound(found, "good", 100);
    for (const Passage& passage : found->passages) EXPECT_EQ(passage.context, "good");
    ASSERT_THAT(found->skipped, SizeIs(1));
    EXPECT_EQ(found->skipped[0].context, "bad");
    EXPECT_THAT(found->skipped[0].reason, HasSubstr(time == 0 ? ".seg" : "damaged"));
    ATTNDB_EXPECT_OK(db_->WaitForBackground());
    EXPECT_TRUE(db_->Describe("bad")->damaged);
  }
}

TEST_F(FindTest, AnEmptyStoreAndALimitOfNoneGiveNothing) {
  EXPECT_THAT(Find(Question({a_, 100}))->passages, IsEmpty());
  ATTNDB_ASSERT_OK(StoreTokens(a_, {.name = "a"}).status());
  const Result<FindResult> found = Find(Question({a_, 100}), {.limit = 0});
  EXPECT_THAT(found->passages, IsEmpty());
  EXPECT_EQ(found->num_contexts, 1u);
}

TEST_F(FindTest, WrongQuestionsAreRefused) {
  ATTNDB_ASSERT_OK(StoreTokens(a_, {.name = "a"}).status());
  const FindQuery good = Question({a_, 100});
  const auto expect_refusal = [&](const FindQuery& query, const std::string& what) {
    EXPECT_THAT(Find(query), FailsWith(StatusCode::kInvalidArgument, HasSubstr(what)));
  };
  expect_refusal({}, "1 or more heads");
  FindQuery query = good;
  query.q.pop_back();
  expect_refusal(query, "one for each of 2");
  query = good;
  query.heads[1] = {0, 4};
  expect_refusal(query, "named twice");
  query = good;
  query.heads[1] = {2, 0};
  expect_refusal(query, "layer 2");
  query = good;
  query.heads[1] = {1, 6};
  expect_refusal(query, "expected 0 to 5");
  query = good;
  query.q[1].shape[0] = 2;
  expect_refusal(query, "q has 2 rows, expected 3 rows");
  query = good;
  query.q[1].shape[2] = 32;
  expect_refusal(query, "layer 1");
  query = good;
  query.first_position = -1;
  expect_refusal(query, "first_position is -1");
  rows_.back()[5] = std::numeric_limits<float>::quiet_NaN();
  expect_refusal(good, "NaN or Inf");
}

TEST_F(FindTest, WrongOptionsAreRefused) {
  ATTNDB_ASSERT_OK(StoreTokens(a_, {.name = "a"}).status());
  for (const uint32_t passage_tokens : {0U, 1U, 33U, FindOptions::kMaxPassageTokens + 2}) {
    EXPECT_THAT(Find(Question({a_, 100}), {.passage_tokens = passage_tokens}),
                FailsWith(StatusCode::kInvalidArgument, HasSubstr("passage_tokens is")));
  }
  ModelSpec no_layers = model_.spec();
  no_layers.layers.clear();
  EXPECT_THAT(db_->Find(no_layers, Question({a_, 100})),
              FailsWith(StatusCode::kInvalidArgument, HasSubstr("layers")));
}

}  // namespace
}  // namespace attndb
