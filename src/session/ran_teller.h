// Tallies the parts of a layer's plan that ran. A call is tallied once it has ended, from the lists
// that it ran with. Before the first call, the tally is made of the objects that are ready.
//
// Memory:  the caller's; nothing is allocated.
// Threads: one thread; the views must outlive the teller.
#ifndef ATTNDB_SESSION_RAN_TELLER_H_
#define ATTNDB_SESSION_RAN_TELLER_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "attention/call_cost.h"
#include "attention/layer_call.h"
#include "derived/cache.h"
#include "derived/kinds.h"
#include "index/cluster_sums.h"
#include "index/key_estimates.h"
#include "index/key_index.h"
#include "index/token_ranking.h"
#include "kernels/value_planes.h"
#include "planner/execution.h"
#include "planner/facts.h"
#include "planner/ran.h"

namespace attndb::internal {

// A layer, its plan and its ready objects.
struct LayerToTell {
  const planner::LayerExecution* execution = nullptr;
  const planner::ChainFacts* chain = nullptr;
  const derived::Kinds* kinds = nullptr;
  // The plan's text asks for it; the optimizer may choose another method.
  bool index_is_asked = false;
  uint64_t num_segments = 0;                // The segments are the first runs.
  std::span<const uint64_t> run_tokens;     // [derived run]: tokens of the whole run.
  std::span<const derived::KindSet> ready;  // [derived run]
};

// A call that has ended.
struct CallToTell {
  uint64_t num_rows = 0;
  std::span<const attention::RunPart> parts;
  std::span<const attention::CallCost> head_costs;  // [kv head]
  bool no_memory = false;                           // There was no memory for derived objects.
  // [kv head][part], or empty; null: the call had no such object there.
  std::span<const index::KeyIndex* const> indexes;
  std::span<const index::KeyEstimates* const> estimates;
  std::span<const kernels::ValuePlanesView* const> values;
  std::span<const kernels::ValueMeansView* const> means;
  std::span<const index::ClusterSums* const> sums;
  std::span<const index::TokenRanking* const> rankings;
  // By planner::Wanted: the objects that the call held, [derived run], or empty.
  std::array<std::span<const derived::LayerObjectsPtr>, planner::kNumWanted> held;
};

class RanTeller {
 public:
  // `spare`: memory that is overwritten.
  RanTeller(const LayerToTell& layer, std::vector<uint64_t>* spare)
      : layer_(layer), plan_(layer.execution->plan), pieces_(*spare) {}

  // Adds a call to the tally.
  void AddCall(const CallToTell& call, planner::RanTally* ran);
  // Adds a call of one row with the objects that are ready now. `runs`: all runs of the layer, in
  // order.
  void AddOutlook(std::span<const planner::RunFacts> runs, planner::RanTally* ran);

 private:
  // A derived kind that a plan reads for the tokens that it chooses among.
  struct Read {
    planner::Wanted wanted = planner::Wanted::kQuery;
    const derived::Kind* kind = nullptr;
  };
  // The kinds that the plan reads, the index first.
  struct Reads {
    std::array<Read, planner::kNumWanted> list;
    size_t count = 0;
  };

  Reads FindReads() const;
  // Writes to pieces_ the number of tokens of each piece that the plan chooses among.
  template <typename Piece>
  void CountPieces(std::span<const Piece> pieces);
  // Adds a call; cause_of(kv head, read, piece) is kNone if the call had the object there.
  template <typename CauseFn>
  void Add(double rows, const CauseFn& cause_of, planner::RanTally* ran) const;
  template <typename CauseFn>
  void AddHead(const planner::HeadExecution& head, const Reads& reads, double rows,
               const CauseFn& cause_of, planner::RanTally* ran) const;
  static bool Has(const CallToTell& call, planner::Wanted wanted, size_t place);
  void AddFullScans(const CallToTell& call, planner::RanTally* ran) const;
  bool IsReady(uint64_t run, const derived::Kind& kind) const;
  // The reason why the run has no ready object of the kind.
  planner::Cause CauseOf(const derived::Kind& kind, uint64_t run) const;
  planner::Cause CauseInCall(const CallToTell& call, const Read& read, uint32_t head,
                             size_t piece) const;

  const LayerToTell& layer_;
  const planner::LayerPlan& plan_;
  std::vector<uint64_t>& pieces_;
};

}  // namespace attndb::internal

#endif  // ATTNDB_SESSION_RAN_TELLER_H_
