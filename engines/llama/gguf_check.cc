#include "engines/llama/gguf_check.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <optional>

namespace attndb::llama {
namespace {

constexpr int64_t kLayersMax = 512;    // LLAMA_MAX_LAYERS
constexpr int64_t kExpertsMax = 1024;  // LLAMA_MAX_EXPERTS
constexpr int64_t kWidthMax = 1 << 24;
constexpr int64_t kHeadDimMax = 1 << 16;
constexpr int64_t kHeadsMax = 1 << 16;
constexpr int64_t kTokensMax = (int64_t{1} << 31) - 1;

// A count is one uint32; counts may be an array instead, one for each layer.
enum class CountKind : uint8_t { kOne, kEachLayer };
struct CountRule {
  std::string_view key;  // After "<architecture>.".
  CountKind kind;
  int64_t min;
  int64_t max;
};
constexpr CountRule kCountRules[] = {
    {"block_count", CountKind::kOne, 1, kLayersMax},
    {"context_length", CountKind::kOne, 1, kTokensMax},
    {"embedding_length", CountKind::kOne, 1, kWidthMax},
    {"feed_forward_length", CountKind::kEachLayer, 0, kWidthMax},
    {"expert_feed_forward_length", CountKind::kEachLayer, 0, kWidthMax},
    {"vocab_size", CountKind::kOne, 1, kTokensMax},
    {"expert_count", CountKind::kOne, 0, kExpertsMax},
    {"expert_used_count", CountKind::kEachLayer, 0, kExpertsMax},
    {"expert_shared_count", CountKind::kOne, 0, kExpertsMax},
    {"expert_group_count", CountKind::kOne, 0, kExpertsMax},
    {"expert_group_used_count", CountKind::kOne, 0, kExpertsMax},
    {"expert_gating_func", CountKind::kOne, 0, 4},
    {"experts_per_group", CountKind::kOne, 1, kExpertsMax},
    {"leading_dense_block_count", CountKind::kOne, 0, kLayersMax},
    {"interleave_moe_layer_step", CountKind::kOne, 0, kLayersMax},
    {"nextn_predict_layers", CountKind::kOne, 0, kLayersMax},
    {"attention.head_count", CountKind::kEachLayer, 0, kHeadsMax},
    {"attention.head_count_kv", CountKind::kEachLayer, 0, kHeadsMax},
    {"attention.key_length", CountKind::kOne, 1, kHeadDimMax},
    {"attention.value_length", CountKind::kOne, 1, kHeadDimMax},
    {"attention.key_length_swa", CountKind::kOne, 1, kHeadDimMax},
    {"attention.value_length_swa", CountKind::kOne, 1, kHeadDimMax},
    {"attention.key_length_mla", CountKind::kOne, 1, kHeadDimMax},
    {"attention.value_length_mla", CountKind::kOne, 1, kHeadDimMax},
    {"attention.q_lora_rank", CountKind::kOne, 0, kWidthMax},
    {"attention.kv_lora_rank", CountKind::kOne, 0, kWidthMax},
    {"attention.sliding_window", CountKind::kOne, 0, kTokensMax},
    {"attention.temperature_length", CountKind::kOne, 1, kTokensMax},
    {"attention.group_norm_groups", CountKind::kOne, 1, kWidthMax},
    {"rope.dimension_count", CountKind::kOne, 0, kHeadDimMax},
    {"rope.dimension_count_swa", CountKind::kOne, 0, kHeadDimMax},
    {"rope.scaling.original_context_length", CountKind::kOne, 0, kTokensMax},
    {"ssm.conv_kernel", CountKind::kOne, 1, kWidthMax},
    {"ssm.inner_size", CountKind::kOne, 1, kWidthMax},
    {"ssm.state_size", CountKind::kOne, 1, kWidthMax},
    {"ssm.time_step_rank", CountKind::kOne, 1, kWidthMax},
    {"ssm.group_count", CountKind::kOne, 1, kWidthMax},
};

struct RealRule {
  std::string_view key;
  double min;
  double max;
};
constexpr RealRule kRealRules[] = {
    {"attention.layer_norm_epsilon", 0, 1},
    {"attention.layer_norm_rms_epsilon", 0, 1},
    {"attention.group_norm_epsilon", 0, 1},
    {"attention.clamp_kqv", 0, 1e6},
    {"attention.max_alibi_bias", 0, 1e6},
    {"attention.scale", 0, 1e6},
    {"attn_logit_softcapping", 0, 1e6},
    {"final_logit_softcapping", 0, 1e6},
    {"router_logit_softcapping", 0, 1e6},
    {"rope.freq_base", 1e-6, 1e15},
    {"rope.freq_base_swa", 1e-6, 1e15},
    {"rope.scaling.factor", 0, 1e6},  // 0: none.
    {"rope.scale_linear", 0, 1e6},
    {"rope.scaling.attn_factor", -1e6, 1e6},
    {"logit_scale", -1e6, 1e6},
    {"residual_scale", -1e6, 1e6},
    {"embedding_scale", -1e6, 1e6},
    {"expert_weights_scale", -1e6, 1e6},
};

constexpr std::string_view kRopeScalings[] = {"none", "linear", "yarn", "longrope"};

// llama.cpp asserts of these that RoPE turns whole heads, and that keys are as long as values.
constexpr std::string_view kWholeHeadRope[] = {
    "apertus",    "arcee",        "arctic",   "baichuan",   "chameleon",      "codeshell",
    "dbrx",       "deci",         "deepseek", "dots1",      "dream",          "ernie4_5",
    "exaone",     "exaone-moe",   "exaone4",  "falcon",     "ernie4_5-moe",   "granite",
    "granitemoe", "grok",         "grovemoe", "hy_v3",      "hunyuan-moe",    "hunyuan-dense",
    "internlm2",  "jais2",        "llada",    "llada-moe",  "llama",          "llama4",
    "maincoder",  "mellum",       "mistral3", "olmo",       "olmo2",          "olmoe",
    "orion",      "paddleocr",    "plamo",    "qwen2",      "pangu-embedded", "qwen2moe",
    "qwen2vl",    "qwen3",        "qwen3moe", "qwen3vl",    "qwen3vlmoe",     "rnd1",
    "seed_oss",   "smallthinker", "smollm3",  "starcoder2", "talkie",         "xverse"};

// Their token embedding is not of the model itself.
constexpr std::string_view kOtherEmbedding[] = {"dflash", "eagle3", "wavtokenizer-dec"};

std::string Number(double value) {
  char text[32];
  std::snprintf(text, sizeof(text), "%g", value);
  return text;
}

std::string Range(const std::string& min, const std::string& max) { return min + " to " + max; }

template <typename List>
bool IsOneOf(const List& list, std::string_view text) {
  return std::ranges::find(list, text) != std::end(list);
}

// N of "blk.N.rest".
std::optional<int64_t> LayerOf(std::string_view tensor) {
  constexpr std::string_view kPrefix = "blk.";
  if (!tensor.starts_with(kPrefix)) return std::nullopt;
  int64_t layer = 0;
  const char* const begin = tensor.data() + kPrefix.size();
  const auto [end, error] = std::from_chars(begin, tensor.data() + tensor.size(), layer);
  if (error != std::errc() || end == tensor.data() + tensor.size() || *end != '.') {
    return std::nullopt;
  }
  return layer;
}

// Norms, biases and the like are added or multiplied element by element: in float32 only. Biases of
// experts have a row for each, and an operation of their own.
bool IsElementwise(const GgufTensor& tensor) {
  const std::string_view name = tensor.name;
  return name.ends_with("norm.weight") || (name.ends_with(".bias") && tensor.num_dims == 1) ||
         name.ends_with("attn_sinks.weight") || name.ends_with("rope_freqs.weight");
}

constexpr uint32_t kTensorFloat32 = 0;  // GGML_TYPE_F32

Status CheckTensorTypes(const GgufFile& file, std::span<const TensorForm> forms) {
  for (const GgufTensor& tensor : file.tensors()) {
    const std::string field = "tensor '" + QuoteBytes(tensor.name) + "'";
    const std::string found = "of type " + std::to_string(tensor.type);
    if (IsElementwise(tensor)) {
      if (tensor.type != kTensorFloat32) {
        return DamagedGguf(file.name(), field, found, "type 0 (float32)");
      }
    } else if (tensor.num_dims > 1 && !forms[tensor.type].is_weight &&
               tensor.name.find("tid2eid") == std::string::npos) {  // A table of ids.
      return DamagedGguf(file.name(), field, found, "a type of weights");
    }
  }
  return Status::Ok();
}

class ModelChecker {
 public:
  ModelChecker(std::span<const GgufFile> parts, std::span<const TensorForm> forms)
      : parts_(parts), model_(parts[0]), forms_(forms) {}

