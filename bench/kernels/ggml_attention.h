// llama.cpp's CPU flash attention (ggml_flash_attn_ext, f16 keys and values), as the peer to beat.
//
// Layout: q [head][row][head_dim] float32; k and v [kv head][token][head_dim] float16; both not
//         owned.
// Threads: one thread only; Run() uses ggml's own threads.
#ifndef ATTNDB_BENCH_KERNELS_GGML_ATTENTION_H_
#define ATTNDB_BENCH_KERNELS_GGML_ATTENTION_H_

#include <cstddef>
#include <memory>

namespace attndb::bench {

struct AttentionShape {
  size_t head_dim = 0;
  size_t num_q_heads = 0;
  size_t num_kv_heads = 0;
  size_t num_tokens = 0;  // Stored and new.
  size_t num_new = 0;  // New tokens, the last of num_tokens, which attend; causal among themselves.
};

class GgmlAttention {
 public:
  // Copies q, k and v into tensors of its own and builds the graph.
  GgmlAttention(const AttentionShape& shape, const float* q, const void* k, const void* v);
  ~GgmlAttention();

  void Run(int num_threads);
  // [row][q head][head_dim] of the last Run().
  const float* out() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace attndb::bench

#endif  // ATTNDB_BENCH_KERNELS_GGML_ATTENTION_H_
