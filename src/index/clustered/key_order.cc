#include "index/clustered/key_order.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "kernels/score.h"
#include "kernels/weights.h"

namespace attndb::index {
namespace {

using kernels::kWeightBlock;

// Rows that a direction is found from, and steps of the power iteration that finds it: more change
// the clusters' recall by less than a hundredth.
constexpr size_t kMostSampled = 512;
constexpr size_t kSteps = 6;

class Splitter {
 public:
  Splitter(const float* rows, size_t num_channels)
      : rows_(rows), num_channels_(num_channels), mean_(num_channels), axis_(num_channels) {}

  // Sorts the keys of a node, more than a block, into its halves.
  void Split(std::span<uint32_t> keys, size_t num_left) {
    TakeSample(keys);
    FindAxis();
    projected_.resize(keys.size());
    kernels::ScoreGather({rows_, num_channels_, num_channels_, DType::kFloat32}, keys.data(),
                         keys.size(), axis_.data(), num_channels_, 1, projected_.data(),
                         keys.size());
    places_.resize(keys.size());
    std::iota(places_.begin(), places_.end(), 0u);
    // Ties go to the smaller index: a total order, so that any nth_element gives the same halves.
    const auto before = [this](uint32_t a, uint32_t b) {
      return projected_[a] < projected_[b] || (projected_[a] == projected_[b] && a < b);
    };
    std::ranges::nth_element(places_, places_.begin() + static_cast<std::ptrdiff_t>(num_left),
                             before);
    std::ranges::sort(places_.begin(), places_.begin() + static_cast<std::ptrdiff_t>(num_left));
    std::ranges::sort(places_.begin() + static_cast<std::ptrdiff_t>(num_left), places_.end());
    sorted_.resize(keys.size());
    for (size_t i = 0; i < keys.size(); ++i) sorted_[i] = keys[places_[i]];
    std::ranges::copy(sorted_, keys.begin());
  }

 private:
  // Some of the keys, less their mean.
  void TakeSample(std::span<const uint32_t> keys) {
    num_sampled_ = std::min(keys.size(), kMostSampled);
    sample_.resize(num_sampled_ * num_channels_);
    std::ranges::fill(mean_, 0.0f);
    for (size_t i = 0; i < num_sampled_; ++i) {
      const float* const row = rows_ + keys[i * keys.size() / num_sampled_] * num_channels_;
      float* const to = sample_.data() + i * num_channels_;
      for (size_t d = 0; d < num_channels_; ++d) mean_[d] += to[d] = row[d];
    }
    for (float& x : mean_) x /= static_cast<float>(num_sampled_);
    for (size_t i = 0; i < num_sampled_; ++i) {
      for (size_t d = 0; d < num_channels_; ++d) sample_[i * num_channels_ + d] -= mean_[d];
    }
  }

  // Approximates the direction of the sample's largest spread: a power iteration from its longest
  // row.
  void FindAxis() {
    float longest = -1;
    for (size_t i = 0; i < num_sampled_; ++i) {
      const float* const row = sample_.data() + i * num_channels_;
      float square = 0;
      for (size_t d = 0; d < num_channels_; ++d) square += row[d] * row[d];
      if (!(square > longest)) continue;
      longest = square;
      std::copy_n(row, num_channels_, axis_.data());
    }
    products_.resize(num_sampled_);
    for (size_t step = 0; step < kSteps && Normalize(); ++step) {
      kernels::ScoreRows({sample_.data(), num_channels_, num_channels_, DType::kFloat32},
                         num_sampled_, axis_.data(), num_channels_, 1, products_.data(),
                         num_sampled_);
      std::ranges::fill(axis_, 0.0f);
      for (size_t i = 0; i < num_sampled_; ++i) {
        const float* const row = sample_.data() + i * num_channels_;
        for (size_t d = 0; d < num_channels_; ++d) axis_[d] += products_[i] * row[d];
      }
    }
  }

  // False if there is no direction: all keys are one.
  bool Normalize() {
    double square = 0;
    for (const float x : axis_) square += double{x} * double{x};
    if (!(square > 0) || !std::isfinite(square)) return false;
    const auto factor = static_cast<float>(1 / std::sqrt(square));
    for (float& x : axis_) x *= factor;
    return true;
  }

  const float* const rows_;
  const size_t num_channels_;
  std::vector<float> mean_;
  std::vector<float> axis_;
  size_t num_sampled_ = 0;
  std::vector<float> sample_;
  std::vector<float> products_;
  std::vector<float> projected_;
  std::vector<uint32_t> places_;
  std::vector<uint32_t> sorted_;
};

void OrderNode(std::span<uint32_t> keys, Splitter* splitter) {
  const size_t num_blocks = kernels::NumWeightBlocks(keys.size());
  if (num_blocks <= 1) return;
  const size_t num_left = num_blocks / 2 * kWeightBlock;
  splitter->Split(keys, num_left);
  OrderNode(keys.first(num_left), splitter);
  OrderNode(keys.subspan(num_left), splitter);
}

}  // namespace

void OrderPiece(const float* rows, size_t num_channels, std::span<uint32_t> order) {
  std::iota(order.begin(), order.end(), 0u);
  Splitter splitter(rows, num_channels);
  OrderNode(order, &splitter);
}

}  // namespace attndb::index
