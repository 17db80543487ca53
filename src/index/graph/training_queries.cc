#include "index/graph/training_queries.h"

#include <algorithm>
#include <cmath>
#include <span>

#include "common/lane_sum.h"
#include "kernels/convert.h"

namespace attndb::index {
namespace {

constexpr size_t kMaxQueries = 32768;

// The number of its queries whose tokens precede the token of a key.
size_t QueriesBefore(const GraphSource& source, size_t key) {
  const std::span<const uint32_t> tokens = source.queries.tokens;
  return static_cast<size_t>(std::ranges::lower_bound(tokens, source.first_token + key) -
                             tokens.begin());
}

// With queries [begin, end) of its own.
GraphSource WithQueries(const GraphSource& source, size_t begin, size_t end) {
  const storage::QueryRows& all = source.queries;
  GraphSource part = source;
  part.queries = {};
  if (begin == end) return part;
  const size_t row_bytes = source.keys.num_elements * DTypeBytes(source.keys.dtype);
  part.queries = {all.q + begin * row_bytes, all.tokens.subspan(begin, end - begin),
                  all.q_heads.subspan(begin, end - begin)};
  return part;
}

}  // namespace

size_t MostQueries(size_t max_queries, size_t num_keys, size_t keys_per_query) {
  const size_t length = std::max<size_t>(1, std::min(keys_per_query, num_keys));
  const size_t most = std::max<size_t>(1, kMaxListBytes / sizeof(uint32_t) / length);
  if (max_queries > 0) return std::min(max_queries, most);
  return std::min({kMaxQueries, std::max<size_t>(num_keys * 2 / 5, 1000), most});
}

GraphSource WithQueriesFrom(const GraphSource& source, size_t first_key) {
  return WithQueries(source, QueriesBefore(source, first_key), source.queries.num_rows());
}

GraphSource WithQueriesBefore(const GraphSource& source, size_t first_key) {
  return WithQueries(source, 0, QueriesBefore(source, first_key));
}

void LoadTrainingQuery(const GraphSource& source, const std::byte* row, float* out) {
  const size_t width = source.keys.num_elements;
  kernels::ConvertRows(source.keys.dtype, row, width, DType::kFloat32, out, width, 1, width, width);
}

bool CanTrain(const GraphSource& source, const std::byte* row) {
  std::vector<float> values(source.keys.num_elements);
  LoadTrainingQuery(source, row, values.data());
  const double norm = Norm(values);
  return norm > 0 && std::isfinite(norm);
}

std::vector<const std::byte*> TrainingQueries(const GraphSource& source,
                                              const RoarOptions& options) {
  const storage::QueryRows& queries = source.queries;
  const size_t row_bytes = source.keys.num_elements * DTypeBytes(source.keys.dtype);
  std::vector<const std::byte*> all;
  for (size_t i = 0; i < queries.num_rows(); ++i) {
    if (source.q_head && queries.q_heads[i] != *source.q_head) continue;
    const std::byte* const row = queries.q + i * row_bytes;
    if (CanTrain(source, row)) all.push_back(row);
  }
  const size_t num_keys = all.empty() ? source.num_keys : 0;
  for (size_t key = 0; key < num_keys; ++key) {
    all.push_back(static_cast<const std::byte*>(kernels::RowsFrom(source.keys, key).data));
  }
  const size_t most = MostQueries(options.max_queries, source.num_keys, options.keys_per_query);
  const size_t count = std::min(most, all.size());
  for (size_t i = 0; i < count; ++i) all[i] = all[Spaced(i, count, all.size())];
  all.resize(count);
  return all;
}

}  // namespace attndb::index
