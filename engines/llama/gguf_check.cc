#include "engines/llama/gguf_check.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <optional>
#include <unordered_map>

namespace attndb::llama {
namespace {

constexpr size_t kAlignmentMin = 32;  // What ggml's buffers need.

// Counts that llama.cpp asserts the limits of, or computes with in 32 bits.
struct CountRule {
  const char* key;  // After "<architecture>.".
  int64_t min;
  int64_t max;
};
constexpr CountRule kCountRules[] = {
    {"block_count", 1, 512},    // LLAMA_MAX_LAYERS
    {"expert_count", 0, 1024},  // LLAMA_MAX_EXPERTS
    {"expert_gating_func", 0, 4},
    {"experts_per_group", 1, 1024},
    {"rope.scaling.original_context_length", 0, (int64_t{1} << 31) - 1},
};

// Reals that llama.cpp asserts, takes the logarithm of or divides by.
struct RealRule {
  const char* key;
  double min;
};
constexpr double kTiny = 1e-38;  // One over less is no float32.
constexpr RealRule kRealRules[] = {
    {"attention.layer_norm_epsilon", 0}, {"attention.layer_norm_rms_epsilon", 0},
    {"rope.freq_base", kTiny},           {"rope.freq_base_swa", kTiny},
    {"rope.scaling.factor", kTiny},
};

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

// Counts that the checks compute with.
constexpr const char* kUsedCounts[] = {
    "embedding_length",       "attention.head_count",   "attention.head_count_kv",
    "attention.key_length",   "attention.value_length", "attention.key_length_mla",
    "attention.kv_lora_rank", "rope.dimension_count",   "expert_count",
    "expert_used_count"};

std::string Number(double value) {
  char text[32];
  std::snprintf(text, sizeof(text), "%g", value);
  return text;
}

std::string Text(int64_t number) { return std::to_string(number); }

// Added or multiplied element by element, which ggml does in float32 only.
bool IsElementwise(std::string_view tensor) {
  return tensor.ends_with("norm.weight") || tensor.ends_with(".bias") ||
         tensor.ends_with("attn_sinks.weight") || tensor.starts_with("rope_f");
}

Status CheckTensorTypes(const GgufFile& file) {
  for (const GgufTensor& tensor : file.Tensors()) {
    const std::string field = "tensor '" + QuoteBytes(tensor.name) + "'";
    const std::string found = std::string("of type ") + ggml_type_name(tensor.type);
    if (tensor.type == GGML_TYPE_F32) continue;
    if (IsElementwise(tensor.name)) return DamagedGguf(file.path(), field, found, "f32");
    // What ggml can make floats of, it can multiply with. The one table of ids is no weight.
    const bool is_weight = ggml_get_type_traits(tensor.type)->to_float != nullptr;
    if (!is_weight && tensor.shape[1] > 1 &&
        tensor.name.find("tid2eid") == std::string_view::npos) {
      return DamagedGguf(file.path(), field, found, "a type of weights");
    }
  }
  return Status::Ok();
}

class ModelChecker {
 public:
  explicit ModelChecker(std::span<const GgufFile> parts)
      : parts_(parts),
        model_(parts[0]),
        architecture_(model_.Text("general.architecture").value_or("")) {}

  Status Check() {
    for (const GgufFile& part : parts_) ATTNDB_RETURN_IF_ERROR(CheckTensorTypes(part));
    ATTNDB_RETURN_IF_ERROR(CheckFiles());
    ATTNDB_RETURN_IF_ERROR(CheckCounts());
    ATTNDB_RETURN_IF_ERROR(CheckReals());
    ATTNDB_RETURN_IF_ERROR(CheckRopeScaling());
    if (LlamaCppSaysWhat()) return Status::Ok();
    ATTNDB_RETURN_IF_ERROR(CheckExperts());
    ATTNDB_RETURN_IF_ERROR(CheckExpertGroups());
    ATTNDB_RETURN_IF_ERROR(CheckHeads());
    ATTNDB_RETURN_IF_ERROR(CheckLatent());
    ATTNDB_RETURN_IF_ERROR(CheckWindows());
    ATTNDB_RETURN_IF_ERROR(CheckRope());
    return CheckVocabulary();
  }