  Status Check() {
    for (const GgufFile& part : parts_) ATTNDB_RETURN_IF_ERROR(CheckTensorTypes(part, forms_));
    ATTNDB_RETURN_IF_ERROR(CheckSplits());
    ATTNDB_RETURN_IF_ERROR(CheckArchitecture());
    ATTNDB_RETURN_IF_ERROR(CheckCounts());
    ATTNDB_RETURN_IF_ERROR(CheckReals());
    ATTNDB_RETURN_IF_ERROR(CheckRopeScaling());
    ATTNDB_RETURN_IF_ERROR(CheckLayers());
    ATTNDB_RETURN_IF_ERROR(CheckExperts());
    ATTNDB_RETURN_IF_ERROR(CheckEmbedding());
    ATTNDB_RETURN_IF_ERROR(CheckHeads());
    ATTNDB_RETURN_IF_ERROR(CheckLatent());
    ATTNDB_RETURN_IF_ERROR(CheckWindows());
    return CheckRope();
  }

 private:
  const GgufValue* Find(std::string_view key) const {
    return model_.Find(architecture_ + "." + std::string(key));
  }
  Status Damaged(std::string_view key, std::string_view found, std::string_view expected) const {
    return DamagedGguf(model_.name(), architecture_ + "." + std::string(key), found, expected);
  }

