#include "engines/llama/model_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>

#include "engines/llama/engine_test_util.h"
#include "testing/matchers.h"
#include "testing/temp_dir.h"

namespace attndb::llama {
namespace {

using ::attndb::test::FailsWith;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class ModelFileTest : public ::testing::Test {
 protected:
  std::string Write(const std::string& name, const std::string& content) {
    const std::string path = directory_.File(name);
    std::ofstream(path, std::ios::binary | std::ios::trunc) << content;
    return path;
  }
  ::attndb::test::TempDir directory_;
};

TEST_F(ModelFileTest, ChecksAModelThatIsThereAndNothingElse) {
  const auto check = [](const std::string& path) { return CheckModelFiles({&path, 1}); };
  ATTNDB_EXPECT_OK(check(TinyModel("llama")));
  ATTNDB_EXPECT_OK(CheckAdapterFile(TinyModel("llama_lora")));
  EXPECT_THAT(check(Write("text", "# A text, not a model")),
              FailsWith(StatusCode::kInvalidArgument,
                        AllOf(HasSubstr("text"), HasSubstr("expected 'GGUF'"))));
  EXPECT_THAT(check(Write("empty", "")),
              FailsWith(StatusCode::kInvalidArgument, HasSubstr("failed to read magic")));
  EXPECT_THAT(check(directory_.File("missing")),
              FailsWith(StatusCode::kIoError, HasSubstr("missing")));
  EXPECT_THAT(check(directory_.path()),
              FailsWith(StatusCode::kIoError, HasSubstr(directory_.path())));
}

TEST_F(ModelFileTest, AModelThatIsCutOffIsAnErrorWithTheTensorsName) {
  std::ifstream source(TinyModel("llama"), std::ios::binary);
  const std::string content((std::istreambuf_iterator<char>(source)), {});
  const std::string cut = Write("cut.gguf", content.substr(0, content.size() / 2));
  EXPECT_THAT(LlamaEngine::Open(cut, TinyOptions(HookVariant::kRewrite)),
              FailsWith(StatusCode::kInvalidArgument,
                        AllOf(HasSubstr("cut.gguf"), HasSubstr("tensor 'blk."),
                              HasSubstr("not within the file bounds"))));
}

TEST_F(ModelFileTest, NamesThePartsOfASplitModel) {
  const std::string first = Write("m-00001-of-00002.gguf", "GGUF");
  EXPECT_THAT(ModelFiles(first),
              FailsWith(StatusCode::kNotFound, HasSubstr("m-00002-of-00002.gguf")));
  const std::string second = Write("m-00002-of-00002.gguf", "GGUF");
  ATTNDB_ASSERT_OK_AND_ASSIGN(const std::vector<std::string> files, ModelFiles(first));
  EXPECT_THAT(files, ElementsAre(first, second));
  EXPECT_THAT(ModelFiles(second),
              FailsWith(StatusCode::kInvalidArgument, HasSubstr("-00001-of-00002.gguf")));
  ATTNDB_ASSERT_OK_AND_ASSIGN(const std::vector<std::string> one, ModelFiles("plain.gguf"));
  EXPECT_THAT(one, ElementsAre("plain.gguf"));
}

TEST_F(ModelFileTest, ResolvesPathsAndSaysWhatToDoOtherwise) {
  const std::string path = Write("model.gguf", "GGUF");
  ATTNDB_ASSERT_OK_AND_ASSIGN(const std::string resolved, ResolveModel(path));
  EXPECT_EQ(resolved, path);
  EXPECT_THAT(ResolveModel("no-such-model"),
              FailsWith(StatusCode::kNotFound,
                        AllOf(HasSubstr("no-such-model"), HasSubstr("$ATTNDB_MODELS"))));
  EXPECT_THAT(ResolveModel(directory_.path()),
              FailsWith(StatusCode::kInvalidArgument, HasSubstr("not a file")));
}

TEST_F(ModelFileTest, FindsTheKnownModelInTheFolderOfTheEnvironmentFirst) {
  const std::string path = Write("SmolLM2-135M-Instruct.Q4_1.gguf", "GGUF");
  const char* const before = std::getenv("ATTNDB_MODELS");
  const std::string kept = before == nullptr ? "" : before;
  ASSERT_EQ(::setenv("ATTNDB_MODELS", directory_.path().c_str(), 1), 0);
  const Result<std::string> resolved = ResolveModel("smollm2");
  ::unsetenv("ATTNDB_MODELS");
  if (before != nullptr) ::setenv("ATTNDB_MODELS", kept.c_str(), 1);  // Other tests look there.
  ATTNDB_ASSERT_OK(resolved);
  EXPECT_EQ(*resolved, path);
}

}  // namespace
}  // namespace attndb::llama