 private:
  std::string Key(const std::string& key) const { return architecture_ + "." + key; }
  Status Damaged(const std::string& key, const std::string& found,
                 const std::string& expected) const {
    return DamagedGguf(model_.path(), Key(key), found, expected);
  }
  int64_t Count(const std::string& key, int64_t otherwise, int64_t layer = 0) const {
    return model_.Count(Key(key), layer).value_or(otherwise);
  }
  int64_t NumKvHeads(int64_t layer) const {
    return Count("attention.head_count_kv", Count("attention.head_count", 0, layer), layer);
  }
  bool Has(const std::string& key) const { return model_.Find(Key(key)) >= 0; }
  bool IsWhole() const {
    return std::ranges::find(kWholeHeadRope, architecture_) != std::end(kWholeHeadRope);
  }

  std::optional<GgufTensor> FindTensor(const std::string& name) const {
    for (const GgufFile& part : parts_) {
      if (auto tensor = part.FindTensor(name)) return tensor;
    }
    return std::nullopt;
  }
  std::optional<GgufTensor> FindTensor(int64_t layer, const std::string& name) const {
    return FindTensor("blk." + Text(layer) + "." + name);
  }

  // llama.cpp refuses it in order, and better than checks that compute with what is wrong: no
  // layers, a count of another type, or another width of the embedding than the tensor's.
  bool LlamaCppSaysWhat() const {
    for (const char* const key : kUsedCounts) {
      if (Has(key) && !model_.Count(Key(key))) return true;
    }
    const std::optional<GgufTensor> embedding = FindTensor("token_embd.weight");
    return num_layers_ == 0 ||
           (embedding && embedding->shape[0] != Count("embedding_length", embedding->shape[0]));
  }

  Status CheckFiles() const {
    for (const GgufFile& part : parts_) {
      const size_t alignment = gguf_get_alignment(part.context());
      if (alignment < kAlignmentMin) {
        return DamagedGguf(part.path(), "general.alignment", std::to_string(alignment),
                           "32 and more");
      }
      if (part.Find("split.no") >= 0 && !part.Is("split.no", GGUF_TYPE_UINT16)) {
        return DamagedGguf(part.path(), "split.no", "of another type", "u16");
      }
    }
    return Status::Ok();
  }

  Status CheckCounts() {
    for (const CountRule& rule : kCountRules) {
      const int64_t count = Count(rule.key, rule.min);
      if (count >= rule.min && count <= rule.max) continue;
      return Damaged(rule.key, Text(count), Text(rule.min) + " to " + Text(rule.max));
    }
    if (model_.Real(Key("attention.temperature_scale")).value_or(0) != 0 &&
        Count("attention.temperature_length", 1) == 0) {
      return Damaged("attention.temperature_length", "0", "1 and more");
    }
    num_layers_ = Count("block_count", 0);
    if (num_layers_ == 0) return Status::Ok();
    const int64_t num_predicting = Count("nextn_predict_layers", 0);
    if (num_predicting < num_layers_) return Status::Ok();
    return Damaged("nextn_predict_layers", Text(num_predicting),
                   "less than block_count, " + Text(num_layers_));
  }

  Status CheckReals() const {
    for (const RealRule& rule : kRealRules) {
      const double real = model_.Real(Key(rule.key)).value_or(1);
      const bool is_none = real == 0 && std::string_view(rule.key) == "rope.scaling.factor";
      if (real >= rule.min || is_none || std::isnan(real)) continue;
      return Damaged(rule.key, Number(real), Number(rule.min) + " and more");
    }
    // A number that is none makes all logits none.
    for (int64_t i = 0; i < gguf_get_n_kv(model_.context()); ++i) {
      const std::string key = gguf_get_key(model_.context(), i);
      const double real = model_.Real(key).value_or(0);
      if (!key.starts_with(architecture_ + ".") || std::isfinite(real)) continue;
      return DamagedGguf(model_.path(), QuoteBytes(key), Number(real), "a finite number");
    }
    return Status::Ok();
  }

  Status CheckRopeScaling() const {
    const std::optional<std::string> scaling = model_.Text(Key("rope.scaling.type"));
    for (const char* const known : {"none", "linear", "yarn", "longrope"}) {
      if (!scaling || *scaling == known) return Status::Ok();
    }
    return Damaged("rope.scaling.type", "'" + QuoteBytes(*scaling) + "'",
                   "none, linear, yarn or longrope");
  }

