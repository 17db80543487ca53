// A store of contexts: token sequences with the keys and values that a model made of them.
//
//   auto db = DB::Open("/var/lib/attndb");
//   auto [session, rest] = *db->CreateSession(spec, prompt);   // rest: the engine must run it
//   ... session.Append / session.Attend for each layer ...
//   db->Store(session, all_tokens, {.name = "manual"});        // durable when it returns
//
// Promise: acknowledged = durable. A stored byte is used only after its checksum and its identity
//          were verified. A damaged context is quarantined and listed; other contexts work. Damage
//          counts by page: a context that shares only sound pages of a damaged segment is still
//          served.
// Cost:    calls that change the catalog (Store, Import, Rename, Drop, Pin, SetTtl, SetQuota,
//          DeclareEqual) return after a disk sync. Calls that only read the catalog may wait for a
//          sync of another thread, but never for a Store that writes K and V. Exceptions are named
//          at the calls.
// Threads: a DB is thread-safe and cheap to copy. Copies share one open store, which closes when
//          the last copy and the last session are gone. One process writes to a store. Background
//          threads of the store build the planes of new segments, and the indexes that plans ask
//          for. Attend never waits for these builds. Closing the store stops the builds; the next
//          open resumes them.
// Fork:    a DB and its sessions belong to the process that opened them. A forked child process can
//          destroy them and read their fields. Calls in the child return kFailedPrecondition, and
//          so does Open of a store that was open at the fork. If several processes share a store,
//          each opens the store after the fork, and at most one of them writes.
// Tenants: a handle sees one tenant's contexts and no trace of other tenants, with two exceptions.
//          Memory and disk are shared, so either can be full because of another tenant. Damage
//          reports name files, and file names count the segments of the whole store. Ids of
//          contexts and segments are the tenant's own, each from 1. Open returns the owner's
//          handle, whose tenant is "default": its Stats and WaitForBackground cover the work for
//          all tenants. Give others the handles of ForTenant.
#ifndef ATTNDB_DB_H_
#define ATTNDB_DB_H_

#include <chrono>
#include <cstdint>
#include <future>
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

// A new session, and the tokens that the engine has to run in it.
struct SessionStart {
  Session session;
  std::vector<TokenId> rest;  // The tokens of the prompt that are not reused: at least one.
};

// K and V of one layer, after RoPE in the layout that the spec names: k [num_tokens, num_kv_heads,
// head_dim], v [num_tokens, num_kv_heads, v_head_dim].
struct LayerKv {
  TensorView k;
  TensorView v;
};

// A Store that runs in the background: DB::StoreAsync. Copies refer to the same Store. A
// PendingStore may be destroyed at any time and may outlive the DB: the Store continues, and
// closing the DB waits for the Store.
//
// Threads: thread-safe.
class ATTNDB_EXPORT PendingStore {
 public:
  // Returns whether the Store has ended, with success or an error. Never waits.
  bool done() const;
  // Waits until the Store has ended. Returns the id of the context, which is then durable.
  // Errors: those of DB::Store, with nothing of the context visible; kFailedPrecondition (the Store
  // has not ended, and the caller is the progress callback of a Compact): the Store continues.
  Result<ContextId> Wait() const;

 private:
  friend class DB;
  PendingStore(std::shared_future<Result<ContextId>> result,
               std::weak_ptr<internal::Database> database);

  std::shared_future<Result<ContextId>> result_;
  std::weak_ptr<internal::Database> database_;
};

class ATTNDB_EXPORT DB {
 public:
  // Opens or creates the store in folder `path`. The full path, with links followed, has at most
  // kMaxPathBytes bytes. A store never needs a repair by hand: Open removes the remains of a crash.
  // Cost:   reads parts of the catalog and lists the folder of segments; reads no K or V. Does not
  //         wait for another process: a second writer gets kBusy at once.
  // Errors: kInvalidArgument (path; options); kBusy (another process writes); kNotFound;
  //         kUnsupported (made by a newer attndb); kCorruption (the catalog itself); kIoError.
  static Result<DB> Open(const std::string& path, const DBOptions& options = {});
  static constexpr size_t kMaxPathBytes = 489;

  // Returns a handle of the same store for tenant `name`: 1 to 64 of [A-Za-z0-9._-]. Touches no
  // disk: the tenant's first Store creates the tenant.
  // Errors: kInvalidArgument (name).
  Result<DB> ForTenant(std::string_view name) const;
  const std::string& tenant() const { return tenant_; }

