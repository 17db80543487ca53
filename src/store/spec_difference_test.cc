// Goal:   if two specs differ in one field, the difference names that field with both values.
#include "store/spec_difference.h"

#include <gtest/gtest.h>

#include <functional>

namespace attndb::store {
namespace {

ModelSpec Spec() {
  LayerSpec layer;
  layer.num_q_heads = 4;
  layer.num_kv_heads = 2;
  layer.head_dim = layer.v_head_dim = 16;
  layer.denominator_logits = {1, 2, 3, 4};
  return ModelSpec::Uniform(3, layer, DType::kFloat16, "a");
}

TEST(SpecDifferenceTest, TheFieldIsNamedWithFoundAndExpected) {
  const auto difference = [](const std::function<void(ModelSpec*)>& edit) {
    ModelSpec expected = Spec();
    edit(&expected);
    return SpecDifference(Spec(), expected);
  };
  EXPECT_EQ(difference([](ModelSpec* spec) { spec->fingerprint = "b"; }),
            "fingerprint 'a', expected 'b'");
  EXPECT_EQ(difference([](ModelSpec* spec) { spec->source.name = "other name"; }),
            "another field of the spec");
  EXPECT_EQ(difference([](ModelSpec* spec) { spec->kv_dtype = DType::kFloat32; }),
            "kv_dtype float16, expected float32");
  EXPECT_EQ(difference([](ModelSpec* spec) { spec->unrotated_keys = true; }),
            "keys rotated, expected keys without RoPE");
  EXPECT_EQ(difference([](ModelSpec* spec) { spec->layers.pop_back(); }),
            "num_layers 3, expected 2");
  EXPECT_EQ(difference([](ModelSpec* spec) { spec->layers[1].num_kv_heads = 4; }),
            "layer 1: num_kv_heads 2, expected 4");
  EXPECT_EQ(difference([](ModelSpec* spec) { spec->layers[2].rope.scaling = "yarn:4"; }),
            "layer 2: RoPE scaling '', expected 'yarn:4'");
  EXPECT_EQ(difference([](ModelSpec* spec) { spec->layers[0].denominator_logits[2] = 5; }),
            "layer 0: denominator_logits[2] 3, expected 5");
}

TEST(SpecDifferenceTest, WhatLiesBehindTheLastLogitIsNotLookedAt) {
  ModelSpec found = Spec();
  ModelSpec expected = Spec();
  found.layers[0].denominator_logits.push_back(5);
  expected.layers[0].denominator_logits.push_back(6);
  found.layers[0].denominator_logits.pop_back();
  expected.layers[0].denominator_logits.pop_back();
  EXPECT_EQ(SpecDifference(found, expected), "another field of the spec");
}

TEST(SpecDifferenceTest, OtherWeightsAreNamedAsPeopleCallThem) {
  ModelSpec found = Spec();
  ModelSpec expected = Spec();
  expected.fingerprint = "b";
  found.source = {.name = "SmolLM2", .path = ""};
  EXPECT_EQ(SpecDifference(found, expected), "made by 'SmolLM2', fingerprint 'a', expected 'b'");
  expected.source = {.name = "Qwen2", .path = "/models/qwen2.gguf"};
  EXPECT_EQ(SpecDifference(found, expected),
            "made by 'SmolLM2', asked by 'Qwen2' ('/models/qwen2.gguf')");
  // One name of two files, as quantizations of a model have: the fingerprints tell them apart.
  expected.source = found.source;
  EXPECT_EQ(SpecDifference(found, expected), "made by 'SmolLM2', fingerprint 'a', expected 'b'");
}

}  // namespace
}  // namespace attndb::store
