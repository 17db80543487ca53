// How graphs are built, as flags of the commands that have them built.
//
// Threads: one thread at a time.
#ifndef ATTNDB_CLI_COMMON_GRAPH_FLAGS_H_
#define ATTNDB_CLI_COMMON_GRAPH_FLAGS_H_

#include <cstdint>

#include "attndb/options.h"
#include "cli/flags.h"

namespace attndb::cli {

class GraphFlags {
 public:
  void AddTo(Flags* flags) {
    flags->Add({"--training-queries", "N",
                "Sampled q that train a graph at most (default: 0.4 a key, up to 32768)"},
               &training_queries_, 1u, UINT32_MAX);
    flags->Add({"--roar-keys", "N_Q", "Keys that a query of roargraph finds (default: 100)"},
               &roar_keys_, 1u, DBOptions::kMaxRoarKeys);
    flags->Add({"--roar-degree", "M", "Neighbours of its projection (default: 35)"}, &roar_degree_,
               1u, DBOptions::kMaxRoarDegree);
    flags->Add({"--roar-window", "L", "Keys that its enhancement keeps (default: 500)"},
               &roar_window_, 1u, DBOptions::kMaxRoarKeys);
  }

  void Apply(DBOptions* options) const {
    options->max_training_queries = training_queries_;
    options->roar_keys_per_query = roar_keys_;
    options->roar_max_degree = roar_degree_;
    options->roar_search_window = roar_window_;
  }

 private:
  uint32_t training_queries_ = 0;  // 0: not given.
  uint32_t roar_keys_ = 0;
  uint32_t roar_degree_ = 0;
  uint32_t roar_window_ = 0;
};

}  // namespace attndb::cli

#endif  // ATTNDB_CLI_COMMON_GRAPH_FLAGS_H_
