// Goal:   the heads that are asked for are measured, and the best setting is the fastest that finds
//         enough. What is to be found is checked by a peer of its own in tests/cli/bench_test.py.
#include "bench/index/index_bench.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "bench/heads/heads_test_util.h"

namespace attndb::bench {
namespace {

using ::testing::HasSubstr;

TEST(IndexBenchTest, TheBestIsTheFastestThatFindsEnough) {
  IndexHeadResult head;
  const auto add = [&](const char* name, const char* setting, double recall, double us) {
    IndexResult& result = head.results.emplace_back();
    result.name = name;
    result.setting = setting;
    result.recall = recall;
    result.us_per_query = us;
  };
  add("attndb", "few", 0.9, 1);
  add("attndb", "more", 0.95, 3);
  add("attndb", "most", 0.99, 5);
  add("attndb", "slow", 0.99, 6);
  add("ivf", "few", 0.96, 4);
  add("flat", "", 0.98, 2);
  EXPECT_EQ(FindBest(head, 0.95, true).setting, "more");
  EXPECT_EQ(FindBest(head, 0.96, true).setting, "most");
  EXPECT_EQ(FindBest(head, 0.95, false).name, "flat");
  EXPECT_EQ(FindBest(head, 0.95, false).us_per_query, 2);
  EXPECT_EQ(FindBest(head, 0.99, false).name, "");
}

TEST(IndexBenchTest, HeadsAreThoseOfTheListOrOneOfEachLayer) {
  const Rope rope = {.base = 1e4};
  const auto capture = HeadsFromCapture(WriteCapture("index_bench.safetensors", 60, rope), "");
  ASSERT_TRUE(capture.ok()) << capture.status();
  HeadInfo info = (*capture)->info();  // Layers 0 and 2.
  for (LayerSpec& layer : info.model.layers) layer.num_kv_heads = 2;
  const auto all = ParseHeads(info, "");
  ASSERT_TRUE(all.ok());
  ASSERT_EQ(all->size(), 2u);
  EXPECT_EQ((*all)[0].name, "L0H0");
  EXPECT_EQ((*all)[1].name, "L2H1");
  const auto some = ParseHeads(info, "2:1,0:1,2:0");
  ASSERT_TRUE(some.ok()) << some.status();
  ASSERT_EQ(some->size(), 3u);
  EXPECT_EQ((*some)[0].layer_index, 1u);
  EXPECT_EQ((*some)[0].kv_head, 1u);
  EXPECT_EQ((*some)[1].name, "L0H1");
  for (const char* text : {"1:0", "0:2", "0", ":", "0:0,", "0:0 ", "-1:0", "99999999999:0"}) {
    EXPECT_THAT(ParseHeads(info, text).status().message(), HasSubstr("layer:kv head")) << text;
  }
}

TEST(IndexBenchTest, HeadsWithTooFewTokensAreRefused) {
  const auto source = HeadsFromArrays(Array({100, 1, 8}, 1), Array({100, 1, 8}, 2),
                                      Array({40, 2, 8}, 3), DType::kFloat32);
  ASSERT_TRUE(source.ok());
  const auto heads = RunIndexBench(source->get(), {.plans = {"topk(k=5,bits=exact)"}});
  EXPECT_EQ(heads.status().code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(heads.status().message(), HasSubstr("found 40 and 100"));
}

TEST(IndexBenchTest, AnIndexThatCannotBeBuiltIsRefusedByItsName) {
  const auto source = HeadsFromArrays(Array({3000, 1, 8}, 1), Array({3000, 1, 8}, 2),
                                      Array({3000, 2, 8}, 3), DType::kFloat32);
  ASSERT_TRUE(source.ok()) << source.status();
  const auto heads = RunIndexBench(source->get(), {.plans = {"topk(k=5,index=graph)"},
                                                   .num_queries = 2,
                                                   .num_rounds = 1,
                                                   .temp_dir = testing::TempDir()});
  EXPECT_EQ(heads.status().code(), StatusCode::kUnsupported) << heads.status();
  EXPECT_THAT(heads.status().message(),
              HasSubstr("plan 'topk(k=5,index=graph)' can't be measured: index=flat instead of "
                        "index=graph: too few tokens: one segment needs 2,048"));
}

}  // namespace
}  // namespace attndb::bench
