// A session's state: the chain of sealed segments that it reads, its tail, its plan.
//
// Chain:   entries (segment, number of its tokens that the session uses), oldest first; then the
//          tail. Over several contexts, the entries of one follow those of another. Crop shortens
//          entries; Store moves the tail into a new entry. If the plan reads derived objects,
//          complete blocks of the tail are runs with derived objects, like segments.
// Step:    layer 0 appends n tokens, then layer 1 the same n, ... next_layer_ is the layer whose
//          turn it is. An error inside a step sets failed_, which Crop and Reset clear.
// Threads: as session.h: one thread at a time, except AttendPart.
#ifndef ATTNDB_SESSION_SESSION_IMPL_H_
#define ATTNDB_SESSION_SESSION_IMPL_H_

#include <algorithm>
#include <atomic>
#include <future>
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
#include "common/fork_points.h"
#include "derived/cache.h"
#include "planner/execution.h"
#include "planner/learned_state.h"
#include "planner/objective.h"
#include "planner/plan.h"
#include "planner/plan_layer.h"
#include "planner/ran.h"
#include "session/attention_mass.h"
#include "session/call_gate.h"
#include "session/query_sample.h"
#include "session/session_chain.h"
#include "session/session_host.h"
#include "session/token_filter.h"
#include "session/truncation.h"
#include "session/turn_tables.h"
#include "storage/kv/chain_entry.h"
#include "storage/kv/chain_source.h"
#include "storage/kv/kv_tail.h"
#include "storage/kv/segment.h"
#include "storage/kv/tail_block.h"
#include "storage/kv/tail_snapshot.h"

namespace attndb::internal {

// The initial state of a session.
struct SessionSeed {
  std::shared_ptr<SessionHost> host;  // Stays open as long as it has sessions.
  std::string tenant;
  ModelSpec spec;  // Defaults resolved.
  std::shared_ptr<const storage::KvShape> shape;
  planner::Plan plan;
  SessionChain::Contents chain;
  std::vector<Cut> cuts;  // The cuts in the chain's history.
  // Rotations to other positions. REQUIRES: set if there are cuts.
  std::optional<TurnTables> turns;
};

// A session's data for a Store: its chain, and its present tail for a new segment.
struct SessionSnapshot {
  std::string tenant;
  ModelSpec spec;
  int64_t first_position = 0;
  ContextId base = ContextId::kNone;
  std::vector<ChainEntry> chain;
  uint64_t num_stored = 0;  // Tokens of the chain.
  std::vector<Cut> cuts;
  std::shared_ptr<storage::SegmentSource> tail;
  std::vector<SharedFork> forks;  // With more tokens than the chain has.
};

// A background Store of the session's tokens.
struct StoreUnderWay {
  std::future<Result<HeldChain>> held;  // Holds the tokens once they are durable.
  std::vector<TokenId> tokens;
};

// The state of one layer of a session.
struct LayerProgress {
  uint64_t num_tokens = 0;  // Includes the tokens of a step under way.
  // All stored K and V, and the derived objects that its plan reads, are in memory.
  bool is_in_memory = false;
  // Its plan waits for objects, and the wait for some tokens has not happened yet.
  bool awaits_derived = false;
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
  Status ReadKv(LayerId layer, TokenRange range, const MutableTensorView& k,
                const MutableTensorView& v) const;
  Status Crop(uint64_t num_tokens);
  Result<std::unique_ptr<SessionImpl>> Fork();
  void Reset();
  Status SetFilter(std::span<const TokenRange> ranges);
  Status DropOldest(uint64_t n, const DropOptions& options);
  // Applies a cut of an adopted history. The cut is one of a session with as many tokens.
  Status Lose(const attndb::Cut& cut);
  Status Rebase(int64_t position);
  Result<std::vector<TokenRange>> HeaviestTokens(TokenRange among, uint64_t num_tokens);
  Status SetPlan(std::string_view text);
  Status Load();
  Status AwaitDerived(LayerId layer, const WaitOptions& options);
  attndb::Explain Explain() const;
  Result<LayerExplain> ExplainLayer(LayerId layer) const;

