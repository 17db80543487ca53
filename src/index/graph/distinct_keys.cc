#include "index/graph/distinct_keys.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "common/crc32c.h"
#include "index/graph/neighbour_table.h"

namespace attndb::index {
namespace {

size_t RowBytes(const kernels::RowsView& rows) {
  return rows.num_elements * DTypeBytes(rows.dtype);
}

std::span<const std::byte> RowOf(const GraphSource& source, size_t key) {
  const kernels::RowsView row = kernels::RowsFrom(source.keys, key);
  return {static_cast<const std::byte*>(row.data), RowBytes(source.keys)};
}

}  // namespace

DistinctKeys::DistinctKeys(const GraphSource& source) : source_(source) { GroupByBytes(); }

void DistinctKeys::GroupByBytes() {
  std::vector<std::pair<uint32_t, uint32_t>> hashed;  // Hash, key.
  for (uint32_t key = 0; key < source_.num_keys; ++key) {
    hashed.emplace_back(Crc32c(RowOf(source_, key)), key);
  }
  std::sort(hashed.begin(), hashed.end());
  std::vector<uint32_t> first_of(source_.num_keys);  // [key]: the first key that equals it.
  std::vector<uint32_t> of_hash;                     // Such keys of the hash.
  for (size_t i = 0; i < hashed.size(); ++i) {
    if (i == 0 || hashed[i].first != hashed[i - 1].first) of_hash.clear();
    const uint32_t key = hashed[i].second;
    const auto equal = std::ranges::find_if(of_hash, [&](uint32_t first) {
      return std::ranges::equal(RowOf(source_, first), RowOf(source_, key));
    });
    first_of[key] = equal == of_hash.end() ? key : *equal;
    if (equal == of_hash.end()) of_hash.push_back(key);
  }
  std::vector<uint32_t> kind_of(source_.num_keys);  // [first key]
  begin_.push_back(0);
  for (uint32_t key = 0; key < source_.num_keys; ++key) {
    if (first_of[key] == key) {
      kind_of[key] = static_cast<uint32_t>(firsts_.size());
      firsts_.push_back(key);
      begin_.push_back(0);
    }
    ++begin_[kind_of[first_of[key]] + 1];
  }
  for (size_t kind = 0; kind < firsts_.size(); ++kind) begin_[kind + 1] += begin_[kind];
  keys_.resize(source_.num_keys);
  std::vector<size_t> at(begin_.begin(), begin_.end() - 1);
  for (uint32_t key = 0; key < source_.num_keys; ++key) {
    keys_[at[kind_of[first_of[key]]]++] = key;
  }
}

Result<GraphSource> DistinctKeys::KindSource() {
  const size_t row_bytes = RowBytes(source_.keys);
  ATTNDB_ASSIGN_OR_RETURN(rows_, AlignedBuffer::Allocate(firsts_.size() * row_bytes));
  std::byte* to = rows_.data();
  for (const uint32_t key : firsts_) to = std::ranges::copy(RowOf(source_, key), to).out;
  tokens_.clear();
  for (const uint32_t token : source_.queries.tokens) {
    const uint64_t seen = token < source_.first_token ? 0 : token - source_.first_token;
    const auto kinds = std::ranges::lower_bound(firsts_, seen) - firsts_.begin();
    tokens_.push_back(static_cast<uint32_t>(source_.first_token) + static_cast<uint32_t>(kinds));
  }
  GraphSource kinds = source_;
  const size_t width = source_.keys.num_elements;
  kinds.keys = {rows_.data(), width, width, source_.keys.dtype};
  kinds.num_keys = firsts_.size();
  kinds.queries.tokens = tokens_;
  return kinds;
}

// The list of copies[at]: first ways to other kinds, so that half of the room stays for copies.
std::vector<uint32_t> DistinctKeys::ListOf(std::span<const uint32_t> kinds,
                                           std::span<const uint32_t> copies, size_t at,
                                           size_t capacity) const {
  std::vector<uint32_t> near;
  const size_t most_near = copies.size() == 1 ? 0 : std::max<size_t>(1, capacity / 2);
  for (size_t step = 1; step < copies.size() && near.size() < most_near; step *= 2) {
    if (at + step < copies.size()) near.push_back(copies[at + step]);
    if (at >= step && near.size() < most_near) near.push_back(copies[at - step]);
  }
  std::vector<uint32_t> list;
  for (const uint32_t kind : kinds.first(std::min(kinds.size(), capacity - near.size()))) {
    const std::span<const uint32_t> keys = KeysOf(kind);
    const auto next = std::ranges::lower_bound(keys, copies[at]);
    list.push_back(next == keys.end() ? keys.back() : *next);
  }
  list.insert(list.end(), near.begin(), near.end());
  return list;
}

Result<AlignedBuffer> DistinctKeys::Expand(const GraphView& kinds, size_t max_degree,
                                           GraphHeader* header) const {
  header->num_routers = kinds.header.num_routers;
  header->entry_point = firsts_[kinds.header.entry_point];
  const size_t capacity =
      std::min(max_degree, SlotCapacity(header->slot_bytes, IdBits(header->num_keys)));
  NeighbourTable table(source_.num_keys, capacity);
  uint32_t ids[kMaxSlotIds];
  for (uint32_t kind = 0; kind < firsts_.size(); ++kind) {
    const size_t count = kinds.neighbours.Read(kind, ids);
    const std::span<const uint32_t> copies = KeysOf(kind);
    for (size_t i = 0; i < copies.size(); ++i) {
      table.Assign(copies[i], ListOf({ids, count}, copies, i, capacity));
    }
  }
  table.ConnectAll(header->entry_point);
  ATTNDB_ASSIGN_OR_RETURN(AlignedBuffer bytes, table.Pack(*header));
  ExpandRouters(kinds, *header, bytes.data());
  return bytes;
}

void DistinctKeys::ExpandRouters(const GraphView& kinds, const GraphHeader& header,
                                 std::byte* bytes) const {
  const GraphLayout layout(header);
  const GraphView view = ViewGraph(header, {bytes, layout.num_bytes});
  const size_t row_bytes = RowBytes(source_.keys);
  if (header.num_routers > 0) {
    std::memcpy(bytes + layout.router_rows, kinds.router_rows.data, header.num_routers * row_bytes);
  }
  auto* const slots = reinterpret_cast<uint8_t*>(bytes + layout.router_slots);
  uint32_t ids[kMaxSlotIds];
  for (size_t i = 0; i < header.num_routers; ++i) {
    const size_t count = kinds.router_keys.Read(i, ids);
    for (size_t j = 0; j < count; ++j) ids[j] = firsts_[ids[j]];
    WriteSlot(view.router_keys, i, {ids, count}, slots);
  }
}

}  // namespace attndb::index
