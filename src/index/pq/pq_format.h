// The byte form of the product codes of one kv head, which is also their form in memory:
// docs/formats/product_codes.md is the grammar.
//
// Units:   offsets and sizes in bytes; pieces start at multiples of kPieceAlignment, and so must
//          the bytes in memory.
// Errors:  kCorruption, or kUnsupported for another version, naming object, field, expected and
//          found.
// Threads: values and pure functions.
#ifndef ATTNDB_INDEX_PQ_PQ_FORMAT_H_
#define ATTNDB_INDEX_PQ_PQ_FORMAT_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "attndb/result.h"
#include "index/piece_check.h"

namespace attndb::index {

inline constexpr std::string_view kPqMagic = "attnpqcd";
inline constexpr uint32_t kPqVersion = 1;
inline constexpr size_t kPqHeaderBytes = 64;

// The shape that the codes of a kv head must have.
struct PqShape {
  uint64_t num_keys = 0;
  size_t num_channels = 0;
};

struct PqHeader {
  uint64_t num_keys = 0;
  uint32_t num_channels = 0;
  uint32_t num_subspaces = 0;
  uint32_t bits = 0;
  float error = 0.0f;      // Standard deviation of a score's error, for a q of norm 1.
  uint32_t num_pairs = 0;  // PqSource::num_pairs.
};

// Offsets of the pieces.
struct PqLayout {
  explicit PqLayout(const PqHeader& header);

  size_t centroids = kPqHeaderBytes;  // See kernels::CodebookView.
  size_t bounds = 0;                  // float32 [blocks]
  size_t codes = 0;                   // Blocks of kernels::kCodeKeys keys.
  size_t total_bytes = 0;
};

// Writes kPqHeaderBytes.
void EncodePqHeader(const PqHeader& header, std::span<std::byte> out);

// Checks every field, the length, that numbers are finite, and that codes name centroids. `object`
// names the bytes in errors. REQUIRES: aligned as above.
Result<PqHeader> DecodePq(std::span<const std::byte> bytes, const PqShape& expected,
                          std::string_view object);

}  // namespace attndb::index

#endif  // ATTNDB_INDEX_PQ_PQ_FORMAT_H_
