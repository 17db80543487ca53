#include "index/coarse/block_representatives.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <vector>

#include "common/lane_sum.h"
#include "kernels/convert.h"

namespace attndb::index {
namespace {

// The sum of the sampled queries of the kLocalTokens tokens behind a key.
class LocalQueries {
 public:
  explicit LocalQueries(const BlockSource& source)
      : num_channels_(source.keys.num_elements), sum_(num_channels_) {
    std::vector<float> q(num_channels_);
    for (size_t i = 0; i < source.queries.num_rows(); ++i) {
      const kernels::RowsView rows = {source.queries.q, num_channels_, num_channels_,
                                      source.keys.dtype};
      kernels::LoadRows(rows, i, 1, q.data());
      // Imported queries may be anything.
      if (!std::ranges::all_of(q, [](float x) { return std::isfinite(x); })) continue;
      rows_.insert(rows_.end(), q.begin(), q.end());
      tokens_.push_back(source.queries.tokens[i]);
    }
  }

  // REQUIRES: keys ascend.
  void MoveTo(size_t key) {
    for (; end_ < tokens_.size() && tokens_[end_] <= key + kLocalTokens; ++end_) Add(end_, 1.0);
    for (; begin_ < end_ && tokens_[begin_] <= key; ++begin_) Add(begin_, -1.0);
  }

  bool empty() const { return begin_ == end_; }

  // The mean of their scores. REQUIRES: !empty().
  double Score(const float* key) const {
    const double sum =
        LaneSum<double>(num_channels_, [&](size_t d) { return sum_[d] * double{key[d]}; });
    return sum / static_cast<double>(end_ - begin_);
  }

 private:
  void Add(size_t row, double factor) {
    for (size_t d = 0; d < num_channels_; ++d) {
      sum_[d] += factor * double{rows_[row * num_channels_ + d]};
    }
  }

  const size_t num_channels_;
  std::vector<float> rows_;
  std::vector<uint32_t> tokens_;  // Ascending.
  std::vector<double> sum_;
  size_t begin_ = 0;  // First of the rows that are in the sum.
  size_t end_ = 0;
};

struct ScoredKey {
  double score = 0;
  size_t key = 0;  // Number of the key in the block.
};

void WriteMean(const float* keys, size_t num_channels, const std::vector<ScoredKey>& of,
               float* row) {
  for (size_t d = 0; d < num_channels; ++d) {
    double sum = 0;
    for (const ScoredKey& each : of) sum += double{keys[each.key * num_channels + d]};
    row[d] = static_cast<float>(sum / static_cast<double>(of.size()));
  }
}

}  // namespace

void WriteRepresentatives(const BlockSource& source, const BlockForm& form, float* rows) {
  const size_t num_channels = source.keys.num_elements;
  LocalQueries queries(source);
  std::vector<float> keys(form.block_keys * num_channels);
  std::vector<ScoredKey> chosen;
  for (size_t first = 0; first < source.num_keys; first += form.block_keys, rows += num_channels) {
    const size_t count = std::min<size_t>(form.block_keys, source.num_keys - first);
    kernels::LoadRows(source.keys, first, count, keys.data());
    chosen.clear();
    for (size_t i = 0; i < count; ++i) {
      queries.MoveTo(first + i);
      if (queries.empty()) continue;
      chosen.push_back({queries.Score(keys.data() + i * num_channels), i});
    }
    if (chosen.empty()) {
      for (size_t i = 0; i < count; ++i) chosen.push_back({0, i});
    } else {
      const size_t num_kept = std::min<size_t>(form.num_representatives, chosen.size());
      // Ties go to the smaller key; keys are listed in ascending order.
      std::ranges::stable_sort(chosen, std::ranges::greater(), &ScoredKey::score);
      chosen.resize(num_kept);
    }
    WriteMean(keys.data(), num_channels, chosen, rows);
  }
}

}  // namespace attndb::index
