#include "index/coarse/block_search.h"

#include <algorithm>
#include <cmath>

#include "common/infinity.h"
#include "kernels/select.h"

namespace attndb::index {

BlockSearch::BlockSearch(const IndexCall& call, void* scratch, SearchCost* cost)
    : call_(call),
      cost_(cost),
      scratch_(scratch),
      shape_(KeysOf(call.runs[0]).shape()),
      num_keys_(call.num_visible()),
      num_blocks_(CountBlocks(call)),
      queries_(scratch_.Take<float>(call.num_q_rows * shape_.row_elements())),
      scores_(scratch_.Take<float>(call.num_q_rows * num_blocks_)),
      worth_(scratch_.Take<float>(num_blocks_)),
      selected_(scratch_.Take<uint32_t>(num_blocks_ + kernels::kSelectSlack)),
      fair_(call, num_blocks_, &scratch_),
      listed_(call, num_keys_, &scratch_) {}

size_t BlockSearch::CountBlocks(const IndexCall& call) {
  size_t count = 0;
  for (const IndexRun& run : call.runs) count += VisibleBlocks(run).count;
  return count;
}

BlockSearch::BlockRange BlockSearch::VisibleBlocks(const IndexRun& run) {
  if (run.count() == 0) return {};
  const size_t block_keys = KeysOf(run).block_keys();
  const size_t first = run.first_visible / block_keys;
  return {first, (run.num_visible - 1) / block_keys + 1 - first};
}

template <typename F>
void BlockSearch::ForEachSelected(const F& f) const {
  size_t i = 0;
  size_t first_of_run = 0;
  for (size_t run = 0; run < call_.runs.size(); ++run) {
    const IndexRun& of = call_.runs[run];
    const BlockRange blocks = VisibleBlocks(of);
    for (; i < num_selected_ && selected_[i] < first_of_run + blocks.count; ++i) {
      const size_t begin = (blocks.first + selected_[i] - first_of_run) * shape_.form.block_keys;
      f(run, std::max(begin, of.first_visible),
        std::min(begin + shape_.form.block_keys, of.num_visible));
    }
    first_of_run += blocks.count;
  }
}

void BlockSearch::ScoreBlocks() {
  KeysOf(call_.runs[0]).Prepare(call_.q, call_.q_stride, call_.num_q_rows, queries_);
  size_t at = 0;
  for (const IndexRun& run : call_.runs) {
    const BlockRange blocks = VisibleBlocks(run);
    KeysOf(run).ScoreBlocks(queries_, call_.num_q_rows, blocks.first, blocks.count, scores_ + at,
                            num_blocks_);
    at += blocks.count;
  }
  cost_->bytes_touched += num_blocks_ * shape_.row_bytes();
  cost_->keys_scored += num_blocks_ * call_.num_q_rows;
}

float BlockSearch::BestOf(size_t row) const {
  return std::max(kernels::MaxScore(ScoresOf(row), num_blocks_), call_.best[row]);
}

void BlockSearch::RateByBest() {
  std::fill_n(worth_, num_blocks_, -kInfinity);
  for (size_t r = 0; r < call_.num_q_rows; ++r) {
    const float* const scores = ScoresOf(r);
    const float best = BestOf(r);
    fair_.SetBest(r, best);
    if (!std::isfinite(best)) continue;
    for (size_t i = 0; i < num_blocks_; ++i) worth_[i] = std::max(worth_[i], scores[i] - best);
  }
}

void BlockSearch::RateBySum() {
  std::fill_n(worth_, num_blocks_, 0.0f);
  for (size_t r = 0; r < call_.num_q_rows; ++r) {
    const float* const scores = ScoresOf(r);
    fair_.SetBest(r, BestOf(r));
    if (!std::isfinite(kernels::MaxScore(scores, num_blocks_))) continue;
    for (size_t i = 0; i < num_blocks_; ++i) worth_[i] += scores[i];
  }
}

size_t BlockSearch::NumKeysSelected() const {
  size_t count = 0;
  ForEachSelected([&](size_t, size_t first, size_t end) { count += end - first; });
  return count;
}

void BlockSearch::SelectByWorth() {
  const size_t room = NumWanted(call_.spec, num_keys_);
  num_selected_ = 0;
  if (room == num_keys_) {
    num_selected_ =
        kernels::SelectTopK(worth_, num_blocks_, num_blocks_, selected_, listed_.select_scratch());
    return;
  }
  size_t num_more = std::max<size_t>(1, room / shape_.form.block_keys);
  // Blocks of which keys are hidden leave room for others.
  while (num_more > 0 && num_selected_ < num_blocks_) {
    num_selected_ = kernels::SelectTopK(worth_, num_blocks_, num_selected_ + num_more, selected_,
                                        listed_.select_scratch());
    num_more = (room - std::min(room, NumKeysSelected())) / shape_.form.block_keys;
  }
}

void BlockSearch::SelectBlocks() {
  const bool is_margin = shape_.form.summary == BlockSummary::kBounds;
  do {
    SelectByWorth();
  } while (fair_.Feed({scores_, num_blocks_, worth_, is_margin}, {selected_, num_selected_},
                      listed_.select_scratch()));
}

void BlockSearch::ListKeys() {
  listed_.Clear();
  ForEachSelected([&](size_t run, size_t first, size_t end) {
    for (size_t key = first; key < end; ++key) listed_.Add(run, key);
  });
  cost_->clusters += num_selected_;
}

Status BlockSearch::Run(FoundKeys* found) {
  for (size_t r = 0; r < call_.num_q_rows; ++r) found[r].count = 0;
  if (num_keys_ == 0) return Status::Ok();
  ScoreBlocks();
  if (shape_.form.summary == BlockSummary::kBounds) {
    RateByBest();
  } else {
    RateBySum();
  }
  SelectBlocks();
  ListKeys();
  ATTNDB_RETURN_IF_ERROR(listed_.Score(cost_));
  for (size_t r = 0; r < call_.num_q_rows; ++r) listed_.Choose(r, &found[r]);
  return Status::Ok();
}

}  // namespace attndb::index
