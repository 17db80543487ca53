// Finds the stored chain of a prompt or of a name. Specs that are passed in have their defaults
// resolved.
//
// Parts:   search_set.cc collects the contexts of a search.
// Threads: thread-safe; it keeps no state.
#ifndef ATTNDB_STORE_LOOKUP_H_
#define ATTNDB_STORE_LOOKUP_H_

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "attndb/options.h"
#include "attndb/result.h"
#include "attndb/stats.h"
#include "attndb/types.h"
#include "store/catalog/catalog.h"
#include "store/chain.h"
#include "store/damage_reports.h"
#include "store/settings.h"
#include "store/uses.h"

namespace attndb::store {

class Lookup {
 public:
  // All must outlive it.
  struct Parts {
    const Settings* settings;
    Catalog* catalog;
    DamageReports* damage;
    Uses* uses;
  };

  explicit Lookup(const Parts& parts) : parts_(parts) {}

  // Opens the reused prefix of the prompt. Looks up again if the found segments turn out to be
  // damaged or gone.
  // Errors: as DB::CreateSession.
  Result<Prefix> OpenPrefix(const std::string& tenant, const ModelSpec& spec,
                            std::span<const TokenId> tokens, const SessionOptions& options);
  // Like OpenPrefix, but the found context's access time does not change.
  Result<Prefix> PeekPrefix(const std::string& tenant, const ModelSpec& spec,
                            std::span<const TokenId> tokens, const SessionOptions& options);
  // Opens the context with all of its tokens. Errors: as DB::CreateSessionOver.
  Result<WholeContext> OpenNamed(const std::string& tenant, const ModelSpec& spec,
                                 const std::string& name, int64_t first_position);
  // Opens the contexts that a search may look through, oldest first. Errors: as DB::Find.
  Result<SearchSet> OpenForSearch(const std::string& tenant, const ModelSpec& spec,
                                  std::span<const std::string> names);
  Result<StoredText> TextOf(const std::string& tenant, std::string_view context) const;
  // REQUIRES: at least one token.
  Result<PrefixExplain> ExplainPrefix(const std::string& tenant, const ModelSpec& spec,
                                      std::span<const TokenId> tokens,
                                      const SessionOptions& options) const;

 private:
  // Attempts of a lookup whose found segments were damaged or gone when they were opened.
  static constexpr int kMaxAttempts = 8;
  // Returns the context with that name, if sessions of the spec can use it from that position on.
  // Errors: kNotFound (unknown, or expired); kFailedPrecondition (of another model, or at another
  //         position); kCorruption (damaged).
  Result<ContextRecord> NamedContext(const Tenant& tenant, const ModelSpec& spec,
                                     const std::string& name, int64_t first_position) const;
  // Returns the reused part of the prompt; context kNone if there is none.
  Result<PrefixMatch> FindPrefix(const Tenant& tenant, const ModelSpec& spec,
                                 std::span<const TokenId> tokens,
                                 const SessionOptions& options) const;
  bool IsExpired(const ContextRecord& context) const;
  // Opens the context's first segments, as many as hold `tokens`, which the context must have.
  Result<Chain> OpenChain(const ContextRecord& context, std::span<const TokenId> tokens);
  Result<Prefix> OpenMatch(TenantId tenant, const PrefixMatch& match,
                           std::span<const TokenId> tokens);
  Result<WholeContext> TryOpenNamed(const Tenant& tenant, const ModelSpec& spec,
                                    const std::string& name, int64_t first_position);

  // search_set.cc
  Result<std::vector<ContextRecord>> ContextsToSearch(const Tenant& tenant,
                                                      std::span<const std::string> names) const;
  // The reason why this model can't search the context; nothing if it can.
  Result<std::optional<std::string>> ReasonToSkip(const ContextRecord& context,
                                                  const ModelSpec& spec) const;
  // Adds the context to the set. `run_of`: runs of the set, by segment.
  Status AddContext(const ContextRecord& context, std::map<SegmentId, size_t>* run_of,
                    SearchSet* set);

  const Parts parts_;
};

}  // namespace attndb::store

#endif  // ATTNDB_STORE_LOOKUP_H_
