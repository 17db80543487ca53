// SessionImpl: what ran of what a layer's plan asks for.
//
// A call is tallied once it has ended, by the lists that it ran with. Before a call the same tally
// is made of what is ready, and tells what would run.
#include <algorithm>
#include <array>

#include "session/session_impl.h"

namespace attndb::internal {
namespace {

using planner::Cause;
using planner::RanTally;
using planner::Wanted;

// A derived kind that a plan reads of the tokens that it chooses among.
struct WantedRead {
  Wanted wanted = Wanted::kQuery;
  const derived::Kind* kind = nullptr;
};

// The kinds that `plan` reads, the index first.
class Reads {
 public:
  Reads(const planner::LayerExecution& execution, const derived::Kinds& kinds) {
    const planner::LayerPlan& plan = execution.plan;
    if (!execution.priced || !plan.ReadsDerived()) return;
    const auto add = [&](Wanted wanted, std::string_view use) {
      list_[count_++] = {wanted, &kinds.ForUse(use)};
    };
    if (plan.UsesIndex()) add(Wanted::kIndex, plan.FindsBy());
    if (plan.ReadsPlanes()) add(Wanted::kKeyPlanes, derived::kKeyPlanes);
    if (plan.value_bits != 0) add(Wanted::kValuePlanes, derived::kValuePlanes);
    if (plan.remainder == planner::Remainder::kMean) add(Wanted::kMeans, derived::kValueMeans);
    if (plan.EstimatesByClusters()) add(Wanted::kClusters, plan.EstimatesBy());
    if (plan.HasStatic()) add(Wanted::kStatic, derived::kStaticPrefill);
  }

  std::span<const WantedRead> list() const { return {list_.data(), count_}; }

