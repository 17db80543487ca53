#include "cli/common/context_tree.h"

#include <algorithm>
#include <utility>

#include "cli/common/context_text.h"
#include "cli/common/shown_contexts.h"
#include "cli/common/table.h"
#include "cli/common/units.h"

namespace attndb::cli {
namespace {

using Group = std::vector<const ContextInfo*>;

int64_t SegmentAt(const ContextInfo& context, size_t depth) {
  return context.segments[depth].segment_id;
}

// Tokens of its first `depth` segments.
uint64_t TokensUpTo(const ContextInfo& context, size_t depth) {
  uint64_t count = 0;
  for (size_t i = 0; i < depth; ++i) count += context.segments[i].num_tokens_used;
  return count;
}

// The groups that share the segment at `depth`, which all have, in the order of their first
// contexts.
std::vector<Group> Partition(const Group& group, size_t depth) {
  std::vector<Group> parts;
  for (const ContextInfo* context : group) {
    const auto is_same = [=](const Group& part) {
      return SegmentAt(*part.front(), depth) == SegmentAt(*context, depth);
    };
    const auto found = std::ranges::find_if(parts, is_same);
    if (found == parts.end()) {
      parts.push_back({context});
    } else {
      found->push_back(context);
    }
  }
  return parts;
}

// How many segments all of the group begin with. All agree in `depth`.
size_t SharedDepth(const Group& group, size_t depth) {
  const auto goes_on = [&](const ContextInfo* context) {
    return context->segments.size() > depth &&
           SegmentAt(*context, depth) == SegmentAt(*group.front(), depth);
  };
  while (std::ranges::all_of(group, goes_on)) ++depth;
  return depth;
}

ContextNode LeafOf(const ContextInfo& context, uint64_t num_shared) {
  return {.context = &context,
          .num_tokens = context.num_tokens,
          .num_shared = num_shared,
          .own_bytes = context.own_bytes,
          .children = {}};
}

ContextNode BeginningOf(const Group& group, size_t begin, size_t end, uint64_t num_shared) {
  ContextNode node = {.context = nullptr,
                      .num_tokens = UINT64_MAX,
                      .num_shared = num_shared,
                      .own_bytes = 0,
                      .children = {}};
  for (const ContextInfo* context : group) {
    node.num_tokens = std::min(node.num_tokens, TokensUpTo(*context, end));
  }
  for (size_t i = begin; i < end; ++i) node.own_bytes += group.front()->segments[i].file_bytes;
  return node;
}

// Nodes of the contexts that share `depth` segments, and have more. `num_parent`: tokens of their
// parent. The depth of recursion is at most the number of contexts.
std::vector<ContextNode> NodesOf(const Group& group, size_t depth, uint64_t num_parent) {
  std::vector<ContextNode> nodes;
  for (const Group& part : Partition(group, depth)) {
    const uint64_t num_shared = std::min(num_parent, TokensUpTo(*part.front(), depth));
    if (part.size() == 1) {
      nodes.push_back(LeafOf(*part.front(), num_shared));
      continue;
    }
    const size_t end = SharedDepth(part, depth);
    Group ends_here;
    Group goes_on;
    for (const ContextInfo* context : part) {
      (context->segments.size() == end ? ends_here : goes_on).push_back(context);
    }
    std::ranges::stable_sort(ends_here, std::greater(), &ContextInfo::num_tokens);
    ContextNode node = ends_here.empty() ? BeginningOf(part, depth, end, num_shared)
                                         : LeafOf(*ends_here.front(), num_shared);
    for (size_t i = 1; i < ends_here.size(); ++i) {
      node.children.push_back(LeafOf(*ends_here[i], ends_here[i]->num_tokens));
    }
    for (ContextNode& child : NodesOf(goes_on, end, node.num_tokens)) {
      node.children.push_back(std::move(child));
    }
    nodes.push_back(std::move(node));
  }
  return nodes;
}

void AddRows(std::span<const ContextNode> nodes, size_t depth, int64_t now_us, Table* table) {
  for (const ContextNode& node : nodes) {
    const std::string indent(2 * depth, ' ');
    const std::string shared = depth == 0 ? "" : FormatCount(node.num_shared);
    if (node.context == nullptr) {
      table->AddRow({indent + "(a shared beginning)", FormatCount(node.num_tokens), shared,
                     FormatBytes(node.own_bytes)});
    } else {
      table->AddRow({indent + ShownName(*node.context), FormatCount(node.num_tokens), shared,
                     FormatBytes(node.own_bytes), FormatBytes(node.context->file_bytes),
                     FormatAge(node.context->last_access_us, now_us)});
    }
    AddRows(node.children, depth + 1, now_us, table);
  }
}

}  // namespace

std::vector<ContextNode> TreeOfContexts(std::span<const ContextInfo> contexts) {
  Group all;
  std::vector<ContextNode> nodes;
  for (const ContextInfo& context : contexts) {
    if (context.segments.empty()) {
      nodes.push_back(LeafOf(context, 0));
    } else {
      all.push_back(&context);
    }
  }
  for (ContextNode& node : NodesOf(all, 0, 0)) nodes.push_back(std::move(node));
  return nodes;
}

std::string TreeText(std::span<const ContextNode> nodes, int64_t now_us, size_t max_width) {
  Table table({{.header = "NAME", .min_width = 16},
               {"TOKENS", Align::kRight},
               {"SHARED", Align::kRight},
               {"OWN", Align::kRight},
               {.header = "SIZE", .align = Align::kRight, .rank = 1},
               {.header = "USED", .rank = 2}});
  AddRows(nodes, 0, now_us, &table);
  return table.ToText(max_width);
}

Json TreeToJson(std::span<const ContextNode> nodes) {
  Json list = Json::array();
  for (const ContextNode& node : nodes) {
    Json json =
        JsonObject({{"name", node.context == nullptr ? Json() : Json(NameOf(*node.context))},
                    {"num_tokens", node.num_tokens},
                    {"num_shared", node.num_shared},
                    {"own_bytes", node.own_bytes}});
    if (node.context != nullptr) json["file_bytes"] = node.context->file_bytes;
    json["children"] = TreeToJson(node.children);
    list.push_back(std::move(json));
  }
  return list;
}

}  // namespace attndb::cli
