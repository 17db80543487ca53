// Goal:   the contents of messages are found in a prompt, also trimmed, and never in the template's
//         own words.
// Method: prompts and contents by hand.
#include "engines/llama/message_places.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace attndb::llama {
namespace {

using ::testing::ElementsAre;

using Strings = std::vector<std::string>;

std::vector<std::string> Words(std::string_view prompt, const std::vector<ByteRange>& ranges) {
  std::vector<std::string> words;
  for (const ByteRange& range : ranges) {
    words.push_back(std::to_string(range.begin) + ":" +
                    std::string(prompt.substr(range.begin, range.end - range.begin)));
  }
  return words;
}

TEST(MessagePlacesTest, ContentsAreFoundInOrder) {
  const std::string prompt = "[user] Hello [assistant] Hi [user] Hello";
  EXPECT_THAT(Words(prompt, *PlacesByWords(prompt, Strings{"Hello", "Hi", "Hello"})),
              ElementsAre("7:Hello", "25:Hi", "35:Hello"));
}

TEST(MessagePlacesTest, ATrimmedContentIsFoundAndOneThatIsLeftOutIsNot) {
  const std::string prompt = "[user]Hello[assistant]Hi";
  EXPECT_THAT(Words(prompt, *PlacesByWords(prompt, Strings{" Hello\n", "gone", "", "Hi"})),
              ElementsAre("6:Hello", "11:", "11:", "22:Hi"));
}

TEST(MessagePlacesTest, WordsOfTheTemplateMakeAContentUncertain) {
  const std::string prompt = "<user>user<assistant>";
  EXPECT_FALSE(PlacesByWords(prompt, Strings{"user"}));
  EXPECT_FALSE(PlacesByWords(prompt, Strings{"s"}));
  EXPECT_THAT(Words(prompt, FirstPlaces(prompt, Strings{"user"})), ElementsAre("1:user"));
  const std::string markup = "<user>" + Placeholder(0) + "<assistant>";
  EXPECT_THAT(Words(prompt, *PlacesByMarkup(prompt, markup, Strings{"user"})),
              ElementsAre("6:user"));
}

TEST(MessagePlacesTest, PlaceholdersShowWhereContentsAre) {
  const std::string markup =
      "A" + Placeholder(0) + "B" + Placeholder(1) + "C" + Placeholder(3) + Placeholder(4);
  const Strings contents = {"B", " x ", "", "CC", "D"};
  EXPECT_THAT(Words("ABBxCCCD", *PlacesByMarkup("ABBxCCCD", markup, contents)),
              ElementsAre("1:B", "3:x", "4:", "5:CC", "7:D"));
  EXPECT_THAT(Words("ABB x CCCD", *PlacesByMarkup("ABB x CCCD", markup, contents)),
              ElementsAre("1:B", "3: x ", "6:", "7:CC", "9:D"));
  for (const char* other : {"", "A", "ABBxCCC", "ABByCCCD", "ABBxCCCDE", "XBBxCCCD"}) {
    EXPECT_FALSE(PlacesByMarkup(other, markup, contents)) << other;
  }
}

TEST(MessagePlacesTest, AContentThatTheTemplateLeavesOutHasNoPlace) {
  const std::string markup = "A" + Placeholder(1) + "B";
  EXPECT_THAT(Words("AyB", *PlacesByMarkup("AyB", markup, Strings{"x", "y"})),
              ElementsAre("0:", "1:y"));
  EXPECT_THAT(Words("AB", *PlacesByMarkup("AB", "AB", Strings{"x"})), ElementsAre("0:"));
}

TEST(MessagePlacesTest, APromptThatHidesManyContentsIsSearchedOnce) {
  const Strings contents(10'000, "gone");
  EXPECT_EQ(FirstPlaces(std::string(1 << 20, 'x'), contents).size(), contents.size());
}

}  // namespace
}  // namespace attndb::llama
