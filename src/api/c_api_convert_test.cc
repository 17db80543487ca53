// Goal:   structs of older, equal and newer callers are read right; errors name the wrong field.
// Method: structs with sizes, pointers and numbers that a C caller can get wrong.
#include "api/c_api_convert.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <vector>

namespace attndb::internal {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

template <typename Struct>
Struct Zeroed() {
  Struct value;
  std::memset(&value, 0, sizeof(value));
  value.struct_size = sizeof(value);
  return value;
}

attndb_tensor Tensor(void* data) {
  auto tensor = Zeroed<attndb_tensor>();
  tensor.data = data;
  tensor.shape[0] = 2;
  tensor.shape[1] = 3;
  tensor.shape[2] = 4;
  return tensor;
}

TEST(CApiConvertTest, ZeroStridesAreContiguous) {
  float data[24] = {};
  const attndb_tensor tensor = Tensor(data);
  const auto view = ToView(&tensor, "k");
  ASSERT_TRUE(view.ok()) << view.status();
  EXPECT_EQ(view->data, data);
  EXPECT_EQ(view->dtype, DType::kFloat32);
  EXPECT_THAT(view->shape, ElementsAre(2, 3, 4));
  EXPECT_THAT(view->strides, ElementsAre(12, 4, 1));
}

TEST(CApiConvertTest, GivenStridesAreKept) {
  float data[24] = {};
  attndb_tensor tensor = Tensor(data);
  tensor.strides[0] = -12;
  tensor.strides[1] = 4;
  tensor.strides[2] = 1;
  EXPECT_THAT(ToView(&tensor, "k")->strides, ElementsAre(-12, 4, 1));
}

TEST(CApiConvertTest, WhatIsWrongWithATensorIsNamed) {
  float data[24] = {};
  EXPECT_EQ(ToView(nullptr, "k").status().message(), "k is NULL");
  attndb_tensor tensor = Tensor(nullptr);
  EXPECT_EQ(ToMutableView(&tensor, "out").status().message(), "out.data is NULL");
  tensor = Tensor(data);
  tensor.dtype = 256;  // Would be float32 if it were only cut to a byte.
  EXPECT_THAT(ToView(&tensor, "k").status().message(), HasSubstr("k has dtype 256"));
  tensor.dtype = -1;
  EXPECT_EQ(ToView(&tensor, "k").status().code(), StatusCode::kInvalidArgument);
  tensor = Tensor(data);
  tensor.shape[1] = INT64_MAX;
  EXPECT_THAT(ToView(&tensor, "k").status().message(), HasSubstr("overflows"));
}

TEST(CApiConvertTest, AStructSizeThatIsTooSmallIsRefused) {
  float data[24] = {};
  for (const size_t size : {size_t{0}, size_t{8}, sizeof(attndb_tensor) - 1}) {
    attndb_tensor tensor = Tensor(data);
    tensor.struct_size = size;
    const auto view = ToView(&tensor, "k");
    EXPECT_EQ(view.status().code(), StatusCode::kInvalidArgument) << size;
    EXPECT_THAT(view.status().message(), HasSubstr("attndb_tensor.struct_size is"));
  }
}

TEST(CApiConvertTest, ANewerCallerIsServedAsLongAsItUsesNothingNew) {
  struct Newer {
    attndb_store_options known;
    int64_t unknown;
  };
  Newer newer = {Zeroed<attndb_store_options>(), 0};
  newer.known.struct_size = sizeof(newer);
  newer.known.name = "book";
  const auto options = ToStoreOptions(&newer.known);
  ASSERT_TRUE(options.ok()) << options.status();
  EXPECT_EQ(options->name, "book");
  newer.unknown = 1;
  EXPECT_EQ(ToStoreOptions(&newer.known).status().code(), StatusCode::kUnsupported);
}

TEST(CApiConvertTest, NullOptionsAndZeroFieldsAreTheDefaults) {
  const DBOptions defaults;
  const auto zeroed = Zeroed<attndb_db_options>();
  for (const attndb_db_options* from : {static_cast<const attndb_db_options*>(nullptr), &zeroed}) {
    const auto options = ToDBOptions(from);
    ASSERT_TRUE(options.ok());
    EXPECT_EQ(options->read_only, defaults.read_only);
    EXPECT_EQ(options->create_if_missing, defaults.create_if_missing);
    EXPECT_EQ(options->plan, defaults.plan);
    EXPECT_EQ(options->query_sample, defaults.query_sample);
    EXPECT_EQ(options->dense_query_tokens, defaults.dense_query_tokens);
    EXPECT_EQ(options->num_threads, defaults.num_threads);
    EXPECT_EQ(options->host_memory_bytes, defaults.host_memory_bytes);
    EXPECT_EQ(options->background_builds, defaults.background_builds);
    EXPECT_EQ(options->background_threads, defaults.background_threads);
    EXPECT_EQ(options->measure_machine, defaults.measure_machine);
    EXPECT_EQ(options->index, defaults.index);
    EXPECT_EQ(options->kmeans_iterations, defaults.kmeans_iterations);
    EXPECT_EQ(options->roar_keys_per_query, defaults.roar_keys_per_query);
    EXPECT_EQ(options->roar_max_degree, defaults.roar_max_degree);
    EXPECT_EQ(options->roar_search_window, defaults.roar_search_window);
    EXPECT_EQ(options->max_training_queries, defaults.max_training_queries);
    EXPECT_EQ(options->grow_graphs, defaults.grow_graphs);
  }
  EXPECT_TRUE(ToSessionOptions(nullptr)->reuse);
  EXPECT_FALSE(ToStoreOptions(nullptr)->ttl.has_value());
}

TEST(CApiConvertTest, EveryOptionOfAStoreArrives) {
  auto db = Zeroed<attndb_db_options>();
  db.read_only = 1;
  db.must_exist = 1;
  db.plan = "window";
  db.query_sample = -1;
  db.dense_query_tokens = 8;
  db.num_threads = UINT32_MAX;
  db.host_memory_bytes = 5;
  db.no_background_builds = 1;
  db.background_threads = 3;
  db.fixed_prices = 1;
  db.index = "pq";
  db.kmeans_iterations = 4;
  db.roar_keys_per_query = 50;
  db.roar_max_degree = 16;
  db.roar_search_window = 200;
  db.max_training_queries = 7;
  db.grow_graphs = 1;
  db.import_segment_tokens = 9000;
  const auto options = ToDBOptions(&db);
  ASSERT_TRUE(options.ok());
  EXPECT_TRUE(options->read_only);
  EXPECT_FALSE(options->create_if_missing);
  EXPECT_EQ(options->plan, "window");
  EXPECT_EQ(options->query_sample, 0);
  EXPECT_EQ(options->dense_query_tokens, 8U);
  EXPECT_EQ(options->num_threads, 0U);
  EXPECT_EQ(options->host_memory_bytes, 5U);
  EXPECT_FALSE(options->background_builds);
  EXPECT_EQ(options->background_threads, 3U);
  EXPECT_FALSE(options->measure_machine);
  EXPECT_EQ(options->index, "pq");
  EXPECT_EQ(options->kmeans_iterations, 4U);
  EXPECT_EQ(options->roar_keys_per_query, 50U);
  EXPECT_EQ(options->roar_max_degree, 16U);
  EXPECT_EQ(options->roar_search_window, 200U);
  EXPECT_EQ(options->max_training_queries, 7U);
  EXPECT_TRUE(options->grow_graphs);
  EXPECT_EQ(options->import_segment_tokens, 9000U);
}

TEST(CApiConvertTest, EveryOptionOfACallArrives) {
  auto store = Zeroed<attndb_store_options>();
  store.name = "n";
  store.replace = store.drop_base = store.pin = store.has_ttl = 1;
  store.ttl_seconds = 60;
  const auto stored = ToStoreOptions(&store);
  ASSERT_TRUE(stored.ok());
  EXPECT_TRUE(stored->replace && stored->drop_base && stored->pin);
  EXPECT_EQ(stored->ttl, std::chrono::seconds(60));
  EXPECT_EQ(stored->text_layout, TextLayout());
  store.text_layout = "document user:3-90";
  EXPECT_EQ(ToStoreOptions(&store)->text_layout.ToString(), "document user:3-90");
  store.text_layout = "novel";
  EXPECT_EQ(ToStoreOptions(&store).status().code(), StatusCode::kInvalidArgument);
  store.text_layout = nullptr;
  EXPECT_EQ(stored->title + stored->note, "");
  store.title = "What is it?";
  store.note = "a\0b";
  store.note_bytes = 3;
  EXPECT_EQ(ToStoreOptions(&store)->title, "What is it?");
  EXPECT_EQ(ToStoreOptions(&store)->note, std::string("a\0b", 3));
  store.note = nullptr;
  EXPECT_EQ(ToStoreOptions(&store).status().code(), StatusCode::kInvalidArgument);

  auto compact = Zeroed<attndb_compact_options>();
  compact.segment_tokens = 4096;
  compact.context = "doc";
  EXPECT_EQ(ToCompactOptions(&compact)->segment_tokens, 4096U);
  EXPECT_EQ(ToCompactOptions(&compact)->context, "doc");
  EXPECT_EQ(ToCompactOptions(nullptr)->segment_tokens, 0U);
  compact.struct_size = 8;
  EXPECT_EQ(ToCompactOptions(&compact).status().code(), StatusCode::kInvalidArgument);

  auto session = Zeroed<attndb_session_options>();
  session.context = "c";
  session.no_reuse = 1;
  session.plan = "window";
  session.first_position = 7;
  const auto started = ToSessionOptions(&session);
  ASSERT_TRUE(started.ok());
  EXPECT_EQ(started->context, "c");
  EXPECT_FALSE(started->reuse);
  EXPECT_EQ(started->plan, "window");
  EXPECT_EQ(started->first_position, 7);
}

class CApiSpecTest : public testing::Test {
 protected:
  CApiSpecTest() : layers_(2, Zeroed<attndb_layer_spec>()), spec_(Zeroed<attndb_model_spec>()) {
    for (attndb_layer_spec& layer : layers_) {
      layer.num_q_heads = 4;
      layer.num_kv_heads = 2;
      layer.head_dim = layer.v_head_dim = 8;
      layer.rope_layout = ATTNDB_ROPE_INTERLEAVED;
    }
    spec_.layers = layers_.data();
    spec_.num_layers = 2;
    spec_.kv_dtype = ATTNDB_BFLOAT16;
    spec_.fingerprint = "a\0b";
    spec_.fingerprint_bytes = 3;
    spec_.model_name = "Toy";
  }

