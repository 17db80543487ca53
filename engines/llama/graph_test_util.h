// Small ggml graphs of llama.cpp's form, made by hand for tests of what reads and rewrites them.
// Nothing is computed; inputs, weights and caches lie in buffers of the kinds that llama.cpp uses.
//
// Threads: one thread.
#ifndef ATTNDB_ENGINES_LLAMA_GRAPH_TEST_UTIL_H_
#define ATTNDB_ENGINES_LLAMA_GRAPH_TEST_UTIL_H_

#include <ggml-backend.h>
#include <ggml-cpu.h>

#include <cstdint>
#include <memory>
#include <numeric>
#include <span>
#include <vector>

#include "engines/llama/llama_handles.h"

namespace attndb::llama {

class TestGraph {
 public:
  static constexpr int64_t kDim = 8;
  static constexpr int64_t kHeads = 2;
  static constexpr int64_t kWidth = kDim * kHeads;
  static constexpr int64_t kCells = 16;
  static constexpr int64_t kTokens = 3;

  ggml_context* nodes() { return nodes_.get(); }

  // A tensor of the KV cache.
  ggml_tensor* NewCache() {
    return InBuffer(GGML_TYPE_F16, kWidth, kCells, GGML_BACKEND_BUFFER_USAGE_ANY);
  }
  // New rows of nobody knows where, and rows that were projected and rotated.
  ggml_tensor* Rows() { return ggml_new_tensor_2d(nodes(), GGML_TYPE_F32, kWidth, kTokens); }
  ggml_tensor* RotatedRows() {
    ggml_tensor* weight =
        InBuffer(GGML_TYPE_F32, kWidth, kWidth, GGML_BACKEND_BUFFER_USAGE_WEIGHTS);
    ggml_tensor* heads =
        ggml_reshape_3d(nodes(), ggml_mul_mat(nodes(), weight, Rows()), kDim, kHeads, kTokens);
    rope_ = ggml_rope(nodes(), heads, Positions(), kDim, GGML_ROPE_TYPE_NEOX);
    return ggml_reshape_2d(nodes(), rope_, kWidth, kTokens);
  }
  ggml_tensor* Store(ggml_tensor* cache, ggml_tensor* rows = nullptr) {
    ggml_tensor* cells = ggml_new_tensor_1d(nodes(), GGML_TYPE_I64, kTokens);
    return ggml_set_rows(nodes(), cache, rows == nullptr ? Rows() : rows, cells);
  }
  ggml_tensor* Attention(ggml_tensor* k, ggml_tensor* v, float scale = 0.5f) {
    ggml_tensor* q = ggml_new_tensor_3d(nodes(), GGML_TYPE_F32, kDim, kTokens, kHeads);
    ggml_tensor* mask = ggml_new_tensor_2d(nodes(), GGML_TYPE_F16, kCells, kTokens);
    return ggml_flash_attn_ext(nodes(), q, Heads(k), Heads(v), mask, scale, 0.0f, 0.0f);
  }
  ggml_tensor* Weights(const std::vector<float>& values) {
    ggml_tensor* weights = InBuffer(GGML_TYPE_F32, static_cast<int64_t>(values.size()), 1,
                                    GGML_BACKEND_BUFFER_USAGE_WEIGHTS);
    ggml_backend_tensor_set(weights, values.data(), 0, values.size() * sizeof(float));
    return weights;
  }
  ggml_tensor* Computation() { return ggml_add(nodes(), Rows(), Rows()); }

  // Positions 0, 1, 2 in memory that can be read.
  ggml_tensor* Positions() {
    if (positions_ == nullptr) {
      positions_ = InBuffer(GGML_TYPE_I32, kTokens, 1, GGML_BACKEND_BUFFER_USAGE_COMPUTE);
      std::iota(PositionData().begin(), PositionData().end(), 0);
    }
    return positions_;
  }
  std::span<int32_t> PositionData() {
    return {static_cast<int32_t*>(positions_->data), static_cast<size_t>(kTokens)};
  }
  // The ROPE node of the last RotatedRows.
  ggml_tensor* rope() { return rope_; }

 private:
  struct Buffer {
    GgmlContextHandle context;
    std::unique_ptr<ggml_backend_buffer, CallFree<ggml_backend_buffer_free>> memory;
  };

  static GgmlContextHandle NewContext(size_t num_tensors) {
    return GgmlContextHandle(ggml_init({.mem_size = num_tensors * ggml_tensor_overhead(),
                                        .mem_buffer = nullptr,
                                        .no_alloc = true}));
  }
  ggml_tensor* InBuffer(ggml_type type, int64_t ne0, int64_t ne1, ggml_backend_buffer_usage usage) {
    Buffer& buffer = buffers_.emplace_back();
    buffer.context = NewContext(1);
    ggml_tensor* tensor = ggml_new_tensor_2d(buffer.context.get(), type, ne0, ne1);
    buffer.memory.reset(ggml_backend_alloc_ctx_tensors(buffer.context.get(), backend_.get()));
    ggml_backend_buffer_set_usage(buffer.memory.get(), usage);
    return tensor;
  }
  ggml_tensor* Heads(ggml_tensor* cache) {
    const size_t element = ggml_type_size(cache->type);
    return ggml_permute(
        nodes(),
        ggml_view_3d(nodes(), cache, kDim, kHeads, kCells, kDim * element, kWidth * element, 0), 0,
        2, 1, 3);
  }

  std::unique_ptr<ggml_backend, CallFree<ggml_backend_free>> backend_{ggml_backend_cpu_init()};
  std::vector<Buffer> buffers_;
  GgmlContextHandle nodes_ = NewContext(256);
  ggml_tensor* positions_ = nullptr;
  ggml_tensor* rope_ = nullptr;
};

}  // namespace attndb::llama

#endif  // ATTNDB_ENGINES_LLAMA_GRAPH_TEST_UTIL_H_
