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
//         estimated from a sample. A plan that draws chooses for a group (group_draw.h).
// Denominators: what a layer's denominator_logits weigh is added where states are finished, once,
//         whatever the plan, the cut and the threads: as a token of value 0 that all rows attend
//         to. It has no key, so a search by scores doesn't know it; where mass or error is meant,
//         it is part of the whole.
// Bits:   equal for equal call, chain of runs, ISA and num_parts, whatever thread does what.
// Memory: scratch grows to the largest call and is kept.
// Source: partial attention and its merge, RetrievalAttention App. B; DIPR, AlayaDB 6.1; sampled
//         remainder, attention/remainder.h.
#ifndef ATTNDB_ATTENTION_LAYER_ATTENTION_H_
#define ATTNDB_ATTENTION_LAYER_ATTENTION_H_

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "attention/arena.h"
#include "attention/call_cost.h"
#include "attention/group_draw.h"
#include "attention/indexed_group.h"
#include "attention/sparse_head.h"
#include "attention/work_plan.h"
#include "attndb/stats.h"
#include "attndb/tensor_view.h"
#include "attndb/types.h"
#include "index/critical_search.h"
#include "index/key_estimates.h"
#include "index/score_view.h"
#include "kernels/attention_state.h"
#include "kernels/draw.h"
#include "kernels/layout.h"
#include "planner/plan.h"
#include "storage/kv/kv_rows.h"

namespace attndb::attention {

// Everything that one call needs. Views and spans must outlive the call.
struct LayerCall {
  LayerSpec spec;  // scale and rope_dims resolved.
  DType kv_dtype = DType::kFloat16;
  planner::LayerPlan plan;
  const index::CriticalSearch* search = nullptr;  // Of the plan; null if it has none.
  std::span<const planner::DrawBudget> draws;     // [num_kv_heads]: of a plan that draws.
  // runs[h * num_runs + i]: run i of kv head h. Runs of one index have equal lengths for all heads;
  // together they are tokens [0, num_tokens).
  std::span<const storage::KvRows> runs;
  size_t num_runs = 0;
  // As runs: what estimates the scores of a run's keys, of at least as many tokens; null where
  // nothing does. Empty: nowhere.
  std::span<const index::KeyEstimates* const> estimates;
  // As estimates: what finds a run's keys, of the plan's index.
  std::span<const index::KeyIndex* const> indexes;
  // [num_q_heads]: takes what the plan chooses for the one row, and nothing is attended to.
  // Null: attention. REQUIRES: the plan searches.
  CriticalTokens* found = nullptr;
  // As estimates: what stands for values that weigh little, and for those that are not looked at.
  std::span<const kernels::ValuePlanesView* const> values;
  std::span<const kernels::ValueMeansView* const> means;
  // [num_kv_heads]: not 0 where `full` runs: K or V has NaN or Inf, or the optimizer said so.
  std::span<const uint8_t> non_finite;
  std::string_view full_reason;  // Not empty: why the optimizer lets all heads run `full`.
  uint64_t num_tokens = 0;
  TensorView q;
  MutableTensorView out;
  float* lse = nullptr;  // [q.rows(), num_q_heads] or null. Denominators included.
  uint32_t num_parts = 1;
  uint32_t dense_query_tokens = 64;
};

// Why a call runs something else than its plan; empty if it runs the plan.
std::string_view ReasonForFull(const LayerCall& call);

class LayerAttention {
 public:
  // Tokens that are scored before they are looked at: those of a group still lie in the L1 cache.
  static constexpr uint64_t kTileTokens = index::KeepCall::kWork;
  // Tokens from which thresholds are found before a unit is scanned.
  static constexpr uint64_t kMostSampled = 2048;

  // Plans the work of `call` and makes room for it.
  // Errors: kResourceExhausted (scratch). REQUIRES: views checked; no part of another call running.
  Status Begin(const LayerCall& call);

  // Works until no item is left. REQUIRES: part < num_parts; each part once.
  void RunPart(uint32_t part);

  CallCost cost() const;
  CallCost head_cost(uint32_t kv_head) const;  // What of it one kv head cost.
  // Of a plan that bounds: what it leaves out, at most ([q.rows()][num_q_heads]); -1 where the head
  // ran `full`. Else empty.
  std::span<const HeadBound> bounds() const { return bounds_; }
  uint64_t scratch_bytes() const;

 private:
  // Scores of the q heads of units, and their summaries (index/score_view.h).
  struct Scores {
    float* scores = nullptr;  // [unit][group][num_tokens]
    float* maxima = nullptr;  // [unit][group][blocks of num_tokens]
    float* sums = nullptr;    // As maxima; null unless needs_sums_.
  };

  // Of what a range keeps: first sinks, then tokens of the middle, then the window.
  struct KeptCounts {
    uint32_t middle_begin = 0;
    uint32_t middle_end = 0;
    uint32_t end = 0;
  };

