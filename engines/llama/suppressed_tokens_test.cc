// Goal:   a token that the model file suppresses is in no reply, and the check against plain
//         llama.cpp knows that.
// Method: a tiny random model, and copies of its file that suppress what it says.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <span>
#include <string>
#include <vector>

#include "attndb/db.h"
#include "engines/llama/engine_test_util.h"
#include "engines/llama/gguf_test_util.h"
#include "engines/llama/llama_engine.h"
#include "testing/matchers.h"
#include "testing/temp_dir.h"

namespace attndb::llama {
namespace {

using ::testing::Contains;
using ::testing::Not;

class SuppressedTokensTest : public ::testing::Test {
 protected:
  // The model with these tokens suppressed.
  LlamaEngine Open(std::span<const int32_t> suppressed) const {
    GgufParts parts = GgufParts::Of(*GgufFile::Open(TinyModel("llama_spm")));
    if (!suppressed.empty()) {
      parts.Set("tokenizer.ggml.suppress_tokens", GgufInt32s(suppressed));
    }
    const std::string path = directory_.File(suppressed.empty() ? "plain.gguf" : "other.gguf");
    std::ofstream(path, std::ios::binary) << parts.Bytes();
    EngineOptions options = TinyOptions(HookVariant::kRewrite);
    options.cache_dir = directory_.File("cache");
    return *LlamaEngine::Open(path, options);
  }
  std::vector<TokenId> Reply(LlamaEngine& engine, const SamplerOptions& sampler = {}) const {
    const DB db = *DB::Open(directory_.File("store"));
    SessionStart start = *db.CreateSession(engine.spec(), kPrompt);
    const GenerateOptions options = {.max_tokens = 12, .ignore_end = true, .sampler = sampler};
    return engine.Generate(start.session, start.rest, options)->tokens;
  }

  const std::vector<TokenId> kPrompt = {1, 70, 71, 72};
  ::attndb::test::TempDir directory_;
};

TEST_F(SuppressedTokensTest, AreInNoReply) {
  LlamaEngine plain = Open({});
  const TokenId first = Reply(plain)[0];
  const int32_t suppressed[] = {first, 100'000};
  LlamaEngine engine = Open(suppressed);
  const std::vector<TokenId> reply = Reply(engine);
  EXPECT_THAT(reply, Not(Contains(first)));
  EXPECT_THAT(Reply(engine, {.logit_bias = {{first, 100.0f}}}), Not(Contains(first)));
  EXPECT_THAT(Reply(engine, {.temperature = 2.0f, .top_k = 0}), Not(Contains(first)));

  ATTNDB_ASSERT_OK_AND_ASSIGN(const CheckReport check, engine.CheckAgainstPlain(kPrompt, reply));
  EXPECT_TRUE(check.equal());
  ATTNDB_ASSERT_OK_AND_ASSIGN(const CheckReport wrong, plain.CheckAgainstPlain(kPrompt, reply));
  EXPECT_FALSE(wrong.equal()) << "the file without them would say the first";
}

}  // namespace
}  // namespace attndb::llama
