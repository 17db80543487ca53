// A store of contexts: token sequences with the keys and values that a model made of them.
//
//   auto db = DB::Open("/var/lib/attndb");
//   auto [session, rest] = *db->CreateSession(spec, prompt);   // rest: what the engine must run
//   ... session.Append / session.Attend for each layer ...
//   db->Store(session, all_tokens, {.name = "manual"});        // durable when it returns
//
// Promise: acknowledged = durable; a stored byte is used only after its checksum and its identity
//          were verified; a damaged context is quarantined and listed, the others work. Damage is
//          of the pages that it is in: who shares a segment's first tokens is served if these are
//          whole.
// Cost:    calls that change the catalog (Store, Import, Rename, Drop, Pin, SetTtl, SetQuota,
//          DeclareEqual) return after a sync of the disk. Calls that only read it wait for a sync
//          that is under way in another thread, never for a Store's writing of K and V. Exceptions
//          are named at the calls.
// Threads: a DB is thread-safe and cheap to copy: copies share one open store, which closes when
//          the last copy and the last session are gone. One process writes to a store. Background
//          threads of the store build the planes of new segments and what plans ask for; no Attend
//          waits for them. Closing the store stops them, and the next open goes on with what is
//          missing.
// Fork:    a DB and its sessions belong to the process that opened them. A fork of it can let go of
//          them and read their fields; calls give kFailedPrecondition there, and so does Open of
//          a store that was open at the fork. Processes that are to share a store open it each,
//          after the fork (at most one of them to write).
// Tenants: a handle sees one tenant's contexts and no trace of the others', but for two: what all
//          need together may find the memory or the disk full; and reports of damage name files,
//          whose names count the whole store's. Ids of contexts and segments are the tenant's own,
//          each from 1. The handle that Open gives, of the tenant "default", is the owner's: its
//          Stats and WaitForBackground are of the whole store. Give others handles of ForTenant.
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
  std::vector<TokenId> rest;  // The prompt's tokens that are not reused: at least one.
};

// K and V of one layer: k [num_tokens, num_kv_heads, head_dim], v [num_tokens, num_kv_heads,
// v_head_dim], after RoPE in the layout that the spec names.
struct LayerKv {
  TensorView k;
  TensorView v;
};

// A Store that goes on behind its session: DB::StoreAsync. Copies stand for the same Store. It may
// be let go of at any time, and outlive the DB: the Store goes on, and closing the DB waits for it.
//
// Threads: thread-safe.
class ATTNDB_EXPORT PendingStore {
 public:
  // Whether it has ended, well or not. Never waits.
  bool done() const;
  // Waits until it has ended. The id of the context, which is durable then; or, with nothing of it
  // visible, as DB::Store. Errors: also kFailedPrecondition where it has not ended and the caller
  // is the progress of a Compact; the Store goes on.
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
  // Opens or creates the store in folder `path`, whose full path, links followed, has at most
  // kMaxPathBytes. Never needs a repair by hand: what a crash left unfinished is removed.
  // Cost:   reads parts of the catalog and lists the folder of segments; reads no K or V. Waits for
  //         nobody: a second writing process gets kBusy at once.
  // Errors: kInvalidArgument (path; options); kBusy (another process writes); kNotFound;
  //         kUnsupported (made by a newer attndb); kCorruption (the catalog itself); kIoError.
  static Result<DB> Open(const std::string& path, const DBOptions& options = {});
  static constexpr size_t kMaxPathBytes = 489;

  // The same store for tenant `name`: 1 to 64 of [A-Za-z0-9._-]. Touches no disk: the first Store
  // makes the tenant.
  // Errors: kInvalidArgument (name).
  Result<DB> ForTenant(std::string_view name) const;
  const std::string& tenant() const { return tenant_; }

