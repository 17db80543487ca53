#include "engines/llama/model_probe.h"

#include <ggml-backend.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <string>

#include "engines/llama/attention_graph.h"
#include "engines/llama/layer_reader.h"
#include "engines/llama/llama_log.h"

namespace attndb::llama {
namespace {

constexpr int32_t kWindowMax = 16384;  // Longest sliding window that a probe is built for.
constexpr uint32_t kCellPad = 256;     // llama.cpp rounds the cells of its KV cache up to these.

std::string MetaValue(const llama_model* model, const std::string& key) {
  char value[128];
  const int length = llama_model_meta_val_str(model, key.c_str(), value, sizeof(value));
  return length < 0 ? "" : std::string(value);
}

// What is known to be unsupported from the model alone.
Status CheckModelKind(const llama_model* model) {
  const std::string arch = MetaValue(model, "general.architecture");
  const std::string name = "architecture '" + arch + "': ";
  if (llama_model_is_recurrent(model)) return Status::Unsupported(name + "recurrent model");
  if (llama_model_is_hybrid(model)) return Status::Unsupported(name + "hybrid recurrent model");
  if (llama_model_is_diffusion(model)) return Status::Unsupported(name + "diffusion model");
  if (llama_model_has_encoder(model)) return Status::Unsupported(name + "model with an encoder");
  if (!llama_model_has_decoder(model)) return Status::Unsupported(name + "model without decoder");
  if (MetaValue(model, arch + ".rope.scaling.type") == "longrope") {
    return Status::Unsupported(name + "RoPE scaling 'longrope' depends on the context's length");
  }
  if (llama_model_n_swa(model) > kWindowMax) {
    return Status::Unsupported(name + "sliding window of " +
                               std::to_string(llama_model_n_swa(model)) + " tokens, at most " +
                               std::to_string(kWindowMax) + " are supported");
  }
  return Status::Ok();
}

bool MaskVisible(const ggml_tensor* mask, int64_t row, int64_t cell, bool* valid) {
  const char* data = static_cast<const char*>(mask->data) + static_cast<size_t>(row) * mask->nb[1] +
                     static_cast<size_t>(cell) * mask->nb[0];
  const float value = mask->type == GGML_TYPE_F16
                          ? ggml_fp16_to_fp32(*reinterpret_cast<const ggml_fp16_t*>(data))
                          : *reinterpret_cast<const float*>(data);
  if (value != 0.0f && !(std::isinf(value) && value < 0.0f)) *valid = false;
  return value == 0.0f;
}

// Window of a mask over tokens 0..num_tokens-1 of one sequence, in cells of the same number: 0 if
// each token sees all before it.
Result<uint32_t> ReadMask(const ggml_tensor* mask, int64_t num_tokens) {
  if ((mask->type != GGML_TYPE_F16 && mask->type != GGML_TYPE_F32) || mask->buffer == nullptr ||
      !ggml_backend_buffer_is_host(mask->buffer) || mask->ne[0] < num_tokens ||
      mask->ne[1] < num_tokens) {
    return Status::Unsupported("mask of unknown form: " + Describe(mask));
  }
  bool valid = true;
  int64_t window = 0;  // Tokens that the last one sees.
  for (int64_t cell = 0; cell < mask->ne[0]; ++cell) {
    window += MaskVisible(mask, num_tokens - 1, cell, &valid) ? 1 : 0;
  }
  for (int64_t row = 0; row < num_tokens && valid; ++row) {
    for (int64_t cell = 0; cell < mask->ne[0]; ++cell) {
      const bool expected = cell <= row && cell > row - window;
      if (MaskVisible(mask, row, cell, &valid) != expected) valid = false;
    }
  }
  if (!valid || window == 0) {
    return Status::Unsupported(
        "mask that is neither causal nor a sliding window (chunked, "
        "bidirectional or biased attention)");
  }
  return window == num_tokens ? 0u : static_cast<uint32_t>(window);
}

// Reads the graph as llama.cpp asks for each node, then stops the run.
class Probe {
 public:
  static bool OnNode(ggml_tensor* node, bool ask, void* self) {
    if (ask) static_cast<Probe*>(self)->Read(node);
    return false;
  }
  static bool OnAbort(void*) { return true; }

