// Options of the calls of DB and Session. Every default is what most callers want.
#ifndef ATTNDB_OPTIONS_H_
#define ATTNDB_OPTIONS_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "attndb/custom_index.h"
#include "attndb/types.h"

namespace attndb {

struct DBOptions {
  static constexpr uint32_t kMaxThreads = 1024;

  // Works beside a writer of another process; calls that write give kReadOnly.
  bool read_only = false;
  bool create_if_missing = true;  // False: kNotFound where there is no store.
  // Plan of sessions that name none (plan text: docs/plan.md).
  std::string plan = "full";
  // Rows of q kept per stored key and kv head as training queries of indexes; 0 = none.
  double query_sample = 0.1;
  // An Attend of more rows than this runs `full`: prefill is exact.
  uint32_t dense_query_tokens = 64;
  // Threads of one Attend call (AttendPart runs on the caller's), at most kMaxThreads; 0 = all
  // cores that the process may use. Plans that search cut their sums by their number, so that the
  // last bits of a result depend on it; those of `full` do not.
  uint32_t num_threads = 0;
  // Bytes that the DB and its sessions may hold in memory: K and V, sampled q, what is derived from
  // them, and scratch. 0 = three quarters of what is free at open, of the machine and of the
  // control groups (containers) that the process is in. kResourceExhausted beyond it; sampled q
  // that finds no room is left out.
  uint64_t host_memory_bytes = 0;
  // True: a thread of low priority builds the planes of new segments, after Store and Import have
  // returned, and keeps them on disk; another one merges the small segments that Stores leave.
  // False: each process builds planes in memory, by the same thread, once a plan asks for them, and
  // Store merges before it returns.
  bool background_builds = true;
  // Threads that a build takes, all of low priority, at most kMaxThreads; 0 = all cores. More than
  // one matter for graphs, which take long.
  uint32_t background_threads = 1;
  // The index that is built of each segment after its planes, named as in plans: "pq",
  // "pq,m=4,b=8", "clustered", "graph", "roargraph", "quest", ...; empty = none: the first call of
  // a plan that names an index starts its build. A document that is stored piece by piece while a
  // model reads it is thus indexed meanwhile. Needs background_builds.
  std::string index;
  // Rounds of k-means by which codebooks of product quantization and wave indexes are made, at most
  // kMaxKmeansIterations; fewer where nothing changes any more. 0 = 10 of wave indexes, as
  // published, and 8 of codebooks: [PQC] Eq. 3 with a twentieth of a prefill's time for all codes
  // of its tokens gives 10 for SmolLM2 at 8,192 tokens on two cores, and recall grows little beyond
  // 6 (docs/plan.md#indexes).
  uint32_t kmeans_iterations = 0;
  static constexpr uint32_t kMaxKmeansIterations = 1000;
  // How RoarGraph (index=roargraph) is built from now on; 0 = as published: training queries find
  // N_q = 100 keys each, keys get M = 35 neighbours of the projection and M of the enhancement,
  // whose searches keep L = 500 keys (docs/plan.md#roargraph).
  uint32_t roar_keys_per_query = 0;
  uint32_t roar_max_degree = 0;
  uint32_t roar_search_window = 0;
  static constexpr uint32_t kMaxRoarDegree = 127;
  static constexpr uint32_t kMaxRoarKeys = 65536;  // N_q and L.
  // Limit on the sampled rows of q that train one graph; they are spaced evenly. 0: two for five of
  // its keys, as [Alaya] 9.2.1 has it, but no more than 32,768, since the time of a build grows
  // with their number times that of the keys. UINT32_MAX: all that query_sample kept.
  uint32_t max_training_queries = 0;
  // A merged segment's graph grows from the graph of the first segment that it replaces, if that is
  // stored, instead of being built anew: `graph` with the sampled q of the tokens behind it,
  // `roargraph` by RetrievalAttention's rule (Appendix C), which finds far less
  // (docs/plan.md#growth).
  bool grow_graphs = false;
  // Length in tokens of the segments that an import leaves, at most
  // CompactOptions::kMaxSegmentTokens. An import stores pieces of 4096 tokens, and merges them when
  // all is there: one search of a long segment by clusters or by a graph takes less than one of
  // each piece. At most 4096: the pieces stay.
  uint64_t import_segment_tokens = 65536;
  // True: `auto` prices plans by what this machine was measured to take, once, in the background,
  // when it first matters (a few hundred milliseconds; never if read_only), and by what calls then
  // take. False: by fixed prices, so that every run decides alike.
  bool measure_machine = true;
  // The caller's own types of queries and indexes, which plans name as they do attndb's: at most
  // CustomIndexType::kMaxTypes. They are given at each open, and nothing of them is stored.
  std::vector<CustomIndexType> custom_indexes;
  // Microseconds since the Unix epoch; a test may simulate time. Null = the system's clock.
  std::function<int64_t()> clock;
};

struct SessionOptions {
  // Reuse only this context; empty = the longest prefix over the tenant's contexts.
  std::string context;
  bool reuse = true;  // False: start from nothing.
  // True: also reuse what was computed after tokens had left (Session::DropOldest), where that is
  // longest; the session has lost them, too: Session::cuts.
  bool truncated = true;
  std::string plan;  // Empty = the DB's.
  // Position of token 0 under RoPE, 0 to 2^40. Contexts are reused at equal positions only.
  int64_t first_position = 0;
};

// What stays when a session loses its oldest tokens: Session::DropOldest.
struct DropOptions {
  // Tokens in front that stay, a system prompt say. They are moved to stand directly before what is
  // kept behind them.
  uint64_t keep_first = 0;
  // Further tokens that stay, moved alike: indices of the session's tokens, ranges in order.
  std::vector<TokenRange> keep;
  // True: where keep_first is 0, the session's first token stays all the same. Its K and V, which
  // saw no other token, are an attention sink: without one the perplexity of SmolLM2 grows by two
  // thirds (docs/truncation.md).
  bool sink = true;
};

struct StoreOptions {
  // Unique among the tenant's contexts; what CheckContextName takes. Empty = unnamed.
  std::string name;
  bool replace = false;  // Takes the name from the context that has it, and drops that context.
  // Drops the context that the session continued from, in the commit that stores, if it is unnamed,
  // not pinned, and the session reused all of it: what it stored before.
  bool drop_base = false;
  // Time to live since the last access; none = for ever. See DB::SetTtl.
  std::optional<std::chrono::seconds> ttl;
  bool pin = false;  // Never evicted, never expired.
  // Kept with the context, and given back by Describe.
  TextLayout text_layout;
  // Title for people, one line: what CheckContextTitle takes (context_title.h). Empty = none.
  std::string title;
  // Bytes of the caller's, at most kMaxNoteBytes, which nothing here reads: DB::Note gives them
  // back. Empty = none. They lie in the catalog, and count towards no quota.
  std::string note;
  static constexpr size_t kMaxNoteBytes = size_t{16} << 20;
  // A context that takes the place of the one that its session went on from (`replace` with that
  // context's name, or drop_base) keeps that context's title and note, each unless a new one is
  // given. All other contexts have the title and the note that they are stored with alone.
};

struct RoomOptions {
  int64_t first_position = 0;  // As SessionOptions'.
  // Tokens after which what was run is stored each time, so that each time makes a segment; 0 =
  // once, in the end.
  uint64_t checkpoint_tokens = 0;
  // Where room lacks: waits for a merge and for builds that are ending, as Store does. False: what
  // they hold counts as taken.
  bool wait = true;
};

struct VerifyOptions {
  std::string context;  // Empty = every segment of the tenant.
  // Called after each segment with bytes done and bytes in all, and before, while the catalog is
  // checked, with none done; false cancels. May be null.
  std::function<bool(uint64_t bytes_done, uint64_t bytes_total)> progress;
};

struct CompactOptions {
  static constexpr uint64_t kMaxSegmentTokens = uint64_t{1} << 31;
  std::string context;  // By name or "#id"; empty = all of the tenant's.
  // Length in tokens that segments should have: shorter neighbours that the same contexts use are
  // merged from the front on, into segments of at most so many tokens. Planes and indexes are built
  // for each segment, and a search asks each of them, so that fewer segments take less time. At
  // most kMaxSegmentTokens. 0: those below 2048 are merged, into segments of any length.
  uint64_t segment_tokens = 0;
  // Called as layers are copied with bytes of K and V copied so far and to be copied in all; false
  // cancels. May be null. It may call what waits for no merge: Store, StoreAsync, Import, Drop,
  // Compact, WaitForBackground and PendingStore::Wait give kFailedPrecondition there.
  std::function<bool(uint64_t bytes_done, uint64_t bytes_total)> progress;
};

struct BuildOptions {
  // Called as work goes on with the bytes of K and V whose index is built so far and of all that
  // lacked one; false ends the wait with kCancelled, and the builds go on while the store is open.
  // May be null.
  std::function<bool(uint64_t bytes_done, uint64_t bytes_total)> progress;
};

struct WaitOptions {
  // Called as work goes on with bytes of K and V whose planes are built so far, and of all that
  // were to be built when it began or came since; false ends the wait with kCancelled. May be null.
  std::function<bool(uint64_t bytes_done, uint64_t bytes_total)> progress;
};

}  // namespace attndb

#endif  // ATTNDB_OPTIONS_H_