  const ModelSpec& spec() const { return spec_; }
  // The durable part of the session.
  const SessionChain& chain() const { return chain_; }
  uint64_t num_tokens() const { return chain_.num_tokens() + tail_.num_tokens(); }
  // The state of a layer. REQUIRES: the layer exists.
  LayerProgress ProgressOf(LayerId layer) const;
  // The objects that it shares with the other sessions of its store.
  const SessionParts& parts() const { return parts_; }
  int64_t next_position() const { return chain_.PositionAfter(num_tokens()) - position_shift_; }
  const Truncation& truncation() const { return truncation_; }
  uint64_t memory_bytes() const { return tail_.memory_bytes() + chain_.resident_bytes(); }
  bool BelongsTo(const SessionHost* host, std::string_view tenant) const {
    return host_.get() == host && tenant_ == tenant;
  }
  // Offers the q rows of appended tokens to the sample that is stored with these tokens.
  // `first_token`: index in the session of the first row's token.
  void SampleQueries(LayerId layer, const TensorView& q, uint64_t first_token);

  // Returns the data for a Store; `tokens` are the ids of all tokens of the session. Copies no K, V
  // or q. Waits for a Store that is under way. `in_background`: forks that are made while the Store
  // of this data is under way share its context.
  // Errors: kInvalidArgument (no tokens, or not the session's); kFailedPrecondition (a step is
  //         under way, or the tokens did not see one whole prompt).
  Result<SessionSnapshot> Snapshot(std::span<const TokenId> tokens, bool in_background);
  // Continues the session on a chain that holds `tokens`, which are the session's first tokens.
  // Tokens that the chain holds leave the tail. Returns the previous chain.
  // Errors: kResourceExhausted (memory for the rest of the tail); nothing has changed then.
  Result<HeldChain> MoveTo(HeldChain held, std::span<const TokenId> tokens);
  // Moves the session to the chain of this Store, in the first step after the Store has ended.
  // REQUIRES: no other Store is under way.
  void AwaitStore(StoreUnderWay store);
  // Moves to a chain that was stored or merged in the background, if there is one and no step or
  // call is under way.
  void TakeChains();

 private:
  // Costs of one layer's calls since the session began.
  struct LayerStats {
    attention::CallCost last;
    uint64_t num_rows = 0;
    int64_t append_ns = 0;
    std::vector<attention::CallCost> last_heads;  // Costs of the last call, by kv head.
    std::vector<attention::CallCost> all_heads;   // Costs of all calls, by kv head.
    std::vector<attention::HeadBound>
        last_bounds;        // Bounds of the last row, by q head; empty if the plan has none.
    planner::RanTally ran;  // Tallies the calls since the plan was set.

    attention::CallCost Total() const;
    std::span<const attention::HeadBound> LastBounds(uint32_t kv_head) const;
  };

