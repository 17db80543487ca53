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

// Number of the piece's rows that are of this token or of later ones.
size_t NumRowsFrom(uint64_t token, const storage::QueryRows& piece) {
  return static_cast<size_t>(piece.tokens.end() - std::ranges::lower_bound(piece.tokens, token));
}

// The tokens whose rows of a q head are kept.
class HeadChoice {
 public:
  HeadChoice(double rate, LayerId layer, uint32_t q_head, uint32_t group_size)
      : row_(Mix((uint64_t{layer} << 32) | q_head)), share_(rate / group_size) {}

  // `mixed_position`: Mix of the token's position.
  bool Takes(uint64_t mixed_position) const {
    return static_cast<double>(Mix(mixed_position ^ row_) >> 11) * 0x1p-53 < share_;
  }

 private:
  uint64_t row_;
  double share_;
};

}  // namespace

std::vector<std::vector<uint64_t>> QuerySample::Count(const ModelSpec& spec, double rate,
                                                      int64_t first_position, uint64_t num_tokens) {
  std::vector<std::vector<uint64_t>> counts;
  for (LayerId layer = 0; layer < spec.num_layers(); ++layer) {
    const LayerSpec& shape = spec.layers[layer];
    counts.emplace_back(shape.num_kv_heads, 0);
    for (uint32_t head = 0; rate > 0.0 && head < shape.num_q_heads; ++head) {
      const HeadChoice choice(rate, layer, head, shape.group_size());
      uint64_t* const count = &counts.back()[head / shape.group_size()];
      for (uint64_t token = 0; token < num_tokens; ++token) {
        if (choice.Takes(Mix(static_cast<uint64_t>(first_position) + token))) ++*count;
      }
    }
  }
  return counts;
}

QuerySample::QuerySample(const ModelSpec& spec, double rate, storage::MemoryBudget* budget)
    : rate_(rate), budget_(budget) {
  for (const LayerSpec& layer : spec.layers) {
    layers_.push_back({std::vector<Head>(layer.num_kv_heads), 0,
                       kernels::RowElements(layer.head_dim) * DTypeBytes(spec.kv_dtype)});
  }
}

bool QuerySample::HasRoom(storage::QueryBuffer* open, size_t row_bytes) const {
  constexpr size_t kFewRows = 8;
  const size_t num_rows = open->tokens.size();
  if (num_rows < open->tokens.capacity() && (num_rows + 1) * row_bytes <= open->q.capacity()) {
    return true;
  }
  return open->Reserve(std::max(kFewRows, num_rows + num_rows / 2), row_bytes, budget_);
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
      if (HeadChoice(rate_, layer, head, shape.group_size())
              .Takes(Mix(static_cast<uint64_t>(position) + row))) {
        Keep(spec, layer, q, row, head, tail_token + row);
      }
    }
  }
  next_token = std::max(next_token, tail_token + num_rows);
}

void QuerySample::Keep(const ModelSpec& spec, LayerId layer, const Queries& q, uint64_t row,
                       uint32_t q_head, uint64_t tail_token) {
  const LayerSpec& shape = spec.layers[layer];
  storage::QueryBuffer& open = layers_[layer].heads[q_head / shape.group_size()].open;
  if (!HasRoom(&open, layers_[layer].row_bytes)) return;
  const size_t padded = kernels::RowElements(shape.head_dim);
  scratch_.resize(2 * padded);
  attention::LoadHeads(q.rows, row, q_head, 1, padded, scratch_.data());
  attention::ToHalfLayout(shape.rope, shape.head_dim, 1, padded, scratch_.data(),
                          scratch_.data() + padded);
  if (q.shift != nullptr) q.shift->Rows(scratch_.data(), 1, padded, scratch_.data());
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
      const std::vector<storage::QueryRows> pieces = rows(layer, kv_head);
      size_t num_rows = 0;
      for (const storage::QueryRows& piece : pieces)
        num_rows += NumRowsFrom(num_tail_tokens, piece);
      const bool has_room = num_rows > 0 && kept.Reserve(num_rows, row_bytes, budget_);
      for (const storage::QueryRows& piece : pieces) {
        for (size_t i = 0; i < piece.num_rows() && has_room; ++i) {
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

QuerySample QuerySample::Fork() {
  (void)Freeze();
  QuerySample fork(rate_, budget_);
  for (const Layer& layer : layers_) {
    Layer& of_fork = fork.layers_.emplace_back(Layer{{}, layer.next_token, layer.row_bytes});
    for (const Head& head : layer.heads) of_fork.heads.push_back(Head{head.frozen, {}});
  }
  return fork;
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