  // A session that reuses the longest stored prefix of `tokens`, exact to the token, that leaves at
  // least one token for the engine to run.
  // Cost:   searches the catalog, and reads the token ids of the reused segments from disk. K and V
  //         are read by the first Attend of each layer. Syncs nothing, unless damage is found and
  //         recorded.
  // Errors: kInvalidArgument (empty prompt, negative token, bad spec or plan); kNotFound,
  //         kFailedPrecondition (the named context: unknown; of another model); kCorruption.
  Result<SessionStart> CreateSession(const ModelSpec& spec, std::span<const TokenId> tokens,
                                     const SessionOptions& options = {}) const;
  // CreateSession for each prompt, in order. The first one that fails ends the call; its error
  // names the prompt's index.
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
  // Order:  tokens and Session::contexts have the order of `contexts`. A plan's sink lies in the
  //         first context, its window begins in the last; `full` gives the same in any order.
  // What is appended has seen contexts that never saw each other: Store refuses it, and Crop goes
  // no further than to where the contexts end. A single name is continued as by CreateSession.
  // Cost:   as CreateSession, for each of the contexts.
  // Errors: kInvalidArgument (no name, more than kMaxSessionContexts, one twice; options.context or
  //         !options.reuse; bad spec or plan); kNotFound; kFailedPrecondition (of another model, or
  //         at another position); kUnsupported (several, and a layer has a sliding window);
  //         kResourceExhausted (more tokens than a session holds); kCorruption, kIoError.
  Result<Session> CreateSessionOver(const ModelSpec& spec, std::span<const std::string> contexts,
                                    const SessionOptions& options = {}) const;
  static constexpr size_t kMaxSessionContexts = 1024;

  // Stores a KV cache computed elsewhere as one context, one LayerKv a layer ([Alaya] DB.import);
  // durable when it returns. `queries`, if any, has one view a layer, [n, num_q_heads, head_dim]: q
  // of the last n tokens, from which the training queries of indexes are sampled. A prefix that is
  // stored already is shared, not written again.
  // Cost:   writes pieces of 4,096 tokens, each with its syncs, and then merges them
  //         (DBOptions::import_segment_tokens), which writes K and V once more.
  // Memory: one piece beside the caller's arrays; while merging, as Compact.
  // Errors: kInvalidArgument (spec; tokens; shape, dtype or number of the views; a finite value
  //         that overflows kv_dtype); those of Store. Nothing is stored or dropped then.
  Result<ContextId> Import(const ModelSpec& spec, std::span<const TokenId> tokens,
                           std::span<const LayerKv> layers, const StoreOptions& options = {},
                           std::span<const TensorView> queries = {}) const;

  // Seals the session's tail and makes its tokens a context; durable when it returns. The session
  // then continues that context, with an empty tail. An empty tail costs a name at most.
  // `tokens`: the ids of all tokens that the session holds.
  // Cost:   writes K and V of the tail, not of what was stored before, syncs, and commits. Small
  //         segments at the chain's end are merged in the background: a token is written O(log)
  //         times in all. Sessions move to a merged segment in a later step, once it has what was
  //         derived from those that it replaces. Without background_builds Store merges itself.
  // Waits:  for commits of the whole store that came before; segments of several Stores are written
  //         side by side. Calls of other sessions go on.
  // Errors: kInvalidArgument (tokens differ in number or from the stored prefix; options);
  //         kAlreadyExists; kFailedPrecondition (inside a step; K and V that did not see one whole
  //         prompt: over several contexts, or appended under a filter); kResourceExhausted (disk
  //         full, quota); kCorruption (lost files); kReadOnly; kIoError. Nothing of it is visible,
  //         or changed.
  Result<ContextId> Store(Session& session, std::span<const TokenId> tokens,
                          const StoreOptions& options = {}) const;

  // Store, behind the session: what it holds now will be durable, and the session may append, crop,
  // attend and close meanwhile. In the first step after the Store has ended, the session moves to
  // the stored context, and what was stored leaves its tail; the tokens since then stay.
  // Cost:   copies no K, V or q. The tail's memory is held until the Store has ended; the next
  //         Append copies the last, incomplete block of each layer, 255 tokens at most.
  // Order:  calls with one name take it in their order, however long each takes to write.
  // Waits:  for the session's own StoreAsync before this one, if that has not ended; a Store does
  //         so too. Not for the disk.
  // Errors: those of Store that need no disk: kInvalidArgument (tokens), kFailedPrecondition.
  //         Others come from PendingStore::Wait; the session then goes on with its tail.
  Result<PendingStore> StoreAsync(Session& session, std::span<const TokenId> tokens,
                                  const StoreOptions& options = {}) const;

