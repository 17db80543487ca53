// Options of the calls of DB and Session. The defaults suit most callers.
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

  // The store opens beside a writer of another process. Calls that write return kReadOnly.
  bool read_only = false;
  bool create_if_missing = true;  // False: Open returns kNotFound if no store exists.
  // The plan of sessions that name none (plan text: docs/plan.md).
  std::string plan = "full";
  // Rows of q that are kept per stored key and kv head as training queries of indexes; 0 = none.
  double query_sample = 0.1;
  // An Attend with more rows than this runs `full`: prefill is exact.
  uint32_t dense_query_tokens = 64;
  // Threads of one Attend call, at most kMaxThreads; 0 = all cores that the process may use.
  // AttendPart runs on the caller's threads instead. The last bits of a result depend on this
  // number under plans that search; under `full` they do not.
  uint32_t num_threads = 0;
  // Bytes that the DB and its sessions may hold in memory: K and V, sampled q, derived objects, and
  // scratch. Beyond the limit calls return kResourceExhausted; sampled q that finds no room is left
  // out. 0 = three quarters of the memory that is free at open, of the machine and of the process's
  // control groups (containers).
  uint64_t host_memory_bytes = 0;
  // True: after Store and Import have returned, a thread of low priority builds the planes of new
  //       segments and keeps them on disk. Another one merges the small segments that Stores leave.
  //       False: each process builds planes in memory once a plan asks for them, on the same
  //       thread, and Store merges before it returns.
  bool background_builds = true;
  // Threads of one build, all of low priority, at most kMaxThreads; 0 = all cores. More than one
  // help mostly with graphs, which take long.
  uint32_t background_threads = 1;
  // The index that is built for each segment after its planes, named as in plans: "pq",
  // "pq,m=4,b=8", "clustered", "graph", "roargraph", "quest", ... Empty = none: the first call of a
  // plan that names an index starts the build. With this option, a document that is stored piece by
  // piece while a model reads it is indexed meanwhile. Needs background_builds.
  std::string index;
  // Rounds of k-means for the codebooks of product quantization and for wave indexes, at most
  // kMaxKmeansIterations. A build stops earlier if nothing changes any more. 0 = 10 for wave
  // indexes, as published, and 8 for codebooks. Reason for 8: [PQC] Eq. 3, with a twentieth of a
  // prefill's time for all codes of its tokens, gives 10 for SmolLM2 at 8,192 tokens on two cores;
  // recall grows little beyond 6 (docs/plan.md#indexes).
  uint32_t kmeans_iterations = 0;
  static constexpr uint32_t kMaxKmeansIterations = 1000;
  // Parameters of RoarGraph builds (index=roargraph) from now on; 0 = as published. Training
  // queries find N_q = 100 keys each. Keys get M = 35 neighbours from the projection and M from the
  // enhancement, whose searches keep L = 500 keys (docs/plan.md#roargraph).
  uint32_t roar_keys_per_query = 0;
  uint32_t roar_max_degree = 0;
  uint32_t roar_search_window = 0;
  static constexpr uint32_t kMaxRoarDegree = 127;
  static constexpr uint32_t kMaxRoarKeys = 65536;  // Limit of N_q and L.
  // Limit on the sampled rows of q that train one graph; the rows are spaced evenly. 0: two rows
  // per five keys, as in [Alaya] 9.2.1, but at most 32,768, because the build time grows with the
  // number of rows times the number of keys. UINT32_MAX: all rows that query_sample kept.
  uint32_t max_training_queries = 0;
  // True: a merged segment's graph grows from the stored graph of the first segment that it
  // replaces, instead of being built anew. `graph` grows with the sampled q of the later tokens.
  // `roargraph` grows by RetrievalAttention's rule (Appendix C), which finds far less
  // (docs/plan.md#growth).
  bool grow_graphs = false;
  // Length in tokens of the segments that an import leaves, at most
  // CompactOptions::kMaxSegmentTokens. An import stores pieces of 4096 tokens and merges them at
  // its end: one index search of a long segment takes less time than a search of each piece. At
  // most 4096: the pieces stay.
  uint64_t import_segment_tokens = 65536;
  // True: `auto` prices plans by times measured on this machine, and then by the times of calls.
  //       The measurement runs once, in the background, when it first matters (a few hundred
  //       milliseconds; never if read_only). False: `auto` uses fixed prices, so that every run
  //       decides alike.
  bool measure_machine = true;
  // The caller's own types of queries and indexes, at most CustomIndexType::kMaxTypes. Plans name
  // them like attndb's own. Pass them at each open: the store keeps nothing of them.
  std::vector<CustomIndexType> custom_indexes;
  // Returns microseconds since the Unix epoch; a test may simulate time. Null = the system's clock.
  std::function<int64_t()> clock;
};

