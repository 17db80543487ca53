// Test helper: scores with their summary.
#ifndef ATTNDB_INDEX_SEARCH_TEST_UTIL_H_
#define ATTNDB_INDEX_SEARCH_TEST_UTIL_H_

#include <utility>
#include <vector>

#include "index/score_view.h"

namespace attndb::index {

class TestScores {
 public:
  explicit TestScores(std::vector<float> scores, const kernels::LogitSpec& logit = {1.0f})
      : scores_(std::move(scores)),
        maxima_(kernels::NumWeightBlocks(scores_.size())),
        sums_(maxima_.size()) {
    kernels::SummarizeScores(scores_.data(), scores_.size(), logit, maxima_.data(), sums_.data());
  }

  ScoreView view() { return {scores_.data(), scores_.size(), maxima_.data(), sums_.data()}; }
  float& operator[](size_t i) { return scores_[i]; }

 private:
  std::vector<float> scores_;
  std::vector<float> maxima_;
  std::vector<float> sums_;
};

}  // namespace attndb::index

#endif  // ATTNDB_INDEX_SEARCH_TEST_UTIL_H_
