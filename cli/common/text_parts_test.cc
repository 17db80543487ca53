// Goal:   parts are the text without a gap, none has more tokens than it may, and they end at the
//         best places that there are.
// Method: a token a word, or a byte; texts by hand and at random.
// Replay: ATTNDB_SEED.
#include "cli/common/text_parts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <random>
#include <string>
#include <vector>

namespace attndb::cli {
namespace {

using ::testing::ElementsAre;

Result<uint64_t> CountWords(std::string_view piece) {
  uint64_t count = 0;
  bool in_word = false;
  for (const char c : piece) {
    const bool is_space = c == ' ' || c == '\n';
    if (!is_space && !in_word) ++count;
    in_word = !is_space;
  }
  return count;
}

Result<uint64_t> CountBytes(std::string_view piece) { return piece.size(); }

std::vector<std::string> Parts(const std::string& text, uint64_t most_tokens,
                               const CountTokens& count) {
  const auto parts = PartsOf(text, most_tokens, count);
  EXPECT_TRUE(parts.ok()) << parts.status();
  if (!parts.ok()) return {};
  return {parts->begin(), parts->end()};
}

TEST(TextPartsTest, AHeadingIsABetterPlaceThanAParagraph) {
  const std::string text =
      "# One\n\na b c d e f\n\ng h i j\n\n## Two\n\nk l m n o\n\np q r s\nt u v w\n";
  // The heading is 12 words in, and a paragraph ends behind 20.
  EXPECT_THAT(Parts(text, 20, CountWords),
              ElementsAre("# One\n\na b c d e f\n\ng h i j\n\n",
                          "## Two\n\nk l m n o\n\np q r s\nt u v w\n"));
  EXPECT_THAT(Parts(text, 100, CountWords), ElementsAre(text));
}

TEST(TextPartsTest, TitlesMayBeUnderlined) {
  const std::string text = "One\n===\n\na b c d e f g\n\nTwo\n---\n\nh i j\n\nk l m n o p q\n";
  EXPECT_THAT(Parts(text, 15, CountWords),
              ElementsAre("One\n===\n\na b c d e f g\n\n", "Two\n---\n\nh i j\n\nk l m n o p q\n"));
}

TEST(TextPartsTest, WhatBeginsLikeAHeadingInCodeIsNone) {
  const std::string text = "a b c d e\n```\nf g\n# h\ni j k l\n```\n\nm n o p q r\n";
  EXPECT_THAT(Parts(text, 16, CountWords),
              ElementsAre("a b c d e\n```\nf g\n# h\ni j k l\n```\n\n", "m n o p q r\n"));
}

TEST(TextPartsTest, WithoutLinesItEndsAtSentencesOrWords) {
  std::string text;
  for (int i = 0; i < 40; ++i) text += "One word more. And two. ";
  for (const std::string& part : Parts(text, 64, CountBytes)) {
    EXPECT_TRUE(part.ends_with('.') || part.ends_with(". ")) << part;
  }
  std::string words;
  for (int i = 0; i < 40; ++i) words += " letters";
  for (const std::string& part : Parts(words, 64, CountBytes)) {
    EXPECT_TRUE(part.ends_with("letters")) << part;
  }
}

TEST(TextPartsTest, PartsAreTheTextAndFit) {
  const char* const seed = std::getenv("ATTNDB_SEED");
  std::mt19937_64 random(seed == nullptr ? 5 : std::strtoull(seed, nullptr, 10));
  const std::vector<std::string> kWords = {"a ",    "word ", "\n", "\n\n",  "# T\n", "書", "。",
                                           "```\n", "...",   "é",  "---\n", "x",     " "};
  for (int round = 0; round < 200; ++round) {
    std::string text;
    const size_t num_words = 1 + random() % 400;
    for (size_t i = 0; i < num_words; ++i) {
      const std::string& word = kWords[random() % kWords.size()];
      for (size_t repeat = random() % 50 == 0 ? 300 : 1; repeat > 0; --repeat) text += word;
    }
    const uint64_t most = 4 + random() % 200;
    std::string all;
    for (const std::string& part : Parts(text, most, CountBytes)) {
      EXPECT_FALSE(part.empty());
      EXPECT_LE(part.size(), most);
      EXPECT_NE(static_cast<unsigned char>(part[0]) & 0xC0U, 0x80U);  // No cut character.
      all += part;
    }
    EXPECT_EQ(all, text);
  }
}

TEST(TextPartsTest, WhatCannotBePartedIsRefused) {
  EXPECT_EQ(PartsOf("書書", 2, CountBytes).status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(PartsOf(std::string(20'000, 'x'), 1, CountBytes).status().code(),
            StatusCode::kInvalidArgument);
  const auto stopped = PartsOf("a b c", 1, [](std::string_view) -> Result<uint64_t> {
    return Status::Cancelled("stopped");
  });
  EXPECT_EQ(stopped.status().code(), StatusCode::kCancelled);
}

}  // namespace
}  // namespace attndb::cli
