// Internal: the vector type of the target that a *_target.cc was compiled for.
//
// The contents of each simd_*.h (in namespace ATTNDB_TARGET, unnamed inside):
//   Vec, kLanes         a register of kLanes float32; kManyRegisters: 32 registers, else 16.
//   Zero Set1 Load Store Add Sub Mul Div Round (to nearest even)
//   Max(a, b) Min(a, b) b if either is NaN.
//   Fma(a, b, c)        a * b + c; NegFma: c - a * b. Rounded once, except in the portable target.
//   TimesPow2(v, n)     v * 2^n for integral n in [-300, 300], denormals included.
//   TimesNormalPow2     the same where v and the result are normal numbers; quicker.
//   LoadRow(p)          kLanes elements of a row of any type, widened. StoreRow(p, v) narrows.
//   WidenPair WidenHalf LoadPair StorePair: two registers at a time, see simd_avx512.h; WidenHalf
//                       only where registers are few.
//   ReduceAdd ReduceMax KeepLanes StoreSums4 Transpose Abs ZeroBelow MaskNotBelow MaskNaN
//   LoadFirst StoreIndices StoreSelected: some lanes, see simd_avx512.h.
//   Bits, LoadBits, Xor a register of raw bits.
// Threads: values.
#ifndef ATTNDB_KERNELS_SIMD_H_
#define ATTNDB_KERNELS_SIMD_H_

#if defined(ATTNDB_KERNELS_TARGET_AVX512) || defined(ATTNDB_KERNELS_TARGET_AVX512VNNI)
#include "kernels/simd_avx512.h"
#elif defined(ATTNDB_KERNELS_TARGET_AVX2)
#include "kernels/simd_avx2.h"
#else
#include "kernels/simd_portable.h"
#endif

#endif  // ATTNDB_KERNELS_SIMD_H_
