// What a CPU runs. Usage: isa_probe [INSTRUCTION SET]
//
// Without an argument prints the instruction sets that the kernels can use here, the one in use
// last. With one executes an instruction of that set, whatever the CPU says that it has: it ends by
// SIGILL where there is none.
#include <cstdio>
#include <string>
#include <string_view>

#include "kernels/isa.h"

namespace {

bool Execute(std::string_view isa) {
#if defined(__x86_64__)
  if (isa == "avx") {
    __asm__ volatile("vxorps %%ymm0, %%ymm0, %%ymm0" ::: "xmm0");
  } else if (isa == "avx2") {
    __asm__ volatile("vpaddd %%ymm0, %%ymm0, %%ymm0" ::: "xmm0");
  } else if (isa == "fma") {
    __asm__ volatile("vfmadd231ps %%xmm0, %%xmm0, %%xmm0" ::: "xmm0");
  } else if (isa == "f16c") {
    __asm__ volatile("vcvtph2ps %%xmm0, %%xmm0" ::: "xmm0");
  } else if (isa == "avx512f") {
    __asm__ volatile("vpaddd %%zmm0, %%zmm0, %%zmm0" ::: "xmm0");
  } else {
    return false;
  }
  return true;
#else
  return isa.empty();
#endif
}

}  // namespace

int main(int argc, char** argv) {
  using attndb::kernels::Isa;
  if (argc > 1) return Execute(argv[1]) ? 0 : 2;
  const Isa used = attndb::kernels::CurrentIsa().used;
  for (const Isa isa : attndb::kernels::kAllIsas) {
    if (isa == used || !attndb::kernels::IsaSupported(isa)) continue;
    std::printf("%s\n", std::string(attndb::kernels::IsaName(isa)).c_str());
  }
  std::printf("%s\n", std::string(attndb::kernels::IsaName(used)).c_str());
  return 0;
}