  Status CheckExperts() const {
    const int64_t num_experts = Count("expert_count", 0);
    int64_t num_used = 0;
    for (int64_t i = 0; i < num_layers_; ++i) {
      const int64_t used = Count("expert_used_count", 0, i);
      num_used = std::max(num_used, used);
      if (num_experts > 0 && used == 0 && FindTensor(i, "ffn_gate_inp.weight")) {
        return Damaged("expert_used_count", "0 of layer " + Text(i),
                       "1 and more where there are experts");
      }
    }
    // llama.cpp itself mends these.
    const bool mended = architecture_.starts_with("hunyuan") && num_experts <= 1;
    if (!mended && (num_used > num_experts || (num_used == 0) != (num_experts == 0))) {
      return Damaged("expert_used_count", Text(num_used),
                     num_experts == 0 ? "0, since expert_count is 0"
                                      : "1 to expert_count, " + Text(num_experts));
    }
    return Status::Ok();
  }

  Status CheckExpertGroups() const {
    const int64_t num_experts = Count("expert_count", 0);
    const int64_t num_groups = Count("expert_group_count", 0);
    if (num_groups > 0 && (num_groups >= num_experts || num_experts % num_groups != 0)) {
      return Damaged("expert_group_count", Text(num_groups),
                     "a divisor of expert_count, " + Text(num_experts));
    }
    const int64_t groups_used = Count("expert_group_used_count", 0);
    if (num_groups > 1 && (groups_used < 1 || groups_used >= num_groups)) {
      return Damaged("expert_group_used_count", Text(groups_used),
                     "1 and more, less than expert_group_count, " + Text(num_groups));
    }
    // It divides by it.
    if (architecture_ == "ernie4_5-moe" && Count("interleave_moe_layer_step", 1) < 1) {
      return Damaged("interleave_moe_layer_step", "0", "1 and more");
    }
    return Status::Ok();
  }

  // Channels of one head. Where the file has no such key, the embedding is cut into heads.
  int64_t HeadDim(const std::string& key) const {
    const int64_t num_heads = Count("attention.head_count", 0);
    return Count(key, num_heads == 0 ? 0 : Count("embedding_length", 0) / num_heads);
  }

  Status CheckHeads() const {
    for (int64_t i = 0; i < num_layers_; ++i) {
      const int64_t num_heads = Count("attention.head_count", 0, i);
      const int64_t num_kv_heads = NumKvHeads(i);
      if (num_heads > 0 && num_kv_heads > 0 && num_heads % num_kv_heads != 0) {
        return Damaged("attention.head_count_kv", Text(num_kv_heads),
                       "a divisor of head_count, " + Text(num_heads));
      }
      if (IsWhole()) ATTNDB_RETURN_IF_ERROR(CheckWidth(i, "attn_q.weight", "key", num_heads));
      if (Has("attention.kv_lora_rank")) continue;  // CheckLatent.
      ATTNDB_RETURN_IF_ERROR(CheckWidth(i, "attn_k.weight", "key", num_kv_heads));
      ATTNDB_RETURN_IF_ERROR(CheckWidth(i, "attn_v.weight", "value", num_kv_heads));
    }
    ATTNDB_RETURN_IF_ERROR(CheckWindowWidth("attn_k.weight", "attention.key_length_swa"));
    return CheckWindowWidth("attn_v.weight", "attention.value_length_swa");
  }

  // The graph and the KV cache have rows of what the keys say, and get what the tensors make.
  Status CheckWidth(int64_t layer, const std::string& name, const std::string& what,
                    int64_t num_heads) const {
    const std::optional<GgufTensor> tensor = FindTensor(layer, name);
    if (!tensor) return Status::Ok();
    const std::string key = "attention." + what + "_length";
    const int64_t head_dim = HeadDim(key);
    const int64_t width = tensor->shape[1];
    // Layers with a window may have heads of another length.
    if (width == num_heads * head_dim || width == num_heads * Count(key + "_swa", head_dim)) {
      return Status::Ok();
    }
    const std::string expected =
        "what makes the width of blk." + Text(layer) + "." + name + ", " + Text(width);
    if (Has(key))
      return Damaged(key, Text(head_dim) + " in " + Text(num_heads) + " heads", expected);
    return Damaged("attention.head_count", Text(num_heads) + " of " + Text(head_dim) + " channels",
                   expected);
  }

