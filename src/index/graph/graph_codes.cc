#include "index/graph/graph_codes.h"

#include <algorithm>
#include <cmath>

#include "common/lane_sum.h"
#include "common/random.h"
#include "kernels/centre.h"
#include "kernels/convert.h"
#include "kernels/hadamard.h"

namespace attndb::index {
namespace {

// One rotation for all: two builds of the same keys are the same bytes.
constexpr uint64_t kRotationSeed = 0x6772617068;  // "graph"

// Keys of a part of work.
constexpr size_t kCodePartKeys = 2048;

// Codes cover this many deviations and are clipped beyond, which moves few keys by a little. A
// wider range would be coarser for all keys.
constexpr double kCodeRange = 5.0;

size_t NumKeyParts(size_t num_keys) { return (num_keys + kCodePartKeys - 1) / kCodePartKeys; }

// Calls f(key) for the keys of each part.
template <typename F>
void ForKeys(ThreadPool* pool, size_t num_keys, const F& f) {
  ForParts(pool, NumKeyParts(num_keys), [&](uint32_t part) {
    const size_t end = std::min(num_keys, (part + size_t{1}) * kCodePartKeys);
    f(part * kCodePartKeys, end);
  });
}

}  // namespace

TurnedKeys::TurnedKeys(const kernels::RowsView& keys, size_t num_keys, ThreadPool* pool)
    : keys_(keys),
      num_keys_(num_keys),
      mean_(keys.num_elements),
      ones_(keys.num_elements, 1.0f),
      signs_(2 * keys.num_elements),
      lifts_(num_keys) {
  Random random(kRotationSeed);
  for (float& sign : signs_) sign = random.OneIn(2) ? -1.0f : 1.0f;
  const size_t d = num_elements();
  // Sums of parts, added in the order of the parts: equal whichever thread computes them.
  std::vector<double> sums(NumKeyParts(num_keys) * d);
  ForKeys(pool, num_keys, [&](size_t begin, size_t end) {
    std::vector<float> row(d);
    double* const sum = sums.data() + begin / kCodePartKeys * d;
    for (size_t key = begin; key < end; ++key) {
      kernels::LoadRows(keys_, key, 1, row.data());
      for (size_t i = 0; i < d; ++i) sum[i] += double{row[i]};
      lifts_[key] = static_cast<float>(Norm(row));
    }
  });
  for (size_t i = 0; i < d; ++i) {
    double sum = 0;
    for (size_t part = i; part < sums.size(); part += d) sum += sums[part];
    mean_[i] = static_cast<float>(sum / static_cast<double>(std::max<size_t>(num_keys, 1)));
  }
  const double longest = num_keys == 0 ? 0.0 : double{*std::ranges::max_element(lifts_)};
  const double spread = std::sqrt(double{kLiftChannels});
  for (float& lift : lifts_) {
    const double rest = longest * longest - double{lift} * double{lift};
    lift = static_cast<float>(std::sqrt(std::max(rest, 0.0)) / spread);
  }
}

void TurnedKeys::LoadKey(size_t key, bool centred, float* row) const {
  kernels::LoadRows(keys_, key, 1, row);
  float norm_sq = 0;
  if (centred) {
    kernels::CentreRows(row, num_elements(), 1, num_elements(), mean_.data(), ones_.data(),
                        &norm_sq);
  }
  TurnQuery(row);
}

void TurnedKeys::TurnQuery(float* row) const {
  kernels::HadamardRows(row, num_elements(), 1, num_elements(), signs_.data());
}

KeyCodes::KeyCodes(const TurnedKeys& keys, ThreadPool* pool)
    : width_(keys.num_lifted()),
      codes_(keys.num_keys() * keys.num_lifted()),
      norms_(keys.num_keys()) {
  const size_t n = keys.num_keys();
  double lift_mean = 0;
  for (size_t key = 0; key < n; ++key) lift_mean += double{keys.lift(key)};
  lift_mean /= static_cast<double>(std::max<size_t>(n, 1));
  std::vector<double> squares(NumKeyParts(n));
  ForKeys(pool, n, [&](size_t begin, size_t end) {
    std::vector<float> row(keys.num_elements());
    for (size_t key = begin; key < end; ++key) {
      keys.LoadKey(key, true, row.data());
      const double norm = Norm(row);
      squares[begin / kCodePartKeys] += norm * norm;
    }
  });
  double square = 0;
  for (const double part : squares) square += part;
  const auto count = static_cast<double>(std::max<size_t>(n * keys.num_elements(), 1));
  const double scale = kCodeRange * std::sqrt(square / count) / 127.0;
  const auto inverse = static_cast<float>(scale > 0 ? 1.0 / scale : 0.0);
  const auto encode = [&](float x) {
    return static_cast<int8_t>(std::lrintf(std::clamp(x * inverse, -127.0f, 127.0f)));
  };
  ForKeys(pool, n, [&](size_t begin, size_t end) {
    std::vector<float> row(keys.num_elements());
    for (size_t key = begin; key < end; ++key) {
      keys.LoadKey(key, true, row.data());
      int8_t* const codes = codes_.data() + key * width_;
      std::ranges::transform(row, codes, encode);
      const int8_t lift = encode(keys.lift(key) - static_cast<float>(lift_mean));
      std::fill_n(codes + row.size(), kLiftChannels, lift);
      const auto self = static_cast<uint32_t>(key);
      Dots(self, {&self, 1}, &norms_[key]);
    }
  });
}

ScanPlanes::ScanPlanes(size_t num_rows, size_t num_channels)
    : num_rows_(num_rows),
      num_channels_(num_channels),
      high_(num_blocks() * kernels::PlaneBlockBytes(num_channels)),
      low_(high_.size()),
      scales_(num_blocks() * kernels::kPlaneKeys) {}

kernels::PlanesView ScanPlanes::view() const {
  return {high_.data(), low_.data(), scales_.data(), num_channels_};
}

void ScanPlanes::EncodeBlock(size_t block, size_t count, const float* rows) {
  float residual_sq[kernels::kPlaneKeys];
  const size_t at = block * kernels::PlaneBlockBytes(num_channels_);
  kernels::EncodePlanes(rows, num_channels_, count, num_channels_,
                        {.high = high_.data() + at,
                         .low = low_.data() + at,
                         .scales = scales_.data() + block * kernels::kPlaneKeys,
                         .residual_sq = residual_sq});
}

}  // namespace attndb::index
