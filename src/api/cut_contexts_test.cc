// Goal:   tokens that a session computed after a cut are stored with their history. The whole
//         prompt finds them after a restart, with the answers of the session that stored them. They
//         can be forked, cropped, merged, verified, exported and imported. They never count as
//         tokens that saw everything.
// Method: toy model; answers of the session that never ended.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "api/db_test_util.h"
#include "attndb/context_name.h"
#include "attndb/kv_file.h"

namespace attndb {
namespace {

using test::Concat;
using test::DBFixture;
using test::FailsWith;
using test::Tokens;
using test::ToyModel;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class CutContextsTest : public DBFixture {
 protected:
  // A session of a history with two cuts, at 500 and 700 of its 800 tokens.
  Session CutSession() {
    Session session = NewSession();
    uint64_t begin = 0;
    for (const uint64_t end : {500u, 700u, 800u}) {
      if (begin > 0) {
        ATTNDB_EXPECT_OK(session.DropOldest(200, {.keep_first = 4}));
      }
      ATTNDB_EXPECT_OK(model_.Step(&session, std::span(all_).subspan(begin, end - begin)));
      begin = end;
    }
    return session;
  }
  // The answer of a session that took `more` in behind all that it had.
  std::vector<float> AnswerTo(Session* session, const Tokens& more) {
    std::vector<float> out;
    ATTNDB_EXPECT_OK(model_.Step(session, more, &out));
    return out;
  }
  // A session by the whole prompt has the cuts, and answers as the one that never ended.
  void ExpectFound(const DB& db, const std::string& context = "") {
    Session never_ended = CutSession();
    ATTNDB_ASSERT_OK_AND_ASSIGN(
        SessionStart start,
        db.CreateSession(model_.spec(), Concat(all_, more_), {.context = context}));
    EXPECT_EQ(start.session.num_reused(), 800u);
    EXPECT_EQ(start.rest, more_);
    EXPECT_EQ(start.session.cuts(), never_ended.cuts());
    EXPECT_EQ(start.session.next_position(), 800);
    ExpectNear(AnswerTo(&start.session, more_), AnswerTo(&never_ended, more_));
  }

  const Tokens all_ = ToyModel::Tokens(800, 1);
  const Tokens more_ = ToyModel::Tokens(9, 2);
};

TEST_F(CutContextsTest, TheWholePromptFindsItAfterARestart) {
  {
    Session session = CutSession();
    ATTNDB_ASSERT_OK(db_->Store(session, all_, {.name = "chat"}));
    EXPECT_EQ(session.cuts().size(), 2u);
  }
  ExpectFound(*db_);
  Open();
  ExpectFound(*db_);
  ExpectFound(*db_, "chat");
  const ContextInfo info = *db_->Describe("chat");
  EXPECT_THAT(info.cuts, ElementsAre(Cut{500, {{4, 204}}}, Cut{700, {{204, 404}}}));
  EXPECT_EQ(info.num_dropped, 400u);
  EXPECT_EQ(info.num_tokens, 800u);
  EXPECT_TRUE(db_->Verify()->ok());
  // The kept tokens alone find the first tokens, which no cut changed.
  Tokens kept(all_.begin(), all_.begin() + 4);
  kept = Concat(kept, std::span(all_).subspan(404));
  EXPECT_EQ(Start(kept).session.num_reused(), 4u);
  // A prompt that leaves the history before a cut has tokens that saw everything.
  SessionStart before = Start(Concat(std::span(all_).first(499), Tokens{7, 8}));
  EXPECT_EQ(before.session.num_reused(), 499u);
  EXPECT_THAT(before.session.cuts(), IsEmpty());
  ATTNDB_ASSERT_OK(model_.Step(&before.session, before.rest));
  ExpectOracle(&before.session, Concat(std::span(all_).first(499), Tokens{7, 8}));
}

TEST_F(CutContextsTest, WhoWantsAllTokensSeenGetsThat) {
  Session session = CutSession();
  ATTNDB_ASSERT_OK(db_->Store(session, all_, {.name = "chat"}));
  for (const std::string context : {"", "chat"}) {
    SessionStart start = Start(Concat(all_, more_), {.context = context, .truncated = false});
    EXPECT_GE(start.session.num_reused(), 448u) << context;
    EXPECT_LT(start.session.num_reused(), 500u) << context;
    EXPECT_THAT(start.session.cuts(), IsEmpty());
    ATTNDB_ASSERT_OK(model_.Step(&start.session, start.rest));
    ExpectOracle(&start.session, Concat(all_, more_));
  }
  const PrefixExplain explain = *db_->ExplainPrefix(model_.spec(), Concat(all_, more_));
  EXPECT_EQ(explain.num_reused, 800u);
  EXPECT_THAT(explain.reasons, ::testing::Contains(HasSubstr("400 of its tokens have left")));
}

// A chat stores turn by turn; segments are merged; the chat continues behind the cuts.
TEST_F(CutContextsTest, AChatGoesOnTurnByTurnAndItsSegmentsMerge) {
  Session session = NewSession();
  Tokens held;
  for (int turn = 0; turn < 40; ++turn) {
    const Tokens said = ToyModel::Tokens(30, 100 + static_cast<uint64_t>(turn));
    if (session.num_tokens() - session.num_dropped() + said.size() > 200) {
      ATTNDB_ASSERT_OK(session.DropOldest(100, {.keep_first = 4}));
    }
    held = Concat(held, said);
    ATTNDB_ASSERT_OK(model_.Step(&session, said));
    ATTNDB_ASSERT_OK(
        db_->Store(session, held, {.name = "chat", .replace = true, .drop_base = true}));
  }
  EXPECT_EQ(session.cuts().size(), 10u);
  ATTNDB_ASSERT_OK(db_->Compact());
  EXPECT_LT(db_->Describe("chat")->segments.size(), 10u);
  EXPECT_TRUE(db_->Verify()->ok());
  SessionStart start = Start(Concat(held, more_));
  EXPECT_EQ(start.session.num_reused(), 1200u);
  EXPECT_EQ(start.session.cuts(), session.cuts());
  ExpectNear(AnswerTo(&start.session, more_), AnswerTo(&session, more_));
}

TEST_F(CutContextsTest, ForksAndCropsAreStoredAsWhatTheyAre) {
  Session session = CutSession();
  ATTNDB_ASSERT_OK_AND_ASSIGN(Session fork, session.Fork());
  ATTNDB_ASSERT_OK(db_->Store(fork, all_, {.name = "fork"}));
  ExpectFound(*db_);
  // To the first cut alone.
  ATTNDB_ASSERT_OK(session.Crop(650));
  const Tokens cropped(all_.begin(), all_.begin() + 650);
  ATTNDB_ASSERT_OK(db_->Store(session, cropped, {.name = "cropped"}));
  EXPECT_EQ(db_->Describe("cropped")->num_dropped, 200u);
  // Before all cuts: other K and V for the same tokens.
  ATTNDB_ASSERT_OK(session.Crop(450));
  ATTNDB_ASSERT_OK(model_.Step(&session, std::span(all_).subspan(450)));
  ATTNDB_ASSERT_OK(db_->Store(session, all_, {.name = "whole"}));
  EXPECT_EQ(db_->Describe("whole")->num_dropped, 0u);
  SessionStart start = Start(Concat(all_, more_));
  EXPECT_THAT(start.session.cuts(), IsEmpty()) << "of equally long ones, what saw all";
  ATTNDB_ASSERT_OK(model_.Step(&start.session, start.rest));
  ExpectOracle(&start.session, Concat(all_, more_));
  ExpectFound(*db_, "fork");
}

// Nothing new but a cut is another history.
TEST_F(CutContextsTest, ACutAloneIsStored) {
  Session session = NewSession();
  ATTNDB_ASSERT_OK(model_.Step(&session, all_));
  ATTNDB_ASSERT_OK_AND_ASSIGN(const ContextId whole, db_->Store(session, all_, {}));
  ATTNDB_ASSERT_OK(session.DropOldest(300, {.keep_first = 4}));
  ATTNDB_ASSERT_OK_AND_ASSIGN(const ContextId cut, db_->Store(session, all_, {}));
  EXPECT_NE(whole, cut);
  EXPECT_EQ(*db_->Store(session, all_, {}), cut);
  const std::string label = IdName(cut);
  SessionStart start = Start(Concat(all_, more_), {.context = label});
  EXPECT_EQ(start.session.num_dropped(), 300u);
  EXPECT_EQ(Start(Concat(all_, more_)).session.num_dropped(), 0u);
}

TEST_F(CutContextsTest, AStoreBehindTheSessionKeepsItsCuts) {
  Session session = CutSession();
  ATTNDB_ASSERT_OK_AND_ASSIGN(const PendingStore pending,
                              db_->StoreAsync(session, all_, {.name = "chat"}));
  ATTNDB_ASSERT_OK(session.DropOldest(100, {.keep_first = 4}));
  ATTNDB_ASSERT_OK(model_.Step(&session, more_));
  ATTNDB_ASSERT_OK(pending.Wait());
  EXPECT_EQ(db_->Describe("chat")->cuts.size(), 2u);
  ExpectFound(*db_);
  ATTNDB_ASSERT_OK(db_->Store(session, Concat(all_, more_), {.name = "on"}));
  EXPECT_EQ(db_->Describe("on")->cuts.size(), 3u);
}

TEST_F(CutContextsTest, GoesThroughAFile) {
  Session session = CutSession();
  ATTNDB_ASSERT_OK(db_->Store(session, all_, {.name = "chat"}));
  const std::string path = dir_.File("chat.safetensors");
  ATTNDB_ASSERT_OK(ExportKvFile(*db_, "chat", path));
  ATTNDB_ASSERT_OK_AND_ASSIGN(const KvFileReader reader, KvFileReader::Open(path));
  EXPECT_EQ(reader.contents().cuts, session.cuts());
  ATTNDB_ASSERT_OK_AND_ASSIGN(const DB other, DB::Open(dir_.File("other")));
  // It holds the same tokens, computed with all of them: no part of these may be taken for more.
  ATTNDB_ASSERT_OK(
      other.Import(model_.spec(), all_, test::KvArrays(model_, all_).layers(), {.name = "whole"}));
  ATTNDB_ASSERT_OK(reader.Import(other, {.store = {.name = "copy"}}));
  EXPECT_EQ(other.Describe("copy")->cuts, session.cuts());
  ExpectFound(other, "copy");
  EXPECT_THAT(other.Describe("whole")->cuts, IsEmpty());
  EXPECT_TRUE(other.Verify()->ok());
  // The reverse: arrays that saw everything, beside tokens that did not.
  ATTNDB_ASSERT_OK(
      db_->Import(model_.spec(), all_, test::KvArrays(model_, all_).layers(), {.name = "whole"}));
  SessionStart start = Start(Concat(all_, more_), {.context = "whole"});
  EXPECT_THAT(start.session.cuts(), IsEmpty());
  ATTNDB_ASSERT_OK(model_.Step(&start.session, start.rest));
  ExpectOracle(&start.session, Concat(all_, more_));
}

TEST_F(CutContextsTest, SeveralContextsInOneSessionHaveLostNothing) {
  Session session = CutSession();
  ATTNDB_ASSERT_OK(db_->Store(session, all_, {.name = "chat"}));
  ATTNDB_ASSERT_OK(StoreTokens(more_, {.name = "b"}));
  const std::vector<std::string> both = {"b", "chat"};
  EXPECT_THAT(db_->CreateSessionOver(model_.spec(), both),
              FailsWith(StatusCode::kFailedPrecondition,
                        HasSubstr("tokens have left context 'chat', the first of them at 500")));
}

}  // namespace
}  // namespace attndb
