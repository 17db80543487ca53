// The byte form of the wave index of one kv head, which is also its form in memory:
// docs/formats/wave.md is the grammar.
//
// Units:   offsets and sizes in bytes; pieces start at a multiple of kPieceAlignment, and so must
//          the bytes in memory.
// Errors:  kCorruption, or kUnsupported for another version, naming object, field, expected and
//          found.
// Threads: values and pure functions.
#ifndef ATTNDB_INDEX_COARSE_WAVE_FORMAT_H_
#define ATTNDB_INDEX_COARSE_WAVE_FORMAT_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "attndb/dtype.h"
#include "attndb/result.h"
#include "index/cluster_sums.h"
#include "index/piece_check.h"

namespace attndb::index {

inline constexpr std::string_view kWaveMagic = "attnwave";
inline constexpr uint32_t kWaveVersion = 1;
inline constexpr size_t kWaveHeaderBytes = 64;

// The shape of the clustered keys, and the parameters of the clustering.
struct WaveShape {
  uint64_t num_keys = 0;
  size_t key_channels = 0;    // Padded elements of a key.
  size_t value_channels = 0;  // Padded elements of a value.
  DType dtype = DType::kFloat16;
  uint32_t cluster_keys = 0;  // Keys a cluster in the mean, unless centroids lost all keys.

  // Limit of the number of clusters: fewer where centroids have lost all keys.
  uint64_t max_clusters() const;
  uint64_t max_bytes() const;
};

// Offsets of the pieces.
struct WaveLayout {
  WaveLayout(const WaveShape& shape, uint64_t num_clusters);

  size_t first_clusters = kWaveHeaderBytes;
  size_t ends = 0;
  size_t order = 0;
  size_t numbers = 0;
  size_t keys = 0;
  size_t values = 0;
  uint64_t total_bytes = 0;
};

// Writes kWaveHeaderBytes.
void EncodeWaveHeader(const WaveShape& shape, uint64_t num_clusters, std::span<std::byte> out);

// Reads the sums of bytes with this many clusters. REQUIRES: aligned as above, and as long as their
// layout says.
ClusterSums WaveSums(std::span<const std::byte> bytes, const WaveShape& shape,
                     uint64_t num_clusters);

// Checks that the bytes have this shape, that each key is in one cluster, and that means are
// finite. `object` names them in errors. The result points into them. REQUIRES: aligned as above.
Result<ClusterSums> ParseWave(std::span<const std::byte> bytes, const WaveShape& shape,
                              std::string_view object);

}  // namespace attndb::index

#endif  // ATTNDB_INDEX_COARSE_WAVE_FORMAT_H_
