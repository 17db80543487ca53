// Contexts in the catalog: publishes, finds, describes, keeps and drops them.
//
// Errors:  those of every call of the catalog (catalog.h); further codes are at the functions.
// Threads: thread-safe.
#ifndef ATTNDB_STORE_CATALOG_CATALOG_CONTEXTS_H_
#define ATTNDB_STORE_CATALOG_CATALOG_CONTEXTS_H_

#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "attndb/result.h"
#include "attndb/types.h"
#include "store/catalog/catalog_core.h"
#include "store/catalog/catalog_owners.h"
#include "store/catalog/catalog_types.h"

namespace attndb::store {

struct ContextRow;

class CatalogContexts {
 public:
  // Both must outlive it.
  CatalogContexts(CatalogCore* core, const CatalogOwners* owners) : core_(core), owners_(owners) {}

  // Commits a new context with its segments and index entries in one transaction.
  //
  // If all tokens of the base are shared and the base would be dropped anyway, the base grows and
  // keeps its id. The base would be dropped if it has the name and `replace` is set, or by
  // drop_base. It then keeps its title and its note, unless the request has others.
  // A damaged context that has the name is replaced by the same text without `replace`, and stays
  // pinned if it was. Other damaged contexts with the same tokens are mended (mending.h).
  // Errors: kInvalidArgument (name: CheckContextName; ttl; a negative token); kAlreadyExists (the
  //         name is taken); kFailedPrecondition (a segment of the chain is gone or quarantined);
  //         kInternal (chain, tokens and segments disagree).
  Result<PublishOutcome> Publish(const PublishRequest& request);

  // Finds a context by its name or "#number".
  // Errors: kNotFound; the same for another tenant's context as for one that never existed.
  Result<ContextRecord> Find(TenantId tenant, std::string_view context) const;
  Result<ContextRecord> Find(std::string_view tenant, std::string_view context) const;
  Result<ContextRecord> Get(TenantId tenant, ContextId context) const;
  // Oldest first.
  Result<std::vector<ContextRecord>> List(TenantId tenant) const;
  // Cost: O(its segments * log of all); it does not grow with the contexts that share them.
  Result<ContextDetail> Describe(TenantId tenant, ContextId context) const;
  // Describes those of `contexts` that still exist, in the given order.
  Result<std::vector<ContextDetail>> DescribeAll(std::span<const ContextRecord> contexts) const;
  Result<std::vector<ChainLink>> Chain(ContextId context) const;
  Result<History> HistoryOf(ContextId context) const;
  Result<std::vector<TokenId>> Tokens(ContextId context) const;
  // The text layout that the context was stored with.
  Result<TextLayout> TextOf(const ContextRecord& context) const;
  // The note that the context was stored with; "" = none.
  Result<std::string> NoteOf(const ContextRecord& context) const;
  // The number of first tokens that the context shares with `tokens`, possibly 0, and their cuts.
  Result<PrefixMatch> CommonPrefix(ContextId context, std::span<const TokenId> tokens) const;

  // Notes an access at the present time. The next transaction or Catalog::FlushTouches writes it.
  // Touch itself does not sync: after a crash the TTL may count from the previous access.
  void Touch(ContextId context);
  Status Pin(TenantId tenant, ContextId context, bool pinned);
  // Errors: kInvalidArgument (negative, or longer than 100 years).
  Status SetTtl(TenantId tenant, ContextId context, std::optional<std::chrono::seconds> ttl);
  // Gives the context a new name.
  // Errors: kInvalidArgument (name); kAlreadyExists (another context has it).
  Status Rename(TenantId tenant, ContextId context, std::string_view name);
  Result<DropOutcome> Drop(TenantId tenant, ContextId context);

  // Chooses contexts to drop until enough bytes are free: neither pinned nor in use, least recently
  // used first. A segment is freed with the last of its contexts. All of them together may free
  // less than the request asks for.
  // Cost: O(those contexts * (their segments + log of all)).
  Result<Evictions> ChooseEvictions(const EvictionRequest& request) const;
  // Drops contexts of all tenants whose TTL is over, except those in `in_use`.
  Result<DropOutcome> Expire(std::span<const ContextId> in_use);
  // Whether Expire would find a context, by the clock. Cheap.
  Result<bool> AnyExpired() const;

 private:
  Result<ContextRow> Require(TenantId tenant, ContextId context) const
      ATTNDB_REQUIRES(core_->mutex());

  CatalogCore* const core_;
  const CatalogOwners* const owners_;
};

}  // namespace attndb::store

#endif  // ATTNDB_STORE_CATALOG_CATALOG_CONTEXTS_H_
