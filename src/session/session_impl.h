// A session's state: the chain of sealed segments that it reads, its tail, its plan.
//
// Chain:   entries (segment, tokens of it that the session has), oldest first; then the tail. Over
//          several contexts, the entries of one follow those of the other. Crop shortens entries;
//          Store moves the tail into a new entry. Where the plan reads derived objects, complete
//          blocks of the tail are runs from which objects are derived, as segments are.
// Step:    layer 0 appends n tokens, then layer 1 the same n, ... next_layer_ is the layer whose
//          turn it is. An error inside a step sets failed_, which Crop and Reset clear.
// Threads: as session.h: one thread at a time, but for AttendPart.
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

// What a session starts from.
struct SessionSeed {
  std::shared_ptr<SessionHost> host;  // Stays open as long as it has sessions.
  std::string tenant;
  ModelSpec spec;  // Defaults resolved.
  std::shared_ptr<const storage::KvShape> shape;
  planner::Plan plan;
  SessionChain::Contents chain;
  std::vector<Cut> cuts;  // Those of the chain's history.
  // How rows are turned to other positions. REQUIRES: there are some if there are cuts.
  std::optional<TurnTables> turns;
};

// What a Store takes of a session: its chain, and its tail as it is now, for a new segment.
struct SessionSnapshot {
  std::string tenant;
  ModelSpec spec;
  int64_t first_position = 0;
  ContextId base = ContextId::kNone;
  std::vector<ChainEntry> chain;
  uint64_t num_stored = 0;  // Tokens of the chain.
  std::vector<Cut> cuts;
  std::shared_ptr<storage::SegmentSource> tail;
};

// A Store of the session's tokens that goes on behind it.
struct StoreUnderWay {
  std::future<Result<HeldChain>> held;  // What holds the tokens once they are durable.
  std::vector<TokenId> tokens;
};

// What a layer of a session has.
struct LayerProgress {
  uint64_t num_tokens = 0;    // Those of a step that is under way among them.
  bool is_in_memory = false;  // All stored K and V are, and what its plan reads of their objects.
  // Its plan waits for objects, and there are tokens for which it has not waited.
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
  // Loses what left a history that is taken over: the cut is one of a session of as many tokens.
  Status Lose(const attndb::Cut& cut);
  Status Rebase(int64_t position);
  Result<std::vector<TokenRange>> HeaviestTokens(TokenRange among, uint64_t num_tokens);
  Status SetPlan(std::string_view text);
  Status Load();
  Status AwaitDerived(LayerId layer, const WaitOptions& options);
  attndb::Explain Explain() const;
  Result<LayerExplain> ExplainLayer(LayerId layer) const;

  const ModelSpec& spec() const { return spec_; }
  // What is durable of it.
  const SessionChain& chain() const { return chain_; }
  uint64_t num_tokens() const { return chain_.num_tokens() + tail_.num_tokens(); }
  // What a layer has. REQUIRES: it exists.
  LayerProgress ProgressOf(LayerId layer) const;
  // What it has in common with the sessions of its store.
  const SessionParts& parts() const { return parts_; }
  int64_t next_position() const { return chain_.PositionAfter(num_tokens()) - position_shift_; }
  const Truncation& truncation() const { return truncation_; }
  uint64_t memory_bytes() const { return tail_.memory_bytes() + chain_.resident_bytes(); }
  bool BelongsTo(const SessionHost* host, std::string_view tenant) const {
    return host_.get() == host && tenant_ == tenant;
  }
  // Offers rows of q, of tokens that were appended, to the sample that is stored with these.
  // `first_token`: index of the first row's in the session.
  void SampleQueries(LayerId layer, const TensorView& q, uint64_t first_token);

