// Prefixes in the catalog: lookups over the trees of a tenant (prefix_index.h).
//
// Errors:  those of every call of the catalog (catalog.h); further codes are at the functions.
// Threads: thread-safe.
#ifndef ATTNDB_STORE_CATALOG_CATALOG_PREFIXES_H_
#define ATTNDB_STORE_CATALOG_CATALOG_PREFIXES_H_

#include <cstdint>
#include <optional>

#include "attndb/result.h"
#include "attndb/types.h"
#include "store/catalog/catalog_core.h"
#include "store/catalog/catalog_types.h"

namespace attndb::store {

struct TenantRow;

class CatalogPrefixes {
 public:
  // `core` must outlive it.
  explicit CatalogPrefixes(CatalogCore* core) : core_(core) {}

  // Finds the longest common prefix of the tokens with any context of the tenant that is neither
  // damaged nor expired, and has the same model (or one declared equal) and first position. Exact
  // to the token. Of contexts that agree equally long it takes the oldest (lowest id). None if no
  // token agrees.
  // Cost: O(matched tokens / 64 + log of the stored rows).
  Result<std::optional<PrefixMatch>> Longest(const PrefixQuery& query) const;
  Result<PrefixReport> Explain(const PrefixQuery& query) const;

 private:
  Result<bool> IsUsable(ContextId context) const ATTNDB_REQUIRES(core_->mutex());
  Result<std::optional<PrefixMatch>> Find(const PrefixQuery& query, const TenantRow& tenant,
                                          bool only_usable) const ATTNDB_REQUIRES(core_->mutex());
  Result<std::optional<TokenId>> TokenAt(ContextId context, uint64_t idx) const
      ATTNDB_REQUIRES(core_->mutex());
  Status ExplainUnusable(const PrefixQuery& query, const TenantRow& tenant,
                         PrefixReport* report) const ATTNDB_REQUIRES(core_->mutex());
  Status ExplainOtherTrees(const PrefixQuery& query, const TenantRow& tenant,
                           PrefixReport* report) const ATTNDB_REQUIRES(core_->mutex());

  CatalogCore* const core_;
};

}  // namespace attndb::store

#endif  // ATTNDB_STORE_CATALOG_CATALOG_PREFIXES_H_
