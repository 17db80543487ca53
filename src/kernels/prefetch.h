// Asks for a line of memory before it is needed.
//
// Errors:  none; the address may be anything.
// Threads: stateless.
#ifndef ATTNDB_KERNELS_PREFETCH_H_
#define ATTNDB_KERNELS_PREFETCH_H_

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

}  // namespace attndb::kernels

#endif  // ATTNDB_KERNELS_PREFETCH_H_
