// Goal:   a graph that differs from the one that was probed is an error of its batch, whenever it
//         comes; a graph that llama.cpp reuses is recognised.
// Method: graphs made by hand are shown to the callback as llama.cpp's scheduler does; nothing
//         runs.
#include "engines/llama/attention_hook.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <utility>
#include <vector>

#include "engines/llama/graph_test_util.h"
#include "testing/matchers.h"

namespace attndb::llama {
namespace {

using ::attndb::test::FailsWith;
using ::testing::HasSubstr;

struct Layer {
  ggml_tensor* k_store;
  ggml_tensor* v_store;
  ggml_tensor* attention;
};

class AttentionHookTest : public ::testing::Test {
 protected:
  static ModelSpec TwoLayers() {
    LayerSpec layer;
    layer.num_q_heads = TestGraph::kHeads;
    layer.num_kv_heads = TestGraph::kHeads;
    layer.head_dim = TestGraph::kDim;
    layer.v_head_dim = TestGraph::kDim;
    layer.scale = 0.5f;
    layer.rope = {.layout = RopeLayout::kHalf, .rope_dims = TestGraph::kDim, .base = 10000.0};
    return ModelSpec::Uniform(2, layer, DType::kFloat16, "test");
  }

  void SetUp() override { hook_.Attach(&params_); }

  Layer AddLayer(float scale = 0.5f) {
    ggml_tensor* k_cache = graph_.NewCache();
    ggml_tensor* v_cache = graph_.NewCache();
    const Layer layer = {.k_store = graph_.Store(k_cache, graph_.RotatedRows()),
                         .v_store = graph_.Store(v_cache),
                         .attention = graph_.Attention(k_cache, v_cache, scale)};
    nodes_.insert(nodes_.end(), {graph_.rope(), layer.k_store, layer.v_store, layer.attention});
    return layer;
  }

  bool Ask(ggml_tensor* node) {
    return params_.cb_eval(node, /*ask=*/true, params_.cb_eval_user_data);
  }
  Status ShowBatch(int32_t decode_result = 0) {
    hook_.Begin({}, positions_);
    for (ggml_tensor* node : nodes_) EXPECT_FALSE(Ask(node)) << "the graph is not cut";
    return hook_.End(decode_result);
  }