  // Facts about a layer's chain that need no rows, with the memory for them.
  struct LayerFacts {
    planner::ChainFacts chain;
    std::vector<planner::RunFacts> runs;
    std::vector<uint8_t> non_finite;
  };
  static constexpr uint64_t kNever = ~uint64_t{0};  // No version has this value.
  // The ready objects of a layer, for its derived runs: bit i stands for derived kind i.
  struct ReadyObjects {
    uint64_t objects_version = kNever;    // The cache's version when it was asked.
    uint64_t runs_version = kNever;       // The chain's version at that time.
    std::vector<derived::KindSet> kinds;  // [derived run].
  };
  // The runs whose objects were awaited for a layer.
  struct AwaitedRuns {
    uint64_t runs_version = kNever;
    uint64_t num_blocks = 0;  // Blocks of the tail.
    friend bool operator==(const AwaitedRuns&, const AwaitedRuns&) = default;
  };
  // The runs that exist now.
  AwaitedRuns RunsToAwait(LayerId layer, const planner::LayerPlan& plan) const;
  // Whether this plan may read objects that are derived from blocks of the tail, in this layer.
  bool DerivesFromTail(LayerId layer, const planner::LayerPlan& plan) const;
  // Whether the layer has complete tokens in the tail that are not in a block yet.
  bool LacksBlocks(LayerId layer) const;
  // Makes blocks of the tail's tokens that are complete in the layer.
  void JoinTail(LayerId layer);
  // Like JoinTail, while a prompt is read; also asks for the index that the plan names.
  void DeriveWhileReading(LayerId layer);
  void CropBlocks(uint64_t num_tail);
  // The blocks that a fork may share.
  std::vector<std::shared_ptr<storage::TailBlock>> WholeBlocks() const;
  // The layer's runs with derived objects, by number: segments, then blocks of the tail. They are
  // the layer's first runs.
  uint64_t NumDerivedRuns(LayerId layer) const;
  const storage::KvRun& DerivedRun(uint64_t run) const;
  // Number of the run's tokens that the session has.
  uint64_t TokensUsed(uint64_t run) const;
  // The first row of the run that the session has.
  uint64_t FirstRow(uint64_t run) const {
    return run < entries().size() ? entries()[run].first_token : 0;
  }
  const std::vector<ChainEntry>& entries() const { return chain_.entries(); }
  // Calls f(range, turn) for the visible parts of `tokens`: neither hidden by the filter nor
  // dropped. turn: as Truncation::ForEachKept.
  template <typename F>
  void ForEachSeen(TokenRange tokens, const F& f) const {
    filter_.ForEachSeen(tokens, [&](TokenRange part) { truncation_.ForEachKept(part, f); });
  }
  uint64_t NumSeen(TokenRange tokens) const;
  uint64_t NumSeen(LayerId layer) const { return NumSeen({0, LayerTokens(layer)}); }
  // Index of the i-th visible token. REQUIRES: it exists.
  uint64_t SeenToken(uint64_t i) const;
  // All tokens from this one on are visible.
  uint64_t SeenFrom() const { return std::max(filter_.end(), truncation_.end()); }
  // Sampled queries of the newest stored tokens.
  Result<std::optional<storage::LayerQueries>> StoredQueries(LayerId layer) const;
  // Adds a layer's weights to the mass, by the sampled queries.
  Status AddMass(LayerId layer, AttentionMass* mass) const;
  // For each row's token: the number of visible tokens before it, itself included. Row indices
  // count from `first_token`.
  std::vector<uint64_t> SeenBefore(const storage::QueryRows& rows, uint64_t first_token) const;
  // Makes the turn tables if there are none. Errors: as TurnTables::Of.
  Status MakeTurns();
  // Updates the turn tables after a change of the truncation.
  void FollowTruncation();
  // The rotation of the layer's incoming q and k; null: none.
  const Turn* ShiftOf(LayerId layer) const {
    return position_shift_ == 0 ? nullptr : turns_->ShiftOf(layer);
  }
  // The run's objects of the kind, if they are ready. Else asks for them and returns null.
  derived::LayerObjectsPtr GetObjects(uint64_t run, const derived::Kind& kind, LayerId layer) const;
  derived::Lanes::AddedPtr JobOf(uint64_t run, const derived::Kind& kind, LayerId layer) const;
  bool AwaitsDerived(LayerId layer) const;
  // Whether the layer's plan reads no object from a file.
  bool DerivedIsInMemory(LayerId layer) const;
  void FindReady(LayerId layer, std::vector<derived::KindSet>* kinds) const;
  // Fills `facts` from the result of FindReady.
  void FindFacts(LayerId layer, std::span<const derived::KindSet> ready, LayerFacts* facts) const;
  // Does the same after calling FindReady.
  void FindFacts(LayerId layer, LayerFacts* facts) const;
  // The facts that need no lists.
  planner::ChainFacts ChainOf(LayerId layer) const;
  // The plan that the layer runs, with rules and budgets settled.
  planner::LayerPlan PlanOf(LayerId layer, const planner::ChainFacts& chain) const;
  planner::LayerPlan PlanOf(LayerId layer) const { return PlanOf(layer, ChainOf(layer)); }
  // A question about a call of one row in the layer. `facts` and `plan` must outlive it.
  planner::LayerQuestion Ask(LayerId layer, const LayerFacts& facts,
                             const planner::LayerPlan& plan) const;
  planner::Outlook OutlookOf(const LayerFacts& facts) const;
  // The execution of the layer if no head explored.
  planner::LayerExecution Preview(LayerId layer, const LayerFacts& facts) const;
  // Decides the execution of the layer's call: fills execution_ from facts_.
  void PlanCall(LayerId layer, uint64_t num_rows, uint32_t num_parts);
  // Lists the rows of the layer's segments and of the tail, each run from its first row on. Reads
  // none of them.
  void ListRuns(LayerId layer, storage::ChainSource* rows) const;
  // Lists the visible parts of rows_'s runs.
  void ListParts();
  // Lists the visible parts of the runs of `rows`, in order.
  void ListPartsOf(const storage::ChainSource& rows, std::vector<attention::RunPart>* parts) const;
  // Asks for planes that the plan reads and that are not ready.
  void AskForPlanes(LayerId layer);
  // Collects the derived objects that the execution reads. If a run's objects turn out to be
  // missing, its rows are read exactly.
  void CollectDerived(LayerId layer, attention::LayerCall* call);
  // Releases the derived objects.
  void ForgetDerived();
  void TakeExecution(LayerId layer, attention::LayerCall* call);
  // Ends a call although not all of its parts have come.
  void GiveUpCall();
  void NoteCost(LayerId layer, uint64_t num_rows);
  void ObserveCall(LayerId layer, uint64_t num_rows);
  // Adds the ended call to the tally.
  void TallyCall(LayerId layer, uint64_t num_rows);
  // Lists the numbers of tokens of the layer's derived runs.
  void FindRunTokens(LayerId layer, std::vector<uint64_t>* tokens) const;
  // The parts that ran since the plan was set; before the first call, the parts that would run.
  planner::RanTally RanOf(LayerId layer, const LayerFacts& facts,
                          const planner::LayerExecution& execution) const;
  void FillHeads(LayerId layer, const planner::LayerExecution& execution,
                 const planner::RanTally& ran, LayerExplain* explain) const;
  void KeepStatistics() const;

