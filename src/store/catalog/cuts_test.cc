// Goal:   what was computed after tokens had left is found by its whole history alone, at any
//         length of the prompt, and is never taken for what saw all; histories share what they have
//         in common; a catalog of before is brought to the version that has cuts.
// Method: hand-made histories; rows of the prefix index counted and changed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "store/catalog/catalog_test_util.h"
#include "store/catalog/cut_bytes.h"
#include "store/catalog/prefix_index.h"
#include "store/catalog/schema.h"
#include "store/catalog/sqlite.h"
#include "testing/matchers.h"

namespace attndb::store {
namespace {

using ::attndb::test::FailsWith;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

using Tokens = std::vector<TokenId>;

Tokens First(const Tokens& tokens, size_t count) {
  return {tokens.begin(), tokens.begin() + static_cast<ptrdiff_t>(count)};
}

class CutsTest : public CatalogTest {
 protected:
  // A row of one number that a statement gives.
  int64_t Number(const char* sql) {
    const auto database = SqliteDatabase::Open(harness_.path(), SqliteDatabase::Mode::kReadOnly);
    Query query = (*database)->Select(sql);
    EXPECT_TRUE(query.Step().value());
    return query.Int(0);
  }
  const std::vector<Cut> cuts_ = {{200, {{4, 100}}}, {300, {{100, 150}, {210, 215}}}};
};

TEST_F(CutsTest, AWholeHistoryIsFoundAtEveryLength) {
  const Tokens tokens = Range(0, 400);
  const ContextId id = harness_.MustPublish(tokens, {.cuts = cuts_});
  for (const size_t length :
       {1u, 63u, 64u, 191u, 192u, 199u, 200u, 201u, 256u, 299u, 300u, 320u, 399u, 400u}) {
    const auto match = harness_.Longest(First(tokens, length));
    ASSERT_TRUE(match.has_value()) << length;
    EXPECT_EQ(match->context, id);
    EXPECT_EQ(match->num_tokens, length);
    EXPECT_EQ(match->cuts, CutsWithin(cuts_, length)) << length;
  }
  Tokens other = tokens;
  other[350] = 7;
  EXPECT_EQ(harness_.Longest(other)->num_tokens, 350u);
  EXPECT_EQ(harness_.Longest(other)->cuts, cuts_);
  EXPECT_EQ(harness_->contexts()->HistoryOf(id)->cuts, cuts_);
  EXPECT_EQ(harness_->contexts()->HistoryOf(id)->tokens, tokens);
}

TEST_F(CutsTest, WhatWasKeptAloneFindsNothing) {
  const Tokens tokens = Range(0, 400);
  harness_.MustPublish(tokens, {.cuts = {cuts_[0]}});
  Tokens kept = First(tokens, 4);
  kept.insert(kept.end(), tokens.begin() + 100, tokens.end());
  const auto match = harness_.Longest(kept);
  ASSERT_TRUE(match.has_value());
  EXPECT_EQ(match->num_tokens, 4u);
  EXPECT_THAT(match->cuts, IsEmpty());
  EXPECT_FALSE(harness_.Longest(Range(100, 300)).has_value());
}

// One prompt, computed with all of it and with tokens that had left: both are there, and the
// longer one is found; of equally long ones, what saw all.
TEST_F(CutsTest, HistoriesStandBesideEachOther) {
  const Tokens tokens = Range(0, 400);
  const ContextId cut = harness_.MustPublish(tokens, {.cuts = cuts_});
  const ContextId whole = harness_.MustPublish(First(tokens, 350));
  EXPECT_EQ(harness_.Longest(tokens)->context, cut);
  EXPECT_EQ(harness_.Longest(First(tokens, 350))->context, whole);
  EXPECT_THAT(harness_.Longest(First(tokens, 350))->cuts, IsEmpty());
  PrefixQuery query = harness_.Query(tokens);
  query.truncated = false;
  EXPECT_EQ(harness_->prefixes()->Longest(query).value()->context, whole);
  EXPECT_EQ(harness_->prefixes()->Longest(query).value()->num_tokens, 350u);
  ATTNDB_ASSERT_OK(harness_->contexts()->Drop(tenant(), whole));
  // The blocks before the cut are common to all.
  EXPECT_EQ(harness_->prefixes()->Longest(query).value()->num_tokens, 192u);
  EXPECT_THAT(harness_->prefixes()->Longest(query).value()->cuts, IsEmpty());
  EXPECT_EQ(harness_.Longest(First(tokens, 350))->cuts, cuts_);
}

TEST_F(CutsTest, EqualHistoriesShareTheirNodesAndLeaveNone) {
  const Tokens tokens = Range(0, 400);
  const ContextId first = harness_.MustPublish(tokens, {.cuts = cuts_});
  const int64_t num_nodes = Number("SELECT count(*) FROM nodes");
  // Root, three blocks to 192, the cut, one block to 256, the cut at 300, 256 to 320, two more.
  EXPECT_EQ(num_nodes, 1 + 3 + 1 + 1 + 1 + 1 + 2);
  const ContextId second = harness_.MustPublish(tokens, {.cuts = cuts_});
  EXPECT_EQ(Number("SELECT count(*) FROM nodes"), num_nodes);
  harness_.MustPublish(tokens, {.cuts = {cuts_[0]}});
  EXPECT_EQ(Number("SELECT count(*) FROM nodes"), num_nodes + 3);
  ATTNDB_ASSERT_OK(harness_->contexts()->Drop(tenant(), first));
  ATTNDB_ASSERT_OK(harness_->contexts()->Drop(tenant(), second));
  EXPECT_EQ(Number("SELECT count(*) FROM nodes WHERE tokens >= x'80'"), 1);
}

// A chat goes on: what is new is walked over, and a cut may come before or behind what is shared.
TEST_F(CutsTest, AContextGoesOnBehindItsCuts) {
  for (const size_t shared : {300u, 319u, 320u, 321u, 384u, 400u}) {
    const Tokens tokens = Range(static_cast<TokenId>(1000 * shared), 600);
    const ContextId base = harness_.MustPublish(First(tokens, 400), {.cuts = cuts_});
    std::vector<Cut> cuts = cuts_;
    if (shared > 300) cuts.push_back({shared, {{150, 200}}});
    cuts.push_back({500, {{300, 302}}});
    const ContextId more =
        harness_.MustPublish(tokens, {.base = base, .num_shared = shared, .cuts = cuts});
    EXPECT_EQ(harness_->contexts()->HistoryOf(more)->cuts, cuts) << shared;
    EXPECT_EQ(harness_.Longest(tokens)->context, more) << shared;
    EXPECT_EQ(harness_.Longest(tokens)->cuts, cuts) << shared;
    EXPECT_EQ(harness_.Longest(First(tokens, 450))->cuts, CutsWithin(cuts, 450)) << shared;
  }
}

// The base was cut behind what is shared, and the new context was not.
TEST_F(CutsTest, ACropTakesCutsBack) {
  const Tokens tokens = Range(0, 400);
  const ContextId base = harness_.MustPublish(tokens, {.cuts = cuts_});
  Tokens other = First(tokens, 299);
  other.insert(other.end(), 200, 7);
  const ContextId branch =
      harness_.MustPublish(other, {.base = base, .num_shared = 299, .cuts = {cuts_[0]}});
  EXPECT_EQ(harness_.Longest(other)->context, branch);
  EXPECT_EQ(harness_.Longest(other)->cuts, (std::vector<Cut>{cuts_[0]}));
  EXPECT_EQ(harness_.Longest(tokens)->cuts, cuts_);
}

TEST_F(CutsTest, ACutAtTheEndIsKept) {
  for (const size_t length : {128u, 130u}) {
    const Tokens tokens = Range(static_cast<TokenId>(1000 * length), length);
    const std::vector<Cut> cuts = {{length, {{1, 50}}}};
    const ContextId id = harness_.MustPublish(tokens, {.cuts = cuts});
    EXPECT_EQ(harness_->contexts()->HistoryOf(id)->cuts, cuts);
    EXPECT_EQ(harness_.Longest(tokens)->cuts, cuts);
    EXPECT_THAT(harness_.Longest(First(tokens, length - 1))->cuts, IsEmpty());
    Tokens more = tokens;
    more.push_back(3);
    const ContextId next =
        harness_.MustPublish(more, {.base = id, .num_shared = length, .cuts = cuts});
    EXPECT_EQ(harness_.Longest(more)->context, next);
    EXPECT_EQ(harness_.Longest(more)->cuts, cuts);
  }
}

TEST_F(CutsTest, ACutOfAsManyRangesAsMayBeIsKept) {
  const Tokens tokens = Range(0, 400);
  Cut cut = {300, {}};
  for (uint64_t i = 0; i < kMaxCutRanges; ++i) cut.dropped.push_back({2 * i, 2 * i + 1});
  const ContextId id = harness_.MustPublish(tokens, {.cuts = {cut}});
  EXPECT_THAT(harness_->contexts()->HistoryOf(id)->cuts, ElementsAre(cut));
  EXPECT_EQ(harness_.Longest(tokens), (PrefixMatch{id, 400, {cut}}));
}

TEST_F(CutsTest, FaultyCutsAreRefused) {
  EXPECT_THAT(harness_.Publish(Range(0, 100), {.cuts = {{101, {{0, 1}}}}}).status(),
              FailsWith(StatusCode::kInvalidArgument, HasSubstr("cut 0 is at 101 of 100")));
  EXPECT_EQ(Number("SELECT count(*) FROM nodes"), 0);
}

TEST_F(CutsTest, ACatalogOfBeforeIsBroughtToThisVersion) {
  const Tokens tokens = Range(0, 100);
  harness_.MustPublish(tokens);
  harness_.Close();
  {
    auto database = SqliteDatabase::Open(harness_.path(), SqliteDatabase::Mode::kReadWrite);
    ATTNDB_ASSERT_OK((*database)->Execute("DROP INDEX nodes_of_cuts"));
    ATTNDB_ASSERT_OK((*database)->Execute("DROP TABLE sound_tokens"));
    ATTNDB_ASSERT_OK((*database)->Execute(kDropNumbers));
    ATTNDB_ASSERT_OK((*database)->Execute("PRAGMA user_version = 3"));
  }
  {
    ATTNDB_ASSERT_OK_AND_ASSIGN(const auto reader, harness_.Open(/*read_only=*/true));
    EXPECT_EQ(reader->prefixes()->Longest(harness_.Query(tokens)).value()->num_tokens, 100u);
    EXPECT_THAT(reader->Verify().value(), IsEmpty());
  }
  harness_.Reopen();
  harness_.MustPublish(Range(0, 300), {.cuts = {{100, {{4, 50}}}}});
  EXPECT_EQ(harness_.Longest(Range(0, 300))->cuts.size(), 1u);
  EXPECT_EQ(Number("PRAGMA user_version"), kSchemaVersion);
}

// Bytes of unknown origin, under right checksums of pages.
class HostileCutsTest : public ::testing::Test {
 protected:
  // Verify's findings after a statement has changed the catalog of a history with two cuts, and
  // whether a lookup ends well.
  std::vector<std::string> After(const char* sql) {
    CatalogHarness harness;
    const Tokens tokens = Range(0, 400);
    harness.MustPublish(tokens, {.cuts = {{200, {{4, 100}}}, {300, {{100, 150}}}}});
    harness.Close();
    {
      auto database = SqliteDatabase::Open(harness.path(), SqliteDatabase::Mode::kReadWrite);
      ATTNDB_EXPECT_OK((*database)->Execute(sql));
    }
    harness.Reopen();
    lookup_ = harness->prefixes()->Longest(harness.Query(tokens)).status();
    EXPECT_TRUE(lookup_.ok() || lookup_.code() == StatusCode::kCorruption) << sql;
    return harness->Verify().value();
  }

