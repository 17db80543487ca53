// Goal:   each field of a model that llama.cpp would end the process over is refused by its name.
// Method: a small model that is in order, made byte by byte, with one thing changed at a time.
#include "engines/llama/gguf_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "engines/llama/gguf_test_util.h"
#include "testing/matchers.h"

namespace attndb::llama {
namespace {

using ::attndb::test::FailsWith;
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

Status CheckParts(const std::vector<GgufParts>& models) {
  const std::vector<TensorForm> forms = FewTensorForms();
  std::vector<std::string> bytes;
  for (const GgufParts& model : models) bytes.push_back(model.Bytes());
  std::vector<GgufFile> files;
  for (size_t i = 0; i < bytes.size(); ++i) {
    const std::string name = "part" + std::to_string(i) + ".gguf";
    ATTNDB_ASSIGN_OR_RETURN(GgufFile file, GgufFile::Parse(AsBytes(bytes[i]), forms, name));
    files.push_back(std::move(file));
  }
  return CheckModelFields(files, forms);
}

Status Check(const GgufParts& model) { return CheckParts({model}); }

Status With(const std::string& key, const std::string& value) {
  GgufParts model = SmallModel();
  model.Set(key, value);
  return Check(model);
}

Status Without(const std::string& key) {
  GgufParts model = SmallModel();
  model.Remove(key);
  return Check(model);
}

auto Refuses(const std::string& field, const std::string& found) {
  return FailsWith(StatusCode::kInvalidArgument,
                   AllOf(HasSubstr("'part0.gguf': " + field + " is " + found),
                         HasSubstr(", expected "), HasSubstr("download or convert it again")));
}

TEST(GgufCheckTest, TakesAModelThatIsInOrder) {
  ATTNDB_EXPECT_OK(Check(SmallModel()));
  ATTNDB_EXPECT_OK(With("llama.attention.head_count", GgufUint32s(std::vector<uint32_t>{4, 8})));
  ATTNDB_EXPECT_OK(With("llama.feed_forward_length", GgufInt32s(std::vector<int32_t>{48, 0})));
  ATTNDB_EXPECT_OK(With("llama.rope.scaling.factor", GgufFloat32(0.0f)));
  ATTNDB_EXPECT_OK(With("llama.unknown", GgufFloat32(-kInfinity)));
  ATTNDB_EXPECT_OK(With("somebody.else", GgufFloat32(kNan)));
  ATTNDB_EXPECT_OK(With("llama.attention.sliding_window", GgufUint32(2147483647)))
      << "some converters' way to say none";
  ATTNDB_EXPECT_OK(Without("llama.rope.scaling.type"));
  ATTNDB_EXPECT_OK(Without("llama.attention.key_length")) << "32 channels are 4 heads of 8";
}

TEST(GgufCheckTest, RefusesCountsOutOfRange) {
  const std::string layers = "llama.block_count";
  for (const uint32_t count : {0u, 513u, 1000000u, 4294967295u}) {
    EXPECT_THAT(With(layers, GgufUint32(count)), Refuses(layers, std::to_string(count)));
  }
  EXPECT_THAT(Without(layers), Refuses(layers, "missing"));
  for (const char* const key :
       {"llama.context_length", "llama.embedding_length", "llama.attention.key_length",
        "llama.attention.value_length", "llama.vocab_size"}) {
    EXPECT_THAT(With(key, GgufUint32(0)), Refuses(key, "0"));
    EXPECT_THAT(With(key, GgufUint32(4294967295)), Refuses(key, "4294967295"));
  }
  for (const char* const key :
       {"llama.feed_forward_length", "llama.attention.head_count", "llama.attention.head_count_kv",
        "llama.expert_count", "llama.expert_used_count", "llama.attention.sliding_window",
        "llama.rope.dimension_count", "llama.expert_gating_func",
        "llama.rope.scaling.original_context_length"}) {
    EXPECT_THAT(With(key, GgufUint32(2147483648)), Refuses(key, "2147483648"));
  }
}

TEST(GgufCheckTest, RefusesValuesOfAnotherType) {
  EXPECT_THAT(With("llama.block_count", GgufInt32(2)),
              Refuses("llama.block_count", "of type int32"));
  EXPECT_THAT(With("llama.context_length", GgufUint32s(std::vector<uint32_t>{64, 64})),
              Refuses("llama.context_length", "of type array of uint32"));
  EXPECT_THAT(With("llama.rope.freq_base", GgufUint32(10000)),
              Refuses("llama.rope.freq_base", "of type uint32"));
  EXPECT_THAT(With("llama.rope.scaling.type", GgufUint32(1)),
              Refuses("llama.rope.scaling.type", "of type uint32"));
  EXPECT_THAT(With("general.architecture", GgufUint32(1)),
              Refuses("general.architecture", "of type uint32"));
  EXPECT_THAT(Without("general.architecture"), Refuses("general.architecture", "missing"));
  EXPECT_THAT(With("llama.attention.head_count", GgufFloat32s(std::vector<float>{4, 4})),
              Refuses("llama.attention.head_count", "an array of float32"));
}

TEST(GgufCheckTest, RefusesListsThatAreNotOneForEachLayer) {
  EXPECT_THAT(With("llama.attention.head_count", GgufUint32s(std::vector<uint32_t>{4})),
              Refuses("llama.attention.head_count", "an array of 1 elements"));
  EXPECT_THAT(With("llama.attention.head_count", GgufInt32s(std::vector<int32_t>{4, -4})),
              Refuses("llama.attention.head_count", "-4 in one layer"));
}

TEST(GgufCheckTest, RefusesNumbersThatAreNoneOrOutOfRange) {
  const std::string epsilon = "llama.attention.layer_norm_rms_epsilon";
  EXPECT_THAT(With(epsilon, GgufFloat32(kNan)), Refuses(epsilon, "nan"));
  EXPECT_THAT(With(epsilon, GgufFloat32(-1)), Refuses(epsilon, "-1"));
  EXPECT_THAT(With(epsilon, GgufFloat32(kInfinity)), Refuses(epsilon, "inf"));
  EXPECT_THAT(With("llama.rope.freq_base", GgufFloat32(0)), Refuses("llama.rope.freq_base", "0"));
  EXPECT_THAT(With("llama.rope.freq_base", GgufFloat32(-5)), Refuses("llama.rope.freq_base", "-5"));
  for (const char* const key : {"llama.rope.freq_base", "llama.rope.scaling.factor",
                                "llama.attn_logit_softcapping", "llama.attention.scale"}) {
    EXPECT_THAT(With(key, GgufFloat32(kNan)), Refuses(key, "nan"));
    EXPECT_THAT(With(key, GgufFloat32(kInfinity)), Refuses(key, "inf"));
  }
  EXPECT_THAT(With("llama.unknown", GgufFloat32(kNan)), Refuses("llama.unknown", "NaN"));
  EXPECT_THAT(With("llama.rope.scaling.type", GgufText("dynamic")),
              Refuses("llama.rope.scaling.type", "'dynamic'"));
}

TEST(GgufCheckTest, RefusesLayersThatTheTensorsDontHave) {
  for (const uint32_t count : {1u, 3u}) {
    EXPECT_THAT(With("llama.block_count", GgufUint32(count)),
                Refuses("llama.block_count", std::to_string(count)));
  }
  EXPECT_THAT(With("llama.nextn_predict_layers", GgufUint32(2)),
              Refuses("llama.nextn_predict_layers", "2"));
  // A converter may leave out the layers that predict more than the next token.
  GgufParts model = SmallModel();
  model.Set("llama.block_count", GgufUint32(3));
  model.Set("llama.nextn_predict_layers", GgufUint32(1));
  ATTNDB_EXPECT_OK(Check(model));
}

TEST(GgufCheckTest, RefusesExpertsThatDontAddUp) {
  const std::string used = "llama.expert_used_count";
  for (const uint32_t count : {0u, 5u}) {
    EXPECT_THAT(With(used, GgufUint32(count)), Refuses(used, std::to_string(count)));
  }
  EXPECT_THAT(Without(used), Refuses(used, "0"));
  EXPECT_THAT(Without("llama.expert_count"), Refuses(used, "2"));
  EXPECT_THAT(With("llama.expert_group_count", GgufUint32(3)),
              Refuses("llama.expert_group_count", "3"));
  EXPECT_THAT(With("llama.expert_group_count", GgufUint32(4)),
              Refuses("llama.expert_group_count", "4"));
  EXPECT_THAT(With("llama.expert_group_count", GgufUint32(2)),
              Refuses("llama.expert_group_used_count", "0"));
  GgufParts dense = SmallModel();
  dense.Remove("llama.expert_count");
  dense.Remove(used);
  ATTNDB_EXPECT_OK(Check(dense));
}

TEST(GgufCheckTest, RefusesHeadsThatDontFitTheTensors) {
  EXPECT_THAT(With("llama.embedding_length", GgufUint32(64)),
              Refuses("llama.embedding_length", "64"));
  EXPECT_THAT(With("llama.attention.head_count_kv", GgufUint32(3)),
              Refuses("llama.attention.head_count_kv", "3"));
  EXPECT_THAT(With("llama.attention.head_count_kv", GgufUint32(0)),
              Refuses("llama.attention.head_count_kv", "0"));
  EXPECT_THAT(With("llama.attention.head_count_kv", GgufUint32(1)),
              Refuses("llama.attention.key_length", "8 x 1"));
  EXPECT_THAT(With("llama.attention.head_count_kv", GgufUint32s(std::vector<uint32_t>{2, 4})),
              Refuses("llama.attention.key_length", "8 x 4"));
  EXPECT_THAT(With("llama.attention.key_length", GgufUint32(10)),
              Refuses("llama.attention.key_length", "10 x 2"));
  EXPECT_THAT(With("llama.attention.value_length", GgufUint32(10)),
              Refuses("llama.attention.value_length", "10 x 2"));
  GgufParts cut = SmallModel();
  cut.Remove("llama.attention.key_length");
  cut.Set("llama.attention.head_count", GgufUint32(6));
  EXPECT_THAT(Check(cut), Refuses("llama.attention.head_count", "6"));
}

TEST(GgufCheckTest, RefusesQueryHeadsThatTheirTensorDoesNotHave) {
  GgufParts model = SmallModel();
  model.AddTensor("blk.1.attn_q.weight", {32, 32});
  ATTNDB_EXPECT_OK(Check(model));
  for (const uint32_t heads : {2u, 8u, 65536u}) {
    model.Set("llama.attention.head_count", GgufUint32(heads));
    EXPECT_THAT(Check(model),
                Refuses("llama.attention.head_count", std::to_string(heads) + " x 8"));
  }
}

TEST(GgufCheckTest, RefusesAWindowThatNoLayerHas) {
  const std::string pattern = "llama.attention.sliding_window_pattern";
  GgufParts model = SmallModel();
  model.Set(pattern, GgufUint32(1));
  ATTNDB_EXPECT_OK(Check(model)) << "there is no window";
  model.Set("llama.attention.sliding_window", GgufUint32(16));
  EXPECT_THAT(Check(model), Refuses(pattern, "1"));
  model.Set(pattern, GgufInt32s(std::vector<int32_t>{0, 0}));
  EXPECT_THAT(Check(model), Refuses(pattern, "an array without a layer"));
  model.Set(pattern, GgufText("x"));
  EXPECT_THAT(Check(model), Refuses(pattern, "of type string"));
  for (const std::string& value :
       {GgufUint32(0), GgufUint32(2), GgufInt32s(std::vector<int32_t>{0, 1})}) {
    model.Set(pattern, value);
    ATTNDB_EXPECT_OK(Check(model));
  }
}

TEST(GgufCheckTest, RefusesLatentKeysThatDontAddUp) {
  GgufParts model = SmallModel();
  model.Set("general.architecture", GgufText("deepseek2"));
  for (auto& [key, value] : model.values) {
    if (key.starts_with("llama.")) key = "deepseek2." + key.substr(6);
  }
  const auto set = [&](const std::string& key, uint32_t value) {
    model.Set("deepseek2." + key, GgufUint32(value));
  };
  set("attention.kv_lora_rank", 16);
  set("attention.head_count_kv", 1);
  set("attention.key_length", 24);
  set("attention.key_length_mla", 12);
  set("attention.value_length_mla", 12);
  ATTNDB_EXPECT_OK(Check(model));
  set("attention.key_length", 25);
  EXPECT_THAT(Check(model), Refuses("deepseek2.attention.key_length", "25"));
  set("attention.key_length", 24);
  set("attention.key_length_mla", 8);
  EXPECT_THAT(Check(model), Refuses("deepseek2.attention.key_length_mla", "8"));
  set("attention.key_length_mla", 12);
  set("attention.head_count_kv", 2);
  EXPECT_THAT(Check(model), Refuses("deepseek2.attention.head_count_kv", "2"));
  set("attention.head_count_kv", 1);
  model.Remove("deepseek2.attention.key_length");
  EXPECT_THAT(Check(model), Refuses("deepseek2.attention.key_length", "missing"));
}

TEST(GgufCheckTest, RefusesRopeThatTurnsOtherThanTheHeads) {
  for (const uint32_t dims : {0u, 4u, 7u, 10u, 65536u}) {
    EXPECT_THAT(With("llama.rope.dimension_count", GgufUint32(dims)),
                Refuses("llama.rope.dimension_count", std::to_string(dims)));
  }
  // Phi turns a part of each head.
  GgufParts model = SmallModel();
  for (auto& [key, value] : model.values) {
    if (key.starts_with("llama.")) key = "phi3." + key.substr(6);
  }
  model.Set("general.architecture", GgufText("phi3"));
  model.Set("phi3.rope.dimension_count", GgufUint32(4));
  ATTNDB_EXPECT_OK(Check(model));
  for (const uint32_t dims : {3u, 10u}) {
    model.Set("phi3.rope.dimension_count", GgufUint32(dims));
    EXPECT_THAT(Check(model), Refuses("phi3.rope.dimension_count", std::to_string(dims)));
  }
}

TEST(GgufCheckTest, RefusesTensorsOfTypesThatCantBeComputedWith) {
  GgufParts model = SmallModel();
  model.tensors[1].type = 1;  // output_norm.weight in float16.
  EXPECT_THAT(Check(model), FailsWith(StatusCode::kInvalidArgument, HasSubstr("offset")));
  model = SmallModel();
  model.tensors.push_back({"blk.1.attn_norm.bias", {32}, 1, model.data.size()});
  model.data.append(64, '\0');
  EXPECT_THAT(Check(model), Refuses("tensor 'blk.1.attn_norm.bias'", "of type 1"));
  model = SmallModel();
  model.tensors.push_back({"blk.1.ffn_up.weight", {32, 2}, 24, model.data.size()});
  model.data.append(64, '\0');
  EXPECT_THAT(Check(model), Refuses("tensor 'blk.1.ffn_up.weight'", "of type 24"));
}

TEST(GgufCheckTest, RefusesPartsThatAreNotOfOneModel) {
  const auto part = [](uint16_t no, uint16_t count) {
    GgufParts model = no == 0 ? SmallModel() : GgufParts();
    model.Set("split.no", GgufUint16(no));
    model.Set("split.count", GgufUint16(count));
    return model;
  };
  ATTNDB_EXPECT_OK(CheckParts({part(0, 2), part(1, 2)}));
  EXPECT_THAT(CheckParts({part(0, 3), part(1, 3)}), Refuses("split.count", "3"));
  EXPECT_THAT(CheckParts({part(0, 2), part(0, 2)}),
              FailsWith(StatusCode::kInvalidArgument, HasSubstr("'part1.gguf': split.no is 0")));
  GgufParts wrong = part(1, 2);
  wrong.Set("split.no", GgufUint32(1));
  EXPECT_THAT(CheckParts({part(0, 2), wrong}),
              FailsWith(StatusCode::kInvalidArgument, HasSubstr("split.no is of type uint32")));
  EXPECT_THAT(With("split.count", GgufUint16(9)), Refuses("split.count", "9"));
}

TEST(GgufCheckTest, RefusesVocabulariesThatLlamaCppCantRead) {
  const std::string tokens = "tokenizer.ggml.tokens";
  EXPECT_THAT(Without("tokenizer.ggml.model"), Refuses("tokenizer.ggml.model", "missing"));
  EXPECT_THAT(Without(tokens), Refuses(tokens, "missing"));
  EXPECT_THAT(With(tokens, GgufUint32(1)), Refuses(tokens, "of type uint32"));
  EXPECT_THAT(With(tokens, GgufTexts(std::vector<std::string>{"a"})),
              Refuses(tokens, "an array of 1 tokens"));
  std::vector<std::string> texts;
  for (int i = 0; i < 16; ++i) texts.push_back(std::to_string(i));
  ATTNDB_EXPECT_OK(With(tokens, GgufTexts(texts)));
  texts[9] = "5";
  EXPECT_THAT(With(tokens, GgufTexts(texts)), Refuses("token 9 of " + tokens, "'5', as token 5"));
  texts[9] = std::string("5\0end", 5);
  EXPECT_THAT(With(tokens, GgufTexts(texts)), Refuses("token 9 of " + tokens, "'5\\x00end'"));
  texts[9] = "";
  ATTNDB_EXPECT_OK(With(tokens, GgufTexts(texts)));
  texts[10] = "[EMPTY_9]";
  EXPECT_THAT(With(tokens, GgufTexts(texts)), Refuses("token 10 of " + tokens, "'[EMPTY_9]'"));
  const std::string scores = "tokenizer.ggml.scores";
  EXPECT_THAT(With(scores, GgufFloat32s(std::vector<float>(15))),
              Refuses(scores, "an array of 15 elements"));
  EXPECT_THAT(With(scores, GgufFloat32s(std::vector<float>(16, kNan))), Refuses(scores, "NaN"));
  EXPECT_THAT(With(scores, GgufText("none")), Refuses(scores, "of type string"));
  EXPECT_THAT(With("tokenizer.ggml.token_type", GgufUint32s(std::vector<uint32_t>(16, 1))),
              Refuses("tokenizer.ggml.token_type", "of type array of uint32"));
  EXPECT_THAT(With("tokenizer.ggml.merges", GgufText("a b")),
              Refuses("tokenizer.ggml.merges", "of type string"));
  EXPECT_THAT(With("tokenizer.ggml.model", GgufText("rwkv")),
              FailsWith(StatusCode::kUnsupported, HasSubstr("RWKV")));
}

TEST(GgufCheckTest, RefusesTextsThatWouldBeginWithATokenThatIsNotThere) {
  const std::string begin = "tokenizer.ggml.bos_token_id";
  EXPECT_THAT(With(begin, GgufInt32(1)), Refuses(begin, "of type int32"));
  ATTNDB_EXPECT_OK(With(begin, GgufUint32(4294967295))) << "llama.cpp takes 1 instead";
  EXPECT_THAT(With("tokenizer.ggml.add_bos_token", GgufUint32(1)),
              Refuses("tokenizer.ggml.add_bos_token", "of type uint32"));
  GgufParts model = SmallModel();
  model.Set("tokenizer.ggml.model", GgufText("t5"));
  model.Set(begin, GgufUint32(16));
  EXPECT_THAT(Check(model), Refuses(begin, "16"));
  model.Remove(begin);
  EXPECT_THAT(Check(model), Refuses(begin, "missing"));
  model.Set("tokenizer.ggml.add_bos_token", GgufBool(false));
  ATTNDB_EXPECT_OK(Check(model));
}

TEST(GgufCheckTest, RefusesIdsWithoutAVocabularyThatAreNotOfTheEmbedding) {
  GgufParts model = SmallModel();
  model.Set("tokenizer.ggml.model", GgufText("no_vocab"));
  ATTNDB_EXPECT_OK(Check(model));
  model.Set("llama.vocab_size", GgufUint32(2147483647));
  EXPECT_THAT(Check(model), Refuses("llama.vocab_size", "2147483647"));
}

TEST(GgufCheckTest, RefusesAdaptersWithFieldsOfAnotherType) {
  const std::vector<TensorForm> forms = FewTensorForms();
  const auto check = [&](const std::string& key, const std::string& value) {
    GgufParts adapter;
    for (const char* const text : {"general.type", "general.architecture", "adapter.type"}) {
      adapter.Set(text, GgufText("x"));
    }
    adapter.Set("adapter.lora.alpha", GgufFloat32(8.0f));
    adapter.Set(key, value);
    const std::string bytes = adapter.Bytes();
    const Result<GgufFile> file = GgufFile::Parse(AsBytes(bytes), forms, "part0.gguf");
    return file.ok() ? CheckAdapterFields(*file, forms) : file.status();
  };
  ATTNDB_EXPECT_OK(check("general.name", GgufText("x")));
  for (const char* const key : {"general.type", "general.architecture", "adapter.type"}) {
    EXPECT_THAT(check(key, GgufUint32(1)), Refuses(key, "of type uint32"));
  }
  EXPECT_THAT(check("adapter.lora.alpha", GgufUint32(1)),
              Refuses("adapter.lora.alpha", "of type uint32"));
  EXPECT_THAT(check("adapter.lora.alpha", GgufFloat32(kNan)), Refuses("adapter.lora.alpha", "nan"));
}

}  // namespace
}  // namespace attndb::llama
