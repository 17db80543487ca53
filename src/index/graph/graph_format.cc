#include "index/graph/graph_format.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "common/check.h"
#include "common/checked_math.h"
#include "common/coding.h"
#include "common/hex.h"
#include "kernels/convert.h"
#include "kernels/prefetch.h"
#include "storage/vfs/field_check.h"
#include "storage/vfs/format.h"

namespace attndb::index {
namespace {

using storage::ExpectAtMost;
using storage::ExpectEqual;
using storage::Mismatch;

// Routers beyond this would cost an insert more than a scan of the keys.
constexpr uint64_t kMostRouters = 1 << 20;

// Bytes that a slot may have.
struct SlotRange {
  size_t least = 16;
  size_t most = kMaxSlotBytes;
};

constexpr SlotRange kWideSlots = {kMaxSlotBytes + 8, kMaxWideSlotBytes};

Status CheckSlotBytes(std::string_view object, std::string_view field, uint32_t slot_bytes,
                      const SlotRange& range) {
  if (slot_bytes >= range.least && slot_bytes <= range.most && slot_bytes % 8 == 0) {
    return Status::Ok();
  }
  return Mismatch(
      object, field,
      "a multiple of 8 from " + std::to_string(range.least) + " to " + std::to_string(range.most),
      std::to_string(slot_bytes));
}

// The slots determine the version: readers without wide slots can read graphs that have none.
uint32_t VersionOf(const GraphHeader& header) {
  return header.slot_bytes > kMaxSlotBytes ? kWideGraphVersion : kGraphVersion;
}

Result<uint32_t> ReadVersion(ByteReader* in, std::string_view object) {
  const std::span<const std::byte> magic = in->Bytes(kGraphMagic.size(), "magic");
  const uint32_t version = in->U32("version");
  ATTNDB_RETURN_IF_ERROR(in->status());
  if (!std::ranges::equal(magic, BytesOf(kGraphMagic))) {
    return Mismatch(object, "magic", HexEncode(BytesOf(kGraphMagic)), HexEncode(magic));
  }
  if (version == kGraphVersion || version == kWideGraphVersion) return version;
  return Status::Unsupported(std::string(object) + ": version: expected 1 or 2, found " +
                             std::to_string(version));
}

Result<GraphHeader> DecodeHeader(std::span<const std::byte> bytes, const GraphShape& expected,
                                 std::string_view object) {
  ByteReader in(bytes, object);
  ATTNDB_ASSIGN_OR_RETURN(const uint32_t version, ReadVersion(&in, object));
  GraphHeader header;
  header.num_elements = in.U32("num_elements");
  header.num_keys = in.U64("num_keys");
  const uint32_t dtype = in.U32("dtype");
  header.slot_bytes = in.U32("slot_bytes");
  header.router_slot_bytes = in.U32("router_slot_bytes");
  header.num_routers = in.U32("num_routers");
  header.entry_point = in.U32("entry_point");
  ATTNDB_RETURN_IF_ERROR(storage::ReadZeros(&in, object, kGraphHeaderBytes));
  ATTNDB_RETURN_IF_ERROR(
      ExpectEqual(object, "num_elements", header.num_elements, expected.num_elements));
  ATTNDB_RETURN_IF_ERROR(ExpectEqual(object, "num_keys", header.num_keys, expected.num_keys));
  ATTNDB_RETURN_IF_ERROR(
      ExpectEqual(object, "dtype", dtype, static_cast<uint32_t>(expected.dtype)));
  header.dtype = expected.dtype;
  const SlotRange range = version == kWideGraphVersion ? kWideSlots : SlotRange();
  ATTNDB_RETURN_IF_ERROR(CheckSlotBytes(object, "slot_bytes", header.slot_bytes, range));
  ATTNDB_RETURN_IF_ERROR(
      CheckSlotBytes(object, "router_slot_bytes", header.router_slot_bytes, SlotRange()));
  ATTNDB_RETURN_IF_ERROR(ExpectAtMost(object, "num_routers", header.num_routers, kMostRouters));
  ATTNDB_RETURN_IF_ERROR(
      ExpectAtMost(object, "entry_point", header.entry_point, header.num_keys - 1));
  return header;
}

// Checks lists of keys. Each key notes which list named it last: so one pass over the lists, in an
// order in which a walk could come to them, shows which keys are named twice or never.
class ListCheck {
 public:
  ListCheck(std::string_view object, uint64_t num_keys) : object_(object), last_(num_keys) {}

