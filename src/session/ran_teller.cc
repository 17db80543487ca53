#include "session/ran_teller.h"

#include <algorithm>
#include <string_view>

namespace attndb::internal {
namespace {

using planner::Cause;
using planner::RanTally;
using planner::Wanted;

uint64_t NumIn(TokenRange range, uint64_t begin, uint64_t end) {
  const uint64_t first = std::max(range.begin, begin);
  return std::max(first, std::min(range.end, end)) - first;
}

}  // namespace

RanTeller::Reads RanTeller::FindReads() const {
  Reads reads;
  if (!layer_.execution->priced || !plan_.ReadsDerived()) return reads;
  const auto add = [&](Wanted wanted, std::string_view use) {
    reads.list[reads.count++] = {wanted, &layer_.kinds->ForUse(use)};
  };
  if (plan_.UsesIndex()) add(Wanted::kIndex, plan_.FindsBy());
  if (plan_.ReadsPlanes()) add(Wanted::kKeyPlanes, derived::kKeyPlanes);
  if (plan_.value_bits != 0) add(Wanted::kValuePlanes, derived::kValuePlanes);
  if (plan_.remainder == planner::Remainder::kMean) add(Wanted::kMeans, derived::kValueMeans);
  if (plan_.EstimatesByClusters()) add(Wanted::kClusters, plan_.EstimatesBy());
  if (plan_.HasStatic()) add(Wanted::kStatic, derived::kStaticPrefill);
  return reads;
}

template <typename Piece>
void RanTeller::CountPieces(std::span<const Piece> pieces) {
  const TokenRange middle = plan_.MiddleOf(layer_.chain->num_tokens, layer_.chain->num_stored_seen);
  pieces_.clear();
  uint64_t begin = 0;
  for (const Piece& piece : pieces) {
    pieces_.push_back(NumIn(middle, begin, begin + piece.num_tokens));
    begin += piece.num_tokens;
  }
}

template <typename CauseFn>
void RanTeller::AddHead(const planner::HeadExecution& head, const Reads& reads, double rows,
                        const CauseFn& cause_of, RanTally* ran) const {
  const bool scans = layer_.execution->offers_index && head.method != planner::Method::kIndex;
  for (size_t piece = 0; piece < pieces_.size(); ++piece) {
    const double weight = rows * static_cast<double>(pieces_[piece]);
    if (weight == 0) continue;
    bool by_index = false;
    for (const Read& read : std::span(reads.list).first(reads.count)) {
      if (read.wanted == Wanted::kIndex && scans) {
        if (layer_.index_is_asked) ran->Add(Wanted::kIndex, Cause::kScanCheaper, weight);
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

template <typename CauseFn>
void RanTeller::Add(double rows, const CauseFn& cause_of, RanTally* ran) const {
  const planner::LayerExecution& execution = *layer_.execution;
  const planner::ChainFacts& chain = *layer_.chain;
  const Reads reads = FindReads();
  ran->Begin(plan_);
  for (const Read& read : std::span(reads.list).first(reads.count)) {
    ran->SetLeastTokens(read.wanted, read.kind->traits().min_tokens);
  }
  const TokenRange middle = plan_.MiddleOf(chain.num_tokens, chain.num_stored_seen);
  const double weight = rows * static_cast<double>(middle.end - middle.begin);
  for (uint32_t i = 0; i < execution.heads.size(); ++i) {
    const planner::HeadExecution& head = execution.heads[i];
    if (head.reason == planner::Reason::kRule) {
      ran->AddRule(execution.full_reason, rows * static_cast<double>(chain.num_tokens));
      continue;
    }
    const bool is_finite = head.reason != planner::Reason::kNonFinite;
    ran->Add(Wanted::kQuery, is_finite ? Cause::kNone : Cause::kNonFinite, weight);
    if (!is_finite) continue;
    if (head.method == planner::Method::kFull) {
      if (layer_.index_is_asked) ran->Add(Wanted::kIndex, Cause::kFullCheaper, weight);
      continue;
    }
    const auto of_head = [&](const Read& read, size_t piece) { return cause_of(i, read, piece); };
    AddHead(head, reads, rows, of_head, ran);
  }
}

bool RanTeller::IsReady(uint64_t run, const derived::Kind& kind) const {
  return run < layer_.ready.size() && layer_.ready[run].test(layer_.kinds->NumberOf(kind));
}

Cause RanTeller::CauseOf(const derived::Kind& kind, uint64_t run) const {
  const bool of_segments = kind.traits().use == derived::kStaticPrefill;
  if (of_segments && run >= layer_.num_segments) return Cause::kNotStored;
  if (run >= layer_.run_tokens.size()) return Cause::kTooFewTokens;
  return kind.MayHave(layer_.run_tokens[run]) ? Cause::kNotBuilt : Cause::kTooFewTokens;
}

bool RanTeller::Has(const CallToTell& call, Wanted wanted, size_t place) {
  const auto has = [place](const auto& list) {
    return place < list.size() && list[place] != nullptr;
  };
  switch (wanted) {
    case Wanted::kIndex:
      return has(call.indexes);
    case Wanted::kKeyPlanes:
      return has(call.estimates);
    case Wanted::kValuePlanes:
      return has(call.values);
    case Wanted::kMeans:
      return has(call.means);
    case Wanted::kClusters:
      return has(call.sums);
    case Wanted::kStatic:
      return has(call.rankings);
    case Wanted::kQuery:
      return true;
  }
  return true;
}

Cause RanTeller::CauseInCall(const CallToTell& call, const Read& read, uint32_t head,
                             size_t piece) const {
  if (call.no_memory) return Cause::kNoMemory;
  if (Has(call, read.wanted, head * call.parts.size() + piece)) return Cause::kNone;
  const attention::RunPart& part = call.parts[piece];
  if (part.turn != 0) return Cause::kMoved;
  const std::span<const derived::LayerObjectsPtr> held =
      call.held[static_cast<size_t>(read.wanted)];
  if (part.run < held.size() && held[part.run] != nullptr) return Cause::kNothing;
  return IsReady(part.run, *read.kind) ? Cause::kNoMemory : CauseOf(*read.kind, part.run);
}

// An index tells how many of its searches scored every key: one for each row, head and run.
void RanTeller::AddFullScans(const CallToTell& call, RanTally* ran) const {
  const auto rows = static_cast<double>(call.num_rows);
  for (uint32_t head = 0; head < call.head_costs.size(); ++head) {
    const auto num_scans = static_cast<double>(call.head_costs[head].num_full_scans);
    if (num_scans == 0) continue;
    double num_searched = 0;
    double num_tokens = 0;
    for (size_t part = 0; part < pieces_.size(); ++part) {
      if (pieces_[part] == 0) continue;
      if (!Has(call, Wanted::kIndex, head * pieces_.size() + part)) continue;
      num_searched += rows;
      num_tokens += rows * static_cast<double>(pieces_[part]);
    }
    if (num_searched == 0) continue;
    ran->MoveToLessWork(num_tokens * std::min(1.0, num_scans / num_searched));
  }
}

void RanTeller::AddCall(const CallToTell& call, RanTally* ran) {
  CountPieces(call.parts);
  const auto cause_of = [&](uint32_t head, const Read& read, size_t piece) {
    return CauseInCall(call, read, head, piece);
  };
  Add(static_cast<double>(call.num_rows), cause_of, ran);
  if (plan_.Finds() && !call.no_memory) AddFullScans(call, ran);
}

void RanTeller::AddOutlook(std::span<const planner::RunFacts> runs, RanTally* ran) {
  CountPieces(runs);
  const auto cause_of = [&](uint32_t, const Read& read, size_t run) {
    return IsReady(run, *read.kind) ? Cause::kNone : CauseOf(*read.kind, run);
  };
  Add(1, cause_of, ran);
}

}  // namespace attndb::internal
