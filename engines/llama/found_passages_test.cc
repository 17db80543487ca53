// Goal:   the contexts of passages come best first, each once, and no more than were asked for;
//         passages that do not stand out are dropped.
// Method: passages written down.
#include "engines/llama/found_passages.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace attndb::llama {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

Passage Of(int64_t id, double score = 1) {
  return {.context = "n", .context_id = ContextId{id}, .score = score};
}

TEST(FoundPassagesTest, ContextsComeInTheOrderOfTheirBestPassages) {
  const std::vector<Passage> passages = {Of(7), Of(2), Of(7), Of(9), Of(2), Of(1)};
  EXPECT_THAT(ContextsOf(passages, 10), ElementsAre("#7", "#2", "#9", "#1"));
  EXPECT_THAT(ContextsOf(passages, 2), ElementsAre("#7", "#2"));
  EXPECT_THAT(ContextsOf({}, 3), IsEmpty());
}

TEST(FoundPassagesTest, PassagesThatDoNotStandOutAreDropped) {
  FindResult found;
  found.passages = {Of(3, 4.321), Of(7, 0.5), Of(3, 0.004), Of(7, 0), Of(7, -1e-9)};
  DropPassagesWithoutScore(&found);
  ASSERT_EQ(found.passages.size(), 2u);
  EXPECT_EQ(found.passages.back().score, 0.5);
}

}  // namespace
}  // namespace attndb::llama