  // Creates a session that reuses the longest stored prefix of `tokens`, exact to the token. At
  // least one token is left for the engine to run.
  // Cost:   searches the catalog, and reads the token ids of the reused segments from disk. The
  //         first Attend of each layer reads K and V. Syncs nothing, unless damage is found and
  //         recorded.
  // Errors: kInvalidArgument (empty prompt, negative token, bad spec or plan); kNotFound,
  //         kFailedPrecondition (the named context is unknown, or of another model); kCorruption.
  Result<SessionStart> CreateSession(const ModelSpec& spec, std::span<const TokenId> tokens,
                                     const SessionOptions& options = {}) const;
  // Calls CreateSession for each prompt, in order. The first failure ends the call; its error names
  // the index of the prompt.
  Result<std::vector<SessionStart>> CreateSessions(
      const ModelSpec& spec, std::span<const std::span<const TokenId>> prompts,
      const SessionOptions& options = {}) const;

  // Creates a session over several whole contexts, for questions to a library ([Alaya] 8). The
  // session holds the tokens of `contexts` (names or "#id") in the given order, and attends to all
  // of them. The engine runs new tokens from position Session::next_position() on. No K or V is
  // copied.
  // Position: each context keeps the positions at which it was stored, from first_position on, so
  //           that the contexts lie in parallel. New tokens follow the longest context (Parallel
  //           Context Windows, Ratner et al. 2023, arXiv:2212.10947). The session therefore reaches
  //           no higher position than the longest context alone would.
  // Shared:   contexts may begin with the same tokens (a template, a system text), whose K and V
  //           are then the same. The session holds these tokens once, as the earlier context's.
  // Order:    tokens and Session::contexts have the order of `contexts`. A plan's sink lies in the
  //           first context, and its window begins in the last. `full` gives the same result in any
  //           order.
  // Appended tokens have seen contexts that never saw each other: Store refuses such a session, and
  // Crop keeps at least all tokens of the contexts. A single name is continued as by CreateSession.
  // Cost:     that of CreateSession, for each of the contexts.
  // Errors:   kInvalidArgument (no name, more than kMaxSessionContexts, one twice; options.context
  //           or !options.reuse; bad spec or plan); kNotFound; kFailedPrecondition (of another
  //           model, or at another position); kUnsupported (several, and a layer has a sliding
  //           window); kResourceExhausted (more tokens than a session holds); kCorruption,
  //           kIoError.
  Result<Session> CreateSessionOver(const ModelSpec& spec, std::span<const std::string> contexts,
                                    const SessionOptions& options = {}) const;
  static constexpr size_t kMaxSessionContexts = 1024;

  // Stores a KV cache that was computed elsewhere as one context, with one LayerKv per layer
  // ([Alaya] DB.import). The context is durable when Import returns. `queries` is empty or has one
  // view per layer, [n, num_q_heads, head_dim]: q of the last n tokens, from which the training
  // queries of indexes are sampled. A prefix that is already stored is shared, not written again.
  // Cost:   writes pieces of 4,096 tokens, each with its syncs. Then merges the pieces
  //         (DBOptions::import_segment_tokens), which writes K and V once more.
  // Memory: one piece, in addition to the caller's arrays; while merging, as Compact.
  // Errors: kInvalidArgument (spec; tokens; shape, dtype or number of the views; a finite value
  //         that overflows kv_dtype); those of Store. Nothing is stored or dropped then.
  Result<ContextId> Import(const ModelSpec& spec, std::span<const TokenId> tokens,
                           std::span<const LayerKv> layers, const StoreOptions& options = {},
                           std::span<const TensorView> queries = {}) const;

  // Seals the session's tail and makes the session's tokens a context, which is durable when Store
  // returns. The session then continues that context, with an empty tail. If the tail is empty
  // already, Store writes at most a name. `tokens` are the ids of all tokens that the session
  // holds.
  // Cost:   writes K and V of the tail only, syncs, and commits. Small segments at the chain's end
  //         are merged in the background, so that a token is written O(log) times in all. A session
  //         moves to a merged segment in a later step, once the merged segment has the derived
  //         objects of the segments that it replaces. Without background_builds, Store itself
  //         merges.
  // Waits:  for earlier commits of the whole store. Several Stores write their segments in
  //         parallel. Calls of other sessions continue.
  // Errors: kInvalidArgument (tokens differ in number or from the stored prefix; options);
  //         kAlreadyExists; kFailedPrecondition (inside a step; the tokens did not see one whole
  //         prompt: a session over several contexts, or tokens appended under a filter);
  //         kResourceExhausted (disk full, quota); kCorruption (lost files); kReadOnly; kIoError.
  //         After an error nothing is visible or changed.
  Result<ContextId> Store(Session& session, std::span<const TokenId> tokens,
                          const StoreOptions& options = {}) const;

