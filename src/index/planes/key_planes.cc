#include "index/planes/key_planes.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "common/check.h"
#include "common/random.h"
#include "kernels/convert.h"
#include "kernels/hadamard.h"

namespace attndb::index {
namespace {

using kernels::kPlaneKeys;
using kernels::PlaneBlockBytes;

// One rotation for all heads and all time: planes of two builds of a segment are the same bytes.
constexpr uint64_t kRotationSeed = 0x6174746e6462;  // "attndb"

size_t NumBlocks(uint64_t num_keys) { return (num_keys + kPlaneKeys - 1) / kPlaneKeys; }

std::vector<float> RotationSigns(size_t num_channels) {
  Random random(kRotationSeed);
  std::vector<float> signs(2 * num_channels);
  for (float& sign : signs) sign = random.OneIn(2) ? -1.0f : 1.0f;
  return signs;
}

}  // namespace

uint64_t KeyPlanes::BytesFor(uint64_t num_keys, size_t num_channels) {
  return NumBlocks(num_keys) * (2 * PlaneBlockBytes(num_channels) + kPlaneKeys * sizeof(uint16_t));
}

uint64_t KeyPlanes::ScanBytes(uint32_t bits) const {
  return num_channels_ * bits / 8 + sizeof(uint16_t);
}

Result<KeyPlanes> KeyPlanes::Build(const kernels::RowsView& keys, size_t num_keys) {
  KeyPlanes planes;
  planes.num_keys_ = num_keys;
  planes.num_channels_ = keys.num_elements;
  planes.signs_ = RotationSigns(keys.num_elements);
  ATTNDB_ASSIGN_OR_RETURN(planes.buffer_,
                          AlignedBuffer::Allocate(BytesFor(num_keys, keys.num_elements)));
  ATTNDB_ASSIGN_OR_RETURN(AlignedBuffer rows,
                          AlignedBuffer::Allocate(kPlaneKeys * keys.num_elements * 4));
  auto* const block = reinterpret_cast<float*>(rows.data());
  planes.FindMean(keys, block);
  for (size_t first = 0; first < num_keys; first += kPlaneKeys) {
    planes.EncodeBlock(keys, first, std::min(kPlaneKeys, num_keys - first), block);
  }
  const double values = static_cast<double>(std::max<size_t>(1, num_keys * keys.num_elements));
  planes.variance4_ /= static_cast<double>(std::max<size_t>(1, num_keys));
  planes.variance8_ /= values;
  return planes;
}

// Blocks are summed in float32, which the compiler vectorises, and added up in float64.
void KeyPlanes::FindMean(const kernels::RowsView& keys, float* rows) {
  std::vector<double> sums(num_channels_);
  std::vector<float> block(num_channels_);
  for (size_t first = 0; first < num_keys_; first += kPlaneKeys) {
    const size_t count = std::min(kPlaneKeys, num_keys_ - first);
    Load(keys, first, count, rows);
    std::ranges::fill(block, 0.0f);
    for (size_t i = 0; i < count; ++i) {
      for (size_t d = 0; d < num_channels_; ++d) block[d] += rows[i * num_channels_ + d];
    }
    for (size_t d = 0; d < num_channels_; ++d) sums[d] += double{block[d]};
  }
  mean_.resize(num_channels_);
  for (size_t d = 0; d < num_channels_; ++d) {
    mean_[d] = num_keys_ == 0 ? 0.0f : static_cast<float>(sums[d] / static_cast<double>(num_keys_));
  }
}

void KeyPlanes::Load(const kernels::RowsView& keys, size_t first_key, size_t count,
                     float* rows) const {
  const auto* const from =
      static_cast<const std::byte*>(keys.data) + first_key * keys.stride * DTypeBytes(keys.dtype);
  kernels::ConvertRows(keys.dtype, from, keys.stride, DType::kFloat32, rows, num_channels_, count,
                       num_channels_, num_channels_);
}

void KeyPlanes::EncodeBlock(const kernels::RowsView& keys, size_t first_key, size_t count,
                            float* rows) {
  Load(keys, first_key, count, rows);
  for (size_t i = 0; i < count; ++i) {
    for (size_t d = 0; d < num_channels_; ++d) rows[i * num_channels_ + d] -= mean_[d];
  }
  kernels::HadamardRows(rows, num_channels_, count, num_channels_, signs_.data());
  const size_t block = first_key / kPlaneKeys;
  const size_t plane_bytes = NumBlocks(num_keys_) * PlaneBlockBytes(num_channels_);
  auto* const high =
      reinterpret_cast<uint8_t*>(buffer_.data()) + block * PlaneBlockBytes(num_channels_);
  auto* const scales = reinterpret_cast<uint16_t*>(buffer_.data() + 2 * plane_bytes) + first_key;
  float residual_sq[kPlaneKeys];
  kernels::EncodePlanes(rows, num_channels_, count, num_channels_, high, high + plane_bytes, scales,
                        residual_sq);
  for (size_t i = 0; i < count; ++i) {
    // The low nibble is any of 16 values, equally often: variance (16^2 - 1) / 12 code units.
    const double scale = double{kernels::ToFloat32(scales[i], DType::kBFloat16)};
    variance4_ += scale * scale * (255.0 / 12.0);
    variance8_ += double{residual_sq[i]};
  }
}

float KeyPlanes::ScoreError(uint32_t bits, float q_norm) const {
  // q has 8 bits as well. Turned, q and k alike are spread over all channels, so that its rounding
  // costs what a key's does: a twelfth of the square of the key's scale.
  const double of_query = variance4_ / 255.0;
  const double variance = of_query + variance8_ + (bits == 4 ? variance4_ : 0.0);
  return static_cast<float>(std::sqrt(variance) * double{q_norm});
}

kernels::PlaneQuery KeyPlanes::Prepare(const float* q, float* spare, int8_t* codes) const {
  kernels::PlaneQuery query;
  query.codes = codes;
  double offset = 0;
  for (size_t d = 0; d < num_channels_; ++d) offset += double{q[d]} * double{mean_[d]};
  query.offset = static_cast<float>(offset);
  std::copy_n(q, num_channels_, spare);
  kernels::HadamardRows(spare, num_channels_, 1, num_channels_, signs_.data());
  kernels::EncodePlaneQuery(spare, num_channels_, codes, &query.scale, &query.code_sum);
  return query;
}

kernels::PlanesView KeyPlanes::View() const {
  const size_t plane_bytes = NumBlocks(num_keys_) * PlaneBlockBytes(num_channels_);
  const auto* const high = reinterpret_cast<const uint8_t*>(buffer_.data());
  return {high, high + plane_bytes,
          reinterpret_cast<const uint16_t*>(buffer_.data() + 2 * plane_bytes), num_channels_};
}

void KeyPlanes::Scan(uint32_t bits, size_t first_key, size_t num_keys,
                     const kernels::PlaneQuery* queries, size_t num_q_rows, float* scores,
                     size_t scores_stride) const {
  ATTNDB_DCHECK(first_key + num_keys <= num_keys_);
  kernels::ScanPlanes(View(), static_cast<int>(bits), first_key, num_keys, queries, num_q_rows,
                      scores, scores_stride);
}

}  // namespace attndb::index
