#include "store/catalog/earlier_context.h"

#include <span>
#include <utility>

namespace attndb::store {
namespace {

// The newest context except `except` that ends in the node. kNone: there is none.
Result<ContextId> NewestIn(SqliteDatabase* database, NodeId node, ContextId except) {
  Query query =
      database->Select("SELECT max(id) FROM contexts WHERE leaf = ? AND id <> ?", node, except);
  ATTNDB_RETURN_IF_ERROR(query.Step().status());
  return static_cast<ContextId>(query.Int(0));
}

// Returns the child of `parent` whose tokens are the longest beginning of `tokens`, but not all of
// them. Beginnings sort before `tokens`, the longest last. If another child sorts behind the
// longest beginning, it has less in common with `tokens`, so each step looks for a shorter
// beginning.
Result<NodeId> LongestBeginning(SqliteDatabase* database, NodeId parent,
                                std::span<const std::byte> tokens) {
  uint64_t most_bytes = tokens.size();
  bool takes_whole = false;
  while (most_bytes > 0) {
    Query query = database->Select(
        takes_whole ? "SELECT id, tokens FROM nodes WHERE parent = ? AND tokens <= ? "
                      "ORDER BY tokens DESC LIMIT 1"
                    : "SELECT id, tokens FROM nodes WHERE parent = ? AND tokens < ? "
                      "ORDER BY tokens DESC LIMIT 1",
        parent, tokens.first(most_bytes));
    ATTNDB_ASSIGN_OR_RETURN(const bool found, query.Step());
    if (!found) break;
    const std::span<const std::byte> bytes = query.Blob(1);
    const uint64_t num_common = CommonTokens(bytes, tokens) * sizeof(TokenId);
    if (num_common == bytes.size()) return static_cast<NodeId>(query.Int(0));
    most_bytes = num_common;
    takes_whole = true;
  }
  return NodeId::kNone;
}

// The context that ends within the block of `node`, in a sibling leaf with its first tokens.
Result<ContextId> EndingWithin(SqliteDatabase* database, const PrefixNode& node) {
  if (node.is_cut()) return ContextId::kNone;
  ATTNDB_ASSIGN_OR_RETURN(const NodeId leaf, LongestBeginning(database, node.parent, node.tokens));
  if (leaf == NodeId::kNone) return ContextId::kNone;
  return NewestIn(database, leaf, ContextId::kNone);
}

}  // namespace

Result<ContextId> EarlierContext(SqliteDatabase* database, const PrefixIndex& index,
                                 NodeId first_new, ContextId context) {
  ATTNDB_ASSIGN_OR_RETURN(PrefixNode node, index.Load(first_new));
  while (node.parent != NodeId::kNone) {
    // A node that is used once has this path alone.
    if (node.num_uses > 1) {
      ATTNDB_ASSIGN_OR_RETURN(const ContextId same, NewestIn(database, node.id, context));
      if (same != ContextId::kNone) return same;
    }
    ATTNDB_ASSIGN_OR_RETURN(PrefixNode parent, index.Load(node.parent));
    if (parent.num_uses > 1) {
      ATTNDB_ASSIGN_OR_RETURN(const ContextId within, EndingWithin(database, node));
      if (within != ContextId::kNone) return within;
    }
    node = std::move(parent);
  }
  return ContextId::kNone;
}

}  // namespace attndb::store
