// Estimates the remainder, the tokens that a search left out, from clusters of keys
// (index/cluster_sums.h): the tokens of a cluster by the mean of their keys and the mean of its
// values.
//
// Weight:  a q head does not attend to n tokens of a cluster. They count as n x exp(logit of the
//          mean of their scores). This is at most their true weight (Jensen's inequality) if no
//          soft cap bends logits, up to the rounding of means. The mean follows from q times the
//          mean of the cluster's keys, and from the scores of the attended tokens.
// Value:   the mean of all values of the cluster, including those of attended tokens.
// Share:   each q head estimates a share of all clusters, the heaviest for it; the other clusters
//          are dropped.
// Hidden:  a cluster with hidden tokens is not estimated, because its means include these tokens.
//          Tokens outside of clusters are not estimated either.
// Errors:  none.
// Memory:  scratch is the caller's; nothing is allocated.
// Threads: one thread per group.
// Source:  RetroInfer (arXiv:2505.02922), accuracy-bounded attention estimation. Subtracting the
//          attended tokens of a cluster, so that any index may select, is ours.
#ifndef ATTNDB_ATTENTION_CLUSTER_REMAINDER_H_
#define ATTNDB_ATTENTION_CLUSTER_REMAINDER_H_

#include <cstddef>
#include <cstdint>
#include <span>

#include "attention/arena.h"
#include "attention/call_cost.h"
#include "attention/listed_tokens.h"
#include "kernels/attention_state.h"

namespace attndb::attention {

struct ClusterRemainderCall {
  std::span<const HeadRun> runs;  // Runs with all tokens, in order.
  GroupQueries q;                 // Queries of the group.
  uint64_t num_tokens = 0;        // Visible tokens.
  kernels::LogitSpec logit;
  double share = 1.0;  // Share of the clusters that is estimated; in (0, 1].
};

struct ClusterScratch {
  size_t num_clusters = 0;     // Clusters that there is room for.
  float* scores = nullptr;     // [group][cluster]: scores of the mean keys.
  uint32_t* counts = nullptr;  // [cluster]: number of its keys; 0 if some are hidden.
  float* logs = nullptr;       // [cluster]: log of its count.
  // [cluster]: tokens that the head under way does not attend to.
  uint32_t* left = nullptr;
  double* sums = nullptr;    // [cluster]: sum of the scores of these.
  float* logits = nullptr;   // [cluster]: logit of its estimate.
  uint32_t* list = nullptr;  // Clusters that are estimated.
  float* listed = nullptr;   // Their logits.
  size_t* firsts = nullptr;  // [run]: number of its first cluster.
  void* select = nullptr;    // Scratch of kernels::SelectTopK.

  static ClusterScratch Take(uint32_t group, size_t num_clusters, size_t num_runs, Arena* arena);
};

// Number of clusters of all objects that the runs are parts of.
size_t NumClusters(std::span<const HeadRun> runs);

class ClusterRemainder {
 public:
  // Scores the clusters once for the group. All pointers must outlive it.
  ClusterRemainder(const ClusterRemainderCall& call, const ClusterScratch& scratch, CallCost* cost);

  // For each head: call Begin, then Take for all tokens that the head attends to, then Fold. Fold
  // returns the estimated mass, in units of exp(the state's max). `best`: the largest score of the
  // attended tokens.
  void Begin(uint32_t head);
  void Take(const SelectedTokens& attended);
  double Fold(float best, const kernels::StateRows& state);

 private:
  template <typename F>
  void ForEachObject(const F& f) const;
  void CountWhole(std::span<const HeadRun> parts, uint32_t* counts) const;
  void FindLogits(float best);
  size_t ListEstimated();

  const ClusterRemainderCall& call_;
  const ClusterScratch& scratch_;
  CallCost* const cost_;
  size_t num_clusters_ = 0;
};

}  // namespace attndb::attention

#endif  // ATTNDB_ATTENTION_CLUSTER_REMAINDER_H_
