#include "engines/llama/gguf_test_util.h"

#include <gtest/gtest.h>
#include <llama.h>
#include <stdlib.h>
#include <sys/resource.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <fstream>
#include <limits>

#include "engines/llama/child_process.h"

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

std::string TypeOf(gguf_type type) { return Raw(static_cast<uint32_t>(type)); }

template <typename T>
std::string Array(gguf_type type, std::span<const T> values) {
  std::string raw = TypeOf(GGUF_TYPE_ARRAY) + TypeOf(type) + Raw(uint64_t{values.size()});
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

void AddHostileTexts(size_t count, Named* all) {
  for (const char* const text : {"", " ", "same", "a b c"}) {
    std::vector<std::string> texts(count, text);
    all->emplace_back("all '" + std::string(text) + "'", GgufTexts(texts));
    for (size_t i = 0; i < count; ++i) texts[i] = text + std::to_string(i);
    all->emplace_back("all like '" + std::string(text) + "'", GgufTexts(texts));
    texts.pop_back();
    all->emplace_back("one less like '" + std::string(text) + "'", GgufTexts(texts));
  }
  all->emplace_back("no text", GgufTexts({}));
}

void AddHostileRealLists(size_t count, Named* all) {
  for (const float real : {std::nanf(""), std::numeric_limits<float>::infinity()}) {
    all->emplace_back("all " + std::to_string(real), GgufFloat32s(std::vector<float>(count, real)));
  }
  all->emplace_back("one real", GgufFloat32s(std::vector<float>(1, 0.0f)));
  all->emplace_back("no real", GgufFloat32s({}));
}

// `values`: those that the file has.
void AddHostileIntegerLists(std::span<const int32_t> values, Named* all) {
  for (const int32_t number : {0, -1, 7, 1000000, 2147483647}) {
    all->emplace_back("all " + std::to_string(number),
                      GgufInt32s(std::vector<int32_t>(values.size(), number)));
    std::vector<int32_t> numbers(values.begin(), values.end());
    numbers.back() = number;
    all->emplace_back("last " + std::to_string(number), GgufInt32s(numbers));
    numbers.push_back(number);
    all->emplace_back("one more " + std::to_string(number), GgufInt32s(numbers));
  }
  all->emplace_back("no number", GgufInt32s({}));
}

void AddHostileArrays(const gguf_context* file, int64_t id, Named* all) {
  const size_t count = gguf_get_arr_n(file, id);
  const gguf_type type = gguf_get_arr_type(file, id);
  if (type == GGUF_TYPE_STRING) {
    AddHostileTexts(count, all);
  } else if (type == GGUF_TYPE_FLOAT32) {
    AddHostileRealLists(count, all);
  } else {
    AddHostileIntegerLists({static_cast<const int32_t*>(gguf_get_arr_data(file, id)), count}, all);
  }
}

constexpr std::array<size_t, GGUF_TYPE_COUNT> kTypeBytes = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};

// Type and bytes of a value, as they stand in the file.
std::string RawValue(const gguf_context* file, int64_t id) {
  const gguf_type type = gguf_get_kv_type(file, id);
  if (type == GGUF_TYPE_STRING) return GgufText(gguf_get_val_str(file, id));
  if (type != GGUF_TYPE_ARRAY) {
    const auto* const data = static_cast<const char*>(gguf_get_val_data(file, id));
    return TypeOf(type) + std::string(data, kTypeBytes[type]);
  }
  const gguf_type element = gguf_get_arr_type(file, id);
  const size_t count = gguf_get_arr_n(file, id);
  if (element != GGUF_TYPE_STRING) {
    const auto* const data = static_cast<const char*>(gguf_get_arr_data(file, id));
    return TypeOf(type) + TypeOf(element) + Raw(uint64_t{count}) +
           std::string(data, count * kTypeBytes[element]);
  }
  std::vector<std::string> texts;
  for (size_t i = 0; i < count; ++i) texts.emplace_back(gguf_get_arr_str(file, id, i));
  return GgufTexts(texts);
}

constexpr rlim_t kMemoryMax = rlim_t{8} << 30;  // So that a huge allocation fails here as anywhere.
constexpr double kSecondsMax = 30;

