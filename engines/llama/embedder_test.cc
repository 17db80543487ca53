// Goal:   an embedding is the model's own, pooled as its file says and of length 1, however many
//         parts its input runs in; models without one say so, and no input is longer than the model
//         was trained on.
// Method: tiny random models with `pooling_type` in their files. Reference: llama.cpp's embedding
//         of each token in a context that does not pool and takes the whole input at once, pooled
//         and divided by its length here, in float64.
#include "engines/llama/embedder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <llama.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "engines/llama/engine_test_util.h"
#include "engines/llama/llama_engine.h"
#include "engines/llama/llama_handles.h"
#include "testing/matchers.h"
#include "testing/temp_dir.h"

namespace attndb::llama {
namespace {

using ::attndb::test::FailsWith;
using ::attndb::test::IsOk;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr uint32_t kTrained = 600;  // Several parts, and not a whole number of them.
// Components of a vector of length 1. Parts and wholes go through other kernels, of which those of
// attention round to float16.
constexpr double kTolerance = 5e-3;

using Row = std::vector<double>;

Row Scaled(Row row) {
  double squares = 0;
  for (const double value : row) squares += value * value;
  for (double& value : row) value /= std::sqrt(squares);
  return row;
}

Row Pooled(const std::vector<Row>& rows, uint32_t pooling) {
  if (pooling == LLAMA_POOLING_TYPE_CLS) return Scaled(rows.front());
  if (pooling == LLAMA_POOLING_TYPE_LAST) return Scaled(rows.back());
  Row sum(rows.front().size(), 0.0);
  for (const Row& row : rows) {
    for (size_t i = 0; i < sum.size(); ++i) sum[i] += row[i];
  }
  return Scaled(std::move(sum));
}

double Largest(const std::vector<float>& found, const Row& expected) {
  double largest = found.size() == expected.size() ? 0 : HUGE_VAL;
  for (size_t i = 0; i < std::min(found.size(), expected.size()); ++i) {
    largest = std::max(largest, std::abs(static_cast<double>(found[i]) - expected[i]));
  }
  return largest;
}

class EmbedderFileTest : public ::testing::Test {
 protected:
  // The tiny model of `kind` with keys of its architecture set; opens it.
  void Open(const std::string& kind, const std::vector<std::pair<std::string, uint32_t>>& keys) {
    engine_.reset();
    path_ = directory_.File("model.gguf");
    WriteTinyModel(kind, keys, path_);
    EngineOptions options = TinyOptions(HookVariant::kRewrite);
    options.cache_dir = directory_.File("cache");
    Result<LlamaEngine> engine = LlamaEngine::Open(path_, options);
    ASSERT_THAT(engine, IsOk());
    engine_ = std::make_unique<LlamaEngine>(*std::move(engine));
  }

  // llama.cpp's own embeddings of the tokens, one each.
  std::vector<Row> TokenRows(const std::vector<TokenId>& ids) const {
    ggml_backend_dev_t no_devices[] = {nullptr};
    llama_model_params model_params = llama_model_default_params();
    model_params.devices = no_devices;
    const ModelHandle model(llama_model_load_from_file(path_.c_str(), model_params));
    llama_context_params params = llama_context_default_params();
    params.n_ctx = params.n_batch = params.n_ubatch = kTrained;
    params.n_threads = params.n_threads_batch = 1;
    params.flash_attn_type = LLAMA_FLASH_ATTN_TYPE_ENABLED;
    params.embeddings = true;
    params.pooling_type = LLAMA_POOLING_TYPE_NONE;
    const ContextHandle context(llama_init_from_model(model.get(), params));
    std::vector<llama_token> tokens(ids.begin(), ids.end());
    const llama_batch batch =
        llama_batch_get_one(tokens.data(), static_cast<int32_t>(tokens.size()));
    EXPECT_EQ(llama_decode(context.get(), batch), 0);
    std::vector<Row> rows;
    for (size_t i = 0; i < ids.size(); ++i) {
      const float* const row = llama_get_embeddings_ith(context.get(), static_cast<int32_t>(i));
      rows.emplace_back(row, row + llama_model_n_embd(model.get()));
    }
    return rows;
  }

