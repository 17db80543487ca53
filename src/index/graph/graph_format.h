// The byte form of the graph of one kv head, which is also its form in memory, where a graph that
// is read back is used in place: docs/formats/graph.md is the grammar.
//
// Units:   offsets and sizes in bytes; all pieces start at multiples of 64, and so must the bytes
//          in memory.
// Errors:  kCorruption, or kUnsupported for another version, naming object, field, expected and
//          found.
// Threads: values and pure functions.
#ifndef ATTNDB_INDEX_GRAPH_GRAPH_FORMAT_H_
#define ATTNDB_INDEX_GRAPH_GRAPH_FORMAT_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "attndb/result.h"
#include "index/graph/graph_slots.h"
#include "kernels/layout.h"

namespace attndb::index {

inline constexpr std::string_view kGraphMagic = "attngrph";
inline constexpr uint32_t kGraphVersion = 1;
inline constexpr uint32_t kWideGraphVersion = 2;  // With wide slots of neighbours.
inline constexpr size_t kGraphHeaderBytes = 64;
inline constexpr size_t kGraphAlignment = 64;
// The most keys of a router in newly built graphs. A walk starts at up to this many keys of each
// router.
inline constexpr size_t kRouterKeys = 16;

struct GraphHeader {
  uint64_t num_keys = 0;      // >= 1.
  uint32_t num_elements = 0;  // Padded, of a key's row: a multiple of 16.
  DType dtype = DType::kFloat32;
  uint32_t slot_bytes = 0;         // Bytes of a key's list of neighbours.
  uint32_t router_slot_bytes = 0;  // Bytes of a router's list of keys.
  uint32_t num_routers = 0;
  uint32_t entry_point = 0;
};

// Offsets of the pieces.
struct GraphLayout {
  // REQUIRES: the numbers are in the limits that ParseGraph checks.
  explicit GraphLayout(const GraphHeader& header);

  size_t slots = 0;
  size_t router_rows = 0;
  size_t router_slots = 0;
  size_t num_bytes = 0;
};

// A graph, ready to be walked; not owned.
struct GraphView {
  GraphHeader header;
  SlotView neighbours;  // List of each key's neighbours.
  // Routers: training queries that were kept, scaled to norm 1, and the keys that they score
  // highest, best first as far as the build knew.
  kernels::RowsView router_rows;
  SlotView router_keys;
};

// The owner's knowledge of the graph.
struct GraphShape {
  uint64_t num_keys = 0;
  size_t num_elements = 0;
  DType dtype = DType::kFloat32;
};

// Writes kGraphHeaderBytes.
void EncodeGraphHeader(const GraphHeader& header, std::span<std::byte> out);

// Views bytes that are known to be a graph.
GraphView ViewGraph(const GraphHeader& header, std::span<const std::byte> bytes);

// Checks every field, list and number: the result can be walked, walks stay among the keys, and
// every key can be reached. O(edges), with 8 bytes a key of memory meanwhile. `object` names the
// bytes in errors. REQUIRES: bytes aligned as above.
Result<GraphView> ParseGraph(std::span<const std::byte> bytes, const GraphShape& expected,
                             std::string_view object);

}  // namespace attndb::index

#endif  // ATTNDB_INDEX_GRAPH_GRAPH_FORMAT_H_
