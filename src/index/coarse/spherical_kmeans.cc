#include "index/coarse/spherical_kmeans.h"

#include <algorithm>
#include <limits>
#include <span>

#include "common/check.h"
#include "common/lane_sum.h"
#include "kernels/convert.h"
#include "kernels/product_codes.h"

namespace attndb::index {
namespace {

constexpr size_t kTableBits = 8;
constexpr size_t kTableEntries = kernels::CodeEntries(kTableBits);

// Rows in float32, their mean taken from each.
std::vector<float> Centred(const kernels::RowsView& keys, size_t first, size_t count) {
  const size_t width = keys.num_elements;
  std::vector<float> rows(count * width);
  kernels::LoadRows(keys, first, count, rows.data());
  std::vector<double> mean(width);
  for (size_t i = 0; i < count; ++i) {
    for (size_t d = 0; d < width; ++d) mean[d] += double{rows[i * width + d]};
  }
  for (double& x : mean) x /= static_cast<double>(count);
  for (size_t i = 0; i < count; ++i) {
    for (size_t d = 0; d < width; ++d) rows[i * width + d] -= static_cast<float>(mean[d]);
  }
  return rows;
}

// The centroids of a piece, as kernels::FindNearest takes them: in tables of kTableEntries.
class Centroids {
 public:
  Centroids(size_t count, size_t width)
      : count_(count),
        width_(width),
        tables_(NumTables() * kTableEntries * width),
        // No key is nearest to an entry that stands for no centroid.
        half_squares_(NumTables() * kTableEntries, std::numeric_limits<float>::max()) {
    std::fill_n(half_squares_.begin(), count, 0.0f);
  }

  // Puts a centroid into this direction; at 0 if it has none.
  void Set(size_t centroid, std::span<const float> direction) {
    const double norm = Norm(direction);
    const float factor = norm > 0 ? static_cast<float>(1 / norm) : 0.0f;
    float* const table = tables_.data() + centroid / kTableEntries * kTableEntries * width_;
    for (size_t d = 0; d < width_; ++d) {
      table[d * kTableEntries + centroid % kTableEntries] = factor * direction[d];
    }
  }

  // The number of each row's nearest centroid, the first of equal ones.
  void FindNearest(const std::vector<float>& rows, std::vector<uint16_t>* numbers) const {
    const size_t num_rows = numbers->size();
    std::vector<uint8_t> nearest(num_rows);
    std::vector<float> gains(num_rows);
    std::vector<float> best(num_rows, -std::numeric_limits<float>::infinity());
    for (size_t table = 0; table < NumTables(); ++table) {
      const kernels::CodebookView view = {
          .centroids = tables_.data() + table * kTableEntries * width_,
          .half_squares = half_squares_.data() + table * kTableEntries,
          .num_channels = width_,
          .num_subspaces = 1,
          .bits = kTableBits};
      kernels::FindNearest(view, 0, rows.data(), width_, num_rows, nearest.data(), gains.data());
      for (size_t i = 0; i < num_rows; ++i) {
        if (!(gains[i] > best[i])) continue;
        best[i] = gains[i];
        (*numbers)[i] = static_cast<uint16_t>(table * kTableEntries + nearest[i]);
      }
    }
  }

  // Moves centroids to the means of their rows. A centroid without rows stays.
  void MoveToMeans(const std::vector<float>& rows, const std::vector<uint16_t>& numbers) {
    std::vector<float> sums(count_ * width_);
    std::vector<uint8_t> has_rows(count_);
    for (size_t i = 0; i < numbers.size(); ++i) {
      float* const sum = sums.data() + numbers[i] * width_;
      for (size_t d = 0; d < width_; ++d) sum[d] += rows[i * width_ + d];
      has_rows[numbers[i]] = 1;
    }
    for (size_t c = 0; c < count_; ++c) {
      if (has_rows[c] != 0) Set(c, {sums.data() + c * width_, width_});
    }
  }

 private:
  size_t NumTables() const { return (count_ + kTableEntries - 1) / kTableEntries; }

  const size_t count_;
  const size_t width_;
  std::vector<float> tables_;  // [table][channel][entry]
  std::vector<float> half_squares_;
};

// Numbers clusters anew, without empty ones.
size_t LeaveOutEmpty(size_t num_centroids, std::vector<uint16_t>* numbers) {
  std::vector<uint32_t> renumbered(num_centroids);
  for (const uint16_t number : *numbers) renumbered[number] = 1;
  uint32_t next = 0;
  for (uint32_t& number : renumbered) {
    next += number;
    number = next - 1;  // The new number of a cluster that has keys.
  }
  for (uint16_t& number : *numbers) number = static_cast<uint16_t>(renumbered[number]);
  return next;
}

}  // namespace

KeyClusters ClusterDirections(const kernels::RowsView& keys, size_t first, size_t count,
                              const KMeansOptions& options) {
  const size_t width = keys.num_elements;
  const size_t num_centroids = NumCentroids(count, options.cluster_keys);
  ATTNDB_CHECK(count > 0 && num_centroids <= std::numeric_limits<uint16_t>::max() + size_t{1});
  const std::vector<float> rows = Centred(keys, first, count);
  Centroids centroids(num_centroids, width);
  for (size_t c = 0; c < num_centroids; ++c) {
    centroids.Set(c, {rows.data() + c * count / num_centroids * width, width});
  }
  KeyClusters clusters;
  clusters.numbers.resize(count);
  std::vector<uint16_t> before;
  for (size_t round = 0; round < options.num_rounds && before != clusters.numbers; ++round) {
    if (round > 0) centroids.MoveToMeans(rows, clusters.numbers);
    before = clusters.numbers;
    centroids.FindNearest(rows, &clusters.numbers);
  }
  clusters.num_clusters = LeaveOutEmpty(num_centroids, &clusters.numbers);
  return clusters;
}

}  // namespace attndb::index
