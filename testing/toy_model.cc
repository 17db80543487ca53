#include "testing/toy_model.h"

#include "attndb/result.h"
#include "common/random.h"

namespace attndb::test {
namespace {

TensorView View(const std::vector<float>& data, size_t rows, uint32_t heads, uint32_t dim) {
  return TensorView::Contiguous(data.data(), DType::kFloat32, static_cast<int64_t>(rows), heads,
                                dim);
}

}  // namespace

ToyModel::ToyModel() {
  LayerSpec first;
  first.num_q_heads = 6;
  first.num_kv_heads = 2;
  first.head_dim = 32;
  first.v_head_dim = 16;
  first.rope.layout = RopeLayout::kInterleaved;
  LayerSpec second = first;
  second.num_kv_heads = 3;
  second.head_dim = 24;
  second.v_head_dim = 24;
  second.rope.layout = RopeLayout::kHalf;
  spec_.layers = {first, second};
  spec_.kv_dtype = DType::kFloat16;
  spec_.fingerprint = "toy";
}

std::vector<float> ToyModel::Rows(uint32_t kind, LayerId layer, uint32_t num_heads, uint32_t dim,
                                  std::span<const TokenId> tokens, uint64_t position) const {
  std::vector<float> rows;
  rows.reserve(tokens.size() * num_heads * dim);
  for (size_t i = 0; i < tokens.size(); ++i) {
    for (uint32_t head = 0; head < num_heads; ++head) {
      const uint64_t place = Random((position + i) << 20 | layer << 12 | head << 2 | kind).Next();
      Random random(place ^ Random(static_cast<uint64_t>(tokens[i])).Next());
      for (uint32_t d = 0; d < dim; ++d) {
        rows.push_back(static_cast<float>(4.0 * random.NextDouble() - 2.0));
      }
    }
  }
  return rows;
}

std::vector<float> ToyModel::Keys(LayerId layer, std::span<const TokenId> tokens,
                                  uint64_t position) const {
  const LayerSpec& shape = spec_.layers[layer];
  return Rows(0, layer, shape.num_kv_heads, shape.head_dim, tokens, position);
}

std::vector<float> ToyModel::Values(LayerId layer, std::span<const TokenId> tokens,
                                    uint64_t position) const {
  const LayerSpec& shape = spec_.layers[layer];
  return Rows(1, layer, shape.num_kv_heads, shape.v_head_dim, tokens, position);
}

std::vector<float> ToyModel::Queries(LayerId layer, std::span<const TokenId> tokens,
                                     uint64_t position) const {
  const LayerSpec& shape = spec_.layers[layer];
  return Rows(2, layer, shape.num_q_heads, shape.head_dim, tokens, position);
}

Status ToyModel::Step(Session* session, std::span<const TokenId> tokens,
                      std::vector<float>* out) const {
  const uint64_t position = session->num_tokens();
  for (LayerId layer = 0; layer < spec_.num_layers(); ++layer) {
    const LayerSpec& shape = spec_.layers[layer];
    const std::vector<float> k = Keys(layer, tokens, position);
    const std::vector<float> v = Values(layer, tokens, position);
    ATTNDB_RETURN_IF_ERROR(
        session->Append(layer, View(k, tokens.size(), shape.num_kv_heads, shape.head_dim),
                        View(v, tokens.size(), shape.num_kv_heads, shape.v_head_dim)));
    const std::vector<float> q = Queries(layer, tokens, position);
    std::vector<float> rows(tokens.size() * shape.num_q_heads * shape.v_head_dim);
    ATTNDB_RETURN_IF_ERROR(
        session->Attend(layer, View(q, tokens.size(), shape.num_q_heads, shape.head_dim),
                        MutableTensorView::Contiguous(rows.data(), DType::kFloat32,
                                                      static_cast<int64_t>(tokens.size()),
                                                      shape.num_q_heads, shape.v_head_dim)));
    if (out != nullptr) out->insert(out->end(), rows.begin(), rows.end());
  }
  return Status::Ok();
}

Status ToyModel::Probe(Session* session, TokenId token, std::vector<float>* out) const {
  return ProbeAt(session, token, session->num_tokens() - 1, out);
}

Status ToyModel::ProbeAt(Session* session, TokenId token, uint64_t position,
                         std::vector<float>* out) const {
  out->clear();
  for (LayerId layer = 0; layer < spec_.num_layers(); ++layer) {
    const LayerSpec& shape = spec_.layers[layer];
    const std::vector<float> q = Queries(layer, {&token, 1}, position);
    std::vector<float> row(size_t{shape.num_q_heads} * shape.v_head_dim);
    ATTNDB_RETURN_IF_ERROR(
        session->Attend(layer, View(q, 1, shape.num_q_heads, shape.head_dim),
                        MutableTensorView::Contiguous(row.data(), DType::kFloat32, 1,
                                                      shape.num_q_heads, shape.v_head_dim)));
    out->insert(out->end(), row.begin(), row.end());
  }
  return Status::Ok();
}

std::vector<TokenId> ToyModel::Tokens(uint64_t n, uint64_t seed, TokenId alphabet) {
  Random random(seed);
  std::vector<TokenId> tokens;
  for (uint64_t i = 0; i < n; ++i) {
    tokens.push_back(static_cast<TokenId>(random.Uniform(static_cast<uint64_t>(alphabet))));
  }
  return tokens;
}

}  // namespace attndb::test
