#include "store/catalog/prefix_search.h"

#include <algorithm>
#include <utility>

namespace attndb::store {
namespace {

std::span<const TokenId> BlockAt(std::span<const TokenId> tokens, uint64_t begin) {
  return tokens.subspan(begin, std::min<uint64_t>(kBlockTokens, tokens.size() - begin));
}

// Children of a node in the order of tokens, away from a place in that order.
class SiblingCursor {
 public:
  SiblingCursor(Query query, std::span<const std::byte> block)
      : query_(std::move(query)), block_(block) {}

  // Moves on to the next child that has a token in common with the block.
  Status Advance() {
    ATTNDB_ASSIGN_OR_RETURN(const bool found, query_.Step());
    num_common_ = found ? CommonTokens(query_.Blob(1), block_) : 0;
    return {};
  }

  uint64_t num_common() const { return num_common_; }  // 0: at the end.
  NodeId node() const { return static_cast<NodeId>(query_.Int(0)); }

 private:
  Query query_;
  std::span<const std::byte> block_;
  uint64_t num_common_ = 0;
};

}  // namespace

Result<std::optional<PrefixMatch>> PrefixSearch::Find(const TreeIdentity& tree,
                                                      std::span<const TokenId> tokens) {
  ATTNDB_ASSIGN_OR_RETURN(std::optional<PrefixNode> root, index_.FindRoot(tree));
  if (!root.has_value()) return std::optional<PrefixMatch>();
  if (looks_below_cuts_) {
    ATTNDB_ASSIGN_OR_RETURN(looks_below_cuts_, index_.HasCuts());
  }
  ATTNDB_ASSIGN_OR_RETURN(std::optional<PrefixMatch> match,
                          FindFrom(tree, {*std::move(root), 0}, /*after_cut=*/0, tokens));
  if (match && looks_below_cuts_) {
    ATTNDB_ASSIGN_OR_RETURN(match->cuts, CutsOf(match->context, match->num_tokens));
  }
  return match;
}

// Cuts below a matching node may lead to longer matches than the path itself.
Result<std::optional<PrefixMatch>> PrefixSearch::FindFrom(const TreeIdentity& tree, Level top,
                                                          uint64_t after_cut,
                                                          std::span<const TokenId> tokens) {
  ATTNDB_ASSIGN_OR_RETURN(const std::vector<Level> path, Descend(tree, std::move(top), tokens));
  ATTNDB_ASSIGN_OR_RETURN(std::optional<PrefixMatch> best, FindOnPath(path, tokens));
  if (!looks_below_cuts_) return best;
  for (const Level& level : path) {
    ATTNDB_ASSIGN_OR_RETURN(std::vector<PrefixNode> cuts, index_.CutsBelow(level.node.id));
    for (PrefixNode& node : cuts) {
      ATTNDB_ASSIGN_OR_RETURN(const Cut cut, DecodeCut(node.tokens));
      if (cut.at <= after_cut) {
        return Status::Corruption(
            "catalog: prefix node " + std::to_string(static_cast<int64_t>(node.id)) +
            ": a cut at " + std::to_string(cut.at) + " below one at " + std::to_string(after_cut));
      }
      ATTNDB_ASSIGN_OR_RETURN(const std::optional<PrefixMatch> match,
                              FindFrom(tree, {std::move(node), level.num_tokens}, cut.at, tokens));
      if (match && (!best || match->num_tokens > best->num_tokens)) best = match;
    }
  }
  return best;
}

Result<std::vector<Cut>> PrefixSearch::CutsOf(ContextId context, uint64_t num_tokens) const {
  Query query = database_.Select("SELECT leaf, num_tokens FROM contexts WHERE id = ?", context);
  ATTNDB_ASSIGN_OR_RETURN(const bool found, query.Step());
  if (!found) return Status::Corruption("catalog: a context in the prefix index is missing");
  ATTNDB_ASSIGN_OR_RETURN(History history, index_.HistoryOf(static_cast<NodeId>(query.Int(0)),
                                                            static_cast<uint64_t>(query.Int(1))));
  return CutsWithin(std::move(history.cuts), num_tokens);
}

Result<std::optional<PrefixMatch>> PrefixSearch::FindOnPath(std::span<const Level> path,
                                                            std::span<const TokenId> tokens) {
  for (; !path.empty(); path = path.first(path.size() - 1)) {
    const auto& [node, num_tokens] = path.back();
    ATTNDB_ASSIGN_OR_RETURN(std::optional<PrefixMatch> match,
                            FindBelow(node, BlockAt(tokens, num_tokens)));
    if (match.has_value()) {
      match->num_tokens += num_tokens;
      return match;
    }
    if (num_tokens == 0) break;
    ATTNDB_ASSIGN_OR_RETURN(const ContextId context, Pick(node));
    if (context != ContextId::kNone) return std::optional(PrefixMatch{context, num_tokens, {}});
  }
  return std::optional<PrefixMatch>();
}

Result<std::vector<PrefixSearch::Level>> PrefixSearch::Descend(
    const TreeIdentity& tree, Level top, std::span<const TokenId> tokens) const {
  std::vector<Level> path;
  path.push_back(std::move(top));
  while (path.back().num_tokens + kBlockTokens <= tokens.size()) {
    const auto& [node, num_tokens] = path.back();
    const std::vector<std::byte> block = EncodeTokens(BlockAt(tokens, num_tokens));
    ATTNDB_ASSIGN_OR_RETURN(std::optional<PrefixNode> child,
                            index_.FindChild(node, BlockKey(tree, node.key, block), block));
    if (!child.has_value()) break;
    path.push_back({*std::move(child), num_tokens + kBlockTokens});
  }
  return path;
}

Result<std::optional<PrefixMatch>> PrefixSearch::FindBelow(const PrefixNode& node,
                                                           std::span<const TokenId> next_tokens) {
  if (next_tokens.empty()) return std::optional<PrefixMatch>();
  const std::vector<std::byte> block = EncodeTokens(next_tokens);
  const std::span<const std::byte> bytes(block);
  SiblingCursor before(database_.Select("SELECT id, tokens FROM nodes INDEXED BY nodes_by_tokens "
                                        "WHERE parent = ? AND tokens <= ? ORDER BY tokens DESC",
                                        node.id, bytes),
                       bytes);
  SiblingCursor after(database_.Select("SELECT id, tokens FROM nodes INDEXED BY nodes_by_tokens "
                                       "WHERE parent = ? AND tokens > ? ORDER BY tokens",
                                       node.id, bytes),
                      bytes);
  ATTNDB_RETURN_IF_ERROR(before.Advance());
  ATTNDB_RETURN_IF_ERROR(after.Advance());
  // The number of tokens in common only shrinks with the distance from the block.
  while (before.num_common() > 0 || after.num_common() > 0) {
    SiblingCursor& best = before.num_common() >= after.num_common() ? before : after;
    ATTNDB_ASSIGN_OR_RETURN(const PrefixNode child, index_.Load(best.node()));
    ATTNDB_ASSIGN_OR_RETURN(const ContextId context, Pick(child));
    if (context != ContextId::kNone) {
      return std::optional(PrefixMatch{context, best.num_common(), {}});
    }
    ATTNDB_RETURN_IF_ERROR(best.Advance());
  }
  return std::optional<PrefixMatch>();
}

Result<ContextId> PrefixSearch::Pick(const PrefixNode& node) {
  if (usable_ == nullptr) return PickAny(node);
  return PickUsable(node);
}

Result<ContextId> PrefixSearch::PickUsable(const PrefixNode& node) {
  std::vector<PrefixNode> open = {node};
  std::vector<int64_t> looked_into;
  while (!open.empty()) {
    const PrefixNode next = std::move(open.back());
    open.pop_back();
    if (next.context == ContextId::kNone) continue;
    if (exhausted_.contains(static_cast<int64_t>(next.id))) continue;
    looked_into.push_back(static_cast<int64_t>(next.id));
    ATTNDB_ASSIGN_OR_RETURN(const bool usable, usable_(next.context));
    if (usable) return next.context;
    ATTNDB_ASSIGN_OR_RETURN(const ContextId end, PickEnd(next.id));
    if (end != ContextId::kNone) return end;
    ATTNDB_ASSIGN_OR_RETURN(std::vector<PrefixNode> children, UsedChildren(next.id));
    std::ranges::move(children, std::back_inserter(open));
  }
  exhausted_.insert(looked_into.begin(), looked_into.end());
  return ContextId::kNone;
}

Result<ContextId> PrefixSearch::PickEnd(NodeId node) const {
  Query query =
      database_.Select("SELECT id FROM contexts WHERE leaf = ? AND damaged = 0 ORDER BY id", node);
  while (true) {
    ATTNDB_ASSIGN_OR_RETURN(const bool found, query.Step());
    if (!found) return ContextId::kNone;
    const auto context = static_cast<ContextId>(query.Int(0));
    ATTNDB_ASSIGN_OR_RETURN(const bool usable, usable_(context));
    if (usable) return context;
  }
}

Result<std::vector<PrefixNode>> PrefixSearch::UsedChildren(NodeId node) const {
  Query query = database_.Select(
      "SELECT id, context FROM nodes INDEXED BY nodes_by_context "
      "WHERE parent = ? AND context IS NOT NULL ORDER BY context DESC",
      node);
  std::vector<PrefixNode> children;
  while (true) {
    ATTNDB_ASSIGN_OR_RETURN(const bool found, query.Step());
    if (!found) return children;
    PrefixNode child;
    child.id = static_cast<NodeId>(query.Int(0));
    child.context = static_cast<ContextId>(query.Int(1));
    children.push_back(std::move(child));
  }
}

Result<ContextId> PrefixSearch::PickAny(PrefixNode node) const {
  while (node.context == ContextId::kNone) {
    Query end = database_.Select("SELECT min(id) FROM contexts WHERE leaf = ?", node.id);
    ATTNDB_ASSIGN_OR_RETURN(const bool ended, end.Step());
    if (ended && !end.IsNull(0)) return static_cast<ContextId>(end.Int(0));
    Query child = database_.Select("SELECT min(id) FROM nodes WHERE parent = ?", node.id);
    ATTNDB_ASSIGN_OR_RETURN(const bool found, child.Step());
    if (!found || child.IsNull(0)) return ContextId::kNone;
    ATTNDB_ASSIGN_OR_RETURN(node, index_.Load(static_cast<NodeId>(child.Int(0))));
  }
  return node.context;
}

}  // namespace attndb::store