  // `key` is the width of heads in layers with a sliding window: one layer at least must have it.
  Status CheckWindowWidth(const std::string& name, const std::string& key) const {
    if (!Has(key) || Has("attention.kv_lora_rank")) return Status::Ok();
    const int64_t head_dim = Count(key, 0);
    int64_t other_width = -1;
    for (int64_t i = 0; i < num_layers_; ++i) {
      const std::optional<GgufTensor> tensor = FindTensor(i, name);
      if (!tensor) continue;
      if (tensor->shape[1] == NumKvHeads(i) * head_dim) return Status::Ok();
      other_width = tensor->shape[1];
    }
    if (other_width < 0) return Status::Ok();
    return Damaged(key, Text(head_dim),
                   "what makes the width of " + name + ", " + Text(other_width));
  }

  // Multi-head latent attention: the cache has one row of the latent with the rotated part.
  Status CheckLatent() const {
    if (!Has("attention.key_length_mla") || !Has("attention.kv_lora_rank")) return Status::Ok();
    const int64_t rope = Count("rope.dimension_count", HeadDim("attention.key_length"));
    const int64_t row = Count("attention.kv_lora_rank", 0) + rope;
    if (const int64_t key = Count("attention.key_length_mla", 0); key <= rope) {
      return Damaged("attention.key_length_mla", Text(key),
                     "more than rope.dimension_count, " + Text(rope));
    }
    if (const int64_t key = HeadDim("attention.key_length"); key != row) {
      return Damaged("attention.key_length", Text(key),
                     "kv_lora_rank + rope.dimension_count, " + Text(row));
    }
    for (int64_t i = 0; i < num_layers_; ++i) {
      if (NumKvHeads(i) > 1) {
        return Damaged("attention.head_count_kv", Text(NumKvHeads(i)), "1");
      }
    }
    return Status::Ok();
  }

  // Where there is a window, a layer has it.
  Status CheckWindows() const {
    const std::string key = Key("attention.sliding_window_pattern");
    if (!Has("attention.sliding_window_pattern") || Count("attention.sliding_window", 0) == 0) {
      return Status::Ok();
    }
    const int64_t id = model_.Find(key);
    bool any = Count("attention.sliding_window_pattern", 0) != 1;  // Each nth layer has none.
    if (model_.Is(key, GGUF_TYPE_ARRAY)) {
      const gguf_type type = gguf_get_arr_type(model_.context(), id);
      if (type != GGUF_TYPE_BOOL && type != GGUF_TYPE_UINT32 && type != GGUF_TYPE_INT32) {
        return Status::Ok();
      }
      const size_t element_bytes = type == GGUF_TYPE_BOOL ? 1 : sizeof(uint32_t);
      const auto* const data = static_cast<const uint8_t*>(gguf_get_arr_data(model_.context(), id));
      any = std::any_of(data, data + gguf_get_arr_n(model_.context(), id) * element_bytes,
                        [](uint8_t byte) { return byte != 0; });
    }
    if (any) return Status::Ok();
    return Damaged("attention.sliding_window_pattern", "one without a layer",
                   "one with layers that attention.sliding_window is for");
  }

  Status CheckRope() const {
    if (Count("attention.head_count", 0) == 0) return Status::Ok();
    const int64_t head_dim = HeadDim("attention.key_length");
    const int64_t rope = Count("rope.dimension_count", head_dim);
    ATTNDB_RETURN_IF_ERROR(CheckRopeDims("rope.dimension_count", head_dim));
    ATTNDB_RETURN_IF_ERROR(
        CheckRopeDims("rope.dimension_count_swa", Count("attention.key_length_swa", head_dim)));
    if (!IsWhole()) return Status::Ok();
    if (rope != head_dim) {
      return Damaged("rope.dimension_count", Text(rope),
                     Text(head_dim) + ", the channels of a head");
    }
    if (const int64_t value = HeadDim("attention.value_length"); value != head_dim) {
      return Damaged("attention.value_length", Text(value),
                     Text(head_dim) + ", as attention.key_length");
    }
    return Status::Ok();
  }

