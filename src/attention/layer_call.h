// What one Attend asks for: the newest tokens' attention in one layer, under a plan.
//
// Threads: a value; views and spans must outlive the call.
#ifndef ATTNDB_ATTENTION_LAYER_CALL_H_
#define ATTNDB_ATTENTION_LAYER_CALL_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "attndb/stats.h"
#include "attndb/tensor_view.h"
#include "attndb/types.h"
#include "index/cluster_sums.h"
#include "index/critical_search.h"
#include "index/key_estimates.h"
#include "index/key_index.h"
#include "index/token_ranking.h"
#include "kernels/value_planes.h"
#include "planner/plan.h"
#include "storage/kv/row_source.h"

namespace attndb::attention {

// Consecutive tokens of a chain that a call sees: rows [first, first + num_tokens) of a run of its
// source.
struct RunPart {
  uint32_t run = 0;
  uint64_t first = 0;
  uint64_t num_tokens = 0;
};

struct LayerCall {
  LayerSpec spec;  // scale and rope_dims resolved.
  DType kv_dtype = DType::kFloat16;
  planner::LayerPlan plan;
  const index::CriticalSearch* search = nullptr;  // Of the plan; null if it has none.
  index::SearchSpec find;                         // What the plan's index finds, if it finds.
  std::span<const planner::DrawBudget> draws;     // [num_kv_heads]: of a plan that draws.
  // Where K and V of the chain's runs are read, and the parts of them that are seen: together they
  // are tokens [0, num_tokens).
  const storage::RowSource* rows = nullptr;
  std::span<const RunPart> parts;
  // [kv head][part]: what estimates the scores of the keys of the part's run, at least as far as
  // the part goes; null where nothing does. Empty: nowhere.
  std::span<const index::KeyEstimates* const> estimates;
  // As estimates: what finds the run's keys, of the plan's index.
  std::span<const index::KeyIndex* const> indexes;
  // As estimates: what stands for values that weigh little, and for those that are not looked at.
  std::span<const kernels::ValuePlanesView* const> values;
  std::span<const kernels::ValueMeansView* const> means;
  // As estimates: the clusters by which tokens that the plan's index left out are estimated.
  std::span<const index::ClusterSums* const> sums;
  // As estimates: what tells the plan's static tokens.
  std::span<const index::TokenRanking* const> rankings;
  // [num_kv_heads]: not 0 where `full` runs: K or V has NaN or Inf, or the plan says so.
  std::span<const uint8_t> non_finite;
  std::string_view full_reason;  // Not empty: why all heads run `full`.
  uint64_t num_tokens = 0;
  uint64_t num_stored = 0;  // Of these, the first that are not the session's tail.
  TensorView q;
  MutableTensorView out;
  float* lse = nullptr;  // [q.rows(), num_q_heads] or null. Denominators included.
  // [num_q_heads]: takes what the plan selects for the one row, and nothing is attended to but by
  // heads that run `full`. Null: attention. REQUIRES: the plan searches.
  CriticalTokens* found = nullptr;
  uint32_t num_parts = 1;
  uint32_t dense_query_tokens = 64;
};

inline planner::CallSize SizeOf(const LayerCall& call) {
  return {static_cast<uint64_t>(call.q.rows()), call.num_tokens, call.num_stored,
          call.dense_query_tokens};
}

// Why a call runs something else than its plan; empty if it runs the plan.
inline std::string_view ReasonForFull(const LayerCall& call) {
  if (!call.full_reason.empty()) return call.full_reason;
  return call.plan.ReasonForFull(call.spec, SizeOf(call));
}

}  // namespace attndb::attention

#endif  // ATTNDB_ATTENTION_LAYER_CALL_H_
