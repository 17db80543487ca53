// A session's state: the chain of sealed segments that it reads, its tail, its plan.
//
// Chain:   entries (segment, tokens of it that the session has), oldest first; then the tail. Over
//          several contexts, those of one after those of the other. Crop shortens entries; Store
//          moves the tail into a new entry. Where the plan reads what is derived, complete blocks
//          of the tail are runs to derive from, as segments.
// Step:    layer 0 appends n tokens, then layer 1 the same n, ... next_layer_ is the one whose turn
//          it is. An error inside a step sets failed_, which Crop and Reset clear.
// Threads: as session.h: one thread at a time, but for AttendPart.
#ifndef ATTNDB_SESSION_SESSION_IMPL_H_
#define ATTNDB_SESSION_SESSION_IMPL_H_

#include <atomic>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "attention/call_runner.h"
#include "attention/layer_call.h"
#include "attndb/options.h"
#include "attndb/result.h"
#include "attndb/stats.h"
#include "attndb/tensor_view.h"
#include "attndb/types.h"
#include "derived/cache.h"
#include "planner/execution.h"
#include "planner/learned_state.h"
#include "planner/objective.h"
#include "planner/plan.h"
#include "planner/plan_layer.h"
#include "session/call_gate.h"
#include "session/query_sample.h"
#include "session/session_host.h"
#include "session/token_filter.h"
#include "storage/kv/chain_entry.h"
#include "storage/kv/chain_source.h"
#include "storage/kv/kv_tail.h"
#include "storage/kv/segment.h"
#include "storage/kv/tail_block.h"
#include "storage/kv/tail_source.h"

namespace attndb::internal {

using storage::ChainEntry;

// What a session starts from.
struct SessionSeed {
  std::shared_ptr<SessionHost> host;  // Kept open by its sessions.
  std::string tenant;
  ModelSpec spec;  // Defaults resolved.
  std::shared_ptr<const storage::KvShape> shape;
  planner::Plan plan;
  int64_t first_position = 0;
  ContextId context = ContextId::kNone;
  std::vector<ChainEntry> chain;
  std::vector<TokenId> tokens;  // Of the chain.
  // Over several contexts: these, what keeps them from being evicted, and how many tokens of the
  // chain stand beside others, so that what comes next has a position by so much smaller.
  std::vector<SessionContext> contexts;
  std::shared_ptr<const void> hold;
  uint64_t num_parallel = 0;
};

// Token indices are 32 bits in the kernels; half of that leaves room for every sum of two.
inline constexpr uint64_t kMaxSessionTokens = (uint64_t{1} << 31) - 64;

class SessionImpl {
 public:
  explicit SessionImpl(SessionSeed seed);
  ~SessionImpl();
  SessionImpl(const SessionImpl&) = delete;
  SessionImpl& operator=(const SessionImpl&) = delete;

  Status Append(LayerId layer, const TensorView& k, const TensorView& v);
  Status Attend(LayerId layer, const TensorView& q, const MutableTensorView& out, float* lse);
  Status AttendPart(LayerId layer, const TensorView& q, const MutableTensorView& out, float* lse,
                    uint32_t part, uint32_t num_parts);
  Result<std::vector<CriticalTokens>> Search(LayerId layer, const TensorView& q);
  Status CheckQuery(LayerId layer, const TensorView& q) const;
  Status ReadKv(LayerId layer, TokenRange range, const MutableTensorView& k,
                const MutableTensorView& v) const;
  Status Crop(uint64_t num_tokens);
  Result<std::unique_ptr<SessionImpl>> Fork();
  void Reset();
  Status SetFilter(std::span<const TokenRange> ranges);
  Status SetPlan(std::string_view text);
  Status AwaitDerived(LayerId layer);
  bool AwaitsDerived(LayerId layer) const;
  attndb::Explain Explain() const;
  Result<LayerExplain> ExplainLayer(LayerId layer) const;

  uint64_t num_tokens() const { return num_stored_ + tail_.num_tokens(); }
  uint64_t num_stored() const { return num_stored_; }
  ContextId context() const { return context_; }
  const std::vector<SessionContext>& contexts() const { return contexts_; }
  int64_t next_position() const { return TailPosition(num_tokens()); }
  const ModelSpec& spec() const { return spec_; }
  uint64_t memory_bytes() const;

