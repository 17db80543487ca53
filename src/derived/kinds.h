// The list of all kinds of derived objects. A new kind is a folder in index, a pair of files here,
// and one line in BuiltinKinds.
//
// Threads: constant after the last Add.
#ifndef ATTNDB_DERIVED_KINDS_H_
#define ATTNDB_DERIVED_KINDS_H_

#include <bitset>
#include <cstddef>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "derived/kind.h"

namespace attndb::derived {

// The names of kinds in sessions. Plans name kinds that find keys (planner/plan_registry.h:
// finds_by).
inline constexpr std::string_view kKeyPlanes = "key_planes";
inline constexpr std::string_view kValuePlanes = "value_planes";
inline constexpr std::string_view kValueMeans = "value_means";
inline constexpr std::string_view kStaticPrefill = "static_prefill";
inline constexpr std::string_view kClusters = "clusters";
inline constexpr std::string_view kGraph = "graph";
inline constexpr std::string_view kRoarGraph = "roargraph";
// A setting follows these names, as in "pq_8x8". Names of graphs have a setting only if there is
// one graph per q head, as in "graph_head".
inline constexpr std::string_view kPq = "pq";
inline constexpr std::string_view kQuest = "quest";
inline constexpr std::string_view kInfLlm = "infllm";
inline constexpr std::string_view kWave = "wave";

class Kinds {
 public:
  static constexpr size_t kMost = 128;  // KindSet has a bit for each.

  // Adds a kind. REQUIRES: neither its use nor the name of its objects is taken; there are fewer
  // than kMost.
  void Add(std::unique_ptr<const Kind> kind);

  size_t size() const { return kinds_.size(); }
  std::span<const std::unique_ptr<const Kind>> all() const { return kinds_; }
  // The kind's index in all(). REQUIRES: it is in the list.
  size_t NumberOf(const Kind& kind) const;
  // The kind with that use. REQUIRES: it exists.
  const Kind& ForUse(std::string_view use) const;
  // The kind whose objects have that name; null if this version reads no such kind.
  const Kind* FindObject(std::string_view object) const;

 private:
  std::vector<std::unique_ptr<const Kind>> kinds_;
};

// A set of kinds: bit i stands for number i.
using KindSet = std::bitset<Kinds::kMost>;

// Options of building kinds; 0 = the index decides. Objects that were built with other options are
// still read.
struct KindOptions {
  size_t kmeans_iterations = 0;  // Rounds of k-means, for codebooks and for clusters of directions.
  // RoarGraph's N_q, M and L: index/graph/graph_source.h.
  size_t roar_keys_per_query = 0;
  size_t roar_max_degree = 0;
  size_t roar_search_window = 0;
  size_t max_training_queries = 0;  // For graphs: index/graph/graph_source.h.
};

// The kinds of this version.
Kinds BuiltinKinds(const KindOptions& options = {});

}  // namespace attndb::derived

#endif  // ATTNDB_DERIVED_KINDS_H_
