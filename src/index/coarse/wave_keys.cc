#include "index/coarse/wave_keys.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "common/check.h"
#include "index/coarse/wave_search.h"
#include "kernels/convert.h"

namespace attndb::index {
namespace {

// The clusters of all pieces, as they are written.
struct Clusters {
  std::vector<uint32_t> first_clusters;
  std::vector<uint32_t> ends;
  std::vector<uint16_t> order;
  std::vector<uint16_t> numbers;
};

void AddPiece(const KeyClusters& piece, Clusters* all) {
  const auto first_place = static_cast<uint32_t>(all->order.size());
  std::vector<uint32_t> next(piece.num_clusters + 1);  // Places, of the piece.
  for (const uint16_t number : piece.numbers) ++next[number + size_t{1}];
  all->first_clusters.push_back(static_cast<uint32_t>(all->ends.size()));
  for (size_t c = 0; c < piece.num_clusters; ++c) {
    next[c + 1] += next[c];
    all->ends.push_back(first_place + next[c + 1]);
  }
  all->order.resize(first_place + piece.numbers.size());
  for (size_t key = 0; key < piece.numbers.size(); ++key) {
    all->order[first_place + next[piece.numbers[key]]++] = static_cast<uint16_t>(key);
  }
  all->numbers.insert(all->numbers.end(), piece.numbers.begin(), piece.numbers.end());
}

Clusters ClusterPieces(const WaveSource& source, const KMeansOptions& options) {
  Clusters all;
  for (size_t first = 0; first < source.num_keys; first += ClusterSums::kPieceKeys) {
    const size_t count = std::min(ClusterSums::kPieceKeys, source.num_keys - first);
    AddPiece(ClusterDirections(source.keys, first, count, options), &all);
  }
  return all;
}

template <typename T>
void Put(const std::vector<T>& numbers, std::byte* to) {
  std::ranges::copy(std::as_bytes(std::span(numbers)), to);
}

// The mean of each cluster's rows, in their type.
void WriteMeans(const kernels::RowsView& rows, const ClusterSums& sums, std::byte* means) {
  const size_t width = rows.num_elements;
  const size_t row_bytes = width * DTypeBytes(rows.dtype);
  std::vector<float> row(width);
  std::vector<double> sum(width);
  for (size_t c = 0, place = 0; c < sums.num_clusters; ++c, means += row_bytes) {
    const auto count = static_cast<double>(sums.CountOf(c));
    std::ranges::fill(sum, 0.0);
    for (; place < sums.ends[c]; ++place) {
      kernels::LoadRows(rows, sums.KeyAt(place), 1, row.data());
      for (size_t d = 0; d < width; ++d) sum[d] += double{row[d]};
    }
    for (size_t d = 0; d < width; ++d) row[d] = static_cast<float>(sum[d] / count);
    kernels::ConvertRows(DType::kFloat32, row.data(), width, rows.dtype, means, width, 1, width,
                         width);
  }
}

}  // namespace

Result<WaveKeys> WaveKeys::Build(const WaveSource& source, const KMeansOptions& options) {
  ATTNDB_CHECK(source.num_keys > 0 && source.keys.dtype == source.values.dtype);
  const WaveShape shape = {.num_keys = source.num_keys,
                           .key_channels = source.keys.num_elements,
                           .value_channels = source.values.num_elements,
                           .dtype = source.keys.dtype,
                           .cluster_keys = static_cast<uint32_t>(options.cluster_keys)};
  const Clusters clusters = ClusterPieces(source, options);
  const size_t num_clusters = clusters.ends.size();
  const WaveLayout layout(shape, num_clusters);
  ATTNDB_ASSIGN_OR_RETURN(AlignedBuffer buffer, AlignedBuffer::AllocateZeroed(layout.total_bytes));
  std::byte* const bytes = buffer.data();
  EncodeWaveHeader(shape, num_clusters, buffer.span().first(kWaveHeaderBytes));
  Put(clusters.first_clusters, bytes + layout.first_clusters);
  Put(clusters.ends, bytes + layout.ends);
  Put(clusters.order, bytes + layout.order);
  Put(clusters.numbers, bytes + layout.numbers);
  const ClusterSums sums = WaveSums(buffer.span(), shape, num_clusters);
  WriteMeans(source.keys, sums, bytes + layout.keys);
  WriteMeans(source.values, sums, bytes + layout.values);
  WaveKeys keys(sums, buffer.span());
  keys.buffer_ = std::move(buffer);
  return keys;
}

Result<WaveKeys> WaveKeys::Parse(std::span<const std::byte> bytes, const WaveShape& expected,
                                 std::string_view object) {
  ATTNDB_ASSIGN_OR_RETURN(const ClusterSums sums, ParseWave(bytes, expected, object));
  return WaveKeys(sums, bytes);
}

size_t WaveKeys::ScratchBytes(const IndexCall& call) const {
  return WaveSearch(call, nullptr, nullptr).scratch_bytes();
}

Status WaveKeys::Search(const IndexCall& call, void* scratch, FoundKeys* found,
                        SearchCost* cost) const {
  ATTNDB_CHECK(call.spec.kind == SearchKind::kTopK);
  return WaveSearch(call, scratch, cost).Run(found);
}

}  // namespace attndb::index
