// Owners of llama.cpp's and ggml's C handles.
//
// Threads: values; as the handle itself.
#ifndef ATTNDB_ENGINES_LLAMA_LLAMA_HANDLES_H_
#define ATTNDB_ENGINES_LLAMA_LLAMA_HANDLES_H_

#include <ggml.h>
#include <llama.h>

#include <memory>

namespace attndb::llama {

template <auto kFree>
struct CallFree {
  template <typename T>
  void operator()(T* handle) const {
    kFree(handle);
  }
};

using ModelHandle = std::unique_ptr<llama_model, CallFree<llama_model_free>>;
using ContextHandle = std::unique_ptr<llama_context, CallFree<llama_free>>;
using SamplerHandle = std::unique_ptr<llama_sampler, CallFree<llama_sampler_free>>;
using GgmlContextHandle = std::unique_ptr<ggml_context, CallFree<ggml_free>>;

}  // namespace attndb::llama

#endif  // ATTNDB_ENGINES_LLAMA_LLAMA_HANDLES_H_
