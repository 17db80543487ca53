// Goal:   the encodings of the prefix index order and compare tokens as its lookups assume.
// Method: pure functions on chosen values.
#include "store/catalog/prefix_index.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

namespace attndb::store {
namespace {

TEST(PrefixIndexEncoding, ByteOrderIsTokenOrder) {
  const std::vector<std::vector<TokenId>> ordered = {
      {0}, {0, 5}, {1}, {255}, {256}, {65'535, 1}, {65'536}, {std::numeric_limits<TokenId>::max()}};
  for (size_t i = 1; i < ordered.size(); ++i) {
    EXPECT_TRUE(std::ranges::lexicographical_compare(EncodeTokens(ordered[i - 1]),
                                                     EncodeTokens(ordered[i])));
  }
}

TEST(PrefixIndexEncoding, DecodingGivesTheTokens) {
  const std::vector<TokenId> tokens = {0, 1, 256, 70'000, std::numeric_limits<TokenId>::max()};
  std::vector<TokenId> decoded;
  DecodeTokens(EncodeTokens(tokens), &decoded);
  EXPECT_EQ(decoded, tokens);
}

TEST(PrefixIndexEncoding, OnlyWholeTokensAreInCommon) {
  EXPECT_EQ(CommonTokens(EncodeTokens(std::vector<TokenId>{1, 2, 0x1234}),
                         EncodeTokens(std::vector<TokenId>{1, 2, 0x1235, 4})),
            2u);
  EXPECT_EQ(CommonTokens({}, EncodeTokens(std::vector<TokenId>{1})), 0u);
}

TEST(PrefixIndexEncoding, AKeyDependsOnAllThatItNames) {
  const std::vector<std::byte> tokens = EncodeTokens(std::vector<TokenId>{1, 2, 3});
  const TreeIdentity tree;
  const Sha256Digest key = BlockKey(tree, Sha256Digest{}, tokens);
  EXPECT_EQ(BlockKey(tree, Sha256Digest{}, tokens), key);
  TreeIdentity other = tree;
  other.secret[5] = std::byte{1};
  EXPECT_NE(BlockKey(other, Sha256Digest{}, tokens), key);
  other = tree;
  other.model[5] = std::byte{1};
  EXPECT_NE(BlockKey(other, Sha256Digest{}, tokens), key);
  other = tree;
  other.first_position = 1;
  EXPECT_NE(BlockKey(other, Sha256Digest{}, tokens), key);
  EXPECT_NE(BlockKey(tree, key, tokens), key);
  EXPECT_NE(BlockKey(tree, Sha256Digest{}, std::span(tokens).first(8)), key);
}

}  // namespace
}  // namespace attndb::store
