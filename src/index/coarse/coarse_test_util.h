// Heads for tests of blocks, and the papers' formulas in plain float64.
#ifndef ATTNDB_INDEX_COARSE_COARSE_TEST_UTIL_H_
#define ATTNDB_INDEX_COARSE_COARSE_TEST_UTIL_H_

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <utility>
#include <vector>

#include "common/aligned_buffer.h"
#include "common/random.h"
#include "index/coarse/block_keys.h"
#include "index/coarse/block_representatives.h"
#include "kernels/convert.h"

namespace attndb::index::test {

// Keys that drift from token to token, like those of a text, with a large mean in some channels and
// a few outliers; and a sampled query for some tokens.
class DriftingHead {
 public:
  DriftingHead(DType dtype, size_t num_keys, size_t dim, uint64_t seed, size_t query_step = 7)
      : dtype_(dtype), num_keys_(num_keys), dim_(dim), random_(seed) {
    std::vector<double> topic(dim);
    std::vector<float> rows;
    for (size_t i = 0; i < num_keys; ++i) {
      for (double& x : topic) x = 0.95 * x + 0.3 * random_.NextGaussian();
      const double size = random_.OneIn(50) ? 8.0 : 1.0;
      for (size_t d = 0; d < dim; ++d) {
        const double mean = d % 16 == 3 ? 6.0 : 0.0;
        rows.push_back(static_cast<float>(mean + size * (topic[d] + 0.5 * random_.NextGaussian())));
      }
    }
    keys_ = Stored(rows);
    std::vector<float> queries;
    for (size_t token = 0; query_step != 0 && token < num_keys; token += query_step) {
      for (const uint32_t q_head : {0u, 1u}) {
        tokens_.push_back(static_cast<uint32_t>(token));
        q_heads_.push_back(q_head);
        const std::vector<float> q = Query();
        queries.insert(queries.end(), q.begin(), q.end());
      }
    }
    queries_ = Stored(queries);
  }

  std::vector<float> Query(size_t num_rows = 1) {
    std::vector<float> q(num_rows * dim_);
    for (float& x : q) x = static_cast<float>(random_.NextGaussian());
    return q;
  }

  BlockSource source() const {
    return {.keys = keys(), .num_keys = num_keys_, .queries = {queries_.data(), tokens_, q_heads_}};
  }
  kernels::RowsView keys() const { return {keys_.data(), dim_, dim_, dtype_}; }
  std::byte* key_bytes() { return keys_.data(); }
  BlockKeys Build(const BlockForm& form) const { return *BlockKeys::Build(source(), form); }
  BlockShape shape(const BlockForm& form) const {
    return {.form = form, .num_keys = num_keys_, .num_channels = dim_, .key_dtype = dtype_};
  }

  // Rows as they are stored.
  std::vector<double> Key(size_t i) const { return Row(keys_, i); }
  std::vector<double> SampledQuery(size_t i) const { return Row(queries_, i); }
  const std::vector<uint32_t>& query_tokens() const { return tokens_; }
  size_t num_keys() const { return num_keys_; }
  size_t dim() const { return dim_; }

 private:
  AlignedBuffer Stored(const std::vector<float>& rows) const {
    AlignedBuffer stored = *AlignedBuffer::AllocateZeroed(rows.size() * DTypeBytes(dtype_) + 64);
    kernels::ConvertRows(DType::kFloat32, rows.data(), dim_, dtype_, stored.data(), dim_,
                         rows.size() / dim_, dim_, dim_);
    return stored;
  }
  std::vector<double> Row(const AlignedBuffer& rows, size_t i) const {
    std::vector<float> row(dim_);
    kernels::ConvertRows(dtype_, rows.data() + i * dim_ * DTypeBytes(dtype_), dim_, DType::kFloat32,
                         row.data(), dim_, 1, dim_, dim_);
    return {row.begin(), row.end()};
  }

  const DType dtype_;
  const size_t num_keys_;
  const size_t dim_;
  Random random_;
  AlignedBuffer keys_;
  AlignedBuffer queries_;
  std::vector<uint32_t> tokens_;
  std::vector<uint32_t> q_heads_;
};

inline double Dot(const float* q, const std::vector<double>& k) {
  double sum = 0;
  for (size_t d = 0; d < k.size(); ++d) sum += double{q[d]} * k[d];
  return sum;
}

// The sum of max(q * smallest, q * largest) over channels, of keys [first, end).
inline double PlainBound(const DriftingHead& head, size_t first, size_t end, const float* q) {
  double bound = 0;
  for (size_t d = 0; d < head.dim(); ++d) {
    double most = -std::numeric_limits<double>::infinity();
    for (size_t i = first; i < end; ++i) most = std::max(most, double{q[d]} * head.Key(i)[d]);
    bound += most;
  }
  return bound;
}

// The mean of the keys in [first, end) that later queries score highest, on average.
inline std::vector<double> PlainRepresentative(const DriftingHead& head, size_t first, size_t end,
                                               size_t num_kept) {
  std::vector<std::pair<double, size_t>> scored;
  for (size_t i = first; i < end; ++i) {
    double sum = 0;
    size_t count = 0;
    for (size_t j = 0; j < head.query_tokens().size(); ++j) {
      const size_t token = head.query_tokens()[j];
      if (token <= i || token > i + kLocalTokens) continue;
      const std::vector<double> q = head.SampledQuery(j);
      const std::vector<double> k = head.Key(i);
      for (size_t d = 0; d < q.size(); ++d) sum += q[d] * k[d];
      ++count;
    }
    if (count > 0) scored.push_back({-sum / static_cast<double>(count), i});
  }
  if (scored.empty()) {
    num_kept = end - first;
    for (size_t i = first; i < end; ++i) scored.push_back({0, i});
  }
  std::ranges::sort(scored);
  scored.resize(std::min(num_kept, scored.size()));
  std::vector<double> mean(head.dim());
  for (const auto& [score, i] : scored) {
    const std::vector<double> k = head.Key(i);
    for (size_t d = 0; d < mean.size(); ++d) mean[d] += k[d] / static_cast<double>(scored.size());
  }
  return mean;
}

// [q row][block]
inline std::vector<float> ScoreAll(const BlockKeys& keys, const std::vector<float>& q) {
  const size_t num_rows = q.size() / keys.shape().num_channels;
  const size_t num_blocks = keys.shape().num_blocks();
  AlignedBuffer prepared =
      *AlignedBuffer::Allocate(num_rows * keys.shape().row_elements() * sizeof(float));
  auto* const rows = reinterpret_cast<float*>(prepared.data());
  keys.Prepare(q.data(), keys.shape().num_channels, num_rows, rows);
  std::vector<float> scores(num_rows * num_blocks);
  keys.ScoreBlocks(rows, num_rows, 0, num_blocks, scores.data(), num_blocks);
  return scores;
}

}  // namespace attndb::index::test

#endif  // ATTNDB_INDEX_COARSE_COARSE_TEST_UTIL_H_
