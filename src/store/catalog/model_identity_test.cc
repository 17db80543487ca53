// Goal:   two specs are one model exactly if KV made under one may be used under the other.
// Method: each field changed by itself; round trips; every truncation and byte flip of an encoding.
#include "store/catalog/model_identity.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <utility>

#include "common/hex.h"
#include "store/catalog/catalog_test_util.h"
#include "testing/matchers.h"

namespace attndb::store {
namespace {

using ::attndb::test::FailsWith;
using ::testing::HasSubstr;

Sha256Digest IdentityOf(const ModelSpec& spec) { return EncodeModel(spec).identity; }

TEST(ModelIdentity, EveryFieldBelongsToIt) {
  const std::function<void(ModelSpec*)> changes[] = {
      [](ModelSpec* s) { s->kv_dtype = DType::kBFloat16; },
      [](ModelSpec* s) { s->fingerprint += "x"; },
      [](ModelSpec* s) { s->unrotated_keys = true; },
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
      [](ModelSpec* s) {
        s->layers[1].denominator_logits = {0.5f, -1.0f, 2.0f, 0.0f};
      },
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

ModelSpec SpecWithDenominators() {
  ModelSpec spec = TestSpec();
  spec.layers[1].denominator_logits = {0.5f, -1.0f, 2.0f, 0.0f};
  return spec;
}

TEST(ModelIdentity, EachDenominatorOfEachLayerBelongsToIt) {
  const ModelSpec spec = SpecWithDenominators();
  ModelSpec changed = spec;
  changed.layers[1].denominator_logits[2] = std::nextafter(2.0f, 3.0f);
  EXPECT_NE(IdentityOf(changed), IdentityOf(spec));
  EXPECT_NE(EncodeModel(changed).layout, EncodeModel(spec).layout);
  changed = spec;
  std::swap(changed.layers[0].denominator_logits, changed.layers[1].denominator_logits);
  EXPECT_NE(IdentityOf(changed), IdentityOf(spec));
  changed = spec;
  changed.layers[1].denominator_logits[3] = -0.0f;
  EXPECT_EQ(IdentityOf(changed), IdentityOf(spec));
}

TEST(ModelIdentity, DenominatorsSurviveTheWayThroughTheEncoding) {
  const ModelSpec spec = SpecWithDenominators();
  ATTNDB_ASSERT_OK_AND_ASSIGN(const ModelSpec decoded, DecodeModel(EncodeModel(spec).bytes));
  EXPECT_TRUE(decoded.layers[0].denominator_logits.empty());
  EXPECT_EQ(decoded.layers[1].denominator_logits, spec.layers[1].denominator_logits);
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

class ModelIdentityTest : public ::testing::TestWithParam<bool> {};

TEST_P(ModelIdentityTest, DecodingGivesTheCanonicalSpec) {
  ModelSpec spec = TestSpec(std::string("\0\xff bytes", 8));
  spec.layers[0].rope.scaling = "linear:factor=8";
  spec.unrotated_keys = GetParam();
  const EncodedModel encoded = EncodeModel(spec);
  ATTNDB_ASSERT_OK_AND_ASSIGN(const ModelSpec decoded, DecodeModel(encoded.bytes));
  EXPECT_EQ(decoded.fingerprint, spec.fingerprint);
  EXPECT_EQ(decoded.kv_dtype, spec.kv_dtype);
  ASSERT_EQ(decoded.num_layers(), 2u);
  EXPECT_EQ(decoded.layers[0].rope.scaling, "linear:factor=8");
  EXPECT_EQ(decoded.unrotated_keys, spec.unrotated_keys);
  EXPECT_EQ(decoded.layers[0].scale, 0.25f);
  EXPECT_EQ(EncodeModel(decoded).bytes, encoded.bytes);
}

INSTANTIATE_TEST_SUITE_P(UnrotatedKeys, ModelIdentityTest, ::testing::Bool());

TEST(ModelIdentity, TheEncodingIsTheDocumentedOne) {
  // docs/formats/catalog.md: header 9, two layers of 45, length and "weights".
  EXPECT_EQ(EncodeModel(TestSpec()).bytes.size(), 9u + 2 * 45 + 4 + 7);
  EXPECT_EQ(EncodeModel(SpecWithDenominators()).bytes.size(), 9u + 2 * (45 + 4) + 4 * 4 + 4 + 7);
}

TEST(ModelIdentity, AModelWithoutDenominatorsIsWhoItWasBeforeThereWereAny) {
  EXPECT_EQ(HexEncode(IdentityOf(TestSpec())),
            "6b00fdbff00f474df21959514bd777704061f3eb859e340f20f45b33968c1162");
}

// Both digests were computed from the grammar in docs/formats/catalog.md, by other code than this.
TEST(ModelIdentity, AModelWithDenominatorsIsWhoItWasWhenTheyCame) {
  const EncodedModel encoded = EncodeModel(SpecWithDenominators());
  EXPECT_EQ(HexEncode(encoded.layout),
            "3029acc02cdbe793deb9a6538cb6961828aa3d59c47b827469d1315f04429342");
  EXPECT_EQ(HexEncode(encoded.identity),
            "aa854765fc7059a026413e3edbcc2457d6ccf0e2904fc0a8984659127b935325");
}

TEST(ModelIdentity, TruncatedOrExtendedEncodingsAreRefused) {
  for (const ModelSpec& spec : {TestSpec(), SpecWithDenominators()}) {
    std::vector<std::byte> bytes = EncodeModel(spec).bytes;
    for (size_t size = 0; size < bytes.size(); ++size) {
      EXPECT_EQ(DecodeModel(std::span(bytes).first(size)).status().code(), StatusCode::kCorruption);
    }
    bytes.push_back(std::byte{0});
    EXPECT_EQ(DecodeModel(bytes).status().code(), StatusCode::kCorruption);
  }
}

TEST(ModelIdentity, ChangedEncodingsAreRefusedOrAnotherModel) {
  for (const ModelSpec& spec : {TestSpec(), SpecWithDenominators()}) {
    const EncodedModel encoded = EncodeModel(spec);
    for (size_t bit = 0; bit < encoded.bytes.size() * 8; ++bit) {
      std::vector<std::byte> bytes = encoded.bytes;
      bytes[bit / 8] ^= static_cast<std::byte>(1 << (bit % 8));
      const Result<ModelSpec> decoded = DecodeModel(bytes);
      if (!decoded.ok()) continue;
      EXPECT_EQ(EncodeModel(*decoded).bytes, bytes);
    }
  }
}

TEST(ModelIdentity, AnEncodingThatEndsElsewhereIsDescribed) {
  std::vector<std::byte> bytes = EncodeModel(TestSpec()).bytes;
  EXPECT_THAT(DecodeModel(std::span(bytes).first(109)),
              FailsWith(StatusCode::kCorruption,
                        "model: fingerprint at offset 103: expected 7 bytes, found 6"));
  bytes.push_back(std::byte{0});
  EXPECT_THAT(DecodeModel(bytes),
              FailsWith(StatusCode::kCorruption,
                        "model: expected the end at offset 110, found 1 more bytes"));
}

TEST(ModelIdentity, AnUnknownVersionIsRefusedInNumbers) {
  std::vector<std::byte> bytes = EncodeModel(TestSpec()).bytes;
  for (const auto& [version, message] :
       {std::pair(0, "model: encoding version 0, expected 1 to 3"),
        std::pair(4, "model: encoding version 4, expected 1 to 3")}) {
    bytes[0] = static_cast<std::byte>(version);
    EXPECT_THAT(DecodeModel(bytes), FailsWith(StatusCode::kCorruption, message));
  }
}

// A layer takes 45 bytes at least: what is left holds two of them, and would hold three of 44.
TEST(ModelIdentity, NoMoreLayersAreReadThanTheBytesCanHold) {
  std::vector<std::byte> bytes = EncodeModel(TestSpec(std::string(40, 'x'))).bytes;
  ASSERT_EQ(bytes.size(), 9u + 2 * 45 + 4 + 40);
  bytes[5] = std::byte{3};
  EXPECT_THAT(DecodeModel(bytes),
              FailsWith(StatusCode::kCorruption, "model: 3 layers in 143 bytes"));
}

TEST(ModelIdentity, HugeCountsAllocateNothing) {
  std::vector<std::byte> bytes = EncodeModel(TestSpec()).bytes;
  for (size_t i = 5; i < 9; ++i) bytes[i] = std::byte{0xff};
  EXPECT_THAT(DecodeModel(bytes), FailsWith(StatusCode::kCorruption, HasSubstr("layers in")));
}

}  // namespace
}  // namespace attndb::store
