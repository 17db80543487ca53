#include "engines/llama/gguf_test_util.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace attndb::llama {
namespace {

constexpr size_t kAlignment = 32;

template <typename T>
std::string Raw(T value) {
  return {reinterpret_cast<const char*>(&value), sizeof(value)};
}

std::string RawText(std::string_view text) {
  return Raw(uint64_t{text.size()}) + std::string(text);
}

std::string TypeOf(GgufType type) { return Raw(static_cast<uint32_t>(type)); }

template <typename T>
std::string Array(GgufType type, std::span<const T> values) {
  std::string raw = TypeOf(GgufType::kArray) + TypeOf(type) + Raw(uint64_t{values.size()});
  for (const T& value : values) raw += Raw(value);
  return raw;
}

void Pad(std::string* bytes) {
  bytes->resize((bytes->size() + kAlignment - 1) / kAlignment * kAlignment);
}

using Named = std::vector<std::pair<std::string, std::string>>;

void AddHostileIntegers(Named* all) {
  for (const uint32_t value :
       {0u, 1u, 2u, 3u, 7u, 65536u, 1000000u, 2147483647u, 2147483648u, 4294967295u}) {
    all->emplace_back(std::to_string(value), GgufUint32(value));
  }
}

void AddHostileReals(Named* all) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  for (const float value : {0.0f, -1.0f, std::nanf(""), kInfinity, -kInfinity, 1e-40f, 3e38f}) {
    all->emplace_back(std::to_string(value), GgufFloat32(value));
  }
}

void AddHostileArrays(const GgufValue& value, Named* all) {
  const auto count = static_cast<size_t>(value.count);
  if (value.type == GgufType::kString) {
    const std::string last = "the last";
    for (const char* const text : {"", " ", "same", "a b c"}) {
      std::vector<std::string> texts(count, text);
      all->emplace_back("all '" + std::string(text) + "'", GgufTexts(texts));
      for (size_t i = 0; i < count; ++i) texts[i] = text + std::to_string(i);
      all->emplace_back("all like '" + std::string(text) + "'", GgufTexts(texts));
      texts.pop_back();
      all->emplace_back("one less like '" + std::string(text) + "'", GgufTexts(texts));
    }
    all->emplace_back("no text", GgufTexts({}));
  } else if (value.is_float()) {
    for (const float real : {std::nanf(""), std::numeric_limits<float>::infinity()}) {
      all->emplace_back("all " + std::to_string(real),
                        GgufFloat32s(std::vector<float>(count, real)));
    }
    all->emplace_back("one real", GgufFloat32s(std::vector<float>(1, 0.0f)));
    all->emplace_back("no real", GgufFloat32s({}));
  } else {
    for (const int32_t number : {0, -1, 7, 1000000, 2147483647}) {
      std::vector<int32_t> numbers(count, number);
      all->emplace_back("all " + std::to_string(number), GgufInt32s(numbers));
      for (size_t i = 0; i + 1 < count; ++i) {
        numbers[i] = static_cast<int32_t>(value.Integer(i));
      }
      all->emplace_back("last " + std::to_string(number), GgufInt32s(numbers));
      numbers.push_back(number);
      all->emplace_back("one more " + std::to_string(number), GgufInt32s(numbers));
    }
    all->emplace_back("no number", GgufInt32s({}));
  }
}

}  // namespace

std::string GgufUint32(uint32_t value) { return TypeOf(GgufType::kUint32) + Raw(value); }
std::string GgufInt32(int32_t value) { return TypeOf(GgufType::kInt32) + Raw(value); }
std::string GgufUint64(uint64_t value) { return TypeOf(GgufType::kUint64) + Raw(value); }
std::string GgufUint16(uint16_t value) { return TypeOf(GgufType::kUint16) + Raw(value); }
std::string GgufFloat32(float value) { return TypeOf(GgufType::kFloat32) + Raw(value); }
std::string GgufBool(bool value) { return TypeOf(GgufType::kBool) + Raw(uint8_t{value}); }
std::string GgufText(std::string_view value) { return TypeOf(GgufType::kString) + RawText(value); }

std::string GgufTexts(std::span<const std::string> values) {
  std::string raw =
      TypeOf(GgufType::kArray) + TypeOf(GgufType::kString) + Raw(uint64_t{values.size()});
  for (const std::string& value : values) raw += RawText(value);
  return raw;
}

std::string GgufUint32s(std::span<const uint32_t> values) {
  return Array(GgufType::kUint32, values);
}
std::string GgufInt32s(std::span<const int32_t> values) { return Array(GgufType::kInt32, values); }
std::string GgufFloat32s(std::span<const float> values) {
  return Array(GgufType::kFloat32, values);
}

GgufParts GgufParts::Of(const GgufFile& file, std::string_view bytes) {
  GgufParts parts;
  for (const auto& [key, value] : file.values()) {
    std::string raw;
    if (value.is_array) raw += TypeOf(GgufType::kArray);
    raw += TypeOf(value.type);
    if (value.is_array) raw += Raw(value.count);
    raw.append(reinterpret_cast<const char*>(value.bytes.data()), value.bytes.size());
    parts.values.emplace_back(key, std::move(raw));
  }
  for (const GgufTensor& tensor : file.tensors()) {
    parts.tensors.push_back({tensor.name,
                             {tensor.shape.begin(), tensor.shape.begin() + tensor.num_dims},
                             tensor.type,
                             tensor.offset});
  }
  parts.data = std::string(bytes.substr(file.data_begin()));
  return parts;
}

