// Goal:   the check of a forward passes where llama.cpp works, and says how it died and what to do
//         where it does not.
// Method: the check itself; forwards that die, fail and print, put in its place.
#include "engines/llama/self_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <set>
#include <utility>

#include "engines/llama/child_process.h"
#include "engines/llama/gguf_file.h"
#include "engines/llama/model_file.h"
#include "engines/llama/self_check_model.h"
#include "testing/matchers.h"
#include "testing/temp_dir.h"

namespace attndb::llama {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

std::string ReadAll(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

TEST(SelfCheckTest, AForwardWorksHere) {
  const test::TempDir folder;
  const SelfCheck check = RunSelfCheck(folder.path());
  EXPECT_TRUE(check.ok) << check.problem;
  EXPECT_EQ(check.signal + check.problem + check.advice, "");
  EXPECT_GT(check.seconds, 0);
  EXPECT_THAT(check.instruction_sets, Not(IsEmpty()));
}

// In a child, so that this program has no threads of llama.cpp's when it forks again.
TEST(SelfCheckTest, TheDifferenceIsTheOneOfRounding) {
  const test::TempDir folder;
  ATTNDB_ASSERT_OK_AND_ASSIGN(const ChildEnd end, RunInChild(
                                                      [&] {
                                                        const auto difference =
                                                            ForwardDifference(folder.path());
                                                        if (!difference.ok()) return 1;
                                                        dprintf(STDOUT_FILENO, "%g", *difference);
                                                        return 0;
                                                      },
                                                      120));
  ASSERT_TRUE(end.ok()) << end.output;
  const double difference = std::stod(end.output);
  RecordProperty("difference", end.output);
  EXPECT_LT(difference, 0.05) << "well below what is taken for rounding";
  EXPECT_GT(difference, 1e-3) << "activations were rounded: the quantized code did run";
  EXPECT_TRUE(IsRounding(difference));
  EXPECT_FALSE(IsRounding(std::nan("")));
  EXPECT_FALSE(IsRounding(0.5));
}

TEST(SelfCheckTest, ADeathIsReportedWithItsSignalAndWhatToDo) {
  const test::TempDir folder;
  for (const auto& [number, name] :
       {std::pair<int, const char*>{SIGILL, "SIGILL"}, {SIGSEGV, "SIGSEGV"}}) {
    const int signal = number;
    const SelfCheck check = RunSelfCheck(folder.path(), [signal](const std::string&) {
      std::signal(signal, SIG_DFL);
      raise(signal);
      return Status::Ok();
    });
    EXPECT_FALSE(check.ok);
    EXPECT_EQ(check.signal, name);
    EXPECT_THAT(check.problem, HasSubstr(std::string("died of ") + name));
    EXPECT_THAT(check.advice, HasSubstr("scripts/setup.sh"));
    EXPECT_THAT(check.instruction_sets, Not(IsEmpty())) << "it said so before it died";
  }
}

TEST(SelfCheckTest, AnAssertionIsReportedWithItsWords) {
  const test::TempDir folder;
  const SelfCheck check = RunSelfCheck(folder.path(), [](const std::string&) -> Status {
    dprintf(STDERR_FILENO, "first\nops.cpp:7: GGML_ASSERT(x) failed\n");
    std::signal(SIGABRT, SIG_DFL);
    raise(SIGABRT);
    return Status::Ok();
  });
  EXPECT_EQ(check.signal, "SIGABRT");
  EXPECT_THAT(check.problem, HasSubstr("died of SIGABRT: ops.cpp:7: GGML_ASSERT(x) failed"));
}

TEST(SelfCheckTest, AFailureThatIsNoDeathIsReportedToo) {
  const test::TempDir folder;
  const SelfCheck check = RunSelfCheck(
      folder.path(), [](const std::string&) { return Status::Internal("the numbers differ"); });
  EXPECT_FALSE(check.ok);
  EXPECT_EQ(check.signal, "");
  EXPECT_THAT(check.problem, HasSubstr("failed: the numbers differ"));
  const SelfCheck nowhere = RunSelfCheck(folder.File("missing"));
  EXPECT_FALSE(nowhere.ok);
  EXPECT_THAT(nowhere.problem, HasSubstr("can't be written"));
}

TEST(SelfCheckTest, InstructionSetsAreReadFromLlamaCppsWords) {
  EXPECT_THAT(ReadInstructionSets("CPU : SSE3 = 1 | AVX = 1 | AVX512 = 0 | AMX_INT8 = 1 | "
                                  "LLAMAFILE = 1 | OPENMP = 1 | REPACK = 1 | "),
              ElementsAre("SSE3", "AVX", "AMX_INT8"));
  EXPECT_THAT(ReadInstructionSets(""), IsEmpty());
  EXPECT_THAT(ReadInstructionSets("NEON = 1"), ElementsAre("NEON"));
}

TEST(SelfCheckModelTest, HasTheTypesAndShapesThatAmxTakes) {
  const test::TempDir folder;
  const std::string path = folder.File("m.gguf");
  ATTNDB_ASSERT_OK(WriteSelfCheckModel(path, SelfCheckWeights::kQuantized));
  EXPECT_LT(std::filesystem::file_size(path), size_t{1} << 20);
  ATTNDB_EXPECT_OK(CheckModelFiles({&path, 1}));
  ATTNDB_ASSERT_OK_AND_ASSIGN(const GgufFile file, GgufFile::Open(path));
  std::set<int> types;
  for (const GgufTensor& tensor : file.Tensors()) {
    types.insert(tensor.type);
    if (tensor.shape[1] == 1) continue;
    EXPECT_EQ(tensor.shape[0] % 256, 0) << tensor.name;
    EXPECT_EQ(tensor.shape[1] % 32, 0) << tensor.name;
  }
  // float32 (norms), Q4_0, Q4_1, Q8_0, Q4_K, Q5_K, Q6_K.
  EXPECT_THAT(types, ElementsAre(0, 2, 3, 8, 12, 13, 14));
}

TEST(SelfCheckModelTest, IsTheSameBytesEachTime) {
  const test::TempDir folder;
  for (const SelfCheckWeights weights : {SelfCheckWeights::kQuantized, SelfCheckWeights::kExact}) {
    ATTNDB_ASSERT_OK(WriteSelfCheckModel(folder.File("a"), weights));
    ATTNDB_ASSERT_OK(WriteSelfCheckModel(folder.File("b"), weights));
    EXPECT_TRUE(ReadAll(folder.File("a")) == ReadAll(folder.File("b")));
  }
}

}  // namespace
}  // namespace attndb::llama
