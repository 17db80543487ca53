// Goal:   a context has the title and the note that it was stored with, and names the context that
//         it continues, as long as both are there; a catalog of before has none of these.
// Method: contexts that are published, grow, are replaced, renamed and dropped; a catalog of
//         version 8; rows changed by SQL.
#include "store/catalog/context_notes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "attndb/options.h"
#include "store/catalog/catalog_test_util.h"
#include "testing/matchers.h"

namespace attndb::store {
namespace {

using ::attndb::test::FailsWith;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class ContextNotesTest : public CatalogTest {
 protected:
  ContextDetail Describe(const std::string& context) {
    const ContextRecord record = harness_->contexts()->Find(tenant(), context).value();
    return harness_->contexts()->Describe(tenant(), record.id).value();
  }
  std::string Title(const std::string& context) { return Describe(context).title; }
  std::string Note(const std::string& context) {
    return harness_->contexts()
        ->NoteOf(harness_->contexts()->Find(tenant(), context).value())
        .value();
  }
  // The label of the context that this one continues; "" = none.
  std::string Continues(const std::string& context) {
    const ContextNumber number = Describe(context).continues;
    if (number == ContextNumber::kNone) return "";
    return harness_->contexts()->Find(tenant(), NumberLabel(number))->Label();
  }
  // A context that goes on from the first tokens of another one.
  ContextId GoOn(ContextId base, size_t num_shared, size_t num_tokens, Published options = {}) {
    options.base = base;
    options.num_shared = num_shared;
    return harness_.MustPublish(Range(0, num_tokens), options);
  }
  // Goes on otherwise than all others: its first num_shared tokens alone are theirs.
  ContextId Part(ContextId base, size_t num_shared, size_t num_tokens, Published options = {}) {
    options.base = base;
    options.num_shared = num_shared;
    std::vector<TokenId> tokens = Range(0, num_shared);
    const std::vector<TokenId> rest = Range(next_other_, num_tokens - num_shared);
    tokens.insert(tokens.end(), rest.begin(), rest.end());
    next_other_ += 1000;
    return harness_.MustPublish(tokens, options);
  }
  void Drop(ContextId id) { ATTNDB_ASSERT_OK(harness_->contexts()->Drop(tenant(), id)); }
  int64_t NumRows(const char* sql) {
    harness_.Close();
    int64_t num_rows = 0;
    {
      const auto database =
          SqliteDatabase::Open(harness_.path(), SqliteDatabase::Mode::kReadWrite).value();
      Query query = database->Select(sql);
      EXPECT_TRUE(query.Step().value());
      num_rows = query.Int(0);
    }
    harness_.Reopen();
    return num_rows;
  }

  TokenId next_other_ = 10'000;
};

TEST_F(ContextNotesTest, TheyStayWithTheContext) {
  const std::string note("any\0bytes\xff", 10);
  const auto id =
      harness_.MustPublish(Range(0, 10), {.name = "a", .title = "What is it?", .note = note});
  harness_.MustPublish(Range(50, 10), {.name = "bare"});
  harness_.Reopen();
  EXPECT_EQ(Title("a"), "What is it?");
  EXPECT_EQ(Note("a"), note);
  EXPECT_EQ(Title("bare"), "");
  EXPECT_EQ(Note("bare"), "");
  ATTNDB_ASSERT_OK(harness_->contexts()->Rename(tenant(), id, "b"));
  EXPECT_EQ(Title("b"), "What is it?");
  EXPECT_EQ(Note("b"), note);
  EXPECT_THAT(harness_->Verify().value(), IsEmpty());
}

TEST_F(ContextNotesTest, AContextThatGrowsKeepsThemUnlessItGetsNewOnes) {
  const auto id = GoOn(ContextId::kNone, 0, 10, {.name = "a", .title = "first", .note = "n"});
  GoOn(id, 10, 15, {.name = "a", .replace = true});
  EXPECT_EQ(Title("a") + Note("a"), "firstn");
  GoOn(id, 15, 20, {.name = "a", .replace = true, .title = "second"});
  EXPECT_EQ(Title("a") + Note("a"), "secondn");
  GoOn(id, 20, 25, {.name = "a", .replace = true, .note = "m"});
  EXPECT_EQ(Title("a") + Note("a"), "secondm");

  const auto unnamed = GoOn(id, 25, 30, {.title = "third"});
  EXPECT_EQ(GoOn(unnamed, 30, 35, {.name = "b", .drop_base = true}), unnamed);
  EXPECT_EQ(Title("b") + Note("b"), "third");
}

TEST_F(ContextNotesTest, NoOtherContextTakesThemOver) {
  const auto id = GoOn(ContextId::kNone, 0, 10, {.name = "a", .title = "first", .note = "n"});
  GoOn(id, 10, 15, {.name = "b"});
  EXPECT_EQ(Title("b") + Note("b"), "");
  GoOn(id, 8, 8, {.name = "a", .replace = true});
  EXPECT_EQ(Title("a") + Note("a"), "") << "other tokens";
}

// Its base is of a model that is declared equal, so that it is dropped and does not grow.
TEST_F(ContextNotesTest, AContextInThePlaceOfItsBaseKeepsThem) {
  const auto named = GoOn(ContextId::kNone, 0, 10, {.name = "a", .title = "first", .note = "n"});
  const auto unnamed = GoOn(named, 10, 12, {.title = "second", .note = "m"});
  ATTNDB_ASSERT_OK(harness_->owners()->DeclareEqual(tenant(), "weights", "same"));
  harness_.set_spec(TestSpec("same"));
  EXPECT_NE(GoOn(named, 10, 15, {.name = "a", .replace = true, .note = "x"}), named);
  EXPECT_EQ(Title("a") + Note("a"), "firstx");
  EXPECT_NE(GoOn(unnamed, 12, 16, {.name = "b", .drop_base = true, .title = "y"}), unnamed);
  EXPECT_EQ(Title("b") + Note("b"), "ym");
  EXPECT_EQ(Continues("b"), "a") << "it begins with all that \"a\" has now";
}

TEST_F(ContextNotesTest, TheyGoWithTheContext) {
  const auto id = GoOn(ContextId::kNone, 0, 10, {.name = "a", .title = "t", .note = "n"});
  Drop(GoOn(id, 10, 15, {.title = "t", .note = "n"}));
  Drop(id);
  EXPECT_EQ(NumRows("SELECT (SELECT count(*) FROM context_titles) + "
                    "(SELECT count(*) FROM context_notes) + (SELECT count(*) FROM continuations)"),
            0);
}

TEST_F(ContextNotesTest, WhatIsNoTitleAndNoNoteIsRefused) {
  EXPECT_THAT(harness_.Publish(Range(0, 9), {.title = "a\nb"}),
              FailsWith(StatusCode::kInvalidArgument, HasSubstr("title has U+000A at byte 1")));
  EXPECT_THAT(
      harness_.Publish(Range(0, 9), {.note = std::string(StoreOptions::kMaxNoteBytes + 1, 'n')}),
      FailsWith(StatusCode::kInvalidArgument,
                HasSubstr("note has 16,777,217 bytes, expected at most 16,777,216")));
  EXPECT_THAT(harness_->contexts()->List(tenant()).value(), IsEmpty());
  const std::string longest(StoreOptions::kMaxNoteBytes, '\xff');
  harness_.MustPublish(Range(0, 9), {.name = "a", .title = std::string(256, 't'), .note = longest});
  harness_.Reopen();
  EXPECT_TRUE(Note("a") == longest);
}

// --- The bytes of notes.

TEST_F(ContextNotesTest, TheirBytesFollowThem) {
  const auto note_bytes = [this] { return harness_->Stats(tenant())->note_bytes; };
  EXPECT_EQ(note_bytes(), 0u);
  const auto a = GoOn(ContextId::kNone, 0, 10, {.name = "a", .note = std::string("\0two", 4)});
  const auto b = GoOn(a, 10, 15, {.name = "b", .note = std::string(1000, 'n')});
  GoOn(b, 15, 20, {.name = "bare"});
  EXPECT_EQ(note_bytes(), 1004u);
  GoOn(a, 10, 12, {.name = "a", .replace = true, .note = "longer"});
  EXPECT_EQ(note_bytes(), 1006u) << "in place of the first";
  const auto unnamed = GoOn(b, 15, 17, {.note = "seven"});
  GoOn(unnamed, 17, 19, {.name = "c", .drop_base = true});
  EXPECT_EQ(note_bytes(), 1011u) << "it keeps its note";
  Drop(b);
  EXPECT_EQ(note_bytes(), 11u);
  harness_.Reopen();
  EXPECT_EQ(note_bytes(), 11u);
  Drop(a);
  EXPECT_EQ(note_bytes(), 5u);
}

TEST_F(ContextNotesTest, AContextThatTakesAnothersNoteIsCountedOnce) {
  const auto named = GoOn(ContextId::kNone, 0, 10, {.name = "a", .note = "four"});
  ATTNDB_ASSERT_OK(harness_->owners()->DeclareEqual(tenant(), "weights", "same"));
  harness_.set_spec(TestSpec("same"));
  EXPECT_NE(GoOn(named, 10, 15, {.name = "a", .replace = true}), named);
  EXPECT_EQ(Note("a"), "four");
  EXPECT_EQ(harness_->Stats(tenant())->note_bytes, 4u);
}

TEST_F(ContextNotesTest, TheirBytesAreOfTheTenantAndTheContext) {
  const auto bare = GoOn(ContextId::kNone, 0, 10, {.name = "bare"});
  const uint64_t segment_bytes = Describe("bare").file_bytes;
  GoOn(bare, 10, 10, {.name = "noted", .note = std::string(100, 'n')});
  const ContextDetail noted = Describe("noted");
  EXPECT_EQ(noted.file_bytes, segment_bytes + 100);
  EXPECT_EQ(noted.own_bytes, 100u);
  const TenantId other = harness_->owners()->EnsureTenant("other")->id;
  EXPECT_EQ(harness_->Stats(tenant())->file_bytes, segment_bytes + 100);
  EXPECT_EQ(harness_->Stats(other)->file_bytes, 0u);
  ATTNDB_ASSERT_OK_AND_ASSIGN(const auto reader, harness_.Open(/*read_only=*/true));
  EXPECT_EQ(reader->Stats(tenant())->note_bytes, 100u);
  EXPECT_EQ(reader->Stats(other)->note_bytes, 0u);
}

TEST(DamagedNotesTest, TheyCountNothingAndTheCatalogOpens) {
  CatalogHarness harness;
  const auto id = harness.MustPublish(Range(0, 10), {.name = "a", .note = "note"});
  harness.Close();
  DamageRootPageOf(harness.path(), "context_notes");
  harness.Reopen();
  EXPECT_EQ(harness->Stats(harness.tenant())->note_bytes, 0u);
  EXPECT_THAT(harness->contexts()->NoteOf(harness->contexts()->Get(harness.tenant(), id).value()),
              FailsWith(StatusCode::kCorruption, HasSubstr("page")));
  EXPECT_THAT(harness->Verify().value(), Contains(HasSubstr("page")));
}

// --- What continues what.

TEST_F(ContextNotesTest, AContextContinuesTheWholeOneThatItWentOnFrom) {
  const auto one = GoOn(ContextId::kNone, 0, 100, {.name = "one"});
  EXPECT_EQ(Continues("one"), "");
  const auto two = GoOn(one, 100, 150, {.name = "two"});
  GoOn(two, 150, 200, {.name = "three"});
  GoOn(one, 100, 100, {.name = "copy"});
  GoOn(two, 70, 90, {.name = "part"});
  harness_.Reopen();
  EXPECT_EQ(Continues("two"), "one");
  EXPECT_EQ(Continues("three"), "two");
  EXPECT_EQ(Continues("copy"), "one") << "it has all of its tokens";
  EXPECT_EQ(Continues("part"), "") << "it has a part of its base's";
}

TEST_F(ContextNotesTest, WithoutABaseItContinuesTheLongestThatItBeginsWith) {
  for (const size_t num_first : {size_t{10}, size_t{64}, size_t{100}, size_t{128}}) {
    SCOPED_TRACE(num_first);
    const auto shorter = GoOn(ContextId::kNone, 0, 5, {.name = "shorter"});
    const auto first = GoOn(ContextId::kNone, 0, num_first, {.name = "first"});
    EXPECT_EQ(Continues("first"), "shorter");
    const auto longer = GoOn(ContextId::kNone, 0, 400);
    const auto next = GoOn(ContextId::kNone, 0, 300, {.name = "next"});
    EXPECT_EQ(Continues("next"), "first") << "and not the one that has more tokens";
    EXPECT_THAT(harness_->Verify().value(), IsEmpty());
    for (const ContextId id : {next, longer, first, shorter}) Drop(id);
  }
  harness_.MustPublish(Range(900, 40), {.name = "other"});
  EXPECT_EQ(Continues("other"), "");
}

// A lookup gives the oldest context that has the tokens, whatever it has behind them.
TEST_F(ContextNotesTest, WhereTheBaseHasMoreItContinuesTheContextThatEndsThere) {
  for (const size_t num_shared : {size_t{64}, size_t{100}, size_t{10}}) {
    SCOPED_TRACE(num_shared);
    const auto longer = GoOn(ContextId::kNone, 0, 300);
    const auto shorter = GoOn(longer, num_shared, num_shared, {.name = "shorter"});
    const auto id = Part(longer, num_shared, 310, {.name = "new"});
    EXPECT_EQ(Continues("new"), "shorter");
    for (const ContextId each : {id, shorter, longer}) Drop(each);
  }
}

// Both follow-ups have the role's tokens, and perhaps a word, in common behind the turn.
TEST_F(ContextNotesTest, ASecondWayOnFromATurnContinuesTheTurn) {
  for (const size_t num_first : {size_t{60}, size_t{64}, size_t{100}, size_t{128}}) {
    for (const size_t num_common : {size_t{1}, size_t{7}, size_t{64}, size_t{70}}) {
      SCOPED_TRACE(std::to_string(num_first) + " + " + std::to_string(num_common));
      const auto first = GoOn(ContextId::kNone, 0, num_first, {.name = "first"});
      const auto second = GoOn(first, num_first, num_first + 200);
      const auto branch = Part(second, num_first + num_common, num_first + 180, {.name = "b"});
      EXPECT_EQ(Continues("b"), "first");
      for (const ContextId id : {branch, second, first}) Drop(id);
    }
  }
}

TEST_F(ContextNotesTest, ATurnThatBeganBeforeTheFormerWasStoredContinuesTheFormer) {
  const auto first = GoOn(ContextId::kNone, 0, 100, {.name = "first"});
  GoOn(first, 100, 150, {.name = "second"});
  GoOn(first, 100, 200, {.name = "third"});
  EXPECT_EQ(Continues("third"), "second");
}

// Some of the many contexts that end within one block sort between the new one and its beginning.
TEST_F(ContextNotesTest, BranchesThatSortBetweenDoNotHideTheBeginning) {
  const auto first = GoOn(ContextId::kNone, 0, 70, {.name = "first"});
  for (const size_t num_shared : {size_t{70}, size_t{71}, size_t{72}, size_t{75}, size_t{80}}) {
    std::vector<TokenId> tokens = Range(0, num_shared + 10);
    tokens[num_shared] = 0;
    harness_.MustPublish(tokens, {.base = first, .num_shared = 70});
  }
  GoOn(ContextId::kNone, 0, 90, {.name = "next"});
  EXPECT_EQ(Continues("next"), "first");
}

TEST_F(ContextNotesTest, AContextThatGoesLeavesItsPlaceToTheOneThatItContinues) {
  const auto one = GoOn(ContextId::kNone, 0, 100, {.name = "one"});
  const auto two = GoOn(one, 100, 150, {.name = "two"});
  GoOn(two, 150, 200, {.name = "three"});
  Part(two, 150, 210, {.name = "branch"});
  Drop(two);
  EXPECT_EQ(Continues("three"), "one");
  EXPECT_EQ(Continues("branch"), "one");
  Drop(one);
  EXPECT_EQ(Continues("three"), "");
  EXPECT_THAT(harness_->Verify().value(), IsEmpty());
}

// The context's former end is no context any more, and the others do not have its new tokens.
TEST_F(ContextNotesTest, AContextThatGrowsIsNotContinuedByThoseThatWentOnFromWhatItWas) {
  const auto one = GoOn(ContextId::kNone, 0, 100, {.name = "one"});
  const auto two = GoOn(one, 100, 150, {.name = "two"});
  GoOn(two, 150, 200, {.name = "three"});
  GoOn(two, 150, 170, {.name = "two", .replace = true});
  EXPECT_EQ(Continues("two"), "one");
  EXPECT_EQ(Continues("three"), "one");
}

TEST_F(ContextNotesTest, OtherTenantsNumbersAreNotTold) {
  harness_.MustPublish(Range(900, 10));
  harness_.set_tenant(harness_->owners()->EnsureTenant("other")->id);
  harness_.set_spec(TestSpec());
  const auto one = GoOn(ContextId::kNone, 0, 100);
  GoOn(one, 100, 150, {.name = "two"});
  EXPECT_EQ(Describe("two").continues, ContextNumber{1});
}

// --- Catalogs of before, and rows that no writer stores.

TEST_F(ContextNotesTest, ACatalogOfBeforeHasNoneUntilAWriterAddsThem) {
  const auto id = harness_.MustPublish(Range(0, 10), {.name = "a"});
  harness_.Close();
  ChangeRows(harness_.path(), std::string(kDropNotes) + "; PRAGMA user_version = 8");
  {
    ATTNDB_ASSERT_OK_AND_ASSIGN(const auto reader, harness_.Open(/*read_only=*/true));
    const ContextRecord record = reader->contexts()->Find(tenant(), "a").value();
    const ContextDetail detail = reader->contexts()->Describe(tenant(), record.id).value();
    EXPECT_EQ(detail.title, "");
    EXPECT_EQ(detail.continues, ContextNumber::kNone);
    EXPECT_EQ(reader->contexts()->NoteOf(record).value(), "");
    EXPECT_THAT(reader->Verify().value(), IsEmpty());
  }
  harness_.Reopen();
  EXPECT_EQ(Title("a") + Note("a") + Continues("a"), "");
  GoOn(id, 10, 15, {.name = "b", .title = "t", .note = "n"});
  EXPECT_EQ(Title("b") + Note("b") + Continues("b"), "tna");
}

TEST_F(ContextNotesTest, ARowThatNoWriterStoresIsFoundByVerifyAndHarmsNothing) {
  const auto one = GoOn(ContextId::kNone, 0, 100, {.name = "one", .title = "t", .note = "n"});
  GoOn(one, 100, 150, {.name = "two"});
  const struct {
    const char* sql;
    const char* undo;
    const char* finding;
  } cases[] = {
      {"UPDATE context_titles SET title = 'a' || char(10)", "UPDATE context_titles SET title = 't'",
       "context 1: title has U+000A at byte 1"},
      {"PRAGMA ignore_check_constraints = ON; UPDATE context_notes SET note = zeroblob(16777217)",
       "UPDATE context_notes SET note = x'6e'",
       "row 1: context has a note that is empty or too long"},
      {"PRAGMA ignore_check_constraints = ON; UPDATE continuations SET continues = 2",
       "UPDATE continuations SET continues = 1", "row 2: context continues one that is not older"},
      {"UPDATE contexts SET num_tokens = 151 WHERE id = 1",
       "UPDATE contexts SET num_tokens = 100 WHERE id = 1",
       "row 2: context continues one of another tenant, or one that has more tokens"},
      {"PRAGMA foreign_keys = OFF; UPDATE continuations SET continues = -7",
       "UPDATE continuations SET continues = 1", "foreign_key_check: continuations"},
  };
  for (const auto& [sql, undo, finding] : cases) {
    SCOPED_TRACE(sql);
    harness_.Close();
    ChangeRows(harness_.path(), sql);
    harness_.Reopen();
    EXPECT_THAT(harness_->Verify().value(), Contains(HasSubstr(finding)));
    EXPECT_THAT(Title("one"), ::testing::AnyOf("t", ""));
    EXPECT_THAT(Note("one"), ::testing::AnyOf("n", ""));
    (void)Describe("two");
    harness_.Close();
    ChangeRows(harness_.path(), undo);
    harness_.Reopen();
  }
}

}  // namespace
}  // namespace attndb::store
