#include "index/graph/graph_slots.h"

#include "common/check.h"

namespace attndb::index {

void WriteSlot(const SlotView& slots, size_t i, std::span<const uint32_t> ids, uint8_t* data) {
  ATTNDB_CHECK(ids.size() <= SlotCapacity(slots.slot_bytes, slots.id_bits));
  uint8_t* const to = data + i * slots.slot_bytes;
  std::memset(to, 0, slots.slot_bytes);
  to[0] = static_cast<uint8_t>(ids.size());
  size_t bit = 8;
  for (const uint32_t id : ids) {
    // Byte by byte, so that the slot behind is not touched.
    uint64_t word = uint64_t{id} << bit % 8;
    for (size_t byte = bit / 8; word != 0; ++byte, word >>= 8) {
      to[byte] = static_cast<uint8_t>(to[byte] | (word & 255));
    }
    bit += slots.id_bits;
  }
}

bool SlotIsCanonical(const SlotView& slots, size_t i) {
  const uint8_t* const slot = slots.slot(i);
  if (slot[0] > SlotCapacity(slots.slot_bytes, slots.id_bits)) return false;
  const size_t end_bit = 8 + slot[0] * size_t{slots.id_bits};
  size_t byte = end_bit / 8;
  if (end_bit % 8 != 0 && slot[byte++] >> end_bit % 8 != 0) return false;
  for (; byte < slots.slot_bytes; ++byte) {
    if (slot[byte] != 0) return false;
  }
  return true;
}

}  // namespace attndb::index