  // Tells how much of the prompt CreateSession would reuse, from which context, and why no more.
  // Reads the catalog alone; changes no access time.
  Result<PrefixExplain> ExplainPrefix(const ModelSpec& spec, std::span<const TokenId> tokens,
                                      const SessionOptions& options = {}) const;

  // Tells whether there is room for a Store of `tokens`, which go on from what CreateSession would
  // reuse of them: before a model runs them, which may take hours. Reckons as Store does, with the
  // tenant's quota, what is pinned, in use and shared, and the disk. Writes nothing, changes no
  // access time, and reserves nothing: who stores meanwhile takes the room.
  // Cost:   as CreateSession; where room lacks it waits for a merge that is under way, as Store,
  //         unless options.wait is false.
  // Errors: kResourceExhausted (disk, quota); kInvalidArgument (no prompt, negative token, bad
  //         spec); kFailedPrecondition (it may wait, and is called by the progress of a Compact);
  //         kCorruption, kIoError.
  Result<RoomReport> CheckRoom(const ModelSpec& spec, std::span<const TokenId> tokens,
                               const RoomOptions& options = {}) const;

  // Finds the passages of stored contexts that the query's heads attend to most: find.h.
  // Cost:   scores the keys of these heads in all contexts of the model, by DBOptions::num_threads,
  //         and reads them from disk where they are not in memory. Changes no access time. What
  //         can't be read is listed as skipped; damage is quarantined.
  // Errors: kInvalidArgument (spec; heads; q; options); kNotFound (a named context);
  //         kResourceExhausted (memory); kCorruption, kIoError (the catalog).
  Result<FindResult> Find(const ModelSpec& spec, const FindQuery& query,
                          const FindOptions& options = {}) const;

  // The tenant's contexts, oldest first; and one of them, by name or "#id". Reads catalog rows of
  // each. Describe looks whether the files are there, too: a context that lacks some is damaged.
  // Errors: kNotFound (Describe); kCorruption, kIoError (the catalog).
  Result<std::vector<ContextInfo>> List() const;
  Result<ContextInfo> Describe(std::string_view context) const;
  // The token ids of a context, by name or "#id". Errors: as Describe.
  Result<std::vector<TokenId>> Tokens(std::string_view context) const;
  // The note that the context was stored with, StoreOptions::note; "" if it has none. List and
  // Describe read no notes. Errors: as Describe.
  Result<std::string> Note(std::string_view context) const;

  // Exempts a context from eviction and expiry, or (false) no longer. Returns after a sync.
  // Errors: kNotFound; kReadOnly; kIoError.
  Status Pin(std::string_view context, bool pinned = true) const;
  // Sets the time to live since the last access; nullopt = for ever. Returns after a sync.
  // Time is the system's: a clock that is far ahead when the store is opened can't be told from a
  // long rest, and expires all that is not pinned. A clock that jumps ahead while the store is open
  // expires none. Once it is set right, uses that it dated ahead count as that moment.
  // Errors: kInvalidArgument (negative); as Pin.
  Status SetTtl(std::string_view context, std::optional<std::chrono::seconds> ttl) const;
  // Calls the context `name`, whatever it was called, in one commit: sessions and Stores that go on
  // from it are not disturbed. Returns after a sync.
  // Errors: kInvalidArgument (name); kAlreadyExists (another context of the tenant has it); as Pin.
  Status Rename(std::string_view context, std::string_view name) const;
  // Removes the context: no call finds it any more. Segments that other contexts use stay; the
  // files of the others go with the last session that reads them. Waits for Stores and Compacts
  // that came before, and returns after a sync. On a full disk it writes to what the store keeps
  // free for that, which is enough for contexts of 80,000 tokens with a small note at least. A note
  // is overwritten when it goes, which takes as many bytes again.
  // Errors: kNotFound; kReadOnly; kResourceExhausted (not even that was there); kIoError.
  Status Drop(std::string_view context) const;
  // Limits the tenant's bytes on disk; 0 = no limit. Evicts nothing by itself: the next Store
  // evicts what was used longest ago to stay below the limit, in the commit that publishes the new
  // context, but never what is pinned or what a session uses; DBStats::evicted says which. Returns
  // after a sync.
  Status SetQuota(uint64_t bytes) const;
  // Declares that KV of `fingerprint_a` may be used for `fingerprint_b` and the other way round, of
  // this tenant's contexts. Returns after a sync. Errors: kInvalidArgument; kReadOnly; kIoError.
  Status DeclareEqual(std::string_view fingerprint_a, std::string_view fingerprint_b) const;
  // Takes back what DeclareEqual said of these two. What was stored meanwhile stays, and two models
  // that are equal to a third are equal still. Errors: kNotFound (it was not said); kReadOnly;
  // kIoError.
  Status RevokeEqual(std::string_view fingerprint_a, std::string_view fingerprint_b) const;

