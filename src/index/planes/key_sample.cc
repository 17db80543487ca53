#include "index/planes/key_sample.h"

#include <algorithm>
#include <cmath>

#include "kernels/centre.h"
#include "kernels/convert.h"
#include "kernels/weights.h"

namespace attndb::index {
namespace {

using kernels::kWeightBlock;

// Beyond this a channel's factor would cost the others more than it saves its own.
constexpr double kMaxScale = 16.0;

void Subtract(const std::vector<float>& mean, float* rows, size_t num_rows) {
  for (size_t i = 0; i < num_rows; ++i, rows += mean.size()) {
    for (size_t d = 0; d < mean.size(); ++d) rows[d] -= mean[d];
  }
}

}  // namespace

void LoadKeys(const PlaneSource& source, size_t first, size_t count, float* rows) {
  if (source.order.empty()) {
    kernels::LoadRows(source.keys, first, count, rows);
    return;
  }
  for (size_t i = 0; i < count; ++i) {
    kernels::LoadRows(source.keys, source.order[first + i], 1, rows + i * source.keys.num_elements);
  }
}

KeySample::KeySample(const PlaneSource& source)
    : source_(source), num_channels_(source.keys.num_elements) {
  const size_t num_blocks = kernels::NumWeightBlocks(source.num_keys);
  const size_t num_taken = std::min(num_blocks, kMaxBlocks);
  for (size_t i = 0; i < num_taken; ++i) {
    const size_t first = (2 * i + 1) * num_blocks / (2 * num_taken) * kWeightBlock;
    const Block block = {first, std::min(kWeightBlock, source.num_keys - first)};
    blocks_.push_back(block);
    const size_t begin = rows_.size();
    rows_.resize(begin + block.num_keys * num_channels_);
    LoadKeys(source, first, block.num_keys, rows_.data() + begin);
  }
}

// Mean of R(-p) k: the bias of all keys before the rotary embedding.
std::vector<float> KeySample::FindBias(const RotaryTurns& turns) const {
  std::vector<double> sums(2 * source_.frequencies.size());
  const float* rows = rows_.data();
  for (const Block& block : blocks_) {
    turns.SumTurnedBack(rows, num_channels_, block.num_keys, PositionOf(block), sums.data());
    rows += block.num_keys * num_channels_;
  }
  std::vector<float> bias(sums.size());
  for (size_t d = 0; d < sums.size(); ++d) {
    bias[d] = static_cast<float>(sums[d] / static_cast<double>(num_rows()));
  }
  return bias;
}

std::vector<float> KeySample::MeanOf(const float* rows, size_t num_rows) const {
  std::vector<float> mean(num_channels_);
  kernels::SumRows(rows, num_channels_, num_rows, num_channels_, mean.data());
  for (float& x : mean) x /= static_cast<float>(num_rows);
  return mean;
}

// After a rotation the codes' noise is equal in all channels, in proportion to the norm of s k. A
// score's error is then in proportion to the norm of s k times the norm of q / s. By Cauchy and
// Schwarz this is least if, in each channel, s^2 is in proportion to the rms of q over the rms of
// k.
std::vector<float> KeySample::ScaleOf(std::span<const float> query_rms,
                                      const std::vector<float>& rows) const {
  std::vector<double> squares(num_channels_);
  for (size_t i = 0; i < num_rows(); ++i) {
    const float* const row = rows.data() + i * num_channels_;
    for (size_t d = 0; d < num_channels_; ++d) squares[d] += double{row[d]} * double{row[d]};
  }
  std::vector<double> logs(num_channels_, std::nan(""));
  double log_sum = 0;
  size_t num_scaled = 0;
  for (size_t d = 0; d < num_channels_; ++d) {
    const double key_rms = std::sqrt(squares[d] / static_cast<double>(num_rows()));
    const double ratio = double{query_rms[d]} / key_rms;
    if (!std::isnormal(ratio)) continue;  // A channel of zeros.
    logs[d] = 0.5 * std::log(ratio);
    log_sum += logs[d];
    ++num_scaled;
  }
  std::vector<float> scale(num_channels_, 1.0f);
  for (size_t d = 0; d < num_channels_; ++d) {
    if (std::isnan(logs[d])) continue;
    const double factor = std::exp(logs[d] - log_sum / static_cast<double>(num_scaled));
    scale[d] = static_cast<float>(std::clamp(factor, 1 / kMaxScale, kMaxScale));
  }
  return scale;
}

TransformVectors KeySample::Fit(const TransformKind& kind, std::span<const float> query_rms) const {
  TransformVectors vectors;
  std::vector<float> rows = rows_;
  if (kind.removes_bias) {
    const RotaryTurns turns(source_.frequencies);
    vectors.frequencies.assign(source_.frequencies.begin(), source_.frequencies.end());
    vectors.bias = FindBias(turns);
    float* row = rows.data();
    for (const Block& block : blocks_) {
      turns.Subtract(vectors.bias.data(), PositionOf(block), block.num_keys, row, num_channels_);
      row += block.num_keys * num_channels_;
    }
  }
  vectors.mean.resize(num_channels_);
  if (kind.removes_bias) {
    vectors.mean = MeanOf(rows.data(), num_rows());
    Subtract(vectors.mean, rows.data(), num_rows());
  } else {
    float* row = rows.data();
    for (const Block& block : blocks_) {
      Subtract(MeanOf(row, block.num_keys), row, block.num_keys);
      row += block.num_keys * num_channels_;
    }
  }
  vectors.channel_scale.assign(num_channels_, 1.0f);
  if (kind.scales && !query_rms.empty()) vectors.channel_scale = ScaleOf(query_rms, rows);
  return vectors;
}

}  // namespace attndb::index
