// What a store should contain, as a map: the model that a real store is compared with.
//
// The rules are those of include/attndb (db.h, options.h), written again as plainly as possible and
// without looking at how the store keeps them.
//
// Threads: thread-compatible.
#ifndef ATTNDB_TESTS_PROPERTY_STORE_MODEL_H_
#define ATTNDB_TESTS_PROPERTY_STORE_MODEL_H_

#include <compare>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "attndb/options.h"
#include "attndb/status.h"
#include "attndb/types.h"

namespace attndb::test {

// What contexts must share for one to be reused for the other.
struct Origin {
  std::string tenant;
  std::string fingerprint;
  int64_t first_position = 0;
};

// A context, of a tenant whose ids are its own. Older contexts of a tenant come before later ones.
struct ContextKey {
  std::string tenant;
  ContextId id = ContextId::kNone;
  friend auto operator<=>(const ContextKey&, const ContextKey&) = default;
};
inline const ContextKey kNoContext;

struct ModelContext {
  Origin origin;
  std::string name;
  std::vector<TokenId> tokens;
  std::optional<int64_t> ttl_seconds;
  bool pinned = false;
  int64_t created_us = 0;
  int64_t last_access_us = 0;
};

class StoreModel {
 public:
  using Contexts = std::map<ContextKey, ModelContext>;

  const Contexts& contexts() const { return contexts_; }
  std::vector<ContextKey> ContextsOf(const std::string& tenant) const;
  // kNone if the tenant has no context of that name.
  ContextKey Find(const std::string& tenant, const std::string& name) const;
  ModelContext* Get(const ContextKey& id);

  void DeclareEqual(const std::string& tenant, const std::string& a, const std::string& b);
  bool SameModel(const std::string& tenant, const std::string& a, const std::string& b) const;

  static bool IsExpired(const ModelContext& context, int64_t now_us);
  // Tokens that a session of `origin` could reuse of the context: 0 if it has expired or is
  // another's.
  uint64_t PrefixWith(const ContextKey& id, const Origin& origin, std::span<const TokenId> tokens,
                      int64_t now_us) const;
  // The most that any context gives.
  uint64_t LongestPrefix(const Origin& origin, std::span<const TokenId> tokens,
                         int64_t now_us) const;

  // Sweeps contexts that have expired and that no session is on.
  void Expire(const std::set<ContextKey>& in_use, int64_t now_us);
  void Drop(ContextKey id) { contexts_.erase(id); }

  struct StoreCall {
    Origin origin;
    std::vector<TokenId> tokens;
    ContextKey base;
    uint64_t num_shared = 0;  // First tokens that the session had from the store.
    StoreOptions options;
  };
  // The error that Store must give, or kOk. Quotas apart.
  StatusCode CheckStore(const StoreCall& call) const;
  // The existing context that an empty tail without options stands for; kNone: a new one is made.
  ContextKey Unchanged(const StoreCall& call) const;
  // Whether the base grows, keeping its id.
  bool BaseGrows(const StoreCall& call) const;
  // The effect of a Store that gave `id`.
  void Store(const StoreCall& call, const ContextKey& id, int64_t now_us);

  // Contexts that a quota may evict, in the order in which it must.
  std::vector<ContextKey> EvictionOrder(const std::string& tenant,
                                        const std::set<ContextKey>& in_use) const;

 private:
  Contexts contexts_;
  std::map<std::string, std::set<std::pair<std::string, std::string>>>
      equal_;  // By tenant; both ways.
};

uint64_t CommonLength(std::span<const TokenId> a, std::span<const TokenId> b);

}  // namespace attndb::test

#endif  // ATTNDB_TESTS_PROPERTY_STORE_MODEL_H_
