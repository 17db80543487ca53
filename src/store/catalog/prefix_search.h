// Finds the context that shares the longest prefix with a prompt, in one tree of the prefix index.
//
// Descends by block keys as far as whole blocks match. Below the last match, the child that agrees
// with the next tokens longest is a neighbour of them in the order of tokens: two probes, however
// many children there are. If contexts found there may not be used (expired), it goes on to the
// next best, level by level, exact in any case; no node is looked into twice.
//
// Errors:  those of PrefixIndex.
// Threads: as the connection; a search is used once.
// Source:  neighbours in sorted order: as in a suffix array, Manber & Myers 1993.
#ifndef ATTNDB_STORE_CATALOG_PREFIX_SEARCH_H_
#define ATTNDB_STORE_CATALOG_PREFIX_SEARCH_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <unordered_set>
#include <vector>

#include "attndb/result.h"
#include "store/catalog/catalog_types.h"
#include "store/catalog/prefix_index.h"

namespace attndb::store {

class PrefixSearch {
 public:
  using Filter = std::function<Result<bool>(ContextId)>;

  // `usable` is asked about undamaged contexts only. Null: any context will do, damaged ones too.
  PrefixSearch(SqliteDatabase* database, Filter usable)
      : database_(*database), index_(database), usable_(std::move(usable)) {}

  Result<std::optional<PrefixMatch>> Find(const TreeIdentity& tree,
                                          std::span<const TokenId> tokens);

 private:
  struct Level {
    PrefixNode node;
    uint64_t num_tokens = 0;  // Tokens from the root to the node's end.
  };

  // The path of nodes that match whole blocks of `tokens`, root first.
  Result<std::vector<Level>> Descend(const TreeIdentity& tree, PrefixNode root,
                                     std::span<const TokenId> tokens) const;
  // The best match that leaves the path at `node`.
  Result<std::optional<PrefixMatch>> FindBelow(const PrefixNode& node,
                                               std::span<const TokenId> next_tokens);
  // A context that may be used and passes through the node or ends there. kNone: there is none.
  Result<ContextId> Pick(const PrefixNode& node);
  Result<ContextId> PickUsable(const PrefixNode& node);
  Result<ContextId> PickAny(PrefixNode node) const;
  Result<ContextId> PickEnd(NodeId node) const;
  Result<std::vector<PrefixNode>> UsedChildren(NodeId node) const;

  SqliteDatabase& database_;  // Not owned; outlives this.
  PrefixIndex index_;
  Filter usable_;
  std::unordered_set<int64_t> exhausted_;  // Nodes in which Pick found no context.
};

}  // namespace attndb::store

#endif  // ATTNDB_STORE_CATALOG_PREFIX_SEARCH_H_