struct SessionOptions {
  // Reuse only this context; empty = the longest prefix over the tenant's contexts.
  std::string context;
  bool reuse = true;  // False: start from nothing.
  // True: also reuse tokens that were computed after a DropOldest, if that prefix is the longest.
  //       The new session then has the same cuts: Session::cuts.
  bool truncated = true;
  std::string plan;  // Empty = the DB's.
  // Position of token 0 under RoPE, 0 to 2^40. Contexts are reused at equal positions only.
  int64_t first_position = 0;
};

// The tokens that stay when a session drops its oldest tokens: Session::DropOldest.
struct DropOptions {
  // Number of first tokens that stay, for example a system prompt. They move to stand directly
  // before the tokens that are kept behind them.
  uint64_t keep_first = 0;
  // Further tokens that stay and move in the same way: indices of the session's tokens, ranges in
  // order.
  std::vector<TokenRange> keep;
  // True: if keep_first is 0, the session's first token stays nevertheless. Its K and V saw no
  //       other token and are an attention sink: without a sink the perplexity of SmolLM2 grows by
  //       two thirds (docs/truncation.md).
  bool sink = true;
};

struct StoreOptions {
  // Unique among the tenant's contexts; CheckContextName says which names are valid. Empty =
  // unnamed.
  std::string name;
  bool replace = false;  // Takes the name from the context that has it, and drops that context.
  // Drops the context that the session continued from, in the commit that stores. Only if that
  // context is unnamed and not pinned, and the session reused all of it.
  bool drop_base = false;
  // Time to live since the last access; none = for ever. See DB::SetTtl.
  std::optional<std::chrono::seconds> ttl;
  bool pin = false;  // Never evicted, never expired.
  // The context keeps the layout, and Describe returns it.
  TextLayout text_layout;
  // Title for people, one line; CheckContextTitle (context_title.h) says which are valid. Empty =
  // none.
  std::string title;
  // The caller's own bytes, at most kMaxNoteBytes. attndb does not read them; DB::Note returns
  // them. Empty = none. Notes lie in the catalog and count towards the quota.
  std::string note;
  static constexpr size_t kMaxNoteBytes = size_t{16} << 20;
  // A context may replace the context that its session continued: by `replace` with that context's
  // name, or by drop_base. It then keeps that context's title and note, unless a new one is given.
  // All other contexts have only the title and note that they are stored with.
};

struct RoomOptions {
  int64_t first_position = 0;  // See SessionOptions.
  // The engine stores after each this many run tokens, which makes a segment each time; 0 = once,
  // at the end.
  uint64_t checkpoint_tokens = 0;
  // If room is short: true waits for a merge and for builds that are ending, as Store does. False
  // counts the bytes that they hold as taken.
  bool wait = true;
};

struct VerifyOptions {
  std::string context;  // Empty = every segment of the tenant.
  // Called after each segment with the bytes done and the bytes in all. While the catalog is
  // checked, before the segments, bytes_done is 0. False cancels. May be null.
  std::function<bool(uint64_t bytes_done, uint64_t bytes_total)> progress;
};

struct CompactOptions {
  static constexpr uint64_t kMaxSegmentTokens = uint64_t{1} << 31;
  std::string context;  // By name or "#id"; empty = all of the tenant's.
  // Wanted length of segments in tokens, at most kMaxSegmentTokens. Shorter neighbours that the
  // same contexts use are merged from the front on, into segments of at most this length. Each
  // segment has planes and indexes of its own, and a search visits each of them, so fewer segments
  // take less time. 0: segments below 2048 tokens are merged, into segments of any length.
  uint64_t segment_tokens = 0;
  // Called while layers are copied, with the bytes of K and V copied so far and in all; false
  // cancels. May be null. The callback must not make calls that wait for a merge: Store,
  // StoreAsync, Import, Drop, Compact, WaitForBackground and PendingStore::Wait return
  // kFailedPrecondition there.
  std::function<bool(uint64_t bytes_done, uint64_t bytes_total)> progress;
};

struct BuildOptions {
  // Called as work proceeds, with the bytes of K and V whose index is built so far, and of all that
  // lacked an index. False ends the wait with kCancelled, and the builds continue while the store
  // is open. May be null.
  std::function<bool(uint64_t bytes_done, uint64_t bytes_total)> progress;
};

struct WaitOptions {
  // Called as work proceeds, with the bytes of K and V whose planes are built so far, and of all
  // planes to build, also those that were added since the start. False ends the wait with
  // kCancelled. May be null.
  std::function<bool(uint64_t bytes_done, uint64_t bytes_total)> progress;
};

}  // namespace attndb

#endif  // ATTNDB_OPTIONS_H_
