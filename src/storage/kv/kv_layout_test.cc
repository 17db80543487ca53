// Goal:   row sizes are those that kernels expect, and shapes beyond the caps are refused by name.
// Method: known sizes; each field out of range.
#include "storage/kv/kv_layout.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "storage/vfs/format.h"
#include "testing/matchers.h"

namespace attndb::storage {
namespace {

using test::FailsWith;
using ::testing::HasSubstr;

TEST(KvLayout, RowsArePaddedToSixteenElements) {
  EXPECT_EQ(RowBytes(DType::kFloat16, 64), 128u);
  EXPECT_EQ(RowBytes(DType::kBFloat16, 80), 160u);
  EXPECT_EQ(RowBytes(DType::kFloat32, 1), 64u);
  EXPECT_EQ(RowBytes(DType::kFloat16, 17), 64u);
  const KvShape shape{.dtype = DType::kFloat16,
                      .layers = {{.num_kv_heads = 2, .head_dim = 17, .v_head_dim = 16},
                                 {.num_kv_heads = 1, .head_dim = 64, .v_head_dim = 128}}};
  EXPECT_EQ(LayerBytesPerToken(shape, 0), 2u * (64 + 32));
  EXPECT_EQ(BytesPerToken(shape), 2u * (64 + 32) + 128 + 256);
}

TEST(KvLayout, ShapesBeyondTheCapsAreRefusedByName) {
  const KvShape good{.dtype = DType::kFloat16,
                     .layers = std::vector<LayerShape>(kMaxLayers, {.num_kv_heads = kMaxKvHeads,
                                                                    .head_dim = kMaxHeadDim,
                                                                    .v_head_dim = kMaxHeadDim})};
  ATTNDB_EXPECT_OK(ValidateShape(good));
  const auto expect = [&](const char* message, auto change) {
    KvShape bad = good;
    change(&bad);
    EXPECT_THAT(ValidateShape(bad), FailsWith(StatusCode::kInvalidArgument, HasSubstr(message)));
  };
  expect("num_layers: expected 1 to 256, found 257",
         [](KvShape* s) { s->layers.push_back(s->layers[0]); });
  expect("num_layers: expected 1 to 256, found 0", [](KvShape* s) { s->layers.clear(); });
  expect("layer 3: num_kv_heads", [](KvShape* s) { s->layers[3].num_kv_heads = 0; });
  expect("layer 3: head_dim", [](KvShape* s) { s->layers[3].head_dim = kMaxHeadDim + 1; });
  expect("layer 3: v_head_dim", [](KvShape* s) { s->layers[3].v_head_dim = 0; });
  expect("dtype", [](KvShape* s) { s->dtype = static_cast<DType>(3); });
}

TEST(KvLayout, EachDTypeMayBeStored) {
  for (const DType dtype : {DType::kFloat32, DType::kFloat16, DType::kBFloat16}) {
    ATTNDB_EXPECT_OK(ValidateShape(
        {.dtype = dtype, .layers = {{.num_kv_heads = 1, .head_dim = 1, .v_head_dim = 1}}}));
  }
}

TEST(KvLayout, ALayerThatWasTakenAwayDoesNotCount) {
  const LayerShape layer{.num_kv_heads = 1, .head_dim = 16, .v_head_dim = 16};
  KvShape shape{.dtype = DType::kFloat16, .layers = {layer, layer, layer}};
  shape.layers.back().head_dim = kMaxHeadDim + 1;
  shape.layers.pop_back();
  ATTNDB_EXPECT_OK(ValidateShape(shape));
  EXPECT_EQ(BytesPerToken(shape), 2u * (32 + 32));
}

}  // namespace
}  // namespace attndb::storage
