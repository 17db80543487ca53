#include "storage/kv/chain_rows.h"

#include <utility>

#include "common/check.h"
#include "kernels/layout.h"
#include "storage/kv/turned_keys.h"

namespace attndb::storage {

void ChainRows::Reset(const LayerShape& shape, DType dtype) {
  for (size_t i = 0; i < run_tokens_.size(); ++i) runs_[i]->pin = {};
  run_tokens_.clear();
  formats_ = RowFormats(shape, dtype);
  key_turns_ = shape.key_turns;
  MutexLock lock(&mutex_);
  failure_.reset();
}

ChainRows::Run& ChainRows::NextRun(uint64_t num_tokens) {
  run_tokens_.push_back(num_tokens);
  if (run_tokens_.size() > runs_.size()) runs_.push_back(std::make_unique<Run>());
  return *runs_[run_tokens_.size() - 1];
}

void ChainRows::AddSegment(Segment* segment, LayerId layer, uint64_t num_tokens) {
  ATTNDB_DCHECK(num_tokens <= segment->num_tokens());
  Run& run = NextRun(num_tokens);
  run.segment = segment;
  run.layer = layer;
  run.first_position = segment->first_position();
  run.heads.store(nullptr, std::memory_order_relaxed);
}

void ChainRows::AddRun(std::span<const KvRows> heads) {
  Run& run = NextRun(heads[0].num_tokens);
  run.segment = nullptr;
  run.first_position = 0;
  run.rows.assign(heads.begin(), heads.end());
  run.heads.store(run.rows.data(), std::memory_order_relaxed);
}

void ChainRows::AddTail(const KvTail& tail, LayerId layer, int64_t first_position) {
  const uint32_t num_heads = tail.shape().layers[layer].num_kv_heads;
  for (size_t i = 0; i < tail.runs(layer, 0).size(); ++i) {
    Run& run = NextRun(tail.runs(layer, 0)[i].num_tokens);
    run.segment = nullptr;
    run.first_position = first_position;
    run.rows.clear();
    for (uint32_t head = 0; head < num_heads; ++head) {
      run.rows.push_back(tail.runs(layer, head)[i]);
    }
    run.heads.store(run.rows.data(), std::memory_order_relaxed);
    first_position += static_cast<int64_t>(run.rows[0].num_tokens);
  }
}

Status ChainRows::Acquire(RowLease* lease) const {
  for (const RowRequest& request : lease->requests()) {
    const Strip& strip = request.strip;
    ATTNDB_DCHECK(strip.run < run_tokens_.size());
    kernels::RowsView rows = formats_.At(strip.part, nullptr);
    if (request.count > 0) {  // A request without rows loads no layer.
      Run* const run = runs_[strip.run].get();
      const KvRows* heads = run->heads.load(std::memory_order_acquire);
      if (heads == nullptr) {
        ATTNDB_ASSIGN_OR_RETURN(heads, Bring(strip.run));
      }
      rows.data = heads[strip.kv_head].At(strip.part);
      if (key_turns_ && strip.part == RowPart::kKeys) {
        ATTNDB_RETURN_IF_ERROR(
            PlaceTurnedKeys(*key_turns_, request, rows, run->first_position, lease));
        continue;
      }
    }
    if (request.list != nullptr) {
      lease->PlaceList({rows, request.list});
    } else {
      lease->PlaceRange(kernels::RowsFrom(rows, request.first), request.count, 0);
    }
  }
  return Status::Ok();
}

const void* ChainRows::Resident(const Strip& strip) const {
  const KvRows* const heads = runs_[strip.run]->heads.load(std::memory_order_acquire);
  if (heads == nullptr || (key_turns_ && strip.part == RowPart::kKeys)) return nullptr;
  return heads[strip.kv_head].At(strip.part);
}

Status ChainRows::BringRun(uint32_t run) {
  if (runs_[run]->heads.load(std::memory_order_relaxed) != nullptr) return Status::Ok();
  return Bring(run).status();
}

// If several threads need the segment, the segment lets one of them read.
Result<const KvRows*> ChainRows::Bring(uint32_t number) const {
  Run* const run = runs_[number].get();
  Result<LayerPin> pin = run->segment->PinLayer(run->layer, run_tokens_[number]);
  MutexLock lock(&mutex_);
  if (!pin.ok()) {
    if (!failure_) failure_ = {run->segment, pin.status()};
    return std::move(pin).status();
  }
  if (run->heads.load(std::memory_order_relaxed) == nullptr) {
    run->pin = *std::move(pin);
    run->heads.store(run->pin.heads().data(), std::memory_order_release);
  }
  return run->heads.load(std::memory_order_relaxed);
}

std::optional<ChainRows::Failure> ChainRows::TakeFailure() {
  MutexLock lock(&mutex_);
  return std::exchange(failure_, std::nullopt);
}

}  // namespace attndb::storage
