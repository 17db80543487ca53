#include "bench/kernels/ggml_attention.h"

#include <ggml-cpu.h>
#include <ggml.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <vector>

namespace attndb::bench {

struct GgmlAttention::Impl {
  std::unique_ptr<ggml_context, decltype(&ggml_free)> context{nullptr, &ggml_free};
  ggml_cgraph* graph = nullptr;
  ggml_tensor* out = nullptr;
  std::vector<uint8_t> work;
};

GgmlAttention::GgmlAttention(const AttentionShape& shape, const float* q, const void* k,
                             const void* v)
    : impl_(std::make_unique<Impl>()) {
  const auto dim = static_cast<int64_t>(shape.head_dim);
  const auto num_q_heads = static_cast<int64_t>(shape.num_q_heads);
  const auto num_kv_heads = static_cast<int64_t>(shape.num_kv_heads);
  const auto num_tokens = static_cast<int64_t>(shape.num_tokens);
  const auto num_new = static_cast<int64_t>(shape.num_new);
  const size_t bytes = shape.head_dim * (shape.num_q_heads * shape.num_new * 8 +
                                         shape.num_kv_heads * shape.num_tokens * 4) +
                       shape.num_new * shape.num_tokens * 2 + (size_t{1} << 22);
  impl_->context.reset(ggml_init({bytes, nullptr, false}));
  ggml_context* const ctx = impl_->context.get();
  ggml_tensor* const tq = ggml_new_tensor_3d(ctx, GGML_TYPE_F32, dim, num_new, num_q_heads);
  ggml_tensor* const tk = ggml_new_tensor_3d(ctx, GGML_TYPE_F16, dim, num_tokens, num_kv_heads);
  ggml_tensor* const tv = ggml_new_tensor_3d(ctx, GGML_TYPE_F16, dim, num_tokens, num_kv_heads);
  std::memcpy(tq->data, q, ggml_nbytes(tq));
  std::memcpy(tk->data, k, ggml_nbytes(tk));
  std::memcpy(tv->data, v, ggml_nbytes(tv));
  ggml_tensor* mask = nullptr;
  if (shape.num_new > 1) {
    mask = ggml_new_tensor_2d(ctx, GGML_TYPE_F16, num_tokens, num_new);
    auto* const bits = static_cast<ggml_fp16_t*>(mask->data);
    for (int64_t row = 0; row < num_new; ++row) {
      for (int64_t token = 0; token < num_tokens; ++token) {
        const bool visible = token <= num_tokens - num_new + row;
        bits[row * num_tokens + token] = ggml_fp32_to_fp16(visible ? 0.0f : -INFINITY);
      }
    }
  }
  impl_->out = ggml_flash_attn_ext(ctx, tq, tk, tv, mask, 1.0f / std::sqrt(static_cast<float>(dim)),
                                   0.0f, 0.0f);
  ggml_prec_set_acc(impl_->out, GGML_PREC_F32);  // As llama.cpp does.
  impl_->graph = ggml_new_graph(ctx);
  ggml_build_forward_expand(impl_->graph, impl_->out);
}

GgmlAttention::~GgmlAttention() = default;

void GgmlAttention::Run(int num_threads) {
  ggml_cplan plan = ggml_graph_plan(impl_->graph, num_threads, nullptr);
  impl_->work.resize(plan.work_size);
  plan.work_data = impl_->work.data();
  ggml_graph_compute(impl_->graph, &plan);
}

const float* GgmlAttention::out() const { return static_cast<const float*>(impl_->out->data); }

}  // namespace attndb::bench
