#include "storage/kv/chain_rows.h"

#include <utility>

#include "common/check.h"
#include "kernels/layout.h"

namespace attndb::storage {

void ChainRows::Reset(const LayerShape& shape, DType dtype) {
  for (size_t i = 0; i < run_tokens_.size(); ++i) runs_[i]->pin = {};
  run_tokens_.clear();
  formats_ = RowFormats(shape, dtype);
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
  run.heads.store(nullptr, std::memory_order_relaxed);
}

void ChainRows::AddRun(std::span<const KvRows> heads) {
  Run& run = NextRun(heads[0].num_tokens);
  run.segment = nullptr;
  run.rows.assign(heads.begin(), heads.end());
  run.heads.store(run.rows.data(), std::memory_order_relaxed);
}

void ChainRows::AddTail(const KvTail& tail, LayerId layer) {
  const uint32_t num_heads = tail.shape().layers[layer].num_kv_heads;
  for (size_t i = 0; i < tail.runs(layer, 0).size(); ++i) {
    Run& run = NextRun(tail.runs(layer, 0)[i].num_tokens);
    run.segment = nullptr;
    run.rows.clear();
    for (uint32_t head = 0; head < num_heads; ++head) {
      run.rows.push_back(tail.runs(layer, head)[i]);
    }
    run.heads.store(run.rows.data(), std::memory_order_relaxed);
  }
}

Status ChainRows::Acquire(RowLease* lease) const {
  for (const RowRequest& request : lease->requests()) {
    const Strip& strip = request.strip;
    ATTNDB_DCHECK(strip.run < run_tokens_.size());
    kernels::RowsView rows = formats_.At(strip.part, nullptr);
    if (request.count > 0) {  // Who asks for no row needs no layer.
      Run* const run = runs_[strip.run].get();
      const KvRows* heads = run->heads.load(std::memory_order_acquire);
      if (heads == nullptr) {
        ATTNDB_ASSIGN_OR_RETURN(heads, Bring(run));
      }
      rows.data = heads[strip.kv_head].At(strip.part);
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
  if (heads == nullptr) return nullptr;
  return heads[strip.kv_head].At(strip.part);
}

Status ChainRows::BringRun(uint32_t run) {
  if (runs_[run]->heads.load(std::memory_order_relaxed) != nullptr) return Status::Ok();
  return Bring(runs_[run].get()).status();
}

// The segment sees to it that of several threads one reads.
Result<const KvRows*> ChainRows::Bring(Run* run) const {
  Result<LayerPin> pin = run->segment->PinLayer(run->layer);
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