  // For Store. Ok if no step is under way.
  Status CheckComplete() const;
  // Ok if `tokens` may be the ids of what the session holds: their number, and the stored prefix.
  Status CheckTokens(std::span<const TokenId> tokens) const;
  // Ok if K and V of all tokens are those of one whole prompt.
  Status CheckStorable() const;
  // The tail as what is to be stored: the last of `tokens`, which are all, and must outlive it.
  storage::TailSource TailOf(std::span<const TokenId> tokens);
  // The tail is now in the last entries of `chain`, which make up context `context`. The host
  // knows.
  void Rebase(ContextId context, std::vector<ChainEntry> chain, std::span<const TokenId> tokens);

  const std::string& tenant() const { return tenant_; }
  int64_t first_position() const { return first_position_; }
  const std::vector<ChainEntry>& chain() const { return chain_; }
  const std::vector<TokenId>& stored_tokens() const { return stored_tokens_; }  // Of the chain.
  const storage::KvTail& tail() const { return tail_; }
  QuerySample& query_sample() { return query_sample_; }
  const std::shared_ptr<const storage::KvShape>& shape() const { return shape_; }
  const std::shared_ptr<SessionHost>& host() const { return host_; }

 private:
  // Of one layer, since the session began.
  struct LayerStats {
    attention::CallCost last;
    uint64_t num_rows = 0;
    int64_t append_ns = 0;
    std::vector<attention::CallCost> last_heads;  // By kv head: of the last call,
    std::vector<attention::CallCost> all_heads;   // ... and of all calls.
    std::vector<attention::HeadBound>
        last_bounds;  // By q head: of the last row; or the plan has none.

    attention::CallCost Total() const;
    std::span<const attention::HeadBound> LastBounds(uint32_t kv_head) const;
  };

  // What is known of a layer's chain, without a look at its rows, and the room for it.
  struct LayerFacts {
    planner::ChainFacts chain;
    std::vector<planner::RunFacts> runs;
    std::vector<uint8_t> non_finite;
  };
  static constexpr uint64_t kNever = ~uint64_t{0};  // No version is this.
  // What is ready of a layer, for its derived runs: bit i stands for derived kind i.
  struct ReadyObjects {
    uint64_t objects_version = kNever;    // Of the cache, when it was looked at,
    uint64_t chain_version = kNever;      // ... and of the chain.
    std::vector<derived::KindSet> kinds;  // By derived run.
  };
  // Of which runs a layer's objects were awaited.
  struct AwaitedRuns {
    uint64_t chain_version = kNever;
    uint64_t num_blocks = 0;  // Of the tail.
    friend bool operator==(const AwaitedRuns&, const AwaitedRuns&) = default;
  };
  // Those that there are now.
  AwaitedRuns RunsToAwait(LayerId layer, const planner::LayerPlan& plan) const;
  // Whether such a plan of the layer may read what is derived from blocks of the tail.
  bool DerivesFromTail(LayerId layer, const planner::LayerPlan& plan) const;
  // Whether tokens of the tail are complete in the layer of which there is no block.
  bool LacksBlocks(LayerId layer) const;
  // Makes blocks of the tail's tokens that are complete in the layer.
  void JoinTail(LayerId layer);
  // The same while a prompt is read, and asks for the index that the plan names.
  void DeriveWhileReading(LayerId layer);
  void CropBlocks(uint64_t num_tail);
  // Those that a fork may have, too.
  std::vector<std::shared_ptr<storage::TailBlock>> WholeBlocks() const;
  // The layer's runs from which objects are derived, by number: segments, then blocks of the tail.
  // They are the first runs of the layer.
  uint64_t NumDerivedRuns(LayerId layer) const;
  const storage::KvRun& DerivedRun(uint64_t run) const;
  // How many of its tokens the session has.
  uint64_t TokensUsed(uint64_t run) const;
  // Of the run's rows, the first that the session has.
  uint64_t FirstRow(uint64_t run) const {
    return run < chain_.size() ? chain_[run].first_token : 0;
  }
  // Position of a token of the tail, or of the next.
  int64_t TailPosition(uint64_t token) const {
    return first_position_ + static_cast<int64_t>(token - num_parallel_);
  }
  // Of the layer's tokens, those that the filter does not hide.
  uint64_t NumSeen(LayerId layer) const { return filter_.NumSeen({0, LayerTokens(layer)}); }
  // What is ready of the run; asks for it if it is not.
  derived::LayerObjectsPtr GetObjects(uint64_t run, const derived::Kind& kind, LayerId layer) const;
  derived::Lanes::AddedPtr JobOf(uint64_t run, const derived::Kind& kind, LayerId layer) const;
  void FindReady(LayerId layer, std::vector<derived::KindSet>* kinds) const;
  // `ready`: as FindReady found it.
  void FindFacts(LayerId layer, std::span<const derived::KindSet> ready, LayerFacts* facts) const;
  // The same, looked up anew.
  void FindFacts(LayerId layer, LayerFacts* facts) const;
  // Of these facts, those that are no lists.
  planner::ChainFacts ChainOf(LayerId layer) const;
  // What the layer runs of its plan: rules and budgets are settled.
  planner::LayerPlan PlanOf(LayerId layer, const planner::ChainFacts& chain) const;
  planner::LayerPlan PlanOf(LayerId layer) const { return PlanOf(layer, ChainOf(layer)); }
  // A question of one row about the layer. `facts` and `plan` must outlive it.
  planner::LayerQuestion Ask(LayerId layer, const LayerFacts& facts,
                             const planner::LayerPlan& plan) const;
  planner::Outlook OutlookOf(const LayerFacts& facts) const;
  // What the layer would run, exploring nothing.
  planner::LayerExecution Preview(LayerId layer, const LayerFacts& facts) const;
  // Settles what the layer runs: facts_ become execution_.
  void PlanCall(LayerId layer, uint64_t num_rows, uint32_t num_parts);
  // Lists the rows of the layer's segments and of the tail, each run from its first row on. None is
  // read.
  void ListRuns(LayerId layer, storage::ChainSource* rows) const;
  // Lists what the filter leaves of rows_'s runs.
  void ListParts();
  // Asks for planes that the plan would read, if they are not ready.
  void AskForPlanes(LayerId layer);
  // Collects what is derived from the layer's runs and the execution reads. What turns out to be
  // missing is read exactly.
  void CollectDerived(LayerId layer, attention::LayerCall* call);
  // Lets go of it.
  void ForgetDerived();
  void TakeExecution(LayerId layer, attention::LayerCall* call);
  void NoteCost(LayerId layer, uint64_t num_rows);
  void ObserveCall(LayerId layer, uint64_t num_rows);
  void FillHeads(LayerId layer, const planner::LayerExecution& execution,
                 LayerExplain* explain) const;
  void KeepStatistics() const;

