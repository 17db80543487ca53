// Other libraries' indexes in the same run: a program that is given the heads as files, and says
// what it measured.
//
// Files:   in a folder, for each head: NAME.keys.npy [n, d], NAME.train.npy [m, d], NAME.test.npy
//          [t * group, d] (rows of a group together), float32, NAME.truth.npy [t * group, k] int32,
//          the best keys; and heads.json: {"heads": [{name, label, n, d, group_size, ...}]}.
// Answers: lines on stdout, each a JSON object. A measurement has head, peer (texts), recall,
//          us_per_query, build and search (its parameters), and may have visited, build_s and
//          index_bytes; one with left_out and peer says what could not run, and why. Others, and
//          lines that do not begin with '{', are passed over.
// Errors:  kInvalidArgument (a line that is none of these), kIoError, kInternal (the program
//          failed).
// Threads: one thread at a time.
#ifndef ATTNDB_BENCH_INDEX_INDEX_PEERS_H_
#define ATTNDB_BENCH_INDEX_INDEX_PEERS_H_

#include <string>
#include <string_view>
#include <vector>

#include "attndb/result.h"
#include "bench/index/index_bench.h"
#include "bench/index/index_head.h"

namespace attndb::bench {

// Tokens that score best, by query and q head.
using Truth = std::vector<std::vector<std::vector<uint32_t>>>;

// Writes the files of one head. `sample`: training queries per key.
Status WriteHeadFiles(const std::string& dir, const IndexHead& head, const Truth& truth,
                      double sample);
Status WriteHeadList(const std::string& dir, const std::vector<IndexHeadResult>& heads,
                     std::string_view origin);

// Adds what a line of the program says.
Status AddPeerLine(std::string_view line, std::vector<IndexHeadResult>* heads);

// Runs `command DIR` and adds all that it says.
Status RunPeers(const std::string& command, const std::string& dir,
                std::vector<IndexHeadResult>* heads);

}  // namespace attndb::bench

#endif  // ATTNDB_BENCH_INDEX_INDEX_PEERS_H_