  std::vector<attndb_layer_spec> layers_;
  attndb_model_spec spec_;
};

TEST_F(CApiSpecTest, ASpecArrivesWithItsDefaults) {
  ASSERT_FALSE(ToModelSpec(&spec_)->unrotated_keys);
  spec_.unrotated_keys = 1;
  EXPECT_TRUE(ToModelSpec(&spec_)->unrotated_keys);
  layers_[1].rope_base = 500000;
  layers_[1].rope_scaling = "linear:factor=4";
  const auto spec = ToModelSpec(&spec_);
  ASSERT_TRUE(spec.ok()) << spec.status();
  EXPECT_EQ(spec->fingerprint, std::string("a\0b", 3));
  EXPECT_EQ(spec->source, (ModelSource{.name = "Toy", .path = ""}));
  EXPECT_EQ(spec->kv_dtype, DType::kBFloat16);
  ASSERT_EQ(spec->layers.size(), 2U);
  EXPECT_EQ(spec->layers[0].rope.layout, RopeLayout::kInterleaved);
  EXPECT_EQ(spec->layers[0].rope.base, 10000);
  EXPECT_EQ(spec->layers[1].rope.base, 500000);
  EXPECT_EQ(spec->layers[1].rope.scaling, "linear:factor=4");
  EXPECT_TRUE(spec->Validate().ok());
}

TEST_F(CApiSpecTest, DenominatorLogitsArriveByQHead) {
  const float logits[] = {0.5f, -1.0f, 2.0f, 0.0f};
  layers_[1].denominator_logits = logits;
  layers_[1].num_denominator_logits = 4;
  const auto spec = ToModelSpec(&spec_);
  ASSERT_TRUE(spec.ok()) << spec.status();
  EXPECT_TRUE(spec->layers[0].denominator_logits.empty());
  EXPECT_THAT(spec->layers[1].denominator_logits, ElementsAre(0.5f, -1.0f, 2.0f, 0.0f));
  EXPECT_TRUE(spec->Validate().ok());
  layers_[1].denominator_logits = nullptr;
  EXPECT_THAT(ToModelSpec(&spec_).status().message(),
              HasSubstr("num_denominator_logits is 4; expected 0"));
}

// The struct of a program that was compiled before the field existed.
TEST_F(CApiSpecTest, ALayerThatIsTooShortForDenominatorLogitsHasNone) {
  constexpr size_t kOldBytes = offsetof(attndb_layer_spec, denominator_logits);
  std::vector<unsigned char> old(2 * kOldBytes);
  for (size_t i = 0; i < layers_.size(); ++i) {
    layers_[i].struct_size = kOldBytes;
    std::memcpy(old.data() + i * kOldBytes, &layers_[i], kOldBytes);
  }
  spec_.layers = reinterpret_cast<const attndb_layer_spec*>(old.data());
  const auto spec = ToModelSpec(&spec_);
  ASSERT_TRUE(spec.ok()) << spec.status();
  EXPECT_EQ(spec->layers[1].num_q_heads, 4u);
  EXPECT_EQ(spec->layers[1].rope.layout, RopeLayout::kInterleaved);
  EXPECT_TRUE(spec->layers[1].denominator_logits.empty());
}

TEST_F(CApiSpecTest, WhatIsWrongWithASpecIsNamed) {
  const auto message = [&] { return ToModelSpec(&spec_).status().message(); };
  EXPECT_EQ(ToModelSpec(nullptr).status().message(), "spec is NULL");
  layers_[1].rope_layout = 3;
  EXPECT_THAT(message(), HasSubstr("rope_layout is 3"));
  layers_[1].rope_layout = 0;
  layers_[1].struct_size += 8;
  EXPECT_EQ(ToModelSpec(&spec_).status().code(), StatusCode::kInvalidArgument);
  spec_.fingerprint = nullptr;
  EXPECT_THAT(message(), HasSubstr("fingerprint is NULL"));
  spec_.layers = nullptr;
  EXPECT_THAT(message(), HasSubstr("layers is NULL"));
}

TEST(CApiConvertTest, NullTokensAreNoTokensOnly) {
  EXPECT_TRUE(ToTokens(nullptr, 0).ok());
  EXPECT_EQ(ToTokens(nullptr, 1).status().message(), "tokens is NULL");
}

}  // namespace
}  // namespace attndb::internal