  // Whether K or V of a kv head holds NaN or Inf, so that `full` runs for it.
  bool IsNonFinite(LayerId layer, uint32_t kv_head) const;
  std::string NonFiniteReason(LayerId layer) const;  // Empty if no head does.
  Status CheckAppend(LayerId layer, const TensorView& k, const TensorView& v) const;
  Status WriteRows(LayerId layer, const TensorView& view, bool is_key,
                   const storage::AppendPiece& piece);
  Status OverflowError(LayerId layer, const TensorView& view, bool is_key, uint32_t head,
                       uint64_t first_row, uint64_t num_rows) const;
  Status CheckAttend(LayerId layer, const TensorView& q, const MutableTensorView& out) const;
  Status CheckRead(LayerId layer, TokenRange range, const MutableTensorView& k,
                   const MutableTensorView& v) const;
  // Plans the call, lists its rows, and has the runner begin it.
  Status BeginCall(LayerId layer, const TensorView& q, const MutableTensorView& out, float* lse,
                   uint32_t num_parts);
  // What finds or estimates scores of the derived runs, for the plan that `call` has.
  void CollectForScores(LayerId layer, attention::LayerCall* call);
  // What is ready of the kind, by derived run; asks for the rest.
  void CollectObjects(LayerId layer, const derived::Kind& kind,
                      std::vector<derived::LayerObjectsPtr>* objects);
  // The key planes and value planes of the derived runs, if the plan reads them.
  void CollectEstimates(LayerId layer, const attention::LayerCall& call);
  void CollectValues(LayerId layer, const attention::LayerCall& call);
  // What tells static tokens of the segments, if the plan has some.
  void CollectRankings(LayerId layer, const attention::LayerCall& call);
  // What finds keys of the derived runs, if the plan's index does.
  void CollectIndexes(LayerId layer, const attention::LayerCall& call);
  void EndCall(LayerId layer);
  // Holds rows where derived objects, too, will be held.
  Status HoldRows();
  // Tells the host of rows that could not be read.
  void ReportFailure(storage::ChainSource* rows) const;
  Status Fail(Status status);
  // The search of a layer's physical plan, made again if that has changed.
  const index::CriticalSearch* SearchFor(LayerId layer, const planner::LayerPlan& plan);
  uint64_t LayerTokens(LayerId layer) const { return num_stored_ + tail_.num_tokens(layer); }
  uint32_t PartsFor(uint64_t num_rows, LayerId layer) const;
  const planner::MachineConstants& Machine() const {
    return *parts_.machine->load(std::memory_order_acquire);
  }
  attention::LayerCall DescribeCall(LayerId layer) const;

