// The instruction set that the kernels run on: chosen once from CPUID, or forced.
//
// Kernels of one ISA give identical bits run after run; between ISAs results differ by rounding.
// ATTNDB_ISA=scalar|avx2|avx512|avx512vnni in the environment asks for one. If the value is
// unknown, or the CPU (or the operating system) cannot run it, the best supported one is used;
// CurrentIsa() tells.
// Threads: all functions are safe; ForceIsa() must not race with running kernels' expectations of
//          bit-equal results, so call it from tests and at start-up only.
#ifndef ATTNDB_KERNELS_ISA_H_
#define ATTNDB_KERNELS_ISA_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace attndb::kernels {

enum class Isa : uint8_t {
  kScalar = 0,      // Plain C++; every CPU.
  kAvx2 = 1,        // AVX2, FMA, F16C.
  kAvx512 = 2,      // AVX-512 F, BW, DQ, VL.
  kAvx512Vnni = 3,  // kAvx512 with VNNI and VBMI, which scans of quantized keys use.
};

inline constexpr Isa kAllIsas[] = {Isa::kScalar, Isa::kAvx2, Isa::kAvx512, Isa::kAvx512Vnni};

// "scalar", "avx2", "avx512", "avx512vnni": the values of ATTNDB_ISA.
std::string_view IsaName(Isa isa);
std::optional<Isa> ParseIsa(std::string_view name);

// Whether this build and this CPU can run `isa`; always true for kScalar.
bool IsaSupported(Isa isa);
Isa BestIsa();
// The best that this CPU can run, whether or not this build has its kernels.
Isa BestIsaOfCpu();

struct IsaChoice {
  Isa used = Isa::kScalar;
  std::string requested;  // Value of ATTNDB_ISA; empty if unset.
  bool honoured = true;   // False if `requested` is set and another instruction set is used.
};
IsaChoice CurrentIsa();

// The instruction sets that the kernels in use were compiled for, by the names of the compiler's
// flags: "AVX2, FMA, F16C"; "" for kScalar, which has no flags. CpuSupports() in isa.cc asks the
// CPU for each.
const char* CurrentInstructionSets();

// Switches all kernels of the process to `isa`; nullopt returns to the environment's choice.
// Returns false and changes nothing if `isa` is not supported.
bool ForceIsa(std::optional<Isa> isa);

}  // namespace attndb::kernels

#endif  // ATTNDB_KERNELS_ISA_H_
