// Goal:   specs survive the way through JSON exactly, and a text that leaves anything open about a
//         model is refused by layer and field.
#include "api/kv_file/layer_spec_json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "testing/matchers.h"

namespace attndb::internal {
namespace {

using test::FailsWith;
using test::IsOk;
using ::testing::HasSubstr;
using ::testing::Not;

LayerSpec Layer() {
  LayerSpec layer;
  layer.num_q_heads = 8;
  layer.num_kv_heads = 2;
  layer.head_dim = 96;
  layer.v_head_dim = 64;
  layer.scale = 1.0f / std::sqrt(96.0f);
  layer.soft_cap = 0.1f;
  layer.sliding_window = 512;
  layer.rope = {RopeLayout::kInterleaved, 64, 1.0 / 3.0 * 1e6, "yarn:factor=4,\"x\""};
  return layer;
}

TEST(LayerSpecJsonTest, EveryFieldSurvivesExactly) {
  LayerSpec other = Layer();
  other.rope = {};
  other.sliding_window = 0;
  other.denominator_logits = {0.1f, -1e-40f, 3e38f, -3e38f, 0, 1, 2, 1.0f / 3.0f};
  for (const std::vector<LayerSpec>& layers :
       {std::vector<LayerSpec>(5, Layer()), std::vector<LayerSpec>{Layer(), other, Layer()}}) {
    const Result<std::vector<LayerSpec>> parsed =
        ParseLayerSpecs(FormatLayerSpecs(layers), layers.size());
    ASSERT_THAT(parsed, IsOk());
    EXPECT_EQ(*parsed, layers);
  }
}

TEST(LayerSpecJsonTest, WhatMayBeLeftOutHasTheDefaultsOfTheStruct) {
  const Result<std::vector<LayerSpec>> parsed = ParseLayerSpecs(
      R"([{"num_q_heads":4,"num_kv_heads":2,"head_dim":64,"rope_layout":"none"}])", std::nullopt);
  ASSERT_THAT(parsed, IsOk());
  LayerSpec expected;
  expected.num_q_heads = 4;
  expected.num_kv_heads = 2;
  expected.head_dim = 64;
  expected.v_head_dim = 64;
  EXPECT_EQ(parsed->front(), expected);
}

TEST(LayerSpecJsonTest, TheTextOfALayerWithoutDenominatorsDoesNotNameThem) {
  LayerSpec layer = Layer();
  EXPECT_THAT(FormatLayerSpecs({&layer, 1}), Not(HasSubstr("denominator")));
  layer.denominator_logits.assign(8, 0.5f);
  EXPECT_THAT(FormatLayerSpecs({&layer, 1}), HasSubstr("\"denominator_logits\":[0.5,0.5,"));
}

TEST(LayerSpecJsonTest, WhatIsWrongIsRefusedByName) {
  const std::string heads = R"("num_q_heads":4,"num_kv_heads":2,"head_dim":64)";
  const struct {
    std::string text;
    const char* message;
  } cases[] = {
      {"", "layers is no valid JSON"},
      {"[1", "layers is no valid JSON"},
      {"[1e999]", "layers is no valid JSON"},
      {"[NaN]", "layers is no valid JSON"},
      {"7", "layers is neither a list nor an object"},
      {"[]", "layers has 0 entries, expected 1"},
      {"[{},{}]", "layers has 2 entries, expected 1, as num_layers says"},
      {"[7]", "layer 0 is no object of fields"},
      {"[[[[[[]]]]]]", "layers is nested too deeply"},
      {"[{}]", "layer 0 has no num_q_heads"},
      {"[{" + heads + "}]", "layer 0 has no rope_layout"},
      {"[{" + heads + R"(,"rope_layout":"half"}])", "layer 0 has no rope_base"},
      {"[{" + heads + R"(,"rope_layout":"spiral"}])", "rope_layout '\"spiral\"', expected"},
      {"[{" + heads + R"(,"rope_layout":1}])", "rope_layout '1', expected a text"},
      {"[{" + heads + R"(,"rope_layout":"none","head_dim":64}])", "has the field 'head_dim' twice"},
      {"[{" + heads + R"(,"rope_layout":"none","heads":64}])", "has the unknown field 'heads'"},
      {"[{" + heads + R"(,"rope_layout":"none","sliding_window":-1}])", "sliding_window '-1'"},
      {"[{" + heads + R"(,"rope_layout":"none","sliding_window":4294967296}])",
       "sliding_window '4294967296', expected a whole number from 0 to 2^32 - 1"},
      {"[{" + heads + R"(,"rope_layout":"none","v_head_dim":64.0}])", "v_head_dim '64.0'"},
      {"[{" + heads + R"(,"rope_layout":"none","scale":"1"}])", "scale '\"1\"', expected a number"},
      {"[{" + heads + R"(,"rope_layout":"none","scale":1e39}])", "scale '1e+39', expected"},
      {"[{" + heads + R"(,"rope_layout":"none","rope_scaling":null}])", "rope_scaling 'null'"},
      {"[{" + heads + R"(,"rope_layout":"none","denominator_logits":0.5}])",
       "denominator_logits '0.5', expected a list"},
      {"[{" + heads + R"(,"rope_layout":"none","denominator_logits":[1,"2"]}])",
       "denominator_logits '[1,\"2\"]', expected a list of numbers"},
      {"[{" + heads + R"(,"rope_layout":"none","denominator_logits":[1,4e38]}])",
       "denominator_logits '[1,4e+38]', expected a list of numbers within"}};
  for (const auto& c : cases) {
    EXPECT_THAT(ParseLayerSpecs(c.text, 1),
                FailsWith(StatusCode::kInvalidArgument, HasSubstr(c.message)))
        << c.text;
  }
}

TEST(LayerSpecJsonTest, EachFieldThatAModelCannotDoWithoutMustBeThere) {
  const std::pair<std::string, std::string> fields[] = {{"num_q_heads", "4"},
                                                        {"num_kv_heads", "2"},
                                                        {"head_dim", "64"},
                                                        {"rope_layout", "\"interleaved\""},
                                                        {"rope_base", "10000"}};
  const auto text_without = [&](const std::string& left_out) {
    std::string text;
    for (const auto& [name, value] : fields) {
      if (name == left_out) continue;
      text += (text.empty() ? "{\"" : ",\"") + name + "\":" + value;
    }
    return text + "}";
  };
  EXPECT_THAT(ParseLayerSpecs(text_without(""), 1), IsOk());
  for (const auto& [name, value] : fields) {
    EXPECT_THAT(ParseLayerSpecs(text_without(name), 1),
                FailsWith(StatusCode::kInvalidArgument, HasSubstr("layer 0 has no " + name)));
  }
}

TEST(LayerSpecJsonTest, TheNumberOfLayersIsLimitedBeforeAnythingIsMade) {
  const std::string one = FormatLayerSpecs(std::vector<LayerSpec>{Layer()});
  EXPECT_THAT(ParseLayerSpecs(one, std::nullopt),
              FailsWith(StatusCode::kInvalidArgument, HasSubstr("num_layers must say")));
  EXPECT_THAT(ParseLayerSpecs(one, 1024), IsOk());
  EXPECT_THAT(ParseLayerSpecs(one, 1025),
              FailsWith(StatusCode::kInvalidArgument, HasSubstr("expected 1 to 1,024")));
  EXPECT_THAT(ParseLayerSpecs(one, UINT64_MAX),
              FailsWith(StatusCode::kInvalidArgument, HasSubstr("expected 1 to 1,024")));
  EXPECT_THAT(ParseLayerSpecs(one, 0),
              FailsWith(StatusCode::kInvalidArgument, HasSubstr("has 0 layers")));
}

}  // namespace
}  // namespace attndb::internal
