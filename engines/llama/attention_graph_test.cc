// Goal:   the three nodes of a layer are found whatever their order, and anything else is refused.
// Method: small graphs made by hand with ggml's public functions; a cache tensor lies in a buffer
//         of its own, as llama.cpp's does.
#include "engines/llama/attention_graph.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "engines/llama/graph_test_util.h"
#include "testing/matchers.h"

namespace attndb::llama {
namespace {

using ::attndb::test::FailsWith;
using ::testing::HasSubstr;

class AttentionGraphTest : public ::testing::Test {
 protected:
  // Reads all nodes; gives the sites, or the first error, Finish's too.
  Result<std::vector<AttentionSite>> Read(const std::vector<ggml_tensor*>& nodes) {
    GraphReader reader;
    std::vector<AttentionSite> sites;
    for (ggml_tensor* node : nodes) {
      ATTNDB_ASSIGN_OR_RETURN(const auto site, reader.Visit(node));
      if (site) sites.push_back(*site);
    }
    ATTNDB_RETURN_IF_ERROR(reader.Finish());
    return sites;
  }

  TestGraph graph_;
  ggml_tensor* const k_cache_ = graph_.NewCache();
  ggml_tensor* const v_cache_ = graph_.NewCache();
  ggml_tensor* const other_cache_ = graph_.NewCache();
};

TEST_F(AttentionGraphTest, FindsStoresInEitherOrderAmongViews) {
  ggml_tensor* k = graph_.Store(k_cache_);
  ggml_tensor* v = graph_.Store(v_cache_);
  ggml_tensor* view =
      ggml_reshape_1d(graph_.nodes(), graph_.Rows(), TestGraph::kWidth * TestGraph::kTokens);
  ggml_tensor* attention = graph_.Attention(k_cache_, v_cache_);
  for (const bool k_first : {true, false}) {
    ATTNDB_ASSERT_OK_AND_ASSIGN(const std::vector<AttentionSite> sites,
                                Read({graph_.Computation(), k_first ? k : v, view, k_first ? v : k,
                                      graph_.Computation(), attention}));
    ASSERT_EQ(sites.size(), 1u);
    EXPECT_EQ(sites[0].k_store, k);
    EXPECT_EQ(sites[0].v_store, v);
    EXPECT_EQ(sites[0].attention, attention);
    EXPECT_EQ(sites[0].k_first, k_first);
    EXPECT_EQ(sites[0].layer, 0u);
  }
}

TEST_F(AttentionGraphTest, IgnoresRowsStoredElsewhere) {
  ggml_tensor* scratch =
      ggml_scale(graph_.nodes(), graph_.Rows(), 2.0f);  // As expert routing does.
  ggml_tensor* cells = ggml_new_tensor_1d(graph_.nodes(), GGML_TYPE_I64, TestGraph::kTokens);
  ggml_tensor* routing = ggml_set_rows(graph_.nodes(), scratch, graph_.Rows(), cells);
  ATTNDB_ASSERT_OK_AND_ASSIGN(const auto sites,
                              Read({routing, graph_.Store(k_cache_), graph_.Store(v_cache_),
                                    graph_.Attention(k_cache_, v_cache_), routing}));
  EXPECT_EQ(sites.size(), 1u);
}

TEST_F(AttentionGraphTest, RefusesWhatItDoesNotUnderstand) {
  EXPECT_THAT(Read({graph_.Store(k_cache_), graph_.Attention(k_cache_, k_cache_)}),
              FailsWith(StatusCode::kUnsupported, HasSubstr("MLA")));
  EXPECT_THAT(Read({graph_.Attention(k_cache_, v_cache_)}),
              FailsWith(StatusCode::kUnsupported, HasSubstr("follows 0 stores")));
  EXPECT_THAT(Read({graph_.Store(k_cache_), graph_.Store(v_cache_), graph_.Store(other_cache_)}),
              FailsWith(StatusCode::kUnsupported, HasSubstr("more than two stores")));
  EXPECT_THAT(Read({graph_.Store(k_cache_), graph_.Computation(), graph_.Store(v_cache_)}),
              FailsWith(StatusCode::kUnsupported, HasSubstr("computed between")));
  EXPECT_THAT(Read({graph_.Store(k_cache_), graph_.Store(v_cache_),
                    graph_.Attention(k_cache_, other_cache_)}),
              FailsWith(StatusCode::kUnsupported, HasSubstr("other KV")));
  EXPECT_THAT(Read({graph_.Store(k_cache_), graph_.Store(v_cache_)}),
              FailsWith(StatusCode::kUnsupported, HasSubstr("no flash-attention node")));
  ggml_tensor* fresh =
      ggml_new_tensor_2d(graph_.nodes(), GGML_TYPE_F16, TestGraph::kWidth, TestGraph::kCells);
  EXPECT_THAT(Read({graph_.Attention(fresh, v_cache_)}),
              FailsWith(StatusCode::kUnsupported, HasSubstr("cross-attention")));
}

TEST_F(AttentionGraphTest, SkipIsAsGoodAsVisit) {
  GraphReader reader;
  ATTNDB_ASSERT_OK(reader.Visit(graph_.Store(k_cache_)));
  reader.Skip(GGML_OP_VIEW);
  ATTNDB_EXPECT_OK(reader.Visit(graph_.Store(v_cache_)));
  reader.Reset();
  ATTNDB_ASSERT_OK(reader.Visit(graph_.Store(k_cache_)));
  reader.Skip(GGML_OP_ADD);
  EXPECT_THAT(reader.Visit(graph_.Store(v_cache_)),
              FailsWith(StatusCode::kUnsupported, HasSubstr("computed between")));
}

}  // namespace
}  // namespace attndb::llama
