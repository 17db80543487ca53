// Reads memory as fast as one core can: the limit that attention over a long run is measured by.
//
// Threads: stateless.
#ifndef ATTNDB_KERNELS_BANDWIDTH_H_
#define ATTNDB_KERNELS_BANDWIDTH_H_

#include <cstddef>
#include <cstdint>

namespace attndb::kernels {

// Xor of all 8-byte words of `data`: reads each byte once, with the widest loads there are.
// REQUIRES: data 64-byte aligned; num_bytes a multiple of 8. Time it over a buffer of at least four
// times the last-level cache; num_bytes / seconds is the read bandwidth.
uint64_t XorWords(const void* data, size_t num_bytes);

}  // namespace attndb::kernels

#endif  // ATTNDB_KERNELS_BANDWIDTH_H_
