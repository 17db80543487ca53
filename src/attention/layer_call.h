// The arguments of one Attend: attention of the newest tokens in one layer, under a plan.
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
#include "common/turn.h"
#include "index/cluster_sums.h"
#include "index/critical_search.h"
#include "index/key_estimates.h"
#include "index/key_index.h"
#include "index/token_ranking.h"
#include "kernels/value_planes.h"
#include "planner/plan.h"
#include "storage/kv/row_source.h"

namespace attndb::attention {

// Consecutive tokens of a chain that a call sees: rows [first, first + num_tokens) of one run of
// its source.
struct RunPart {
  uint32_t run = 0;
  uint64_t first = 0;
  uint64_t num_tokens = 0;
  // Not 0: the tokens stand elsewhere than their keys say; q is turned by turns[turn - 1] for them.
  // REQUIRES: then nothing derived is given for the part: its rows are read.
  uint32_t turn = 0;
};

struct LayerCall {
  LayerSpec spec;  // scale and rope_dims resolved.
  DType kv_dtype = DType::kFloat16;
  planner::LayerPlan plan;
  const index::CriticalSearch* search = nullptr;  // The plan's search; null if it has none.
  index::SearchSpec find;                         // The task of the plan's index, if it finds keys.
  std::span<const planner::DrawBudget> draws;     // [num_kv_heads], for a plan that draws.
  // The source of K and V of the chain's runs, and the parts of the runs that the call sees:
  // together tokens [0, num_tokens).
  const storage::RowSource* rows = nullptr;
  std::span<const RunPart> parts;
  std::span<const Turn> turns;
  // [kv head][part]: estimates of the scores of the keys of the part's run, which cover the part at
  // least; null where there are none. Empty: there are none at all.
  std::span<const index::KeyEstimates* const> estimates;
  // Like `estimates`: the run's index, of the kind that the plan's index is.
  std::span<const index::KeyIndex* const> indexes;
  // Like `estimates`: codes of values for light tokens, and means of values for tokens that are not
  // read.
  std::span<const kernels::ValuePlanesView* const> values;
  std::span<const kernels::ValueMeansView* const> means;
  // Like `estimates`: clusters from which tokens that the plan's index left out are estimated.
  std::span<const index::ClusterSums* const> sums;
  // Like `estimates`: rankings that tell the plan's static tokens.
  std::span<const index::TokenRanking* const> rankings;
  // [num_kv_heads]: not 0 where `full` runs, because K or V has NaN or Inf or the plan says so.
  std::span<const uint8_t> non_finite;
  std::string_view full_reason;  // Not empty: why all heads run `full`.
  uint64_t num_tokens = 0;
  // How many of the first tokens are stored; the others are the session's tail.
  uint64_t num_stored = 0;
  TensorView q;
  // How rows of q are turned to the positions that the keys are of; null: not at all.
  const Turn* shift = nullptr;
  MutableTensorView out;
  float* lse = nullptr;  // [q.rows(), num_q_heads] or null; includes denominator logits.
  // [num_q_heads]: takes the tokens that the plan selects for the one row; only heads that run
  // `full` are attended to. Null: attention. REQUIRES: the plan searches.
  CriticalTokens* found = nullptr;
  uint32_t num_parts = 1;
  uint32_t dense_query_tokens = 64;
};

inline planner::CallSize SizeOf(const LayerCall& call) {
  return {static_cast<uint64_t>(call.q.rows()), call.num_tokens, call.num_stored,
          call.dense_query_tokens};
}

// Why a call runs something other than its plan; empty if it runs its plan.
inline std::string_view ReasonForFull(const LayerCall& call) {
  if (!call.full_reason.empty()) return call.full_reason;
  return call.plan.ReasonForFull(call.spec, SizeOf(call));
}

}  // namespace attndb::attention

#endif  // ATTNDB_ATTENTION_LAYER_CALL_H_