  // Slot i is of key i, which may not list itself; all keys can be reached from `entry_point`.
  Status CheckNeighbours(const SlotView& slots, uint32_t entry_point) {
    std::vector<uint32_t> reached(last_.size() + 1);  // One more is written, but never counted.
    size_t num_reached = 1;
    reached[0] = entry_point;
    for (size_t i = 0; i < num_reached; ++i) {
      const uint32_t key = reached[i];
      const uint32_t ahead = reached[std::min(i + kAhead, last_.size())];
      kernels::PrefetchNear(slots.slot(ahead));
      kernels::PrefetchNear(slots.slot(ahead) + slots.slot_bytes - 1);
      last_[key] = num_lists_ + 1;  // Its list counts as if it began with the key itself.
      ATTNDB_RETURN_IF_ERROR(CheckList("neighbours", slots, key, [&](uint32_t id, bool first) {
        reached[num_reached] = id;
        num_reached += static_cast<size_t>(first);
      }));
    }
    if (num_reached == last_.size()) return Status::Ok();
    const auto lost = std::ranges::find(last_, 0u) - last_.begin();
    return Mismatch(object_, "neighbours", "a way to every key", "none to " + std::to_string(lost));
  }

  Status CheckRouters(const SlotView& slots, size_t num_routers) {
    for (size_t i = 0; i < num_routers; ++i) {
      ATTNDB_RETURN_IF_ERROR(CheckList("router_keys", slots, i, [](uint32_t, bool) {}));
    }
    return Status::Ok();
  }

 private:
  static constexpr size_t kAhead = 8;  // Lists that are on their way from memory.

  // named(key, first) is called for each of the list's keys; `first`: no list has named it before.
  template <typename Named>
  Status CheckList(std::string_view field, const SlotView& slots, size_t i, const Named& named) {
    const auto place = [&] { return std::string(field) + '[' + std::to_string(i) + ']'; };
    if (!SlotIsCanonical(slots, i)) {
      return Mismatch(object_, place(),
                      "at most " + std::to_string(SlotCapacity(slots.slot_bytes, slots.id_bits)) +
                          " keys and zeros behind them",
                      std::to_string(slots.size(i)) + " keys and other bytes");
    }
    uint32_t ids[kMaxSlotIds];
    const size_t count = slots.Read(i, ids);
    const uint32_t list = ++num_lists_;
    for (size_t j = 0; j < count; ++j) {
      if (ids[j] >= last_.size()) {
        return Mismatch(object_, place(), "keys below " + std::to_string(last_.size()),
                        std::to_string(ids[j]));
      }
      const uint32_t before = std::exchange(last_[ids[j]], list);
      if (before == list) {
        return Mismatch(object_, place(), "other keys, each once", std::to_string(ids[j]));
      }
      named(ids[j], before == 0);
    }
    return Status::Ok();
  }

