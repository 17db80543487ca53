#include "session/session_impl.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <utility>

#include "attention/tensor_rows.h"
#include "attndb/units.h"
#include "common/check.h"
#include "common/clock.h"
#include "common/mutex.h"
#include "kernels/convert.h"
#include "kernels/layout.h"
#include "session/view_check.h"

namespace attndb::internal {
namespace {

std::string LayerText(LayerId layer) { return "layer " + std::to_string(layer); }

// Head `head` of rows [first_row, first_row + num_rows) of `view`.
const std::byte* HeadRows(const TensorView& view, uint64_t first_row, uint32_t head) {
  return static_cast<const std::byte*>(view.data) +
         (static_cast<int64_t>(first_row) * view.strides[0] + head * view.strides[1]) *
             static_cast<int64_t>(DTypeBytes(view.dtype));
}

}  // namespace

SessionImpl::SessionImpl(SessionSeed seed)
    : host_(std::move(seed.host)),
      parts_(host_->parts()),
      settings_(host_->settings()),
      tenant_(std::move(seed.tenant)),
      spec_(std::move(seed.spec)),
      shape_(std::move(seed.shape)),
      kv_bytes_per_token_(spec_.KvBytesPerToken()),
      plan_(std::move(seed.plan)),
      learned_(spec_, settings_.learns),
      physical_(spec_.num_layers()),
      searches_(spec_.num_layers()),
      chain_(std::move(seed.chain)),
      tail_(shape_, parts_.budget),
      query_sample_(spec_, settings_.query_sample, parts_.budget),
      truncation_(std::move(seed.cuts)),
      turns_(std::move(seed.turns)),
      stats_(spec_.num_layers()),
      runner_(parts_.operators->MakeOperators(), parts_.scratch),
      rows_(parts_.make_rows()) {
  ready_.resize(spec_.num_layers());
  awaited_.resize(spec_.num_layers());
  for (LayerId layer = 0; layer < spec_.num_layers(); ++layer) {
    stats_[layer].last_heads.resize(spec_.layers[layer].num_kv_heads);
    stats_[layer].all_heads.resize(spec_.layers[layer].num_kv_heads);
  }
  FollowTruncation();
  const auto statistics = host_->FindLearned(chain_.context());
  if (statistics && learned_.learns()) learned_.Restore(*statistics);
  host_->SessionOpened(tenant_);
}

SessionImpl::~SessionImpl() {
  KeepStatistics();
  store_under_way_.reset();
  chain_.Reset();
  host_->SessionClosed(tenant_);
}

void SessionImpl::KeepStatistics() const {
  if (chain_.context() == ContextId::kNone || !learned_.has_learned()) return;
  host_->KeepLearned(chain_.context(), learned_.layers());
}

Status SessionImpl::Fail(Status status) {
  failed_ = true;
  return status;
}

Status SessionImpl::CheckNotFailed() const {
  if (!failed_.load(std::memory_order_relaxed)) return Status::Ok();
  return Status::FailedPrecondition("an earlier step failed; Crop(num_tokens()) or Reset first");
}

Status SessionImpl::CheckAppend(LayerId layer, const TensorView& k, const TensorView& v) const {
  ATTNDB_RETURN_IF_ERROR(CheckLayer(layer, spec_.num_layers()));
  const LayerSpec& shape = spec_.layers[layer];
  ATTNDB_RETURN_IF_ERROR(CheckInput("k", layer, k, shape.num_kv_heads, shape.head_dim));
  ATTNDB_RETURN_IF_ERROR(CheckInput("v", layer, v, shape.num_kv_heads, shape.v_head_dim));
  if (k.rows() != v.rows()) {
    return Status::InvalidArgument(LayerText(layer) + ": v has " + RowsText(v.rows()) +
                                   ", expected " + RowsText(k.rows()) + ", as k");
  }
  ATTNDB_RETURN_IF_ERROR(gate_.CheckIdle());
  ATTNDB_RETURN_IF_ERROR(CheckNotFailed());
  if (layer != next_layer_) {
    return Status::FailedPrecondition("append to " + LayerText(layer) + " out of order; expected " +
                                      LayerText(next_layer_));
  }
  const auto num_rows = static_cast<uint64_t>(k.rows());
  if (layer != 0 && num_rows != step_rows_) {
    return Status::FailedPrecondition(LayerText(layer) + ": " + std::to_string(num_rows) +
                                      " new tokens, expected " + std::to_string(step_rows_) +
                                      ", as in layer 0");
  }
  if (LayerTokens(layer) + num_rows > kMaxSessionTokens) {
    return Status::ResourceExhausted("a session holds at most 2^31 - 64 tokens");
  }
  return Status::Ok();
}

Status SessionImpl::Append(LayerId layer, const TensorView& k, const TensorView& v) {
  ATTNDB_RETURN_IF_ERROR(CheckAppend(layer, k, v));
  if (layer == 0) TakeChains();
  const int64_t start_ns = SteadyNowNanos();
  const auto num_rows = static_cast<uint64_t>(k.rows());
  appended_non_finite_.assign(spec_.layers[layer].num_kv_heads, 0);
  Result<storage::AppendSlot> slot = tail_.BeginAppend(layer, num_rows);
  Status status = slot.status();
  if (slot.ok()) {
    for (const storage::AppendPiece& piece : slot->pieces) {
      if (status.ok()) status = WriteRows(layer, k, /*is_key=*/true, piece);
      if (status.ok()) status = WriteRows(layer, v, /*is_key=*/false, piece);
    }
  }
  if (!status.ok()) return layer == 0 ? status : Fail(std::move(status));
  if (filter_.hides()) filtered_from_ = std::min(filtered_from_, LayerTokens(layer));
  tail_.CommitAppend(layer);
  for (uint32_t head = 0; head < appended_non_finite_.size(); ++head) {
    if (appended_non_finite_[head] != 0) tail_.SetNonFinite(layer, head);
  }
  step_rows_ = num_rows;
  next_layer_ = layer + 1 == spec_.num_layers() ? 0 : layer + 1;
  DeriveWhileReading(layer);
  stats_[layer].append_ns = SteadyNowNanos() - start_ns;
  return Status::Ok();
}

Status SessionImpl::WriteRows(LayerId layer, const TensorView& view, bool is_key,
                              const storage::AppendPiece& piece) {
  const LayerSpec& shape = spec_.layers[layer];
  const auto dim = static_cast<size_t>(view.dim());
  const size_t padded = kernels::RowElements(dim);
  const bool permute = is_key && shape.rope.layout == RopeLayout::kInterleaved;
  const Turn* const shift = is_key ? ShiftOf(layer) : nullptr;
  const PositionTurns* const back = is_key ? shape_->layers[layer].key_turns.get() : nullptr;
  const bool plain = view.strides[2] == 1 && view.strides[0] >= view.dim() && !permute &&
                     shift == nullptr && back == nullptr;
  for (uint32_t head = 0; head < shape.num_kv_heads; ++head) {
    std::byte* const to = is_key ? piece.k(head) : piece.v(head);
    kernels::ConvertReport report;
    if (plain) {
      report = kernels::ConvertRows(view.dtype, HeadRows(view, piece.first_row, head),
                                    static_cast<size_t>(view.strides[0]), spec_.kv_dtype, to,
                                    padded, piece.num_rows, dim, padded);
    } else {
      convert_scratch_.resize(2 * piece.num_rows * padded);
      float* const rows = convert_scratch_.data();
      for (uint64_t i = 0; i < piece.num_rows; ++i) {
        attention::LoadHeads(view, piece.first_row + i, head, 1, padded, rows + i * padded);
      }
      if (permute) {
        attention::ToHalfLayout(shape.rope, shape.head_dim, piece.num_rows, padded, rows,
                                rows + piece.num_rows * padded);
      }
      if (shift != nullptr) shift->Rows(rows, piece.num_rows, padded, rows);
      if (back != nullptr) {
        back->Back(chain_.PositionAfter(LayerTokens(layer) + piece.first_row), piece.num_rows,
                   padded, rows);
      }
      report = kernels::ConvertRows(DType::kFloat32, rows, padded, spec_.kv_dtype, to, padded,
                                    piece.num_rows, padded, padded);
    }
    if (report.overflow) {
      return OverflowError(layer, view, is_key, head, piece.first_row, piece.num_rows);
    }
    if (report.nonfinite) appended_non_finite_[head] = 1;
  }
  return Status::Ok();
}

// Finds the first value that overflowed, for the message.
Status SessionImpl::OverflowError(LayerId layer, const TensorView& view, bool is_key, uint32_t head,
                                  uint64_t first_row, uint64_t num_rows) const {
  const auto dim = static_cast<size_t>(view.dim());
  std::vector<float> row(kernels::RowElements(dim));
  for (uint64_t i = first_row; i < first_row + num_rows; ++i) {
    attention::LoadHeads(view, i, head, 1, row.size(), row.data());
    for (size_t d = 0; d < dim; ++d) {
      const uint16_t stored = kernels::FromFloat32(row[d], spec_.kv_dtype);
      if (!std::isfinite(row[d]) || std::isfinite(kernels::ToFloat32(stored, spec_.kv_dtype))) {
        continue;
      }
      return Status::InvalidArgument(
          std::string(is_key ? "k" : "v") + " of " + LayerText(layer) + ", head " +
          std::to_string(head) + ", token " + std::to_string(LayerTokens(layer) + i) + " is " +
          std::to_string(row[d]) + ", beyond the range of " +
          std::string(DTypeName(spec_.kv_dtype)) + "; use a wider kv_dtype");
    }
  }
  return Status::InvalidArgument(std::string(is_key ? "k" : "v") + " of " + LayerText(layer) +
                                 ", head " + std::to_string(head) +
                                 ", turned to where it is stored, is beyond the range of " +
                                 std::string(DTypeName(spec_.kv_dtype)) + "; use a wider kv_dtype");
}

Status SessionImpl::CheckViews(LayerId layer, const TensorView& q,
                               const MutableTensorView& out) const {
  ATTNDB_RETURN_IF_ERROR(CheckQuery(spec_, layer, q));
  const LayerSpec& shape = spec_.layers[layer];
  ATTNDB_RETURN_IF_ERROR(CheckOutput(
      "out", layer, out, {"q", q.rows(), shape.num_q_heads, shape.v_head_dim, q.dtype}));
  if (static_cast<uint64_t>(q.rows()) > LayerTokens(layer)) {
    return Status::InvalidArgument(LayerText(layer) + ": q has " + RowsText(q.rows()) +
                                   ", but the layer holds " + Counted(LayerTokens(layer), "token"));
  }
  return Status::Ok();
}

Status SessionImpl::CheckAttend(LayerId layer, const TensorView& q,
                                const MutableTensorView& out) const {
  ATTNDB_RETURN_IF_ERROR(CheckNotFailed());
  ATTNDB_RETURN_IF_ERROR(CheckViews(layer, q, out));
  // Rows see one another: all but the first must be of tokens that are not hidden.
  if (SeenFrom() + static_cast<uint64_t>(q.rows()) > LayerTokens(layer) + 1) {
    return Status::FailedPrecondition(
        LayerText(layer) + ": q has " + RowsText(q.rows()) + ", but only the newest " +
        FormatCount(LayerTokens(layer) - SeenFrom()) +
        " have none before them that is hidden by the filter or has left; append first");
  }
  if (NumSeen(layer) == 0) {
    return Status::FailedPrecondition(LayerText(layer) + ": the filter leaves no token");
  }
  return Status::Ok();
}

Status SessionImpl::BeginCall(LayerId layer, const TensorView& q, const MutableTensorView& out,
                              float* lse, uint32_t num_parts) {
  ATTNDB_RETURN_IF_ERROR(CheckAttend(layer, q, out));
  const auto num_rows = static_cast<uint64_t>(q.rows());
  const bool may_choose = num_rows <= settings_.dense_query_tokens;
  if (may_choose && LacksBlocks(layer) && DerivesFromTail(layer, PlanOf(layer))) JoinTail(layer);
  PlanCall(layer, num_rows, num_parts);
  attention::LayerCall call = DescribeCall(layer);
  call.q = q;
  call.out = out;
  call.lse = lse;
  call.num_parts = num_parts;
  call.found = found_;
  ListRuns(layer, rows_.get());
  call.rows = rows_.get();
  ListParts();
  call.parts = parts_of_runs_;
  TakeExecution(layer, &call);
  ATTNDB_RETURN_IF_ERROR(HoldRows());
  CollectDerived(layer, &call);
  const uint64_t first_token = LayerTokens(layer) - num_rows;
  if (first_token >= chain_.num_tokens() && !filter_.hides()) SampleQueries(layer, q, first_token);
  parts_.operators->Choose(call, &operators_);
  Status status = runner_.Begin(call, operators_);
  no_memory_ = status.code() == StatusCode::kResourceExhausted;
  if (!no_memory_) return status;
  // Scratch has no room beside the derived objects: the call does without these.
  ForgetDerived();
  call.estimates = {};
  call.indexes = {};
  call.values = {};
  call.means = {};
  call.sums = {};
  call.rankings = {};
  return runner_.Begin(call, operators_);
}

void SessionImpl::SampleQueries(LayerId layer, const TensorView& q, uint64_t first_token) {
  query_sample_.Offer(spec_, layer, {q, ShiftOf(layer)}, first_token - chain_.num_tokens(),
                      chain_.PositionAfter(first_token));
}

void SessionImpl::ListParts() {
  ListPartsOf(*rows_, &parts_of_runs_);
  reads_run_.assign(rows_->run_tokens().size(), 0);
  for (const attention::RunPart& part : parts_of_runs_) {
    if (part.turn == 0) reads_run_[part.run] = 1;
  }
}

void SessionImpl::ListPartsOf(const storage::ChainSource& rows,
                              std::vector<attention::RunPart>* parts) const {
  parts->clear();
  uint64_t begin = 0;
  for (uint32_t run = 0; run < rows.run_tokens().size(); ++run) {
    const uint64_t first_row = FirstRow(run);
    const uint64_t end = begin + rows.run_tokens()[run] - first_row;
    ForEachSeen({begin, end}, [&](TokenRange seen, uint32_t turn) {
      parts->push_back({run, first_row + seen.begin - begin, seen.end - seen.begin, turn});
    });
    begin = end;
  }
}

void SessionImpl::ListRuns(LayerId layer, storage::ChainSource* rows) const {
  rows->Reset(shape_->layers[layer], shape_->dtype);
  for (const ChainEntry& entry : entries()) {
    rows->AddSegment(entry.segment.get(), layer, entry.first_token + entry.num_tokens_used);
  }
  rows->AddTail(tail_, layer, chain_.PositionAfter(chain_.num_tokens()));
}

// Derived objects take the memory that K and V leave, and calls can do without them. So if rows are
// to be held, they come first; else they are read when they are needed.
Status SessionImpl::HoldRows() {
  if (!execution_.plan.Chooses() || execution_.all_full) return Status::Ok();
  for (const attention::RunPart& part : parts_of_runs_) {
    Status status = rows_->BringRun(part.run);
    if (status.ok()) continue;
    ReportFailure(rows_.get());
    return Fail(std::move(status));
  }
  return Status::Ok();
}

void SessionImpl::ReportFailure(storage::ChainSource* rows) const {
  const std::optional<storage::ChainSource::Failure> failure = rows->TakeFailure();
  if (failure) host_->NoteDamage(*failure->segment, failure->status);
}

void SessionImpl::EndCall(LayerId layer) {
  runner_.End();
  // The budget keeps the layers; it may drop them between calls.
  rows_->Reset(shape_->layers[layer], shape_->dtype);
  ForgetDerived();
}

void SessionImpl::ForgetDerived() {
  planes_.clear();
  layer_values_.clear();
  layer_means_.clear();
  layer_sums_.clear();
  layer_rankings_.clear();
  layer_indexes_.clear();
}

Status SessionImpl::AttendPart(LayerId layer, const TensorView& q, const MutableTensorView& out,
                               float* lse, uint32_t part, uint32_t num_parts) {
  if (part >= num_parts || num_parts > CallGate::kMaxParts) {
    return Status::InvalidArgument(
        "part " + FormatCount(part) + " of " + Counted(num_parts, "part") +
        ", expected parts from 0 on, of at most " + FormatCount(CallGate::kMaxParts));
  }
  // A call that its first part found to fail is under way until its other parts have come, too. In
  // this order: a failure of the call under way is seen after the call.
  const Status not_failed = CheckNotFailed();
  if (!not_failed.ok() && gate_.CheckIdle().ok()) return not_failed;
  // A part with bad arguments is refused alone: neither the call nor its other parts notice.
  ATTNDB_RETURN_IF_ERROR(CheckViews(layer, q, out));
  ATTNDB_RETURN_IF_ERROR(gate_.Enter({.layer = layer, .num_parts = num_parts}, part, [&] {
    call_status_ = BeginCall(layer, q, out, lse, num_parts);
  }));
  Status status = call_status_;
  if (status.ok()) {
    status = runner_.RunPart(part);
    if (!status.ok()) part_failed_.store(true, std::memory_order_relaxed);
  }
  gate_.Leave([&] {
    if (part_failed_.exchange(false, std::memory_order_relaxed)) {
      failed_ = true;
      ReportFailure(rows_.get());
    } else if (call_status_.ok()) {
      NoteCost(layer, static_cast<uint64_t>(q.rows()));
    }
    EndCall(layer);
  });
  return status;
}

void SessionImpl::GiveUpCall() {
  gate_.GiveUp([this](const CallGate::Call& call) {
    if (part_failed_.exchange(false, std::memory_order_relaxed)) ReportFailure(rows_.get());
    EndCall(call.layer);
  });
}

void SessionImpl::NoteCost(LayerId layer, uint64_t num_rows) {
  LayerStats& stats = stats_[layer];
  stats.last = runner_.cost();
  stats.num_rows += num_rows;
  const std::span<const attention::HeadBound> bounds = runner_.bounds();
  const size_t of_last_row = bounds.empty() ? 0 : bounds.size() / num_rows;
  stats.last_bounds.assign(bounds.end() - static_cast<std::ptrdiff_t>(of_last_row), bounds.end());
  for (uint32_t head = 0; head < stats.all_heads.size(); ++head) {
    const attention::CallCost cost = runner_.head_cost(head);
    stats.last_heads[head] = cost;
    stats.all_heads[head].Add(cost);
  }
  TallyCall(layer, num_rows);
  if (found_ == nullptr) ObserveCall(layer, num_rows);  // A search takes less than a call.
}

void SessionImpl::ObserveCall(LayerId layer, uint64_t num_rows) {
  const auto rows = static_cast<double>(num_rows);
  const std::vector<attention::CallCost>& heads = stats_[layer].last_heads;
  observed_.clear();
  for (uint32_t head = 0; head < heads.size(); ++head) {
    const attention::CallCost& cost = heads[head];
    planner::HeadObservation seen;
    // Two kinds of heads teach nothing about the plan: a head that ran `full` because of NaN, and a
    // head that scanned tokens whose index is not built yet.
    if (facts_.chain.IsFinite(head) && !(lacks_index_ && by_index_[head] != 0)) {
      seen.ns = static_cast<double>(cost.score_ns + cost.select_ns + cost.attend_ns) / rows;
    }
    seen.missed = cost.MissedShare();
    if (cost.num_queries > 0) {
      seen.selected =
          static_cast<double>(cost.num_selected) / static_cast<double>(cost.num_queries);
    }
    if (cost.num_errors > 0) {
      seen.error = cost.error_sum / static_cast<double>(cost.num_errors);
    }
    if (cost.num_difficulties > 0) {
      seen.difficulty = cost.difficulty_sum / static_cast<double>(cost.num_difficulties);
    }
    if (cost.num_spreads > 0) {
      seen.spread = cost.spread_sum / static_cast<double>(cost.num_spreads);
    }
    observed_.push_back(seen);
  }
  learned_.Observe(layer, num_rows, execution_, observed_);
}

// One part where the work is too small to share.
uint32_t SessionImpl::PartsFor(uint64_t num_rows, LayerId layer) const {
  constexpr uint64_t kMinRowsTimesTokens = 2048;
  if (num_rows * LayerTokens(layer) < kMinRowsTimesTokens) return 1;
  return parts_.pool->num_threads();
}

Status SessionImpl::Attend(LayerId layer, const TensorView& q, const MutableTensorView& out,
                           float* lse) {
  ATTNDB_RETURN_IF_ERROR(gate_.CheckIdle());
  ATTNDB_RETURN_IF_ERROR(CheckAttend(layer, q, out));
  const uint32_t num_parts = PartsFor(static_cast<uint64_t>(q.rows()), layer);
  if (num_parts == 1) return AttendPart(layer, q, out, lse, 0, 1);
  Mutex mutex;
  Status status;
  parts_.pool->ParallelFor(num_parts, [&](uint32_t part) {
    Status part_status = AttendPart(layer, q, out, lse, part, num_parts);
    if (part_status.ok()) return;
    MutexLock lock(&mutex);
    if (status.ok()) status = std::move(part_status);  // The first is the cause.
  });
  return status;
}

Result<std::vector<CriticalTokens>> SessionImpl::Search(LayerId layer, const TensorView& q) {
  ATTNDB_RETURN_IF_ERROR(CheckQuery(spec_, layer, q));
  if (q.rows() != 1) {
    return Status::InvalidArgument("q of " + LayerText(layer) + ": expected 1 row, found " +
                                   std::to_string(q.rows()));
  }
  const planner::LayerPlan plan = PlanOf(layer);
  if (plan.kind != planner::QueryKind::kSearch) {
    return Status::FailedPrecondition(LayerText(layer) + ": plan '" + plan.ToString() +
                                      "' does not search; topk, dipr and mass do");
  }
  const LayerSpec& spec = spec_.layers[layer];
  std::vector<CriticalTokens> found(spec.num_q_heads);
  // Heads that read all write their output somewhere.
  std::vector<float> out(size_t{spec.num_q_heads} * spec.v_head_dim);
  found_ = found.data();
  Status status = Attend(layer, q,
                         MutableTensorView::Contiguous(out.data(), DType::kFloat32, 1,
                                                       spec.num_q_heads, spec.v_head_dim),
                         nullptr);
  found_ = nullptr;
  ATTNDB_RETURN_IF_ERROR(status);
  for (CriticalTokens& of_head : found) {
    for (uint32_t& token : of_head.tokens) {
      token = static_cast<uint32_t>(SeenToken(token));
    }
  }
  return found;
}

Status SessionImpl::Crop(uint64_t num_tokens) {
  if (num_tokens > this->num_tokens()) {
    return Status::InvalidArgument("crop to " + Counted(num_tokens, "token") +
                                   ", but the session holds " + FormatCount(this->num_tokens()));
  }
  ATTNDB_RETURN_IF_ERROR(chain_.CheckCrop(num_tokens));
  GiveUpCall();
  const uint64_t num_chain = std::min(num_tokens, chain_.num_tokens());
  const uint64_t num_tail = num_tokens - num_chain;
  tail_.Crop(num_tail);
  CropBlocks(num_tail);
  if (store_under_way_ && store_under_way_->tokens.size() > num_tokens) {
    store_under_way_->tokens.resize(num_tokens);
  }
  filter_.Crop(num_tokens);
  truncation_.Crop(num_tokens);
  if (num_tokens <= filtered_from_) filtered_from_ = kNever;
  query_sample_.Crop(num_tail);
  if (num_chain < chain_.num_tokens()) {
    chain_.Crop(num_chain);
    ++runs_version_;
  }
  forks_.Crop(num_tokens);
  forks_.Forget(chain_.num_tokens());
  next_layer_ = 0;
  failed_ = false;
  FollowTruncation();
  return Status::Ok();
}

Result<std::unique_ptr<SessionImpl>> SessionImpl::Fork() {
  ATTNDB_RETURN_IF_ERROR(CheckComplete());
  if (tail_.num_tokens() > 0) forks_.AddFork(num_tokens());
  auto hold = chain_.holds_context() ? host_->Hold(chain_.context()) : nullptr;
  auto fork = std::make_unique<SessionImpl>(SessionSeed{host_, tenant_, spec_, shape_, plan_,
                                                        chain_.Fork(std::move(hold)),
                                                        truncation_.cuts(), turns_});
  fork->tail_ = tail_.Fork();
  fork->blocks_ = WholeBlocks();
  fork->filter_ = filter_;
  fork->filtered_from_ = filtered_from_;
  fork->position_shift_ = position_shift_;
  fork->FollowTruncation();
  fork->query_sample_ = query_sample_.Fork();
  fork->forks_ = forks_;
  fork->learned_.Restore(learned_.layers());
  return fork;
}

void SessionImpl::Reset() {
  GiveUpCall();
  tail_.Reset();
  CropBlocks(0);
  filter_ = {};
  filtered_from_ = kNever;
  truncation_ = {};
  position_shift_ = 0;
  query_sample_.Crop(0);
  forks_ = {};
  chain_.Reset();
  ++runs_version_;
  next_layer_ = 0;
  failed_ = false;
  store_under_way_.reset();
}

Status SessionImpl::SetFilter(std::span<const TokenRange> ranges) {
  ATTNDB_RETURN_IF_ERROR(CheckComplete());
  for (LayerId layer = 0; layer < spec_.num_layers() && !ranges.empty(); ++layer) {
    if (spec_.layers[layer].sliding_window == 0) continue;
    return Status::Unsupported(LayerText(layer) +
                               " has a sliding window: its tokens can't be filtered");
  }
  ATTNDB_ASSIGN_OR_RETURN(filter_, TokenFilter::Of(ranges, num_tokens()));
  return Status::Ok();
}

Status SessionImpl::CheckStorable() const {
  ATTNDB_RETURN_IF_ERROR(chain_.CheckIsOnePrompt());
  if (filtered_from_ == kNever) return Status::Ok();
  return Status::FailedPrecondition(
      "tokens from " + std::to_string(filtered_from_) +
      " on were appended while a filter hid others, so that their K and V are not those of the "
      "whole prompt; Crop(" +
      std::to_string(filtered_from_) + ") first");
}

Status SessionImpl::SetPlan(std::string_view text) {
  ATTNDB_ASSIGN_OR_RETURN(planner::Plan plan, planner::Plan::Parse(text, *parts_.plans));
  ATTNDB_RETURN_IF_ERROR(plan.CheckLayers(spec_.num_layers()));
  plan_ = std::move(plan);
  objectives_.Forget();
  awaited_.assign(spec_.num_layers(), {});
  for (LayerStats& stats : stats_) stats.ran = {};
  return Status::Ok();
}

const index::CriticalSearch* SessionImpl::SearchFor(LayerId layer, const planner::LayerPlan& plan) {
  if (searches_[layer] == nullptr || physical_[layer] != plan) {
    searches_[layer] = parts_.operators->MakeSearch(plan, spec_.layers[layer]);
    physical_[layer] = plan;
  }
  return searches_[layer].get();
}

Status SessionImpl::CheckComplete() const {
  ATTNDB_RETURN_IF_ERROR(gate_.CheckIdle());
  ATTNDB_RETURN_IF_ERROR(CheckNotFailed());
  if (next_layer_ == 0) return Status::Ok();
  return Status::FailedPrecondition(
      "a step is under way: layers 0 to " + FormatCount(next_layer_ - 1) + " hold " +
      Counted(LayerTokens(0), "token") + ", " + LayerText(next_layer_) + " holds " +
      FormatCount(LayerTokens(next_layer_)));
}

Result<SessionSnapshot> SessionImpl::Snapshot(std::span<const TokenId> tokens, bool in_background) {
  FinishStore();
  ATTNDB_RETURN_IF_ERROR(CheckComplete());
  if (tokens.size() != num_tokens()) {
    return Status::InvalidArgument(FormatCount(tokens.size()) +
                                   " token ids, but the session holds " +
                                   Counted(num_tokens(), "token"));
  }
  ATTNDB_RETURN_IF_ERROR(chain_.CheckTokens(tokens));
  ATTNDB_RETURN_IF_ERROR(CheckStorable());
  if (tokens.empty()) return Status::InvalidArgument("the session holds no tokens to store");
  const std::span<const TokenId> tail = tokens.subspan(chain_.num_tokens());
  if (in_background && !tail.empty()) forks_.Add(tokens.size());
  return SessionSnapshot{
      tenant_,
      spec_,
      chain_.first_position(),
      chain_.context(),
      entries(),
      chain_.num_tokens(),
      truncation_.cuts(),
      std::make_shared<storage::TailSnapshot>(
          tail_.Fork(), std::vector<TokenId>(tail.begin(), tail.end()), query_sample_.Freeze()),
      forks_.all()};
}

Result<HeldChain> SessionImpl::MoveTo(HeldChain held, std::span<const TokenId> tokens) {
  const uint64_t num_moved = tokens.size() - chain_.num_tokens();
  ATTNDB_RETURN_IF_ERROR(tail_.DropFirst(num_moved));
  query_sample_.DropFirst(num_moved);
  forks_.Forget(tokens.size());
  CropBlocks(0);
  ++runs_version_;
  num_merged_seen_ = 0;  // It may have been merged meanwhile.
  return chain_.MoveTo(std::move(held), tokens);
}

void SessionImpl::AwaitStore(StoreUnderWay store) {
  ATTNDB_CHECK(!store_under_way_);
  store_under_way_ = std::move(store);
}

void SessionImpl::FinishStore() {
  if (!store_under_way_) return;
  store_under_way_->held.wait();
  if (next_layer_ == 0 && !gate_.is_under_way()) TakeStored();
}

void SessionImpl::TakeChains() {
  if (next_layer_ != 0 || gate_.is_under_way()) return;
  TakeStored();
  TakeMerged();
}

void SessionImpl::TakeMerged() {
  const uint64_t num_merged = parts_.num_merged->load(std::memory_order_acquire);
  if (num_merged == 0 || entries().empty()) return;
  const uint64_t objects_version = parts_.objects->version();
  if (num_merged == num_merged_seen_ && objects_version == objects_version_seen_) return;
  num_merged_seen_ = num_merged;
  objects_version_seen_ = objects_version;
  std::optional<std::vector<ChainEntry>> renewed = host_->Renew(entries());
  if (!renewed) return;
  ++runs_version_;
  host_->LetGo({.entries = chain_.Replace(*std::move(renewed))});
}

void SessionImpl::TakeStored() {
  constexpr std::chrono::seconds kNow(0);
  if (!store_under_way_ || store_under_way_->held.wait_for(kNow) != std::future_status::ready) {
    return;
  }
  StoreUnderWay store = *std::exchange(store_under_way_, std::nullopt);
  Result<HeldChain> held = store.held.get();
  if (!held.ok() || held->entries.empty() || store.tokens.size() <= chain_.num_tokens()) return;
  Result<HeldChain> had = MoveTo(*std::move(held), store.tokens);
  if (had.ok()) host_->LetGo(*std::move(had));
}

attention::LayerCall SessionImpl::DescribeCall(LayerId layer) const {
  attention::LayerCall call;
  call.spec = spec_.layers[layer];
  call.kv_dtype = spec_.kv_dtype;
  call.plan = plan_.ForLayer(layer);
  call.num_tokens = NumSeen(layer);
  call.num_stored = NumSeen({0, chain_.num_tokens()});
  if (turns_) call.turns = turns_->TurnsOf(layer);
  call.shift = ShiftOf(layer);
  call.dense_query_tokens = settings_.dense_query_tokens;
  call.q.shape[0] = 1;
  return call;
}

}  // namespace attndb::internal