  const std::shared_ptr<SessionHost> host_;
  const SessionParts parts_;
  const SessionSettings settings_;
  const std::string tenant_;
  const ModelSpec spec_;
  const std::shared_ptr<const storage::KvShape> shape_;
  const int64_t first_position_;
  const uint64_t kv_bytes_per_token_;  // Of all layers.

  planner::Plan plan_;
  planner::LearnedState learned_;
  planner::Objectives objectives_;
  // By layer: what it ran last, and the search of that.
  std::vector<planner::LayerPlan> physical_;
  std::vector<std::unique_ptr<const index::CriticalSearch>> searches_;
  ContextId context_;
  std::vector<SessionContext> contexts_;
  std::shared_ptr<const void> hold_;
  uint64_t num_parallel_;
  std::vector<ChainEntry> chain_;
  uint64_t chain_version_ = 0;          // Grows when the chain changes, or blocks_ are cropped.
  std::vector<TokenId> stored_tokens_;  // Of the chain.
  uint64_t num_stored_ = 0;
  storage::KvTail tail_;
  // Of the tail's first tokens. A layer that has nothing derived may be missing in any of them; the
  // layers of others are added as calls reach them.
  std::vector<std::shared_ptr<storage::TailBlock>> blocks_;
  QuerySample query_sample_;
  TokenFilter filter_;
  // The first token that was appended while a filter hid others: its K and V, and those after it,
  // are not those of the whole prompt.
  uint64_t filtered_from_ = kNever;

  LayerId next_layer_ = 0;
  uint64_t step_rows_ = 0;
  bool failed_ = false;
  std::vector<LayerStats> stats_;
  std::vector<float> convert_scratch_;
  // Of a Search under way, by q head: the call chooses, and does not attend. Else null.
  CriticalTokens* found_ = nullptr;
  std::vector<uint8_t> appended_non_finite_;  // By kv head, of the Append under way.

  // One Attend: the first part that comes through the gate sets up what follows, the last that
  // leaves ends it; in between, parts share runner_, which is made for that.
  CallGate gate_;
  Status call_status_;                     // Of BeginCall.
  std::atomic<bool> part_failed_ = false;  // Relaxed: the gate orders it.
  attention::CallRunner runner_;
  attention::OperatorChoice operators_;
  std::vector<derived::LayerObjectsPtr> planes_;          // By derived run.
  std::vector<derived::LayerObjectsPtr> layer_values_;    // The same.
  std::vector<derived::LayerObjectsPtr> layer_means_;     // The same.
  std::vector<derived::LayerObjectsPtr> layer_sums_;      // The same.
  std::vector<derived::LayerObjectsPtr> layer_indexes_;   // The same.
  std::vector<derived::LayerObjectsPtr> layer_rankings_;  // By segment of the chain.
  const std::unique_ptr<storage::ChainSource> rows_;
  std::vector<attention::RunPart> parts_of_runs_;
  std::vector<const index::KeyEstimates*> estimates_;  // [kv head][part], or empty: none are read.
  std::vector<const kernels::ValuePlanesView*> values_;  // The same.
  std::vector<const kernels::ValueMeansView*> means_;    // The same.
  std::vector<const index::ClusterSums*> sums_;          // The same.
  std::vector<const index::TokenRanking*> rankings_;     // The same.
  std::vector<const index::KeyIndex*> indexes_;          // The same.
  std::vector<ReadyObjects> ready_;                      // By layer.
  std::vector<AwaitedRuns> awaited_;                     // By layer, since the plan was set.
  LayerFacts facts_;
  planner::LayerExecution execution_;
  std::vector<planner::DrawBudget> budgets_;  // By kv head, of a plan that draws.
  std::vector<uint8_t> runs_full_;            // By kv head: it runs `full`,
  std::vector<uint8_t> by_index_;             // ... or chooses by the plan's index; others scan.
  bool lacks_index_ = false;                  // Some derived run has none yet that may have one.
  std::vector<planner::HeadObservation> observed_;
};

}  // namespace attndb::internal

#endif  // ATTNDB_SESSION_SESSION_IMPL_H_