  // Stores the session's present tokens in the background. Meanwhile the session may append, crop,
  // attend and close. In the first step after the Store has ended, the session moves to the stored
  // context: the stored tokens leave its tail, and newer tokens stay in it.
  // Cost:   copies no K, V or q. The tail's memory is held until the Store has ended. The next
  //         Append copies the last, incomplete block of each layer, at most 255 tokens.
  // Order:  calls with the same name take it in the order of the calls, however long each writes.
  // Waits:  for the session's previous StoreAsync, if it has not ended; so does Store. Does not
  //         wait for the disk.
  // Errors: those of Store that need no disk: kInvalidArgument (tokens), kFailedPrecondition.
  //         PendingStore::Wait returns the others; the session then continues with its tail.
  Result<PendingStore> StoreAsync(Session& session, std::span<const TokenId> tokens,
                                  const StoreOptions& options = {}) const;

  // Tells how much of the prompt CreateSession would reuse, from which context, and why no more.
  // Reads only the catalog; changes no access time.
  Result<PrefixExplain> ExplainPrefix(const ModelSpec& spec, std::span<const TokenId> tokens,
                                      const SessionOptions& options = {}) const;

  // Tells whether a Store of `tokens` would find room, given the prefix that CreateSession would
  // reuse. Call it before a model runs the tokens, which may take hours. Computes the room as Store
  // does: with the tenant's quota, the pinned, used and shared contexts, and the disk. Writes
  // nothing, changes no access time, and reserves nothing: a Store in the meantime may take the
  // room.
  // Cost:   that of CreateSession. If room is short, waits for a running merge, as Store does,
  //         unless options.wait is false.
  // Errors: kResourceExhausted (disk, quota); kInvalidArgument (no prompt, negative token, bad
  //         spec); kFailedPrecondition (the call may wait, and the caller is the progress callback
  //         of a Compact); kCorruption, kIoError.
  Result<RoomReport> CheckRoom(const ModelSpec& spec, std::span<const TokenId> tokens,
                               const RoomOptions& options = {}) const;

  // Finds the passages of stored contexts that the query's heads attend to most: find.h.
  // Cost:   scores the keys of these heads in all contexts of the model, by DBOptions::num_threads.
  //         Reads keys from disk if they are not in memory. Changes no access time. Contexts that
  //         can't be read are listed as skipped; damage is quarantined.
  // Errors: kInvalidArgument (spec; heads; q; options); kNotFound (a named context);
  //         kResourceExhausted (memory); kCorruption, kIoError (the catalog).
  Result<FindResult> Find(const ModelSpec& spec, const FindQuery& query,
                          const FindOptions& options = {}) const;

  // List returns the tenant's contexts, oldest first. Describe returns one context, by name or
  // "#id". Both read catalog rows of each context. Describe also checks that the files exist: a
  // context with a missing file is damaged.
  // Errors: kNotFound (Describe); kCorruption, kIoError (the catalog).
  Result<std::vector<ContextInfo>> List() const;
  Result<ContextInfo> Describe(std::string_view context) const;
  // The token ids of a context, by name or "#id". Errors: as Describe.
  Result<std::vector<TokenId>> Tokens(std::string_view context) const;
  // Returns the note that the context was stored with (StoreOptions::note), or "". List and
  // Describe read no notes. Errors: as Describe.
  Result<std::string> Note(std::string_view context) const;

  // Exempts a context from eviction and expiry; `pinned` = false ends the exemption. Returns after
  // a sync.
  // Errors: kNotFound; kReadOnly; kIoError.
  Status Pin(std::string_view context, bool pinned = true) const;
  // Sets the time to live since the last access; nullopt = for ever. Returns after a sync.
  // The clock is the system's. If the clock is far ahead when the store is opened, all contexts
  // that have a TTL and no pin expire: the store cannot tell such a clock from a long rest. A clock
  // that jumps ahead while the store is open expires no context. Accesses that were dated ahead
  // count as of the moment when the clock is set right.
  // Errors: kInvalidArgument (negative); as Pin.
  Status SetTtl(std::string_view context, std::optional<std::chrono::seconds> ttl) const;
  // Gives the context the new name `name` in one commit. Sessions and Stores that continue the
  // context are not disturbed. Returns after a sync.
  // Errors: kInvalidArgument (name); kAlreadyExists (another context of the tenant has it); as Pin.
  Status Rename(std::string_view context, std::string_view name) const;
  // Removes the context: no call finds it any more. Segments that other contexts use stay. The
  // files of the context's other segments are deleted when the last session that reads them is
  // gone. Waits for earlier Stores and Compacts, and returns after a sync. On a full disk Drop
  // writes to a reserve that the store keeps, which suffices at least for contexts of 80,000 tokens
  // with a small note. A note is overwritten before it is deleted, which takes as many bytes again.
  // Errors: kNotFound; kReadOnly; kResourceExhausted (the reserve did not suffice); kIoError.
  Status Drop(std::string_view context) const;
  // Limits the tenant's bytes on disk; 0 = no limit. SetQuota itself evicts nothing. The next Store
  // evicts the least recently used contexts to stay below the limit, in the commit that publishes
  // the new context. Pinned contexts and those that a session uses are never evicted.
  // DBStats::evicted lists evicted contexts. Returns after a sync.
  Status SetQuota(uint64_t bytes) const;
  // Declares that the tenant's KV of `fingerprint_a` may be used for `fingerprint_b`, and vice
  // versa. Returns after a sync. Errors: kInvalidArgument; kReadOnly; kIoError.
  Status DeclareEqual(std::string_view fingerprint_a, std::string_view fingerprint_b) const;
  // Takes back the DeclareEqual of these two. Contexts that were stored meanwhile stay. Two models
  // that are both declared equal to a third one remain equal. Errors: kNotFound (not declared);
  // kReadOnly; kIoError.
  Status RevokeEqual(std::string_view fingerprint_a, std::string_view fingerprint_b) const;

