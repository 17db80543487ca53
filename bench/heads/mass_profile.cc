#include "bench/heads/mass_profile.h"

#include <algorithm>
#include <cmath>
#include <functional>

namespace attndb::bench {
namespace {

constexpr size_t kSink = 16;
constexpr size_t kWindow = 128;

// Eight sums at a time, so that additions do not wait for each other.
float Dot(const float* a, const float* b, size_t count) {
  constexpr size_t kLanes = 8;
  float sums[kLanes] = {};
  size_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    for (size_t lane = 0; lane < kLanes; ++lane) sums[lane] += a[i + lane] * b[i + lane];
  }
  for (; i < count; ++i) sums[0] += a[i] * b[i];
  float sum = 0;
  for (const float part : sums) sum += part;
  return sum;
}

struct HeadProfile {
  double middle_mass;
  double tokens_90;
  double tokens_99;
};

// Tokens of largest weight, in falling order, until `need` is reached.
double CountUntil(const std::vector<double>& falling, double need) {
  double held = 0;
  size_t count = 0;
  while (held < need && count < falling.size()) held += falling[count++];
  return static_cast<double>(count);
}

HeadProfile ProfileOf(const std::vector<float>& logits) {
  const float largest = *std::max_element(logits.begin(), logits.end());
  double outside = 0;
  double inside = 0;
  std::vector<double> middle;
  for (size_t i = 0; i < logits.size(); ++i) {
    const double weight = std::exp(static_cast<double>(logits[i] - largest));
    if (i < kSink || i + kWindow >= logits.size()) {
      outside += weight;
    } else {
      inside += weight;
      middle.push_back(weight);
    }
  }
  std::sort(middle.begin(), middle.end(), std::greater<>());
  const double total = inside + outside;
  return {inside / total, CountUntil(middle, 0.90 * total - outside),
          CountUntil(middle, 0.99 * total - outside)};
}

MeanAndMedian Over(const std::vector<HeadProfile>& heads, double HeadProfile::*field) {
  std::vector<double> values;
  double sum = 0;
  for (const HeadProfile& head : heads) {
    values.push_back(head.*field);
    sum += head.*field;
  }
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return {sum / static_cast<double>(values.size()), *middle};
}

}  // namespace

Result<MassProfiler> MassProfiler::Create(HeadSource* source) {
  const HeadInfo& info = source->info();
  MassProfiler profiler(&info);
  for (size_t i = 0; i < info.layers.size(); ++i) {
    const LayerSpec& layer = info.layer(i);
    std::vector<float> q;
    if (layer.sliding_window == 0) {
      q.resize(size_t{layer.num_q_heads} * layer.head_dim);
      ATTNDB_RETURN_IF_ERROR(
          source->ReadQueries(i, {info.num_tokens - 1, info.num_tokens}, q.data()));
      const float scale =
          layer.scale != 0.0F ? layer.scale : 1.0F / std::sqrt(static_cast<float>(layer.head_dim));
      for (float& value : q) value *= scale;
    }
    profiler.logits_.emplace_back(q.empty() ? 0 : layer.num_q_heads);
    profiler.queries_.push_back(std::move(q));
  }
  return profiler;
}

void MassProfiler::AddKeys(size_t i, std::span<const float> keys) {
  const LayerSpec& layer = info_->layer(i);
  const size_t row = size_t{layer.num_kv_heads} * layer.head_dim;
  for (size_t head = 0; head < logits_[i].size(); ++head) {
    const float* const q = queries_[i].data() + head * layer.head_dim;
    const size_t kv_head = head / layer.group_size();
    for (size_t at = 0; at < keys.size(); at += row) {
      float logit = Dot(q, keys.data() + at + kv_head * layer.head_dim, layer.head_dim);
      if (layer.soft_cap != 0.0F) logit = layer.soft_cap * std::tanh(logit / layer.soft_cap);
      logits_[i][head].push_back(logit);
    }
  }
}

MassProfile MassProfiler::Finish() const {
  std::vector<HeadProfile> heads;
  for (const auto& layer : logits_) {
    for (const std::vector<float>& logits : layer) heads.push_back(ProfileOf(logits));
  }
  MassProfile profile;
  if (heads.empty()) return profile;
  profile.num_heads = static_cast<uint32_t>(heads.size());
  profile.middle_mass = Over(heads, &HeadProfile::middle_mass);
  profile.tokens_90 = Over(heads, &HeadProfile::tokens_90);
  profile.tokens_99 = Over(heads, &HeadProfile::tokens_99);
  return profile;
}

}  // namespace attndb::bench
