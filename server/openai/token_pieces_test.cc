// Goal:   the pieces of a text's tokens are the text's bytes, whatever each of them is.
// Method: SmolLM2's tokenizer: words, markup, a character of several tokens.
#include "server/openai/token_pieces.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "server/smollm2_test_util.h"
#include "testing/matchers.h"

namespace attndb::server {
namespace {

class TokenPiecesTest : public SmolLm2Test {
 protected:
  // The pieces of a text, as JSON.
  static Json Pieces(const std::string& text) {
    const Result<std::vector<TokenId>> tokens = engine_->Tokenize(text, false, true);
    EXPECT_THAT(tokens, ::attndb::test::IsOk());
    const Result<Json> pieces = PiecesJson(*engine_, *tokens);
    EXPECT_THAT(pieces, ::attndb::test::IsOk());
    EXPECT_EQ(pieces->size(), tokens->size());
    for (size_t i = 0; i < tokens->size(); ++i) EXPECT_EQ((*pieces)[i]["id"], (*tokens)[i]);
    return *pieces;
  }
};

TEST_F(TokenPiecesTest, WordsHaveTheirSpacesAndControlTokensTheirNames) {
  const Json pieces = Pieces("What is<|im_end|>\n");
  ASSERT_EQ(pieces.size(), 4u);
  EXPECT_EQ(pieces[0]["piece"], "What");
  EXPECT_EQ(pieces[1]["piece"], " is");
  EXPECT_EQ(pieces[2]["piece"], "<|im_end|>");
  EXPECT_EQ(pieces[3]["piece"], "\n");
  EXPECT_EQ(Pieces(""), Json::array());
}

TEST_F(TokenPiecesTest, PartsOfACharacterAreBytes) {
  const std::string text = "\xF0\x9F\x9C\x81";  // An emblem that is no token.
  const Json pieces = Pieces(text);
  ASSERT_GT(pieces.size(), 1u);
  std::string bytes;
  for (const Json& entry : pieces) {
    ASSERT_TRUE(entry["piece"].is_array()) << entry;
    for (const Json& byte : entry["piece"]) bytes += static_cast<char>(byte.get<int>());
  }
  EXPECT_EQ(bytes, text);
}

TEST_F(TokenPiecesTest, WhatIsNoTokenHasNoPiece) {
  const auto beyond = static_cast<TokenId>(engine_->info().vocab_size);
  for (const TokenId token : {beyond, TokenId{-1}}) {
    EXPECT_EQ(PieceOf(*engine_, token).status().code(), StatusCode::kInvalidArgument) << token;
  }
}

}  // namespace
}  // namespace attndb::server
