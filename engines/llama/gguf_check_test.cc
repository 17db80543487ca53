// Goal:   the checks of a model file refuse what plain llama.cpp dies of or goes wrong with, and
//         name the field; they take what it loads.
// Method: a file for each refusal, on which plain llama.cpp is seen to die or to compute no
//         numbers, in a child process; models of many architectures, which it is seen to run.
// Note:   each death here is by an assertion, a null pointer or a division by zero, the same on
//         every run: none hangs on what lies behind the end of an array.
#include "engines/llama/gguf_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <functional>
#include <limits>
#include <ostream>
#include <set>

#include "engines/llama/child_process.h"
#include "engines/llama/engine_test_util.h"
#include "engines/llama/gguf_test_util.h"
#include "engines/llama/model_file.h"
#include "testing/matchers.h"
#include "testing/temp_dir.h"

namespace attndb::llama {
namespace {

using ::attndb::test::FailsWith;
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr uint32_t kFloat16 = 1;
constexpr uint32_t kInt32 = 26;

GgufParts ArchModel(const std::string& name) {
  const Result<GgufFile> file = GgufFile::Open(ArchModels() + "/" + name + ".gguf");
  EXPECT_TRUE(file.ok()) << file.status().ToString();
  return GgufParts::Of(*file);
}

std::string Write(const std::string& path, const GgufParts& parts) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << parts.Bytes();
  return path;
}

struct Refusal {
  const char* name;   // Name of the test.
  const char* model;  // A model of scripts/make_arch_models.py.
  std::function<void(GgufParts*)> damage;
  const char* field;  // What the error is to name, with what was found.
};

void PrintTo(const Refusal& refusal, std::ostream* out) { *out << refusal.name; }

std::function<void(GgufParts*)> Count(const char* key, uint32_t count) {
  return [=](GgufParts* model) { model->Set(key, GgufUint32(count)); };
}

std::function<void(GgufParts*)> Real(const char* key, float real) {
  return [=](GgufParts* model) { model->Set(key, GgufFloat32(real)); };
}

std::function<void(GgufParts*)> Counts(const char* key, std::vector<uint32_t> counts) {
  return [=](GgufParts* model) { model->Set(key, GgufUint32s(counts)); };
}

std::function<void(GgufParts*)> Type(const char* ending, std::vector<uint64_t> shape,
                                     uint32_t type) {
  return [=](GgufParts* model) { model->Replace(ending, shape, type); };
}

const Refusal kRefusals[] = {
    // Types of tensors.
    {"NormOfFloat16", "llama", Type("attn_norm.weight", {64}, kFloat16), "blk.0.attn_norm.weight"},
    {"BiasOfFloat16", "qwen2", Type("attn_q.bias", {64}, kFloat16), "blk.0.attn_q.bias"},
    {"ExpertBiasOfFloat16", "gpt_oss", Type("up_exps.bias", {96, 4}, kFloat16), "up_exps.bias"},
    {"SinksOfFloat16", "gpt_oss", Type("sinks.weight", {4}, kFloat16), "blk.0.attn_sinks.weight"},
    {"RopeFactorsOfFloat16", "phi3", Type("short.weight", {8}, kFloat16), "rope_factors_short"},
    {"WeightsOfIntegers", "llama", Type("attn_q.weight", {64, 64}, kInt32), "blk.0.attn_q.weight"},
    // The file.
    {"Alignment", "llama", Count("general.alignment", 8), "general.alignment is 8"},
    // Layers.
    {"NoLayer", "llama", Count("llama.block_count", 0), "llama.block_count is 0"},
    {"TooManyLayers", "llama", Count("llama.block_count", 513), "llama.block_count is 513"},
    {"MorePredictingLayers", "llama", Count("llama.nextn_predict_layers", 3),
     "llama.nextn_predict_layers is 3"},
    {"AllLayersPredicting", "deepseek2", Count("deepseek2.nextn_predict_layers", 2),
     "deepseek2.nextn_predict_layers is 2"},
    // Reals.
    {"NegativeEpsilon", "llama", Real("llama.attention.layer_norm_rms_epsilon", -1),
     "llama.attention.layer_norm_rms_epsilon is -1"},
    {"NegativeLayerNormEpsilon", "gpt2", Real("gpt2.attention.layer_norm_epsilon", -1),
     "gpt2.attention.layer_norm_epsilon is -1"},
    {"NoNumberEpsilon", "llama", Real("llama.attention.layer_norm_rms_epsilon", std::nanf("")),
     "llama.attention.layer_norm_rms_epsilon is nan"},
    {"NoRopeBase", "qwen2", Real("qwen2.rope.freq_base", 0), "qwen2.rope.freq_base is 0"},
    {"NegativeRopeBaseOfWindows", "gemma3", Real("gemma3.rope.freq_base_swa", -1),
     "gemma3.rope.freq_base_swa is -1"},
    {"RopeFactorWithoutInverse", "llama", Real("llama.rope.scaling.factor", 1e-40f),
     "llama.rope.scaling.factor is 9.99995e-41"},
    {"NegativeRopeFactor", "gpt_oss", Real("gpt-oss.rope.scaling.factor", -1),
     "gpt-oss.rope.scaling.factor is -1"},
    {"InfiniteScale", "granite", Real("granite.attention.scale", kInfinity),
     "granite.attention.scale is inf"},
    {"NoNumberSoftCap", "gemma2", Real("gemma2.final_logit_softcapping", std::nanf("")),
     "gemma2.final_logit_softcapping is nan"},
    // RoPE.
    {"UnknownRopeScaling", "llama",
     [](GgufParts* model) { model->Set("llama.rope.scaling.type", GgufText("spiral")); },
     "llama.rope.scaling.type is 'spiral'"},
    {"OriginalContextAboveInt32", "gpt_oss",
     Count("gpt-oss.rope.scaling.original_context_length", 1u << 31),
     "gpt-oss.rope.scaling.original_context_length is 2147483648"},
    {"RopeOfMoreThanAHead", "phi2", Count("phi2.rope.dimension_count", 18),
     "phi2.rope.dimension_count is 18"},
    {"RopeOfHalfAPair", "phi2", Count("phi2.rope.dimension_count", 7),
     "phi2.rope.dimension_count is 7"},
    {"RopeOfMoreThanAHeadInWindows", "gemma3", Count("gemma3.rope.dimension_count_swa", 18),
     "gemma3.rope.dimension_count_swa is 18"},
    {"RopeOfHalfAPairInWindows", "gemma3", Count("gemma3.rope.dimension_count_swa", 7),
     "gemma3.rope.dimension_count_swa is 7"},
    {"RopeOfAPartOfAHead", "granite", Count("granite.rope.dimension_count", 8),
     "granite.rope.dimension_count is 8"},
    // Experts.
    {"TooManyExperts", "qwen2moe", Count("qwen2moe.expert_count", 1025),
     "qwen2moe.expert_count is 1025"},
    {"UnknownGating", "deepseek2", Count("deepseek2.expert_gating_func", 5),
     "deepseek2.expert_gating_func is 5"},
    {"MoreExpertsUsed", "qwen2moe", Count("qwen2moe.expert_used_count", 5),
     "qwen2moe.expert_used_count is 5"},
    {"NoExpertUsed", "gpt_oss", Count("gpt-oss.expert_used_count", 0),
     "gpt-oss.expert_used_count is 0"},
    {"ExpertsUsedOfNone", "llama", Count("llama.expert_used_count", 1),
     "llama.expert_used_count is 1, expected 0, since"},
    {"NoExpertUsedWithoutGates", "llama", Count("llama.expert_count", 4),
     "llama.expert_used_count is 0, expected 1 to"},
    {"NoExpertUsedInOneLayer", "qwen2moe", Counts("qwen2moe.expert_used_count", {2, 0}),
     "qwen2moe.expert_used_count is 0 of layer 1"},
    {"AsManyGroupsAsExperts", "qwen2moe", Count("qwen2moe.expert_group_count", 4),
     "qwen2moe.expert_group_count is 4"},
    {"GroupsThatDoNotDivide", "qwen2moe", Count("qwen2moe.expert_group_count", 3),
     "qwen2moe.expert_group_count is 3"},
    {"GroupsOfNone", "llama", Count("llama.expert_group_count", 1),
     "llama.expert_group_count is 1"},
    {"NoGroupUsed", "qwen2moe", Count("qwen2moe.expert_group_count", 2),
     "qwen2moe.expert_group_used_count is 0"},
    {"AllGroupsUsed", "qwen2moe",
     [](GgufParts* model) {
       model->Set("qwen2moe.expert_group_count", GgufUint32(2));
       model->Set("qwen2moe.expert_group_used_count", GgufUint32(2));
     },
     "qwen2moe.expert_group_used_count is 2"},
    {"GroupsOfNoExpert", "grovemoe", Count("grovemoe.experts_per_group", 0),
     "grovemoe.experts_per_group is 0"},
    {"StepOfNoLayer", "ernie4_5_moe", Count("ernie4_5-moe.interleave_moe_layer_step", 0),
     "ernie4_5-moe.interleave_moe_layer_step is 0"},
    // Heads.
    {"KvHeadsThatDoNotDivide", "llama",
     [](GgufParts* model) {
       model->Set("llama.attention.head_count_kv", GgufUint32(3));
       for (const char* const name : {"attn_k.weight", "attn_v.weight"}) {
         model->Replace(name, {64, 48});
       }
     },
     "llama.attention.head_count_kv is 3"},
    {"NoHeads", "olmo2", Count("olmo2.attention.head_count", 0),
     "olmo2.attention.head_count is 0 of 0 channels"},
    {"MoreHeadsThanQueries", "qwen2",
     [](GgufParts* model) {
       model->Set("qwen2.attention.head_count", GgufUint32(8));
       model->Set("qwen2.attention.key_length", GgufUint32(16));
       model->Set("qwen2.attention.value_length", GgufUint32(16));
     },
     "qwen2.attention.key_length is 16 in 8 heads"},
    {"ValuesOfAnotherWidth", "gpt_oss", Count("gpt-oss.attention.value_length", 8),
     "gpt-oss.attention.value_length is 8 in 2 heads"},
    {"KeysOfAnotherWidthInWindows", "gpt_oss", Count("gpt-oss.attention.key_length_swa", 1000),
     "gpt-oss.attention.key_length_swa is 1000"},
    {"ValuesOfAnotherWidthInWindows", "gpt_oss", Count("gpt-oss.attention.value_length_swa", 8),
     "gpt-oss.attention.value_length_swa is 8"},
    {"ValuesOfAnotherLength", "granite",
     [](GgufParts* model) {
       model->Set("granite.attention.key_length", GgufUint32(16));
       model->Set("granite.attention.value_length", GgufUint32(8));
       model->Replace("attn_v.weight", {64, 16});
     },
     "granite.attention.value_length is 8"},
    {"TemperatureOfNoLength", "deepseek2",
     [](GgufParts* model) {
       model->Set("deepseek2.attention.temperature_scale", GgufFloat32(0.1f));
       model->Set("deepseek2.attention.temperature_length", GgufUint32(0));
     },
     "deepseek2.attention.temperature_length is 0"},
    // Latent attention.
    {"LatentKeysWithoutOwnPart", "deepseek2", Count("deepseek2.attention.key_length_mla", 16),
     "deepseek2.attention.key_length_mla is 16"},
    {"LatentRowOfAnotherLength", "deepseek2", Count("deepseek2.attention.key_length", 64),
     "deepseek2.attention.key_length is 64"},
    {"SeveralLatentRows", "deepseek2", Count("deepseek2.attention.head_count_kv", 2),
     "deepseek2.attention.head_count_kv is 2"},
    // Windows.
    {"WindowOfNoLayer", "gemma3", Count("gemma3.attention.sliding_window_pattern", 1),
     "gemma3.attention.sliding_window_pattern is"},
    {"WindowOfNoneOfTheLayers", "gemma3", Counts("gemma3.attention.sliding_window_pattern", {0, 0}),
     "gemma3.attention.sliding_window_pattern is"},
    // Vocabularies.
    {"ATokenTwice", "llama",
     [](GgufParts* model) {
       std::vector<std::string> tokens(320);
       for (size_t i = 0; i < tokens.size(); ++i) tokens[i] = std::to_string(i % 319);
       model->Set("tokenizer.ggml.tokens", GgufTexts(tokens));
     },
     "token 319 of tokenizer.ggml.tokens is '0', as token 0"},
    {"ATokenTwiceInItsCString", "llama",
     [](GgufParts* model) {
       std::vector<std::string> tokens(320);
       for (size_t i = 0; i < tokens.size(); ++i) tokens[i] = std::to_string(i);
       tokens[9] = std::string("8\0x", 3);
       model->Set("tokenizer.ggml.tokens", GgufTexts(tokens));
     },
     "token 9 of tokenizer.ggml.tokens is '8', as token 8"},
    {"ATokenWithTheNameOfAnEmptyOne", "llama",
     [](GgufParts* model) {
       std::vector<std::string> tokens(320);
       for (size_t i = 0; i < tokens.size(); ++i) tokens[i] = std::to_string(i);
       tokens[7] = "";
       tokens[8] = "[EMPTY_7]";
       model->Set("tokenizer.ggml.tokens", GgufTexts(tokens));
     },
     "token 8 of tokenizer.ggml.tokens is '[EMPTY_7]', as token 7"},
    {"NoBegin", "llama_ugm",
     [](GgufParts* model) { model->Set("tokenizer.ggml.add_bos_token", GgufBool(true)); },
     "tokenizer.ggml.bos_token_id is missing"},
    {"BeginOutOfTheVocabulary", "llama_ugm",
     [](GgufParts* model) {
       model->Set("tokenizer.ggml.add_bos_token", GgufBool(true));
       model->Set("tokenizer.ggml.bos_token_id", GgufUint32(320));
     },
     "tokenizer.ggml.bos_token_id is 320"},
    {"NoBeginOfGemma4", "gpt2",
     [](GgufParts* model) {
       model->Set("tokenizer.ggml.model", GgufText("gemma4"));
       model->Remove("tokenizer.ggml.bos_token_id");
     },
     "tokenizer.ggml.bos_token_id is missing"},
    {"NoEndOfGemma4", "gpt2",
     [](GgufParts* model) {
       model->Set("tokenizer.ggml.model", GgufText("gemma4"));
       model->Set("tokenizer.ggml.add_eos_token", GgufBool(true));
       model->Remove("tokenizer.ggml.eos_token_id");
     },
     "tokenizer.ggml.eos_token_id is missing"},
    {"VocabularyOfRwkv", "gpt2",
     [](GgufParts* model) { model->Set("tokenizer.ggml.model", GgufText("rwkv")); },
     "tokenizer.ggml.model is rwkv"},
};

class RefusalTest : public ::testing::TestWithParam<Refusal> {
 protected:
  static bool Fails(const PlainTrial& trial) {
    return trial.end == PlainEnd::kDied || trial.end == PlainEnd::kWrong;
  }

