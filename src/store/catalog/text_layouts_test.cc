// Goal:   a context has the layout of its text that it was stored with, until it is stored with
//         another one, whatever its name; a catalog of before has none.
// Method: contexts that are published, grow, are renamed and dropped; a catalog of version 7; rows
//         changed by SQL.
#include "store/catalog/text_layouts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "store/catalog/catalog_test_util.h"
#include "testing/matchers.h"

namespace attndb::store {
namespace {

using ::attndb::test::FailsWith;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

const TextLayout kDocument = {TextForm::kDocument, {{TextRole::kUser, {2, 10}}}};
const TextLayout kDialogue = {TextForm::kDialogue,
                              {{TextRole::kUser, {2, 10}}, {TextRole::kAssistant, {12, 15}}}};

class TextLayoutsTest : public CatalogTest {
 protected:
  TextLayout Layout(const std::string& context) {
    const auto record = harness_->contexts()->Find(tenant(), context);
    return harness_->contexts()->TextOf(record.value()).value();
  }
  void Change(const char* sql) {
    harness_.Close();
    ATTNDB_ASSERT_OK(SqliteDatabase::Open(harness_.path(), SqliteDatabase::Mode::kReadWrite)
                         .value()
                         ->Execute(sql));
  }
  int64_t NumRows() {
    harness_.Close();
    const auto database =
        SqliteDatabase::Open(harness_.path(), SqliteDatabase::Mode::kReadWrite).value();
    Query query = database->Select("SELECT count(*) FROM text_layouts");
    EXPECT_TRUE(query.Step().value());
    return query.Int(0);
  }
};

TEST_F(TextLayoutsTest, ItStaysWithTheContext) {
  const auto id = harness_.MustPublish(Range(0, 10), {.name = "a", .text_layout = kDocument});
  harness_.MustPublish(Range(50, 10), {.name = "bare"});
  harness_.Reopen();
  EXPECT_EQ(Layout("a"), kDocument);
  EXPECT_EQ(Layout("bare"), TextLayout());
  ATTNDB_ASSERT_OK(harness_->contexts()->Rename(tenant(), id, "b"));
  EXPECT_EQ(Layout("b"), kDocument);
  // It grows, and is a dialogue then; and once more, without a word.
  harness_.MustPublish(
      Range(0, 15),
      {.name = "b", .replace = true, .base = id, .num_shared = 10, .text_layout = kDialogue});
  EXPECT_EQ(Layout("b"), kDialogue);
  harness_.MustPublish(Range(0, 16), {.name = "b", .replace = true, .base = id, .num_shared = 15});
  EXPECT_EQ(Layout("b"), TextLayout());
  EXPECT_THAT(harness_->Verify().value(), IsEmpty());
}

TEST_F(TextLayoutsTest, PiecesThatLeftStayNotedAlsoWhereNoMessageIsKnown) {
  TextLayout text;
  text.left_out = {{2, 4}, {7, 8}};
  harness_.MustPublish(Range(0, 10), {.name = "a", .text_layout = text});
  harness_.Reopen();
  EXPECT_EQ(Layout("a"), text);
  EXPECT_THAT(harness_->Verify().value(), IsEmpty());
}

TEST_F(TextLayoutsTest, ItGoesWithTheContext) {
  const auto id = harness_.MustPublish(Range(0, 10), {.name = "a", .text_layout = kDocument});
  ATTNDB_ASSERT_OK(harness_->contexts()->Drop(tenant(), id));
  EXPECT_EQ(NumRows(), 0);
  harness_.Reopen();
}

TEST_F(TextLayoutsTest, OneThatCannotBeIsRefused) {
  EXPECT_THAT(harness_.Publish(Range(0, 9), {.text_layout = kDocument}).status(),
              FailsWith(StatusCode::kInvalidArgument, HasSubstr("tokens 2 to 10")));
}

TEST_F(TextLayoutsTest, ACatalogOfBeforeHasNoneUntilAWriterAddsThem) {
  harness_.MustPublish(Range(0, 10), {.name = "a"});
  Change((std::string(kDropNotes) + "; DROP TABLE text_layouts; PRAGMA user_version = 7").c_str());
  {
    ATTNDB_ASSERT_OK_AND_ASSIGN(const auto reader, harness_.Open(/*read_only=*/true));
    const auto record = reader->contexts()->Find(tenant(), "a");
    EXPECT_EQ(reader->contexts()->TextOf(record.value()).value(), TextLayout());
    EXPECT_THAT(reader->Verify().value(), IsEmpty());
  }
  harness_.Reopen();
  EXPECT_EQ(Layout("a"), TextLayout());
  harness_.MustPublish(Range(0, 11), {.name = "b", .text_layout = kDocument});
  EXPECT_EQ(Layout("b"), kDocument);
}

TEST_F(TextLayoutsTest, ARowThatNoWriterStoresIsFoundByVerifyAndHarmsNothing) {
  harness_.MustPublish(Range(0, 10), {.name = "a", .text_layout = kDocument});
  for (const char* const sql : {"UPDATE text_layouts SET text = 'novel'",
                                "UPDATE text_layouts SET text = 'document user:2-11'"}) {
    Change(sql);
    harness_.Reopen();
    EXPECT_EQ(Layout("a"), TextLayout());
    EXPECT_THAT(harness_->Verify().value(), ElementsAre(HasSubstr("context 1: text")));
  }
  harness_.MustPublish(Range(0, 10), {.name = "a", .replace = true, .text_layout = kDocument});
  EXPECT_EQ(Layout("a"), kDocument) << "which mends it";
}

}  // namespace
}  // namespace attndb::store