  // What ranges of units keep for their groups, of a plan that draws (group_draw.h).
  struct Kept {
    uint32_t* tokens = nullptr;    // [unit][num_tokens], those of a range from its begin on,
    float* noise = nullptr;        // ... their noise,
    float* scores = nullptr;       // ... and their scores: [unit][group][num_tokens].
    KeptCounts* counts = nullptr;  // [unit][range]
    float* thresholds = nullptr;   // [unit][group]: published for those that come later.
  };

  // How far the thresholds of a unit are that all its ranges share.
  enum class Thresholds : uint8_t { kUnknown, kWritten, kPublished };

  // Scores of a group: a row of `stride` elements a q head.
  struct ScoreRows {
    float* scores = nullptr;
    size_t stride = 0;
  };

  struct Part {
    Arena arena;
    float* q = nullptr;         // [rows of a unit * group][head_dim padded]
    float* spare = nullptr;     // As q.
    kernels::StateRows states;  // [rows of a unit * group]
    void* block = nullptr;      // Of AttendBlock.
    uint32_t* lo = nullptr;     // [rows of a unit * group]
    uint32_t* hi = nullptr;
    Scores scores;                                  // Of a unit, if it has one range only.
    Kept kept;                                      // The same.
    float* sample = nullptr;                        // [group][kMostSampled]
    float* thresholds = nullptr;                    // [group]: of the unit of the item under way.
    float* tile = nullptr;                          // [group][kTileTokens]
    kernels::KeptTokens places;                     // Room for kStretch, where an index draws.
    float* q_norms = nullptr;                       // [group], there too,
    float* row_reaches = nullptr;                   // ... and so.
    std::vector<DrawSlice> slices;                  // Of a unit.
    const index::KeyEstimates* prepared = nullptr;  // What the queries were made for.
    std::byte* codes = nullptr;                     // Of the group's quantized q rows.
    index::EstimateQuery* queries = nullptr;        // [group]
    HeadScratch head;                               // Of a plan that searches,
    IndexedScratch indexed;                         // ... by an index that finds keys,
    GroupScratch group;                             // ... or draws.
    CallCost cost;                                  // Of the item under way,
    std::vector<CallCost> head_costs;               // ... and of those before, by kv head.
  };

  bool IsDense(uint32_t kv_head) const;
  HeadScratchSize HeadSize() const;
  IndexedScratchSize IndexedSize() const;
  size_t PartBytes() const;
  Status MakeRoom();
  void TakeFromArenas();
  void TakeForScores(Part* part) const;
  // What is kept of so many units until their heads are finished.
  size_t ChoiceBytes(size_t num_units) const;
  size_t PlacesBytes() const;
  void TakePlaces(Part* part) const;
  size_t ScoreBytes(size_t num_units) const;
  Scores TakeScores(size_t num_units, Arena* arena) const;

  // The states of a range of a unit, and the scores of a unit: shared by all parts when a unit has
  // several ranges, else the part's own.
  kernels::StateRows StatesOf(const WorkItem& item, Part* part) const;
  index::ScoreView ScoresOf(uint32_t unit, uint32_t group_head, Part* part) const;

  void RunItem(const WorkItem& item, Part* part);
  void BookCost(uint32_t unit_idx, Part* part);
  void LoadQueries(const WorkUnit& unit, Part* part) const;
  void AttendRange(const WorkItem& item, Part* part);
  // Dense attention over `range` of the tokens that row r sees: [VisibleBegin(r), VisibleEnd(r)).
  void AttendTokens(const WorkUnit& unit, TokenRange range, const kernels::StateRows& states,
                    Part* part);
  void AttendRun(const WorkUnit& unit, size_t run, TokenRange tokens, TokenRange range,
                 const kernels::StateRows& states, Part* part);
  void ScoreRange(const WorkItem& item, Part* part);
  void PrepareScan(const index::KeyEstimates& estimates, Part* part) const;
  // What estimates the run's scores, the group's queries made ready for it; null if nothing does.
  const index::KeyEstimates* PreparedEstimates(uint32_t kv_head, size_t run, Part* part) const;
  // Calls f(run, tokens) for pieces of the range that lie in one run and one tile, in order.
  template <uint64_t kTokens = kTileTokens, typename F>
  void ForEachTile(TokenRange range, const F& f) const;
  // Scores of tokens of a run, the first one's at out.scores.
  void ScoreTile(const WorkUnit& unit, size_t run, TokenRange tokens, const ScoreRows& out,
                 Part* part);
  void ScoreExactly(const WorkUnit& unit, size_t run, TokenRange tokens, const ScoreRows& out,
                    Part* part);
  void Estimate(const WorkUnit& unit, size_t run, TokenRange tokens, const ScoreRows& out,
                Part* part);
  void Summarize(uint32_t unit, TokenRange tokens, Part* part) const;

