// Goal:   contexts are listed below the tokens that they share, with the bytes that they alone use.
// Method: chains of a few segments, written down; trees compared as JSON.
#include "cli/common/context_tree.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

namespace attndb::cli {
namespace {

struct Link {
  int64_t segment;
  uint64_t num_tokens;
};

ContextInfo Context(const std::string& name, const std::vector<Link>& chain, uint64_t own_bytes) {
  ContextInfo context;
  context.name = name;
  context.own_bytes = own_bytes;
  for (const Link& link : chain) {
    SegmentInfo segment;
    segment.segment_id = link.segment;
    segment.num_tokens_used = link.num_tokens;
    segment.file_bytes = 1000;
    context.num_tokens += link.num_tokens;
    context.file_bytes += segment.file_bytes;
    context.segments.push_back(segment);
  }
  return context;
}

// "a(b(c) d)".
std::string Shape(const std::vector<ContextNode>& nodes) {
  std::string text;
  for (const ContextNode& node : nodes) {
    if (!text.empty()) text += " ";
    text += node.context == nullptr ? "*" : node.context->name;
    if (!node.children.empty()) text += "(" + Shape(node.children) + ")";
  }
  return text;
}

TEST(ContextTreeTest, ThoseThatShareNothingStandSideBySide) {
  const std::vector<ContextInfo> contexts = {Context("a", {{1, 10}}, 1000),
                                             Context("b", {{2, 20}}, 1000)};
  EXPECT_EQ(Shape(TreeOfContexts(contexts)), "a b");
  EXPECT_EQ(Shape(TreeOfContexts({})), "");
}

TEST(ContextTreeTest, OneThatGoesOnStandsBelow) {
  const std::vector<ContextInfo> contexts = {Context("chat", {{1, 10}, {2, 5}}, 1000),
                                             Context("manual", {{1, 10}}, 0)};
  const std::vector<ContextNode> nodes = TreeOfContexts(contexts);
  EXPECT_EQ(Shape(nodes), "manual(chat)");
  EXPECT_EQ(nodes[0].children[0].num_shared, 10u);
  EXPECT_EQ(nodes[0].children[0].own_bytes, 1000u);
}

TEST(ContextTreeTest, ABeginningThatIsNonesWholeHasARowOfItsOwn) {
  const std::vector<ContextInfo> contexts = {Context("a", {{1, 10}, {2, 6}, {3, 5}}, 1000),
                                             Context("b", {{1, 10}, {2, 4}, {4, 7}}, 1000),
                                             Context("c", {{9, 1}}, 1000)};
  const std::vector<ContextNode> nodes = TreeOfContexts(contexts);
  EXPECT_EQ(Shape(nodes), "*(a b) c");
  EXPECT_EQ(nodes[0].num_tokens, 14u);
  EXPECT_EQ(nodes[0].own_bytes, 2000u);
  EXPECT_EQ(nodes[0].children[0].num_shared, 14u);
}

TEST(ContextTreeTest, TreesGoDeepAndKeepTheOrderOfSiblings) {
  const std::vector<ContextInfo> contexts = {
      Context("z", {{1, 10}, {2, 5}, {3, 1}}, 0), Context("y", {{1, 10}, {4, 5}}, 0),
      Context("x", {{1, 10}}, 0), Context("w", {{1, 10}, {2, 5}}, 0), Context("v", {{1, 8}}, 0)};
  const std::vector<ContextNode> nodes = TreeOfContexts(contexts);
  EXPECT_EQ(Shape(nodes), "x(v w(z) y)");
  EXPECT_EQ(nodes[0].children[0].num_shared, 8u);
}

TEST(ContextTreeTest, TextIsIndentedAndJsonNested) {
  const std::vector<ContextInfo> contexts = {Context("a", {{1, 10}, {2, 1}}, 500),
                                             Context("b", {{1, 10}, {3, 2}}, 600)};
  const std::vector<ContextNode> nodes = TreeOfContexts(contexts);
  EXPECT_EQ(TreeText(nodes, 0),
            "NAME                  TOKENS  SHARED     OWN     SIZE  USED\n"
            "(a shared beginning)      10          1000 B\n"
            "  a                       11      10   500 B  2.0 KiB  just now\n"
            "  b                       12      10   600 B  2.0 KiB  just now\n");
  const Json json = TreeToJson(nodes);
  EXPECT_TRUE(json[0]["name"].is_null());
  EXPECT_EQ(json[0]["children"][1]["name"], "b");
  EXPECT_EQ(json[0]["children"][1]["own_bytes"], 600);
}

}  // namespace
}  // namespace attndb::cli