  // REQUIRES: the counts are checked; layer < num_layers_.
  int64_t Count(std::string_view key, int64_t otherwise, int64_t layer = 0) const {
    const GgufValue* const value = Find(key);
    if (value == nullptr) return otherwise;
    return value->Integer(value->is_array ? static_cast<uint64_t>(layer) : 0);
  }

  const GgufTensor* FindTensor(std::string_view name) const {
    for (const GgufFile& part : parts_) {
      if (const GgufTensor* const tensor = part.FindTensor(name)) return tensor;
    }
    return nullptr;
  }

  Status CheckSplits() const {
    for (size_t i = 0; i < parts_.size(); ++i) {
      for (const auto& [key, expected] :
           {std::pair<const char*, size_t>{"split.no", i}, {"split.count", parts_.size()}}) {
        const GgufValue* const value = parts_[i].Find(key);
        if (value == nullptr) continue;
        if (!value->Is(GgufType::kUint16)) {
          return DamagedGguf(parts_[i].name(), key, "of type " + value->TypeName(), "uint16");
        }
        const int64_t found = value->Integer();
        if (parts_.size() == 1 && found <= 1) continue;
        if (found != static_cast<int64_t>(expected)) {
          return DamagedGguf(parts_[i].name(), key, std::to_string(found),
                             std::to_string(expected) + ", as the files' names say");
        }
      }
    }
    return Status::Ok();
  }

