// Goal:   two specs are one model exactly if KV made under one may be used under the other.
// Method: each field changed by itself; round trips; every truncation and byte flip of an encoding.
#include "db/catalog/model_identity.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "db/catalog/catalog_test_util.h"
#include "testing/matchers.h"

namespace attndb::db {
namespace {

using ::attndb::test::FailsWith;
using ::testing::HasSubstr;

Sha256Digest IdentityOf(const ModelSpec& spec) { return EncodeModel(spec).identity; }

TEST(ModelIdentity, EveryFieldBelongsToIt) {
  const std::function<void(ModelSpec*)> changes[] = {
      [](ModelSpec* s) { s->kv_dtype = DType::kBFloat16; },
      [](ModelSpec* s) { s->fingerprint += "x"; },
      [](ModelSpec* s) { s->layers.pop_back(); },
      [](ModelSpec* s) { s->layers[1].num_q_heads = 2; },
      [](ModelSpec* s) { s->layers[1].num_kv_heads = 4; },
      [](ModelSpec* s) { s->layers[1].head_dim = 32; },
      [](ModelSpec* s) { s->layers[1].v_head_dim = 32; },
      [](ModelSpec* s) { s->layers[1].scale = 0.3f; },
      [](ModelSpec* s) { s->layers[1].soft_cap = 30.0f; },
      [](ModelSpec* s) { s->layers[1].sliding_window = 128; },
      [](ModelSpec* s) { s->layers[1].rope.layout = RopeLayout::kNone; },
      [](ModelSpec* s) { s->layers[1].rope.rope_dims = 8; },
      [](ModelSpec* s) { s->layers[1].rope.base = 5e5; },
      [](ModelSpec* s) { s->layers[1].rope.scaling = "linear:factor=4"; },
  };
  const ModelSpec spec = TestSpec();
  for (size_t i = 0; i < std::size(changes); ++i) {
    SCOPED_TRACE(i);
    ModelSpec changed = spec;
    changes[i](&changed);
    ATTNDB_ASSERT_OK(changed.Validate());
    EXPECT_NE(IdentityOf(changed), IdentityOf(spec));
    const bool same_layout = EncodeModel(changed).layout == EncodeModel(spec).layout;
    EXPECT_EQ(same_layout, changed.fingerprint != spec.fingerprint);
  }
}

TEST(ModelIdentity, DefaultsAreResolved) {
  const ModelSpec spec = TestSpec();
  ModelSpec explicit_spec = spec;
  for (LayerSpec& layer : explicit_spec.layers) {
    layer.scale = 0.25f;  // 1 / sqrt(16)
    layer.soft_cap = -0.0f;
    layer.rope.rope_dims = 16;
  }
  EXPECT_EQ(IdentityOf(explicit_spec), IdentityOf(spec));
}

TEST(ModelIdentity, RopeLayoutsThatAreStoredAlikeAreOneModel) {
  ModelSpec interleaved = TestSpec();
  for (LayerSpec& layer : interleaved.layers) layer.rope.layout = RopeLayout::kInterleaved;
  EXPECT_EQ(IdentityOf(interleaved), IdentityOf(TestSpec()));
}

TEST(ModelIdentity, WithoutRopeItsParametersDoNotMatter) {
  ModelSpec a = TestSpec();
  for (LayerSpec& layer : a.layers) layer.rope.layout = RopeLayout::kNone;
  ModelSpec b = a;
  b.layers[0].rope.base = 7.0;
  EXPECT_EQ(IdentityOf(a), IdentityOf(b));
}

TEST(ModelIdentity, DecodingGivesTheCanonicalSpec) {
  ModelSpec spec = TestSpec(std::string("\0\xff bytes", 8));
  spec.layers[0].rope.scaling = "yarn:factor=8";
  const EncodedModel encoded = EncodeModel(spec);
  ATTNDB_ASSERT_OK_AND_ASSIGN(const ModelSpec decoded, DecodeModel(encoded.bytes));
  EXPECT_EQ(decoded.fingerprint, spec.fingerprint);
  EXPECT_EQ(decoded.kv_dtype, spec.kv_dtype);
  ASSERT_EQ(decoded.num_layers(), 2u);
  EXPECT_EQ(decoded.layers[0].rope.scaling, "yarn:factor=8");
  EXPECT_EQ(decoded.layers[0].scale, 0.25f);
  EXPECT_EQ(EncodeModel(decoded).bytes, encoded.bytes);
}

TEST(ModelIdentity, TheEncodingIsTheDocumentedOne) {
  // docs/formats/catalog.md: header 9, two layers of 45, length and "weights".
  EXPECT_EQ(EncodeModel(TestSpec()).bytes.size(), 9u + 2 * 45 + 4 + 7);
}

TEST(ModelIdentity, TruncatedOrExtendedEncodingsAreRefused) {
  std::vector<std::byte> bytes = EncodeModel(TestSpec()).bytes;
  for (size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_EQ(DecodeModel(std::span(bytes).first(size)).status().code(), StatusCode::kCorruption);
  }
  bytes.push_back(std::byte{0});
  EXPECT_EQ(DecodeModel(bytes).status().code(), StatusCode::kCorruption);
}

TEST(ModelIdentity, ChangedEncodingsAreRefusedOrAnotherModel) {
  const EncodedModel encoded = EncodeModel(TestSpec());
  for (size_t bit = 0; bit < encoded.bytes.size() * 8; ++bit) {
    std::vector<std::byte> bytes = encoded.bytes;
    bytes[bit / 8] ^= static_cast<std::byte>(1 << (bit % 8));
    const Result<ModelSpec> decoded = DecodeModel(bytes);
    if (!decoded.ok()) continue;
    EXPECT_EQ(EncodeModel(*decoded).bytes, bytes);
  }
}

TEST(ModelIdentity, HugeCountsAllocateNothing) {
  std::vector<std::byte> bytes = EncodeModel(TestSpec()).bytes;
  for (size_t i = 5; i < 9; ++i) bytes[i] = std::byte{0xff};
  EXPECT_THAT(DecodeModel(bytes), FailsWith(StatusCode::kCorruption, HasSubstr("layers in")));
}

}  // namespace
}  // namespace attndb::db
