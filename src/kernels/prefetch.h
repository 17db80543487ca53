// Asks for a line of memory before it is needed.
//
// Errors:  none; the address may be anything.
// Threads: stateless.
#ifndef ATTNDB_KERNELS_PREFETCH_H_
#define ATTNDB_KERNELS_PREFETCH_H_

#include <cstddef>
#include <cstdint>

namespace attndb::kernels {

// GCC 12 drops all but the first __builtin_prefetch of some loops; it keeps these. Inlined always:
// a copy of a function belongs to the target that its file was compiled for.

// Into the first cache: a few lines that are read next.
[[gnu::always_inline]] inline void PrefetchNear(const void* p) {
#if defined(__x86_64__) && defined(__GNUC__)
  __asm__ volatile("prefetcht0 %0" : : "m"(*static_cast<const char*>(p)));
#else
  __builtin_prefetch(p, 0, 3);
#endif
}

// Into the second cache: a stream. A fetch into the first holds one of its few miss buffers (24 on
// Zen 4) until memory has answered, so that a core reads 24 lines a latency: 9 GB/s where the
// second cache's own 48 get 20 (measured by decode_bench, 4 q rows, on a Zen 4 in a virtual
// machine). What is read from there then takes 14 cycles, which the core hides.
[[gnu::always_inline]] inline void Prefetch(const void* p) {
#if defined(__x86_64__) && defined(__GNUC__)
  __asm__ volatile("prefetcht1 %0" : : "m"(*static_cast<const char*>(p)));
#else
  __builtin_prefetch(p, 0, 2);
#endif
}

// Prefetches the lines that hold these bytes, in the same way.
[[gnu::always_inline]] inline void PrefetchLines(const void* p, size_t num_bytes) {
  constexpr size_t kLineBytes = 64;
  const auto* const bytes = static_cast<const char*>(p);
  const size_t before = reinterpret_cast<uintptr_t>(p) % kLineBytes;  // In the first line.
  for (size_t i = 0; i < before + num_bytes; i += kLineBytes) Prefetch(bytes + i);
}

// The prefetch distance for a run of rows in passes of num_q_rows (1 to 8) over rows of row_bytes:
// memory's latency under load, about 200 ns, times the read rate. That is 40 bytes per ns on AMD's
// cores. Intel's cores read less, and their second cache prefetches on its own within a page: lines
// requested further ahead arrive before the needed ones. (Measured by decode_bench at 1,024 to
// 16,384 bytes on a Xeon that reads 16 bytes per ns: 3 and 4 q rows reach .87 to .93 of that from
// 3,072 bytes, .74 to .79 from 8,192; 8 q rows, bound by arithmetic, .65 from 5,120, .6 from both.
// Rows of 512 bytes, which are swept in parts, want 8,192.)
size_t StreamAheadBytes(size_t num_q_rows, size_t row_bytes);

}  // namespace attndb::kernels

#endif  // ATTNDB_KERNELS_PREFETCH_H_
