#include "engines/llama/gguf_file.h"

#include <cstdio>
#include <filesystem>
#include <system_error>
#include <utility>

#include "engines/llama/abort_guard.h"
#include "engines/llama/llama_log.h"

namespace attndb::llama {
namespace {

constexpr size_t kQuotedMax = 60;

}  // namespace

std::string QuoteBytes(std::string_view bytes) {
  std::string text;
  for (const char c : bytes.substr(0, kQuotedMax)) {
    if (c >= ' ' && c <= '~') {
      text += c;
    } else {
      char escaped[8];
      std::snprintf(escaped, sizeof(escaped), "\\x%02x", static_cast<unsigned char>(c));
      text += escaped;
    }
  }
  return bytes.size() > kQuotedMax ? text + "..." : text;
}

Status DamagedGguf(std::string_view path, std::string_view field, std::string_view found,
                   std::string_view expected) {
  std::string text = "'" + std::string(path) + "': ";
  text.append(field).append(" is ").append(found).append(", expected ").append(expected);
  text += ". The file is damaged, or its converter was wrong: download or convert it again";
  return Status::InvalidArgument(text);
}

Result<GgufFile> GgufFile::Open(const std::string& path) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error)) {
    return Status::IoError("'" + path + "' is no file that can be read");
  }
  BeginLog();
  gguf_context* context = nullptr;
  ATTNDB_RETURN_IF_ERROR(Guarded("'" + path + "'", [&] {
    context = gguf_init_from_file(path.c_str(), {.no_alloc = true, .ctx = nullptr});
    return Status::Ok();
  }));
  if (context != nullptr) return GgufFile(path, context);
  return Status::InvalidArgument("'" + path + "' is not a GGUF model: " + LoggedComplaints());
}

bool GgufFile::Is(const std::string& key, gguf_type type) const {
  const int64_t id = Find(key);
  return id >= 0 && gguf_get_kv_type(context(), id) == type;
}

std::optional<int64_t> GgufFile::Count(const std::string& key, int64_t layer) const {
  const int64_t id = Find(key);
  if (Is(key, GGUF_TYPE_UINT32)) return gguf_get_val_u32(context(), id);
  if (!Is(key, GGUF_TYPE_ARRAY)) return std::nullopt;
  const gguf_type type = gguf_get_arr_type(context(), id);
  if (type != GGUF_TYPE_UINT32 && type != GGUF_TYPE_INT32) return std::nullopt;
  if (static_cast<size_t>(layer) >= gguf_get_arr_n(context(), id)) return std::nullopt;
  return static_cast<const uint32_t*>(gguf_get_arr_data(context(), id))[layer];
}

std::optional<float> GgufFile::Real(const std::string& key) const {
  if (!Is(key, GGUF_TYPE_FLOAT32)) return std::nullopt;
  return gguf_get_val_f32(context(), Find(key));
}

std::optional<bool> GgufFile::Flag(const std::string& key) const {
  if (!Is(key, GGUF_TYPE_BOOL)) return std::nullopt;
  return gguf_get_val_bool(context(), Find(key));
}

std::optional<std::string> GgufFile::Text(const std::string& key) const {
  if (!Is(key, GGUF_TYPE_STRING)) return std::nullopt;
  return gguf_get_val_str(context(), Find(key));
}

GgufTensor GgufFile::Tensor(int64_t i) const {
  return {gguf_get_tensor_name(context(), i), gguf_get_tensor_type(context(), i),
          gguf_get_tensor_ne(context(), i)};
}

std::vector<GgufTensor> GgufFile::Tensors() const {
  std::vector<GgufTensor> tensors;
  for (int64_t i = 0; i < gguf_get_n_tensors(context()); ++i) tensors.push_back(Tensor(i));
  return tensors;
}

std::optional<GgufTensor> GgufFile::FindTensor(const std::string& name) const {
  const int64_t i = gguf_find_tensor(context(), name.c_str());
  return i < 0 ? std::nullopt : std::optional(Tensor(i));
}

}  // namespace attndb::llama
