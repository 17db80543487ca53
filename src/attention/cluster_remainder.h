// The remainder estimated from clusters of keys (index/cluster_sums.h): the tokens that a search
// left out, those of a cluster by the mean of their keys and the mean of its values.
//
// Weight:  the n tokens of a cluster that a q head does not attend to weigh n x exp(logit of the
//          mean of their scores): no more than they do (Jensen's inequality), where no soft cap
//          bends logits, but for the rounding of means. That mean follows from q times the mean of
//          the cluster's keys, and from the scores of the tokens that are attended to.
// Value:   the mean of all values of the cluster, those that are attended to among them.
// Share:   each q head estimates the clusters that weigh most to it, so many of all; the rest is
//          dropped.
// Hidden:  a cluster of which the call does not see all tokens is not estimated, as its means are
//          of hidden tokens too. Nor are tokens of no cluster.
// Errors:  none.
// Memory:  scratch is the caller's; nothing is allocated.
// Threads: one thread a group.
// Source:  RetroInfer (arXiv:2505.02922), accuracy-bounded attention estimation. Subtracting what
//          is attended to of a cluster, so that any index may select, is ours.
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
  std::span<const HeadRun> runs;  // All tokens, in order.
  GroupQueries q;                 // The group's.
  uint64_t num_tokens = 0;        // Visible.
  kernels::LogitSpec logit;
  double share = 1.0;  // Of the clusters; in (0, 1].
};

struct ClusterScratch {
  size_t num_clusters = 0;     // Room.
  float* scores = nullptr;     // [group][cluster]: of the means of keys.
  uint32_t* counts = nullptr;  // [cluster]: its keys; 0 if some are hidden.
  float* logs = nullptr;       // [cluster]: of its count.
  // What a head does not attend to, by cluster.
  uint32_t* left = nullptr;
  double* sums = nullptr;    // Of scores.
  float* logits = nullptr;   // Of all,
  uint32_t* list = nullptr;  // ... of which these are estimated,
  float* listed = nullptr;   // ... and their logits.
  size_t* firsts = nullptr;  // [run]: the first of its clusters.
  void* select = nullptr;    // Of kernels::SelectTopK.

  static ClusterScratch Take(uint32_t group, size_t num_clusters, size_t num_runs, Arena* arena);
};

// Clusters of all objects that the runs are parts of.
size_t NumClusters(std::span<const HeadRun> runs);

class ClusterRemainder {
 public:
  // Scores the clusters, once for the group. Pointers must outlive it.
  ClusterRemainder(const ClusterRemainderCall& call, const ClusterScratch& scratch, CallCost* cost);

  // For each head: Begin, Take all that it attends to, and Fold, which returns the mass of what was
  // estimated, over exp(the state's max). `best`: the largest score of what it attends to.
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
