#include "index/graph/neighbour_table.h"

#include <algorithm>

namespace attndb::index {

void NeighbourTable::Assign(size_t key, std::span<const uint32_t> ids) {
  std::ranges::copy(ids, ids_.begin() + static_cast<ptrdiff_t>(key * capacity_));
  sizes_[key] = static_cast<uint8_t>(ids.size());
}

bool NeighbourTable::Add(size_t key, uint32_t id) {
  const std::span<const uint32_t> ids = list(key);
  if (std::ranges::find(ids, id) != ids.end()) return true;
  if (full(key)) return false;
  ids_[key * capacity_ + sizes_[key]++] = id;
  return true;
}

void NeighbourTable::Insert(size_t key, uint32_t id) {
  uint32_t& last = ids_[key * capacity_ + sizes_[key] - 1];
  if (full(id)) --sizes_[id];
  Add(id, last);
  last = id;
}

void NeighbourTable::ConnectAll(uint32_t entry_point) {
  const auto num_keys = static_cast<uint32_t>(sizes_.size());
  std::vector<uint8_t> reached(num_keys);
  MarkReachable(entry_point, &reached);
  for (uint32_t key = 0; key < num_keys; ++key) {
    if (reached[key] != 0) continue;
    const auto attach = [&](uint32_t to) { return to != key && reached[to] != 0 && Add(to, key); };
    bool found = std::ranges::any_of(list(key), attach);
    for (uint32_t before = key; !found && before-- > 0;) found = attach(before);
    for (uint32_t behind = key + 1; !found && behind < num_keys; ++behind) found = attach(behind);
    if (!found) Insert(entry_point, key);
    MarkReachable(key, &reached);
  }
}

void NeighbourTable::MarkReachable(uint32_t from, std::vector<uint8_t>* reached) const {
  std::vector<uint32_t> open = {from};
  (*reached)[from] = 1;
  while (!open.empty()) {
    const uint32_t key = open.back();
    open.pop_back();
    for (const uint32_t next : list(key)) {
      if ((*reached)[next] != 0) continue;
      (*reached)[next] = 1;
      open.push_back(next);
    }
  }
}

Result<AlignedBuffer> NeighbourTable::Pack(const GraphHeader& header) const {
  const GraphLayout layout(header);
  ATTNDB_ASSIGN_OR_RETURN(AlignedBuffer bytes, AlignedBuffer::AllocateZeroed(layout.num_bytes));
  EncodeGraphHeader(header, bytes.span().first(kGraphHeaderBytes));
  const GraphView view = ViewGraph(header, bytes.span());
  auto* const slots = reinterpret_cast<uint8_t*>(bytes.data() + layout.slots);
  for (size_t key = 0; key < sizes_.size(); ++key)
    WriteSlot(view.neighbours, key, list(key), slots);
  return bytes;
}

}  // namespace attndb::index
