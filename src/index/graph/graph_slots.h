// Short lists of key numbers in slots of equal size, with as many bits a number as the largest
// number needs: a key's neighbours lie in one or two cache lines, are found without a table of
// offsets, and a list grows in place up to its slot's capacity.
//
// Layout:  byte 0: count of numbers; then the numbers, id_bits each, lowest bit first; then zeros.
//          kSlotPadBytes follow the last slot, so that a number is read by one load of 8 bytes.
// Units:   slot_bytes is a multiple of 8, 16 to 64 or, wide, 72 to 1024; id_bits 1 to 32.
// Errors:  none; sizes are preconditions.
// Threads: stateless.
// Source:  bit packing is common; slots of the size of a cache line, instead of offsets and lists
//          of any length, are ours.
#ifndef ATTNDB_INDEX_GRAPH_GRAPH_SLOTS_H_
#define ATTNDB_INDEX_GRAPH_GRAPH_SLOTS_H_

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

namespace attndb::index {

inline constexpr size_t kSlotPadBytes = 8;
inline constexpr size_t kMaxSlotBytes = 64;
inline constexpr size_t kMaxWideSlotBytes = 1024;
// The longest list, since one byte counts it.
inline constexpr size_t kMaxSlotIds = 255;
// The longest list of a narrow slot: 64 bytes hold as many numbers of 8 bits.
inline constexpr size_t kMaxNarrowIds = 63;

// Stands for no key.
inline constexpr uint32_t kNoKey = ~uint32_t{0};

// Bits of the numbers below num_ids. REQUIRES: num_ids <= 2^32.
constexpr uint32_t IdBits(uint64_t num_ids) {
  return num_ids <= 2 ? 1 : static_cast<uint32_t>(std::bit_width(num_ids - 1));
}

constexpr size_t SlotCapacity(size_t slot_bytes, uint32_t id_bits) {
  const size_t room = (8 * slot_bytes - 8) / id_bits;
  const size_t most = slot_bytes > kMaxSlotBytes ? kMaxSlotIds : kMaxNarrowIds;
  return room < most ? room : most;
}

// Slots one after another; not owned.
struct SlotView {
  const uint8_t* data = nullptr;
  size_t slot_bytes = 0;
  uint32_t id_bits = 1;

  const uint8_t* slot(size_t i) const { return data + i * slot_bytes; }
  size_t size(size_t i) const { return slot(i)[0]; }

  // First number of slot i's list, or kNoKey.
  uint32_t First(size_t i) const {
    if (size(i) == 0) return kNoKey;
    uint64_t word;
    std::memcpy(&word, slot(i), sizeof(word));
    return static_cast<uint32_t>(word >> 8 & ((uint64_t{1} << id_bits) - 1));
  }

  // Writes the list of slot i to `ids`, which has room for kMaxSlotIds, and returns its length.
  size_t Read(size_t i, uint32_t* ids) const {
    const uint8_t* const from = slot(i);
    const size_t count = from[0];
    const uint64_t mask = (uint64_t{1} << id_bits) - 1;
    size_t bit = 8;
    for (size_t j = 0; j < count; ++j, bit += id_bits) {
      uint64_t word;
      std::memcpy(&word, from + bit / 8, sizeof(word));
      ids[j] = static_cast<uint32_t>(word >> bit % 8 & mask);
    }
    return count;
  }
};

// Writes `ids` into slot i of `slots`, whose bytes are `data`. REQUIRES: ids.size() <=
// SlotCapacity(), each id below 2^id_bits.
void WriteSlot(const SlotView& slots, size_t i, std::span<const uint32_t> ids, uint8_t* data);

// Whether the rest of slot i after its list is zero, and the list fits the slot's capacity.
bool SlotIsCanonical(const SlotView& slots, size_t i);

}  // namespace attndb::index

#endif  // ATTNDB_INDEX_GRAPH_GRAPH_SLOTS_H_