 private:
  std::array<WantedRead, planner::kNumWanted> list_;
  size_t count_ = 0;
};

// One call, or one that would be made.
struct Tallied {
  const planner::LayerExecution* execution = nullptr;
  bool index_is_asked = false;     // By the plan's text; the optimizer may take another method.
  double rows = 1;                 // Rows of q.
  uint64_t num_tokens = 0;         // Tokens that the newest row sees.
  uint64_t num_middle = 0;         // Those of the middle.
  std::span<const uint64_t> runs;  // Tokens of the middle, piece by piece.
};

// Adds what a head of the call reads; cause_of(read, piece) is kNone where it is there.
template <typename CauseOf>
void AddHead(const Tallied& call, const planner::HeadExecution& head,
             std::span<const WantedRead> reads, const CauseOf& cause_of, RanTally* ran) {
  const bool scans = call.execution->offers_index && head.method != planner::Method::kIndex;
  for (size_t piece = 0; piece < call.runs.size(); ++piece) {
    const double weight = call.rows * static_cast<double>(call.runs[piece]);
    if (weight == 0) continue;
    bool by_index = false;
    for (const WantedRead& read : reads) {
      if (read.wanted == Wanted::kIndex && scans) {
        if (call.index_is_asked) ran->Add(Wanted::kIndex, Cause::kScanCheaper, weight);
        continue;
      }
      // A draw by an index has estimates of its own.
      if (read.wanted == Wanted::kKeyPlanes && by_index) continue;
      const Cause cause = cause_of(read, piece);
      by_index = by_index || (read.wanted == Wanted::kIndex && cause == Cause::kNone);
      ran->Add(read.wanted, cause, weight);
    }
  }
}

template <typename CauseOf>
void AddCall(const Tallied& call, std::span<const WantedRead> reads, const CauseOf& cause_of,
             RanTally* ran) {
  const planner::LayerExecution& execution = *call.execution;
  ran->Begin(execution.plan);
  for (const WantedRead& read : reads)
    ran->SetLeastTokens(read.wanted, read.kind->traits().min_tokens);
  const double weight = call.rows * static_cast<double>(call.num_middle);
  for (uint32_t i = 0; i < execution.heads.size(); ++i) {
    const planner::HeadExecution& head = execution.heads[i];
    if (head.reason == planner::Reason::kRule) {
      ran->AddRule(execution.full_reason, call.rows * static_cast<double>(call.num_tokens));
      continue;
    }
    const bool is_finite = head.reason != planner::Reason::kNonFinite;
    ran->Add(Wanted::kQuery, is_finite ? Cause::kNone : Cause::kNonFinite, weight);
    if (!is_finite) continue;
    if (head.method == planner::Method::kFull) {
      if (call.index_is_asked) ran->Add(Wanted::kIndex, Cause::kFullCheaper, weight);
      continue;
    }
    const auto of_head = [&](const WantedRead& read, size_t piece) {
      return cause_of(i, read, piece);
    };
    AddHead(call, head, reads, of_head, ran);
  }
}

uint64_t NumIn(TokenRange range, uint64_t begin, uint64_t end) {
  const uint64_t first = std::max(range.begin, begin);
  return std::max(first, std::min(range.end, end)) - first;
}

}  // namespace

Cause SessionImpl::CauseOf(const derived::Kind& kind, uint64_t run, LayerId layer) const {
  const bool of_segments = kind.traits().use == derived::kStaticPrefill;
  if (of_segments && run >= entries().size()) return Cause::kNotStored;
  if (run >= NumDerivedRuns(layer)) return Cause::kTooFewTokens;
  return kind.MayHave(DerivedRun(run).num_tokens()) ? Cause::kNotBuilt : Cause::kTooFewTokens;
}

bool SessionImpl::CallHas(Wanted wanted, size_t place) const {
  const auto has = [place](const auto& list) {
    return place < list.size() && list[place] != nullptr;
  };
  switch (wanted) {
    case Wanted::kIndex:
      return has(indexes_);
    case Wanted::kKeyPlanes:
      return has(estimates_);
    case Wanted::kValuePlanes:
      return has(values_);
    case Wanted::kMeans:
      return has(means_);
    case Wanted::kClusters:
      return has(sums_);
    case Wanted::kStatic:
      return has(rankings_);
    case Wanted::kQuery:
      return true;
  }
  return true;
}

const std::vector<derived::LayerObjectsPtr>& SessionImpl::ObjectsOf(Wanted wanted) const {
  switch (wanted) {
    case Wanted::kKeyPlanes:
      return planes_;
    case Wanted::kValuePlanes:
      return layer_values_;
    case Wanted::kMeans:
      return layer_means_;
    case Wanted::kClusters:
      return layer_sums_;
    case Wanted::kStatic:
      return layer_rankings_;
    case Wanted::kIndex:
    case Wanted::kQuery:
      return layer_indexes_;
  }
  return layer_indexes_;
}

Cause SessionImpl::CauseInCall(Wanted wanted, const derived::Kind& kind, uint32_t head,
                               size_t piece, LayerId layer) const {
  if (no_memory_) return Cause::kNoMemory;
  if (CallHas(wanted, head * parts_of_runs_.size() + piece)) return Cause::kNone;
  const attention::RunPart& part = parts_of_runs_[piece];
  if (part.turn != 0) return Cause::kMoved;
  const std::vector<derived::LayerObjectsPtr>& objects = ObjectsOf(wanted);
  if (part.run < objects.size() && objects[part.run] != nullptr) return Cause::kNothing;
  const std::vector<derived::KindSet>& ready = ready_[layer].kinds;
  const bool is_ready =
      part.run < ready.size() && ready[part.run].test(parts_.kinds->NumberOf(kind));
  return is_ready ? Cause::kNoMemory : CauseOf(kind, part.run, layer);
}

// Prompts of more than dense_query_tokens rows run full under every plan, and are not tallied.
void SessionImpl::TallyCall(LayerId layer, uint64_t num_rows) {
  const planner::LayerPlan& plan = execution_.plan;
  if (plan.kind == planner::QueryKind::kFull || num_rows > settings_.dense_query_tokens) return;
  const planner::ChainFacts& chain = facts_.chain;
  const TokenRange middle = plan.MiddleOf(chain.num_tokens, chain.num_stored_seen);
  tallied_tokens_.clear();
  uint64_t begin = 0;
  for (const attention::RunPart& part : parts_of_runs_) {
    tallied_tokens_.push_back(NumIn(middle, begin, begin + part.num_tokens));
    begin += part.num_tokens;
  }
  const Tallied call = {
      &execution_,      plan_.ForLayer(layer).UsesIndex(), static_cast<double>(num_rows),
      chain.num_tokens, middle.end - middle.begin,         tallied_tokens_};
  const Reads reads(execution_, *parts_.kinds);
  RanTally& ran = stats_[layer].ran;
  AddCall(
      call, reads.list(),
      [&](uint32_t head, const WantedRead& read, size_t piece) {
        return CauseInCall(read.wanted, *read.kind, head, piece, layer);
      },
      &ran);
  if (plan.Finds() && !no_memory_) TallyFullScans(layer, call.rows, &ran);
}

// An index tells how many of its searches scored every key: one for each row, head and run.
void SessionImpl::TallyFullScans(LayerId layer, double rows, RanTally* ran) const {
  const size_t num_parts = parts_of_runs_.size();
  for (uint32_t head = 0; head < stats_[layer].last_heads.size(); ++head) {
    const auto num_scans = static_cast<double>(stats_[layer].last_heads[head].num_full_scans);
    if (num_scans == 0) continue;
    double num_searched = 0;
    double num_tokens = 0;
    for (size_t part = 0; part < num_parts; ++part) {
      if (tallied_tokens_[part] == 0 || !CallHas(Wanted::kIndex, head * num_parts + part)) continue;
      num_searched += rows;
      num_tokens += rows * static_cast<double>(tallied_tokens_[part]);
    }
    if (num_searched == 0) continue;
    ran->MoveToLessWork(num_tokens * std::min(1.0, num_scans / num_searched));
  }
}

RanTally SessionImpl::RanOf(LayerId layer, const LayerFacts& facts,
                            const planner::LayerExecution& execution) const {
  RanTally ran = stats_[layer].ran;
  const planner::LayerPlan& plan = execution.plan;
  if (!ran.empty() || plan.kind == planner::QueryKind::kFull) return ran;
  const planner::ChainFacts& chain = facts.chain;
  const TokenRange middle = plan.MiddleOf(chain.num_tokens, chain.num_stored_seen);
  std::vector<uint64_t> runs;
  uint64_t begin = 0;
  for (const planner::RunFacts& run : facts.runs) {
    runs.push_back(NumIn(middle, begin, begin + run.num_tokens));
    begin += run.num_tokens;
  }
  std::vector<derived::KindSet> ready;
  FindReady(layer, &ready);
  const Tallied call = {&execution,       plan_.ForLayer(layer).UsesIndex(), 1,
                        chain.num_tokens, middle.end - middle.begin,         runs};
  const Reads reads(execution, *parts_.kinds);
  AddCall(
      call, reads.list(),
      [&](uint32_t, const WantedRead& read, size_t run) {
        const bool is_ready =
            run < ready.size() && ready[run].test(parts_.kinds->NumberOf(*read.kind));
        return is_ready ? Cause::kNone : CauseOf(*read.kind, run, layer);
      },
      &ran);
  return ran;
}

}  // namespace attndb::internal