  ::attndb::test::TempDir directory_;
  std::string path_;
  std::unique_ptr<LlamaEngine> engine_;
};

class EmbedderTest : public EmbedderFileTest,
                     public ::testing::WithParamInterface<std::tuple<const char*, uint32_t>> {};

TEST_P(EmbedderTest, IsWhatTheModelMakesOfTheTokensTogether) {
  const auto [kind, pooling] = GetParam();
  Open(kind, {{"pooling_type", pooling}, {"context_length", kTrained}});
  ASSERT_NE(engine_, nullptr);
  const ModelInfo& info = engine_->info();
  ASSERT_GT(info.embedding_size, 0u);
  ATTNDB_ASSERT_OK_AND_ASSIGN(const auto embedder, engine_->OpenEmbedder(kTrained));
  constexpr size_t kPart = kEmbedderPartTokens;
  for (const size_t length : {size_t{1}, size_t{2}, kPart - 1, kPart, kPart + 1, 2 * kPart + 5,
                              size_t{kTrained}, size_t{3}}) {
    const std::vector<TokenId> ids = RandomIds(length, 40 + length, info.vocab_size);
    std::vector<uint64_t> parts;
    ATTNDB_ASSERT_OK_AND_ASSIGN(const std::vector<float> embedding,
                                embedder->Embed(ids, [&parts](uint64_t num_tokens) {
                                  parts.push_back(num_tokens);
                                  return true;
                                }));
    ASSERT_EQ(embedding.size(), info.embedding_size);
    EXPECT_LE(Largest(embedding, Pooled(TokenRows(ids), pooling)), kTolerance)
        << kind << ", pooling " << pooling << ", " << length << " tokens";
    EXPECT_LE(*std::max_element(parts.begin(), parts.end()), kPart);
  }
}

INSTANTIATE_TEST_SUITE_P(Models, EmbedderTest,
                         ::testing::Combine(::testing::Values("llama", "qwen3", "gemma2"),
                                            ::testing::Values(uint32_t{LLAMA_POOLING_TYPE_MEAN},
                                                              uint32_t{LLAMA_POOLING_TYPE_CLS},
                                                              uint32_t{LLAMA_POOLING_TYPE_LAST})));

TEST_F(EmbedderFileTest, RunsBesideTheEngineAndChangesNothingOfIt) {
  Open("llama", {{"pooling_type", LLAMA_POOLING_TYPE_LAST}});
  ASSERT_NE(engine_, nullptr);
  const std::vector<TokenId> ids = RandomIds(20, 1, engine_->info().vocab_size);
  ATTNDB_ASSERT_OK_AND_ASSIGN(const LogitRows before, PlainRows(*engine_, ids));
  ATTNDB_ASSERT_OK_AND_ASSIGN(const auto embedder, engine_->OpenEmbedder(100));
  ATTNDB_ASSERT_OK_AND_ASSIGN(const std::vector<float> first, embedder->Embed(ids));
  ATTNDB_ASSERT_OK_AND_ASSIGN(const LogitRows after, PlainRows(*engine_, ids));
  EXPECT_EQ(LargestDifference(before, after), 0);
  ATTNDB_ASSERT_OK_AND_ASSIGN(const std::vector<float> second, embedder->Embed(ids));
  EXPECT_EQ(first, second) << "an input knows nothing of the one before it";
}

TEST_F(EmbedderFileTest, AnInputIsNoLongerThanTheModelWasTrainedOn) {
  Open("llama", {{"pooling_type", LLAMA_POOLING_TYPE_MEAN}, {"context_length", kTrained}});
  ASSERT_NE(engine_, nullptr);
  EXPECT_THAT(engine_->OpenEmbedder(kTrained + 1),
              FailsWith(StatusCode::kInvalidArgument, AllOf(HasSubstr("601"), HasSubstr("600"))));
  EXPECT_THAT(engine_->OpenEmbedder(0), FailsWith(StatusCode::kInvalidArgument, HasSubstr("no")));
  ATTNDB_ASSERT_OK_AND_ASSIGN(const auto embedder, engine_->OpenEmbedder(5));
  const std::vector<TokenId> ids(6, 1);
  EXPECT_THAT(embedder->Embed(ids),
              FailsWith(StatusCode::kInvalidArgument, AllOf(HasSubstr("6"), HasSubstr("5"))));
  EXPECT_THAT(embedder->Embed({}), FailsWith(StatusCode::kInvalidArgument, HasSubstr("no token")));
  const std::vector<TokenId> unknown = {1, static_cast<TokenId>(engine_->info().vocab_size)};
  EXPECT_THAT(embedder->Embed(unknown),
              FailsWith(StatusCode::kInvalidArgument, HasSubstr("vocabulary")));
  EXPECT_THAT(embedder->Embed(std::span(ids).first(5)), IsOk());
}

TEST_F(EmbedderFileTest, AnInputEndsBetweenPartsWhenItsCallerSaysSo) {
  Open("llama", {{"pooling_type", LLAMA_POOLING_TYPE_MEAN}});
  ASSERT_NE(engine_, nullptr);
  const std::vector<TokenId> ids = RandomIds(400, 2, engine_->info().vocab_size);
  ATTNDB_ASSERT_OK_AND_ASSIGN(const auto embedder, engine_->OpenEmbedder(ids.size()));
  uint64_t num_run = 0;
  const auto on_part = [&num_run](uint64_t num_tokens) {
    if (num_run > 0) return false;
    num_run += num_tokens;
    return true;
  };
  EXPECT_THAT(embedder->Embed(ids, on_part),
              FailsWith(StatusCode::kCancelled, AllOf(HasSubstr("128"), HasSubstr("400"))));
  EXPECT_EQ(num_run, kEmbedderPartTokens);
  EXPECT_THAT(embedder->Embed(ids), IsOk()) << "what was begun is forgotten";
}

TEST_F(EmbedderFileTest, APartRunsOnAsManyThreadsAsItsCallerSays) {
  Open("llama", {{"pooling_type", LLAMA_POOLING_TYPE_MEAN}});
  ASSERT_NE(engine_, nullptr);
  const std::vector<TokenId> ids =
      RandomIds(2 * kEmbedderPartTokens, 3, engine_->info().vocab_size);
  ATTNDB_ASSERT_OK_AND_ASSIGN(const auto embedder, engine_->OpenEmbedder(ids.size()));
  EXPECT_EQ(embedder->num_threads(), engine_->options().num_threads);
  ATTNDB_ASSERT_OK_AND_ASSIGN(const std::vector<float> before, embedder->Embed(ids));
  std::vector<uint32_t> threads;
  ATTNDB_ASSERT_OK_AND_ASSIGN(const std::vector<float> after,
                              embedder->Embed(ids, [&](uint64_t /*num_tokens*/) {
                                embedder->UseThreads(threads.empty() ? 3 : 1);
                                threads.push_back(embedder->num_threads());
                                return true;
                              }));
  EXPECT_THAT(threads, ElementsAre(3, 1));
  EXPECT_LE(Largest(after, Row(before.begin(), before.end())), kTolerance);
}

TEST_F(EmbedderFileTest, MemoryGrowsWithTheInputByItsKeysAndValues) {
  Open("llama", {{"pooling_type", LLAMA_POOLING_TYPE_MEAN}});
  ASSERT_NE(engine_, nullptr);
  const uint64_t least = engine_->EmbedderBytes(1);
  EXPECT_EQ(engine_->EmbedderBytes(kEmbedderPartTokens), least);
  // The engine of these tests has float32, an embedder float16.
  EXPECT_GE(engine_->EmbedderBytes(4096) - least, 3840 * engine_->spec().KvBytesPerToken() / 2);
  EXPECT_LE(engine_->EmbedderBytes(4096) - least, 7680 * engine_->spec().KvBytesPerToken());
}

TEST_F(EmbedderFileTest, ModelsWithoutEmbeddingsSaySo) {
  const std::vector<std::vector<std::pair<std::string, uint32_t>>> without = {
      {},
      {{"pooling_type", LLAMA_POOLING_TYPE_NONE}},
      {{"pooling_type", LLAMA_POOLING_TYPE_RANK}},
      {{"pooling_type", 77}},
      {{"pooling_type", LLAMA_POOLING_TYPE_MEAN}, {"embedding_length_out", 2048}}};
  for (size_t i = 0; i < without.size(); ++i) {
    Open("llama", without[i]);
    ASSERT_NE(engine_, nullptr) << i;
    EXPECT_EQ(engine_->info().embedding_size, 0u) << i;
    EXPECT_THAT(engine_->OpenEmbedder(1),
                FailsWith(StatusCode::kUnsupported, HasSubstr("no embeddings")))
        << i;
  }
}

}  // namespace
}  // namespace attndb::llama