  // Where there is no key, there may be no RoPE, and heads of an odd length.
  Status CheckRopeDims(const std::string& key, int64_t head_dim) const {
    const int64_t dims = Count(key, 0);
    if (dims % 2 == 0 && dims <= head_dim) return Status::Ok();
    return Damaged(key, Text(dims),
                   "an even number up to the channels of a head, " + Text(head_dim));
  }

  Status CheckVocabulary() const {
    const std::string tokenizer = model_.Text("tokenizer.ggml.model").value_or("none");
    if (tokenizer == "no_vocab" || tokenizer == "none") return Status::Ok();
    if (tokenizer == "rwkv") {
      return Status::Unsupported("'" + model_.path() +
                                 "': tokenizer.ggml.model is rwkv, of recurrent models");
    }
    const int64_t id = model_.Find("tokenizer.ggml.tokens");
    if (!model_.Is("tokenizer.ggml.tokens", GGUF_TYPE_ARRAY) ||
        gguf_get_arr_type(model_.context(), id) != GGUF_TYPE_STRING) {
      return Status::Ok();
    }
    const auto num_tokens = static_cast<int64_t>(gguf_get_arr_n(model_.context(), id));
    ATTNDB_RETURN_IF_ERROR(CheckTokens(id, num_tokens));
    // These have no begin and no end of text, or no begin, unless the file names it; gemma4 always
    // begins with one. The others' defaults are in each vocabulary of more than a few tokens.
    const bool is_gemma = tokenizer == "gemma4";
    if (!is_gemma && tokenizer != "t5") return Status::Ok();
    ATTNDB_RETURN_IF_ERROR(CheckEnd("bos", is_gemma, num_tokens));
    return is_gemma ? CheckEnd("eos", false, num_tokens) : Status::Ok();
  }

  Status CheckTokens(int64_t id, int64_t num_tokens) const {
    std::unordered_map<std::string, int64_t> ids;
    ids.reserve(static_cast<size_t>(num_tokens));
    for (int64_t i = 0; i < num_tokens; ++i) {
      std::string text = gguf_get_arr_str(model_.context(), id, static_cast<size_t>(i));
      if (text.empty()) text = "[EMPTY_" + Text(i) + "]";  // As llama.cpp names it.
      const auto [other, is_new] = ids.emplace(text, i);
      if (is_new) continue;
      return DamagedGguf(model_.path(), "token " + Text(i) + " of tokenizer.ggml.tokens",
                         "'" + QuoteBytes(text) + "', as token " + Text(other->second),
                         "each token once");
    }
    return Status::Ok();
  }

  Status CheckEnd(const std::string& which, bool adds, int64_t num_tokens) const {
    const std::string key = "tokenizer.ggml." + which + "_token_id";
    adds = adds || model_.Flag("tokenizer.ggml.add_" + which + "_token").value_or(false);
    const std::optional<int64_t> token = model_.Count(key);
    if (!adds || token.value_or(num_tokens) < num_tokens) return Status::Ok();
    return DamagedGguf(model_.path(), key, token ? Text(*token) : "missing",
                       "the id of one of " + Text(num_tokens) +
                           " tokens, since a text is to begin or end with it");
  }

  std::span<const GgufFile> parts_;
  const GgufFile& model_;  // The first part.
  std::string architecture_;
  int64_t num_layers_ = 0;  // 0 where the file does not say.
};

}  // namespace

Status CheckModelFields(std::span<const GgufFile> parts) { return ModelChecker(parts).Check(); }

Status CheckAdapterFields(const GgufFile& adapter) {
  ATTNDB_RETURN_IF_ERROR(CheckTensorTypes(adapter));
  for (const char* const key : {"general.type", "general.architecture", "adapter.type"}) {
    if (adapter.Find(key) < 0 || adapter.Is(key, GGUF_TYPE_STRING)) continue;
    return DamagedGguf(adapter.path(), key, "of another type", "str");
  }
  const std::string alpha = "adapter.lora.alpha";
  if (adapter.Find(alpha) < 0) return Status::Ok();
  const std::optional<float> real = adapter.Real(alpha);
  if (!real) return DamagedGguf(adapter.path(), alpha, "of another type", "f32");
  if (std::isfinite(*real)) return Status::Ok();
  return DamagedGguf(adapter.path(), alpha, Number(*real), "a finite number");
}

}  // namespace attndb::llama
