// Heads for tests of indexes that do not score every key: keys in topics, and queries that come
// from another distribution, as attention's do; and the result of a search over all keys.
#ifndef ATTNDB_INDEX_CLUSTERED_CLUSTERS_TEST_UTIL_H_
#define ATTNDB_INDEX_CLUSTERED_CLUSTERS_TEST_UTIL_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

#include "common/aligned_buffer.h"
#include "common/random.h"
#include "index/key_index.h"
#include "index/key_search_test_util.h"
#include "index/planes/plane_source.h"
#include "kernels/convert.h"
#include "kernels/score.h"

namespace attndb::index::test {

// float16 keys around random topics, all with a large mean; queries towards one topic each, with a
// mean of their own, so that they are far from all keys.
class TopicHead {
 public:
  static constexpr size_t kDim = 64;
  static constexpr size_t kGroup = 3;

  TopicHead(size_t num_keys, size_t num_train, size_t num_steps, uint64_t seed)
      : num_keys_(num_keys), random_(seed), topics_(Normal(kTopics * kDim, 1.0)) {
    keys_ = ToHalf(Rows(num_keys, 2.0, 0.7, 1.0));
    train_ = ToHalf(Rows(num_train, -3.0, 1.0, 0.6));
    const std::vector<float> queries = Rows(num_steps * kGroup, -3.0, 1.0, 0.6);
    queries_ = *AlignedBuffer::Allocate(queries.size() * sizeof(float) + 64);
    std::ranges::copy(queries, reinterpret_cast<float*>(queries_.data()));
    tokens_.resize(num_train, static_cast<uint32_t>(num_keys));
    q_heads_.resize(num_train);
  }

  PlaneSource source() const {
    PlaneSource source;
    source.keys = keys();
    source.num_keys = num_keys_;
    source.queries = {train_.data(), tokens_, q_heads_};
    return source;
  }
  kernels::RowsView keys() const { return {keys_.data(), kDim, kDim, DType::kFloat16}; }
  uint16_t* key_bits(size_t i) { return reinterpret_cast<uint16_t*>(keys_.data()) + i * kDim; }
  const float* queries(size_t step) const {
    return reinterpret_cast<const float*>(queries_.data()) + step * kGroup * kDim;
  }

  // All keys as one run.
  IndexRun Run(const KeyIndex& index) const {
    return {.index = &index, .keys = keys(), .num_visible = num_keys_};
  }
  // `runs` must outlive the call.
  IndexCall Call(std::span<const IndexRun> runs, size_t step, const SearchSpec& spec) const {
    static const std::vector<float> kNone(kGroup, -std::numeric_limits<float>::infinity());
    IndexCall call;
    call.spec = spec;
    call.runs = runs;
    call.q = queries(step);
    call.q_stride = kDim;
    call.num_q_rows = kGroup;
    call.best = kNone.data();
    return call;
  }

 private:
  static constexpr size_t kTopics = 24;

  std::vector<float> Normal(size_t count, double deviation) {
    std::vector<float> x(count);
    for (float& value : x) value = static_cast<float>(deviation * random_.NextGaussian());
    return x;
  }

  // Rows of a mean along the first channel, a random topic and noise.
  std::vector<float> Rows(size_t count, double mean, double topic, double noise) {
    std::vector<float> rows = Normal(count * kDim, noise);
    for (size_t i = 0; i < count; ++i) {
      const float* const of = topics_.data() + random_.Uniform(kTopics) * kDim;
      for (size_t d = 0; d < kDim; ++d) rows[i * kDim + d] += static_cast<float>(topic) * of[d];
      rows[i * kDim] += static_cast<float>(8 * mean);
    }
    return rows;
  }

  static AlignedBuffer ToHalf(const std::vector<float>& rows) {
    AlignedBuffer halves = *AlignedBuffer::AllocateZeroed(rows.size() * 2 + 64);
    kernels::ConvertRows(DType::kFloat32, rows.data(), kDim, DType::kFloat16, halves.data(), kDim,
                         rows.size() / kDim, kDim, kDim);
    return halves;
  }

