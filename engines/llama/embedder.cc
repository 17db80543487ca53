#include "engines/llama/embedder.h"

#include <llama.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>
#include <string>
#include <utility>

#include "attndb/units.h"
#include "engines/llama/abort_guard.h"
#include "engines/llama/engine_impl.h"
#include "engines/llama/llama_handles.h"
#include "engines/llama/llama_log.h"
#include "engines/llama/model_probe.h"
#include "engines/llama/tokenizer.h"

namespace attndb::llama {
namespace {

constexpr uint64_t kCellStep = 256;  // llama.cpp rounds the cells of its KV cache up to these.
constexpr uint64_t kEmbedTokensMax = uint64_t{1} << 30;  // It counts cells in 32 bits.

struct PooledShape {
  Pooling pooling = LLAMA_POOLING_TYPE_NONE;
  uint32_t embedding_size = 0;
  uint64_t max_tokens = 0;
};

Result<std::vector<float>> OfLengthOne(std::span<const double> embedding) {
  const double length =
      std::sqrt(std::inner_product(embedding.begin(), embedding.end(), embedding.begin(), 0.0));
  if (!(length > 0) || !std::isfinite(length)) {
    return Status::Internal("the model's embedding has length " + std::to_string(length) +
                            ", expected a positive number");
  }
  std::vector<float> normal(embedding.size());
  std::transform(embedding.begin(), embedding.end(), normal.begin(),
                 [length](double value) { return static_cast<float>(value / length); });
  return normal;
}

// What llama.cpp pools is one part; parts are put together here.
class PooledContext final : public Embedder {
 public:
  PooledContext(ContextHandle context, const Tokenizer* tokenizer, const PooledShape& shape)
      : context_(std::move(context)), tokenizer_(tokenizer), shape_(shape) {}

  Result<std::vector<float>> Embed(std::span<const TokenId> tokens,
                                   const OnPart& on_part) override {
    ATTNDB_RETURN_IF_ERROR(CheckInput(tokens));
    ATTNDB_ASSIGN_OR_RETURN(const std::vector<double> pooled, Pool(tokens, on_part));
    return OfLengthOne(pooled);
  }

  void UseThreads(uint32_t num_threads) override {
    const auto of_part = static_cast<int32_t>(num_threads);
    llama_set_n_threads(context_.get(), of_part, of_part);
  }
  uint32_t num_threads() const override {
    return static_cast<uint32_t>(llama_n_threads_batch(context_.get()));
  }

  // The embedding before it is made as long as 1.
  Result<std::vector<double>> Pool(std::span<const TokenId> tokens, const OnPart& on_part) {
    // The first token of a causal model knows of no other.
    if (shape_.pooling == LLAMA_POOLING_TYPE_CLS) tokens = tokens.first(1);
    llama_memory_clear(llama_get_memory(context_.get()), /*data=*/false);
    BeginLog();
    std::vector<double> pooled(shape_.embedding_size, 0.0);
    for (size_t done = 0; done < tokens.size(); done += kEmbedderPartTokens) {
      const auto part =
          tokens.subspan(done, std::min<size_t>(kEmbedderPartTokens, tokens.size() - done));
      if (on_part && !on_part(part.size())) {
        return Status::Cancelled("stopped after " + std::to_string(done) + " of " +
                                 Counted(tokens.size(), "token"));
      }
      const double weight = WeightOf(part.size(), tokens.size() - done, tokens.size());
      ATTNDB_RETURN_IF_ERROR(RunPart(part, weight > 0));
      if (weight > 0) ATTNDB_RETURN_IF_ERROR(AddPart(weight, &pooled));
    }
    return pooled;
  }

 private:
  Status CheckInput(std::span<const TokenId> tokens) const {
    if (tokens.empty()) return Status::InvalidArgument("no token to embed");
    if (tokens.size() > shape_.max_tokens) {
      return Status::InvalidArgument("input of " + Counted(tokens.size(), "token") + ", at most " +
                                     FormatCount(shape_.max_tokens) + " can be embedded");
    }
    return tokenizer_->CheckIds(tokens);
  }

  // A part's share of the embedding. `num_left`: tokens from its first on.
  double WeightOf(size_t num_part, size_t num_left, size_t num_all) const {
    if (shape_.pooling == LLAMA_POOLING_TYPE_MEAN) {
      return static_cast<double>(num_part) / static_cast<double>(num_all);
    }
    return num_part == num_left ? 1.0 : 0.0;
  }

  // `pools`: whether llama.cpp makes the part's embedding; else it but fills the KV cache.
  Status RunPart(std::span<const TokenId> part, bool pools) {
    std::vector<llama_token> ids(part.begin(), part.end());
    std::vector<int8_t> wants(part.size(), pools ? 1 : 0);
    llama_batch batch = llama_batch_get_one(ids.data(), static_cast<int32_t>(ids.size()));
    batch.logits = wants.data();
    llama_set_embeddings(context_.get(), pools);
    const int32_t result = llama_decode(context_.get(), batch);
    llama_synchronize(context_.get());
    if (result == 0) return Status::Ok();
    return Status::Internal("llama_decode returned " + std::to_string(result) + ": " +
                            LoggedComplaints());
  }

