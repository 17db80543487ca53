// Finding NaN and inf in stored elements.
//
// Threads: pure functions.
#ifndef ATTNDB_STORAGE_KV_NON_FINITE_H_
#define ATTNDB_STORAGE_KV_NON_FINITE_H_

#include <cstddef>
#include <span>

#include "attndb/dtype.h"

namespace attndb::storage {

// True if an element is NaN or inf. REQUIRES: rows hold whole, aligned elements.
bool HasNonFinite(DType dtype, std::span<const std::byte> rows);

}  // namespace attndb::storage

#endif  // ATTNDB_STORAGE_KV_NON_FINITE_H_