  void set_num_tokens(int64_t num_tokens) { num_tokens_ = num_tokens; }

  Result<std::vector<LayerSpec>> Layers() const {
    ATTNDB_RETURN_IF_ERROR(status_);
    ATTNDB_RETURN_IF_ERROR(reader_.Finish());
    if (layers_.empty()) {
      return Status::Unsupported("no flash-attention node over the KV cache in the graph");
    }
    return layers_;
  }

 private:
  void Read(ggml_tensor* node) {
    if (!status_.ok()) return;
    if (Status status = TryRead(node); !status.ok()) status_ = std::move(status);
  }

  Status TryRead(ggml_tensor* node) {
    ATTNDB_ASSIGN_OR_RETURN(const auto site, reader_.Visit(node));
    if (!site) return Status::Ok();
    ATTNDB_ASSIGN_OR_RETURN(LayerSpec layer, ReadLayer(*site));
    ATTNDB_ASSIGN_OR_RETURN(layer.rope, ReadRope(*site));
    ATTNDB_ASSIGN_OR_RETURN(layer.sliding_window, Window(*site));
    if (site->attention->src[0]->ne[1] != num_tokens_) {
      return Status::Unsupported("layer " + std::to_string(site->layer) +
                                 ": attention over a part of the batch");
    }
    layers_.push_back(layer);
    return Status::Ok();
  }

  Result<uint32_t> Window(const AttentionSite& site) {
    const ggml_tensor* mask = site.attention->src[3];
    const auto known = windows_.find(mask);
    if (known != windows_.end()) return known->second;
    Result<uint32_t> window = ReadMask(mask, num_tokens_);
    if (!window.ok()) {
      return window.status().WithContext("layer " + std::to_string(site.layer));
    }
    windows_[mask] = *window;
    return window;
  }

  int64_t num_tokens_ = 0;
  GraphReader reader_;
  std::vector<LayerSpec> layers_;
  std::map<const ggml_tensor*, uint32_t> windows_;  // Layers share one or two masks.
  Status status_;
};

}  // namespace

llama_context_params BaseContextParams(uint32_t num_threads) {
  llama_context_params params = llama_context_default_params();
  params.n_threads = static_cast<int32_t>(num_threads);
  params.n_threads_batch = static_cast<int32_t>(num_threads);
  params.flash_attn_type = LLAMA_FLASH_ATTN_TYPE_ENABLED;
  params.type_k = GGML_TYPE_F16;
  params.type_v = GGML_TYPE_F16;
  params.offload_kqv = false;
  params.op_offload = false;
  params.kv_unified = true;
  params.no_perf = true;
  return params;
}

Result<std::vector<LayerSpec>> ProbeModel(const llama_model* model, const ContextFactory& factory) {
  ATTNDB_RETURN_IF_ERROR(CheckModelKind(model));
  Probe probe;
  const auto num_tokens = static_cast<uint32_t>(std::max(llama_model_n_swa(model), 2) + 2);
  llama_context_params params = BaseContextParams(1);
  params.n_ctx = (num_tokens + kCellPad - 1) / kCellPad * kCellPad;
  params.n_batch = num_tokens;
  params.n_ubatch = num_tokens;
  params.n_outputs_max = 1;
  params.cb_eval = Probe::OnNode;
  params.cb_eval_user_data = &probe;
  params.abort_callback = Probe::OnAbort;
  const ContextHandle context = factory(params);
  if (context == nullptr) {
    const std::string words = "llama.cpp made no context: " + LoggedComplaints();
    // An assertion that failed under an AbortGuard says that the file is wrong, not memory short.
    const bool asserted = words.find("GGML_ASSERT") != std::string::npos;
    return asserted ? Status::InvalidArgument(words) : Status::ResourceExhausted(words);
  }
  probe.set_num_tokens(num_tokens);
  std::vector<llama_token> tokens(num_tokens, 0);
  llama_decode(context.get(), llama_batch_get_one(tokens.data(), static_cast<int32_t>(num_tokens)));
  return probe.Layers();
}

}  // namespace attndb::llama
