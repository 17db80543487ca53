// Goal:   the head of a GGUF file is read as llama.cpp reads it, or there is an error.
// Method: files made byte by byte; heads with bytes that a seed changes.
// Replay: ATTNDB_SEED=<seed> ctest -R llama_gguf
#include "engines/llama/gguf_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <random>

#include "engines/llama/engine_test_util.h"
#include "engines/llama/gguf_test_util.h"
#include "engines/llama/model_file.h"
#include "testing/matchers.h"
#include "testing/seed.h"
#include "testing/temp_dir.h"

namespace attndb::llama {
namespace {

using ::attndb::test::FailsWith;
using ::testing::AllOf;
using ::testing::HasSubstr;

class GgufFileTest : public ::testing::Test {
 protected:
  Result<GgufFile> Open(const std::string& bytes) {
    std::ofstream(path_, std::ios::binary | std::ios::trunc) << bytes;
    return GgufFile::Open(path_);
  }

  test::TempDir folder_ = test::TempDir::InMemory();
  std::string path_ = folder_.File("m.gguf");
};

TEST_F(GgufFileTest, GivesValuesAsLlamaCppTakesThem) {
  GgufParts parts;
  parts.Set("count", GgufUint32(7));
  parts.Set("signed", GgufInt32(7));
  parts.Set("counts", GgufInt32s(std::vector<int32_t>{1, -1}));
  parts.Set("texts", GgufTexts(std::vector<std::string>{"a", "b"}));
  parts.Set("real", GgufFloat32(0.5f));
  parts.Set("flag", GgufBool(true));
  parts.Set("text", GgufText("word"));
  ATTNDB_ASSERT_OK_AND_ASSIGN(const GgufFile file, Open(parts.Bytes()));
  EXPECT_EQ(file.path(), path_);
  EXPECT_EQ(file.Count("count"), 7);
  EXPECT_EQ(file.Count("count", 9), 7) << "one for all layers";
  EXPECT_EQ(file.Count("counts", 0), 1);
  EXPECT_EQ(file.Count("counts", 1), 4294967295) << "llama.cpp takes either sign for uint32";
  EXPECT_EQ(file.Count("counts", 2), std::nullopt);
  for (const char* const key : {"signed", "texts", "real", "missing"}) {
    EXPECT_EQ(file.Count(key), std::nullopt) << key;
  }
  EXPECT_EQ(file.Real("real"), 0.5f);
  EXPECT_EQ(file.Real("count"), std::nullopt);
  EXPECT_EQ(file.Flag("flag"), true);
  EXPECT_EQ(file.Flag("count"), std::nullopt);
  EXPECT_EQ(file.Text("text"), "word");
  EXPECT_EQ(file.Text("texts"), std::nullopt);
  EXPECT_EQ(file.Find("missing"), -1);
  EXPECT_TRUE(file.Is("texts", GGUF_TYPE_ARRAY));
  EXPECT_FALSE(file.Is("missing", GGUF_TYPE_ARRAY));
}

TEST_F(GgufFileTest, FindsTensors) {
  ATTNDB_ASSERT_OK_AND_ASSIGN(const GgufFile file, GgufFile::Open(TinyModel("llama")));
  const std::optional<GgufTensor> tensor = file.FindTensor("blk.1.attn_k.weight");
  ASSERT_TRUE(tensor.has_value());
  EXPECT_EQ(tensor->name, "blk.1.attn_k.weight");
  EXPECT_EQ(tensor->type, GGML_TYPE_F32);
  EXPECT_EQ(tensor->shape[0], 256);
  EXPECT_EQ(tensor->shape[1], 64);
  EXPECT_EQ(tensor->shape[2], 1);
  EXPECT_EQ(file.FindTensor("blk.9.attn_k.weight"), std::nullopt);
  EXPECT_EQ(file.Tensors().size(), 30u);
}

TEST_F(GgufFileTest, SaysWhatGgmlSaysOfAFileThatIsNone) {
  EXPECT_THAT(Open("# A text"), FailsWith(StatusCode::kInvalidArgument,
                                          AllOf(HasSubstr(path_), HasSubstr("expected 'GGUF'"))));
  GgufParts parts;
  parts.version = 9;
  EXPECT_THAT(Open(parts.Bytes()), FailsWith(StatusCode::kInvalidArgument, HasSubstr("version 9")));
  EXPECT_THAT(GgufFile::Open(folder_.File("missing")),
              FailsWith(StatusCode::kIoError, HasSubstr("missing")));
  EXPECT_THAT(GgufFile::Open(folder_.path()),
              FailsWith(StatusCode::kIoError, HasSubstr(folder_.path())));
}

TEST_F(GgufFileTest, NoChangeOfTheHeadEndsTheProcess) {
  ATTNDB_ASSERT_OK_AND_ASSIGN(const GgufFile file, GgufFile::Open(TinyModel("llama_spm")));
  const std::string model = GgufParts::Of(file).Bytes();
  const size_t head_bytes = gguf_get_data_offset(file.context());
  std::mt19937_64 random(test::SeedOr(17));
  int num_read = 0;
  for (int i = 0; i < 2000; ++i) {
    std::string bytes = model;
    // Half of the changes are in the first keys, where counts and types are dense.
    const size_t range = i % 2 == 0 ? head_bytes : 1000;
    for (int change = 0; change < 3; ++change) {
      bytes[random() % range] = static_cast<char>(random());
    }
    if (i % 10 == 0) bytes.resize(random() % head_bytes);
    const Result<GgufFile> changed = Open(bytes);
    if (!changed.ok()) continue;
    ++num_read;
    (void)CheckModelFiles({&path_, 1});
    (void)CheckAdapterFile(path_);
  }
  EXPECT_GT(num_read, 100);
}

TEST(GgufTextTest, QuotesWhatIsNotSafeToPrint) {
  EXPECT_EQ(QuoteBytes("a b~"), "a b~");
  EXPECT_EQ(QuoteBytes(std::string_view("\x1b[0m\0\xff", 6)), "\\x1b[0m\\x00\\xff");
  EXPECT_EQ(QuoteBytes(std::string(61, 'x')), std::string(60, 'x') + "...");
}

TEST(GgufTextTest, AnErrorSaysFileFieldFoundAndExpected) {
  EXPECT_THAT(DamagedGguf("m.gguf", "llama.block_count", "0", "1 to 512"),
              FailsWith(StatusCode::kInvalidArgument,
                        HasSubstr("'m.gguf': llama.block_count is 0, expected 1 to 512. The file "
                                  "is damaged")));
}

}  // namespace
}  // namespace attndb::llama
