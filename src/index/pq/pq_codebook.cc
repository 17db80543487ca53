#include "index/pq/pq_codebook.h"

#include <algorithm>
#include <limits>
#include <span>
#include <string>
#include <utility>

#include "common/check.h"
#include "common/lane_sum.h"
#include "common/random.h"
#include "kernels/convert.h"

namespace attndb::index {
namespace {

// The distance between the random seeds of neighbouring subspaces.
constexpr uint64_t kSeedStep = 0x9e3779b97f4a7c15u;

// Keys of one subspace in the form of kernels::LowerDistances; the last key fills up its block.
class KeyLanes {
 public:
  explicit KeyLanes(size_t width) : width_(width) {}

  void Add(const float* x) {
    const size_t lane_of = count_ % kernels::kDistanceKeys;
    if (lane_of == 0) {
      lanes_.resize(lanes_.size() + width_ * kernels::kDistanceKeys);
      distances_.resize(distances_.size() + kernels::kDistanceKeys,
                        std::numeric_limits<float>::max());
    }
    float* const to = lanes_.data() + (count_ - lane_of) * width_;
    for (size_t lane = lane_of; lane < kernels::kDistanceKeys; ++lane) {
      for (size_t j = 0; j < width_; ++j) to[j * kernels::kDistanceKeys + lane] = x[j];
    }
    ++count_;
  }

  // Lowers distances to the distances from this centroid, if these are smaller; returns their sum.
  double LowerTo(const float* centroid) {
    kernels::LowerDistances(lanes_.data(), width_, distances_.size() / kernels::kDistanceKeys,
                            centroid, distances_.data());
    return LaneSum<double>(count_, [&](size_t i) { return double{distances_[i]}; });
  }

  // The squared distance of each key from the nearest centroid.
  std::span<const float> distances() const { return {distances_.data(), count_}; }

