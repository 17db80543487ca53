// Goal:   each layer is turned by its own RoPE; models that can't be turned are refused.
#include "session/turn_tables.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "testing/matchers.h"

namespace attndb::internal {
namespace {

using ::attndb::test::FailsWith;
using ::testing::HasSubstr;

LayerSpec LayerOf(double base, RopeLayout layout = RopeLayout::kHalf) {
  return {.num_q_heads = 1,
          .num_kv_heads = 1,
          .head_dim = 8,
          .v_head_dim = 8,
          .rope = {.layout = layout, .base = base}};
}

// The first two pairs of a row of ones.
std::vector<float> Turned(const Turn& turn) {
  std::vector<float> row(16, 1.0f);
  turn.Rows(row.data(), 1, row.size(), row.data());
  return {row[0], row[1], row[2]};
}

TEST(TurnTablesTest, EachLayerHasItsOwnRope) {
  ModelSpec spec;
  spec.layers = {LayerOf(100), LayerOf(10000), LayerOf(100), LayerOf(100, RopeLayout::kNone),
                 LayerOf(100)};
  spec.layers[4].head_dim = 16;
  TurnTables tables = *TurnTables::Of(spec);
  const int64_t moves[] = {5, 2};
  tables.SetMoves(moves);
  tables.SetShift(3);
  for (LayerId layer = 0; layer < 3; ++layer) {
    ASSERT_EQ(tables.TurnsOf(layer).size(), 2u);
    const double frequency = std::pow(spec.layers[layer].rope.base, -0.25);
    const auto expected = [frequency](double positions) {
      return std::cos(frequency * positions) - std::sin(frequency * positions);
    };
    EXPECT_NEAR(double{Turned(tables.TurnsOf(layer)[0])[1]}, expected(-5), 1e-6);
    EXPECT_NEAR(double{Turned(tables.TurnsOf(layer)[1])[1]}, expected(-2), 1e-6);
    ASSERT_NE(tables.ShiftOf(layer), nullptr);
    EXPECT_NEAR(double{Turned(*tables.ShiftOf(layer))[1]}, expected(3), 1e-6);
  }
  // A layer without RoPE among others has no positions: its rows stay as they are.
  EXPECT_EQ(tables.TurnsOf(3)[0].num_pairs(), 0u);
  EXPECT_EQ(tables.TurnsOf(0)[0].num_pairs(), 4u);
  EXPECT_EQ(tables.TurnsOf(4)[0].num_pairs(), 8u) << "of the same RoPE, but longer";
  // Other moves take the place of these.
  tables.SetMoves(std::span(moves).first(1));
  EXPECT_EQ(tables.TurnsOf(0).size(), 1u);
  tables.SetShift(0);
  EXPECT_EQ(tables.ShiftOf(0), nullptr);
}

TEST(TurnTablesTest, WhatCantBeTurnedIsRefused) {
  ModelSpec spec;
  spec.layers = {LayerOf(100), LayerOf(100)};
  spec.layers[1].rope.scaling = "dynamic:factor=2.0";
  EXPECT_THAT(TurnTables::Of(spec),
              FailsWith(StatusCode::kUnsupported, HasSubstr("layer 1: RoPE scaling 'dynamic")));
  spec.layers = {LayerOf(100, RopeLayout::kNone)};
  EXPECT_THAT(TurnTables::Of(spec),
              FailsWith(StatusCode::kUnsupported, HasSubstr("learned absolute positions")));
}

}  // namespace
}  // namespace attndb::internal
