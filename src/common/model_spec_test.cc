// Goal:   every field of a ModelSpec that is out of its limits is refused by name.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <limits>

#include "attndb/types.h"

namespace attndb {
namespace {

ModelSpec GoodSpec() {
  LayerSpec layer;
  layer.num_q_heads = 6;
  layer.num_kv_heads = 2;
  layer.head_dim = 64;
  layer.v_head_dim = 32;
  layer.rope.layout = RopeLayout::kHalf;
  return ModelSpec::Uniform(3, layer, DType::kFloat16, "weights");
}

TEST(ModelSpecTest, CountsBytesWithoutPadding) {
  EXPECT_TRUE(GoodSpec().Validate().ok());
  EXPECT_EQ(GoodSpec().KvBytesPerToken(), 3u * 2 * (64 + 32) * 2);
}

TEST(ModelSpecTest, DenominatorLogitsAreAnyFiniteNumbersOfAllQHeadsOrNone) {
  ModelSpec spec = GoodSpec();
  spec.layers[1].denominator_logits = {-1e30f, -2.5f, 0.0f, -0.0f, 7.0f, 1e30f};
  EXPECT_TRUE(spec.Validate().ok());
}

TEST(ModelSpecTest, RefusesWhatIsOutOfLimitsByName) {
  const struct {
    const char* message;
    std::function<void(ModelSpec&)> spoil;
  } cases[] = {
      {"0 layers", [](ModelSpec& s) { s.layers.clear(); }},
      {"fingerprint of 0 bytes", [](ModelSpec& s) { s.fingerprint.clear(); }},
      {"fingerprint of 257 bytes", [](ModelSpec& s) { s.fingerprint.assign(257, 'x'); }},
      {"source.name of 257 bytes", [](ModelSpec& s) { s.source.name.assign(257, 'x'); }},
      {"source.name 'a?b': expected UTF-8 without", [](ModelSpec& s) { s.source.name = "a\nb"; }},
      {"expected UTF-8 without",
       [](ModelSpec& s) {
         s.source.name =
             "a\xC2\x9B"
             "31m";
       }},
      {"expected UTF-8 without",
       [](ModelSpec& s) {
         s.source.path =
             "a\xE2\x80\xAE"
             "b";
       }},
      {"expected UTF-8 without", [](ModelSpec& s) { s.source.path = "/\xFF"; }},
      {"source.path of 4097 bytes", [](ModelSpec& s) { s.source.path.assign(4097, 'x'); }},
      {"kv_dtype is 9", [](ModelSpec& s) { s.kv_dtype = static_cast<DType>(9); }},
      {"layer 1: num_kv_heads is 0", [](ModelSpec& s) { s.layers[1].num_kv_heads = 0; }},
      {"layer 1: num_q_heads is 7", [](ModelSpec& s) { s.layers[1].num_q_heads = 7; }},
      {"layer 2: head_dim is 4096", [](ModelSpec& s) { s.layers[2].head_dim = 4096; }},
      {"layer 2: v_head_dim is 0", [](ModelSpec& s) { s.layers[2].v_head_dim = 0; }},
      {"layer 0: scale is -1", [](ModelSpec& s) { s.layers[0].scale = -1.0f; }},
      {"layer 0: soft_cap is inf",
       [](ModelSpec& s) { s.layers[0].soft_cap = std::numeric_limits<float>::infinity(); }},
      {"layer 1: number of denominator_logits is 5, expected num_q_heads 6",
       [](ModelSpec& s) { s.layers[1].denominator_logits.assign(5, 0.5f); }},
      {"layer 2: denominator_logits[3] is nan, expected a finite number",
       [](ModelSpec& s) {
         s.layers[2].denominator_logits.assign(6, 0.5f);
         s.layers[2].denominator_logits[3] = std::numeric_limits<float>::quiet_NaN();
       }},
      {"layer 0: denominator_logits[5] is -inf, expected a finite number",
       [](ModelSpec& s) {
         s.layers[0].denominator_logits.assign(6, 0.5f);
         s.layers[0].denominator_logits[5] = -std::numeric_limits<float>::infinity();
       }},
      {"rope_dims is 65", [](ModelSpec& s) { s.layers[0].rope.rope_dims = 65; }},
      {"rope_dims is 128", [](ModelSpec& s) { s.layers[0].rope.rope_dims = 128; }},
      {"rope base is 0", [](ModelSpec& s) { s.layers[0].rope.base = 0.0; }},
      {"rope layout is 7",
       [](ModelSpec& s) { s.layers[0].rope.layout = static_cast<RopeLayout>(7); }},
      {"rope scaling is 300 bytes",
       [](ModelSpec& s) { s.layers[0].rope.scaling.assign(300, 'x'); }},
  };
  for (const auto& c : cases) {
    ModelSpec spec = GoodSpec();
    c.spoil(spec);
    const Status status = spec.Validate();
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
    EXPECT_THAT(status.message(), ::testing::HasSubstr(c.message));
  }
}

}  // namespace
}  // namespace attndb