  test::TempDir folder_ = test::TempDir::InMemory();
};

TEST_P(RefusalTest, NamesTheFieldThatPlainLlamaCppFailsOn) {
  GgufParts model = ArchModel(GetParam().model);
  GetParam().damage(&model);
  const std::string path = Write(folder_.File("damaged.gguf"), model);
  const PlainTrial trial = TryPlainLlama(path, "");
  EXPECT_TRUE(Fails(trial)) << "llama.cpp takes or refuses it itself: this refusal is for nothing\n"
                            << trial.words;
  const Status refused = CheckModelFiles({&path, 1});
  ASSERT_FALSE(refused.ok());
  EXPECT_THAT(refused.message(), AllOf(HasSubstr(path), HasSubstr(GetParam().field)));
}

INSTANTIATE_TEST_SUITE_P(Each, RefusalTest, ::testing::ValuesIn(kRefusals),
                         [](const auto& refusal) { return std::string(refusal.param.name); });

// A part that is not the first: llama.cpp asks for the number without looking at its type.
TEST_F(RefusalTest, NamesTheNumberOfAPartThatIsNone) {
  GgufParts first = ArchModel("llama");
  first.Set("split.no", GgufUint16(0));
  first.Set("split.count", GgufUint16(2));
  GgufParts second;
  second.Set("split.no", GgufUint32(1));
  second.Set("split.count", GgufUint16(2));
  const std::string files[] = {Write(folder_.File("m-00001-of-00002.gguf"), first),
                               Write(folder_.File("m-00002-of-00002.gguf"), second)};
  EXPECT_TRUE(Fails(TryPlainLlama(files[0], "")));
  EXPECT_THAT(CheckModelFiles(files),
              FailsWith(StatusCode::kInvalidArgument,
                        AllOf(HasSubstr(files[1]), HasSubstr("split.no is of another type"))));
}

TEST_F(RefusalTest, NamesTheFieldOfAnAdapter) {
  const Result<GgufFile> file = GgufFile::Open(TinyModel("llama_lora"));
  ATTNDB_ASSERT_OK(file);
  const std::string path = folder_.File("adapter.gguf");
  for (const auto& [key, value, found] :
       {std::tuple{"general.type", GgufUint32(1), "of another type"},
        std::tuple{"general.architecture", GgufUint32(1), "of another type"},
        std::tuple{"adapter.type", GgufUint32(1), "of another type"},
        std::tuple{"adapter.lora.alpha", GgufUint32(1), "of another type"},
        std::tuple{"adapter.lora.alpha", GgufFloat32(std::nanf("")), "nan"}}) {
    GgufParts adapter = GgufParts::Of(*file);
    adapter.Set(key, value);
    Write(path, adapter);
    const PlainTrial trial = TryPlainLlama(TinyModel("llama"), path);
    EXPECT_TRUE(Fails(trial)) << key << "\n" << trial.words;
    EXPECT_THAT(CheckAdapterFile(path),
                FailsWith(StatusCode::kInvalidArgument,
                          AllOf(HasSubstr(path), HasSubstr(key + std::string(" is ") + found))));
  }
}

// Where no key says how much of a head is turned, only the graph does.
TEST_F(RefusalTest, RopeOfWholeHeadsOfAnOddLengthIsRefusedByTheGraph) {
  GgufParts model = ArchModel("gemma");
  for (const char* const key : {"gemma.attention.key_length", "gemma.attention.value_length"}) {
    model.Set(key, GgufUint32(15));
  }
  for (const auto& [name, rows, columns] :
       {std::tuple{"attn_q.weight", 64, 60}, std::tuple{"attn_k.weight", 64, 30},
        std::tuple{"attn_v.weight", 64, 30}, std::tuple{"attn_output.weight", 60, 64}}) {
    model.Replace(name, {static_cast<uint64_t>(rows), static_cast<uint64_t>(columns)});
  }
  const std::string path = Write(folder_.File("m.gguf"), model);
  EXPECT_TRUE(Fails(TryPlainLlama(path, "")));
  ATTNDB_ASSERT_OK_AND_ASSIGN(
      const ChildEnd end,
      RunInChild(
          [&] {
            const Status opened =
                LlamaEngine::Open(path, TinyOptions(HookVariant::kRewrite)).status();
            return opened.message().find("RoPE over 15 of 15 channels") == std::string::npos ? 1
                                                                                             : 0;
          },
          60));
  EXPECT_TRUE(end.ok()) << end.output;
}

TEST(ArchModelsTest, ThoseThatPlainLlamaCppRunsPass) {
  std::set<std::string> architectures;
  for (const auto& entry : std::filesystem::directory_iterator(ArchModels())) {
    const std::string path = entry.path().string();
    SCOPED_TRACE(path);
    const PlainTrial trial = TryPlainLlama(path, "");
    EXPECT_EQ(trial.end, PlainEnd::kRan) << trial.words;
    ATTNDB_EXPECT_OK(CheckModelFiles({&path, 1}));
    ATTNDB_ASSERT_OK_AND_ASSIGN(const GgufFile file, GgufFile::Open(path));
    architectures.insert(file.Text("general.architecture").value_or(""));
  }
  EXPECT_EQ(architectures.size(), 29u);
}

TEST(ArchModelsTest, HeadsOfOddLengthsPassWhereThereIsNoRope) {
  const test::TempDir folder = test::TempDir::InMemory();
  GgufParts model = ArchModel("gpt2");
  model.Set("gpt2.attention.head_count", GgufUint32(64));
  const std::string path = Write(folder.File("m.gguf"), model);
  EXPECT_EQ(TryPlainLlama(path, "").end, PlainEnd::kRan);
  ATTNDB_EXPECT_OK(CheckModelFiles({&path, 1}));
}

// Fields that llama.cpp refuses in order are its own: the check lets them pass.
TEST(ArchModelsTest, WhatLlamaCppRefusesItselfIsLeftToIt) {
  const test::TempDir folder = test::TempDir::InMemory();
  for (const auto& [key, value] :
       {std::pair{"llama.block_count", GgufText("two")},
        std::pair{"llama.block_count", GgufUint32(3)},
        std::pair{"llama.embedding_length", GgufUint32(0)},
        std::pair{"llama.attention.head_count", GgufText("four")},
        std::pair{"llama.context_length", GgufFloat32(64)},
        std::pair{"llama.feed_forward_length", GgufUint32s(std::vector<uint32_t>{4})},
        std::pair{"general.architecture", GgufText("none such")},
        std::pair{"tokenizer.ggml.tokens", GgufUint32(1)},
        std::pair{"tokenizer.ggml.scores", GgufFloat32s({})}}) {
    GgufParts model = ArchModel("llama");
    model.Set(key, value);
    const std::string path = Write(folder.File("m.gguf"), model);
    EXPECT_EQ(TryPlainLlama(path, "").end, PlainEnd::kRefused) << key;
    ATTNDB_EXPECT_OK(CheckModelFiles({&path, 1}));
  }
}

}  // namespace
}  // namespace attndb::llama
