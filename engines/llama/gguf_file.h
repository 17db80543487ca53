// The head of a GGUF file: keys with their values, and what tensors there are. It is read by ggml's
// own reader, which llama.cpp opens its models with, so that both see the same.
//
// Errors:  kIoError (no such file, or it is a folder); kInvalidArgument with what ggml says of it.
// Threads: values; thread-compatible.
#ifndef ATTNDB_ENGINES_LLAMA_GGUF_FILE_H_
#define ATTNDB_ENGINES_LLAMA_GGUF_FILE_H_

#include <ggml.h>
#include <gguf.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "attndb/result.h"

namespace attndb::llama {

struct GgufTensor {
  std::string_view name;
  ggml_type type = GGML_TYPE_F32;
  const int64_t* shape = nullptr;  // The four dimensions, the fastest first.
};

class GgufFile {
 public:
  static Result<GgufFile> Open(const std::string& path);

  const std::string& path() const { return path_; }
  const gguf_context* context() const { return context_.get(); }

  // -1 if there is none of this name.
  int64_t Find(const std::string& key) const { return gguf_find_key(context_.get(), key.c_str()); }
  bool Is(const std::string& key, gguf_type type) const;

  // Values as llama.cpp takes them; nothing where there is no such key, or it has another type,
  // which llama.cpp reports itself. Count: one uint32, or the entry of `layer` in an array of them.
  std::optional<int64_t> Count(const std::string& key, int64_t layer = 0) const;
  std::optional<float> Real(const std::string& key) const;
  std::optional<bool> Flag(const std::string& key) const;
  std::optional<std::string> Text(const std::string& key) const;

  std::vector<GgufTensor> Tensors() const;
  std::optional<GgufTensor> FindTensor(const std::string& name) const;

 private:
  struct Free {
    void operator()(gguf_context* context) const { gguf_free(context); }
  };
  GgufFile(std::string path, gguf_context* context) : path_(std::move(path)), context_(context) {}
  GgufTensor Tensor(int64_t i) const;

  std::string path_;
  std::unique_ptr<gguf_context, Free> context_;
};

// kInvalidArgument with the text "'PATH': FIELD is FOUND, expected EXPECTED; <what to do>".
Status DamagedGguf(std::string_view path, std::string_view field, std::string_view found,
                   std::string_view expected);

// Text of a file, as it is safe to print: at most 60 characters, others than ASCII as \xNN.
std::string QuoteBytes(std::string_view bytes);

}  // namespace attndb::llama

#endif  // ATTNDB_ENGINES_LLAMA_GGUF_FILE_H_