void TokenizeAndBack(const llama_vocab* vocab) {
  const std::string_view text = "ba be\n bi\xe2\x82\xac";
  std::array<llama_token, 64> ids = {};
  std::array<char, 512> back = {};
  const int count = llama_tokenize(vocab, text.data(), static_cast<int>(text.size()), ids.data(),
                                   static_cast<int>(ids.size()), true, true);
  llama_detokenize(vocab, ids.data(), std::max(count, 0), back.data(),
                   static_cast<int>(back.size()), false, true);
}

PlainEnd RunTokens(llama_context* context, const llama_model* model) {
  const int num_tokens = llama_vocab_n_tokens(llama_model_get_vocab(model));
  std::array<llama_token, 9> ids = {};
  for (size_t i = 0; i < ids.size(); ++i) {
    ids[i] = static_cast<int>(5 + 37 * i) % std::max(num_tokens, 1);
  }
  const llama_batch batch = llama_batch_get_one(ids.data(), static_cast<int>(ids.size()));
  if (llama_model_has_encoder(model) && llama_encode(context, batch) != 0)
    return PlainEnd::kRefused;
  if (llama_decode(context, batch) != 0) return PlainEnd::kRefused;
  const float* const logits = llama_get_logits(context);
  const bool wrong = logits != nullptr && std::any_of(logits, logits + num_tokens, [](float logit) {
                       return std::isnan(logit);
                     });
  return wrong ? PlainEnd::kWrong : PlainEnd::kRan;
}

// In a child: nothing is given back, and an exception that llama.cpp lets go ends it.
PlainEnd RunPlainLlama(const std::string& path, const std::string& adapter_path) noexcept {
  const rlimit memory = {kMemoryMax, kMemoryMax};
  setrlimit(RLIMIT_AS, &memory);
  setenv("GGML_NO_BACKTRACE", "1", 1);  // NOLINT(concurrency-mt-unsafe): one thread.
  llama_model_params params = llama_model_default_params();
  ggml_backend_dev_t no_devices[] = {nullptr};
  params.devices = no_devices;
  llama_model* const model = llama_model_load_from_file(path.c_str(), params);
  if (model == nullptr) return PlainEnd::kRefused;
  const llama_vocab* const vocab = llama_model_get_vocab(model);
  if (llama_vocab_type(vocab) != LLAMA_VOCAB_TYPE_NONE) TokenizeAndBack(vocab);
  llama_context_params context_params = llama_context_default_params();
  context_params.n_ctx = context_params.n_batch = context_params.n_ubatch = 64;
  context_params.n_threads = context_params.n_threads_batch = 1;
  llama_context* const context = llama_init_from_model(model, context_params);
  if (context == nullptr) return PlainEnd::kRefused;
  if (!adapter_path.empty()) {
    llama_adapter_lora* adapter = llama_adapter_lora_init(model, adapter_path.c_str());
    float scale = 1.0f;
    if (adapter == nullptr || llama_set_adapters_lora(context, &adapter, 1, &scale) != 0) {
      return PlainEnd::kRefused;
    }
  }
  return RunTokens(context, model);
}

}  // namespace

std::string GgufUint32(uint32_t value) { return TypeOf(GGUF_TYPE_UINT32) + Raw(value); }
std::string GgufInt32(int32_t value) { return TypeOf(GGUF_TYPE_INT32) + Raw(value); }
std::string GgufUint64(uint64_t value) { return TypeOf(GGUF_TYPE_UINT64) + Raw(value); }
std::string GgufUint16(uint16_t value) { return TypeOf(GGUF_TYPE_UINT16) + Raw(value); }
std::string GgufFloat32(float value) { return TypeOf(GGUF_TYPE_FLOAT32) + Raw(value); }
std::string GgufBool(bool value) { return TypeOf(GGUF_TYPE_BOOL) + Raw(uint8_t{value}); }
std::string GgufText(std::string_view value) { return TypeOf(GGUF_TYPE_STRING) + RawText(value); }

std::string GgufTexts(std::span<const std::string> values) {
  std::string raw =
      TypeOf(GGUF_TYPE_ARRAY) + TypeOf(GGUF_TYPE_STRING) + Raw(uint64_t{values.size()});
  for (const std::string& value : values) raw += RawText(value);
  return raw;
}