  // Whether K or V of a kv head holds NaN or Inf, so that `full` runs for it.
  bool IsNonFinite(LayerId layer, uint32_t kv_head) const;
  std::string NonFiniteReason(LayerId layer) const;  // Empty if no head does.
  Status CheckAppend(LayerId layer, const TensorView& k, const TensorView& v) const;
  Status WriteRows(LayerId layer, const TensorView& view, bool is_key,
                   const storage::AppendPiece& piece);
  Status OverflowError(LayerId layer, const TensorView& view, bool is_key, uint32_t head,
                       uint64_t first_row, uint64_t num_rows) const;
  Status CheckNotFailed() const;
  // Checks that every part makes, whatever the state of the call: a failed step, and arguments.
  Status CheckViews(LayerId layer, const TensorView& q, const MutableTensorView& out) const;
  Status CheckAttend(LayerId layer, const TensorView& q, const MutableTensorView& out) const;
  Status CheckRead(LayerId layer, TokenRange range, const MutableTensorView& k,
                   const MutableTensorView& v) const;
  // Plans the call, lists its rows, and has the runner begin it.
  Status BeginCall(LayerId layer, const TensorView& q, const MutableTensorView& out, float* lse,
                   uint32_t num_parts);
  // Collects the objects that find keys or estimate scores, for the plan of `call`.
  void CollectForScores(LayerId layer, attention::LayerCall* call);
  // Fills `objects` [derived run] with the ready objects of the kind, and asks for the others.
  void CollectObjects(LayerId layer, const derived::Kind& kind,
                      std::vector<derived::LayerObjectsPtr>* objects);
  // These two collect the key planes and value planes of the derived runs, if the plan reads them.
  void CollectEstimates(LayerId layer, const attention::LayerCall& call);
  void CollectValues(LayerId layer, const attention::LayerCall& call);
  // Collects the rankings that tell the segments' static tokens, if the plan has static tokens.
  void CollectRankings(LayerId layer, const attention::LayerCall& call);
  // Collects the indexes of the derived runs, if the plan's index finds keys.
  void CollectIndexes(LayerId layer, const attention::LayerCall& call);
  void EndCall(LayerId layer);
  // Holds the rows of the call's parts in memory if derived objects will be held as well.
  Status HoldRows();
  // Tells the host that rows could not be read.
  void ReportFailure(storage::ChainSource* rows) const;
  // Replaces runs of the chain by merged segments, if the merged segment has the derived objects of
  // its run.
  void TakeMerged();
  // Waits for the Store that is under way, if there is one, and moves to its chain. Only the caller
  // of that Store gets its error.
  void FinishStore();
  // Ok if no step is under way.
  Status CheckComplete() const;
  // Ok if K and V of all tokens are those of one whole prompt.
  Status CheckStorable() const;
  // Moves to the chain of a background Store, if it has ended well and there is memory for the
  // move. Else the session keeps its data.
  void TakeStored();
  Status Fail(Status status);
  // The search for a layer's physical plan; a new one if the plan has changed.
  const index::CriticalSearch* SearchFor(LayerId layer, const planner::LayerPlan& plan);
  uint64_t LayerTokens(LayerId layer) const {
    return chain_.num_tokens() + tail_.num_tokens(layer);
  }
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
  const uint64_t kv_bytes_per_token_;  // Bytes of one token in all layers.

