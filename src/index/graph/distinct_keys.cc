#include "index/graph/distinct_keys.h"

#include <algorithm>
#include <cstring>

#include "common/crc32c.h"

namespace attndb::index {
namespace {

// A kind with at least this many copies gets links from copies of other kinds. It may hold more of
// the mass than a single key, but has only a single key's number of neighbours.
constexpr size_t kManyCopies = 16;

// Keys are hashed between two looks at the cancel flag.
constexpr uint32_t kKeysPerLook = 4096;

bool IsSet(const std::atomic<bool>* cancel) {
  return cancel != nullptr && cancel->load(std::memory_order_relaxed);
}

struct HashedKey {
  uint32_t hash;
  uint32_t key;
};

size_t RowBytes(const kernels::RowsView& rows) {
  return rows.num_elements * DTypeBytes(rows.dtype);
}

std::span<const std::byte> RowOf(const GraphSource& source, size_t key) {
  const kernels::RowsView row = kernels::RowsFrom(source.keys, key);
  return {static_cast<const std::byte*>(row.data), RowBytes(source.keys)};
}

}  // namespace

Result<DistinctKeys> DistinctKeys::Of(const GraphSource& source, const std::atomic<bool>* cancel) {
  DistinctKeys keys(source);
  ATTNDB_RETURN_IF_ERROR(keys.GroupByBytes(cancel));
  return keys;
}

// Sorts by the bytes, too: a file may hold any number of different keys of one hash.
Status DistinctKeys::GroupByBytes(const std::atomic<bool>* cancel) {
  const auto order = [this](const HashedKey& a, const HashedKey& b) {
    if (a.hash != b.hash) return a.hash < b.hash ? -1 : 1;
    return std::memcmp(RowOf(source_, a.key).data(), RowOf(source_, b.key).data(),
                       RowBytes(source_.keys));
  };
  std::vector<HashedKey> hashed;
  hashed.reserve(source_.num_keys);
  for (uint32_t key = 0; key < source_.num_keys; ++key) {
    if (key % kKeysPerLook == 0 && IsSet(cancel)) return Status::Cancelled("build of a graph");
    hashed.push_back({Crc32c(RowOf(source_, key)), key});
  }
  std::ranges::sort(hashed, [&](const HashedKey& a, const HashedKey& b) {
    const int ordered = order(a, b);
    return ordered != 0 ? ordered < 0 : a.key < b.key;
  });
  if (IsSet(cancel)) return Status::Cancelled("build of a graph");
  std::vector<uint32_t> first_of(source_.num_keys);  // [key]: the first key that equals it.
  for (size_t i = 0; i < hashed.size(); ++i) {
    const bool is_copy = i > 0 && order(hashed[i - 1], hashed[i]) == 0;
    first_of[hashed[i].key] = is_copy ? first_of[hashed[i - 1].key] : hashed[i].key;
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
  return Status::Ok();
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

std::vector<uint32_t> DistinctKeys::KindsOfMany() const {
  std::vector<uint32_t> kinds;
  for (uint32_t kind = 0; kind < firsts_.size(); ++kind) {
    if (KeysOf(kind).size() >= kManyCopies) kinds.push_back(kind);
  }
  return kinds;
}

uint32_t DistinctKeys::NextCopy(uint32_t kind, uint32_t key) const {
  const std::span<const uint32_t> copies = KeysOf(kind);
  const auto next = std::ranges::lower_bound(copies, key);
  return next == copies.end() ? copies.back() : *next;
}

std::vector<uint32_t> DistinctKeys::NearCopies(uint32_t kind, size_t at, size_t most) const {
  const std::span<const uint32_t> copies = KeysOf(kind);
  std::vector<uint32_t> near;
  for (size_t step = 1; step < copies.size() && near.size() < most; step *= 2) {
    if (at + step < copies.size()) near.push_back(copies[at + step]);
    if (at >= step && near.size() < most) near.push_back(copies[at - step]);
  }
  return near;
}

// Ways to other kinds come first, so that half of the room stays for copies.
void DistinctKeys::LinkCopies(uint32_t kind, std::span<const uint32_t> kinds,
                              std::span<const uint32_t> of_many, NeighbourTable* table) const {
  const std::span<const uint32_t> copies = KeysOf(kind);
  const size_t most_near = copies.size() == 1 ? 0 : std::max<size_t>(1, table->capacity() / 2);
  for (size_t i = 0; i < copies.size(); ++i) {
    const std::vector<uint32_t> near = NearCopies(kind, i, most_near);
    size_t room = table->capacity() - near.size();
    std::vector<uint32_t> list;
    const uint32_t other = of_many.empty() ? kind : of_many[i % of_many.size()];
    const bool is_new = other != kind && std::ranges::find(kinds, other) == kinds.end();
    if (copies.size() > 1 && room > 0 && is_new) {
      list.push_back(NextCopy(other, copies[i]));
      --room;
    }
    for (const uint32_t next : kinds.first(std::min(kinds.size(), room))) {
      list.push_back(NextCopy(next, copies[i]));
    }
    list.insert(list.end(), near.begin(), near.end());
    table->Assign(copies[i], list);
  }
}

Result<AlignedBuffer> DistinctKeys::Expand(const GraphView& kinds, size_t max_degree,
                                           GraphHeader* header) const {
  header->num_routers = kinds.header.num_routers;
  header->entry_point = firsts_[kinds.header.entry_point];
  const size_t capacity =
      std::min(max_degree, SlotCapacity(header->slot_bytes, IdBits(header->num_keys)));
  NeighbourTable table(source_.num_keys, capacity);
  const std::vector<uint32_t> of_many = KindsOfMany();
  uint32_t ids[kMaxSlotIds];
  for (uint32_t kind = 0; kind < firsts_.size(); ++kind) {
    const size_t count = kinds.neighbours.Read(kind, ids);
    LinkCopies(kind, {ids, count}, of_many, &table);
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
