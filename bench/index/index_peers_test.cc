// Goal:   what a program of peers says is taken as it stands, and refused where it can't be true.
#include "bench/index/index_peers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace attndb::bench {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<IndexHeadResult> TwoHeads() {
  std::vector<IndexHeadResult> heads(2);
  heads[0].name = "L0H0";
  heads[1].name = "L3H1";
  for (IndexHeadResult& head : heads) head.num_keys = 1000;
  return heads;
}

TEST(IndexPeersTest, AMeasurementStandsWithItsHead) {
  std::vector<IndexHeadResult> heads = TwoHeads();
  const Status status =
      AddPeerLine(R"({"head": "L3H1", "peer": "ivf", "build": {"lists": 32}, )"
                  R"("search": {"probes": 4, "by": "x"}, "recall": 0.97, "us_per_query": 12.5, )"
                  R"("visited": 0.1, "index_bytes": 64000})",
                  &heads);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_TRUE(heads[0].results.empty());
  ASSERT_EQ(heads[1].results.size(), 1u);
  const IndexResult& result = heads[1].results[0];
  EXPECT_EQ(result.name, "ivf");
  EXPECT_EQ(result.setting, "lists=32; by=x probes=4");
  EXPECT_EQ(result.recall, 0.97);
  EXPECT_EQ(result.us_per_query, 12.5);
  EXPECT_EQ(result.visited, 0.1);
  EXPECT_EQ(result.build_seconds, 0);
  EXPECT_EQ(result.index_bytes, 64);  // A key.
}

TEST(IndexPeersTest, WhatCouldNotRunIsLeftOutOfEachHead) {
  std::vector<IndexHeadResult> heads = TwoHeads();
  ASSERT_TRUE(
      AddPeerLine(R"({"head": null, "peer": "hnsw", "left_out": "no faiss"})", &heads).ok());
  for (const IndexHeadResult& head : heads) {
    EXPECT_THAT(head.left_out, ElementsAre("hnsw: no faiss"));
  }
}

TEST(IndexPeersTest, OtherLinesArePassedOver) {
  std::vector<IndexHeadResult> heads = TwoHeads();
  for (const char* line : {"", "building ...", R"({"summary": "L0H0", "best": {}})"}) {
    EXPECT_TRUE(AddPeerLine(line, &heads).ok()) << line;
  }
  EXPECT_TRUE(heads[0].results.empty());
}

TEST(IndexPeersTest, LinesThatCannotBeTrueAreRefused) {
  std::vector<IndexHeadResult> heads = TwoHeads();
  for (const char* line : {"{", R"({"head": "L0H0", )", "{\"peer\": \"\xff\"}",
                           R"({"recall": 1, "peer": "p", "us_per_query": 1})",
                           R"({"recall": 1, "head": 3, "peer": "p", "us_per_query": 1})",
                           R"({"recall": 1, "head": "L0H0", "peer": "p", "us_per_query": "fast"})",
                           R"({"recall": 1, "head": "L9H9", "peer": "p", "us_per_query": 1})"}) {
    const Status status = AddPeerLine(line, &heads);
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << line;
  }
  EXPECT_THAT(
      AddPeerLine(R"({"recall": 1, "head": "L9H9", "peer": "p", "us_per_query": 1})", &heads)
          .message(),
      HasSubstr("L9H9"));
  EXPECT_TRUE(heads[0].results.empty() && heads[1].results.empty());
}

}  // namespace
}  // namespace attndb::bench
