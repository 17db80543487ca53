// Goal:   the ISA can be asked for by name, never ends in an illegal instruction, and tells the
//         truth.
// Method: set the environment and re-choose.
#include "kernels/isa.h"

#include <cstdlib>
#include <string>

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

TEST(IsaNameTest, NamesParseBack) {
  for (const Isa isa : kAllIsas) EXPECT_EQ(ParseIsa(IsaName(isa)), isa);
  EXPECT_EQ(ParseIsa("AVX2"), std::nullopt);
  EXPECT_EQ(ParseIsa(""), std::nullopt);
}

TEST(IsaNameTest, ScalarIsAlwaysThere) { EXPECT_TRUE(IsaSupported(Isa::kScalar)); }

}  // namespace
}  // namespace attndb::kernels
