// Goal:   a document that is longer than its model was trained for is refused with both lengths and
//         with the smallest factor that suffices.
#include "cli/common/trained_length.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/common/rope_scaling.h"

namespace attndb::cli {
namespace {

class TrainedLengthTest : public ::testing::Test {
 protected:
  Status Check(uint64_t num_tokens, const char* scaling = "model") {
    const llama::RopeScaling parsed = *ParseRopeScaling(scaling);
    if (parsed.kind != llama::RopeScalingKind::kModel) {
      info_.max_context = static_cast<uint64_t>(8192.0 * static_cast<double>(parsed.factor));
    }
    return CheckTrainedLength(&env_, info_, parsed, "notes.txt", num_tokens);
  }

  Environment env_{CommonOptions()};
  llama::ModelInfo info_ = {
      .path = "/models/Small.gguf", .unscaled_context = 8192, .max_context = 8192};
};

TEST_F(TrainedLengthTest, TheTrainedLengthItselfIsNotTooLong) {
  EXPECT_TRUE(Check(8192).ok());
  EXPECT_TRUE(Check(32768, "yarn:4").ok());
  EXPECT_TRUE(Check(12288, "linear:1.5").ok());
  EXPECT_FALSE(Check(12289, "linear:1.5").ok());
}

TEST_F(TrainedLengthTest, ALongerDocumentIsRefusedWithTheFactorThatSuffices) {
  const Status status = Check(32984);
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(status.message(), "notes.txt has 32,984 tokens, but Small was trained on 8,192");
  EXPECT_EQ(env_.advice(), "give --rope-scaling yarn:5, or a shorter document");
  EXPECT_FALSE(Check(8193).ok());
  EXPECT_EQ(env_.advice(), "give --rope-scaling yarn:2, or a shorter document");
  EXPECT_FALSE(Check(16384).ok());
  EXPECT_EQ(env_.advice(), "give --rope-scaling yarn:2, or a shorter document");
  EXPECT_FALSE(Check(8192 * 1024 + 1).ok());
  EXPECT_EQ(env_.advice(), "give a shorter document");
}

TEST_F(TrainedLengthTest, ATextThatCanBeSplitComesWithThatAdvice) {
  EXPECT_FALSE(CheckTrainedLength(&env_, info_, {}, "notes.txt", 8193, /*can_split=*/true).ok());
  EXPECT_EQ(env_.advice(),
            "--split imports it in parts that 'attndb find' looks through; or give --rope-scaling "
            "yarn:2, or a shorter document");
}

TEST_F(TrainedLengthTest, AScalingThatIsTooSmallIsNamed) {
  EXPECT_EQ(Check(32984, "yarn:2").message(),
            "notes.txt has 32,984 tokens, but Small was trained on 8,192, which --rope-scaling "
            "yarn:2 stretches to 16,384");
  EXPECT_EQ(env_.advice(), "give --rope-scaling yarn:5, or a shorter document");
}

TEST_F(TrainedLengthTest, AModelThatDoesNotSayItsLengthTakesAny) {
  info_ = {.path = "Small.gguf"};
  EXPECT_TRUE(Check(1'000'000).ok());
  EXPECT_EQ(ModelNameOf(info_), "Small");
}

}  // namespace
}  // namespace attndb::cli