  Status lookup_;
};

TEST_F(HostileCutsTest, AreNamed) {
  EXPECT_THAT(After("UPDATE nodes SET tokens = x'ff00' WHERE tokens >= x'80'"),
              ::testing::Contains(HasSubstr("a cut of 2 bytes")));
  EXPECT_THAT(After("UPDATE nodes SET tokens = x'' WHERE tokens >= x'80'"),
              ::testing::Contains(HasSubstr("prefix node")));
  EXPECT_THAT(After("UPDATE nodes SET tokens = x'ff00000000000000c8000000000000000400000000000000"
                    "63' WHERE id = (SELECT min(id) FROM nodes WHERE tokens >= x'80')"),
              ::testing::Contains(HasSubstr("key is not that")));
  // At 256 tokens, where the block ends before which it stands.
  EXPECT_THAT(
      After("UPDATE nodes SET tokens = x'ff000000000000010000000000000000040000000000000064'"
            " WHERE id = (SELECT min(id) FROM nodes WHERE tokens >= x'80')"),
      ::testing::Contains(HasSubstr("a cut at 256 tokens hangs where 192 end")));
}

// A cut above another takes its place, with its bytes: both are out of order.
TEST_F(HostileCutsTest, OneBelowAnotherOfTheSamePlaceIsNotFollowed) {
  const std::vector<std::string> findings = After(
      "UPDATE nodes SET tokens = (SELECT tokens FROM nodes WHERE tokens >= x'80' "
      "ORDER BY id DESC LIMIT 1) WHERE tokens >= x'80'");
  EXPECT_THAT(findings, ::testing::Contains(HasSubstr("hangs where 192 end")));
  EXPECT_THAT(findings, ::testing::Contains(HasSubstr("cut 1 is at 300, after one at 300")));
  EXPECT_THAT(lookup_,
              FailsWith(StatusCode::kCorruption, HasSubstr("a cut at 300 below one at 300")));
}

}  // namespace
}  // namespace attndb::store