  // What a Store takes; `tokens` are the ids of all tokens of the session. Copies no K, V or q.
  // Waits for a Store that is under way.
  // Errors: kInvalidArgument (no tokens, or they are not the session's); kFailedPrecondition (a
  //         step is under way, or K and V are not those of one whole prompt).
  Result<SessionSnapshot> Snapshot(std::span<const TokenId> tokens);
  // Continues the session on a chain that holds `tokens`, which are its first tokens: those of them
  // that were in the tail leave it. Returns what it had.
  // Errors: kResourceExhausted (memory for what stays in the tail); nothing has changed then.
  Result<HeldChain> MoveTo(HeldChain held, std::span<const TokenId> tokens);
  // The session moves to what this Store gives, in the first step after the Store has ended.
  // REQUIRES: no other is under way.
  void AwaitStore(StoreUnderWay store);
  // Moves to what was stored or merged behind the session, if something was, and no step and no
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

  // What is known of a layer's chain without reading its rows, with the memory for it.
  struct LayerFacts {
    planner::ChainFacts chain;
    std::vector<planner::RunFacts> runs;
    std::vector<uint8_t> non_finite;
  };
  static constexpr uint64_t kNever = ~uint64_t{0};  // No version has this value.
  // Which objects of a layer are ready, for its derived runs: bit i stands for derived kind i.
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
  // The runs that there are now.
  AwaitedRuns RunsToAwait(LayerId layer, const planner::LayerPlan& plan) const;
  // Whether this plan may read objects derived from blocks of the tail, in this layer.
  bool DerivesFromTail(LayerId layer, const planner::LayerPlan& plan) const;
  // Whether the layer has complete tokens in the tail that are in no block yet.
  bool LacksBlocks(LayerId layer) const;
  // Makes blocks of the tail's tokens that are complete in the layer.
  void JoinTail(LayerId layer);
  // As JoinTail, while a prompt is read; also asks for the index that the plan names.
  void DeriveWhileReading(LayerId layer);
  void CropBlocks(uint64_t num_tail);
  // The blocks that a fork may share.
  std::vector<std::shared_ptr<storage::TailBlock>> WholeBlocks() const;
  // The layer's runs from which objects are derived, by number: segments, then blocks of the tail.
  // They are the layer's first runs.
  uint64_t NumDerivedRuns(LayerId layer) const;
  const storage::KvRun& DerivedRun(uint64_t run) const;
  // Number of the run's tokens that the session has.
  uint64_t TokensUsed(uint64_t run) const;
  // The first row of the run that the session has.
  uint64_t FirstRow(uint64_t run) const {
    return run < entries().size() ? entries()[run].first_token : 0;
  }
  const std::vector<ChainEntry>& entries() const { return chain_.entries(); }
  // Calls f(range, turn) for the parts of `tokens` that calls attend to: those that the filter does
  // not hide and that have not left. turn: as Truncation::ForEachKept.
  template <typename F>
  void ForEachSeen(TokenRange tokens, const F& f) const {
    filter_.ForEachSeen(tokens, [&](TokenRange part) { truncation_.ForEachKept(part, f); });
  }
  uint64_t NumSeen(TokenRange tokens) const;
  uint64_t NumSeen(LayerId layer) const { return NumSeen({0, LayerTokens(layer)}); }
  // Index of the i-th token that is seen. REQUIRES: there is one.
  uint64_t SeenToken(uint64_t i) const;
  // Tokens from here on are all seen.
  uint64_t SeenFrom() const { return std::max(filter_.end(), truncation_.end()); }
  // Sampled queries of the newest stored tokens.
  Result<std::optional<storage::LayerQueries>> StoredQueries(LayerId layer) const;
  // Adds a layer's weights to the mass, by the queries that are sampled.
  Status AddMass(LayerId layer, AttentionMass* mass) const;
  // Number of tokens that are seen, of the session's first `num_tokens`, for each row's token: its
  // index counts from `first_token`.
  std::vector<uint64_t> SeenBefore(const storage::QueryRows& rows, uint64_t first_token) const;
  // Makes the turn tables if there are none. Errors: as TurnTables::Of.
  Status MakeTurns();
  // Tells the turn tables what has left.
  void FollowTruncation();
  // How q and k of the layer are turned as they come in; null: not at all.
  const Turn* ShiftOf(LayerId layer) const {
    return position_shift_ == 0 ? nullptr : turns_->ShiftOf(layer);
  }
  // The run's objects of the kind if they are ready; else null, and they are asked for.
  derived::LayerObjectsPtr GetObjects(uint64_t run, const derived::Kind& kind, LayerId layer) const;
  derived::Lanes::AddedPtr JobOf(uint64_t run, const derived::Kind& kind, LayerId layer) const;
  bool AwaitsDerived(LayerId layer) const;
  // Whether no object that its plan reads would be read from a file.
  bool DerivedIsInMemory(LayerId layer) const;
  void FindReady(LayerId layer, std::vector<derived::KindSet>* kinds) const;
  // Fills `facts`; `ready` is what FindReady found.
  void FindFacts(LayerId layer, std::span<const derived::KindSet> ready, LayerFacts* facts) const;
  // The same, after finding out what is ready.
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
  // What the layer would run if no head explored.
  planner::LayerExecution Preview(LayerId layer, const LayerFacts& facts) const;
  // Decides what the layer's call runs: fills execution_ from facts_.
  void PlanCall(LayerId layer, uint64_t num_rows, uint32_t num_parts);
  // Lists the rows of the layer's segments and of the tail, each run from its first row on. Reads
  // none of them.
  void ListRuns(LayerId layer, storage::ChainSource* rows) const;
  // Lists the parts of rows_'s runs that are seen.
  void ListParts();
  // The parts of the runs of `rows` that are seen, in order.
  void ListPartsOf(const storage::ChainSource& rows, std::vector<attention::RunPart>* parts) const;
  // Asks for the planes that the plan would read and that are not ready.
  void AskForPlanes(LayerId layer);
  // Collects the derived objects that the execution reads. Runs whose objects turn out to be
  // missing are read exactly.
  void CollectDerived(LayerId layer, attention::LayerCall* call);
  // Lets go of the derived objects.
  void ForgetDerived();
  void TakeExecution(LayerId layer, attention::LayerCall* call);
  // Ends a call whose parts have not all come.
  void GiveUpCall();
  void NoteCost(LayerId layer, uint64_t num_rows);
  void ObserveCall(LayerId layer, uint64_t num_rows);
  // Adds the call that has ended to what ran.
  void TallyCall(LayerId layer, uint64_t num_rows);
  // Lists the numbers of tokens of the layer's derived runs.
  void FindRunTokens(LayerId layer, std::vector<uint64_t>* tokens) const;
  // What ran since the plan was set; before the first call, what would run.
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
  // What each part is asked, whatever the state of the call: errors of a step that failed and of
  // arguments alone.
  Status CheckViews(LayerId layer, const TensorView& q, const MutableTensorView& out) const;
  Status CheckAttend(LayerId layer, const TensorView& q, const MutableTensorView& out) const;
  Status CheckRead(LayerId layer, TokenRange range, const MutableTensorView& k,
                   const MutableTensorView& v) const;
  // Plans the call, lists its rows, and has the runner begin it.
  Status BeginCall(LayerId layer, const TensorView& q, const MutableTensorView& out, float* lse,
                   uint32_t num_parts);
  // Collects the objects that find keys or estimate scores, for the plan that `call` has.
  void CollectForScores(LayerId layer, attention::LayerCall* call);
  // Fills `objects` [derived run] with those of the kind that are ready, and asks for the others.
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
  // Holds the rows of the call's parts in memory where derived objects will be held as well.
  Status HoldRows();
  // Tells the host that rows could not be read.
  void ReportFailure(storage::ChainSource* rows) const;
  // Puts merged segments in the place of runs of the chain, as far as each has what is derived from
  // its run.
  void TakeMerged();
  // Waits for the Store that is under way, if there is one, and moves. Its error is told to who
  // asked for it alone.
  void FinishStore();
  // Ok if no step is under way.
  Status CheckComplete() const;
  // Ok if K and V of all tokens are those of one whole prompt.
  Status CheckStorable() const;
  // Moves to what a Store behind the session gave, if that has ended well, and there is memory to
  // move; else the session goes on with all that it has.
  void TakeStored();
  Status Fail(Status status);
  // The search for a layer's physical plan; made anew if the plan has changed.
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
  // By layer: the plan that it ran last, and the search for that.
  std::vector<planner::LayerPlan> physical_;
  std::vector<std::unique_ptr<const index::CriticalSearch>> searches_;
  SessionChain chain_;
  // What Renew was asked for last.
  uint64_t num_merged_seen_ = 0;
  uint64_t objects_version_seen_ = kNever;
  uint64_t runs_version_ = 0;  // Grows when the chain changes, or blocks_ are cropped.
  storage::KvTail tail_;
  // Blocks of the tail's first tokens. A layer that derives nothing may be missing in any of them;
  // other layers are added as calls reach them.
  std::vector<std::shared_ptr<storage::TailBlock>> blocks_;
  QuerySample query_sample_;
  TokenFilter filter_;
  // The first token that was appended while a filter hid others: its K and V, and those after it,
  // are not those of the whole prompt.
  uint64_t filtered_from_ = kNever;
  Truncation truncation_;
  std::optional<TurnTables> turns_;  // There are some if something has left, or after Rebase.
  // By how much the session's positions are beyond those that the engine gives.
  int64_t position_shift_ = 0;

