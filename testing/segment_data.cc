#include "testing/segment_data.h"

#include <algorithm>

#include "storage/kv/kv_layout.h"
#include "testing/kv_data.h"

namespace attndb::test {

using storage::KvRows;
using storage::KvShape;
using storage::LayerShape;
using storage::QueryRows;

namespace {

template <size_t kSize>
void FillRandom(std::array<std::byte, kSize>* bytes, Random* random) {
  for (std::byte& b : *bytes) b = static_cast<std::byte>(random->Uniform(256));
}

HeadData RandomHead(const SegmentSpec& spec, const LayerShape& shape, Random* random) {
  const DType dtype = spec.shape.dtype;
  const uint64_t num_queries = random->Uniform(spec.num_queries + 1);
  HeadData head;
  head.k = RandomRows({dtype, spec.num_tokens, shape.head_dim}, random);
  head.v = RandomRows({dtype, spec.num_tokens, shape.v_head_dim}, random);
  head.q = RandomRows({dtype, num_queries, shape.head_dim}, random);
  for (uint64_t i = 0; i < num_queries; ++i) {
    head.query_tokens.push_back(static_cast<uint32_t>(random->Uniform(spec.num_tokens)));
    head.query_heads.push_back(static_cast<uint32_t>(random->Uniform(4)));
  }
  std::ranges::sort(head.query_tokens);
  return head;
}

}  // namespace

SegmentData RandomSegment(const SegmentSpec& spec, Random* random) {
  constexpr uint64_t kVocabulary = 50000;
  SegmentData data;
  FillRandom(&data.identity.store_uuid, random);
  FillRandom(&data.identity.model_identity, random);
  data.identity.segment_id = spec.segment_id;
  data.identity.first_position = static_cast<int64_t>(random->Uniform(100000));
  data.identity.num_tokens = spec.num_tokens;
  data.identity.shape = spec.shape;
  for (uint64_t i = 0; i < spec.num_tokens; ++i) {
    data.tokens.push_back(static_cast<TokenId>(random->Uniform(kVocabulary)));
  }
  for (const LayerShape& layer : spec.shape.layers) {
    std::vector<HeadData>& heads = data.layers.emplace_back();
    for (uint32_t head = 0; head < layer.num_kv_heads; ++head) {
      heads.push_back(RandomHead(spec, layer, random));
    }
  }
  return data;
}

KvShape UniformShape(DType dtype, uint32_t num_layers, const LayerShape& layer) {
  return {.dtype = dtype, .layers = std::vector<LayerShape>(num_layers, layer)};
}

Status DataSource::LoadLayer(LayerId layer) {
  layer_ = layer;
  return Status::Ok();
}

std::span<const KvRows> DataSource::rows(uint32_t kv_head) {
  const HeadData& head = data_->head(layer_, kv_head);
  const KvShape& shape = data_->identity.shape;
  runs_.clear();
  for (uint64_t begin = 0; begin < data_->tokens.size(); begin += run_tokens_) {
    runs_.push_back({.k = head.k.data() + begin * KRowBytes(shape, layer_),
                     .v = head.v.data() + begin * VRowBytes(shape, layer_),
                     .num_tokens = std::min(run_tokens_, data_->tokens.size() - begin)});
  }
  return runs_;
}

std::span<const QueryRows> DataSource::queries(uint32_t kv_head) {
  // Two pieces, one of which may be empty.
  const HeadData& head = data_->head(layer_, kv_head);
  const std::span<const uint32_t> tokens(head.query_tokens), heads(head.query_heads);
  const size_t cut = tokens.size() / 3;
  queries_ = {{.q = head.q.data(), .tokens = tokens.first(cut), .q_heads = heads.first(cut)},
              {.q = head.q.data() + cut * KRowBytes(data_->identity.shape, layer_),
               .tokens = tokens.subspan(cut),
               .q_heads = heads.subspan(cut)}};
  return queries_;
}

}  // namespace attndb::test