  Status CheckArchitecture() {
    constexpr const char* kKey = "general.architecture";
    const GgufValue* const value = model_.Find(kKey);
    if (value == nullptr) return DamagedGguf(model_.name(), kKey, "missing", "a name");
    if (!value->Is(GgufType::kString)) {
      return DamagedGguf(model_.name(), kKey, "of type " + value->TypeName(), "string");
    }
    architecture_ = std::string(model_.Text(kKey));
    return Status::Ok();
  }

  Status CheckCounts() {
    const GgufValue* const layers = Find("block_count");
    if (layers == nullptr) return Damaged("block_count", "missing", Range("1", "512"));
    // The first rule is about this one: arrays are as long as it says.
    for (const CountRule& rule : kCountRules) {
      const GgufValue* const value = Find(rule.key);
      if (value == nullptr) continue;
      ATTNDB_RETURN_IF_ERROR(CheckCount(rule, *value));
      if (value == layers) num_layers_ = value->Integer();
    }
    return Status::Ok();
  }

  Status CheckCount(const CountRule& rule, const GgufValue& value) const {
    if (value.is_array && rule.kind == CountKind::kEachLayer) {
      if (value.type != GgufType::kUint32 && value.type != GgufType::kInt32) {
        return Damaged(rule.key, "an " + value.TypeName(), "an array of uint32 or int32");
      }
      if (value.count != static_cast<uint64_t>(num_layers_)) {
        return Damaged(rule.key, "an array of " + std::to_string(value.count) + " elements",
                       std::to_string(num_layers_) + ", one for each layer");
      }
    } else if (!value.Is(GgufType::kUint32)) {
      return Damaged(rule.key, "of type " + value.TypeName(), "uint32");
    }
    for (uint64_t i = 0; i < value.count; ++i) {
      const int64_t count = value.Integer(i);
      if (count >= rule.min && count <= rule.max) continue;
      return Damaged(rule.key, std::to_string(count) + (value.is_array ? " in one layer" : ""),
                     Range(std::to_string(rule.min), std::to_string(rule.max)));
    }
    return Status::Ok();
  }

  Status CheckReals() const {
    for (const RealRule& rule : kRealRules) {
      const GgufValue* const value = Find(rule.key);
      if (value == nullptr) continue;
      if (!value->Is(GgufType::kFloat32)) {
        return Damaged(rule.key, "of type " + value->TypeName(), "float32");
      }
      const double real = value->Float();
      if (!(real >= rule.min && real <= rule.max)) {
        return Damaged(rule.key, Number(real), Range(Number(rule.min), Number(rule.max)));
      }
    }
    // No number that a model is described with is none.
    for (const auto& [key, value] : model_.values()) {
      const bool is_read = key.starts_with(architecture_ + ".") || key.starts_with("tokenizer.");
      if (!value.is_float() || !is_read) continue;
      for (uint64_t i = 0; i < value.count; ++i) {
        if (std::isnan(value.Float(i))) {
          return DamagedGguf(model_.name(), QuoteBytes(key), "NaN", "a number");
        }
      }
    }
    return Status::Ok();
  }

  Status CheckRopeScaling() const {
    constexpr std::string_view kKey = "rope.scaling.type";
    const GgufValue* const value = Find(kKey);
    if (value == nullptr) return Status::Ok();
    if (!value->Is(GgufType::kString)) {
      return Damaged(kKey, "of type " + value->TypeName(), "string");
    }
    const std::string_view scaling = value->Strings()[0];
    if (IsOneOf(kRopeScalings, scaling)) return Status::Ok();
    return Damaged(kKey, "'" + QuoteBytes(scaling) + "'", "none, linear, yarn or longrope");
  }

