// Goal:   pieces of stored tokens that a prompt leaves out are found wherever they stand; what is
//         kept spells the beginning of the prompt; a piece that other words replace is none.
// Method: words for tokens; random tokens with random pieces left out, against a second, slow
//         search that compares texts, and against the pieces themselves where no two tokens are
//         alike.
// Replay: ATTNDB_SEED=17 ctest -R LeftOut
#include "engines/llama/left_out.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <random>
#include <string_view>
#include <vector>

#include "testing/seed.h"

namespace attndb::llama {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using Symbols = std::vector<TextSymbol>;
using Tokens = std::vector<Symbols>;

// Each word is a token, "<...>" a control token.
Tokens Words(std::string_view text) {
  Tokens tokens;
  while (!text.empty()) {
    const size_t size = std::min(text.find(' '), text.size());
    const std::string_view word = text.substr(0, size);
    text.remove_prefix(std::min(size + 1, text.size()));
    if (word.starts_with('<')) {
      tokens.push_back({kControlSymbol + static_cast<TextSymbol>(word.size())});
    } else {
      tokens.emplace_back(word.begin(), word.end());
    }
  }
  return tokens;
}

Symbols Joined(const Tokens& tokens) {
  Symbols symbols;
  for (const Symbols& token : tokens) symbols.insert(symbols.end(), token.begin(), token.end());
  return symbols;
}

std::vector<TokenRange> Find(const Tokens& stored, const Symbols& prompt, bool adds_space = false) {
  TokenSymbols symbols;
  for (const Symbols& token : stored) symbols.Add(token);
  return LeftOut(symbols, prompt, adds_space);
}
std::vector<TokenRange> Find(std::string_view stored, std::string_view prompt) {
  return Find(Words(stored), Joined(Words(prompt)));
}

TEST(LeftOutTest, APieceInTheMiddleIsFound) {
  EXPECT_THAT(Find("a b c x y z d e f g h i j k", "a b c d e f g h i j k new"),
              ElementsAre(TokenRange{3, 6}));
  EXPECT_THAT(Find("a <u> think <1> b c d e f g h i", "a <u> b c d e f g h i <1> new"),
              ElementsAre(TokenRange{2, 4}));
}

TEST(LeftOutTest, SeveralPiecesAreFound) {
  EXPECT_THAT(
      Find("a x b c d e f g h i y y j k l m n o p q", "a b c d e f g h i j k l m n o p q r"),
      ElementsAre(TokenRange{1, 2}, TokenRange{10, 12}));
}

TEST(LeftOutTest, WhatIsKeptOrGoesOnLeavesNothingOut) {
  EXPECT_THAT(Find("a b c d e f g h i j k", "a b c d e f g h i j k new"), IsEmpty());
  EXPECT_THAT(Find("a b c d e f g h i j k", "a b c d"), IsEmpty());
  EXPECT_THAT(Find("a b c d", "other words"), IsEmpty());
  EXPECT_THAT(Find("", "a b c"), IsEmpty());
  EXPECT_THAT(Find("a b c", ""), IsEmpty());
}

// The walk ends at a piece that was replaced. Pieces in front of it are found.
TEST(LeftOutTest, AReplacedPieceIsNone) {
  EXPECT_THAT(Find("a b c x y z d e f g h i j k", "a b c cleared d e f g h i j k"), IsEmpty());
  EXPECT_THAT(
      Find("a v b c d e f g h i x y j k l m n o p q", "a b c d e f g h i w j k l m n o p q"),
      ElementsAre(TokenRange{1, 2}));
}

TEST(LeftOutTest, FewTokensBehindAPieceAreNotWorthIt) {
  EXPECT_THAT(Find("a x b c d e f g h", "a b c d e f g h i j k"), IsEmpty());
  EXPECT_THAT(Find("a x b c d e f g h i", "a b c d e f g h i j k"), ElementsAre(TokenRange{1, 2}));
}

TEST(LeftOutTest, TheFirstTokenStays) {
  EXPECT_THAT(Find("x a b c d e f g h i", "a b c d e f g h i j"), IsEmpty());
}

// Both begin with a token that has the letters of two tokens of the other one.
TEST(LeftOutTest, APieceMayBeginAsWhatFollows) {
  const Tokens stored = Words("a ab c x a bd e f g h i j k");
  EXPECT_THAT(Find(stored, Joined(Words("a abd e f g h i j k l"))), ElementsAre(TokenRange{1, 4}));
}

TEST(LeftOutTest, ASpaceThatTheTokenizerSetsIsLeftAside) {
  Tokens stored = Words("<1> x <22> a b c d e f g h");
  for (const size_t i : {size_t{1}, size_t{3}}) stored[i].insert(stored[i].begin(), ' ');
  const Symbols prompt = Joined(Words("<1> a b c d e f g h i"));
  EXPECT_THAT(Find(stored, prompt, /*adds_space=*/true), ElementsAre(TokenRange{1, 3}));
  EXPECT_THAT(Find(stored, prompt, /*adds_space=*/false), IsEmpty());
}

TEST(LeftOutTest, AtMostSoManyPiecesAreFound) {
  Tokens stored = {{1}};
  Symbols prompt = {1};
  for (size_t i = 0; i < kMostPieces + 5; ++i) {
    stored.push_back({'x'});
    for (size_t k = 0; k < kLeastSame; ++k) {
      const auto symbol = static_cast<TextSymbol>(kControlSymbol + i * kLeastSame + k);
      stored.push_back({symbol});
      prompt.push_back(symbol);
    }
  }
  EXPECT_EQ(Find(stored, prompt).size(), kMostPieces);
}

// Tokens that are all alike: each place looks like the next one.
TEST(LeftOutTest, EndsSoonWhereAllTokensAreAlike) {
  const Tokens stored(300'000, Symbols{'a'});
  Symbols prompt(200'000, 'a');
  prompt.push_back('b');
  prompt.insert(prompt.end(), 50'000, 'a');
  EXPECT_THAT(Find(stored, prompt), IsEmpty());
}

class Random {
 public:
  explicit Random(uint64_t seed) : bits_(::attndb::test::SeedOr(seed)) {}
  uint64_t Below(uint64_t end) { return bits_() % end; }

 private:
  std::mt19937_64 bits_;
};

// The same rules, by texts: slow and simple.
class SlowSearch {
 public:
  SlowSearch(const Tokens& stored, const Symbols& prompt) : stored_(stored), prompt_(prompt) {}

  std::vector<TokenRange> Run() {
    size_t first = 0;  // The tokens from here to `token` are kept, without a piece between.
    size_t token = 0;
    size_t at = 0;
    while (token < stored_.size() && at < prompt_.size()) {
      if (Says(token, 1, at)) {
        at += stored_[token++].size();
        continue;
      }
      const std::optional<TokenRange> piece = PieceAt(first, token, at);
      if (!piece || left_.size() == kMostPieces) break;
      for (size_t i = piece->begin; i < token; ++i) at -= stored_[i].size();
      left_.push_back(*piece);
      first = token = piece->end;
    }
    return left_;
  }

 private:
  bool Says(size_t token, size_t count, size_t at) const {
    if (token + count > stored_.size()) return false;
    const Symbols text = Joined({stored_.begin() + static_cast<std::ptrdiff_t>(token),
                                 stored_.begin() + static_cast<std::ptrdiff_t>(token + count)});
    return at + text.size() <= prompt_.size() &&
           std::equal(text.begin(), text.end(), prompt_.begin() + static_cast<std::ptrdiff_t>(at));
  }
  // Whether kLeastSame tokens end behind the place `found`, and all up to these say the prompt.
  bool SaysMore(size_t token, size_t at, size_t found) const {
    size_t num_more = 0;
    size_t end = at;
    for (size_t i = 0; num_more < kLeastSame; ++i) {
      if (!Says(token, i + 1, at)) return false;
      end += stored_[token + i].size();
      if (end > found) ++num_more;
    }
    return true;
  }
  std::optional<TokenRange> PieceAt(size_t first, size_t token, size_t at) const {
    const size_t least = left_.empty() ? 1 : first + kLeastSame;
    const size_t found = at;
    for (size_t begin = token; begin >= least && begin + kMostBack >= token; --begin) {
      for (size_t end = token + 1; end < stored_.size(); ++end) {
        if (SaysMore(end, at, found)) return TokenRange{begin, end};
      }
      at -= stored_[begin - 1].size();
    }
    return std::nullopt;
  }

  const Tokens& stored_;
  const Symbols& prompt_;
  std::vector<TokenRange> left_;
};

TEST(LeftOutTest, FindsWhatASlowSearchFinds) {
  Random random(58);
  size_t num_found = 0;
  for (int round = 0; round < 1500; ++round) {
    const uint64_t num_letters = 2 + random.Below(6);
    const auto letters = [&] {
      Symbols token;
      const uint64_t size = 1 + random.Below(3);
      for (uint64_t i = 0; i < size; ++i) {
        token.push_back(static_cast<TextSymbol>('a' + random.Below(num_letters)));
      }
      return token;
    };
    Tokens stored;
    Tokens kept;
    const uint64_t num_tokens = random.Below(120);
    uint64_t num_left_out = 0;
    for (uint64_t i = 0; i < num_tokens; ++i) {
      stored.push_back(letters());
      if (num_left_out == 0 && random.Below(20) == 0) num_left_out = 1 + random.Below(8);
      if (num_left_out > 0) {
        --num_left_out;
      } else {
        kept.push_back(stored.back());
      }
      if (random.Below(60) == 0) kept.push_back(letters());
    }
    for (uint64_t i = random.Below(10); i > 0; --i) kept.push_back(letters());
    const Symbols prompt = Joined(kept);
    const std::vector<TokenRange> left = Find(stored, prompt);
    ASSERT_EQ(left, SlowSearch(stored, prompt).Run()) << "round " << round;
    num_found += left.size();
  }
  EXPECT_GT(num_found, 300u);
}

TEST(LeftOutTest, FindsThePiecesWhereNoTokensAreAlike) {
  Random random(58);
  for (int round = 0; round < 500; ++round) {
    Tokens stored;
    Symbols prompt;
    std::vector<TokenRange> pieces;
    const auto add = [&](bool is_kept) {
      const auto symbol = static_cast<TextSymbol>(stored.size() + 1);
      stored.push_back({symbol});
      if (is_kept) prompt.push_back(symbol);
    };
    for (uint64_t i = 1 + random.Below(30); i > 0; --i) add(true);
    for (uint64_t piece = random.Below(20); piece > 0; --piece) {
      const uint64_t begin = stored.size();
      for (uint64_t i = 1 + random.Below(30); i > 0; --i) add(false);
      pieces.push_back({begin, stored.size()});
      for (uint64_t i = kLeastSame + random.Below(30); i > 0; --i) add(true);
    }
    for (uint64_t i = 1 + random.Below(30); i > 0; --i) prompt.push_back(kControlSymbol);
    ASSERT_EQ(Find(stored, prompt), pieces) << "round " << round;
  }
}

}  // namespace
}  // namespace attndb::llama
