#include "index/planes/plane_builder.h"

#include <algorithm>
#include <cmath>
#include <span>

#include "common/lane_sum.h"
#include "index/planes/key_sample.h"
#include "kernels/centre.h"
#include "kernels/convert.h"
#include "kernels/hadamard.h"
#include "kernels/weights.h"

namespace attndb::index {
namespace {

using kernels::kPlaneKeys;
using kernels::kWeightBlock;
using kernels::PlaneBlockBytes;

static_assert(kWeightBlock % kPlaneKeys == 0);

float MaxOf(const std::vector<float>& x) { return *std::ranges::max_element(x); }

}  // namespace

PlaneBuilder::PlaneBuilder(const PlaneSource& source, const TransformKind& kind,
                           const TransformVectors& vectors)
    : source_(source),
      kind_(kind),
      vectors_(vectors),
      num_channels_(source.keys.num_elements),
      turns_(kind.removes_bias ? std::optional<RotaryTurns>(vectors.frequencies) : std::nullopt),
      bias_(kind.removes_bias
                ? std::make_shared<RotaryBias>(vectors.bias.data(), vectors.frequencies)
                : nullptr),
      mean_(vectors.mean),
      rows_(kWeightBlock * num_channels_),
      scale_max_(double{MaxOf(vectors.channel_scale)}),
      bias_norm_(Norm(vectors.bias)) {}

Result<KeyPlanes> PlaneBuilder::Build(size_t first_key, size_t num_keys,
                                      const std::optional<PlaneErrors>& measured) {
  ATTNDB_RETURN_IF_ERROR(Start(first_key, num_keys));
  for (size_t first = 0; first < num_keys; first += kWeightBlock) {
    EncodeBlock(first, std::min(kWeightBlock, num_keys - first));
  }
  PlaneHeader& header = planes_.header_;
  header.added_norm = static_cast<float>((bias_norm_ + mean_norm_max_) * (1 + 0x1p-20));
  if (!std::isfinite(double{header.added_norm} + residual_sq_ + bound_sum_)) return KeyPlanes();
  const PlaneErrors errors = measured ? *measured : EstimateErrors();
  header.error4 = errors.bits4;
  header.error8 = errors.bits8;
  EncodePlaneHeader(header, planes_.buffer_.span().first(kPlanesHeaderBytes));
  return std::move(planes_);
}

Status PlaneBuilder::Start(size_t first_key, size_t num_keys) {
  first_key_ = first_key;
  mean_norm_max_ = kind_.removes_bias ? Norm(mean_) : 0.0;
  scale_sq_ = residual_sq_ = bound_sum_ = 0;
  PlaneHeader header = {.num_keys = num_keys,
                        .num_channels = static_cast<uint32_t>(num_channels_),
                        .transform = kind_.id};
  if (kind_.removes_bias) {
    header.num_pairs = static_cast<uint32_t>(vectors_.frequencies.size());
    header.first_position = source_.first_position + static_cast<int64_t>(first_key);
  }
  const PlaneLayout layout(num_keys, num_channels_, kind_.id);
  ATTNDB_ASSIGN_OR_RETURN(AlignedBuffer buffer,
                          AlignedBuffer::AllocateZeroed(layout.total_bytes()));
  const std::span<const std::byte> bytes = buffer.span();
  planes_ = KeyPlanes(header, {bytes.first(layout.main_bytes), bytes.subspan(layout.main_bytes)});
  planes_.buffer_ = std::move(buffer);
  planes_.bias_ = bias_;
  if (kind_.removes_bias) std::ranges::copy(mean_, Piece<float>(layout.mean));
  std::ranges::copy(vectors_.channel_scale, Piece<float>(layout.channel_scale));
  std::ranges::copy(vectors_.bias, Piece<float>(layout.bias));
  std::ranges::copy(vectors_.frequencies, Piece<double>(layout.frequency));
  return Status::Ok();
}

void PlaneBuilder::EncodeBlock(size_t first, size_t count) {
  LoadKeys(source_, first_key_ + first, count, rows_.data());
  TakeOut(first, count);
  float norm_sq[kWeightBlock];
  kernels::CentreRows(rows_.data(), num_channels_, count, num_channels_, mean_.data(),
                      vectors_.channel_scale.data(), norm_sq);
  kernels::HadamardRows(rows_.data(), num_channels_, count, num_channels_, planes_.signs_.data());
  maxima_ = {};
  for (size_t i = 0; i < count; i += kPlaneKeys) {
    EncodeRows(first + i, std::min(kPlaneKeys, count - i), rows_.data() + i * num_channels_,
               norm_sq + i);
  }
  const PlaneBound bound = BoundOf(maxima_);
  Piece<PlaneBound>(planes_.layout_.bounds)[first / kWeightBlock] = bound;
  bound_sum_ += double{bound.residual4} + double{bound.norm};
}

void PlaneBuilder::TakeOut(size_t first, size_t count) {
  if (turns_) {
    const auto position = source_.first_position + static_cast<int64_t>(first_key_ + first);
    turns_->Subtract(vectors_.bias.data(), position, count, rows_.data(), num_channels_);
    return;
  }
  kernels::SumRows(rows_.data(), num_channels_, count, num_channels_, mean_.data());
  auto* const stored =
      Piece<uint16_t>(planes_.layout_.block_means) + first / kWeightBlock * num_channels_;
  for (float& x : mean_) x /= static_cast<float>(count);
  // Subtracts exactly the stored values.
  kernels::ConvertRows(DType::kFloat32, mean_.data(), num_channels_, DType::kBFloat16, stored,
                       num_channels_, 1, num_channels_, num_channels_);
  kernels::ConvertRows(DType::kBFloat16, stored, num_channels_, DType::kFloat32, mean_.data(),
                       num_channels_, 1, num_channels_, num_channels_);
  mean_norm_max_ = std::max(mean_norm_max_, Norm(mean_));
}

void PlaneBuilder::EncodeRows(size_t first, size_t count, const float* rows, const float* norm_sq) {
  const PlaneLayout& layout = planes_.layout_;
  const size_t at = first / kPlaneKeys * PlaneBlockBytes(num_channels_);
  float residual_sq[kPlaneKeys];
  const kernels::PlaneBlock block = {.high = Piece<uint8_t>(layout.high + at),
                                     .low = Piece<uint8_t>(layout.main_bytes + at),
                                     .scales = Piece<uint16_t>(layout.scales) + first,
                                     .residual_sq = residual_sq};
  kernels::EncodePlanes(rows, num_channels_, count, num_channels_, block);
  for (size_t i = 0; i < count; ++i) {
    const float scale = kernels::ToFloat32(block.scales[i], DType::kBFloat16);
    scale_sq_ += double{scale} * double{scale};
    residual_sq_ += double{residual_sq[i]};
    maxima_.residual_sq = std::max(maxima_.residual_sq, residual_sq[i]);
    maxima_.norm_sq = std::max(maxima_.norm_sq, norm_sq[i]);
    maxima_.scale = std::max(maxima_.scale, scale);
  }
}

PlaneBound PlaneBuilder::BoundOf(const BlockMaxima& maxima) const {
  // The squares were summed in float32, in 4 lanes or more: at most 256 + 4 roundings each, and
  // terms below its range may be missing.
  constexpr double kSumRounding = 0x1p-15;
  const auto num_channels = static_cast<double>(num_channels_);
  const auto upper_norm = [&](float sum) {
    return std::sqrt(double{sum} * (1 + kSumRounding) + num_channels * 0x1p-140);
  };
  const double norm = upper_norm(maxima.norm_sq);
  const double taken_out = scale_max_ * (bias_norm_ + mean_norm_max_);
  const double residual = upper_norm(maxima.residual_sq) + kTransformRounding * (norm + taken_out);
  // At 4 bits a code is off by half of 15 units more at most.
  const double residual4 = residual + 7.5 * std::sqrt(num_channels) * double{maxima.scale};
  constexpr double kToFloat = 1 + 0x1p-23;
  return {static_cast<float>(residual * kToFloat), static_cast<float>(residual4 * kToFloat),
          static_cast<float>(norm * (1 + kTransformRounding) * kToFloat)};
}

// The low nibble is any of 16 values, equally often: variance (16^2 - 1) / 12 code units. Turned, q
// and k alike are spread over all channels, so that the rounding of q to as many steps would cost a
// twelfth of the square of the key's scale; its steps are 1.33 times as long (kernels/planes.h).
PlaneErrors PlaneBuilder::EstimateErrors() const {
  const auto num_keys = static_cast<double>(planes_.num_keys());
  const double unit = scale_sq_ / num_keys / 12.0;
  const auto num_channels = static_cast<double>(num_channels_);
  constexpr double kQueryUnits = 1.33 * 1.33;
  const double variance8 = residual_sq_ / num_keys / num_channels + kQueryUnits * unit;
  return {static_cast<float>(std::sqrt(variance8 + 255.0 * unit)),
          static_cast<float>(std::sqrt(variance8))};
}

}  // namespace attndb::index
