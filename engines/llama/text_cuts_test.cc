// Goal:   a text that is tokenized in pieces has the ids of one call, whatever the tokenizer; a
//         tokenizer that can't be cut is not; work stops when it is told to; words without an end
//         are cut before llama.cpp gets them.
// Method: SmolLM2's vocabulary under the pre-tokenizers of many models, as one of SentencePiece
//         with and without a space in front, and with words of several words; random texts and
//         English, in pieces of a few hundred bytes.
// Replay: ATTNDB_SEED.
#include "engines/llama/text_cuts.h"

#include <gguf.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "engines/llama/engine_test_util.h"
#include "engines/llama/text_join.h"
#include "engines/llama/tokenizer.h"
#include "engines/llama/utf8_bytes.h"
#include "engines/llama/vocab_test_util.h"
#include "testing/matchers.h"
#include "testing/seed.h"

namespace attndb::llama {
namespace {

using ::attndb::test::FailsWith;
using ::testing::HasSubstr;

// Lines of numbers, or one line of letters and digits: what has no words.
std::string RandomCsv(std::mt19937_64* random, size_t num_bytes) {
  std::string text;
  while (text.size() < num_bytes) {
    text += std::to_string(Below(1'000'000, random)) + (Below(8, random) == 0 ? "\n" : ",");
  }
  return text;
}
std::string RandomBase64(std::mt19937_64* random, size_t num_bytes) {
  static const std::string kSigns =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  while (text.size() < num_bytes) text += kSigns[Below(kSigns.size(), random)];
  return text;
}

class TextCutsTest : public ::testing::Test {
 protected:
  // The vocabulary alone, as `change` leaves it.
  template <typename Change>
  ModelPtr Load(Change change) {
    return vocabs_.Load(change);
  }
  ModelPtr LoadPre(const char* pre) {
    return Load([pre](gguf_context* file) { SetPreTokenizer(pre, file); });
  }
  ModelPtr LoadSentencePiece(bool adds_space) {
    return Load([adds_space](gguf_context* file) {
      MakeSentencePiece(adds_space, /*has_control=*/false, file);
    });
  }

