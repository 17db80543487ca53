// A store of contexts: token sequences with the keys and values that a model made of them.
//
//   auto db = DB::Open("/var/lib/attndb");
//   auto [session, rest] = *db->CreateSession(spec, prompt);   // rest: what the engine must run
//   ... session.Append / session.Attend for each layer ...
//   db->Store(session, all_tokens, {.name = "manual"});        // durable when it returns
//
// Promise: acknowledged = durable; a stored byte is used only after its checksum and its identity
//          were verified; a damaged context is quarantined and listed, the others work.
// Threads: a DB is thread-safe and cheap to copy: copies share one open store, which closes when
//          the last copy and the last session are gone. One writing process a store. Threads of
//          its own build planes of what was stored, and what plans ask for; no Attend waits for
//          them. A store that closes meanwhile does not either, and the next open goes on.
// Tenants: a handle sees one tenant's contexts and no trace of the others'.
#ifndef ATTNDB_DB_H_
#define ATTNDB_DB_H_

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "attndb/export.h"
#include "attndb/find.h"
#include "attndb/options.h"
#include "attndb/result.h"
#include "attndb/session.h"
#include "attndb/stats.h"
#include "attndb/tensor_view.h"
#include "attndb/types.h"

namespace attndb {

namespace internal {
class Database;
struct DbAccess;
}  // namespace internal

// What CreateSession gives.
struct SessionStart {
  Session session;
  std::vector<TokenId> rest;  // The prompt's tokens that are not reused: at least one.
};

// K and V of one layer, [num_tokens, num_kv_heads, head_dim] and [.., v_head_dim], after RoPE in
// the layout that the spec names.
struct LayerKv {
  TensorView k;
  TensorView v;
};

class ATTNDB_EXPORT DB {
 public:
  // Opens or creates the store in folder `path`. Never needs a repair by hand: what a crash left
  // unfinished is removed.
  // Errors: kBusy (another process writes); kNotFound; kUnsupported (made by a newer attndb);
  //         kCorruption (the catalog itself); kIoError.
  static Result<DB> Open(const std::string& path, const DBOptions& options = {});

  // The same store for tenant `name`: 1 to 64 of [A-Za-z0-9._-]. Made on its first Store.
  Result<DB> ForTenant(std::string_view name) const;
  const std::string& tenant() const { return tenant_; }

  // A session that reuses the longest stored prefix of `tokens`, exact to the token, that leaves at
  // least one token for the engine to run.
  // Errors: kInvalidArgument (empty prompt, negative token, bad spec or plan); kNotFound,
  //         kFailedPrecondition (the named context: unknown; of another model); kCorruption.
  Result<SessionStart> CreateSession(const ModelSpec& spec, std::span<const TokenId> tokens,
                                     const SessionOptions& options = {}) const;
  // One for each prompt.
  Result<std::vector<SessionStart>> CreateSessions(
      const ModelSpec& spec, std::span<const std::span<const TokenId>> prompts,
      const SessionOptions& options = {}) const;

  // A session over whole contexts, one beside the other, for questions to a library ([Alaya] 8). It
  // holds the contexts' tokens in the order of `contexts` (names or "#id"), and attends to all of
  // them; the engine runs what comes next from position Session::next_position() on. No K or V is
  // copied.
  // Position: each context keeps the positions at which it was stored, from first_position on, so
  //         that they lie in parallel; what comes next stands behind the longest (Parallel Context
  //         Windows, Ratner et al. 2023, arXiv:2212.10947). No position is reached that the longest
  //         alone would not reach.
  // Shared: the tokens with which a context begins like an earlier one (a template, a system text)
  //         have the same K and V there: they are held once, as the earlier one's.
  // Order:  of tokens and of Session::contexts. A plan's sink is of the first context, its window
  //         begins in the last; `full` gives the same in any order.
  // What is appended has seen contexts that never saw each other: Store refuses it, and Crop goes
  // no further than to where the contexts end. A single name is continued as by CreateSession.
  // Errors: kInvalidArgument (no name, more than kMaxSessionContexts, one twice; options.context or
  //         !options.reuse; bad spec or plan); kNotFound; kFailedPrecondition (of another model, or
  //         at another position); kUnsupported (several, and a layer has a sliding window);
  //         kResourceExhausted (more tokens than a session holds); kCorruption, kIoError.
  Result<Session> CreateSessionOver(const ModelSpec& spec, std::span<const std::string> contexts,
                                    const SessionOptions& options = {}) const;
  static constexpr size_t kMaxSessionContexts = 1024;

  // Stores a KV cache computed elsewhere, one LayerKv a layer ([Alaya] DB.import). `queries`, if
  // any: one view a layer, [n, num_q_heads, head_dim]: q of the last n tokens, sampled from.
  Result<ContextId> Import(const ModelSpec& spec, std::span<const TokenId> tokens,
                           std::span<const LayerKv> layers, const StoreOptions& options = {},
                           std::span<const TensorView> queries = {}) const;