  // The file has tensors of as many layers as it says.
  Status CheckLayers() const {
    const int64_t num_predicting = Count("nextn_predict_layers", 0);
    if (num_predicting >= num_layers_) {
      return Damaged("nextn_predict_layers", std::to_string(num_predicting),
                     "less than block_count, " + std::to_string(num_layers_));
    }
    int64_t num_found = 0;
    for (const GgufFile& part : parts_) {
      for (const GgufTensor& tensor : part.tensors()) {
        num_found = std::max(num_found, LayerOf(tensor.name).value_or(-1) + 1);
      }
    }
    if (num_found == 0) return Status::Ok();  // They have other names.
    if (num_found <= num_layers_ && num_found >= num_layers_ - num_predicting) return Status::Ok();
    return Damaged("block_count", std::to_string(num_layers_),
                   std::to_string(num_found) + ", as many layers as there are tensors of");
  }

  Status CheckExperts() const {
    const int64_t num_experts = Count("expert_count", 0);
    int64_t num_used = 0;
    for (int64_t i = 0; i < num_layers_; ++i) {
      num_used = std::max(num_used, Count("expert_used_count", 0, i));
    }
    // llama.cpp itself mends these.
    const bool mended = architecture_.starts_with("hunyuan") && num_experts <= 1;
    if (!mended && (num_used > num_experts || (num_used == 0) != (num_experts == 0))) {
      return Damaged("expert_used_count", std::to_string(num_used),
                     num_experts == 0 ? "0, since expert_count is 0"
                                      : Range("1", "expert_count, " + std::to_string(num_experts)));
    }
    const int64_t num_groups = Count("expert_group_count", 0);
    if (num_groups > 0 &&
        (num_groups >= num_experts || (num_groups > 1 && num_experts % num_groups != 0))) {
      return Damaged("expert_group_count", std::to_string(num_groups),
                     "a divisor of expert_count, " + std::to_string(num_experts));
    }
    const int64_t groups_used = Count("expert_group_used_count", 0);
    if (num_groups > 1 && (groups_used < 1 || groups_used >= num_groups)) {
      return Damaged("expert_group_used_count", std::to_string(groups_used),
                     "1 and more, less than expert_group_count, " + std::to_string(num_groups));
    }
    // It divides by it.
    if (architecture_ == "ernie4_5-moe" && Count("interleave_moe_layer_step", 1) < 1) {
      return Damaged("interleave_moe_layer_step", "0", "1 and more");
    }
    return Status::Ok();
  }

  Status CheckEmbedding() const {
    const GgufTensor* tensor = FindTensor("token_embd.weight");
    if (IsOneOf(kOtherEmbedding, architecture_)) tensor = nullptr;
    ATTNDB_RETURN_IF_ERROR(CheckVocabulary(model_, tensor == nullptr ? 0 : tensor->shape[1]));
    if (tensor == nullptr) return Status::Ok();
    const int64_t width = Count("embedding_length", 0);
    if (static_cast<uint64_t>(width) == tensor->shape[0]) return Status::Ok();
    return Damaged("embedding_length", width == 0 ? "missing" : std::to_string(width),
                   std::to_string(tensor->shape[0]) + ", the width of token_embd.weight");
  }

  // Of one head; where there is no key, the embedding is cut into heads.
  int64_t HeadDim(std::string_view key) const {
    const int64_t num_heads = Count("attention.head_count", 0);
    return Count(key, num_heads == 0 ? 0 : Count("embedding_length", 0) / num_heads);
  }

  Status CheckHeads() const {
    const int64_t first_heads = Count("attention.head_count", 0);
    const int64_t width = Count("embedding_length", 0);
    if (first_heads > 0 && Find("attention.key_length") == nullptr && width % first_heads != 0) {
      return Damaged("attention.head_count", std::to_string(first_heads),
                     "a divisor of embedding_length, " + std::to_string(width));
    }
    for (int64_t i = 0; i < num_layers_; ++i) {
      const int64_t num_heads = Count("attention.head_count", 0, i);
      const int64_t num_kv_heads = Count("attention.head_count_kv", num_heads, i);
      if (num_heads > 0 && num_kv_heads > 0 && num_heads % num_kv_heads != 0) {
        return Damaged("attention.head_count_kv", std::to_string(num_kv_heads),
                       "a divisor of head_count, " + std::to_string(num_heads));
      }
      ATTNDB_RETURN_IF_ERROR(CheckKvWidths(i, num_kv_heads));
      ATTNDB_RETURN_IF_ERROR(CheckQueryWidth(i, num_heads));
    }
    return Status::Ok();
  }