  // Reads every byte of the tenant's segments and companions, or of one context's, from disk and
  // checks it. Damage is in the report, and quarantined; it is no error. What was quarantined and
  // is as it was written (a file or a disk came back) is served again. The catalog is checked, too:
  // where it is damaged is told by the owner's handle. Other calls go on meanwhile.
  // Errors: kNotFound (context); kCancelled (by progress); kIoError.
  Result<VerifyReport> Verify(const VerifyOptions& options = {}) const;
  // Merges chains of small segments, erases tokens that no context uses, writes anew what contexts
  // use of a damaged segment where that harms none, expires contexts. What is found damaged is
  // quarantined: kCorruption in the end, with all other contexts compacted. A second call, with
  // nothing stored or dropped in between, changes nothing.
  //
  // All other calls go on meanwhile, but for another Compact. Planes and indexes that the old
  // segments had, or were to have, are built for the new ones in the background. Open sessions move
  // to a new segment in the first step after that; the old files go when nobody reads them.
  // Cost:   reads and writes again the K and V of what it merges.
  // Memory: one layer's K, V and sampled q of the segment that is being made.
  // Disk:   room for that segment beside those that it replaces, until it is published.
  // Errors: kInvalidArgument (segment_tokens), kNotFound (context), before anything is done;
  //         kCancelled (by progress);
  //         kResourceExhausted (memory, disk full); kReadOnly; kIoError. What was merged until then
  //         stays merged; a merge that did not end leaves nothing.
  Status Compact(const CompactOptions& options = {}) const;
  // Counts of the tenant's contexts and of what was done for it since the store was opened; by the
  // owner's handle, for all tenants. Reads the catalog alone.
  Result<DBStats> Stats() const;
  // Whether the store's folder, its catalog and its segments are where they were opened: what was
  // moved away or unmounted takes no more Stores. Reads no file.
  // Errors: kIoError, with the path.
  Status CheckPlace() const;
  // Builds an index of each of the context's segments that has none, in all layers, and returns
  // when they are on disk. Without it the first call of a plan that names the index starts the
  // build. `index` is named as in plans: "clustered", "graph", "roargraph,graphs=head", "quest",
  // "pq" or "pq,m=4,b=8", ...; "static=prefill" for the ranking that static tokens are read from;
  // or "planes", which segments get anyway.
  // Waits:  for what the background has to do before; an index of a long context takes minutes. No
  //         Attend waits for it.
  // Errors: kInvalidArgument (index); kNotFound; kReadOnly; kFailedPrecondition (opened without
  //         background_builds); kCancelled (by progress); else the error of a build, as
  //         kResourceExhausted or kIoError: what was built until then is there.
  Result<BuildReport> Build(std::string_view context, std::string_view index,
                            const BuildOptions& options = {}) const;
  // Waits until the background has nothing left to do for the tenant, or, by the owner's handle,
  // for any: the planes of what was stored are then on disk, where every later process finds them,
  // and what plans have asked for is ready. Answers are right without waiting; plans read more
  // until then.
  // Errors: kCancelled (by progress); else the first error of a build since the last call, as
  //         kResourceExhausted or kIoError: what is stored is whole.
  Status WaitForBackground(const WaitOptions& options = {}) const;

  // The times of this machine by which plans are priced, as the store knows them. `measure`: if
  // nobody has measured, measures now, which takes a few hundred milliseconds. A store that is open
  // for reading only does not keep what was measured.
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
