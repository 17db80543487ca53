// Goal:   a user can choose the ISA by name. The choice never ends in an illegal instruction, and
//         the name reported is the ISA in use.
// Method: set the environment and re-choose.
#include "kernels/isa.h"

#include <algorithm>
#include <cstdlib>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/bandwidth.h"

namespace attndb::kernels {
namespace {

class IsaChoiceTest : public testing::Test {
 protected:
  void Ask(const char* name) {
    if (name == nullptr) {
      unsetenv("ATTNDB_ISA");
    } else {
      setenv("ATTNDB_ISA", name, 1);
    }
    EXPECT_TRUE(ForceIsa(std::nullopt));
  }
  void TearDown() override { Ask(nullptr); }
};

TEST_F(IsaChoiceTest, TheBestIsUsedWhenNothingIsAsked) {
  Ask(nullptr);
  EXPECT_EQ(CurrentIsa().used, BestIsa());
  EXPECT_TRUE(CurrentIsa().honoured);
  EXPECT_EQ(CurrentIsa().requested, "");
}

TEST_F(IsaChoiceTest, TheCpusBestIsAtLeastTheBuildsBest) {
  EXPECT_GE(BestIsaOfCpu(), BestIsa());
  // A build with these kernels would run them.
  for (const Isa isa : kAllIsas) {
    if (isa > BestIsaOfCpu()) {
      EXPECT_FALSE(IsaSupported(isa)) << IsaName(isa);
    }
  }
#if defined(__x86_64__)
  EXPECT_EQ(BestIsaOfCpu() >= Isa::kAvx512,
            __builtin_cpu_supports("avx512bw") != 0 && __builtin_cpu_supports("avx512vl") != 0);
  EXPECT_EQ(BestIsaOfCpu() == Isa::kScalar, __builtin_cpu_supports("avx2") == 0);
#endif
}

TEST_F(IsaChoiceTest, ASupportedOneIsHonoured) {
  for (const Isa isa : kAllIsas) {
    if (!IsaSupported(isa)) continue;
    Ask(std::string(IsaName(isa)).c_str());
    EXPECT_EQ(CurrentIsa().used, isa);
    EXPECT_TRUE(CurrentIsa().honoured);
    EXPECT_EQ(XorWords(nullptr, 0), 0u);  // Runs.
  }
}

TEST_F(IsaChoiceTest, AnUnknownOneFallsBackAndSaysSo) {
  Ask("sse9");
  EXPECT_EQ(CurrentIsa().used, BestIsa());
  EXPECT_FALSE(CurrentIsa().honoured);
  EXPECT_EQ(CurrentIsa().requested, "sse9");
}

TEST_F(IsaChoiceTest, ForceIsaRefusesWhatTheCpuLacks) {
  for (const Isa isa : kAllIsas) {
    EXPECT_EQ(ForceIsa(isa), IsaSupported(isa));
    if (!IsaSupported(isa)) continue;
    EXPECT_EQ(CurrentIsa().used, isa);
  }
}

#if defined(__x86_64__)
// Whether this CPU has a set, by the name that isa.h gives it; nullopt of a name not known here.
std::optional<bool> CpuHas(std::string_view name) {
  if (name == "AVX2") return __builtin_cpu_supports("avx2") != 0;
  if (name == "FMA") return __builtin_cpu_supports("fma") != 0;
  if (name == "F16C") {  // Each CPU with AVX2 has it, and clang 14 can't ask.
    return __builtin_cpu_supports("avx2") != 0;
  }
  if (name == "AVX512F") return __builtin_cpu_supports("avx512f") != 0;
  if (name == "AVX512BW") return __builtin_cpu_supports("avx512bw") != 0;
  if (name == "AVX512DQ") return __builtin_cpu_supports("avx512dq") != 0;
  if (name == "AVX512VL") return __builtin_cpu_supports("avx512vl") != 0;
  if (name == "AVX512VNNI") return __builtin_cpu_supports("avx512vnni") != 0;
  if (name == "AVX512VBMI") return __builtin_cpu_supports("avx512vbmi") != 0;
  return std::nullopt;
}

// The instruction sets that the active kernels were compiled for, one by one.
std::vector<std::string> Sets() {
  std::string text = CurrentInstructionSets();
  std::vector<std::string> sets;
  while (!text.empty()) {
    const size_t end = std::min(text.find(", "), text.size());
    sets.push_back(text.substr(0, end));
    text.erase(0, end + 2);
  }
  return sets;
}

// A set that is added to a target's flags in CMakeLists.txt is one to ask the CPU for.
TEST(InstructionSetsTest, TheCpuHasThoseThatTheKernelsInUseWereCompiledFor) {
  size_t num_before = 0;
  for (const Isa isa : kAllIsas) {
    if (!ForceIsa(isa)) continue;
    const std::vector<std::string> sets = Sets();
    EXPECT_EQ(sets.empty(), isa == Isa::kScalar);
    EXPECT_GE(sets.size(), num_before + (isa == Isa::kScalar ? 0 : 2)) << IsaName(isa);
    for (const std::string& set : sets) EXPECT_EQ(CpuHas(set), true) << set;
    num_before = sets.size();
  }
  ForceIsa(std::nullopt);
}
#endif

TEST(IsaNameTest, NamesParseBack) {
  for (const Isa isa : kAllIsas) EXPECT_EQ(ParseIsa(IsaName(isa)), isa);
  EXPECT_EQ(ParseIsa("AVX2"), std::nullopt);
  EXPECT_EQ(ParseIsa(""), std::nullopt);
}

TEST(IsaNameTest, ScalarIsAlwaysThere) { EXPECT_TRUE(IsaSupported(Isa::kScalar)); }

}  // namespace
}  // namespace attndb::kernels