 private:
  const size_t width_;
  size_t count_ = 0;
  std::vector<float> lanes_;  // [blocks, width, kDistanceKeys]
  std::vector<float> distances_;
};

// The first key at which the summed distances exceed `target`; if there is none, the last key with
// a distance above 0.
size_t FindWhere(std::span<const float> distances, double target) {
  double sum = 0;
  size_t last = 0;
  for (size_t i = 0; i < distances.size(); ++i) {
    if (!(distances[i] > 0)) continue;
    last = i;
    sum += double{distances[i]};
    if (sum > target) break;
  }
  return last;
}

}  // namespace

void LoadPqKeys(const PqSource& source, size_t first, size_t count, float* rows) {
  const size_t num_channels = source.keys.num_elements;
  if (source.order.empty()) {
    kernels::LoadRows(source.keys, first, count, rows);
  } else {
    for (size_t i = 0; i < count; ++i)
      kernels::LoadRows(source.keys, source.order[first + i], 1, rows + i * num_channels);
  }
  float scratch[kernels::kMaxRowElements];
  PairChannels(source.num_pairs, num_channels, count, rows, scratch);
}

void PairChannels(size_t num_pairs, size_t num_channels, size_t num_rows, float* rows,
                  float* scratch) {
  if (num_pairs == 0) return;
  ATTNDB_DCHECK(2 * num_pairs <= num_channels);
  for (float* row = rows; row != rows + num_rows * num_channels; row += num_channels) {
    std::copy_n(row, 2 * num_pairs, scratch);
    for (size_t i = 0; i < num_pairs; ++i) {
      row[2 * i] = scratch[i];
      row[2 * i + 1] = scratch[num_pairs + i];
    }
  }
}

Result<PqTrainer> PqTrainer::Make(const PqSource& source, const PqOptions& options) {
  ATTNDB_CHECK(source.num_keys > 0);
  if (!kernels::IsCodeShape(options.num_subspaces, options.bits)) {
    return Status::InvalidArgument(
        "product codes: expected 2, 4, 8, 16 or 32 subspaces of 4, 6 or 8 bits, found " +
        std::to_string(options.num_subspaces) + " of " + std::to_string(options.bits));
  }
  const size_t num_channels = source.keys.num_elements;
  if (num_channels % options.num_subspaces != 0 || num_channels > kernels::kMaxRowElements) {
    return Status::InvalidArgument("product codes: expected channels that are a multiple of " +
                                   std::to_string(options.num_subspaces) + " up to " +
                                   std::to_string(kernels::kMaxRowElements) + ", found " +
                                   std::to_string(num_channels));
  }
  if (options.num_sampled == 0) {
    return Status::InvalidArgument("product codes: expected 1 or more sampled keys, found 0");
  }
  return PqTrainer(source, options);
}

PqTrainer::PqTrainer(const PqSource& source, const PqOptions& options)
    : options_(options), num_rows_(std::min(source.num_keys, options.num_sampled)) {
  codebook_.num_channels = source.keys.num_elements;
  codebook_.num_subspaces = options.num_subspaces;
  codebook_.bits = options.bits;
  const size_t num_entries = kernels::CodeEntries(options.bits);
  codebook_.centroids.resize(codebook_.num_channels * num_entries);
  codebook_.half_squares.resize(options.num_subspaces * num_entries);
  sample_.resize(num_rows_ * codebook_.num_channels);
  for (size_t i = 0; i < num_rows_; ++i) {
    LoadPqKeys(source, i * source.num_keys / num_rows_, 1,
               sample_.data() + i * codebook_.num_channels);
  }
  LeaveOutOutliers();
}

void PqTrainer::LeaveOutOutliers() {
  const size_t width = codebook_.num_channels;
  const auto norm_of = [&](size_t i) { return Norm({sample_.data() + i * width, width}); };
  std::vector<double> norms(num_rows_);
  for (size_t i = 0; i < num_rows_; ++i) norms[i] = norm_of(i);
  const auto median = norms.begin() + static_cast<ptrdiff_t>(num_rows_ / 2);
  std::ranges::nth_element(norms, median);
  if (!(*median > 0)) return;
  codebook_.longest = double{PqCodebook::kOutlierNorm} * *median;
  size_t num_left = 0;
  for (size_t i = 0; i < num_rows_; ++i) {
    if (norm_of(i) > codebook_.longest) continue;
    if (num_left != i) std::copy_n(&sample_[i * width], width, &sample_[num_left * width]);
    ++num_left;
  }
  num_rows_ = num_left;
}

void PqTrainer::SetCentroid(size_t subspace, size_t entry, const float* x) {
  const size_t num_entries = kernels::CodeEntries(codebook_.bits);
  const size_t width = codebook_.width();
  float square = 0;
  for (size_t j = 0; j < width; ++j) {
    codebook_.centroids[(subspace * width + j) * num_entries + entry] = x[j];
    square += x[j] * x[j];
  }
  codebook_.half_squares[subspace * num_entries + entry] = square / 2;
}

void PqTrainer::Seed(size_t subspace) {
  Random random(options_.seed + kSeedStep * subspace);
  const size_t width = codebook_.width();
  const size_t num_entries = kernels::CodeEntries(codebook_.bits);
  const size_t num_keys = std::min(num_rows_, kSeedingKeys);
  const auto row = [&](size_t i) { return Row(i * num_rows_ / num_keys, subspace); };
  KeyLanes keys(width);
  for (size_t i = 0; i < num_keys; ++i) keys.Add(row(i));
  size_t chosen = random.Uniform(num_keys);
  for (size_t entry = 0; entry < num_entries; ++entry) {
    SetCentroid(subspace, entry, row(chosen));
    const double sum = keys.LowerTo(row(chosen));
    // If every key is a centroid already, the last one is used twice.
    if (sum > 0) chosen = FindWhere(keys.distances(), random.NextDouble() * sum);
  }
}

bool PqTrainer::Assign(size_t subspace, std::vector<uint8_t>* nearest,
                       std::vector<float>* gains) const {
  const std::vector<uint8_t> before = *nearest;
  kernels::FindNearest(codebook_.view(), subspace, Row(0, subspace), codebook_.num_channels,
                       num_rows_, nearest->data(), gains->data());
  return *nearest != before;
}

void PqTrainer::MoveToMeans(size_t subspace, const std::vector<uint8_t>& nearest,
                            const std::vector<float>& gains) {
  const size_t width = codebook_.width();
  const size_t num_entries = kernels::CodeEntries(codebook_.bits);
  std::vector<double> sums(num_entries * width);
  std::vector<size_t> counts(num_entries);
  std::vector<float> distances(num_rows_);
  for (size_t i = 0; i < num_rows_; ++i) {
    const float* const x = Row(i, subspace);
    double* const sum = sums.data() + nearest[i] * width;
    float square = 0;
    for (size_t j = 0; j < width; ++j) {
      sum[j] += double{x[j]};
      square += x[j] * x[j];
    }
    ++counts[nearest[i]];
    distances[i] = square - 2 * gains[i];
  }
  std::vector<float> mean(width);
  for (size_t entry = 0; entry < num_entries; ++entry) {
    if (counts[entry] == 0) continue;
    for (size_t j = 0; j < width; ++j) {
      mean[j] = static_cast<float>(sums[entry * width + j] / static_cast<double>(counts[entry]));
    }
    SetCentroid(subspace, entry, mean.data());
  }
  for (size_t entry = 0; entry < num_entries; ++entry) {
    if (counts[entry] != 0) continue;
    const auto furthest = std::ranges::max_element(distances);
    if (!(*furthest > 0)) break;
    const auto i = static_cast<size_t>(furthest - distances.begin());
    *furthest = 0;
    SetCentroid(subspace, entry, Row(i, subspace));
  }
}

void PqTrainer::TrainSubspace(size_t subspace) {
  Seed(subspace);
  std::vector<uint8_t> nearest(num_rows_);
  std::vector<float> gains(num_rows_);
  for (size_t round = 0; round < options_.num_rounds; ++round) {
    const bool has_moved = Assign(subspace, &nearest, &gains);
    if (round > 0 && !has_moved) break;
    MoveToMeans(subspace, nearest, gains);
  }
}

Result<PqCodebook> TrainPqCodebook(const PqSource& source, const PqOptions& options) {
  ATTNDB_ASSIGN_OR_RETURN(PqTrainer trainer, PqTrainer::Make(source, options));
  for (size_t s = 0; s < trainer.num_subspaces(); ++s) trainer.TrainSubspace(s);
  return trainer.Take();
}

}  // namespace attndb::index
