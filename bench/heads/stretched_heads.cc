#include "bench/heads/stretched_heads.h"

#include <algorithm>
#include <cmath>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "bench/heads/random_rows.h"
#include "cli/common/units.h"

namespace attndb::bench {
namespace {

constexpr uint64_t kFirstKept = 16;
constexpr uint64_t kLastKept = 512;
constexpr uint64_t kLeastTokens = 1024;
constexpr uint64_t kContentStream = 23;

// Cosine and sine of each pair's angle for a step of `distance` positions.
struct Turn {
  std::vector<float> cosines;
  std::vector<float> sines;
};

Turn TurnBy(const Rope& rope, uint32_t num_dims, int64_t distance) {
  Turn turn;
  for (uint32_t pair = 0; pair < num_dims / 2; ++pair) {
    const double angle = static_cast<double>(distance) *
                         std::pow(rope.base, -2.0 * pair / static_cast<double>(num_dims));
    turn.cosines.push_back(static_cast<float>(std::cos(angle)));
    turn.sines.push_back(static_cast<float>(std::sin(angle)));
  }
  return turn;
}

void Rotate(const Turn& turn, RopeLayout layout, std::span<float> key) {
  const size_t num_pairs = turn.cosines.size();
  for (size_t pair = 0; pair < num_pairs; ++pair) {
    const bool half = layout == RopeLayout::kHalf;
    float& a = key[half ? pair : 2 * pair];
    float& b = key[half ? pair + num_pairs : 2 * pair + 1];
    const float old = a;
    a = old * turn.cosines[pair] - b * turn.sines[pair];
    b = old * turn.sines[pair] + b * turn.cosines[pair];
  }
}

class Stretched : public HeadSource {
 public:
  Stretched(HeadInfo info, std::unique_ptr<HeadSource> source)
      : HeadSource(std::move(info)),
        source_(std::move(source)),
        layers_(source_->info().layers.size()) {}

  Status ReadKv(size_t i, TokenRange range, float* k, float* v) override {
    ATTNDB_RETURN_IF_ERROR(Load(i));
    const LayerSpec& layer = info().layer(i);
    const size_t k_row = size_t{layer.num_kv_heads} * layer.head_dim;
    const size_t v_row = size_t{layer.num_kv_heads} * layer.v_head_dim;
    for (uint64_t token = range.begin; token < range.end; ++token) {
      const auto [content, position] = OriginOf(token);
      std::copy_n(layers_[i].v.data() + content * v_row, v_row, v);
      std::copy_n(layers_[i].k.data() + content * k_row, k_row, k);
      if (content != position) Move(layer, content, position, {k, k_row});
      k += k_row;
      v += v_row;
    }
    return Status();
  }

  Status ReadQueries(size_t i, TokenRange range, float* q) override {
    const LayerSpec& layer = info().layer(i);
    const size_t q_row = size_t{layer.num_q_heads} * layer.head_dim;
    for (uint64_t token = range.begin; token < range.end; ++token) {
      const auto [content, position] = OriginOf(token);
      ATTNDB_RETURN_IF_ERROR(source_->ReadQueries(i, {content, content + 1}, q));
      if (content != position) Move(layer, content, position, {q, q_row});
      q += q_row;
    }
    return Status();
  }

 private:
  struct Layer {
    std::vector<float> k;
    std::vector<float> v;
  };
  struct Origin {
    uint64_t content;   // The captured token that q, K and V come from.
    uint64_t position;  // The captured token at whose position it is put.
  };

  Status Load(size_t i) {
    Layer& loaded = layers_[i];
    if (!loaded.k.empty()) return Status();
    const LayerSpec& layer = info().layer(i);
    const uint64_t n = source_->info().num_tokens;
    loaded.k.resize(n * layer.num_kv_heads * layer.head_dim);
    loaded.v.resize(n * layer.num_kv_heads * layer.v_head_dim);
    return source_->ReadKv(i, {0, n}, loaded.k.data(), loaded.v.data());
  }

  Origin OriginOf(uint64_t token) const {
    const uint64_t n = source_->info().num_tokens;
    const uint64_t longer = info().num_tokens - n;
    if (token < kFirstKept) return {token, token};
    if (token >= info().num_tokens - kLastKept) return {token - longer, token - longer};
    const uint64_t middle = n - kFirstKept - kLastKept;
    const uint64_t at = token - kFirstKept;
    const uint64_t run = at * middle / (middle + longer);
    const bool begins = at == 0 || (at - 1) * middle / (middle + longer) != run;
    const uint64_t content = begins ? run : MixBits(kContentStream, token) % middle;
    return {kFirstKept + content, kFirstKept + run};
  }

  static void Move(const LayerSpec& layer, uint64_t from, uint64_t to, std::span<float> rows) {
    if (layer.rope.layout == RopeLayout::kNone) return;
    const uint32_t num_dims = layer.rope.rope_dims == 0 ? layer.head_dim : layer.rope.rope_dims;
    const Turn turn =
        TurnBy(layer.rope, num_dims, static_cast<int64_t>(to) - static_cast<int64_t>(from));
    for (size_t at = 0; at < rows.size(); at += layer.head_dim) {
      Rotate(turn, layer.rope.layout, rows.subspan(at, layer.head_dim));
    }
  }

  const std::unique_ptr<HeadSource> source_;
  std::vector<Layer> layers_;
};

}  // namespace

Result<std::unique_ptr<HeadSource>> StretchedHeads(std::unique_ptr<HeadSource> source,
                                                   uint64_t num_tokens) {
  HeadInfo info = source->info();
  if (num_tokens <= info.num_tokens || info.num_tokens < kLeastTokens) {
    return Status::InvalidArgument("--stretch " + std::to_string(num_tokens) + " of " +
                                   std::to_string(info.num_tokens) +
                                   " captured tokens, expected more than they are, and " +
                                   std::to_string(kLeastTokens) + " or more of them");
  }
  for (const LayerId layer : info.layers) {
    const Rope& rope = info.model.layers[layer].rope;
    if (!rope.scaling.empty()) {
      return Status::Unsupported("layer " + std::to_string(layer) + " has RoPE scaling '" +
                                 rope.scaling + "'; only captures without one can be stretched");
    }
  }
  info.description += ", stretched from " + FormatCount(info.num_tokens) + " tokens";
  info.num_tokens = num_tokens;
  const bool has_all_queries = info.num_queries == source->info().num_tokens;
  info.num_queries = has_all_queries ? num_tokens : std::min(info.num_queries, kLastKept);
  info.origin = HeadOrigin::kStretched;
  return std::unique_ptr<HeadSource>(
      std::make_unique<Stretched>(std::move(info), std::move(source)));
}

}  // namespace attndb::bench
