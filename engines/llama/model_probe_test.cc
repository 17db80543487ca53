// Goal:   the spec says what the graph computes, and a model that attndb can't honour is refused at
//         Open with the feature's name.
// Method: tiny models of several architectures, made by scripts/make_tiny_model.py.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engines/llama/engine_test_util.h"
#include "engines/llama/llama_engine.h"
#include "testing/matchers.h"

namespace attndb::llama {
namespace {

using ::attndb::test::FailsWith;
using ::testing::AllOf;
using ::testing::HasSubstr;

Result<LlamaEngine> OpenTiny(const std::string& kind) {
  return LlamaEngine::Open(TinyModel(kind), TinyOptions(HookVariant::kRewrite));
}

TEST(ModelProbeTest, ReadsHeadsScaleAndInterleavedRope) {
  ATTNDB_ASSERT_OK_AND_ASSIGN(const LlamaEngine engine, OpenTiny("llama"));
  const ModelSpec& spec = engine.spec();
  ASSERT_EQ(spec.num_layers(), 3u);
  EXPECT_EQ(spec.kv_dtype, DType::kFloat32);
  for (const LayerSpec& layer : spec.layers) {
    EXPECT_EQ(layer.num_q_heads, 8u);
    EXPECT_EQ(layer.num_kv_heads, 2u);
    EXPECT_EQ(layer.head_dim, 32u);
    EXPECT_EQ(layer.v_head_dim, 32u);
    EXPECT_FLOAT_EQ(layer.scale, 0.17677669f);
    EXPECT_EQ(layer.soft_cap, 0.0f);
    EXPECT_EQ(layer.sliding_window, 0u);
    EXPECT_EQ(layer.rope,
              (Rope{.layout = RopeLayout::kInterleaved, .rope_dims = 32, .base = 10000.0}));
  }
  EXPECT_EQ(engine.info().architecture, "llama");
  EXPECT_EQ(engine.info().vocab_size, 320u);
  EXPECT_FALSE(engine.info().has_tokenizer);
}

TEST(ModelProbeTest, ReadsHalfRopeAndScaling) {
  ATTNDB_ASSERT_OK_AND_ASSIGN(const LlamaEngine qwen, OpenTiny("qwen2"));
  EXPECT_EQ(qwen.spec().layers[0].rope.layout, RopeLayout::kHalf);
  EXPECT_EQ(qwen.spec().layers[0].rope.scaling, "");
  ATTNDB_ASSERT_OK_AND_ASSIGN(const LlamaEngine yarn, OpenTiny("llama_yarn"));
  EXPECT_THAT(yarn.spec().layers[0].rope.scaling,
              AllOf(HasSubstr("yarn:freq_scale=0.25"), HasSubstr("orig=1024")));
}

TEST(ModelProbeTest, ReadsSlidingWindowsFromTheMask) {
  ATTNDB_ASSERT_OK_AND_ASSIGN(const LlamaEngine gemma2, OpenTiny("gemma2"));
  const std::vector<LayerSpec>& two = gemma2.spec().layers;
  ASSERT_EQ(two.size(), 4u);
  EXPECT_EQ(two[0].sliding_window, 40u);
  EXPECT_EQ(two[1].sliding_window, 0u);
  EXPECT_EQ(two[2].sliding_window, 40u);
  EXPECT_EQ(two[0].soft_cap, 20.0f);

  ATTNDB_ASSERT_OK_AND_ASSIGN(const LlamaEngine gemma3, OpenTiny("gemma3"));
  const std::vector<LayerSpec>& three = gemma3.spec().layers;
  ASSERT_EQ(three.size(), 3u);
  EXPECT_EQ(three[0].sliding_window, 24u);
  EXPECT_EQ(three[0].rope.base, 1000.0);
  EXPECT_EQ(three[2].sliding_window, 0u);
  EXPECT_EQ(three[2].rope.base, 10000.0);
  EXPECT_EQ(three[0].head_dim, 256u);
  EXPECT_EQ(three[0].num_kv_heads, 1u);
  EXPECT_EQ(three[0].scale, 1.0f) << "Gemma scales q before attention";
}

TEST(ModelProbeTest, ReadsTheSinksOfGptOss) {
  ATTNDB_ASSERT_OK_AND_ASSIGN(const LlamaEngine engine, OpenTiny("gpt_oss"));
  const std::vector<LayerSpec>& layers = engine.spec().layers;
  ASSERT_EQ(layers.size(), 4u);
  for (size_t i = 0; i < layers.size(); ++i) {
    EXPECT_EQ(layers[i].sliding_window, i % 2 == 0 ? 24u : 0u) << i;
    ASSERT_EQ(layers[i].denominator_logits.size(), 4u) << i;
    EXPECT_THAT(layers[i].rope.scaling, HasSubstr("yarn:"));
  }
  EXPECT_NE(layers[0].denominator_logits, layers[2].denominator_logits);
  ATTNDB_ASSERT_OK_AND_ASSIGN(const LlamaEngine llama, OpenTiny("llama"));
  EXPECT_TRUE(llama.spec().layers[0].denominator_logits.empty());
}

TEST(ModelProbeTest, RefusesByName) {
  const std::pair<const char*, const char*> cases[] = {
      {"refuse_alibi", "ALiBi"},         {"refuse_mla", "MLA"},
      {"refuse_recurrent", "recurrent"}, {"refuse_longrope", "longrope"},
      {"refuse_mrope", "multi-section"},
  };
  for (const auto& [kind, feature] : cases) {
    EXPECT_THAT(OpenTiny(kind),
                FailsWith(StatusCode::kUnsupported,
                          AllOf(HasSubstr(std::string(kind) + ".gguf"), HasSubstr(feature))))
        << kind;
  }
}

}  // namespace
}  // namespace attndb::llama