  planner::Plan plan_;
  planner::LearnedState learned_;
  planner::Objectives objectives_;
  // By layer: its last plan, and the search for that plan.
  std::vector<planner::LayerPlan> physical_;
  std::vector<std::unique_ptr<const index::CriticalSearch>> searches_;
  SessionChain chain_;
  // The counters' values at the last Renew.
  uint64_t num_merged_seen_ = 0;
  uint64_t objects_version_seen_ = kNever;
  uint64_t runs_version_ = 0;  // Grows when the chain changes, or blocks_ are cropped.
  storage::KvTail tail_;
  // Blocks of the tail's first tokens. A block may lack layers that derive nothing; other layers
  // are added when calls reach them.
  std::vector<std::shared_ptr<storage::TailBlock>> blocks_;
  QuerySample query_sample_;
  TokenFilter filter_;
  // The first token that was appended while a filter hid others. From here on, K and V differ from
  // those of the whole prompt.
  uint64_t filtered_from_ = kNever;
  Truncation truncation_;
  std::optional<TurnTables> turns_;  // Set if tokens were dropped, or after Rebase.
  // The difference between the session's positions and those of the engine.
  int64_t position_shift_ = 0;

  std::optional<StoreUnderWay> store_under_way_;
  ForkPoints forks_;  // With more tokens than the chain has.

  LayerId next_layer_ = 0;
  uint64_t step_rows_ = 0;
  std::atomic<bool> failed_ = false;  // Parts read it while another part ends its call.
  std::vector<LayerStats> stats_;
  std::vector<float> convert_scratch_;
  // During a Search: the call puts the selected tokens of each q head here and does not attend.
  // Else null.
  CriticalTokens* found_ = nullptr;
  std::vector<uint8_t> appended_non_finite_;  // [kv head]: the Append under way has NaN or Inf.

  // One Attend: the first part through the gate sets up the members below, and the last part that
  // leaves ends the call. In between, parts share runner_, which is made for that.
  CallGate gate_;
  Status call_status_;                     // Status of BeginCall.
  std::atomic<bool> part_failed_ = false;  // Relaxed: the gate orders it.
  attention::CallRunner runner_;
  attention::OperatorChoice operators_;
  std::vector<derived::LayerObjectsPtr> planes_;          // [derived run]
  std::vector<derived::LayerObjectsPtr> layer_values_;    // [derived run]
  std::vector<derived::LayerObjectsPtr> layer_means_;     // [derived run]
  std::vector<derived::LayerObjectsPtr> layer_sums_;      // [derived run]
  std::vector<derived::LayerObjectsPtr> layer_indexes_;   // [derived run]
  std::vector<derived::LayerObjectsPtr> layer_rankings_;  // [segment of the chain]
  const std::unique_ptr<storage::ChainSource> rows_;
  std::vector<attention::RunPart> parts_of_runs_;
  // [run]: calls read rows or derived objects of it, for tokens that have not moved.
  std::vector<uint8_t> reads_run_;
  std::vector<const index::KeyEstimates*> estimates_;  // [kv head][part], or empty: none are read.
  std::vector<const kernels::ValuePlanesView*> values_;  // [kv head][part], or empty.
  std::vector<const kernels::ValueMeansView*> means_;    // [kv head][part], or empty.
  std::vector<const index::ClusterSums*> sums_;          // [kv head][part], or empty.
  std::vector<const index::TokenRanking*> rankings_;     // [kv head][part], or empty.
  std::vector<const index::KeyIndex*> indexes_;          // [kv head][part], or empty.
  std::vector<ReadyObjects> ready_;                      // [layer]
  std::vector<AwaitedRuns> awaited_;                     // [layer], since the plan was set.
  LayerFacts facts_;
  planner::LayerExecution execution_;
  std::vector<planner::DrawBudget> budgets_;  // [kv head], for a plan that draws.
  std::vector<uint8_t> runs_full_;            // [kv head]: runs `full`.
  std::vector<uint8_t> by_index_;  // [kv head]: chooses by the plan's index; others scan.
  bool lacks_index_ = false;       // A derived run lacks an index that it could have.
  // The call has no memory for scratch in addition to derived objects, and uses no objects.
  bool no_memory_ = false;
  // While a call is tallied: tokens of the middle by part, and tokens of derived runs.
  std::vector<uint64_t> tallied_tokens_;
  std::vector<uint64_t> run_tokens_;
  std::vector<planner::HeadObservation> observed_;
};

}  // namespace attndb::internal

#endif  // ATTNDB_SESSION_SESSION_IMPL_H_
