// Goal:   a head of a GGUF is read as it was written, or refused with what is wrong in it, whatever
//         its bytes are.
// Method: files made byte by byte, each with one thing wrong; all prefixes of a file; seeded flips.
// Replay: ATTNDB_SEED=3 ctest -R llama_gguf
#include "engines/llama/gguf_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <random>

#include "engines/llama/gguf_test_util.h"
#include "testing/matchers.h"
#include "testing/seed.h"

namespace attndb::llama {
namespace {

using ::attndb::test::FailsWith;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

Result<GgufFile> Parse(std::string_view bytes) {
  static const std::vector<TensorForm> kForms = FewTensorForms();
  return GgufFile::Parse(AsBytes(bytes), kForms, "m.gguf");
}

auto Refuses(const char* field, const char* found) {
  return FailsWith(StatusCode::kInvalidArgument,
                   AllOf(HasSubstr("'m.gguf'"), HasSubstr(field), HasSubstr(found),
                         HasSubstr("expected"), HasSubstr("convert it again")));
}

TEST(GgufFileTest, ReadsWhatWasWritten) {
  GgufParts model = SmallModel();
  model.Set("wide", GgufUint64(uint64_t{1} << 63));
  model.Set("signed", GgufInt32s(std::vector<int32_t>{-3, 4}));
  const std::string bytes = model.Bytes();
  ATTNDB_ASSERT_OK_AND_ASSIGN(const GgufFile file, Parse(bytes));
  EXPECT_EQ(file.values().size(), model.values.size());
  EXPECT_EQ(file.Text("general.architecture"), "llama");
  EXPECT_EQ(file.Text("llama.block_count"), "") << "not a text";
  EXPECT_EQ(file.Find("llama.block_count")->Integer(), 2);
  EXPECT_EQ(file.Find("wide")->Integer(), std::numeric_limits<int64_t>::max());
  EXPECT_EQ(file.Find("signed")->Integer(0), -3);
  EXPECT_EQ(file.Find("signed")->Integer(1), 4);
  EXPECT_FLOAT_EQ(static_cast<float>(file.Find("llama.rope.freq_base")->Float()), 10000.0f);
  EXPECT_EQ(file.Find("tokenizer.ggml.tokens")->Strings()[15], "token 15");
  EXPECT_EQ(file.Find("tokenizer.ggml.tokens")->TypeName(), "array of string");
  EXPECT_EQ(file.Find("nothing"), nullptr);
  EXPECT_EQ(file.tensors().size(), model.tensors.size());
  const GgufTensor* const tensor = file.FindTensor("blk.1.attn_v.weight");
  ASSERT_NE(tensor, nullptr);
  EXPECT_THAT(tensor->shape, ElementsAre(32, 16, 1, 1));
  EXPECT_EQ(tensor->num_bytes, 32u * 16 * 4);
  EXPECT_EQ(file.data_begin() + tensor->offset + tensor->num_bytes, bytes.size());
  EXPECT_EQ(GgufParts::Of(file, bytes).data, model.data);
}

TEST(GgufFileTest, RefusesWhatIsNoGguf) {
  EXPECT_THAT(Parse("").status(),
              FailsWith(StatusCode::kInvalidArgument,
                        AllOf(HasSubstr("begin with 'GGUF'"), HasSubstr("found ''"))));
  EXPECT_THAT(Parse("# A text, not a model").status(),
              FailsWith(StatusCode::kInvalidArgument, HasSubstr("'# A text'")));
  GgufParts model = SmallModel();
  model.version = 99;
  EXPECT_THAT(Parse(model.Bytes()).status(),
              FailsWith(StatusCode::kInvalidArgument, HasSubstr("version 99")));
}

TEST(GgufFileTest, EveryPrefixIsRefused) {
  const std::string bytes = SmallModel().Bytes();
  for (size_t length = 0; length < bytes.size(); length += length < 2000 ? 1 : 97) {
    const Result<GgufFile> file = Parse(std::string_view(bytes).substr(0, length));
    ASSERT_EQ(file.status().code(), StatusCode::kInvalidArgument) << length;
  }
  EXPECT_THAT(Parse(std::string_view(bytes).substr(0, 200)).status(),
              Refuses("key 4's name", "cut off"));
  EXPECT_THAT(Parse(std::string_view(bytes).substr(0, bytes.size() - 1)).status(),
              Refuses("tensor 'blk.1.attn_v.weight'", "not within the file"));
}

TEST(GgufFileTest, RefusesKeysThatAreNoneOrThereTwice) {
  GgufParts model = SmallModel();
  model.values.emplace_back("llama.block_count", GgufUint32(3));
  EXPECT_THAT(Parse(model.Bytes()).status(), Refuses("llama.block_count", "there twice"));
  model = SmallModel();
  model.Set("", GgufUint32(3));
  EXPECT_THAT(Parse(model.Bytes()).status(), Refuses("'s name", "''"));
  model = SmallModel();
  model.Set(std::string("llama.block_count\0x", 19), GgufUint32(3));
  EXPECT_THAT(Parse(model.Bytes()).status(), Refuses("'s name", "block_count\\x00x"));
  model = SmallModel();
  model.Set(std::string(70000, 'k'), GgufUint32(3));
  EXPECT_THAT(Parse(model.Bytes()).status(), Refuses("'s name", "70000 bytes"));
}

TEST(GgufFileTest, RefusesValuesThatCantBe) {
  const auto with = [](const std::string& value) {
    GgufParts model = SmallModel();
    model.Set("key", value);
    return Parse(model.Bytes()).status();
  };
  const std::string kType13("\x0d\0\0\0", 4);
  const std::string kArray("\x09\0\0\0", 4);
  const std::string kText("\x08\0\0\0", 4);
  const std::string kFloats("\x06\0\0\0", 4);
  const std::string kHuge("\xff\xff\xff\xff\xff\xff\xff\x7f", 8);
  EXPECT_THAT(with(kType13), Refuses("key", "type 13"));
  EXPECT_THAT(with(kArray + kArray + std::string(8, '\0')), Refuses("key", "array of arrays"));
  EXPECT_THAT(with(kText + kHuge), Refuses("key", "9223372036854775807 bytes"));
  EXPECT_THAT(with(kText + std::string("\0\0\0\x08\0\0\0\0", 8)), Refuses("key", "cut off"));
  for (const std::string& type : {kText, kFloats}) {
    EXPECT_THAT(with(kArray + type + kHuge), Refuses("key", "9223372036854775807 elements"));
  }
  EXPECT_THAT(with(kArray + kText + std::string("\x02\0\0\0\0\0\0\0", 8) + kHuge),
              Refuses("key", "9223372036854775807 bytes"));
}

TEST(GgufFileTest, RefusesNumbersOfKeysAndTensorsThatTheFileCantHold) {
  for (const size_t at : {size_t{8}, size_t{16}}) {
    std::string bytes = SmallModel().Bytes();
    bytes.replace(at, 8, std::string(8, '\xff'));
    EXPECT_EQ(Parse(bytes).status().code(), StatusCode::kInvalidArgument);
  }
}

TEST(GgufFileTest, RefusesAlignmentsThatGgmlsBuffersDontHave) {
  for (const uint32_t alignment : {0u, 1u, 16u, 33u, 96u, 4294967295u, 2147483648u}) {
    GgufParts model = SmallModel();
    model.Set("general.alignment", GgufUint32(alignment));
    EXPECT_THAT(Parse(model.Bytes()).status(),
                Refuses("general.alignment", std::to_string(alignment).c_str()));
  }
  GgufParts model = SmallModel();
  model.Set("general.alignment", GgufText("32"));
  EXPECT_THAT(Parse(model.Bytes()).status(), Refuses("general.alignment", "string"));
  model.Set("general.alignment", GgufUint32(32));
  ATTNDB_EXPECT_OK(Parse(model.Bytes()).status());
}

TEST(GgufFileTest, RefusesTensorsThatCantBe) {
  const auto with = [](const std::function<void(GgufParts::Tensor*)>& change) {
    GgufParts model = SmallModel();
    change(&model.tensors[0]);
    return Parse(model.Bytes()).status();
  };
  const char* const name = "tensor 'token_embd.weight'";
  EXPECT_THAT(with([](auto* t) { t->type = 5; }), Refuses(name, "type 5"));
  EXPECT_THAT(with([](auto* t) { t->type = 4000000000; }), Refuses(name, "type 4000000000"));
  EXPECT_THAT(with([](auto* t) { t->shape = {}; }), Refuses(name, "0 dimensions"));
  EXPECT_THAT(with([](auto* t) { t->shape = {1, 1, 1, 1, 1}; }), Refuses(name, "5 dimensions"));
  EXPECT_THAT(with([](auto* t) { t->shape = {32, 0}; }), Refuses(name, "shape 32 x 0"));
  EXPECT_THAT(with([](auto* t) {
                t->shape = {32, uint64_t{1} << 63};
              }),
              Refuses(name, "32 x 9223372036854775808"));
  // 2^64 elements, which is 0 in 64 bits.
  EXPECT_THAT(with([](auto* t) {
                t->shape = {1 << 16, 1 << 16, 1 << 16, 1 << 16};
              }),
              Refuses(name, "65536 x 65536 x 65536 x 65536"));
  EXPECT_THAT(with([](auto* t) {
                t->shape = {31, 16}, t->type = 8;
              }),
              Refuses(name, "shape 31 x 16"));
  EXPECT_THAT(with([](auto* t) { t->offset = 32; }), Refuses(name, "offset 32"));
  EXPECT_THAT(with([](auto* t) {
                t->shape = {32, 17};
              }),
              Refuses("tensor 'output_norm.weight'", "offset 2048"));
  EXPECT_THAT(with([](auto* t) { t->name = "output_norm.weight"; }),
              Refuses("tensor 'output_norm.weight'", "there twice"));
  EXPECT_THAT(with([](auto* t) { t->name = std::string(64, 'n'); }), Refuses("tensor 0", "64"));
  EXPECT_THAT(with([](auto* t) { t->name = ""; }), Refuses("tensor 0", "''"));
}

TEST(GgufFileTest, FlippedBytesAreRefusedOrInBounds) {
  std::mt19937_64 random(test::SeedOr(3));
  const std::string bytes = SmallModel().Bytes();
  const size_t head = bytes.size() - SmallModel().data.size();
  int num_refused = 0;
  for (int round = 0; round < 3000; ++round) {
    std::string flipped = bytes;
    flipped[random() % head] ^= static_cast<char>(1u << random() % 8);
    const Result<GgufFile> file = Parse(flipped);
    if (!file.ok()) {
      ++num_refused;
      continue;
    }
    for (const GgufTensor& tensor : file->tensors()) {
      ASSERT_LE(file->data_begin() + tensor.offset + tensor.num_bytes, bytes.size());
    }
  }
  EXPECT_GT(num_refused, 500);
  EXPECT_LT(num_refused, 2500) << "flips of names and values leave a file that can be read";
}

}  // namespace
}  // namespace attndb::llama
