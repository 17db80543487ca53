// Keys, queries and exact scores for tests of key planes.
#ifndef ATTNDB_INDEX_PLANES_PLANES_TEST_UTIL_H_
#define ATTNDB_INDEX_PLANES_PLANES_TEST_UTIL_H_

#include <algorithm>
#include <cmath>
#include <functional>
#include <vector>

#include "common/aligned_buffer.h"
#include "index/planes/key_planes.h"
#include "index/planes/plane_source.h"

namespace attndb::index::test {

// float32 rows.
class Rows {
 public:
  Rows(size_t num_rows, size_t dim) : dim_(dim), data_(num_rows * dim) {}

  size_t num_rows() const { return data_.size() / dim_; }
  size_t dim() const { return dim_; }
  float* row(size_t i) { return data_.data() + i * dim_; }
  const float* row(size_t i) const { return data_.data() + i * dim_; }
  kernels::RowsView view() const { return {data_.data(), dim_, dim_, DType::kFloat32}; }
  void Fill(const std::function<float()>& next) { std::ranges::generate(data_, next); }

 private:
  size_t dim_;
  std::vector<float> data_;
};

inline double Norm(const float* x, size_t dim) {
  double square = 0;
  for (size_t d = 0; d < dim; ++d) square += double{x[d]} * double{x[d]};
  return std::sqrt(square);
}

inline double Score(const float* q, const float* k, size_t dim) {
  double score = 0;
  for (size_t d = 0; d < dim; ++d) score += double{q[d]} * double{k[d]};
  return score;
}

// Scores of all keys, and the bounds of all blocks.
struct Estimated {
  std::vector<float> scores;
  std::vector<float> bounds;
};

inline Estimated Estimate(const KeyPlanes& planes, const float* q, size_t dim, uint32_t bits) {
  AlignedBuffer spare = *AlignedBuffer::Allocate(dim * sizeof(float));
  AlignedBuffer codes = *AlignedBuffer::Allocate(QueryCodeBytes(dim));
  const EstimateQuery query =
      planes.Prepare(q, reinterpret_cast<float*>(spare.data()), codes.data());
  const size_t n = planes.num_keys();
  Estimated result = {std::vector<float>(n), std::vector<float>(kernels::NumWeightBlocks(n))};
  planes.Scan(bits, 0, n, &query, 1, result.scores.data(), n);
  planes.ScoreBounds(bits, query, 0, result.bounds.size(), result.bounds.data());
  return result;
}

// Root mean square of the errors of all scores, each over the norm of its query.
inline double MeasuredError(const KeyPlanes& planes, const Rows& keys, const Rows& queries,
                            uint32_t bits) {
  double square = 0;
  for (size_t r = 0; r < queries.num_rows(); ++r) {
    const float* const q = queries.row(r);
    const Estimated estimated = Estimate(planes, q, keys.dim(), bits);
    for (size_t i = 0; i < keys.num_rows(); ++i) {
      const double error = double{estimated.scores[i]} - Score(q, keys.row(i), keys.dim());
      square += std::pow(error / Norm(q, keys.dim()), 2);
    }
  }
  return std::sqrt(square / static_cast<double>(keys.num_rows() * queries.num_rows()));
}

}  // namespace attndb::index::test

#endif  // ATTNDB_INDEX_PLANES_PLANES_TEST_UTIL_H_
