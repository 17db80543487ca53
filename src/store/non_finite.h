// The catalog's note of which heads of a segment hold NaN or Inf: one bit a (layer, kv head),
// layers in order, least significant bit first.
//
// Threads: pure functions.
#ifndef ATTNDB_STORE_NON_FINITE_H_
#define ATTNDB_STORE_NON_FINITE_H_

#include <cstddef>
#include <cstdint>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "attndb/types.h"

namespace attndb::store {

// flags[layer][kv_head] to bytes; empty if none is set.
std::vector<std::byte> EncodeNonFinite(const std::vector<std::vector<bool>>& flags);

// Adds the (layer, kv head) pairs that are set. Bytes that are too short count as zeros.
void DecodeNonFinite(std::span<const std::byte> bytes, const ModelSpec& spec,
                     std::set<std::pair<uint32_t, uint32_t>>* heads);

}  // namespace attndb::store

#endif  // ATTNDB_STORE_NON_FINITE_H_
