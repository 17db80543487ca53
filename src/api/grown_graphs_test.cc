// Goal:   if the store is opened so, the graph of a merged segment grows from the graph of the
//         run's first segment, and is a whole graph of all. If that is impossible, the graph is
//         built anew.
// Method: two segments are merged with and without. Narrow searches of graphs that differ give
//         answers that differ, and those of equal graphs equal bits.
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "api/db_test_util.h"

namespace attndb {
namespace {

using test::DBFixture;
using test::Tokens;
using test::ToyModel;

class GrownGraphsTest : public DBFixture {
 protected:
  struct Answers {
    std::vector<float> narrow;
    double error = 0;  // Error of a search so wide that it visits all keys.
  };

  GrownGraphsTest() : DBFixture(/*background_builds=*/true) {}

  // The answers of two segments, the first of which has a graph, that were merged to one.
  Answers MergedWith(const std::string& index, DBOptions options, const std::string& lost = "") {
    db_.reset();
    std::filesystem::remove_all(store());
    Open(options);
    // Run and not only appended, so that q is sampled.
    const Tokens stored = ToyModel::Tokens(4200, 1);
    for (const size_t end : {2100u, 4200u}) {
      ATTNDB_EXPECT_OK(StoreTokens(std::span(stored).first(end), {.name = "a", .replace = true}));
    }
    EXPECT_EQ(db_->Describe("a")->query_sample_bytes > 0, options.query_sample > 0);
    const BuildReport report = *db_->Build("a", index);
    if (!lost.empty()) RemoveFiles(index, lost);
    ATTNDB_EXPECT_OK(db_->Compact({.segment_tokens = 8000}));
    ATTNDB_EXPECT_OK(db_->WaitForBackground());
    const ContextInfo info = *db_->Describe("a");
    EXPECT_EQ(info.segments.size(), 1u);
    EXPECT_EQ(info.derived_bytes.count(report.kind), 1u);
    Session session = Resume(stored);
    const std::string plan = "topk(k=20,index=" + index + ",beam_width=";
    Answers answers = {.narrow = ProbeWith(&session, plan + "20)")};
    const std::vector<float> all = ProbeWith(&session, "topk(k=20)");
    answers.error = Difference(ProbeWith(&session, plan + "6000)"), all);
    return answers;
  }

  // All files of the kind whose names end so.
  void RemoveFiles(const std::string& index, const std::string& end) {
    size_t num_removed = 0;
    for (const auto& entry : std::filesystem::directory_iterator(store() + "/segments")) {
      const std::string name = entry.path().filename();
      if (name.find(index + "_1") == std::string::npos || !name.ends_with(end)) continue;
      if (std::filesystem::remove(entry.path())) ++num_removed;
    }
    EXPECT_EQ(num_removed, 2u);
  }
};

TEST_F(GrownGraphsTest, AMergedGraphGoesOnFromTheFirst) {
  for (const std::string index : {"graph", "roargraph"}) {
    const Answers built = MergedWith(index, {});
    const Answers grown = MergedWith(index, {.grow_graphs = true});
    EXPECT_NE(grown.narrow, built.narrow) << index;
    EXPECT_LT(grown.error, 1e-6) << index;
    EXPECT_LT(built.error, 1e-6) << index;
    const Answers again = MergedWith(index, {.background_threads = 3, .grow_graphs = true});
    EXPECT_EQ(again.narrow, grown.narrow) << index;
  }
}

TEST_F(GrownGraphsTest, WhatCannotBeReadIsBuiltAnew) {
  const Answers built = MergedWith("graph", {});
  EXPECT_EQ(MergedWith("graph", {.grow_graphs = true}, ".manifest").narrow, built.narrow);
}

// A graph knows nothing of keys whose tokens left no q.
TEST_F(GrownGraphsTest, WithoutQueriesAGraphIsBuiltAnew) {
  const Answers built = MergedWith("graph", {.query_sample = 0});
  EXPECT_EQ(MergedWith("graph", {.query_sample = 0, .grow_graphs = true}).narrow, built.narrow);
}

// Graphs of q heads are always built anew from all keys.
TEST_F(GrownGraphsTest, GraphsOfHeadsDoNotGrow) {
  const Answers built = MergedWith("graph,graphs=head", {});
  EXPECT_LT(built.error, 1e-6);
  EXPECT_NE(built.narrow, MergedWith("graph", {}).narrow);
  EXPECT_EQ(MergedWith("graph,graphs=head", {.grow_graphs = true}).narrow, built.narrow);
}

TEST_F(GrownGraphsTest, TrainingQueriesHaveAMost) {
  const Answers all = MergedWith("graph", {.max_training_queries = UINT32_MAX});
  EXPECT_NE(MergedWith("graph", {.max_training_queries = 9}).narrow, all.narrow);
  EXPECT_EQ(MergedWith("graph", {}).narrow, all.narrow);  // Fewer than two for five keys are kept.
}

}  // namespace
}  // namespace attndb
