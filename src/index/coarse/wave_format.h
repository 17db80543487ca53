// The byte form of the wave index of one kv head: docs/formats/wave.md is the grammar. It is its
// form in memory too.
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

// What is clustered, and how.
struct WaveShape {
  uint64_t num_keys = 0;
  size_t key_channels = 0;    // Padded elements of a key,
  size_t value_channels = 0;  // ... and of a value.
  DType dtype = DType::kFloat16;
  uint32_t cluster_keys = 0;  // In the mean, at most.

  // Clusters at most: fewer where centroids were left without keys.
  uint64_t max_clusters() const;
  uint64_t max_bytes() const;
};

// Where the pieces of such a form lie.
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

// The bytes of so many clusters as they are used. REQUIRES: aligned as above, and as long as their
// layout says.
ClusterSums WaveSums(std::span<const std::byte> bytes, const WaveShape& shape,
                     uint64_t num_clusters);

// Checks that the bytes are of this shape: that each key is in one cluster, and that means are
// finite. `object` names them in errors. The result points into them. REQUIRES: aligned as above.
Result<ClusterSums> ParseWave(std::span<const std::byte> bytes, const WaveShape& shape,
                              std::string_view object);

}  // namespace attndb::index

#endif  // ATTNDB_INDEX_COARSE_WAVE_FORMAT_H_
