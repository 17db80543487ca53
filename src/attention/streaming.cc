#include "attention/streaming.h"

#include <algorithm>
#include <cstring>

#include "attention/call_util.h"
#include "attention/stretch.h"
#include "common/clock.h"
#include "kernels/attend.h"
#include "kernels/attend_block.h"

namespace attndb::attention {
namespace {

using kernels::RowsView;
using kernels::StateRows;
using kernels::StatesFrom;

// From this many q rows on, packing a tile of K for the blocked kernel pays.
constexpr size_t kBlockMinRows = 12;

// Copies a piece of rows to `to`, close together. Returns the end of the written bytes.
std::byte* CopyRows(const RowsView& rows, uint64_t num_rows, std::byte* to) {
  const size_t row_bytes = rows.num_elements * DTypeBytes(rows.dtype);
  for (uint64_t i = 0; i < num_rows; ++i, to += row_bytes) {
    std::memcpy(to, kernels::RowsFrom(rows, i).data, row_bytes);
  }
  return to;
}

}  // namespace

// Folds tokens of an item, in order, into the states of its unit's rows.
class Streaming::Fold {
 public:
  Fold(const Streaming& op, const WorkItem& item, Part* part)
      : op_(op),
        call_(op.call()),
        unit_idx_(item.unit),
        unit_(call_.unit(item.unit)),
        scratch_(op.parts_[part->number]),
        part_(part),
        num_q_rows_(unit_.num_rows * call_.group()) {}

  Status AddTokens(TokenRange range);
  // Merges the last block.
  void End() { CloseBlock(); }

 private:
  Status AddStretch(std::span<const HeadRun> runs, TokenRange tokens);
  // Reads and gathers the tokens of one tile from several runs.
  Status AddGathered(std::span<const HeadRun> runs, TokenRange tokens);
  // Adds rows that lie together, block by block.
  void AddPiece(const float* q, const RowsView& k, const RowsView& v, TokenRange tokens);
  // Adds rows of the block under way: for all q rows, or as each of few rows sees them.
  void AddRows(const float* q, const RowsView& k, const RowsView& v, TokenRange tokens);
  void AddForFew(const float* q, const RowsView& k, const RowsView& v, TokenRange tokens);
  // `tokens` have their rows in k and v from token `origin` on. For q rows [first, first + count).
  void Attend(const float* q, const RowsView& k, const RowsView& v, uint64_t origin,
              TokenRange tokens, size_t first, size_t count);

  // Finds the tokens of the range that each q row sees, relative to its begin. True if all rows see
  // all of them.
  bool FindVisible(TokenRange range) const;
  void EnterBlock(uint64_t token);
  void CloseBlock();