  // The KV cache has rows of what the keys say, and gets what the tensors make.
  Status CheckKvWidths(int64_t layer, int64_t num_kv_heads) const {
    if (Find("attention.key_length_swa") != nullptr || Find("attention.kv_lora_rank") != nullptr) {
      return Status::Ok();  // These differ between layers, or are the latent's.
    }
    const std::string prefix = "blk." + std::to_string(layer) + ".";
    for (const auto& [name, length] :
         {std::pair<const char*, const char*>{"attn_k.weight", "attention.key_length"},
          {"attn_v.weight", "attention.value_length"}}) {
      const GgufTensor* const tensor = FindTensor(prefix + name);
      if (tensor == nullptr) continue;
      const int64_t head_dim = HeadDim(length);
      if (static_cast<uint64_t>(num_kv_heads * head_dim) == tensor->shape[1]) continue;
      const std::string expected = "the width of " + prefix + name + ", " +
                                   std::to_string(tensor->shape[1]) + ", over the other";
      if (Find(length) != nullptr && num_kv_heads > 0 &&
          tensor->shape[1] % static_cast<uint64_t>(num_kv_heads) == 0) {
        return Damaged(
            length, std::to_string(head_dim) + " x " + std::to_string(num_kv_heads) + " kv heads",
            expected);
      }
      return Damaged("attention.head_count_kv",
                     std::to_string(num_kv_heads) + " x " + std::to_string(head_dim) + " channels",
                     expected);
    }
    return Status::Ok();
  }

  // Others may have gates in the same tensor.
  Status CheckQueryWidth(int64_t layer, int64_t num_heads) const {
    const std::string name = "blk." + std::to_string(layer) + ".attn_q.weight";
    const GgufTensor* const tensor = FindTensor(name);
    if (tensor == nullptr || !IsOneOf(kWholeHeadRope, architecture_)) return Status::Ok();
    const int64_t head_dim = HeadDim("attention.key_length");
    if (static_cast<uint64_t>(num_heads * head_dim) == tensor->shape[1]) return Status::Ok();
    return Damaged("attention.head_count",
                   std::to_string(num_heads) + " x " + std::to_string(head_dim) + " channels",
                   "the width of " + name + ", " + std::to_string(tensor->shape[1]));
  }

  // Where there is a window, a layer has it.
  Status CheckWindows() const {
    constexpr std::string_view kKey = "attention.sliding_window_pattern";
    const GgufValue* const pattern = Find(kKey);
    if (pattern == nullptr || Count("attention.sliding_window", 0) == 0) return Status::Ok();
    if (pattern->type == GgufType::kString || pattern->is_float()) {
      return Damaged(kKey, "of type " + pattern->TypeName(), "uint32, or an array of bool");
    }
    bool any = false;
    if (pattern->is_array) {
      for (uint64_t i = 0; i < pattern->count; ++i) any = any || pattern->Integer(i) != 0;
    } else {
      any = pattern->Integer() != 1;  // Each nth layer has none; of 0, all have it.
    }
    if (any) return Status::Ok();
    return Damaged(kKey, pattern->is_array ? "an array without a layer" : "1",
                   "one with layers that attention.sliding_window is for");
  }

