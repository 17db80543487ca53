#include "kernels/isa.h"

#if defined(__x86_64__) || defined(__i386__)
#include <cpuid.h>
#endif

#include <atomic>
#include <cstdlib>

#include "kernels/kernel_table.h"

namespace attndb::kernels {

// Declares the kernels that *_target.cc define for a target, and their table. In code that every
// CPU runs.
#define ATTNDB_KERNEL_TARGET_(target)                                                            \
  namespace target {                                                                             \
  extern const AttendKernels kAttendRows, kAttendListed;                                         \
  extern const AttendBlockKernels kAttendBlock;                                                  \
  extern const SelectKernels kSelect;                                                            \
  extern const WeightKernels kWeights;                                                           \
  extern const DrawKernels kDraw;                                                                \
  extern const PlaneKernels kPlanes;                                                             \
  extern const ProductCodeKernels kProductCodes;                                                 \
  extern const ValueKernels kValues;                                                             \
  extern const RowKernels kRows;                                                                 \
  extern const char kInstructionSets[];                                                          \
  constexpr KernelTable kTable = {&kAttendRows, &kAttendListed, &kAttendBlock,   &kSelect,       \
                                  &kWeights,    &kDraw,         &kPlanes,        &kProductCodes, \
                                  &kValues,     &kRows,         kInstructionSets};               \
  }

// CMakeLists.txt defines ATTNDB_HAS_AVX2 and so on for the targets that the build has.
ATTNDB_KERNEL_TARGET_(portable)
#if defined(ATTNDB_HAS_AVX2)
ATTNDB_KERNEL_TARGET_(avx2)
#endif
#if defined(ATTNDB_HAS_AVX512)
ATTNDB_KERNEL_TARGET_(avx512)
#endif
#if defined(ATTNDB_HAS_AVX512VNNI)

// Has its own scans of quantized keys, and all other kernels from AVX-512.
namespace avx512vnni {
extern const PlaneKernels kPlanes;
extern const ProductCodeKernels kProductCodes;
extern const char kInstructionSets[];
constexpr KernelTable kTable = [] {
  KernelTable table = avx512::kTable;
  table.planes = &kPlanes;
  table.product_codes = &kProductCodes;
  table.instruction_sets = kInstructionSets;
  return table;
}();
}  // namespace avx512vnni
#endif

namespace {

// Null until first used. Relaxed suffices: tables are constants, and any thread that chooses comes
// to the same choice.
std::atomic<const KernelTable*> current{nullptr};

// Null where the build does not have the target.
const KernelTable* TableOf(Isa isa) {
  if (isa == Isa::kScalar) return &portable::kTable;
#if defined(ATTNDB_HAS_AVX2)
  if (isa == Isa::kAvx2) return &avx2::kTable;
#endif
#if defined(ATTNDB_HAS_AVX512)
  if (isa == Isa::kAvx512) return &avx512::kTable;
#endif
#if defined(ATTNDB_HAS_AVX512VNNI)
  if (isa == Isa::kAvx512Vnni) return &avx512vnni::kTable;
#endif
  return nullptr;
}

#if defined(__x86_64__) || defined(__i386__)
// clang 14 has no builtin for F16C. Its support by the operating system is the same as for AVX2.
bool HasF16c() {
  unsigned eax = 0;
  unsigned ebx = 0;
  unsigned ecx = 0;
  unsigned edx = 0;
  return __get_cpuid(1, &eax, &ebx, &ecx, &edx) != 0 && (ecx & bit_F16C) != 0;
}
#endif

// Includes the operating system's support: these builtins check XGETBV.
bool CpuSupports(Isa isa) {
#if defined(__x86_64__) || defined(__i386__)
  switch (isa) {
    case Isa::kScalar:
      return true;
    case Isa::kAvx2:
      return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && HasF16c();
    case Isa::kAvx512:
      return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
             __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
             CpuSupports(Isa::kAvx2);
    case Isa::kAvx512Vnni:
      return __builtin_cpu_supports("avx512vnni") && __builtin_cpu_supports("avx512vbmi") &&
             CpuSupports(Isa::kAvx512);
  }
#endif
  return isa == Isa::kScalar;
}

// The last of kAllIsas, which the best ends, for which `is_there` returns true.
Isa LastOf(bool (*is_there)(Isa)) {
  Isa best = Isa::kScalar;
  for (const Isa isa : kAllIsas) {
    if (is_there(isa)) best = isa;
  }
  return best;
}

std::string RequestedIsa() {
  const char* const value = std::getenv("ATTNDB_ISA");
  return value ? value : "";
}

Isa IsaOfEnvironment() {
  const std::optional<Isa> asked = ParseIsa(RequestedIsa());
  return asked && IsaSupported(*asked) ? *asked : BestIsa();
}

}  // namespace

std::string_view IsaName(Isa isa) {
  switch (isa) {
    case Isa::kScalar:
      return "scalar";
    case Isa::kAvx2:
      return "avx2";
    case Isa::kAvx512:
      return "avx512";
    case Isa::kAvx512Vnni:
      return "avx512vnni";
  }
  return "unknown";
}

std::optional<Isa> ParseIsa(std::string_view name) {
  for (const Isa isa : kAllIsas) {
    if (name == IsaName(isa)) return isa;
  }
  return std::nullopt;
}

bool IsaSupported(Isa isa) { return CpuSupports(isa) && TableOf(isa) != nullptr; }

Isa BestIsa() { return LastOf(IsaSupported); }

Isa BestIsaOfCpu() { return LastOf(CpuSupports); }

const KernelTable& Kernels() {
  const KernelTable* table = current.load(std::memory_order_relaxed);
  if (table == nullptr) [[unlikely]] {
    table = TableOf(IsaOfEnvironment());
    current.store(table, std::memory_order_relaxed);
  }
  return *table;
}

IsaChoice CurrentIsa() {
  const KernelTable* const table = &Kernels();
  IsaChoice choice;
  for (const Isa isa : kAllIsas) {
    if (TableOf(isa) == table) choice.used = isa;
  }
  choice.requested = RequestedIsa();
  choice.honoured = choice.requested.empty() || choice.requested == IsaName(choice.used);
  return choice;
}

const char* CurrentInstructionSets() { return Kernels().instruction_sets; }

bool ForceIsa(std::optional<Isa> isa) {
  if (isa && !IsaSupported(*isa)) return false;
  current.store(TableOf(isa ? *isa : IsaOfEnvironment()), std::memory_order_relaxed);
  return true;
}

}  // namespace attndb::kernels
