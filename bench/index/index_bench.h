// How fast and how completely do indexes find the keys that score best, on the same heads and in
// the same run as other libraries'?
//
// Method:  each (layer, kv head) is a store of its own with one kv head: all tokens but the last
//          `tail` are imported, with q of the tokens before them to sample from; the background
//          builds what the plans ask for. Queries are q of some of the last tokens, a group of q
//          heads a call. A round takes each query once, plans in turn; times are of
//          Session::Search, medians over all. What is to be found is what topk over K itself finds,
//          or another query: of a range, recall is the share that is found of the softmax mass of
//          its tokens.
// Peers:   a program that is given a folder with the same keys and queries, and prints a line of
//          JSON for each index and setting (index_peers.h).
// Errors:  as DB and Session; kInvalidArgument for heads that the source lacks; kCancelled if
//          `progress` says so.
// Threads: one call at a time; searches are of one thread.
// Units:   us a query = time of a call / q heads of the group.
#ifndef ATTNDB_BENCH_INDEX_INDEX_BENCH_H_
#define ATTNDB_BENCH_INDEX_INDEX_BENCH_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "attndb/db.h"
#include "attndb/result.h"
#include "bench/bench_progress.h"
#include "bench/heads/head_source.h"

namespace attndb::bench {

// A kv head of a source: layer() of its i-th layer.
struct HeadPlace {
  size_t layer_index = 0;
  uint32_t kv_head = 0;
  std::string name;  // "L12H1"
};

struct IndexBenchOptions {
  std::vector<std::string> plans;  // Queries topk with index and effort; empty: a sweep.
  std::string heads;               // "3:0,12:1": layer and kv head; empty: one of each layer.
  uint32_t k = 100;
  std::string find;            // The query, as in "dipr(alpha=0.012)"; empty: topk of k.
  uint64_t prefix_tokens = 0;  // Sessions reuse so many tokens of the context; 0: all.
  uint32_t num_queries = 64;   // Calls in a round.
  uint32_t num_rounds = 5;
  // Most tokens of a segment. At 4096 or fewer, segments are the import's pieces of 4096.
  uint64_t segment_tokens = 65536;
  double query_sample = 0.4;  // Training queries per key ([Alaya] 9.2.1).
  std::string peers;          // Command that runs the peers; empty: none.
  std::string temp_dir;
  BenchProgress progress;  // One phase for each head; may be null.
};

// An index at one setting.
struct IndexResult {
  std::string name;     // "attndb", or a peer's.
  std::string setting;  // A plan, or a peer's parameters.
  std::string ran;      // Plan text of what ran: LayerExplain::ran; of a peer empty.
  double recall = 0;    // Share of what is to be found, mean over queries.
  double us_per_query = 0;
  double visited = -1;       // Share of the keys that a query looked at; -1 = unknown.
  double build_seconds = 0;  // Seconds to build the index; 0 = there is none.
  double index_bytes = -1;   // Bytes of the index for each key; -1 = unknown.
};

struct IndexHeadResult {
  std::string name;
  uint64_t num_keys = 0;      // Keys between sinks and window.
  uint64_t num_segments = 0;  // Segments that hold these keys.
  uint32_t group_size = 0;
  uint32_t head_dim = 0;
  std::vector<IndexResult> results;
  std::vector<std::string> left_out;  // Peers that could not run, with the reason.
};

// The setting of least time among those that reach a recall.
struct BestAt {
  std::string name;
  std::string setting;
  double us_per_query = 0;
};

// The fastest of attndb's results that reach `recall`, or of all others'. Null text and 0 us if
// none reaches it.
BestAt FindBest(const IndexHeadResult& head, double recall, bool ours);

// Heads of "3:0,12:1".
Result<std::vector<HeadPlace>> ParseHeads(const HeadInfo& info, std::string_view text);

Result<std::vector<IndexHeadResult>> RunIndexBench(HeadSource* source,
                                                   const IndexBenchOptions& options);

}  // namespace attndb::bench

#endif  // ATTNDB_BENCH_INDEX_INDEX_BENCH_H_
