#include "engines/llama/self_check_model.h"

#include <ggml.h>
#include <gguf.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engines/llama/llama_handles.h"

namespace attndb::llama {
namespace {

constexpr int64_t kEmbed = 256;
constexpr int64_t kFeedForward = 256;
constexpr int64_t kKvWidth = 64;
constexpr int64_t kHeadDim = 32;
constexpr int64_t kNumLayers = 2;
constexpr size_t kMemoryBytes = size_t{8} << 20;  // All tensors in float32, and then some.

using GgufHandle = std::unique_ptr<gguf_context, CallFree<gguf_free>>;

// Types of the seven matrices of each layer: q, k, v, output, gate, up, down.
constexpr ggml_type kTypes[kNumLayers][7] = {
    {GGML_TYPE_Q4_0, GGML_TYPE_Q8_0, GGML_TYPE_Q4_1, GGML_TYPE_Q4_0, GGML_TYPE_Q4_0, GGML_TYPE_Q8_0,
     GGML_TYPE_Q4_1},
    {GGML_TYPE_Q4_K, GGML_TYPE_Q6_K, GGML_TYPE_Q5_K, GGML_TYPE_Q4_K, GGML_TYPE_Q4_K, GGML_TYPE_Q5_K,
     GGML_TYPE_Q6_K}};

class Writer {
 public:
  explicit Writer(SelfCheckWeights weights)
      : weights_(weights),
        gguf_(gguf_init_empty()),
        context_(ggml_init({.mem_size = kMemoryBytes, .mem_buffer = nullptr, .no_alloc = false})) {}

  void AddKeys() {
    gguf_set_val_str(gguf_.get(), "general.architecture", "llama");
    gguf_set_val_str(gguf_.get(), "general.name", "attndb self check");
    gguf_set_val_str(gguf_.get(), "tokenizer.ggml.model", "no_vocab");
    const std::pair<const char*, int64_t> counts[] = {
        {"vocab_size", kSelfCheckVocab},
        {"context_length", 4096},
        {"embedding_length", kEmbed},
        {"block_count", kNumLayers},
        {"feed_forward_length", kFeedForward},
        {"attention.head_count", kEmbed / kHeadDim},
        {"attention.head_count_kv", kKvWidth / kHeadDim},
        {"attention.key_length", kHeadDim},
        {"attention.value_length", kHeadDim},
        {"rope.dimension_count", kHeadDim}};
    for (const auto& [key, count] : counts) {
      gguf_set_val_u32(gguf_.get(), (std::string("llama.") + key).c_str(),
                       static_cast<uint32_t>(count));
    }
    gguf_set_val_f32(gguf_.get(), "llama.attention.layer_norm_rms_epsilon", 1e-5f);
    gguf_set_val_f32(gguf_.get(), "llama.rope.freq_base", 10000.0f);
  }

  void AddTensors() {
    AddMatrix("token_embd.weight", kEmbed, kSelfCheckVocab, GGML_TYPE_Q8_0);
    AddNorm("output_norm.weight");
    AddMatrix("output.weight", kEmbed, kSelfCheckVocab, GGML_TYPE_Q6_K);
    for (int64_t i = 0; i < kNumLayers; ++i) {
      const std::string prefix = "blk." + std::to_string(i) + ".";
      const ggml_type* const types = kTypes[i];
      AddNorm(prefix + "attn_norm.weight");
      AddMatrix(prefix + "attn_q.weight", kEmbed, kEmbed, types[0]);
      AddMatrix(prefix + "attn_k.weight", kEmbed, kKvWidth, types[1]);
      AddMatrix(prefix + "attn_v.weight", kEmbed, kKvWidth, types[2]);
      AddMatrix(prefix + "attn_output.weight", kEmbed, kEmbed, types[3]);
      AddNorm(prefix + "ffn_norm.weight");
      AddMatrix(prefix + "ffn_gate.weight", kEmbed, kFeedForward, types[4]);
      AddMatrix(prefix + "ffn_up.weight", kEmbed, kFeedForward, types[5]);
      AddMatrix(prefix + "ffn_down.weight", kFeedForward, kEmbed, types[6]);
    }
  }

  bool Write(const std::string& path) const {
    return gguf_write_to_file(gguf_.get(), path.c_str(), /*only_meta=*/false);
  }

 private:
  // Even in [-1, 1): a linear congruential generator (Knuth's MMIX).
  float Next() {
    state_ = state_ * 6364136223846793005ULL + 1442695040888963407ULL;
    return static_cast<float>(static_cast<int32_t>(state_ >> 32)) * 0x1p-31f;
  }

  void Add(ggml_tensor* tensor, const std::string& name) {
    ggml_set_name(tensor, name.c_str());
    gguf_add_tensor(gguf_.get(), tensor);
  }

  void AddNorm(const std::string& name) {
    ggml_tensor* const tensor = ggml_new_tensor_1d(context_.get(), GGML_TYPE_F32, kEmbed);
    auto* const values = static_cast<float*>(tensor->data);
    for (int64_t i = 0; i < kEmbed; ++i) values[i] = 1.0f + 0.1f * Next();
    Add(tensor, name);
  }

  // Rows of about unit length, so that what goes in comes out as large.
  void AddMatrix(const std::string& name, int64_t columns, int64_t rows, ggml_type type) {
    const float scale = std::sqrt(3.0f / static_cast<float>(columns));
    std::vector<float> values(static_cast<size_t>(columns * rows));
    for (float& value : values) value = scale * Next();
    const size_t num_bytes = ggml_row_size(type, columns) * static_cast<size_t>(rows);
    std::vector<uint8_t> quantized(num_bytes);
    ggml_quantize_chunk(type, values.data(), quantized.data(), 0, rows, columns, nullptr);
    const bool exact = weights_ == SelfCheckWeights::kExact;
    ggml_tensor* const tensor =
        ggml_new_tensor_2d(context_.get(), exact ? GGML_TYPE_F32 : type, columns, rows);
    if (exact) {
      ggml_get_type_traits(type)->to_float(quantized.data(), static_cast<float*>(tensor->data),
                                           columns * rows);
    } else {
      std::copy(quantized.begin(), quantized.end(), static_cast<uint8_t*>(tensor->data));
    }
    Add(tensor, name);
  }

  SelfCheckWeights weights_;
  GgufHandle gguf_;
  GgmlContextHandle context_;
  uint64_t state_ = 17;
};

}  // namespace

Status WriteSelfCheckModel(const std::string& path, SelfCheckWeights weights) {
  Writer writer(weights);
  writer.AddKeys();
  writer.AddTensors();
  if (writer.Write(path)) return Status::Ok();
  return Status::IoError("'" + path + "' can't be written");
}

}  // namespace attndb::llama
