// Goal:   the contexts of passages come best first, each once, and no more than were asked for.
// Method: passages written down.
#include "cli/common/library.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace attndb::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

Passage Of(int64_t id) { return {.context = "n", .context_id = ContextId{id}}; }

TEST(LibraryTest, ContextsComeInTheOrderOfTheirBestPassages) {
  const std::vector<Passage> passages = {Of(7), Of(2), Of(7), Of(9), Of(2), Of(1)};
  EXPECT_THAT(ContextsOf(passages, 10), ElementsAre("#7", "#2", "#9", "#1"));
  EXPECT_THAT(ContextsOf(passages, 2), ElementsAre("#7", "#2"));
  EXPECT_THAT(ContextsOf({}, 3), IsEmpty());
}

}  // namespace
}  // namespace attndb::cli