  const std::string_view object_;
  std::vector<uint32_t> last_;  // By key: the last list that named it, counted from 1; 0: none.
  uint32_t num_lists_ = 0;
};

Status CheckRouterRows(std::string_view object, const GraphView& graph) {
  const kernels::RowsView& rows = graph.router_rows;
  std::vector<float> row(rows.num_elements);
  for (size_t i = 0; i < graph.header.num_routers; ++i) {
    const auto report =
        kernels::ConvertRows(rows.dtype, kernels::RowsFrom(rows, i).data, rows.stride,
                             DType::kFloat32, row.data(), row.size(), 1, row.size(), row.size());
    if (!report.nonfinite) continue;
    return Mismatch(object, "router_rows[" + std::to_string(i) + ']', "finite numbers",
                    "NaN or infinity");
  }
  return Status::Ok();
}

Status CheckPadding(std::string_view object, std::span<const std::byte> bytes, size_t begin,
                    size_t end) {
  for (size_t i = begin; i < end; ++i) {
    if (bytes[i] == std::byte{0}) continue;
    return Mismatch(object, "padding byte at offset " + std::to_string(i), "0",
                    std::to_string(static_cast<int>(bytes[i])));
  }
  return Status::Ok();
}

}  // namespace

GraphLayout::GraphLayout(const GraphHeader& header) {
  const auto slot_piece = [](uint64_t count, uint64_t slot_bytes) {
    return RoundUp(count * slot_bytes + kSlotPadBytes, kGraphAlignment);
  };
  slots = kGraphHeaderBytes;
  router_rows = slots + slot_piece(header.num_keys, header.slot_bytes);
  const uint64_t row_bytes = header.num_elements * DTypeBytes(header.dtype);
  router_slots = router_rows + RoundUp(header.num_routers * row_bytes, kGraphAlignment);
  num_bytes = router_slots + slot_piece(header.num_routers, header.router_slot_bytes);
}

void EncodeGraphHeader(const GraphHeader& header, std::span<std::byte> out) {
  ByteWriter writer;
  writer.Bytes(BytesOf(kGraphMagic));
  writer.U32(VersionOf(header));
  writer.U32(header.num_elements);
  writer.U64(header.num_keys);
  writer.U32(static_cast<uint32_t>(header.dtype));
  writer.U32(header.slot_bytes);
  writer.U32(header.router_slot_bytes);
  writer.U32(header.num_routers);
  writer.U32(header.entry_point);
  writer.PadTo(kGraphHeaderBytes);
  ATTNDB_CHECK(out.size() == kGraphHeaderBytes);
  std::ranges::copy(writer.bytes(), out.begin());
}

GraphView ViewGraph(const GraphHeader& header, std::span<const std::byte> bytes) {
  const GraphLayout layout(header);
  const auto* const data = reinterpret_cast<const uint8_t*>(bytes.data());
  const uint32_t id_bits = IdBits(header.num_keys);
  const size_t width = header.num_elements;
  return {header,
          {data + layout.slots, header.slot_bytes, id_bits},
          {data + layout.router_rows, width, width, header.dtype},
          {data + layout.router_slots, header.router_slot_bytes, id_bits}};
}

Result<GraphView> ParseGraph(std::span<const std::byte> bytes, const GraphShape& expected,
                             std::string_view object) {
  ATTNDB_CHECK(reinterpret_cast<uintptr_t>(bytes.data()) % kGraphAlignment == 0);
  ATTNDB_CHECK(expected.num_keys > 0 && expected.num_keys <= storage::kMaxSegmentTokens);
  ATTNDB_ASSIGN_OR_RETURN(const GraphHeader header, DecodeHeader(bytes, expected, object));
  const GraphLayout layout(header);
  ATTNDB_RETURN_IF_ERROR(ExpectEqual(object, "bytes", bytes.size(), layout.num_bytes));
  const GraphView graph = ViewGraph(header, bytes);
  ListCheck lists(object, header.num_keys);
  ATTNDB_RETURN_IF_ERROR(lists.CheckNeighbours(graph.neighbours, header.entry_point));
  ATTNDB_RETURN_IF_ERROR(lists.CheckRouters(graph.router_keys, header.num_routers));
  ATTNDB_RETURN_IF_ERROR(CheckRouterRows(object, graph));
  ATTNDB_RETURN_IF_ERROR(CheckPadding(
      object, bytes, layout.slots + header.num_keys * header.slot_bytes, layout.router_rows));
  const size_t row_bytes = header.num_elements * DTypeBytes(header.dtype);
  ATTNDB_RETURN_IF_ERROR(CheckPadding(
      object, bytes, layout.router_rows + header.num_routers * row_bytes, layout.router_slots));
  ATTNDB_RETURN_IF_ERROR(CheckPadding(
      object, bytes, layout.router_slots + header.num_routers * size_t{header.router_slot_bytes},
      layout.num_bytes));
  return graph;
}

}  // namespace attndb::index