std::string GgufUint32s(std::span<const uint32_t> values) {
  return Array(GGUF_TYPE_UINT32, values);
}
std::string GgufInt32s(std::span<const int32_t> values) { return Array(GGUF_TYPE_INT32, values); }
std::string GgufFloat32s(std::span<const float> values) { return Array(GGUF_TYPE_FLOAT32, values); }

GgufParts GgufParts::Of(const GgufFile& file) {
  const gguf_context* const context = file.context();
  GgufParts parts;
  for (int64_t id = 0; id < gguf_get_n_kv(context); ++id) {
    parts.values.emplace_back(gguf_get_key(context, id), RawValue(context, id));
  }
  int64_t i = 0;
  for (const GgufTensor& tensor : file.Tensors()) {
    std::vector<uint64_t> shape(tensor.shape, tensor.shape + GGML_MAX_DIMS);
    while (shape.size() > 1 && shape.back() == 1) shape.pop_back();
    parts.tensors.push_back({std::string(tensor.name), shape, static_cast<uint32_t>(tensor.type),
                             gguf_get_tensor_offset(context, i++)});
  }
  std::ifstream bytes(file.path(), std::ios::binary);
  bytes.seekg(static_cast<std::streamoff>(gguf_get_data_offset(context)));
  parts.data = std::string(std::istreambuf_iterator<char>(bytes), {});
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

void GgufParts::Replace(std::string_view ending, const std::vector<uint64_t>& shape,
                        uint32_t type) {
  std::string changed;
  bool found = false;
  for (size_t i = 0; i < tensors.size(); ++i) {
    const uint64_t end = i + 1 < tensors.size() ? tensors[i + 1].offset : data.size();
    std::string bytes = data.substr(tensors[i].offset, end - tensors[i].offset);
    tensors[i].offset = changed.size();
    if (tensors[i].name.ends_with(ending)) {
      found = true;
      tensors[i].shape = shape;
      tensors[i].type = type;
      uint64_t num_bytes =
          ggml_row_size(static_cast<ggml_type>(type), static_cast<int64_t>(shape[0]));
      for (size_t d = 1; d < shape.size(); ++d) num_bytes *= shape[d];
      bytes.assign(num_bytes, '\0');
      Pad(&bytes);
    }
    changed += bytes;
  }
  EXPECT_TRUE(found) << ending;
  data = std::move(changed);
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

PlainTrial TryPlainLlama(const std::string& model, const std::string& adapter) {
  const Result<ChildEnd> end =
      RunInChild([&] { return static_cast<int>(RunPlainLlama(model, adapter)); }, kSecondsMax);
  if (!end.ok()) return {PlainEnd::kRan, end.status().ToString()};
  if (end->timed_out || end->signal != 0) return {PlainEnd::kDied, end->output};
  return {static_cast<PlainEnd>(end->exit_code), end->output};
}

Named HostileValues(const GgufFile& file, int64_t id) {
  const gguf_type type = gguf_get_kv_type(file.context(), id);
  Named all = {{"a text", GgufText("x")},
               {"a flag", GgufBool(true)},
               {"a list", GgufInt32s(std::vector<int32_t>{1, 2, 3})},
               {"a wide number", GgufUint64(5)},
               {"a signed number", GgufInt32(-1)}};
  if (type == GGUF_TYPE_ARRAY) {
    AddHostileArrays(file.context(), id, &all);
    all.emplace_back("one number", GgufUint32(1));
  } else if (type == GGUF_TYPE_FLOAT32) {
    AddHostileReals(&all);
    all.emplace_back("no real", GgufUint32(1));
  } else if (type == GGUF_TYPE_UINT32) {
    AddHostileIntegers(&all);
    all.emplace_back("a real", GgufFloat32(1.0f));
  } else if (type == GGUF_TYPE_BOOL) {
    all.emplace_back("the other", GgufBool(!gguf_get_val_bool(file.context(), id)));
  } else {
    all.emplace_back("empty", GgufText(""));
    all.emplace_back("long", GgufText(std::string(100000, '\x7f')));
    all.emplace_back("a number", GgufUint32(1));
  }
  return all;
}

}  // namespace attndb::llama