void GgufParts::Set(std::string_view key, std::string value) {
  const auto found = std::ranges::find(values, key, [](const auto& entry) { return entry.first; });
  if (found == values.end()) {
    values.emplace_back(key, std::move(value));
  } else {
    found->second = std::move(value);
  }
}

void GgufParts::Remove(std::string_view key) {
  std::erase_if(values, [&](const auto& entry) { return entry.first == key; });
}

void GgufParts::AddTensor(const std::string& name, std::vector<uint64_t> shape) {
  uint64_t num_bytes = sizeof(float);
  for (const uint64_t size : shape) num_bytes *= size;
  tensors.push_back({name, std::move(shape), 0, data.size()});
  data.append(num_bytes, '\0');
  Pad(&data);
}

std::string GgufParts::Bytes() const {
  std::string bytes =
      "GGUF" + Raw(version) + Raw(uint64_t{tensors.size()}) + Raw(uint64_t{values.size()});
  for (const auto& [key, value] : values) bytes += RawText(key) + value;
  for (const Tensor& tensor : tensors) {
    bytes += RawText(tensor.name) + Raw(static_cast<uint32_t>(tensor.shape.size()));
    for (const uint64_t size : tensor.shape) bytes += Raw(size);
    bytes += Raw(tensor.type) + Raw(tensor.offset);
  }
  Pad(&bytes);
  return bytes + data;
}

GgufParts SmallModel() {
  constexpr uint32_t kEmbed = 32;
  constexpr uint32_t kTokens = 16;
  GgufParts model;
  model.Set("general.architecture", GgufText("llama"));
  for (const auto& [key, value] : std::map<std::string, uint32_t>{{"block_count", 2},
                                                                  {"context_length", 64},
                                                                  {"embedding_length", kEmbed},
                                                                  {"feed_forward_length", 48},
                                                                  {"attention.head_count", 4},
                                                                  {"attention.head_count_kv", 2},
                                                                  {"attention.key_length", 8},
                                                                  {"attention.value_length", 8},
                                                                  {"rope.dimension_count", 8},
                                                                  {"expert_count", 4},
                                                                  {"expert_used_count", 2}}) {
    model.Set("llama." + key, GgufUint32(value));
  }
  model.Set("llama.attention.layer_norm_rms_epsilon", GgufFloat32(1e-5f));
  model.Set("llama.rope.freq_base", GgufFloat32(10000.0f));
  model.Set("llama.rope.scaling.type", GgufText("linear"));
  model.Set("llama.rope.scaling.factor", GgufFloat32(2.0f));
  std::vector<std::string> tokens;
  for (uint32_t i = 0; i < kTokens; ++i) tokens.push_back("token " + std::to_string(i));
  model.Set("tokenizer.ggml.model", GgufText("llama"));
  model.Set("tokenizer.ggml.tokens", GgufTexts(tokens));
  model.Set("tokenizer.ggml.scores", GgufFloat32s(std::vector<float>(kTokens, -1.0f)));
  model.Set("tokenizer.ggml.token_type", GgufInt32s(std::vector<int32_t>(kTokens, 1)));
  model.Set("tokenizer.ggml.bos_token_id", GgufUint32(1));
  model.Set("tokenizer.ggml.add_bos_token", GgufBool(true));
  model.AddTensor("token_embd.weight", {kEmbed, kTokens});
  model.AddTensor("output_norm.weight", {kEmbed});
  for (const char* const layer : {"blk.0.", "blk.1."}) {
    model.AddTensor(std::string(layer) + "attn_norm.weight", {kEmbed});
    model.AddTensor(std::string(layer) + "attn_k.weight", {kEmbed, 16});
    model.AddTensor(std::string(layer) + "attn_v.weight", {kEmbed, 16});
  }
  return model;
}

std::vector<TensorForm> FewTensorForms() {
  std::vector<TensorForm> forms(25);
  forms[0] = {1, 4, true};
  forms[1] = {1, 2, true};
  forms[8] = {32, 34, true};
  forms[24] = {1, 1, false};
  return forms;
}

std::span<const std::byte> AsBytes(std::string_view text) {
  return {reinterpret_cast<const std::byte*>(text.data()), text.size()};
}

Named HostileValues(const GgufValue& value) {
  Named all = {{"a text", GgufText("x")},
               {"a flag", GgufBool(true)},
               {"a list", GgufInt32s(std::vector<int32_t>{1, 2, 3})},
               {"a wide number", GgufUint64(5)},
               {"a signed number", GgufInt32(-1)}};
  if (value.is_array) {
    AddHostileArrays(value, &all);
    all.emplace_back("one number", GgufUint32(1));
  } else if (value.is_float()) {
    AddHostileReals(&all);
    all.emplace_back("no real", GgufUint32(1));
  } else if (value.is_integer()) {
    AddHostileIntegers(&all);
    all.emplace_back("a real", GgufFloat32(1.0f));
  } else if (value.type == GgufType::kBool) {
    all.emplace_back("the other", GgufBool(value.Integer() == 0));
  } else {
    all.emplace_back("empty", GgufText(""));
    all.emplace_back("long", GgufText(std::string(100000, '\x7f')));
    all.emplace_back("a number", GgufUint32(1));
  }
  return all;
}

}  // namespace attndb::llama