  std::optional<StoreUnderWay> store_under_way_;

  LayerId next_layer_ = 0;
  uint64_t step_rows_ = 0;
  std::atomic<bool> failed_ = false;  // Parts ask it while another part ends its call.
  std::vector<LayerStats> stats_;
  std::vector<float> convert_scratch_;
  // During a Search, where the call puts the tokens that it selects for each q head; it does not
  // attend. Else null.
  CriticalTokens* found_ = nullptr;
  std::vector<uint8_t> appended_non_finite_;  // [kv head]: the Append under way has NaN or Inf.

  // One Attend: the first part that comes through the gate sets up what follows, the last that
  // leaves ends it; in between, parts share runner_, which is made for that.
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
  // [run]: calls read rows or derived objects of it, for tokens that stand where they were.
  std::vector<uint8_t> reads_run_;
  std::vector<const index::KeyEstimates*> estimates_;  // [kv head][part], or empty: none are read.
  std::vector<const kernels::ValuePlanesView*> values_;  // Likewise.
  std::vector<const kernels::ValueMeansView*> means_;    // Likewise.
  std::vector<const index::ClusterSums*> sums_;          // Likewise.
  std::vector<const index::TokenRanking*> rankings_;     // Likewise.
  std::vector<const index::KeyIndex*> indexes_;          // Likewise.
  std::vector<ReadyObjects> ready_;                      // [layer]
  std::vector<AwaitedRuns> awaited_;                     // [layer], since the plan was set.
  LayerFacts facts_;
  planner::LayerExecution execution_;
  std::vector<planner::DrawBudget> budgets_;  // [kv head], for a plan that draws.
  std::vector<uint8_t> runs_full_;            // [kv head]: it runs `full`.
  std::vector<uint8_t> by_index_;  // [kv head]: it chooses by the plan's index; others scan.
  bool lacks_index_ = false;       // A derived run lacks an index that it may have.
  bool no_memory_ = false;         // The call has no scratch beside derived objects, and has none.
  // While a call is tallied: tokens of the middle by part, and tokens of derived runs.
  std::vector<uint64_t> tallied_tokens_;
  std::vector<uint64_t> run_tokens_;
  std::vector<planner::HeadObservation> observed_;
};

}  // namespace attndb::internal

#endif  // ATTNDB_SESSION_SESSION_IMPL_H_