  const Streaming& op_;
  const CallView& call_;
  const uint32_t unit_idx_;
  const WorkUnit& unit_;
  const Scratch& scratch_;
  Part* const part_;
  const size_t num_q_rows_;
  uint64_t block_ = 0;
  uint64_t block_end_ = 0;  // 0: no block is under way.
};

Status Streaming::Fold::AddTokens(TokenRange range) {
  std::span<const HeadRun> runs = call_.HeadRuns(unit_.kv_head);
  while (range.begin < range.end) {
    runs = RunsFrom(runs, range.begin);
    const TokenRange tokens = NextStretch(runs, range);
    ATTNDB_RETURN_IF_ERROR(tokens.end <= runs[0].tokens.end ? AddStretch(runs, tokens)
                                                            : AddGathered(runs, tokens));
    range.begin = tokens.end;
  }
  return Status::Ok();
}

Status Streaming::Fold::AddStretch(std::span<const HeadRun> runs, TokenRange tokens) {
  const HeadRun& run = runs[0];
  const uint64_t count = tokens.end - tokens.begin;
  part_->cost.bytes_touched += count * (run.k_bytes() + run.v_bytes());
  part_->rows.Clear();
  const size_t keys = part_->rows.Request(run.k_strip(), run.RowOf(tokens.begin), count);
  const size_t values = part_->rows.Request(run.v_strip(), run.RowOf(tokens.begin), count);
  ATTNDB_RETURN_IF_ERROR(part_->rows.Read());
  storage::ForEachPiece(part_->rows, keys, values,
                        [&](const RowsView& k, const RowsView& v, uint64_t from, uint64_t n) {
                          const uint64_t begin = tokens.begin + from;
                          AddPiece(part_->q + run.q_shift, k, v, {begin, begin + n});
                        });
  return Status::Ok();
}

Status Streaming::Fold::AddGathered(std::span<const HeadRun> runs, TokenRange tokens) {
  part_->rows.Clear();
  size_t num_requests = 0;
  for (const HeadRun& run : runs) {
    if (run.tokens.begin >= tokens.end) break;
    const TokenRange seen = Intersect(run.tokens, tokens);
    const uint64_t count = seen.end - seen.begin;
    part_->cost.bytes_touched += count * (run.k_bytes() + run.v_bytes());
    part_->rows.Request(run.k_strip(), run.RowOf(seen.begin), count);
    part_->rows.Request(run.v_strip(), run.RowOf(seen.begin), count);
    num_requests += 2;
  }
  ATTNDB_RETURN_IF_ERROR(part_->rows.Read());
  std::byte* to_k = scratch_.tile;
  std::byte* to_v = to_k + kTileTokens * runs[0].k_bytes();
  const RowsView k = {to_k, runs[0].k_elements, runs[0].k_elements, runs[0].dtype};
  const RowsView v = {to_v, runs[0].v_elements, runs[0].v_elements, runs[0].dtype};
  for (size_t i = 0; i < num_requests; i += 2) {
    storage::ForEachPiece(
        part_->rows, i, i + 1,
        [&](const RowsView& from_k, const RowsView& from_v, uint64_t, uint64_t n) {
          to_k = CopyRows(from_k, n, to_k);
          to_v = CopyRows(from_v, n, to_v);
        });
  }
  AddPiece(part_->q + runs[0].q_shift, k, v, tokens);
  return Status::Ok();
}

void Streaming::Fold::AddPiece(const float* q, const RowsView& k, const RowsView& v,
                               TokenRange tokens) {
  const uint64_t origin = tokens.begin;
  while (tokens.begin < tokens.end) {
    EnterBlock(tokens.begin);
    const uint64_t end = std::min(tokens.end, block_end_);
    AddRows(q, kernels::RowsFrom(k, tokens.begin - origin),
            kernels::RowsFrom(v, tokens.begin - origin), {tokens.begin, end});
    tokens.begin = end;
  }
}

void Streaming::Fold::AddRows(const float* q, const RowsView& k, const RowsView& v,
                              TokenRange tokens) {
  const bool all_visible = FindVisible(tokens);
  if (num_q_rows_ >= kBlockMinRows) {
    kernels::AttendBlock(k, v, tokens.begin % kTileTokens, tokens.end - tokens.begin, q,
                         call_.k_padded(), num_q_rows_, all_visible ? nullptr : scratch_.lo,
                         all_visible ? nullptr : scratch_.hi, Logit(call_.spec()), scratch_.states,
                         scratch_.packed);
  } else if (all_visible) {
    Attend(q, k, v, tokens.begin, tokens, 0, num_q_rows_);
  } else {
    AddForFew(q, k, v, tokens);
  }
}

// All rows share the tiles that all of them see; before and after these each row has its own.
void Streaming::Fold::AddForFew(const float* q, const RowsView& k, const RowsView& v,
                                TokenRange tokens) {
  const uint32_t group = call_.group();
  const auto seen = [&](size_t r) {
    return TokenRange{tokens.begin + scratch_.lo[r], tokens.begin + scratch_.hi[r]};
  };
  TokenRange together = tokens;
  for (size_t r = 0; r < num_q_rows_; r += group) together = Intersect(together, seen(r));
  if (together.begin > tokens.begin) together.begin = TileEnd(together.begin - 1);
  if (together.end < tokens.end) together.end -= together.end % kTileTokens;
  together.end = std::max(together.begin, together.end);
  const auto add_each = [&](TokenRange range) {
    for (size_t r = 0; r < num_q_rows_; r += group) {
      Attend(q, k, v, tokens.begin, Intersect(seen(r), range), r, group);
    }
  };
  add_each({tokens.begin, together.begin});
  Attend(q, k, v, tokens.begin, together, 0, num_q_rows_);
  add_each({together.end, std::max(together.end, tokens.end)});
}

void Streaming::Fold::Attend(const float* q, const RowsView& k, const RowsView& v, uint64_t origin,
                             TokenRange tokens, size_t first, size_t count) {
  if (tokens.begin >= tokens.end) return;
  const uint64_t skipped = tokens.begin - origin;
  kernels::AttendRows(kernels::RowsFrom(k, skipped), kernels::RowsFrom(v, skipped),
                      tokens.begin % kTileTokens, tokens.end - tokens.begin,
                      q + first * call_.k_padded(), call_.k_padded(), count, Logit(call_.spec()),
                      StatesFrom(scratch_.states, first));
}

bool Streaming::Fold::FindVisible(TokenRange range) const {
  const uint32_t group = call_.group();
  bool all_visible = true;
  for (uint64_t r = 0; r < unit_.num_rows; ++r) {
    const TokenRange seen = Intersect(call_.Visible(unit_.first_row + r), range);
    const bool empty = seen.begin == seen.end;
    const auto lo = static_cast<uint32_t>(empty ? 0 : seen.begin - range.begin);
    const auto hi = static_cast<uint32_t>(empty ? 0 : seen.end - range.begin);
    all_visible = all_visible && lo == 0 && hi == range.end - range.begin;
    std::fill_n(scratch_.lo + r * group, group, lo);
    std::fill_n(scratch_.hi + r * group, group, hi);
  }
  return all_visible;
}

void Streaming::Fold::EnterBlock(uint64_t token) {
  if (token < block_end_) return;
  CloseBlock();
  kernels::InitStates(scratch_.states, num_q_rows_, call_.v_padded());
  block_ = op_.blocks_.Of(token);
  block_end_ = op_.blocks_.EndAt(token);
}

// The merge into empty states copies them, bit by bit: so it does not matter whether blocks are
// merged one by one or first kept.
void Streaming::Fold::CloseBlock() {
  if (block_end_ == 0) return;
  kernels::MergeStates(scratch_.states,
                       call_.is_shared() ? op_.StatesOfBlock(unit_idx_, block_) : part_->states,
                       num_q_rows_, call_.v_padded());
}

void Streaming::Begin(const CallView& call) {
  call_ = &call;
  parts_.resize(call.num_parts());
  blocks_ = TokenBlocks(call.spec());
  blocks_max_ = 0;
  for (const WorkUnit& unit : call.work().units) {
    blocks_max_ = std::max(blocks_max_, blocks_.Count(unit.tokens));
  }
}

void Streaming::TakeShared(Arena* arena) {
  const size_t num_units = call_->work().units.size();
  shared_ = TakeStates(num_units * blocks_max_ * call_->rows_max(), call_->v_padded(), arena);
}

void Streaming::TakePart(uint32_t part, Arena* arena) {
  const size_t row_bytes =
      (call_->k_padded() + call_->v_padded()) * DTypeBytes(call_->call().kv_dtype);
  Scratch& scratch = parts_[part];
  scratch.lo = arena->Take<uint32_t>(call_->rows_max());
  scratch.hi = arena->Take<uint32_t>(call_->rows_max());
  scratch.tile = arena->Take<std::byte>(kTileTokens * row_bytes);
  scratch.states = TakeStates(call_->rows_max(), call_->v_padded(), arena);
  scratch.packed = arena->Take<std::byte>(
      kernels::AttendBlockScratchBytes(call_->k_padded(), call_->v_padded()));
}

TokenRange Streaming::TokensOf(const WorkItem& item) const {
  const WorkUnit& unit = call_->unit(item.unit);
  const TokenRange range = unit.Range(item.range);
  const auto cut = [&](uint64_t token) {
    return token == unit.tokens.begin ? token : std::min(blocks_.NextBegin(token), unit.tokens.end);
  };
  return {cut(range.begin), cut(range.end)};
}

StateRows Streaming::StatesOfBlock(uint32_t unit, uint64_t block) const {
  const uint64_t in_unit = block - blocks_.Of(call_->unit(unit).tokens.begin);
  return StatesFrom(shared_, (unit * blocks_max_ + in_unit) * call_->rows_max());
}

template <typename F>
void Streaming::ForEachBlock(uint32_t unit, TokenRange tokens, const F& f) const {
  const TokenRange left_out = LeftOut(call_->unit(unit));
  for (uint64_t begin = tokens.begin; begin < tokens.end; begin = blocks_.EndAt(begin)) {
    const uint64_t end = std::min(blocks_.EndAt(begin), tokens.end);
    if (left_out.begin <= begin && end <= left_out.end) continue;
    f(StatesOfBlock(unit, blocks_.Of(begin)));
  }
}

Status Streaming::RunItem(const WorkItem& item, Part* part) {
  const int64_t start_ns = SteadyNowNanos();
  const WorkUnit& unit = call_->unit(item.unit);
  const TokenRange tokens = TokensOf(item);
  const TokenRange left_out = LeftOut(unit);
  const auto init = [&](const StateRows& states) {
    kernels::InitStates(states, unit.num_rows * call_->group(), call_->v_padded());
  };
  if (call_->is_shared()) {
    ForEachBlock(item.unit, tokens, init);
  } else {
    init(part->states);
  }
  Fold fold(*this, item, part);
  ATTNDB_RETURN_IF_ERROR(fold.AddTokens(Intersect(tokens, {0, left_out.begin})));
  ATTNDB_RETURN_IF_ERROR(fold.AddTokens(Intersect(tokens, {left_out.end, unit.tokens.end})));
  fold.End();
  part->cost.attend_ns += SteadyNowNanos() - start_ns;
  return Status::Ok();
}

Status Streaming::Finish(uint32_t unit_idx, uint32_t /*group_head*/, Part* part) {
  const int64_t start_ns = SteadyNowNanos();
  const WorkUnit& unit = call_->unit(unit_idx);
  const size_t num_q_rows = unit.num_rows * call_->group();
  if (call_->is_shared()) {
    kernels::InitStates(part->states, num_q_rows, call_->v_padded());
    ForEachBlock(unit_idx, unit.tokens, [&](const StateRows& states) {
      kernels::MergeStates(states, part->states, num_q_rows, call_->v_padded());
    });
  }
  call_->WriteHeads(unit, 0, call_->group(), part->states, part);
  part->cost.attend_ns += SteadyNowNanos() - start_ns;
  return Status::Ok();
}

}  // namespace attndb::attention
