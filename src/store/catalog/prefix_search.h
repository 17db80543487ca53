// Finds the context that shares the longest prefix with a prompt, in one tree of the prefix index.
//
// Descends by block keys as far as whole blocks match. Below the last match, the child that agrees
// longest with the next tokens is their neighbour in the order of tokens: two probes find it,
// however many children there are. If cuts hang below a node of the path, the search also continues
// below each cut. It takes the longest match; of equally long ones, the one with fewer cuts. If the
// found contexts may not be used (expired), it takes the next best, level by level, always exact. A
// node without a usable context is visited only once.
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

  // `usable` is asked about undamaged contexts only. Null: every context is usable, damaged ones
  // too.
  // looks_below_cuts: REQUIRES: the catalog's version has cuts.
  PrefixSearch(SqliteDatabase* database, Filter usable, bool looks_below_cuts)
      : database_(*database),
        index_(database),
        usable_(std::move(usable)),
        looks_below_cuts_(looks_below_cuts) {}

  Result<std::optional<PrefixMatch>> Find(const TreeIdentity& tree,
                                          std::span<const TokenId> tokens);

 private:
  struct Level {
    PrefixNode node;
    uint64_t num_tokens = 0;  // Tokens from the root to the node's end.
  };

  // Returns the best match below `top`, or at `top` itself unless it is the root. after_cut: `at`
  // of the last cut on the path to `top`, 0 if there is none.
  Result<std::optional<PrefixMatch>> FindFrom(const TreeIdentity& tree, Level top,
                                              uint64_t after_cut, std::span<const TokenId> tokens);
  // The cuts that K and V of the context's first num_tokens tokens depend on.
  Result<std::vector<Cut>> CutsOf(ContextId context, uint64_t num_tokens) const;
  // Returns the best match of a path without further cuts.
  Result<std::optional<PrefixMatch>> FindOnPath(std::span<const Level> path,
                                                std::span<const TokenId> tokens);
  // The path of nodes that match whole blocks of `tokens`; `top` comes first.
  Result<std::vector<Level>> Descend(const TreeIdentity& tree, Level top,
                                     std::span<const TokenId> tokens) const;
  // The best match that leaves the path at `node`.
  Result<std::optional<PrefixMatch>> FindBelow(const PrefixNode& node,
                                               std::span<const TokenId> next_tokens);
  // Returns a usable context that passes through the node or ends there. kNone: there is none.
  Result<ContextId> Pick(const PrefixNode& node);
  Result<ContextId> PickUsable(const PrefixNode& node);
  Result<ContextId> PickAny(PrefixNode node) const;
  Result<ContextId> PickEnd(NodeId node) const;
  Result<std::vector<PrefixNode>> UsedChildren(NodeId node) const;

  SqliteDatabase& database_;  // Not owned; outlives this.
  PrefixIndex index_;
  Filter usable_;
  bool looks_below_cuts_;
  std::unordered_set<int64_t> exhausted_;  // Nodes in which Pick found no context.
};

}  // namespace attndb::store

#endif  // ATTNDB_STORE_CATALOG_PREFIX_SEARCH_H_
