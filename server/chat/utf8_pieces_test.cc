// Goal:   pieces of a text, cut anywhere, make the text; bytes that are no UTF-8 make some that is.
// Method: cuts at each byte; the sequences that Unicode's table 3-7 excludes.
#include "server/chat/utf8_pieces.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "server/json.h"

namespace attndb::server {
namespace {

constexpr const char* kBad = "\xEF\xBF\xBD";

std::string Whole(const std::vector<std::string>& pieces) {
  Utf8Pieces stream;
  std::string out;
  for (const std::string& piece : pieces) {
    const std::string more = stream.Push(piece);
    EXPECT_TRUE(IsUtf8(more)) << "only whole characters come";
    out += more;
  }
  return out + stream.Finish();
}

TEST(Utf8PiecesTest, ATextCutAnywhereIsTheText) {
  const std::string text = "a\xC3\xA4\xE2\x82\xAC\xF0\x9F\x98\x80z";
  for (size_t first = 0; first <= text.size(); ++first) {
    for (size_t second = first; second <= text.size(); ++second) {
      EXPECT_EQ(
          Whole({text.substr(0, first), text.substr(first, second - first), text.substr(second)}),
          text);
    }
  }
}

TEST(Utf8PiecesTest, BytesOfNoCharacterAreReplaced) {
  for (const char* const bytes : {"\x80", "\xC0", "\xC1", "\xF5", "\xFF"}) {
    EXPECT_EQ(Whole({std::string("a") + bytes + "b"}), std::string("a") + kBad + "b");
  }
  // Overlong forms, surrogates, and beyond the last character: the second byte fits no lead.
  for (const char* const bytes : {"\xE0\x80", "\xED\xA0", "\xF0\x80", "\xF4\x90"}) {
    EXPECT_EQ(Whole({bytes, "b"}), std::string(kBad) + kBad + "b");
  }
}

TEST(Utf8PiecesTest, ACharacterThatNeverEndsIsReplaced) {
  EXPECT_EQ(Whole({"a\xE2\x82"}), std::string("a") + kBad + kBad);
  EXPECT_EQ(Whole({"\xE2", "(", "\x82"}), std::string(kBad) + "(" + kBad);
}

}  // namespace
}  // namespace attndb::server
