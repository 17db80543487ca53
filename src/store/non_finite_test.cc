// Goal:   the catalog's note of NaN and Inf heads reads back as it was written.
#include "store/non_finite.h"

#include <gtest/gtest.h>

namespace attndb::store {
namespace {

ModelSpec SpecWithHeads(std::vector<uint32_t> num_kv_heads) {
  ModelSpec spec;
  for (const uint32_t n : num_kv_heads) {
    LayerSpec layer;
    layer.num_kv_heads = n;
    spec.layers.push_back(layer);
  }
  return spec;
}

TEST(NonFiniteTest, RoundTripsOverLayersOfDifferentSize) {
  const ModelSpec spec = SpecWithHeads({3, 1, 9});
  std::vector<std::vector<bool>> flags = {{false, true, false}, {true}, std::vector<bool>(9)};
  flags[2][8] = true;
  const std::vector<std::byte> bytes = EncodeNonFinite(flags);
  EXPECT_EQ(bytes.size(), 2u);
  std::set<std::pair<uint32_t, uint32_t>> heads;
  DecodeNonFinite(bytes, spec, &heads);
  EXPECT_EQ(heads, (std::set<std::pair<uint32_t, uint32_t>>{{0, 1}, {1, 0}, {2, 8}}));
}

TEST(NonFiniteTest, NothingSetIsNoBytes) {
  EXPECT_TRUE(EncodeNonFinite({{false, false}, {false}}).empty());
  std::set<std::pair<uint32_t, uint32_t>> heads;
  DecodeNonFinite({}, SpecWithHeads({2, 1}), &heads);
  EXPECT_TRUE(heads.empty());
}

TEST(NonFiniteTest, BytesThatAreTooShortCountAsZeros) {
  const std::vector<std::byte> bytes(2, std::byte{0xff});
  std::set<std::pair<uint32_t, uint32_t>> heads;
  DecodeNonFinite(std::span(bytes).first(1), SpecWithHeads({4, 8}), &heads);
  EXPECT_EQ(heads.size(), 8u);
}

TEST(NonFiniteTest, BitsBehindTheLastHeadAreNoHeads) {
  const std::vector<std::byte> bytes(2, std::byte{0xff});
  ModelSpec spec = SpecWithHeads({3, 1, 2});
  spec.layers.pop_back();
  std::set<std::pair<uint32_t, uint32_t>> heads;
  DecodeNonFinite(bytes, spec, &heads);
  EXPECT_EQ(heads, (std::set<std::pair<uint32_t, uint32_t>>{{0, 0}, {0, 1}, {0, 2}, {1, 0}}));
}

}  // namespace
}  // namespace attndb::store