  // Pieces and one call agree; gives the number of pieces.
  static size_t ExpectSameIds(const Tokenizer& tokenizer, const std::string& text,
                              size_t piece_bytes) {
    size_t num_pieces = 0;
    TokenizeLimits limits = {.piece_bytes = piece_bytes};
    limits.progress = [&num_pieces](uint64_t, uint64_t) { return ++num_pieces > 0; };
    const auto whole = tokenizer.Tokenize(text, true, false);
    const auto pieces = tokenizer.Tokenize(text, true, false, limits);
    EXPECT_TRUE(whole.ok() && pieces.ok());
    EXPECT_EQ(*whole, *pieces) << text.substr(0, 2000);
    return num_pieces;
  }
  // The same for random texts and English.
  void ExpectAgreement(const Tokenizer& tokenizer) {
    for (int i = 0; i < 12; ++i) {
      ExpectSameIds(tokenizer, RandomText(&random_, 1500), 50 + Below(200, &random_));
    }
    const std::string english = TestText().substr(Below(100'000, &random_), 60'000);
    EXPECT_GT(ExpectSameIds(tokenizer, english, 2000), 10U);
  }
  // The same where there are no words; every tokenizer that adds no space cuts there, too.
  void ExpectAgreementWithoutWords(const Tokenizer& tokenizer) {
    EXPECT_GT(ExpectSameIds(tokenizer, RandomCsv(&random_, 20'000), 1000), 10U);
    EXPECT_GT(ExpectSameIds(tokenizer, RandomBase64(&random_, 20'000), 1000), 10U);
    std::string digits;
    for (int i = 0; i < 5000; ++i) digits += static_cast<char>('0' + Below(10, &random_));
    ExpectSameIds(tokenizer, digits, 500);
  }

  std::mt19937_64 random_{test::SeedOr(11)};
  const VocabMaker vocabs_;
};

TEST_F(TextCutsTest, PiecesHaveTheIdsOfOneCallUnderEveryPreTokenizer) {
  for (const char* const pre : {"smollm", "gpt-2", "llama-bpe", "qwen2", "deepseek-llm",
                                "deepseek-coder", "deepseek-v3", "falcon", "gpt-4o", "tekken",
                                "bloom", "chatglm-bpe", "superbpe", "bailingmoe", "default"}) {
    SCOPED_TRACE(pre);
    const ModelPtr model = LoadPre(pre);
    ASSERT_NE(model, nullptr);
    const Tokenizer tokenizer(llama_model_get_vocab(model.get()));
    ExpectAgreement(tokenizer);
    ExpectAgreementWithoutWords(tokenizer);
  }
}

TEST_F(TextCutsTest, PiecesHaveTheIdsOfOneCallInSentencePiece) {
  for (const bool adds_space : {false, true}) {
    SCOPED_TRACE(adds_space);
    const ModelPtr model = LoadSentencePiece(adds_space);
    ASSERT_NE(model, nullptr);
    const Tokenizer tokenizer(llama_model_get_vocab(model.get()));
    ExpectAgreement(tokenizer);
    if (!adds_space) ExpectAgreementWithoutWords(tokenizer);
  }
}

TEST_F(TextCutsTest, TextsThatFollowEachOtherHaveTheIdsOfTheWhole) {
  std::vector<ModelPtr> models;
  for (const char* const pre : {"smollm", "llama-bpe", "gpt-4o", "bloom"}) {
    models.push_back(LoadPre(pre));
  }
  for (const bool adds_space : {false, true}) models.push_back(LoadSentencePiece(adds_space));
  for (const ModelPtr& model : models) {
    ASSERT_NE(model, nullptr);
    const Tokenizer tokenizer(llama_model_get_vocab(model.get()));
    for (int i = 0; i < 40; ++i) {
      const bool is_english = i % 2 == 0;
      const std::string text = is_english ? TestText().substr(Below(100'000, &random_), 3000)
                                          : RandomText(&random_, 200 + Below(3000, &random_));
      std::vector<TokenId> ids = tokenizer.BeginOfText();
      for (size_t begin = 0, end = 0; begin < text.size(); begin = end) {
        end = std::min(text.size(), begin + 1 + Below(1500, &random_));
        while (end < text.size() && ContinuesUtf8Char(text[end])) ++end;  // Whole characters.
        const PromptPart part = {"", std::string_view(text).substr(begin, end - begin)};
        ATTNDB_ASSERT_OK_AND_ASSIGN(JoinedText joined,
                                    JoinText(tokenizer, ids, std::span(&part, 1), {}));
        ASSERT_LE(joined.num_kept, ids.size());
        EXPECT_TRUE(std::equal(ids.begin(), ids.begin() + static_cast<int>(joined.num_kept),
                               joined.tokens.begin()));
        ids = std::move(joined.tokens);
      }
      std::vector<TokenId> whole = tokenizer.BeginOfText();
      ATTNDB_ASSERT_OK_AND_ASSIGN(const auto plain, tokenizer.Tokenize(text, false, false));
      whole.insert(whole.end(), plain.begin(), plain.end());
      EXPECT_EQ(ids, whole) << text;
    }
  }
}

TEST_F(TextCutsTest, DigitsThatComeInGroupsAreNotCutApart) {
  for (const char* const pre : {"llama-bpe", "gpt-4o", "deepseek-v3", "falcon", "superbpe"}) {
    SCOPED_TRACE(pre);
    const ModelPtr model = Load([&](gguf_context* file) {
      std::vector<std::string> tokens = TextsOf(file, "tokenizer.ggml.tokens");
      std::vector<std::string> merges = TextsOf(file, "tokenizer.ggml.merges");
      size_t last = tokens.size() - 1;
      for (const char* const pair : {"1 2", "2 3", "7 8", "12 3", "1 23", "7 7"}) {
        merges.insert(merges.begin(), pair);
        std::string token = pair;
        std::erase(token, ' ');
        if (std::ranges::find(tokens, token) == tokens.end()) tokens[last--] = token;
      }
      SetTexts(file, "tokenizer.ggml.tokens", tokens);
      SetTexts(file, "tokenizer.ggml.merges", merges);
      gguf_set_val_str(file, "tokenizer.ggml.pre", pre);
    });
    ASSERT_NE(model, nullptr);
    const Tokenizer tokenizer(llama_model_get_vocab(model.get()));
    std::string digits;
    // No token joins the first hundreds of them.
    for (int i = 0; i < 150; ++i) digits += "4545";
    for (int i = 0; i < 60; ++i) digits += std::to_string(Below(1'000'000, &random_));
    ASSERT_LT(digits.size(), kMostDigits);
    EXPECT_EQ(ExpectSameIds(tokenizer, digits, 500), 1U);
    EXPECT_GT(ExpectSameIds(tokenizer, RandomCsv(&random_, 20'000), 1000), 10U);
  }
}

TEST_F(TextCutsTest, WordsOfSeveralWordsAreNotCut) {
  // Every letter may be followed by a space inside a token: there is no place to cut.
  const ModelPtr model = Load([&](gguf_context* file) {
    std::vector<std::string> tokens = TextsOf(file, "tokenizer.ggml.tokens");
    std::vector<std::string> merges = TextsOf(file, "tokenizer.ggml.merges");
    size_t last = tokens.size() - 1;
    for (char c = 'a'; c <= 'z'; ++c) {
      tokens[last--] = std::string(1, c) + "Ġ";
      merges.push_back(std::string(1, c) + " Ġ");
    }
    SetTexts(file, "tokenizer.ggml.tokens", tokens);
    SetTexts(file, "tokenizer.ggml.merges", merges);
    gguf_set_val_str(file, "tokenizer.ggml.pre", "superbpe");
  });
  ASSERT_NE(model, nullptr);
  std::string text;
  for (int i = 0; i < 300; ++i) text += "storm and rain ";
  EXPECT_EQ(ExpectSameIds(Tokenizer(llama_model_get_vocab(model.get())), text, 100), 1U);
}

TEST_F(TextCutsTest, ATextWithoutAPlaceIsOnePiece) {
  const ModelPtr model = LoadPre("smollm");
  const Tokenizer tokenizer(llama_model_get_vocab(model.get()));
  EXPECT_EQ(ExpectSameIds(tokenizer, std::string(4000, 'x'), 100), 1U);
  EXPECT_EQ(ExpectSameIds(tokenizer, std::string(4000, '\n'), 100), 1U);
  EXPECT_EQ(ExpectSameIds(tokenizer, "", 100), 0U);
}

TEST_F(TextCutsTest, RunsEndWhereTheExpressionsWouldGoTooDeep) {
  const auto end = [](const std::string& text) { return EndOfShortRuns(text, 0); };
  EXPECT_EQ(end(std::string(kMostRunChars, 'x')), kMostRunChars);
  EXPECT_EQ(end("a b" + std::string(kMostRunChars, 'x')), kMostRunChars + 2);
  EXPECT_EQ(end(std::string(3, ' ') + std::string(kMostRunChars + 9, '=')), kMostRunChars + 3);
  EXPECT_EQ(end(std::string(2 * kMostRunChars, '\0')), kMostRunChars);
  EXPECT_EQ(end("a" + std::string(kMostRunChars, '7')), kMostDigits + 1);
  std::string wide;
  for (size_t i = 0; i <= kMostRunChars; ++i) wide += "書";
  EXPECT_EQ(end(wide), kMostRunChars * 3);
  std::string sentences;
  for (size_t i = 0; i < kMostWordChars; ++i) sentences += "本。";
  EXPECT_EQ(end(sentences), sentences.size());
  std::string mixed;
  while (mixed.size() < 2 * kMostWordChars) mixed += "x1+";
  EXPECT_EQ(end(mixed), kMostWordChars);
  EXPECT_EQ(EndOfShortRuns(mixed, 100), 100 + kMostWordChars);
  std::string unknown;
  while (unknown.size() < 10 * kMostWordChars) unknown += "\uE000.";
  EXPECT_EQ(end(unknown), kMostWordChars / 2 * 4);
  EXPECT_EQ(end("\xE6\x9B"), 2U);  // No UTF-8.
}

// Each of these overflowed the stack of one call, or took time by the square of its length, under
// one pre-tokenizer or the other.
TEST_F(TextCutsTest, EndlessWordsAreCut) {
  constexpr size_t kLong = 60'000;
  std::vector<std::string> texts;
  for (const char c : {'x', '=', '\n', '\0'}) texts.emplace_back(kLong, c);
  texts.emplace_back(kLong / 20, '7');
  texts.push_back("a" + std::string(kLong, ' ') + "b");
  texts.push_back(RandomBase64(&random_, kLong));
  texts.emplace_back();
  while (texts.back().size() < kLong) texts.back() += "ж";
  texts.emplace_back();
  while (texts.back().size() < kLong) texts.back() += "\uE000.";
  for (const char* const pre : {"smollm", "gpt-2", "llama-bpe", "qwen2", "deepseek-llm",
                                "deepseek-coder", "deepseek-v3", "falcon", "gpt-4o", "tekken",
                                "bloom", "chatglm-bpe", "superbpe", "bailingmoe", "default"}) {
    SCOPED_TRACE(pre);
    const ModelPtr model = LoadPre(pre);
    ASSERT_NE(model, nullptr);
    const Tokenizer tokenizer(llama_model_get_vocab(model.get()));
    for (const std::string& text : texts) {
      SCOPED_TRACE(text.substr(0, 10));
      size_t num_pieces = 0;
      TokenizeLimits limits;
      limits.progress = [&num_pieces](uint64_t, uint64_t) { return ++num_pieces > 0; };
      const auto ids = tokenizer.Tokenize(text, false, false, limits);
      ASSERT_TRUE(ids.ok()) << ids.status();
      EXPECT_EQ(*tokenizer.ReplyText(*ids), text);
      EXPECT_GE(num_pieces, text.size() / 2 / kMostWordChars);  // A signal is seen soon.
    }
  }
}

TEST_F(TextCutsTest, NoPieceIsWithoutAnEnd) {
  for (const bool adds_space : {false, true}) {
    SCOPED_TRACE(adds_space);
    const ModelPtr model = LoadSentencePiece(adds_space);
    ASSERT_NE(model, nullptr);
    const TextCuts cuts(llama_model_get_vocab(model.get()));
    // No space to cut at, and one that is not in reach.
    std::string text(kMostPieceBytes + 5000, 'x');
    EXPECT_EQ(cuts.Next(text, 0, 100), kMostPieceBytes + 100);
    EXPECT_EQ(cuts.Next(text, 0, 5000), text.size());
    text[kMostPieceBytes] = ' ';
    EXPECT_EQ(cuts.Next(text, 0, 100), kMostPieceBytes);
    // The piece behind a cut begins no text.
    std::vector<TokenId> ids = cuts.IdsOf("so unbelievable", 0, 5);
    const std::vector<TokenId> rest = cuts.IdsOf("so unbelievable", 5, 15);
    ids.insert(ids.end(), rest.begin(), rest.end());
    EXPECT_EQ(*Tokenizer(llama_model_get_vocab(model.get())).ReplyText(ids),
              adds_space ? " so unbelievable" : "so unbelievable");
  }
}

TEST_F(TextCutsTest, AnEndlessWordAmongControlTokensIsRefused) {
  const ModelPtr model = LoadPre("qwen2");
  const Tokenizer tokenizer(llama_model_get_vocab(model.get()));
  EXPECT_THAT(tokenizer.Tokenize(std::string(100'000, 'x') + "<|im_end|>", false, true),
              FailsWith(StatusCode::kInvalidArgument, HasSubstr("more than 4095 characters")));
  EXPECT_TRUE(tokenizer.Tokenize(std::string(4000, 'x') + "<|im_end|>", false, true).ok());
}

TEST_F(TextCutsTest, ItStopsWhenItIsTold) {
  const ModelPtr model = LoadPre("smollm");
  const Tokenizer tokenizer(llama_model_get_vocab(model.get()));
  const std::string text = TestText().substr(0, 100'000);
  TokenizeLimits limits = {.piece_bytes = 1000};
  limits.progress = [](uint64_t done, uint64_t total) { return done < total / 4; };
  EXPECT_THAT(tokenizer.Tokenize(text, true, false, limits),
              FailsWith(StatusCode::kCancelled, HasSubstr("of 100000 bytes")));
  const size_t num_all = tokenizer.Tokenize(text, true, false)->size();
  const auto some = tokenizer.Tokenize(text, true, false, {.max_tokens = 500, .piece_bytes = 1000});
  EXPECT_GT(some->size(), 500U);
  EXPECT_LT(some->size(), num_all / 4);
}

}  // namespace
}  // namespace attndb::llama
