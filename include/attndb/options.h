// Options of the calls of DB and Session. Every default is what most callers want.
#ifndef ATTNDB_OPTIONS_H_
#define ATTNDB_OPTIONS_H_

#include <chrono>
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

  bool read_only = false;         // Beside a writer of another process; writes give kReadOnly.
  bool create_if_missing = true;  // Else kNotFound.
  // Plan of sessions that name none (plan text: docs/plan.md).
  std::string plan = "full";
  // Rows of q kept per stored key and kv head as training queries of indexes; 0 = none.
  double query_sample = 0.1;
  // An Attend of more rows than this runs `full`: prefill is exact.
  uint32_t dense_query_tokens = 64;
  // Threads of one Attend call (AttendPart runs on the caller's), at most kMaxThreads; 0 = all
  // cores.
  uint32_t num_threads = 1;
  // Bytes of segment data that the DB and its sessions may hold in memory; 0 = three quarters of
  // what the machine has free at open. kResourceExhausted beyond it.
  uint64_t host_memory_bytes = 0;
  // Planes of new segments are built by a thread of low priority after Store and Import returned,
  // and kept on disk. Else they are built in memory once a plan asks for them, in each process
  // anew, by the same thread.
  bool background_builds = true;
  // Threads that a build takes, all of low priority, at most kMaxThreads; 0 = all cores. Graphs,
  // which take long, are built by all of them.
  uint32_t background_threads = 1;
  // What is built of each segment behind its planes, as plans name it: "pq", "pq,m=4,b=8",
  // "clustered", "graph", "roargraph", "quest", ...; empty = nothing: the first call of a plan that
  // asks for one has it built. A document that is stored piece by piece while a model reads it is
  // so indexed meanwhile. Needs background_builds.
  std::string index;
  // Rounds of k-means by which codebooks of product quantization and wave indexes are made, at most
  // kMaxKmeansIterations; fewer where nothing changes any more. 0 = 10 of wave indexes, as
  // published, and 8 of codebooks: [PQC] Eq. 3 with a twentieth of a prefill's time for all codes
  // of its tokens gives 10 for SmolLM2 at 8,192 tokens on two cores, and recall grows little beyond
  // 6 (docs/plan.md#indexes).
  uint32_t kmeans_iterations = 0;
  static constexpr uint32_t kMaxKmeansIterations = 1000;
  // How RoarGraph (index=roargraph) is built, where it is built from now on; 0 = as published:
  // training queries find N_q = 100 keys each, keys get M = 35 neighbours of the projection and M
  // of the enhancement, whose searches keep L = 500 keys (docs/plan.md#roargraph).
  uint32_t roar_keys_per_query = 0;
  uint32_t roar_max_degree = 0;
  uint32_t roar_search_window = 0;
  static constexpr uint32_t kMaxRoarDegree = 127;
  static constexpr uint32_t kMaxRoarKeys = 65536;  // N_q and L.
  // Sampled rows of q that train a graph at most, evenly spaced. 0: two for five of its keys, as
  // [Alaya] 9.2.1 has it, but no more than 32,768, since the time of a build grows with their
  // number times that of the keys. UINT32_MAX: all that query_sample kept.
  uint32_t max_training_queries = 0;
  // Graphs of merged segments go on from that of the first of these, if it is stored, instead of
  // being built anew: `graph` with the sampled q of the tokens behind it, `roargraph` by
  // RetrievalAttention's rule (Appendix C), which finds far less (docs/plan.md#growth).
  bool grow_graphs = false;
  // The length of segments that an import ends with, at most CompactOptions::kMaxSegmentTokens: it
  // stores pieces of 4096 tokens, and merges them when all is there. A search by clusters or by a
  // graph then takes less than one of each piece. At most 4096: the pieces stay.
  uint64_t import_segment_tokens = 65536;
  // `auto` is priced by what this machine was measured to take, once, in the background, when it
  // first matters (a few hundred milliseconds; never if read_only), and by what calls then take.
  // False: by fixed prices, so that every run decides alike.
  bool measure_machine = true;
  // Types of queries and indexes of the caller's own, which plans name as they do attndb's: at most
  // CustomIndexType::kMaxTypes. They are given at each open, and nothing of them is stored.
  std::vector<CustomIndexType> custom_indexes;
  // Microseconds since the Unix epoch; a test may simulate time. Null = the system's clock.
  std::function<int64_t()> clock;
};

struct SessionOptions {
  // Reuse only this context; empty = the longest prefix over the tenant's contexts.
  std::string context;
  bool reuse = true;  // False: start from nothing.
  std::string plan;   // Empty = the DB's.
  // Position of token 0 under RoPE, 0 to 2^40. Contexts are reused at equal positions only.
  int64_t first_position = 0;
};

struct StoreOptions {
  // Unique among the tenant's contexts; 1 to 128 of [A-Za-z0-9._:/@+-]. Empty = unnamed.
  std::string name;
  bool replace = false;  // Take the name from the context that has it, and drop that context.
  // Drop the context that the session continued from, if it is unnamed, not pinned, and the session
  // reused all of it: what a long import does with its checkpoints.
  bool drop_base = false;
  // Time to live since the last access; none = for ever.
  std::optional<std::chrono::seconds> ttl;
  bool pin = false;  // Never evicted, never expired.
};

struct VerifyOptions {
  std::string context;  // Empty = every segment of the tenant.
  // Called after each segment with bytes done and bytes in all; false cancels. May be null.
  std::function<bool(uint64_t bytes_done, uint64_t bytes_total)> progress;
};

struct CompactOptions {
  static constexpr uint64_t kMaxSegmentTokens = uint64_t{1} << 31;
  std::string context;  // By name or "#id"; empty = all of the tenant's.
  // The length that segments should have: neighbours that are shorter, and that the same contexts
  // use, are merged from the front on, into segments of at most so many tokens. Planes and indexes
  // are built for each segment, and a search asks each of them. At most kMaxSegmentTokens. 0: those
  // below 2048 are merged, into segments of any length.
  uint64_t segment_tokens = 0;
  // Called as layers are copied with bytes of K and V copied, and of all that are to be; false
  // cancels. Stores wait meanwhile: it must not call the DB. May be null.
  std::function<bool(uint64_t bytes_done, uint64_t bytes_total)> progress;
};

struct BuildOptions {
  // Called as work goes on with bytes of K and V whose index is built, and of all that lack one;
  // false waits no longer: what was asked for stays asked for, and is built while the store is
  // open. May be null.
  std::function<bool(uint64_t bytes_done, uint64_t bytes_total)> progress;
};

struct WaitOptions {
  // Called as work goes on with bytes of K and V whose planes are built, and of all that were to be
  // built when it began or came since; false waits no longer. May be null.
  std::function<bool(uint64_t bytes_done, uint64_t bytes_total)> progress;
};

}  // namespace attndb

#endif  // ATTNDB_OPTIONS_H_
