#include "index/graph/training_queries.h"

#include <algorithm>
#include <cmath>

#include "common/lane_sum.h"
#include "kernels/convert.h"

namespace attndb::index {
namespace {

constexpr size_t kMaxQueries = 32768;

}  // namespace

size_t MostQueries(size_t max_queries, size_t num_keys) {
  if (max_queries > 0) return max_queries;
  return std::min(kMaxQueries, std::max<size_t>(num_keys * 2 / 5, 1000));
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

std::vector<const std::byte*> TrainingQueries(const GraphSource& source, size_t max_queries) {
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
  const size_t count = std::min(MostQueries(max_queries, source.num_keys), all.size());
  for (size_t i = 0; i < count; ++i) all[i] = all[Spaced(i, count, all.size())];
  all.resize(count);
  return all;
}

}  // namespace attndb::index
