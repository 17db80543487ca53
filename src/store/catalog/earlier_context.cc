#include "store/catalog/earlier_context.h"

#include <span>
#include <utility>

namespace attndb::store {
namespace {

// The context that ends within the block of `node`, beside it: in a leaf of its first tokens.
Result<ContextId> EndingWithin(SqliteDatabase* database, const PrefixNode& node) {
  const std::span<const std::byte> tokens = node.tokens;
  Query query = database->Select(
      "SELECT c.id FROM nodes n JOIN contexts c ON c.leaf = n.id WHERE n.parent = ? "
      "AND n.tokens < ?2 AND n.tokens = substr(?2, 1, length(n.tokens)) "
      "ORDER BY length(n.tokens) DESC, c.id DESC LIMIT 1",
      node.parent, tokens);
  ATTNDB_ASSIGN_OR_RETURN(const bool found, query.Step());
  return found ? static_cast<ContextId>(query.Int(0)) : ContextId::kNone;
}

}  // namespace

Result<ContextId> NewestIn(SqliteDatabase* database, NodeId node, ContextId except) {
  Query query =
      database->Select("SELECT max(id) FROM contexts WHERE leaf = ? AND id <> ?", node, except);
  ATTNDB_RETURN_IF_ERROR(query.Step().status());
  return static_cast<ContextId>(query.Int(0));
}

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