  // Reads every byte of the tenant's segments and companions (or of one context's) from disk and
  // checks it. Damage is no error: it is reported and quarantined. A quarantined segment whose
  // bytes are right again (a file or a disk came back) is served again. Verify also checks the
  // catalog; only the owner's handle reports where the catalog is damaged. Other calls continue
  // meanwhile.
  // Errors: kNotFound (context); kCancelled (by progress); kIoError.
  Result<VerifyReport> Verify(const VerifyOptions& options = {}) const;
  // Merges chains of small segments, erases tokens that no context uses, and expires contexts.
  // Rewrites the tokens of a damaged segment that contexts still use, if that harms no context.
  // Damage that Compact finds is quarantined: all other contexts are compacted, then the call
  // returns kCorruption. A second call changes nothing, unless contexts were stored or dropped in
  // between.
  //
  // All other calls except another Compact continue meanwhile. New segments get the planes and
  // indexes that the old segments had or were to have; these are built in the background. Open
  // sessions move to a new segment in the first step after that. Old files are deleted when no
  // session reads them.
  // Cost:   reads and rewrites the K and V of the merged segments.
  // Memory: one layer's K, V and sampled q of the segment that is being made.
  // Disk:   room for that segment in addition to the segments that it replaces, until it is
  //         published.
  // Errors: kInvalidArgument (segment_tokens), kNotFound (context), before anything is done;
  //         kCancelled (by progress); kResourceExhausted (memory, disk full); kReadOnly; kIoError.
  //         Finished merges stay; an unfinished merge leaves nothing.
  Status Compact(const CompactOptions& options = {}) const;
  // Counts the tenant's contexts and segments, and the work that was done for the tenant since the
  // store was opened. The owner's handle counts the work for all tenants. Reads only the catalog.
  Result<DBStats> Stats() const;
  // Checks that the store's folder, its catalog and its segments are still where they were opened.
  // A store that was moved away or unmounted takes no more Stores. Reads no file.
  // Errors: kIoError, with the path.
  Status CheckPlace() const;
  // Builds an index for each of the context's segments that has none, in all layers, and returns
  // when the indexes are on disk. Without Build, the first call of a plan that names the index
  // starts the build. `index` is named as in plans: "clustered", "graph", "roargraph,graphs=head",
  // "quest", "pq" or "pq,m=4,b=8", ...; "static=prefill" builds the ranking from which static
  // tokens are read; "planes" are built for every segment anyway.
  // Waits:  for earlier background work. An index of a long context takes minutes. Attend never
  //         waits for Build.
  // Errors: kInvalidArgument (index); kNotFound; kReadOnly; kFailedPrecondition (opened without
  //         background_builds); kCancelled (by progress); else the error of a build, such as
  //         kResourceExhausted or kIoError: indexes that were built until then stay.
  Result<BuildReport> Build(std::string_view context, std::string_view index,
                            const BuildOptions& options = {}) const;
  // Waits until the background has no more work for the tenant; the owner's handle waits for all
  // tenants. The planes of stored segments are then on disk for every later process, and the
  // objects that plans have asked for are ready. Results are right without waiting; until then
  // plans read more.
  // Errors: kCancelled (by progress); else the first error of a build since the last call, such as
  //         kResourceExhausted or kIoError: stored contexts are whole.
  Status WaitForBackground(const WaitOptions& options = {}) const;

  // Returns the times of this machine that plans are priced by, as the store knows them. If
  // `measure` is true and nothing was measured yet, measures now, which takes a few hundred
  // milliseconds. A read-only store does not keep the measurement.
  Result<MachineProfile> Machine(bool measure = false) const;

 private:
  friend struct internal::DbAccess;
  DB(std::shared_ptr<internal::Database> database, std::string tenant);
  Status CheckOwn(const Session& session) const;

  std::shared_ptr<internal::Database> database_;  // Null only after a move.
  std::string tenant_;
};

}  // namespace attndb

#endif  // ATTNDB_DB_H_
