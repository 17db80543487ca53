#include "session/query_sample.h"

#include <algorithm>

#include "attention/tensor_rows.h"
#include "common/random.h"
#include "kernels/convert.h"
#include "kernels/layout.h"

namespace attndb::internal {
namespace {

uint64_t Mix(uint64_t x) { return Random(x).Next(); }

}  // namespace

QuerySample::QuerySample(const ModelSpec& spec, double rate) : rate_(rate) {
  for (const LayerSpec& layer : spec.layers) {
    layers_.push_back({std::vector<Head>(layer.num_kv_heads), 0,
                       kernels::RowElements(layer.head_dim) * DTypeBytes(spec.kv_dtype)});
  }
}

bool QuerySample::IsChosen(int64_t position, LayerId layer, uint32_t q_head,
                           uint32_t group_size) const {
  const uint64_t row = Mix((uint64_t{layer} << 32) | q_head);
  const uint64_t hash = Mix(Mix(static_cast<uint64_t>(position)) ^ row);
  const double uniform = static_cast<double>(hash >> 11) * 0x1p-53;
  return uniform < rate_ / group_size;
}

void QuerySample::Offer(const ModelSpec& spec, LayerId layer, const TensorView& q,
                        uint64_t tail_token, int64_t position) {
  if (rate_ <= 0.0) return;
  const LayerSpec& shape = spec.layers[layer];
  uint64_t& next_token = layers_[layer].next_token;
  const auto num_rows = static_cast<uint64_t>(q.rows());
  for (uint64_t row = next_token > tail_token ? next_token - tail_token : 0; row < num_rows;
       ++row) {
    for (uint32_t head = 0; head < shape.num_q_heads; ++head) {
      if (IsChosen(position + static_cast<int64_t>(row), layer, head, shape.group_size())) {
        Keep(spec, layer, q, row, head, tail_token + row);
      }
    }
  }
  next_token = std::max(next_token, tail_token + num_rows);
}

void QuerySample::Keep(const ModelSpec& spec, LayerId layer, const TensorView& q, uint64_t row,
                       uint32_t q_head, uint64_t tail_token) {
  const LayerSpec& shape = spec.layers[layer];
  const size_t padded = kernels::RowElements(shape.head_dim);
  scratch_.resize(2 * padded);
  attention::LoadHeads(q, row, q_head, 1, padded, scratch_.data());
  attention::ToHalfLayout(shape.rope, shape.head_dim, 1, padded, scratch_.data(),
                          scratch_.data() + padded);
  Head& head = layers_[layer].heads[q_head / shape.group_size()];
  const size_t begin = head.rows.size();
  head.rows.resize(begin + layers_[layer].row_bytes);
  const kernels::ConvertReport report =
      kernels::ConvertRows(DType::kFloat32, scratch_.data(), padded, spec.kv_dtype,
                           head.rows.data() + begin, padded, 1, padded, padded);
  if (report.overflow || report.nonfinite) {  // No use for training.
    head.rows.resize(begin);
    return;
  }
  head.tokens.push_back(static_cast<uint32_t>(tail_token));
  head.q_heads.push_back(q_head % shape.group_size());
}

void QuerySample::Crop(uint64_t num_tail_tokens) {
  for (Layer& layer : layers_) {
    layer.next_token = std::min(layer.next_token, num_tail_tokens);
    for (Head& head : layer.heads) {
      while (!head.tokens.empty() && head.tokens.back() >= num_tail_tokens) {
        head.tokens.pop_back();
        head.q_heads.pop_back();
      }
      head.rows.resize(head.tokens.size() * layer.row_bytes);
    }
  }
}

storage::QueryRows QuerySample::rows(LayerId layer, uint32_t kv_head) const {
  const Head& head = layers_[layer].heads[kv_head];
  return {head.rows.data(), head.tokens, head.q_heads};
}

uint64_t QuerySample::memory_bytes() const {
  uint64_t bytes = 0;
  for (const Layer& layer : layers_) {
    for (const Head& head : layer.heads) {
      bytes += head.rows.capacity() + (head.tokens.capacity() + head.q_heads.capacity()) * 4;
    }
  }
  return bytes;
}

}  // namespace attndb::internal