  Status AddPart(double weight, std::vector<double>* pooled) const {
    const float* const part = llama_get_embeddings_seq(context_.get(), 0);
    if (part == nullptr) return Status::Internal("llama.cpp pooled no embedding");
    for (size_t i = 0; i < pooled->size(); ++i) {
      (*pooled)[i] += weight * static_cast<double>(part[i]);
    }
    return Status::Ok();
  }

  const ContextHandle context_;
  const Tokenizer* const tokenizer_;  // Owned by the engine.
  const PooledShape shape_;
};

Result<std::unique_ptr<PooledContext>> MakePooled(const PooledShape& shape, uint32_t num_threads,
                                                  const Tokenizer* tokenizer,
                                                  const ContextFactory& factory) {
  llama_context_params params = BaseContextParams(num_threads);
  // A batch is no longer than a context, and a part is one batch.
  params.n_ctx = static_cast<uint32_t>(std::max<uint64_t>(shape.max_tokens, kEmbedderPartTokens));
  params.n_batch = kEmbedderPartTokens;
  params.n_ubatch = kEmbedderPartTokens;
  params.n_outputs_max = kEmbedderPartTokens;
  params.n_seq_max = 1;
  params.embeddings = true;
  params.pooling_type = shape.pooling;
  BeginLog();
  ContextHandle context = factory(params);
  if (context == nullptr) {
    const std::string words = "llama.cpp made no context of " + Counted(shape.max_tokens, "token") +
                              ": " + LoggedComplaints();
    // As in ProbeModel: an assertion is about the model, and no want of memory.
    const bool asserted = words.find("GGML_ASSERT") != std::string::npos;
    return asserted ? Status::InvalidArgument(words) : Status::ResourceExhausted(words);
  }
  return std::make_unique<PooledContext>(std::move(context), tokenizer, shape);
}

}  // namespace

Result<std::unique_ptr<Embedder>> LlamaEngine::Impl::OpenEmbedder(uint64_t max_tokens) const {
  if (info.embedding_size == 0) return Status::Unsupported("the model has no embeddings");
  const uint64_t most =
      info.max_context == 0 ? kEmbedTokensMax : std::min(info.max_context, kEmbedTokensMax);
  if (max_tokens == 0) return Status::InvalidArgument("no token to embed");
  ATTNDB_RETURN_IF_ERROR(weights_.Check());
  if (max_tokens > most) {
    return Status::InvalidArgument("input of " + Counted(max_tokens, "token") +
                                   ", the model was trained on " + FormatCount(most));
  }
  const PooledShape shape = {pooling_, info.embedding_size, max_tokens};
  std::unique_ptr<Embedder> embedder;
  ATTNDB_RETURN_IF_ERROR(Guarded("the model's embeddings", [&]() -> Status {
    ATTNDB_ASSIGN_OR_RETURN(
        embedder, MakePooled(shape, options.num_threads, &*tokenizer,
                             [this](const llama_context_params& p) { return MakeContext(p); }));
    return Status::Ok();
  }));
  return embedder;
}

uint64_t LlamaEngine::Impl::EmbedderBytes(uint64_t max_tokens) const {
  ModelSpec cached = spec;
  cached.kv_dtype = DType::kFloat16;  // BaseContextParams.
  const uint64_t num_tokens = std::max<uint64_t>(max_tokens, kEmbedderPartTokens);
  const uint64_t num_cells = (num_tokens + kCellStep - 1) / kCellStep * kCellStep;
  const uint64_t logits = uint64_t{2} * kEmbedderPartTokens * info.vocab_size * sizeof(float);
  // A mask of a float and of a float16 for each cell, by tokens of a part; and what the layers'
  // widest tensors take, which are a few times as wide as the embedding.
  const uint64_t mask = num_cells * kEmbedderPartTokens * 6;
  const uint64_t rows = uint64_t{32} * kEmbedderPartTokens * info.embedding_size * sizeof(float);
  return num_cells * cached.KvBytesPerToken() + logits + mask + rows;
}

Status LlamaEngine::Impl::CheckPooling() {
  if (info.embedding_size == 0) return Status::Ok();
  const PooledShape shape = {pooling_, info.embedding_size, 1};
  const Status status = Guarded("the model's embeddings", [&]() -> Status {
    ATTNDB_ASSIGN_OR_RETURN(const auto pooled, MakePooled(shape, options.num_threads, &*tokenizer,
                                                          [this](const llama_context_params& p) {
                                                            return MakeContext(p);
                                                          }));
    const TokenId any = 0;
    return pooled->Pool({&any, 1}, nullptr).status();
  });
  // An assertion: its graph gives nothing that could be pooled. It generates text all the same.
  if (status.code() != StatusCode::kInvalidArgument) return status;
  info.embedding_size = 0;
  return Status::Ok();
}

}  // namespace attndb::llama
