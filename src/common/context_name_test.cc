// Goal:   letters of every language are valid in names; characters with a meaning to a path, a
//         shell or a terminal are not.
// Method: borders of lengths and alphabets.
#include "attndb/context_name.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "testing/matchers.h"

namespace attndb {
namespace {

using ::attndb::test::FailsWith;
using ::testing::HasSubstr;

TEST(ContextName, MayLookLikeAPath) {
  ATTNDB_EXPECT_OK(CheckContextName(std::string(121, 'a') + "/:@+-_."));
  EXPECT_EQ(CheckContextName(std::string(129, 'a')).code(), StatusCode::kInvalidArgument);
  for (const char* const name : {"", "#1", "a b", "a\"", "*", "a\\b", "a'b", "a\n", "a\x7f"}) {
    EXPECT_EQ(CheckContextName(name).code(), StatusCode::kInvalidArgument) << name;
  }
}

TEST(ContextName, HasLettersOfEveryLanguage) {
  for (const char* const name : {"яблоко", "груша-2", "naïve", "文書", "αβγ", "ספר", "a😀"}) {
    ATTNDB_EXPECT_OK(CheckContextName(name)) << name;
  }
  std::string long_name;
  for (int i = 0; i < 64; ++i) long_name += "я";
  ATTNDB_EXPECT_OK(CheckContextName(long_name));
  EXPECT_EQ(CheckContextName(long_name + "a").code(), StatusCode::kInvalidArgument);
}

TEST(ContextName, IsUtf8ThatIsSeen) {
  for (const char* const name : {"\xff", "a\xc3", "a\xc2\xa0z", "a\xe2\x80\xaez", "a\xc2\x9bz",
                                 "a\xe3\x80\x80z", "\xed\xa0\x80"}) {
    EXPECT_EQ(CheckContextName(name).code(), StatusCode::kInvalidArgument) << name;
  }
}

TEST(ContextName, AMessageShowsNothingThatATerminalObeys) {
  EXPECT_THAT(CheckContextName("я\x1b[2Jb"),
              FailsWith(StatusCode::kInvalidArgument, HasSubstr("'я?[2Jb': expected 1 to 128")));
  EXPECT_LT(CheckContextName(std::string(100'000, 'x')).message().size(), 300u);
}

TEST(ContextName, AnIdIsANameThatNoContextCanBeGiven) {
  EXPECT_EQ(IdName(static_cast<ContextId>(12)), "#12");
  EXPECT_EQ(CheckContextName(IdName(static_cast<ContextId>(12))).code(),
            StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace attndb
