// The byte form of the key planes of one kv head. It is also their form in memory: planes that are
// read from disk are used in place. docs/formats/key_planes.md is the grammar.
//
// The planes have two parts, so that a scan of 4 bits need not read the second:
//   main   header, vectors of the transform, bounds, scales, high plane
//   low    low plane
// Units:   offsets and sizes in bytes, from the start of the part; all pieces start at multiples of
//          kPieceAlignment, and so must the parts in memory.
// Errors:  kCorruption, or kUnsupported for another version or transform, naming object, field,
//          expected and found.
// Threads: values and pure functions.
#ifndef ATTNDB_INDEX_PLANES_PLANE_FORMAT_H_
#define ATTNDB_INDEX_PLANES_PLANE_FORMAT_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "attndb/result.h"
#include "index/piece_check.h"
#include "index/planes/transform.h"

namespace attndb::index {

inline constexpr std::string_view kPlanesMagic = "attnkpln";
inline constexpr uint32_t kPlanesVersion = 3;
inline constexpr size_t kPlanesHeaderBytes = 64;

// Upper bounds for the keys of one block of kernels::kWeightBlock, after the transform: the
// distance of a key from its codes' value, at 8 and at 4 bits, and a key's norm.
struct PlaneBound {
  float residual8 = 0.0f;
  float residual4 = 0.0f;
  float norm = 0.0f;
};

struct PlaneHeader {
  uint64_t num_keys = 0;      // >= 1.
  uint32_t num_channels = 0;  // Padded: a multiple of 16.
  TransformId transform = TransformId::kLocal;
  uint32_t num_pairs = 0;      // Pairs of channels that the rotary embedding turns.
  int64_t first_position = 0;  // RoPE position of the first key.
  // Standard deviation of a score's error, for a q of norm 1.
  float error4 = 0.0f;
  float error8 = 0.0f;
  // Upper bound of the norm of the part subtracted from any key: R(p) b + m of transform.h.
  float added_norm = 0.0f;
};

// Offsets of the pieces.
struct PlaneLayout {
  // REQUIRES: the numbers are in the limits that DecodePlaneParts checks, but that num_keys may be
  // 0.
  PlaneLayout(uint64_t num_keys, size_t num_channels, TransformId transform);

  // Vectors of the transform (transform.h), float32 [num_channels] each.
  size_t mean = 0;
  size_t channel_scale = 0;
  size_t bias = 0;
  // float64 [num_channels / 2]: radians per position by which channels i and i + num_pairs turn; 0
  // from num_pairs on.
  size_t frequency = 0;
  size_t bounds = 0;  // PlaneBound for each kernels::kWeightBlock keys.
  // bfloat16 [kWeightBlock blocks, num_channels]; none unless the transform centres by blocks.
  size_t block_means = 0;
  size_t scales = 0;  // See PlanesView.
  size_t high = 0;
  size_t main_bytes = 0;
  size_t low_bytes = 0;

  uint64_t total_bytes() const { return main_bytes + low_bytes; }
};

// The owner's knowledge of the planes.
struct PlaneShape {
  uint64_t num_keys = 0;
  size_t num_channels = 0;
  bool main_only = false;  // The low part is absent, so only 4 bits can be scanned.
};

struct PlaneParts {
  std::span<const std::byte> main;
  std::span<const std::byte> low;
};

// Writes kPlanesHeaderBytes.
void EncodePlaneHeader(const PlaneHeader& header, std::span<std::byte> out);

// Checks every field, all lengths, and every float32 and scale: planes with the returned header can
// be scanned. `object` names the parts in errors. REQUIRES: parts aligned as above.
Result<PlaneHeader> DecodePlaneParts(const PlaneParts& parts, const PlaneShape& expected,
                                     std::string_view object);

}  // namespace attndb::index

#endif  // ATTNDB_INDEX_PLANES_PLANE_FORMAT_H_