  // layer_attention_draw.cc
  void CollectRange(const WorkItem& item, Part* part);
  void FindThresholds(const WorkUnit& unit, Part* part);
  void TakeThresholds(uint32_t unit_idx, Part* part);
  uint64_t ScorePieces(const WorkUnit& unit, TokenRange tokens, double* share, Part* part);
  void KeepAll(const WorkUnit& unit, TokenRange tokens, kernels::KeptTokens* kept, Part* part);
  void KeepMiddle(const WorkUnit& unit, TokenRange middle, const kernels::DrawRule& rule,
                  kernels::KeptTokens* kept, Part* part);
  void KeepDrawn(const WorkUnit& unit, size_t run, TokenRange tokens, const kernels::DrawRule& rule,
                 kernels::KeptTokens* kept, Part* part);
  void KeepByIndex(const WorkUnit& unit, size_t run, TokenRange tokens,
                   const kernels::DrawRule& rule, kernels::KeptTokens* kept, Part* part);
  Kept KeptOf(const WorkItem& item, Part* part) const;
  size_t KeptBytes(size_t num_units) const;
  Kept TakeKept(size_t num_units, Arena* arena) const;
  std::span<const DrawSlice> SlicesOf(uint32_t unit, Part* part) const;
  void FinishDraw(uint32_t unit_idx, Part* part);

  void FinishDense(const WorkItem& item, Part* part);
  void FinishSparse(const WorkItem& item, Part* part);
  void FinishFound(uint32_t unit_idx, Part* part);
  // Takes q heads of a unit whose scores are complete, until none is left.
  void FinishHeads(uint32_t unit_idx, Part* part);
  void FinishHead(uint32_t unit_idx, uint32_t group_head, Part* part);
  void WriteOutput(const WorkUnit& unit, const kernels::StateRows& states, Part* part);
  // Of `count` q heads of a unit of one row, from `group_head` on.
  void WriteHeads(const WorkUnit& unit, uint32_t group_head, uint32_t count,
                  const kernels::StateRows& states, Part* part);

  float DenominatorLogit(uint32_t q_head) const;

  uint64_t TokenOfRow(uint64_t row) const { return first_row_token_ + row; }
  std::span<const HeadRun> HeadRuns(uint32_t kv_head) const;
  TokenRange Visible(uint64_t row) const;
  TokenRange Middle(uint64_t row) const;
  // Null unless the plan asks for estimates and the run has some.
  const index::KeyEstimates* Estimates(uint32_t kv_head, size_t run) const;
  const index::KeyIndex* Index(uint32_t kv_head, size_t run) const;
  // Null unless the plan draws and the run has an index to draw by.
  const index::DrawIndex* Draws(uint32_t kv_head, size_t run) const;
  kernels::RowsView Keys(uint32_t kv_head, size_t run, uint64_t first_token) const;
  kernels::RowsView Values(uint32_t kv_head, size_t run, uint64_t first_token) const;
  void ListHeadRuns();

  LayerCall call_;
  WorkPlan work_;
  bool sparse_ = false;      // Rows leave tokens out (but for heads with NaN or Inf).
  bool chooses_ = false;     // ... and search for those that they keep, or draw them.
  bool finds_ = false;       // ... by an index that does not score every key.
  bool needs_sums_ = false;  // Of a search: by the weights of blocks.
  uint64_t first_row_token_ = 0;
  size_t k_padded_ = 0;
  size_t v_padded_ = 0;
  size_t search_bytes_ = 0;          // Of an index's scratch, for a part.
  size_t rows_max_ = 0;              // q rows of a unit,
  size_t range_rows_ = 0;            // ... rounded up to lines of the cache, where ranges share it.
  std::vector<uint64_t> run_begin_;  // First token of each run, and num_tokens.
  std::vector<HeadRun> head_runs_;   // [kv head][run], if it chooses.
  std::vector<HeadBound> bounds_;    // Each written by who finishes its head.

  std::vector<Part> parts_;
  Arena shared_;
  kernels::StateRows shared_states_;  // [unit][range][range_rows_]
  Scores shared_scores_;
  Kept shared_kept_;

  // Items are handed out in order. remaining_[unit] counts its unfinished ranges: the release of
  // each decrement pairs with the acquire of the last, which reads the other ranges' results.
  std::atomic<size_t> next_item_ = 0;
  std::unique_ptr<std::atomic<uint32_t>[]> remaining_;
  // next_head_[unit]: the q head of the group that is to be finished next, once all its scores are
  // there; group_size or more before that, and when none is left. Its release pairs with the
  // acquire of whoever takes a head.
  std::unique_ptr<std::atomic<uint32_t>[]> next_head_;
  // thresholds_[unit]: the release of kPublished pairs with the acquire of who takes them.
  std::unique_ptr<std::atomic<Thresholds>[]> thresholds_;
  size_t remaining_capacity_ = 0;
};

template <uint64_t kTokens, typename F>
void LayerAttention::ForEachTile(TokenRange range, const F& f) const {
  for (size_t run = 0; run < call_.num_runs; ++run) {
    const uint64_t end = std::min(range.end, run_begin_[run + 1]);
    TokenRange tile = {std::max(range.begin, run_begin_[run]), 0};
    for (; tile.begin < end; tile.begin = tile.end) {
      tile.end = std::min(end, (tile.begin / kTokens + 1) * kTokens);
      f(run, tile);
    }
  }
}

}  // namespace attndb::attention

#endif  // ATTNDB_ATTENTION_LAYER_ATTENTION_H_
