// Goal:   a title and a note come back from metadata unchanged; invalid ones count as none.
// Method: notes whose lengths lie at the borders of pieces; metadata of other builds.
#include "api/kv_file/kv_file_notes.h"

#include <gtest/gtest.h>

#include <map>
#include <string>

#include "attndb/options.h"

namespace attndb::internal {
namespace {

using Keys = std::map<std::string, std::string>;

TEST(KvFileNotesTest, TheyComeBackAsTheyWere) {
  constexpr size_t kPiece = size_t{1} << 20;
  for (const size_t num_bytes : {size_t{0}, size_t{1}, kPiece, kPiece + 1, 3 * kPiece}) {
    std::string note(num_bytes, '\xff');
    if (num_bytes > 0) note.back() = '\0';
    Keys keys;
    PutTitleAndNote("Яблоко", note, &keys);
    EXPECT_EQ(keys.size(), 1 + (num_bytes + kPiece - 1) / kPiece);
    EXPECT_EQ(TitleIn(keys), "Яблоко");
    EXPECT_TRUE(NoteIn(keys) == note) << num_bytes;
  }
  Keys none;
  PutTitleAndNote("", "", &none);
  EXPECT_TRUE(none.empty());
  EXPECT_EQ(TitleIn(none) + NoteIn(none), "");
}

TEST(KvFileNotesTest, WhatCanNotBeReadIsNone) {
  EXPECT_EQ(TitleIn({{"note.attndb_title", "two\nlines"}}), "");
  EXPECT_EQ(NoteIn({{"note.attndb_note_0", "616"}}), "");
  EXPECT_EQ(NoteIn({{"note.attndb_note_0", "61"}, {"note.attndb_note_1", "novel"}}), "");
  EXPECT_EQ(NoteIn({{"note.attndb_note_1", "61"}}), "") << "it has no beginning";
  const std::string too_long(2 * StoreOptions::kMaxNoteBytes, '6');
  EXPECT_EQ(NoteIn({{"note.attndb_note_0", too_long}, {"note.attndb_note_1", "66"}}), "");
}

}  // namespace
}  // namespace attndb::internal
