#include "attention/scratch_pool.h"

#include <algorithm>
#include <optional>

namespace attndb::attention {

struct ScratchLease::Block final : public storage::Resident {
  Block(storage::Reservation reservation, AlignedBuffer buffer)
      : Resident(std::move(reservation), std::make_shared<storage::ResidentGroup>()),
        memory(std::move(buffer)) {}

  AlignedBuffer memory;
};

ScratchLease& ScratchLease::operator=(ScratchLease&& other) noexcept {
  if (this == &other) return *this;
  Return();
  pool_ = other.pool_;
  block_ = std::move(other.block_);
  return *this;
}

std::byte* ScratchLease::data() const { return block_->memory.data(); }

size_t ScratchLease::size() const { return block_->memory.size(); }

void ScratchLease::Return() {
  if (block_ != nullptr) pool_->Return(std::move(block_));
  block_ = nullptr;
}

Result<ScratchLease> ScratchPool::Lease(size_t num_bytes) {
  std::shared_ptr<Block> block = TakeIdle(num_bytes);
  if (block == nullptr || block->memory.size() < num_bytes) {
    const size_t old_bytes = block == nullptr ? 0 : block->memory.size();
    if (block != nullptr) budget_->Drop(block.get());
    block = nullptr;
    // By half at least, so that a session that gains one token a call does not allocate at each.
    ATTNDB_ASSIGN_OR_RETURN(block, MakeBlock(num_bytes, old_bytes + old_bytes / 2));
  }
  budget_->Touch(*block);
  return ScratchLease(this, std::move(block));
}

std::shared_ptr<ScratchPool::Block> ScratchPool::TakeIdle(size_t num_bytes) {
  const auto is_better = [=](const Idle& a, const Idle& b) {
    const bool a_fits = a.num_bytes >= num_bytes;
    const bool b_fits = b.num_bytes >= num_bytes;
    if (a_fits != b_fits) return a_fits;
    return a_fits ? a.num_bytes < b.num_bytes : a.num_bytes > b.num_bytes;
  };
  MutexLock lock(&mutex_);
  while (!idle_.empty()) {
    const auto best = std::ranges::min_element(idle_, is_better);
    std::shared_ptr<Block> block = best->block.lock();
    *best = std::move(idle_.back());
    idle_.pop_back();
    if (block != nullptr) return block;  // Else the budget has dropped it.
  }
  return nullptr;
}

// A block of wanted_bytes if that takes nothing away from others, otherwise of num_bytes.
Result<std::shared_ptr<ScratchPool::Block>> ScratchPool::MakeBlock(size_t num_bytes,
                                                                   size_t wanted_bytes) {
  std::optional<storage::Reservation> reservation;
  if (wanted_bytes > num_bytes) reservation = budget_->ReserveIfFree(wanted_bytes);
  if (!reservation) {
    ATTNDB_ASSIGN_OR_RETURN(reservation, budget_->Reserve(num_bytes, "scratch of an Attend"));
  }
  ATTNDB_ASSIGN_OR_RETURN(AlignedBuffer memory, AlignedBuffer::Allocate(reservation->bytes()));
  auto block = std::make_shared<Block>(*std::move(reservation), std::move(memory));
  budget_->Keep(block);
  return block;
}

void ScratchPool::Return(std::shared_ptr<Block> block) {
  MutexLock lock(&mutex_);
  idle_.push_back({block->memory.size(), block});
}

}  // namespace attndb::attention
