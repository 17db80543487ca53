// The byte form of the clustered keys of one kv head, which is also their form in memory:
// docs/formats/clusters.md is the grammar.
//
// Two parts:
//   planes  the main part of key planes (planes/plane_format.h), in the order of clusters
//   order   header, which key lies where, reaches
// Units:   offsets and sizes in bytes, from the start of the part; pieces start at multiples of
//          kPieceAlignment, and so must the parts in memory.
// Errors:  kCorruption, or kUnsupported for another version, naming object, field, expected and
//          found.
// Threads: values and pure functions.
#ifndef ATTNDB_INDEX_CLUSTERED_CLUSTER_FORMAT_H_
#define ATTNDB_INDEX_CLUSTERED_CLUSTER_FORMAT_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "attndb/result.h"
#include "index/piece_check.h"

namespace attndb::index {

inline constexpr std::string_view kClustersMagic = "attnclus";
inline constexpr uint32_t kClustersVersion = 1;
inline constexpr size_t kClustersHeaderBytes = 64;

// Offsets of the pieces of the order part.
struct OrderLayout {
  explicit OrderLayout(uint64_t num_keys);

  // uint16 [num_keys], by place: the key's index in its piece.
  size_t numbers = kClustersHeaderBytes;
  size_t reaches = 0;  // float32 [clusters]
  size_t total_bytes = 0;
};

struct ClusterParts {
  std::span<const std::byte> planes;
  std::span<const std::byte> order;
};

// Writes kClustersHeaderBytes.
void EncodeOrderHeader(uint64_t num_keys, std::span<std::byte> out);

// Checks every field and length, that the numbers of each piece name each of its keys once, and
// that reaches are finite and not negative. `object` names the bytes in errors. REQUIRES: aligned
// as above.
Status CheckOrder(std::span<const std::byte> order, uint64_t num_keys, std::string_view object);

}  // namespace attndb::index

#endif  // ATTNDB_INDEX_CLUSTERED_CLUSTER_FORMAT_H_