  // Multi-head latent attention: the cache has one row of the latent with the rotated part.
  Status CheckLatent() const {
    const GgufValue* const latent = Find("attention.key_length_mla");
    if (latent == nullptr) return Status::Ok();
    const int64_t rope = Count("rope.dimension_count", 0);
    const int64_t row = Count("attention.kv_lora_rank", 0) + rope;
    if (latent->Integer() <= rope) {
      return Damaged("attention.key_length_mla", std::to_string(latent->Integer()),
                     "more than rope.dimension_count, " + std::to_string(rope));
    }
    if (Find("attention.key_length") != nullptr && Count("attention.key_length", 0) != row) {
      return Damaged("attention.key_length", std::to_string(Count("attention.key_length", 0)),
                     "kv_lora_rank + rope.dimension_count, " + std::to_string(row));
    }
    if (Find("attention.key_length") == nullptr) {
      return Damaged("attention.key_length", "missing", std::to_string(row));
    }
    for (int64_t i = 0; i < num_layers_; ++i) {
      const int64_t num_kv_heads =
          Count("attention.head_count_kv", Count("attention.head_count", 0, i), i);
      if (num_kv_heads > 1) {
        return Damaged("attention.head_count_kv", std::to_string(num_kv_heads), "1");
      }
    }
    return Status::Ok();
  }

  Status CheckRope() const {
    if (Count("attention.head_count", 0) == 0) return Status::Ok();
    const int64_t head_dim = HeadDim("attention.key_length");
    const int64_t rope = Count("rope.dimension_count", head_dim);
    const bool whole = IsOneOf(kWholeHeadRope, architecture_);
    if (rope % 2 != 0 || rope > head_dim || (whole && rope != head_dim)) {
      return Damaged(
          "rope.dimension_count", std::to_string(rope),
          whole ? std::to_string(head_dim) + ", the channels of a head"
                : "an even number up to the channels of a head, " + std::to_string(head_dim));
    }
    const int64_t v_head_dim = HeadDim("attention.value_length");
    if (whole && v_head_dim != head_dim) {
      return Damaged("attention.value_length", std::to_string(v_head_dim),
                     std::to_string(head_dim) + ", as attention.key_length");
    }
    const int64_t swa_head_dim = Count("attention.key_length_swa", head_dim);
    const int64_t swa_rope = Count("rope.dimension_count_swa", std::min(rope, swa_head_dim));
    if (swa_rope % 2 != 0 || swa_rope > swa_head_dim) {
      return Damaged(
          "rope.dimension_count_swa", std::to_string(swa_rope),
          "an even number up to the channels of a head, " + std::to_string(swa_head_dim));
    }
    return Status::Ok();
  }

  std::span<const GgufFile> parts_;
  const GgufFile& model_;  // The first part.
  std::span<const TensorForm> forms_;
  std::string architecture_;
  int64_t num_layers_ = 0;
};

}  // namespace

Status CheckModelFields(std::span<const GgufFile> parts, std::span<const TensorForm> forms) {
  return ModelChecker(parts, forms).Check();
}

Status CheckAdapterFields(const GgufFile& adapter, std::span<const TensorForm> forms) {
  ATTNDB_RETURN_IF_ERROR(CheckTensorTypes(adapter, forms));
  for (const char* const key : {"general.type", "general.architecture", "adapter.type"}) {
    const GgufValue* const value = adapter.Find(key);
    if (value == nullptr) return DamagedGguf(adapter.name(), key, "missing", "a text");
    if (value->Is(GgufType::kString)) continue;
    return DamagedGguf(adapter.name(), key, "of type " + value->TypeName(), "string");
  }
  constexpr const char* kAlpha = "adapter.lora.alpha";
  const GgufValue* const alpha = adapter.Find(kAlpha);
  if (alpha == nullptr) return Status::Ok();
  if (!alpha->Is(GgufType::kFloat32)) {
    return DamagedGguf(adapter.name(), kAlpha, "of type " + alpha->TypeName(), "float32");
  }
  if (!std::isfinite(alpha->Float())) {
    return DamagedGguf(adapter.name(), kAlpha, Number(alpha->Float()), "a finite number");
  }
  return Status::Ok();
}

}  // namespace attndb::llama
