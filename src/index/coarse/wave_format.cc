#include "index/coarse/wave_format.h"

#include <algorithm>
#include <string>

#include "common/check.h"
#include "common/coding.h"
#include "index/coarse/spherical_kmeans.h"
#include "storage/vfs/field_check.h"

namespace attndb::index {
namespace {

using storage::ExpectEqual;
using storage::Mismatch;

constexpr size_t kPieceKeys = ClusterSums::kPieceKeys;

// The number of clusters, which is the form's own to say.
Result<uint64_t> ReadHeader(std::span<const std::byte> bytes, const WaveShape& shape,
                            std::string_view object) {
  ByteReader in(bytes, object);
  ATTNDB_RETURN_IF_ERROR(storage::CheckMagicAndVersion(&in, object, kWaveMagic, kWaveVersion));
  const uint32_t key_channels = in.U32("key_channels");
  const uint64_t num_keys = in.U64("num_keys");
  const uint32_t value_channels = in.U32("value_channels");
  const uint32_t cluster_keys = in.U32("cluster_keys");
  const uint32_t num_clusters = in.U32("num_clusters");
  const uint32_t dtype = in.U32("dtype");
  ATTNDB_RETURN_IF_ERROR(storage::ReadZeros(&in, object, kWaveHeaderBytes));
  ATTNDB_RETURN_IF_ERROR(ExpectEqual(object, "key_channels", key_channels, shape.key_channels));
  ATTNDB_RETURN_IF_ERROR(ExpectEqual(object, "num_keys", num_keys, shape.num_keys));
  ATTNDB_RETURN_IF_ERROR(
      ExpectEqual(object, "value_channels", value_channels, shape.value_channels));
  ATTNDB_RETURN_IF_ERROR(ExpectEqual(object, "cluster_keys", cluster_keys, shape.cluster_keys));
  ATTNDB_RETURN_IF_ERROR(ExpectEqual(object, "dtype", dtype, static_cast<uint32_t>(shape.dtype)));
  ATTNDB_RETURN_IF_ERROR(
      storage::ExpectAtMost(object, "num_clusters", num_clusters, shape.max_clusters()));
  return num_clusters;
}

std::string Place(std::string_view field, size_t i) {
  return std::string(field) + '[' + std::to_string(i) + ']';
}

// Checks that each piece begins with a cluster, and that each cluster has keys of one piece.
Status CheckEnds(const ClusterSums& sums, std::string_view object) {
  size_t cluster = 0;
  for (size_t piece = 0; piece < ClusterSums::NumPieces(sums.num_keys); ++piece) {
    ATTNDB_RETURN_IF_ERROR(
        ExpectEqual(object, Place("first_clusters", piece), sums.first_clusters[piece], cluster));
    const size_t piece_end = std::min(sums.num_keys, (piece + 1) * kPieceKeys);
    for (size_t place = piece * kPieceKeys; place < piece_end; ++cluster) {
      if (cluster == sums.num_clusters) {
        return Mismatch(object, "ends", "places up to " + std::to_string(sums.num_keys),
                        std::to_string(place));
      }
      const size_t end = sums.ends[cluster];
      if (end <= place || end > piece_end) {
        return Mismatch(
            object, Place("ends", cluster),
            "a place above " + std::to_string(place) + " and at most " + std::to_string(piece_end),
            std::to_string(end));
      }
      place = end;
    }
  }
  return ExpectEqual(object, "num_clusters", sums.num_clusters, cluster);
}

// Checks that the keys of each cluster ascend and name their cluster: then each key is in exactly
// one. REQUIRES: ends are right.
Status CheckKeys(const ClusterSums& sums, std::string_view object) {
  size_t place = 0;
  for (size_t cluster = 0; cluster < sums.num_clusters; ++cluster) {
    size_t least = place / kPieceKeys * kPieceKeys;
    for (; place < sums.ends[cluster]; ++place) {
      const size_t key = sums.KeyAt(place);
      if (key < least || key >= sums.num_keys || sums.order[place] >= kPieceKeys) {
        return Mismatch(object, Place("order", place), "a key of the piece, in ascending order",
                        std::to_string(sums.order[place]));
      }
      ATTNDB_RETURN_IF_ERROR(
          ExpectEqual(object, Place("cluster of key", key), sums.ClusterOf(key), cluster));
      least = key + 1;
    }
  }
  return Status::Ok();
}

}  // namespace

uint64_t WaveShape::max_clusters() const {
  const uint64_t rest = num_keys % kPieceKeys;
  return num_keys / kPieceKeys * NumCentroids(kPieceKeys, cluster_keys) +
         NumCentroids(rest, cluster_keys);
}

uint64_t WaveShape::max_bytes() const { return WaveLayout(*this, max_clusters()).total_bytes; }

WaveLayout::WaveLayout(const WaveShape& shape, uint64_t num_clusters) {
  const size_t element = DTypeBytes(shape.dtype);
  ends = first_clusters + RoundUpToPiece(ClusterSums::NumPieces(shape.num_keys) * sizeof(uint32_t));
  order = ends + RoundUpToPiece(num_clusters * sizeof(uint32_t));
  numbers = order + RoundUpToPiece(shape.num_keys * sizeof(uint16_t));
  keys = numbers + RoundUpToPiece(shape.num_keys * sizeof(uint16_t));
  values = keys + RoundUpToPiece(num_clusters * shape.key_channels * element);
  total_bytes = values + RoundUpToPiece(num_clusters * shape.value_channels * element);
}

void EncodeWaveHeader(const WaveShape& shape, uint64_t num_clusters, std::span<std::byte> out) {
  ByteWriter writer;
  writer.Bytes(BytesOf(kWaveMagic));
  writer.U32(kWaveVersion);
  writer.U32(static_cast<uint32_t>(shape.key_channels));
  writer.U64(shape.num_keys);
  writer.U32(static_cast<uint32_t>(shape.value_channels));
  writer.U32(shape.cluster_keys);
  writer.U32(static_cast<uint32_t>(num_clusters));
  writer.U32(static_cast<uint32_t>(shape.dtype));
  writer.PadTo(kWaveHeaderBytes);
  ATTNDB_CHECK(out.size() == kWaveHeaderBytes);
  std::ranges::copy(writer.bytes(), out.begin());
}

ClusterSums WaveSums(std::span<const std::byte> bytes, const WaveShape& shape,
                     uint64_t num_clusters) {
  const WaveLayout layout(shape, num_clusters);
  const auto rows = [&](size_t offset, size_t channels) {
    return kernels::RowsView{bytes.data() + offset, channels, channels, shape.dtype};
  };
  return {.num_keys = shape.num_keys,
          .num_clusters = num_clusters,
          .keys = rows(layout.keys, shape.key_channels),
          .values = rows(layout.values, shape.value_channels),
          .first_clusters = PieceOf<uint32_t>(bytes, layout.first_clusters,
                                              ClusterSums::NumPieces(shape.num_keys))
                                .data(),
          .ends = PieceOf<uint32_t>(bytes, layout.ends, num_clusters).data(),
          .order = PieceOf<uint16_t>(bytes, layout.order, shape.num_keys).data(),
          .numbers = PieceOf<uint16_t>(bytes, layout.numbers, shape.num_keys).data()};
}

Result<ClusterSums> ParseWave(std::span<const std::byte> bytes, const WaveShape& shape,
                              std::string_view object) {
  ATTNDB_CHECK(reinterpret_cast<uintptr_t>(bytes.data()) % kPieceAlignment == 0);
  ATTNDB_ASSIGN_OR_RETURN(const uint64_t num_clusters, ReadHeader(bytes, shape, object));
  const WaveLayout layout(shape, num_clusters);
  ATTNDB_RETURN_IF_ERROR(ExpectEqual(object, "bytes", bytes.size(), layout.total_bytes));
  const ClusterSums sums = WaveSums(bytes, shape, num_clusters);
  ATTNDB_RETURN_IF_ERROR(CheckEnds(sums, object));
  ATTNDB_RETURN_IF_ERROR(CheckKeys(sums, object));
  ATTNDB_RETURN_IF_ERROR(ExpectFinite(object, "means", bytes.subspan(layout.keys), shape.dtype));
  return sums;
}

}  // namespace attndb::index
