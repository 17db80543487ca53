#include "testing/toy_oracle.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "common/check.h"
#include "kernels/convert.h"

namespace attndb::test {
namespace {

void RoundTo(DType dtype, std::vector<float>* values) {
  if (dtype == DType::kFloat32) return;
  for (float& value : *values) {
    value = kernels::ToFloat32(kernels::FromFloat32(value, dtype), dtype);
  }
}

// K and V of one layer, as stored.
struct OwnedLayer {
  const LayerSpec& spec;
  std::vector<float> k, v;
};

// The same, wherever it lies.
struct LayerData {
  const LayerSpec& spec;
  std::span<const float> k, v;
};

OwnedLayer MakeLayer(const ToyModel& model, LayerId layer, std::span<const TokenId> tokens) {
  OwnedLayer data{model.spec().layers[layer], model.Keys(layer, tokens, 0),
                  model.Values(layer, tokens, 0)};
  RoundTo(model.spec().kv_dtype, &data.k);
  RoundTo(model.spec().kv_dtype, &data.v);
  return data;
}

double Logit(const LayerData& layer, const float* q, uint64_t token, uint32_t kv_head) {
  const LayerSpec& spec = layer.spec;
  const float* const k = &layer.k[(token * spec.num_kv_heads + kv_head) * spec.head_dim];
  double score = 0.0;
  for (uint32_t d = 0; d < spec.head_dim; ++d) score += double{q[d]} * double{k[d]};
  const double scale =
      spec.scale != 0.0f ? double{spec.scale} : 1.0 / std::sqrt(static_cast<double>(spec.head_dim));
  const double cap = double{spec.soft_cap};
  return cap == 0.0 ? scale * score : cap * std::tanh(scale * score / cap);
}

// Appends the output of one q head that sees the first `num_visible` tokens.
void AttendHead(const LayerData& layer, const float* q, uint32_t q_head, uint64_t num_visible,
                std::vector<double>* out) {
  const LayerSpec& spec = layer.spec;
  const uint32_t kv_head = q_head / spec.group_size();
  const uint64_t window = spec.sliding_window;
  const uint64_t first = window == 0 || num_visible <= window ? 0 : num_visible - window;
  std::vector<double> logits;
  for (uint64_t token = first; token < num_visible; ++token) {
    logits.push_back(Logit(layer, q, token, kv_head));
  }
  double max = *std::max_element(logits.begin(), logits.end());
  double sum = 0.0;
  if (!spec.denominator_logits.empty()) {
    const double denominator = double{spec.denominator_logits[q_head]};
    max = std::max(max, denominator);
    sum = std::exp(denominator - max);
  }
  std::vector<double> mean(spec.v_head_dim);
  for (uint64_t token = first; token < num_visible; ++token) {
    const double weight = std::exp(logits[token - first] - max);
    const float* const v = &layer.v[(token * spec.num_kv_heads + kv_head) * spec.v_head_dim];
    sum += weight;
    for (uint32_t d = 0; d < spec.v_head_dim; ++d) mean[d] += weight * double{v[d]};
  }
  for (const double element : mean) out->push_back(element / sum);
}

}  // namespace

std::vector<double> OracleStep(const ToyModel& model, std::span<const TokenId> tokens,
                               uint64_t begin) {
  std::vector<double> out;
  for (LayerId layer = 0; layer < model.spec().num_layers(); ++layer) {
    const OwnedLayer owned = MakeLayer(model, layer, tokens);
    const LayerData data{owned.spec, owned.k, owned.v};
    const std::vector<float> q = model.Queries(layer, tokens.subspan(begin), begin);
    const uint32_t num_heads = data.spec.num_q_heads;
    for (uint64_t row = 0; row < tokens.size() - begin; ++row) {
      for (uint32_t head = 0; head < num_heads; ++head) {
        AttendHead(data, &q[(row * num_heads + head) * data.spec.head_dim], head, begin + row + 1,
                   &out);
      }
    }
  }
  return out;
}

std::vector<double> OracleProbe(const ToyModel& model, std::span<const TokenId> tokens,
                                TokenId probe) {
  std::vector<double> out;
  for (LayerId layer = 0; layer < model.spec().num_layers(); ++layer) {
    const OwnedLayer owned = MakeLayer(model, layer, tokens);
    const LayerData data{owned.spec, owned.k, owned.v};
    const std::vector<float> q = model.Queries(layer, {&probe, 1}, tokens.size() - 1);
    for (uint32_t head = 0; head < data.spec.num_q_heads; ++head) {
      AttendHead(data, &q[size_t{head} * data.spec.head_dim], head, tokens.size(), &out);
    }
  }
  return out;
}

std::vector<double> OracleAttend(const LayerSpec& spec, std::span<const float> k,
                                 std::span<const float> v, std::span<const float> q,
                                 uint64_t num_visible) {
  const LayerData data{spec, k, v};
  std::vector<double> out;
  for (uint32_t head = 0; head < spec.num_q_heads; ++head) {
    AttendHead(data, &q[size_t{head} * spec.head_dim], head, num_visible, &out);
  }
  return out;
}

namespace {

template <typename Expected>
double HeadError(std::span<const float> found, std::span<const Expected> expected) {
  double error = 0.0;
  double norm = 0.0;
  for (size_t i = 0; i < found.size(); ++i) {
    const auto wanted = static_cast<double>(expected[i]);
    error += (double{found[i]} - wanted) * (double{found[i]} - wanted);
    norm += wanted * wanted;
  }
  const double relative = std::sqrt(error / norm);
  return std::isnan(relative) ? std::numeric_limits<double>::infinity() : relative;
}

template <typename Expected>
double LargestError(const ToyModel& model, std::span<const float> found,
                    std::span<const Expected> expected) {
  size_t row_size = 0;  // Over all layers.
  for (const LayerSpec& layer : model.spec().layers) {
    row_size += size_t{layer.num_q_heads} * layer.v_head_dim;
  }
  ATTNDB_CHECK(found.size() == expected.size() && found.size() % row_size == 0);
  const size_t num_rows = found.size() / row_size;
  double largest = 0.0;
  size_t begin = 0;
  for (const LayerSpec& layer : model.spec().layers) {
    const size_t end = begin + num_rows * layer.num_q_heads * layer.v_head_dim;
    for (; begin < end; begin += layer.v_head_dim) {
      largest = std::max(largest, HeadError(found.subspan(begin, layer.v_head_dim),
                                            expected.subspan(begin, layer.v_head_dim)));
    }
  }
  return largest;
}

}  // namespace

double OutputError(const ToyModel& model, std::span<const float> found,
                   std::span<const double> expected) {
  return LargestError(model, found, expected);
}

double OutputError(const ToyModel& model, std::span<const float> found,
                   std::span<const float> expected) {
  return LargestError(model, found, expected);
}

}  // namespace attndb::test
