// Goal:   ids and texts become the biases of the model's tokens.
// Method: a tiny random model.
#include "server/openai/token_bias.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "engines/llama/engine_test_util.h"
#include "testing/matchers.h"
#include "testing/temp_dir.h"

namespace attndb::server {
namespace {

using ::attndb::test::FailsWith;
using ::testing::HasSubstr;

class TokenBiasTest : public ::testing::Test {
 protected:
  void Open(const std::string& kind) {
    llama::EngineOptions options = llama::TinyOptions(llama::HookVariant::kRewrite);
    options.cache_dir = directory_.File("cache");
    engine_.emplace(*llama::LlamaEngine::Open(llama::TinyModel(kind), options));
  }

  ::attndb::test::TempDir directory_;
  std::optional<llama::LlamaEngine> engine_;
};

TEST_F(TokenBiasTest, ATextIsEachOfItsTokens) {
  Open("llama_spm");
  const std::vector<TokenId> tokens = *engine_->Tokenize("ab", false, false);
  ASSERT_GE(tokens.size(), 2u);
  const BiasEntry entries[] = {{.token = 7, .bias = 1}, {.text = "ab", .bias = -2}};
  ATTNDB_ASSERT_OK_AND_ASSIGN(const auto biases, TokenBiases(*engine_, entries));
  ASSERT_EQ(biases.size(), 1 + tokens.size());
  EXPECT_EQ(biases[0].token, 7);
  EXPECT_EQ(biases[0].bias, 1.0f);
  for (size_t i = 0; i < tokens.size(); ++i) {
    EXPECT_EQ(biases[i + 1].token, tokens[i]);
    EXPECT_EQ(biases[i + 1].bias, -2.0f);
  }
  EXPECT_TRUE(TokenBiases(*engine_, {})->empty());
}

TEST_F(TokenBiasTest, AnIdBeyondTheVocabularyIsRefused) {
  Open("llama_spm");
  const auto size = static_cast<TokenId>(engine_->info().vocab_size);
  const BiasEntry last[] = {{.token = size - 1}};
  EXPECT_THAT(TokenBiases(*engine_, last), ::attndb::test::IsOk());
  const BiasEntry beyond[] = {{.token = size}};
  EXPECT_THAT(TokenBiases(*engine_, beyond),
              FailsWith(StatusCode::kInvalidArgument,
                        HasSubstr("logit_bias has token " + std::to_string(size))));
}

TEST_F(TokenBiasTest, AModelWithoutATokenizerTakesIds) {
  Open("llama");
  const BiasEntry id[] = {{.token = 3, .bias = 1}};
  EXPECT_THAT(TokenBiases(*engine_, id), ::attndb::test::IsOk());
  const BiasEntry text[] = {{.text = "a", .bias = 1}};
  EXPECT_THAT(TokenBiases(*engine_, text), FailsWith(StatusCode::kUnsupported, HasSubstr("")));
}

TEST_F(TokenBiasTest, SomeTokenIsLeftToChoose) {
  Open("llama");
  std::vector<BiasEntry> all(engine_->info().vocab_size);
  for (size_t i = 0; i < all.size(); ++i) {
    all[i].token = static_cast<TokenId>(i);
    all[i].bias = -std::numeric_limits<float>::infinity();
  }
  EXPECT_THAT(TokenBiases(*engine_, all),
              FailsWith(StatusCode::kInvalidArgument, HasSubstr("forbids every token")));
  all.pop_back();
  EXPECT_THAT(TokenBiases(*engine_, all), ::attndb::test::IsOk());
}

}  // namespace
}  // namespace attndb::server