  // Seals the session's tail and makes its tokens a context; durable when it returns. The session
  // goes on upon it with an empty tail. An empty tail costs a name at most.
  // `tokens`: the ids of all tokens that the session holds.
  // Errors: kInvalidArgument (tokens differ in number or from the stored prefix); kAlreadyExists;
  //         kFailedPrecondition (inside a step; K and V that did not see one whole prompt: over
  //         several contexts, or appended under a filter); kResourceExhausted (disk full, quota);
  //         kReadOnly; kIoError. The session is unchanged and nothing of it is visible.
  Result<ContextId> Store(Session& session, std::span<const TokenId> tokens,
                          const StoreOptions& options = {}) const;

  // Why CreateSession would reuse what it would. Touches no access time.
  Result<PrefixExplain> ExplainPrefix(const ModelSpec& spec, std::span<const TokenId> tokens,
                                      const SessionOptions& options = {}) const;

  // The passages of stored contexts that the query's heads attend to most: find.h. Looks through
  // the keys of these heads, in all contexts of the model, by DBOptions::num_threads; touches no
  // access time. What can't be read is skipped and told; damage is quarantined.
  // Errors: kInvalidArgument (spec; heads; q; options); kNotFound (a named context);
  //         kResourceExhausted (memory); kCorruption, kIoError (the catalog).
  Result<FindResult> Find(const ModelSpec& spec, const FindQuery& query,
                          const FindOptions& options = {}) const;

  // The tenant's contexts, oldest first, and one of them by name or "#id".
  Result<std::vector<ContextInfo>> List() const;
  Result<ContextInfo> Describe(std::string_view context) const;
  // The token ids of a context.
  Result<std::vector<TokenId>> Tokens(std::string_view context) const;

  Status Pin(std::string_view context, bool pinned = true) const;
  // Time to live since the last access; nullopt = for ever.
  Status SetTtl(std::string_view context, std::optional<std::chrono::seconds> ttl) const;
  Status Drop(std::string_view context) const;
  // Limit of the tenant's bytes on disk; 0 = none. Store evicts what was used longest ago to stay
  // below it, in the commit that publishes the new context: never what is pinned or what a session
  // uses.
  Status SetQuota(uint64_t bytes) const;
  // KV of `fingerprint_a` may be used for `fingerprint_b` and the other way round, in this store.
  Status DeclareEqual(std::string_view fingerprint_a, std::string_view fingerprint_b) const;

  // Reads and checks every byte. Damage is in the report, and quarantined; not an error.
  Result<VerifyReport> Verify(const VerifyOptions& options = {}) const;
  // Merges chains of small segments, erases tokens that no context uses, expires contexts. What is
  // found damaged is quarantined: kCorruption in the end, with all other contexts compacted. The
  // same again, with nothing stored or dropped in between, changes nothing.
  //
  // Contexts can be read meanwhile; a Store waits. Open sessions keep the segments that they have,
  // whose files go with the last of them. What planes and indexes the old segments had, or were to
  // have, is built for the new ones in the background; until then plans do without.
  // Memory: K, V and sampled q of one layer of what becomes one segment, at once. Disk: what is to
  //         become one segment a second time, until the new one is published and the old ones go.
  // Errors: kInvalidArgument (segment_tokens), kNotFound (context), before anything is done;
  //         kCancelled (by progress);
  //         kResourceExhausted (memory, disk full); kReadOnly; kIoError. What was merged until then
  //         stays merged; a merge that did not end leaves nothing.
  Status Compact(const CompactOptions& options = {}) const;
  Result<DBStats> Stats() const;
  // Builds an index of each of the context's segments that has none, all layers, and waits until
  // they are on disk: else the first call of a plan that names one starts that. `index`: as in
  // plans, "clustered", "graph", "roargraph,graphs=head", "quest", "pq" or "pq,m=4,b=8", ...; what
  // "static=prefill" reads; or "planes", which segments get anyway. It is done in the background,
  // after what that is at; no Attend waits for it.
  // Errors: kInvalidArgument (index); kNotFound; kReadOnly; kFailedPrecondition (opened without
  //         background_builds); kCancelled (by progress); else those of these builds, as
  //         kResourceExhausted or kIoError: what was built until then is there.
  Result<BuildReport> Build(std::string_view context, std::string_view index,
                            const BuildOptions& options = {}) const;
  // Returns when nothing is left to be done in the background, of any tenant: the planes of what
  // was stored are on disk then, and every later process finds them; what plans have asked for is
  // ready. Answers are right without it; plans read more until then.
  // Errors: kCancelled (by progress); else the first that a build met since the last call, as
  //         kResourceExhausted or kIoError: what is stored is whole.
  Status WaitForBackground(const WaitOptions& options = {}) const;

  // What this machine takes, as the store knows it; `measure`: now, if it does not. A store that is
  // open for reading only does not keep what was measured.
  Result<MachineProfile> Machine(bool measure = false) const;

 private:
  friend struct internal::DbAccess;
  DB(std::shared_ptr<internal::Database> database, std::string tenant);

  std::shared_ptr<internal::Database> database_;  // Null only after a move.
  std::string tenant_;
};

}  // namespace attndb

#endif  // ATTNDB_DB_H_
