// One Attend: the attention of the newest tokens of one layer, cut into items that any number of
// threads take until none is left.
//
//   attention.Begin(call);                      // one thread
//   attention.RunPart(part);                    // each of num_parts threads, in any order
//   attention.cost();                           // after all of them
//
// Full:   K and V as stored, float32 arithmetic, blocked for many q rows, group-shared for few.
// Sparse: scores of all keys for the whole group in one pass, estimates where the plan asks for
//         bits and the run has key planes. Each q head then chooses its critical tokens over the
//         whole middle (candidates by estimates are scored exactly first), and attends to sinks,
//         these and the window with the scores that it has. What it left out is dropped, or
//         estimated from a sample.
// Bits:   equal for equal call, chain of runs, ISA and num_parts, whatever thread does what.
// Memory: scratch grows to the largest call and is kept.
// Source: partial attention and its merge, RetrievalAttention App. B; DIPR, AlayaDB 6.1; sampled
//         remainder, query/attention/remainder.h.
#ifndef ATTNDB_QUERY_ATTENTION_LAYER_ATTENTION_H_
#define ATTNDB_QUERY_ATTENTION_LAYER_ATTENTION_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "attndb/tensor_view.h"
#include "attndb/types.h"
#include "index/critical_search.h"
#include "index/key_estimates.h"
#include "kernels/attention_state.h"
#include "kernels/layout.h"
#include "query/attention/arena.h"
#include "query/attention/remainder.h"
#include "query/attention/work_plan.h"
#include "query/plan/plan.h"
#include "storage/kv/kv_rows.h"

namespace attndb::query {

// Everything that one call needs. Views and spans must outlive the call.
struct LayerCall {
  LayerSpec spec;  // scale and rope_dims resolved.
  DType kv_dtype = DType::kFloat16;
  LayerPlan plan;
  const index::CriticalSearch* search = nullptr;  // Of the plan; null if it chooses no tokens.
  // runs[h * num_runs + i]: run i of kv head h. Runs of one index have equal lengths for all heads;
  // together they are tokens [0, num_tokens).
  std::span<const storage::KvRows> runs;
  size_t num_runs = 0;
  // As runs: what estimates the scores of a run's keys, of at least as many tokens; null where
  // nothing does. Empty: nowhere.
  std::span<const index::KeyEstimates* const> estimates;
  std::span<const uint8_t> non_finite;  // [num_kv_heads]: not 0 where K or V has NaN or Inf.
  uint64_t num_tokens = 0;
  TensorView q;
  MutableTensorView out;
  float* lse = nullptr;  // [q.rows(), num_q_heads] or null.
  uint32_t num_parts = 1;
  uint32_t dense_query_tokens = 64;
};

// What a call cost, summed over its parts.
struct CallCost {
  uint64_t num_selected = 0;    // Critical tokens, summed over rows and q heads.
  uint64_t num_queries = 0;     // Rows times q heads that chose.
  uint64_t num_candidates = 0;  // Of estimates: scored exactly.
  uint64_t bytes_touched = 0;
  int64_t score_ns = 0;
  int64_t select_ns = 0;
  int64_t attend_ns = 0;

  void Add(const CallCost& other);
};

// Why a call runs something else than its plan; empty if it runs the plan.
std::string_view ReasonForFull(const LayerCall& call);

// K and V bytes that a call of one row reads if it selects `selected` tokens per q head.
uint64_t PredictBytes(const LayerCall& call, double selected);

class LayerAttention {
 public:
  // Plans the work of `call` and makes room for it.
  // Errors: kResourceExhausted (scratch). REQUIRES: views checked; no part of another call running.
  Status Begin(const LayerCall& call);

  // Works until no item is left. REQUIRES: part < num_parts; each part once.
  void RunPart(uint32_t part);

  CallCost cost() const;
  uint64_t scratch_bytes() const;

 private:
  struct Part {
    Arena arena;
    float* q = nullptr;         // [rows of a unit * group][head_dim padded]
    float* spare = nullptr;     // As q.
    kernels::StateRows states;  // [rows of a unit * group]
    void* block = nullptr;      // Of AttendBlock.
    uint32_t* lo = nullptr;     // [rows of a unit * group]
    uint32_t* hi = nullptr;
    float* scores = nullptr;         // [group][num_tokens], sparse with one range only.
    float* chosen_scores = nullptr;  // [num_tokens]
    uint32_t* indices = nullptr;     // [num_tokens + slack]
    void* select = nullptr;
    int8_t* codes = nullptr;                 // Of the group's quantized q rows.
    kernels::PlaneQuery* queries = nullptr;  // [group]
    float* drawn = nullptr;                  // Scores by which the remainder's sample was drawn.
    float* weights = nullptr;                // Of a block of the remainder,
    float* sums = nullptr;                   // ... and of all its blocks.
    kernels::StateRows halves;               // [3]: of a sample of the remainder, and scratch.
    CallCost cost;
  };

  // Tokens, ascending, and their scores.
  struct Listed {
    uint32_t* indices;
    const float* scores;
    size_t count;
  };

  bool IsDense(uint32_t kv_head) const;
  size_t PartBytes() const;
  Status MakeRoom();
  void TakeFromArenas();
  kernels::StateRows TakeStates(Arena* arena, size_t num_rows) const;