  TestGraph graph_;
  std::vector<ggml_tensor*> nodes_;
  std::vector<llama_pos> positions_ = {0, 1, 2};
  ModelSpec spec_ = TwoLayers();
  AttentionHook hook_{spec_, HookVariant::kRewrite, 1};
  llama_context_params params_ = {};
};

TEST_F(AttentionHookTest, RewritesThreeNodesALayerAndKnowsThemAgain) {
  const Layer layers[] = {AddLayer(), AddLayer()};
  ATTNDB_EXPECT_OK(ShowBatch());
  for (const Layer& layer : layers) {
    EXPECT_EQ(layer.k_store->op, GGML_OP_NONE);
    EXPECT_EQ(layer.v_store->op, GGML_OP_CUSTOM);
    EXPECT_EQ(layer.attention->op, GGML_OP_CUSTOM);
  }
  ATTNDB_EXPECT_OK(ShowBatch());
}

TEST_F(AttentionHookTest, RefusesALayerThatDiffersFromTheProbe) {
  AddLayer();
  const Layer second = AddLayer(/*scale=*/0.25f);
  EXPECT_THAT(ShowBatch(),
              FailsWith(StatusCode::kUnsupported, HasSubstr("layer 1 of this graph differs")));
  EXPECT_TRUE(params_.abort_callback(params_.abort_callback_data)) << "the run is stopped";
  EXPECT_EQ(second.attention->op, GGML_OP_FLASH_ATTN_EXT);
}

TEST_F(AttentionHookTest, RefusesFeaturesThatAppearLater) {
  AddLayer();
  const Layer second = AddLayer();
  second.attention->src[3] = nullptr;
  EXPECT_THAT(ShowBatch(), FailsWith(StatusCode::kUnsupported, HasSubstr("without mask")));
}

TEST_F(AttentionHookTest, SinksAreReadFromTheirWeightsAndMustBeThoseOfTheProbe) {
  spec_.layers[1].denominator_logits = {0.5f, -2.0f};
  AttentionHook hook(spec_, HookVariant::kRewrite, 1);
  hook.Attach(&params_);
  const auto show = [&] {
    hook.Begin({}, positions_);
    for (ggml_tensor* node : nodes_) Ask(node);
    return hook.End(0);
  };
  AddLayer();
  ggml_tensor*& sinks = AddLayer().attention->src[4];
  EXPECT_THAT(show(), FailsWith(StatusCode::kUnsupported, HasSubstr("layer 1 of this graph")));
  sinks = graph_.Rows();
  EXPECT_THAT(show(), FailsWith(StatusCode::kUnsupported, HasSubstr("sinks that are no weights")));
  sinks = graph_.Weights({0.5f, -2.0f, 1.0f});
  EXPECT_THAT(show(), FailsWith(StatusCode::kUnsupported, HasSubstr("3 f32 values, expected 2")));
  sinks = graph_.Weights({0.5f, std::nanf("")});
  EXPECT_THAT(show(), FailsWith(StatusCode::kUnsupported, HasSubstr("sinks that are not finite")));
  sinks = graph_.Weights({0.5f, -2.5f});
  EXPECT_THAT(show(), FailsWith(StatusCode::kUnsupported, HasSubstr("layer 1 of this graph")));
  sinks = graph_.Weights({0.5f, -2.0f});
  ATTNDB_EXPECT_OK(show());
}

TEST_F(AttentionHookTest, AGraphThatWasRewrittenInPartIsFinishedLater) {
  const Layer first = AddLayer();
  const Layer second = AddLayer();
  ggml_tensor* const mask = std::exchange(second.attention->src[3], nullptr);
  EXPECT_FALSE(ShowBatch().ok());
  EXPECT_EQ(first.attention->op, GGML_OP_CUSTOM);
  second.attention->src[3] = mask;
  ATTNDB_EXPECT_OK(ShowBatch());
  EXPECT_EQ(second.attention->op, GGML_OP_CUSTOM);
}

TEST_F(AttentionHookTest, CountsTheLayers) {
  AddLayer();
  EXPECT_THAT(ShowBatch(),
              FailsWith(StatusCode::kUnsupported, HasSubstr("1 attention layers, expected 2")));
  AddLayer();
  ATTNDB_EXPECT_OK(ShowBatch());
  AddLayer();
  EXPECT_THAT(ShowBatch(), FailsWith(StatusCode::kUnsupported, HasSubstr("more than 2")));
}

TEST_F(AttentionHookTest, RefusesABatchThatWasSplitOrReordered) {
  AddLayer();
  AddLayer();
  positions_ = {0, 1};
  EXPECT_THAT(ShowBatch(), FailsWith(StatusCode::kUnsupported, HasSubstr("split the batch")));
  positions_ = {0, 2, 1};
  EXPECT_THAT(ShowBatch(), FailsWith(StatusCode::kUnsupported, HasSubstr("reordered")));
  positions_ = {0, 1, 2};
  ATTNDB_EXPECT_OK(ShowBatch());
}

TEST_F(AttentionHookTest, ReportsLlamaCppsOwnFailure) {
  AddLayer();
  AddLayer();
  EXPECT_THAT(ShowBatch(/*decode_result=*/1),
              FailsWith(StatusCode::kInternal, HasSubstr("llama_decode returned 1")));
}

TEST_F(AttentionHookTest, ObservingCutsTheGraphAndLeavesItAlone) {
  AttentionHook observer(spec_, HookVariant::kObserve, 1);
  observer.Attach(&params_);
  const Layer layers[] = {AddLayer(), AddLayer()};
  observer.Begin({}, positions_);
  for (const Layer& layer : layers) {
    EXPECT_TRUE(Ask(layer.k_store));
    EXPECT_TRUE(Ask(layer.v_store));
    EXPECT_FALSE(Ask(graph_.Computation()));
    EXPECT_TRUE(Ask(layer.attention));
    EXPECT_EQ(layer.attention->op, GGML_OP_FLASH_ATTN_EXT);
    EXPECT_EQ(layer.k_store->op, GGML_OP_SET_ROWS);
  }
  ATTNDB_EXPECT_OK(observer.End(0));
}

}  // namespace
}  // namespace attndb::llama
