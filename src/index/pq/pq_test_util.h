// Keys in topics for tests of product codes, and a plain product quantization.
#ifndef ATTNDB_INDEX_PQ_PQ_TEST_UTIL_H_
#define ATTNDB_INDEX_PQ_PQ_TEST_UTIL_H_

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "common/aligned_buffer.h"
#include "common/random.h"
#include "index/pq/pq_keys.h"

namespace attndb::index::test {

// float32 rows.
struct PqRows {
  PqSource source() const {
    PqSource source;
    source.keys = {values.data(), dim, dim, DType::kFloat32};
    source.num_keys = num_rows();
    return source;
  }
  size_t num_rows() const { return values.size() / dim; }
  const float* row(size_t i) const { return values.data() + i * dim; }

  size_t dim;
  std::vector<float> values;
};

inline std::vector<float> Gaussians(size_t count, double spread, Random* random) {
  std::vector<float> values(count);
  for (float& x : values) x = static_cast<float>(spread * random->NextGaussian());
  return values;
}

// Rows around random topics, all with a common mean.
inline PqRows TopicRows(size_t num_rows, size_t dim, Random* random) {
  constexpr size_t kTopics = 40;
  const std::vector<float> topics = Gaussians(kTopics * dim, 1.0, random);
  PqRows rows = {dim, Gaussians(num_rows * dim, 0.6, random)};
  for (size_t i = 0; i < num_rows; ++i) {
    const size_t topic = random->Uniform(kTopics);
    for (size_t d = 0; d < dim; ++d) rows.values[i * dim + d] += topics[topic * dim + d] + 0.5f;
  }
  return rows;
}

inline double Dot(const float* a, const float* b, size_t dim) {
  double sum = 0;
  for (size_t d = 0; d < dim; ++d) sum += double{a[d]} * double{b[d]};
  return sum;
}

// Prepared q rows, with the memory for them.
class Prepared {
 public:
  Prepared(const PqKeys& keys, const std::vector<float>& q, size_t dim)
      : memory_(*AlignedBuffer::Allocate(keys.QueryBytes(q.size() / dim))),
        queries(keys.Prepare(q.data(), dim, q.size() / dim, memory_.data())) {}

 private:
  AlignedBuffer memory_;

 public:
  PqQueries queries;
};

inline std::vector<float> ScanAll(const PqKeys& keys, const std::vector<float>& q, size_t dim) {
  const Prepared prepared(keys, q, dim);
  const size_t num_rows = q.size() / dim;
  std::vector<float> scores(num_rows * keys.num_keys());
  keys.Scan(prepared.queries, 0, keys.num_keys(), scores.data(), keys.num_keys());
  return scores;
}

// Product quantization in float64: Lloyd's rounds from random keys that differ.
class PlainPq {
 public:
  PlainPq(const PqRows& rows, size_t num_subspaces, size_t bits, size_t num_rounds, Random* random)
      : rows_(rows),
        num_entries_(size_t{1} << bits),
        width_(rows.dim / num_subspaces),
        codes_(num_subspaces, std::vector<size_t>(rows.num_rows())) {
    for (size_t s = 0; s < num_subspaces; ++s) {
      std::vector<double> centroids;
      for (size_t e = 0; e < num_entries_; ++e) {
        const float* const x = rows.row(random->Uniform(rows.num_rows())) + s * width_;
        centroids.insert(centroids.end(), x, x + width_);
      }
      centroids_.push_back(centroids);
      for (size_t round = 0; round <= num_rounds; ++round) {
        if (round > 0) MoveToMeans(s);
        Assign(s);
      }
    }
  }

  std::vector<double> Decode(size_t key) const {
    std::vector<double> decoded;
    for (size_t s = 0; s < codes_.size(); ++s) {
      const double* const c = &centroids_[s][codes_[s][key] * width_];
      decoded.insert(decoded.end(), c, c + width_);
    }
    return decoded;
  }
  // Mean squared norm of the codes' residuals.
  double Distortion() const { return distortion_ / static_cast<double>(rows_.num_rows()); }

 private:
  void Assign(size_t s) {
    if (s == 0) distortion_ = 0;
    double sum = 0;
    for (size_t i = 0; i < rows_.num_rows(); ++i) {
      const float* const x = rows_.row(i) + s * width_;
      double best = std::numeric_limits<double>::infinity();
      for (size_t e = 0; e < num_entries_; ++e) {
        double square = 0;
        for (size_t j = 0; j < width_; ++j) {
          const double difference = double{x[j]} - centroids_[s][e * width_ + j];
          square += difference * difference;
        }
        if (square >= best) continue;
        best = square;
        codes_[s][i] = e;
      }
      sum += best;
    }
    of_subspaces_.resize(codes_.size());
    of_subspaces_[s] = sum;
    distortion_ = std::accumulate(of_subspaces_.begin(), of_subspaces_.end(), 0.0);
  }
  void MoveToMeans(size_t s) {
    std::vector<double> sums(num_entries_ * width_), counts(num_entries_);
    for (size_t i = 0; i < rows_.num_rows(); ++i) {
      counts[codes_[s][i]] += 1;
      for (size_t j = 0; j < width_; ++j) {
        sums[codes_[s][i] * width_ + j] += double{rows_.row(i)[s * width_ + j]};
      }
    }
    for (size_t at = 0; at < sums.size(); ++at) {
      if (counts[at / width_] > 0) centroids_[s][at] = sums[at] / counts[at / width_];
    }
  }

  const PqRows& rows_;
  size_t num_entries_;
  size_t width_;
  std::vector<std::vector<double>> centroids_;
  std::vector<std::vector<size_t>> codes_;
  std::vector<double> of_subspaces_;
  double distortion_ = 0;
};

}  // namespace attndb::index::test

#endif  // ATTNDB_INDEX_PQ_PQ_TEST_UTIL_H_