  const size_t num_keys_;
  Random random_;
  const std::vector<float> topics_;
  AlignedBuffer keys_;
  AlignedBuffer train_;
  AlignedBuffer queries_;
  std::vector<uint32_t> tokens_;
  std::vector<uint32_t> q_heads_;
};

// The result of a search for each q row, tokens ascending, and its cost.
struct Found {
  std::vector<std::vector<uint32_t>> tokens;
  std::vector<std::vector<float>> scores;
  SearchCost cost;
};

inline Found Search(const IndexCall& call) {
  size_t room = 64;
  for (const IndexRun& run : call.runs) room += run.num_visible;
  std::vector<uint32_t> tokens(call.num_q_rows * room);
  std::vector<float> scores(call.num_q_rows * room);
  std::vector<FoundKeys> found(call.num_q_rows);
  for (size_t r = 0; r < found.size(); ++r) {
    found[r] = {tokens.data() + r * room, scores.data() + r * room, 99};
  }
  AlignedBuffer scratch = *AlignedBuffer::Allocate(call.runs[0].index->ScratchBytes(call) + 64);
  Found result;
  EXPECT_TRUE(SearchInMemory(call, scratch.data(), found.data(), &result.cost).ok());
  for (const FoundKeys& row : found) {
    std::vector<size_t> order(row.count);
    std::iota(order.begin(), order.end(), size_t{0});
    std::ranges::sort(order, {}, [&](size_t i) { return row.tokens[i]; });
    result.tokens.emplace_back();
    result.scores.emplace_back();
    for (const size_t i : order) {
      result.tokens.back().push_back(row.tokens[i]);
      result.scores.back().push_back(row.scores[i]);
    }
  }
  return result;
}

// Expects that a non-finite q row behind two finite ones does not change the first row's result.
inline void ExpectBadRowHasNoSay(IndexCall call) {
  constexpr size_t kRows = TopicHead::kGroup;
  std::vector<float> q(call.q, call.q + kRows * call.q_stride);
  call.q = q.data();
  call.num_q_rows = kRows - 1;
  const Found without = Search(call);
  call.num_q_rows = kRows;
  for (const float bad :
       {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    q[(kRows - 1) * call.q_stride + 7] = bad;
    EXPECT_EQ(Search(call).tokens[0], without.tokens[0]);
  }
}

// The result of an exact search over all keys.
inline Found SearchAll(const IndexCall& call) {
  Found result;
  for (size_t r = 0; r < call.num_q_rows; ++r) {
    std::vector<std::pair<float, uint32_t>> all;  // Score, token.
    for (const IndexRun& run : call.runs) {
      std::vector<float> scores(run.num_visible);
      kernels::ScoreRows(run.keys, run.num_visible, call.q + r * call.q_stride, call.q_stride, 1,
                         scores.data(), scores.size());
      for (size_t i = run.first_visible; i < run.num_visible; ++i) {
        all.emplace_back(scores[i], run.first_token + static_cast<uint32_t>(i));
      }
    }
    std::ranges::stable_sort(all, std::greater<>(), [](const auto& item) { return item.first; });
    size_t count = std::min<size_t>(all.size(), call.spec.k);
    if (call.spec.kind == SearchKind::kRange) {
      const float best = std::max(all.empty() ? call.best[r] : all[0].first, call.best[r]);
      for (count = 0; count < all.size(); ++count) {
        if (all[count].first < best - call.spec.beta) break;
      }
    }
    all.resize(count);
    std::ranges::sort(all, {}, [](const auto& item) { return item.second; });
    result.tokens.emplace_back();
    result.scores.emplace_back();
    for (const auto& [score, token] : all) {
      result.tokens.back().push_back(token);
      result.scores.back().push_back(score);
    }
  }
  return result;
}

// Share of the exact result that a search found, a mean over q rows.
inline double Recall(const Found& found, const Found& all) {
  double sum = 0;
  for (size_t r = 0; r < all.tokens.size(); ++r) {
    std::vector<uint32_t> both;
    std::ranges::set_intersection(found.tokens[r], all.tokens[r], std::back_inserter(both));
    sum += all.tokens[r].empty()
               ? 1.0
               : static_cast<double>(both.size()) / static_cast<double>(all.tokens[r].size());
  }
  return sum / static_cast<double>(all.tokens.size());
}

}  // namespace attndb::index::test

#endif  // ATTNDB_INDEX_CLUSTERED_CLUSTERS_TEST_UTIL_H_
