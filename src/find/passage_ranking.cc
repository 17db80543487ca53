#include "find/passage_ranking.h"

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace attndb::find {
namespace {

// Mean and standard deviation of the values that are not NaN.
struct Spread {
  double mean = 0;
  double deviation = 0;
  size_t count = 0;
};

// No value of n is more than sqrt(n - 1) deviations above their mean, so that none of a few
// passages could stand out by kMargin.
double MarginOf(size_t count) {
  return std::min(PassageRanking::kMargin, std::sqrt(static_cast<double>(count - 1)) / 2);
}

template <typename Value>
Spread SpreadOf(std::span<const Value> values) {
  double sum = 0;
  double squares = 0;
  size_t count = 0;
  for (const Value value : values) {
    if (std::isnan(value)) continue;
    sum += value;
    squares += double{value} * value;
    ++count;
  }
  if (count == 0) return {};
  const double mean = sum / static_cast<double>(count);
  return {mean, std::sqrt(std::max(0.0, squares / static_cast<double>(count) - mean * mean)),
          count};
}

}  // namespace

void PassageRanking::ToPassages(float* row) const {
  for (size_t run = 0; run < blocks_.num_runs(); ++run) {
    const size_t end = blocks_.first_block(run + 1);
    for (size_t block = blocks_.first_block(run); block + 1 < end; ++block) {
      // NaN is the other's word.
      row[block] = std::fmax(row[block], row[block + 1]);
    }
  }
}

uint64_t PassageRanking::MemoryBytes(size_t num_heads) const {
  const uint64_t block_bytes = sizeof(double) * (2 + (keep_heads_ ? num_heads : 0)) +
                               sizeof(RankedPassage) + sizeof(uint8_t);
  return blocks_.num_blocks() * block_bytes;
}

void PassageRanking::AddRow(const float* row, double weight, double* scores) const {
  const Spread spread = SpreadOf(std::span(row, blocks_.num_blocks()));
  if (!(spread.deviation > 0)) return;  // It tells none from another.
  const double margin = MarginOf(spread.count);
  for (size_t block = 0; block < blocks_.num_blocks(); ++block) {
    if (std::isnan(row[block])) continue;
    const double above = (row[block] - spread.mean) / spread.deviation - margin;
    scores[block] += weight * std::max(above, 0.0);
  }
}

void PassageRanking::AddHead(size_t num_rows, float* maxima) {
  std::vector<double> scores(blocks_.num_blocks());
  for (size_t i = 0; i < num_rows; ++i) {
    float* const row = maxima + i * blocks_.num_blocks();
    ToPassages(row);
    AddRow(row, 1.0 / static_cast<double>(num_rows), scores.data());
  }
  const Spread spread = SpreadOf(std::span<const double>(scores));
  if (spread.deviation > 0) {
    for (double& score : scores) score /= spread.deviation;
  }
  for (size_t block = 0; block < scores.size(); ++block) totals_[block] += scores[block];
  if (keep_heads_) head_scores_.insert(head_scores_.end(), scores.begin(), scores.end());
  ++num_heads_;
}

std::vector<RankedPassage> PassageRanking::Best(size_t limit) const {
  std::vector<uint8_t> taken(blocks_.num_blocks(), 0);
  const double num_heads = std::max(1.0, static_cast<double>(num_heads_));
  std::vector<RankedPassage> candidates;
  for (size_t run = 0; run < blocks_.num_runs(); ++run) {
    if (lost_[run]) continue;
    for (size_t block = blocks_.first_block(run); block < blocks_.first_block(run + 1); ++block) {
      const uint64_t begin = (block - blocks_.first_block(run)) * blocks_.block_tokens();
      const uint64_t end =
          std::min<uint64_t>(begin + 2 * blocks_.block_tokens(), runs_[run].num_tokens);
      candidates.push_back({run, block, {begin, end}, totals_[block] / num_heads});
    }
  }
  const auto is_worse = [](const RankedPassage& a, const RankedPassage& b) {
    return a.score != b.score ? a.score < b.score : a.block > b.block;
  };
  std::make_heap(candidates.begin(), candidates.end(), is_worse);
  std::vector<RankedPassage> best;
  while (best.size() < limit && !candidates.empty()) {
    std::pop_heap(candidates.begin(), candidates.end(), is_worse);
    const RankedPassage passage = candidates.back();
    candidates.pop_back();
    const bool has_next = passage.block + 1 < blocks_.first_block(passage.run + 1);
    if (taken[passage.block] != 0 || (has_next && taken[passage.block + 1] != 0)) continue;
    taken[passage.block] = 1;
    if (has_next) taken[passage.block + 1] = 1;
    best.push_back(passage);
  }
  return best;
}

}  // namespace attndb::find
