#include "session/query_sample.h"

#include <algorithm>
#include <utility>

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

void QuerySample::Offer(const ModelSpec& spec, LayerId layer, const Queries& q, uint64_t tail_token,
                        int64_t position) {
  if (rate_ <= 0.0) return;
  const LayerSpec& shape = spec.layers[layer];
  uint64_t& next_token = layers_[layer].next_token;
  const auto num_rows = static_cast<uint64_t>(q.rows.rows());
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

void QuerySample::Keep(const ModelSpec& spec, LayerId layer, const Queries& q, uint64_t row,
                       uint32_t q_head, uint64_t tail_token) {
  const LayerSpec& shape = spec.layers[layer];
  const size_t padded = kernels::RowElements(shape.head_dim);
  scratch_.resize(2 * padded);
  attention::LoadHeads(q.rows, row, q_head, 1, padded, scratch_.data());
  attention::ToHalfLayout(shape.rope, shape.head_dim, 1, padded, scratch_.data(),
                          scratch_.data() + padded);
  if (q.shift != nullptr) q.shift->Rows(scratch_.data(), 1, padded, scratch_.data());
  storage::QueryBuffer& open = layers_[layer].heads[q_head / shape.group_size()].open;
  const size_t begin = open.q.size();
  open.q.resize(begin + layers_[layer].row_bytes);
  const kernels::ConvertReport report =
      kernels::ConvertRows(DType::kFloat32, scratch_.data(), padded, spec.kv_dtype,
                           open.q.data() + begin, padded, 1, padded, padded);
  if (report.overflow || report.nonfinite) {  // No use for training.
    open.q.resize(begin);
    return;
  }
  open.tokens.push_back(static_cast<uint32_t>(tail_token));
  open.q_heads.push_back(q_head % shape.group_size());
}

void QuerySample::CropHead(uint64_t num_tail_tokens, uint64_t row_bytes, Head* head) {
  const auto num_before = [num_tail_tokens](const std::vector<uint32_t>& tokens) {
    return static_cast<size_t>(std::ranges::lower_bound(tokens, num_tail_tokens) - tokens.begin());
  };
  for (storage::SharedQueries& piece : head->frozen) {
    piece.num_rows = std::min(piece.num_rows, num_before(piece.buffer->tokens));
  }
  std::erase_if(head->frozen, [](const auto& piece) { return piece.num_rows == 0; });
  const size_t num_open = num_before(head->open.tokens);
  head->open.tokens.resize(num_open);
  head->open.q_heads.resize(num_open);
  head->open.q.resize(num_open * row_bytes);
}

void QuerySample::Crop(uint64_t num_tail_tokens) {
  for (Layer& layer : layers_) {
    layer.next_token = std::min(layer.next_token, num_tail_tokens);
    for (Head& head : layer.heads) CropHead(num_tail_tokens, layer.row_bytes, &head);
  }
}

void QuerySample::DropFirst(uint64_t num_tail_tokens) {
  for (LayerId layer = 0; layer < layers_.size(); ++layer) {
    const uint64_t row_bytes = layers_[layer].row_bytes;
    for (uint32_t kv_head = 0; kv_head < layers_[layer].heads.size(); ++kv_head) {
      storage::QueryBuffer kept;
      for (const storage::QueryRows& piece : rows(layer, kv_head)) {
        for (size_t i = 0; i < piece.num_rows(); ++i) {
          if (piece.tokens[i] < num_tail_tokens) continue;
          const std::byte* const row = piece.q + i * row_bytes;
          kept.q.insert(kept.q.end(), row, row + row_bytes);
          kept.tokens.push_back(piece.tokens[i] - static_cast<uint32_t>(num_tail_tokens));
          kept.q_heads.push_back(piece.q_heads[i]);
        }
      }
      layers_[layer].heads[kv_head] = {.frozen = {}, .open = std::move(kept)};
    }
    uint64_t& next_token = layers_[layer].next_token;
    next_token -= std::min(next_token, num_tail_tokens);
  }
}

QuerySample::Frozen QuerySample::Freeze() {
  Frozen frozen;
  for (Layer& layer : layers_) {
    frozen.emplace_back();
    for (Head& head : layer.heads) {
      const size_t num_rows = head.open.tokens.size();
      if (num_rows > 0) {
        head.frozen.push_back(
            {std::make_shared<const storage::QueryBuffer>(std::exchange(head.open, {})), num_rows});
      }
      frozen.back().push_back(head.frozen);
    }
  }
  return frozen;
}

std::vector<storage::QueryRows> QuerySample::rows(LayerId layer, uint32_t kv_head) const {
  const Head& head = layers_[layer].heads[kv_head];
  std::vector<storage::QueryRows> pieces;
  for (const storage::SharedQueries& piece : head.frozen) pieces.push_back(piece.rows());
  if (!head.open.tokens.empty()) pieces.push_back(head.open.first(head.open.tokens.size()));
  return pieces;
}

uint64_t QuerySample::memory_bytes() const {
  uint64_t bytes = 0;
  const auto bytes_of = [](const storage::QueryBuffer& buffer) {
    return buffer.q.capacity() + (buffer.tokens.capacity() + buffer.q_heads.capacity()) * 4;
  };
  for (const Layer& layer : layers_) {
    for (const Head& head : layer.heads) {
      bytes += bytes_of(head.open);
      for (const storage::SharedQueries& piece : head.frozen) bytes += bytes_of(*piece.buffer);
    }
  }
  return bytes;
}

}  // namespace attndb::internal