  // The states of a range of a unit, and the scores of a unit: shared by all parts when a unit has
  // several ranges, else the part's own.
  kernels::StateRows StatesOf(const WorkItem& item, Part* part) const;
  float* ScoresOf(const WorkItem& item, Part* part) const;

  void RunItem(const WorkItem& item, Part* part);
  void LoadQueries(const WorkUnit& unit, Part* part) const;
  void AttendRange(const WorkItem& item, Part* part);
  // Dense attention over `range` of the tokens that row r sees: [VisibleBegin(r), VisibleEnd(r)).
  void AttendTokens(const WorkUnit& unit, TokenRange range, const kernels::StateRows& states,
                    Part* part);
  void AttendRun(const WorkUnit& unit, size_t run, TokenRange tokens, TokenRange range,
                 const kernels::StateRows& states, Part* part);
  void ScoreRange(const WorkItem& item, Part* part);
  void ScoreExactly(const WorkUnit& unit, size_t run, TokenRange tokens, float* scores, Part* part);
  void Estimate(const WorkUnit& unit, size_t run, TokenRange tokens, float* scores, Part* part);
  void FinishDense(const WorkItem& item, Part* part);
  void FinishSparse(const WorkItem& item, Part* part);
  // Takes q heads of a unit whose scores are complete, until none is left.
  void FinishHeads(uint32_t unit_idx, Part* part);
  void FinishHead(uint32_t unit_idx, uint32_t group_head, Part* part);
  size_t Choose(const WorkUnit& unit, uint32_t group_head, float* scores, Part* part);
  size_t ChooseCritical(const WorkUnit& unit, uint32_t group_head, float* scores, uint32_t* indices,
                        Part* part);
  index::SearchCall DescribeSearch(const WorkUnit& unit, const float* q, const float* scores) const;
  void ScoreCandidates(const WorkUnit& unit, const float* q, uint32_t* indices, size_t count,
                       float* scores, Part* part);
  void WeighSample(const WorkUnit& unit, const float* q, size_t num_drawn, float* scores,
                   Part* part);
  void AttendWholeRemainder(const WorkUnit& unit, uint32_t group_head, float* scores,
                            const kernels::StateRows& state, Part* part);
  void AttendSample(const WorkUnit& unit, uint32_t group_head, const RemainderCall& call,
                    const RemainderDraw& draw, float* scores, Part* part);
  double SampleError(const kernels::StateRows& state, const kernels::StateRows& halves,
                     const kernels::StateRows& all) const;
  void AttendRemainder(const WorkUnit& unit, uint32_t group_head, size_t num_chosen, float* scores,
                       const kernels::StateRows& state, Part* part);
  void AttendListed(const WorkUnit& unit, const Listed& tokens, const kernels::LogitSpec& logit,
                    const kernels::StateRows& state, Part* part);
  void WriteOutput(const WorkUnit& unit, const kernels::StateRows& states, Part* part);
  void WriteHead(const WorkUnit& unit, uint32_t group_head, const kernels::StateRows& state,
                 Part* part);

  // Bytes from one quantized q row to the next.
  size_t CodeStride() const { return (k_padded_ + 63) / 64 * 64; }
  uint64_t TokenOfRow(uint64_t row) const { return first_row_token_ + row; }
  TokenRange Visible(uint64_t row) const;
  TokenRange Middle(uint64_t row) const;
  // Null unless the plan asks for estimates and the run has some.
  const index::KeyEstimates* Estimates(uint32_t kv_head, size_t run) const;
  kernels::RowsView Keys(uint32_t kv_head, size_t run, uint64_t first_token) const;
  kernels::RowsView Values(uint32_t kv_head, size_t run, uint64_t first_token) const;

  LayerCall call_;
  WorkPlan work_;
  bool sparse_ = false;   // Rows leave tokens out (but for heads with NaN or Inf).
  bool chooses_ = false;  // ... and search for those that they keep.
  uint64_t first_row_token_ = 0;
  size_t k_padded_ = 0;
  size_t v_padded_ = 0;
  size_t rows_max_ = 0;              // q rows of a unit,
  size_t range_rows_ = 0;            // ... rounded up to lines of the cache, where ranges share it.
  std::vector<uint64_t> run_begin_;  // First token of each run, and num_tokens.

  std::vector<Part> parts_;
  Arena shared_;
  kernels::StateRows shared_states_;  // [unit][range][range_rows_]
  float* shared_scores_ = nullptr;    // [unit][group][num_tokens]

  // Items are handed out in order. remaining_[unit] counts its unfinished ranges: the release of
  // each decrement pairs with the acquire of the last, which reads the other ranges' results.
  std::atomic<size_t> next_item_ = 0;
  std::unique_ptr<std::atomic<uint32_t>[]> remaining_;
  // next_head_[unit]: the q head of the group that is to be finished next, once all its scores are
  // there; group_size or more before that, and when none is left. Its release pairs with the
  // acquire of whoever takes a head.
  std::unique_ptr<std::atomic<uint32_t>[]> next_head_;
  size_t remaining_capacity_ = 0;
};

}  // namespace attndb::query

#endif  // ATTNDB_QUERY_ATTENTION_LAYER_ATTENTION_H_
