// SessionImpl: the runs of a layer with derived objects (segments of the chain, then blocks of the
//              tail), and their ready objects.
#include <algorithm>
#include <utility>

#include "session/session_impl.h"
#include "session/view_check.h"

namespace attndb::internal {
namespace {

// The uses of the derived kinds that a plan reads.
std::vector<std::string> UsesOf(const planner::LayerPlan& plan) {
  std::vector<std::string> uses;
  if (plan.ReadsPlanes()) uses.emplace_back(derived::kKeyPlanes);
  if (plan.UsesIndex()) uses.push_back(plan.FindsBy());
  if (plan.value_bits != 0) uses.emplace_back(derived::kValuePlanes);
  if (plan.ReadsMeans()) uses.emplace_back(derived::kValueMeans);
  if (plan.EstimatesByClusters()) uses.push_back(plan.EstimatesBy());
  if (plan.HasStatic()) uses.emplace_back(derived::kStaticPrefill);
  return uses;
}

}  // namespace

LayerProgress SessionImpl::ProgressOf(LayerId layer) const {
  const bool is_in_memory = std::ranges::all_of(
      entries(), [layer](const ChainEntry& entry) { return entry.segment->IsInMemory(layer); });
  return {LayerTokens(layer), is_in_memory && DerivedIsInMemory(layer), AwaitsDerived(layer)};
}

bool SessionImpl::DerivedIsInMemory(LayerId layer) const {
  if (!derived::HasObjects(spec_.layers[layer])) return true;
  for (const std::string& use : UsesOf(PlanOf(layer))) {
    const derived::Kind& kind = parts_.kinds->ForUse(use);
    for (const ChainEntry& entry : entries()) {
      const uint64_t segment = entry.segment->id();
      const bool is_on_disk = parts_.objects->IsOnDisk(segment, kind);
      if (is_on_disk && !parts_.objects->IsInMemory(segment, kind, layer)) return false;
    }
  }
  return true;
}

Status SessionImpl::Load() {
  ATTNDB_RETURN_IF_ERROR(chain_.Load());
  for (LayerId layer = 0; layer < spec_.num_layers(); ++layer) {
    if (!derived::HasObjects(spec_.layers[layer])) continue;
    for (const std::string& use : UsesOf(PlanOf(layer))) {
      const derived::Kind& kind = parts_.kinds->ForUse(use);
      for (uint64_t run = 0; run < entries().size(); ++run) {
        const bool is_on_disk = parts_.objects->IsOnDisk(entries()[run].segment->id(), kind);
        if (is_on_disk) (void)GetObjects(run, kind, layer);
      }
    }
  }
  return Status::Ok();
}

bool SessionImpl::DerivesFromTail(LayerId layer, const planner::LayerPlan& plan) const {
  return derived::HasObjects(spec_.layers[layer]) &&
         (plan.kind == planner::QueryKind::kAuto || plan.DerivesFromTail());
}

bool SessionImpl::LacksBlocks(LayerId layer) const {
  const uint64_t num_blocks = NumDerivedRuns(layer) - entries().size();
  return num_blocks < tail_.num_tokens(layer) / storage::KvTail::kJoinedTokens;
}

// If memory is too short to join tokens, they are read where they are.
void SessionImpl::JoinTail(LayerId layer) {
  for (size_t i = 0;; ++i) {
    if (i < blocks_.size() && blocks_[i]->HasLayer(layer)) continue;
    if (i == tail_.num_joined(layer)) {
      if (!tail_.CanJoin(layer) || !tail_.Join(layer).ok()) return;
    }
    if (i == blocks_.size()) {
      const uint64_t first_token = chain_.num_tokens() + i * storage::KvTail::kJoinedTokens;
      blocks_.push_back(
          std::make_shared<storage::TailBlock>(shape_, chain_.PositionAfter(first_token)));
    }
    std::vector<bool> non_finite;
    for (uint32_t head = 0; head < spec_.layers[layer].num_kv_heads; ++head) {
      non_finite.push_back(tail_.non_finite(layer, head));
    }
    blocks_[i]->AddLayer(layer, tail_.joined(layer, i), std::move(non_finite));
    ready_[layer] = {};
  }
}

void SessionImpl::DeriveWhileReading(LayerId layer) {
  if (!LacksBlocks(layer)) return;
  const planner::LayerPlan plan = PlanOf(layer);
  if (!plan.UsesIndex() || !DerivesFromTail(layer, plan)) return;
  const uint64_t num_before = NumDerivedRuns(layer);
  JoinTail(layer);
  const derived::Kind& kind = parts_.kinds->ForUse(plan.FindsBy());
  for (uint64_t run = num_before; run < NumDerivedRuns(layer); ++run) {
    (void)GetObjects(run, kind, layer);
  }
}

void SessionImpl::CropBlocks(uint64_t num_tail) {
  const uint64_t num_whole = num_tail / storage::KvTail::kJoinedTokens;
  if (num_whole >= blocks_.size()) return;
  blocks_.resize(num_whole);
  ++runs_version_;
}

// Two sessions must not add layers to one block.
std::vector<std::shared_ptr<storage::TailBlock>> SessionImpl::WholeBlocks() const {
  const auto is_whole = [this](const std::shared_ptr<storage::TailBlock>& block) {
    for (LayerId layer = 0; layer < spec_.num_layers(); ++layer) {
      if (derived::HasObjects(spec_.layers[layer]) && !block->HasLayer(layer)) return false;
    }
    return true;
  };
  return {blocks_.begin(), std::ranges::find_if_not(blocks_, is_whole)};
}

uint64_t SessionImpl::NumDerivedRuns(LayerId layer) const {
  const auto end = std::ranges::find_if_not(
      blocks_, [layer](const auto& block) { return block->HasLayer(layer); });
  return entries().size() + static_cast<uint64_t>(end - blocks_.begin());
}

const storage::KvRun& SessionImpl::DerivedRun(uint64_t run) const {
  if (run < entries().size()) return *entries()[run].segment;
  return *blocks_[run - entries().size()];
}

uint64_t SessionImpl::TokensUsed(uint64_t run) const {
  return run < entries().size() ? entries()[run].num_tokens_used : DerivedRun(run).num_tokens();
}

derived::LayerObjectsPtr SessionImpl::GetObjects(uint64_t run, const derived::Kind& kind,
                                                 LayerId layer) const {
  const LayerSpec& spec = spec_.layers[layer];
  if (run < entries().size())
    return parts_.builder->Get(*entries()[run].segment, kind, layer, spec);
  return parts_.builder->Get(blocks_[run - entries().size()], kind, layer, spec);
}

derived::Lanes::AddedPtr SessionImpl::JobOf(uint64_t run, const derived::Kind& kind,
                                            LayerId layer) const {
  if (run < entries().size()) return parts_.builder->JobOf(*entries()[run].segment, kind);
  return parts_.builder->JobOf(*blocks_[run - entries().size()], kind, layer);
}

void SessionImpl::FindReady(LayerId layer, std::vector<derived::KindSet>* kinds) const {
  kinds->clear();
  for (uint64_t run = 0; run < NumDerivedRuns(layer); ++run) {
    kinds->push_back(parts_.objects->ReadyKinds(DerivedRun(run).id(), layer));
  }
}

void SessionImpl::AskForPlanes(LayerId layer) {
  const derived::Kind& planes = parts_.kinds->ForUse(derived::kKeyPlanes);
  const uint64_t num_runs = NumDerivedRuns(layer);
  for (uint64_t i = 0; i < num_runs; ++i) {
    const planner::RunFacts& run = facts_.runs[i];
    if (reads_run_[i] == 0 || !run.may_have_planes || run.has_planes) continue;
    (void)GetObjects(i, planes, layer);
  }
}

// A requested object without a job is on disk, can't be made, or is made by another process.
Status SessionImpl::AwaitDerived(LayerId layer, const WaitOptions& options) {
  ATTNDB_RETURN_IF_ERROR(CheckLayer(layer, spec_.num_layers()));
  const planner::LayerPlan plan = PlanOf(layer);
  if (DerivesFromTail(layer, plan)) JoinTail(layer);
  awaited_[layer] = RunsToAwait(layer, plan);
  std::vector<derived::Lanes::AddedPtr> jobs;
  for (const std::string& use : UsesOf(plan)) {
    const derived::Kind& kind = parts_.kinds->ForUse(use);
    const uint64_t num_runs =
        use == derived::kStaticPrefill ? entries().size() : NumDerivedRuns(layer);
    for (uint64_t run = 0; run < num_runs; ++run) {
      if (GetObjects(run, kind, layer) != nullptr) continue;
      if (auto job = JobOf(run, kind, layer)) jobs.push_back(std::move(job));
    }
  }
  Status status = host_->WaitFor(jobs, options);
  if (status.code() == StatusCode::kCancelled) awaited_[layer] = {};
  return status;
}

bool SessionImpl::AwaitsDerived(LayerId layer) const {
  const planner::LayerPlan plan = PlanOf(layer);
  // The plan does not apply to a layer with a sliding window.
  if (!plan.awaits || !plan.ReadsDerived() || !derived::HasObjects(spec_.layers[layer])) {
    return false;
  }
  return awaited_[layer] != RunsToAwait(layer, plan);
}

SessionImpl::AwaitedRuns SessionImpl::RunsToAwait(LayerId layer,
                                                  const planner::LayerPlan& plan) const {
  const uint64_t num_tail = DerivesFromTail(layer, plan) ? tail_.num_tokens(layer) : 0;
  return {runs_version_, num_tail / storage::KvTail::kJoinedTokens};
}

void SessionImpl::CollectObjects(LayerId layer, const derived::Kind& kind,
                                 std::vector<derived::LayerObjectsPtr>* objects) {
  const uint64_t num_runs = NumDerivedRuns(layer);
  for (uint64_t run = 0; run < num_runs; ++run) {
    objects->push_back(reads_run_[run] != 0 ? GetObjects(run, kind, layer) : nullptr);
  }
}

}  // namespace attndb::internal
