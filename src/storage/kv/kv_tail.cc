#include "storage/kv/kv_tail.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "common/check.h"
#include "common/checked_math.h"
#include "storage/kv/kv_layout.h"

namespace attndb::storage {
namespace {

// Capacities are multiples of this: 16 rows of any dtype end on a 64-byte boundary.
constexpr uint64_t kCapacityMultiple = 16;

constexpr uint64_t kBlocksJoined = KvTail::kJoinedTokens / KvTail::kBlockTokens;

constexpr uint64_t BlockOf(uint64_t token) { return token / KvTail::kBlockTokens; }
constexpr uint64_t NumBlocks(uint64_t num_tokens) {
  return (num_tokens + KvTail::kBlockTokens - 1) / KvTail::kBlockTokens;
}

// Rows of a block that holds num_needed of the layer's num_after tokens: an eighth of the layer to
// spare, so that growing copies each row a few times at most and memory stays within 1.2 times.
uint64_t CapacityFor(uint64_t num_needed, uint64_t num_after) {
  return std::min<uint64_t>(KvTail::kBlockTokens,
                            RoundUp(num_needed + num_after / 8, kCapacityMultiple));
}

}  // namespace

struct KvTail::Memory {
  Reservation reservation;
  AlignedBuffer buffer;
};

// In memory of its own, head h has its K rows at h * capacity * sizes.sum(), and its V rows right
// behind them. Blocks that were joined share memory in which their rows follow each other's.
struct KvTail::Block {
  // Bytes of one row of K, of V and of both.
  struct RowSizes {
    uint64_t k = 0;
    uint64_t v = 0;
    uint64_t sum() const { return k + v; }
  };

  std::byte* k(uint32_t head) { return k_base + head * head_stride; }
  std::byte* v(uint32_t head) { return v_base + head * head_stride; }

  // Tokens [first, first + num_tokens) of it, in the same memory.
  std::shared_ptr<Block> Part(uint64_t first, uint64_t num_tokens) const {
    auto part = std::make_shared<Block>(*this);
    part->k_base += first * sizes.k;
    part->v_base += first * sizes.v;
    part->capacity = num_tokens;
    return part;
  }

  std::shared_ptr<const Memory> memory;
  std::byte* k_base = nullptr;
  std::byte* v_base = nullptr;
  uint64_t head_stride = 0;
  RowSizes sizes;
  uint64_t capacity = 0;
};

struct KvTail::BlockRef {
  std::shared_ptr<Block> block;
  bool shared = false;  // Others may hold its memory too: never write to it.
};

// Block i holds tokens [256 i, 256 (i + 1)); all but the last have room for 256. Between
// BeginAppend and CommitAppend there may be spare blocks behind num_tokens.
struct KvTail::Layer {
  // The index of the run that contains block `block`: kBlocksJoined joined blocks are one run, and
  // each other block is a run of its own.
  uint64_t RunOf(uint64_t block) const {
    const uint64_t num_joined_blocks = num_joined * kBlocksJoined;
    return block < num_joined_blocks ? block / kBlocksJoined
                                     : num_joined + block - num_joined_blocks;
  }
  uint64_t FirstBlock(uint64_t run) const {
    return run <= num_joined ? run * kBlocksJoined : num_joined * kBlocksJoined + run - num_joined;
  }

  std::vector<BlockRef> blocks;
  uint64_t num_tokens = 0;
  uint64_t num_joined = 0;                // Times kJoinedTokens, of the first tokens.
  std::vector<bool> non_finite;           // By kv head.
  std::vector<std::vector<KvRows>> runs;  // By kv head.
};

KvTail::KvTail(std::shared_ptr<const KvShape> shape, MemoryBudget* budget)
    : shape_(std::move(shape)), budget_(budget) {
  ATTNDB_CHECK(ValidateShape(*shape_).ok());
  for (const LayerShape& layer : shape_->layers) {
    layers_.push_back({.blocks = {},
                       .num_tokens = 0,
                       .num_joined = 0,
                       .non_finite = std::vector<bool>(layer.num_kv_heads, false),
                       .runs = std::vector<std::vector<KvRows>>(layer.num_kv_heads)});
  }
}

KvTail::~KvTail() = default;
KvTail::KvTail(KvTail&&) noexcept = default;
KvTail& KvTail::operator=(KvTail&&) noexcept = default;

KvTail KvTail::Fork() {
  KvTail fork(shape_, budget_);
  for (LayerId layer = 0; layer < layers_.size(); ++layer) {
    CropLayer(layer, layers_[layer].num_tokens);  // Spare blocks have one owner.
    for (BlockRef& ref : layers_[layer].blocks) ref.shared = true;
  }
  fork.layers_ = layers_;
  return fork;
}

Result<AppendSlot> KvTail::BeginAppend(LayerId layer, uint64_t num_rows) {
  ATTNDB_CHECK(layer < layers_.size());
  const uint64_t begin = layers_[layer].num_tokens;
  const uint64_t end = begin + num_rows;
  pieces_.clear();
  pending_layer_ = layer;
  num_pending_ = num_rows;
  for (uint64_t block = BlockOf(begin); block < NumBlocks(end); ++block) {
    const uint64_t block_begin = block * kBlockTokens;
    const uint64_t num_kept = std::max(begin, block_begin) - block_begin;
    const uint64_t num_needed = std::min<uint64_t>(end - block_begin, kBlockTokens);
    const Status status = MakeWritable(layer, block, num_kept, num_needed, end);
    if (!status.ok()) {
      CropLayer(layer, begin);
      num_pending_ = 0;
      return status;
    }
    Block& data = *layers_[layer].blocks[block].block;
    pieces_.push_back({.first_row = block_begin + num_kept - begin,
                       .num_rows = num_needed - num_kept,
                       .k_base = data.k(0) + num_kept * data.sizes.k,
                       .v_base = data.v(0) + num_kept * data.sizes.v,
                       .head_stride = data.head_stride});
  }
  return AppendSlot{.pieces = pieces_};
}

Status KvTail::MakeWritable(LayerId layer, uint64_t block, uint64_t num_kept, uint64_t num_needed,
                            uint64_t num_after) {
  std::vector<BlockRef>& blocks = layers_[layer].blocks;
  if (block < blocks.size()) {
    const BlockRef& old = blocks[block];
    if (!old.shared && old.block->capacity >= num_needed) return Status::Ok();
  }
  ATTNDB_ASSIGN_OR_RETURN(std::shared_ptr<Block> fresh,
                          NewBlock(layer, CapacityFor(num_needed, num_after)));
  if (block == blocks.size()) {
    ATTNDB_CHECK(num_kept == 0);
    blocks.push_back({.block = std::move(fresh), .shared = false});
    return Status::Ok();
  }
  CopyTokens(layer, *blocks[block].block, num_kept, fresh.get());
  blocks[block] = {.block = std::move(fresh), .shared = false};
  UpdateRuns(layer, block);
  return Status::Ok();
}

void KvTail::CopyTokens(LayerId layer, Block& from, uint64_t num_tokens, Block* to) const {
  for (uint32_t head = 0; head < shape_->layers[layer].num_kv_heads; ++head) {
    std::memcpy(to->k(head), from.k(head), num_tokens * from.sizes.k);
    std::memcpy(to->v(head), from.v(head), num_tokens * from.sizes.v);
  }
}

Result<std::shared_ptr<KvTail::Block>> KvTail::NewBlock(LayerId layer, uint64_t capacity) const {
  const uint64_t num_bytes = capacity * LayerBytesPerToken(*shape_, layer);
  auto memory = std::make_shared<Memory>();
  ATTNDB_ASSIGN_OR_RETURN(
      memory->reservation,
      budget_->Reserve(num_bytes, "the tail of layer " + std::to_string(layer)));
  ATTNDB_ASSIGN_OR_RETURN(memory->buffer, AlignedBuffer::Allocate(num_bytes));
  auto block = std::make_shared<Block>();
  block->sizes = {.k = KRowBytes(*shape_, layer), .v = VRowBytes(*shape_, layer)};
  block->capacity = capacity;
  block->head_stride = capacity * block->sizes.sum();
  block->k_base = memory->buffer.data();
  block->v_base = block->k_base + capacity * block->sizes.k;
  block->memory = std::move(memory);
  return block;
}

void KvTail::CommitAppend(LayerId layer) {
  ATTNDB_CHECK(layer == pending_layer_);
  Layer& state = layers_[layer];
  const uint64_t first_changed = BlockOf(state.num_tokens);
  state.num_tokens += std::exchange(num_pending_, 0);
  UpdateRuns(layer, first_changed);
}

void KvTail::UpdateRuns(LayerId layer, uint64_t first_block) {
  Layer& state = layers_[layer];
  const uint64_t first_run = state.RunOf(first_block);
  const uint64_t num_runs = state.RunOf(NumBlocks(state.num_tokens));
  for (uint32_t head = 0; head < state.runs.size(); ++head) {
    std::vector<KvRows>& runs = state.runs[head];
    runs.resize(num_runs);
    for (uint64_t run = first_run; run < num_runs; ++run) {
      const uint64_t first = state.FirstBlock(run);
      Block& data = *state.blocks[first].block;
      const uint64_t end = std::min(state.num_tokens, state.FirstBlock(run + 1) * kBlockTokens);
      runs[run] = {.k = data.k(head), .v = data.v(head), .num_tokens = end - first * kBlockTokens};
    }
  }
}

bool KvTail::CanJoin(LayerId layer) const {
  const Layer& state = layers_[layer];
  return state.num_tokens >= (state.num_joined + 1) * kJoinedTokens;
}

Status KvTail::Join(LayerId layer) {
  ATTNDB_CHECK(CanJoin(layer));
  Layer& state = layers_[layer];
  ATTNDB_ASSIGN_OR_RETURN(const std::shared_ptr<Block> joined, NewBlock(layer, kJoinedTokens));
  const uint64_t first_block = state.num_joined * kBlocksJoined;
  for (uint64_t i = 0; i < kBlocksJoined; ++i) {
    BlockRef& ref = state.blocks[first_block + i];
    std::shared_ptr<Block> part = joined->Part(i * kBlockTokens, kBlockTokens);
    CopyTokens(layer, *ref.block, kBlockTokens, part.get());
    ref = {.block = std::move(part), .shared = true};
  }
  ++state.num_joined;
  UpdateRuns(layer, first_block);
  return Status::Ok();
}

uint64_t KvTail::num_joined(LayerId layer) const { return layers_[layer].num_joined; }

JoinedTokens KvTail::joined(LayerId layer, uint64_t i) const {
  const Layer& state = layers_[layer];
  ATTNDB_CHECK(i < state.num_joined);
  JoinedTokens tokens = {.memory = state.blocks[i * kBlocksJoined].block->memory, .rows = {}};
  for (const std::vector<KvRows>& runs : state.runs) tokens.rows.push_back(runs[i]);
  return tokens;
}

void KvTail::CropLayer(LayerId layer, uint64_t num_tokens) {
  Layer& state = layers_[layer];
  state.num_tokens = std::min(state.num_tokens, num_tokens);
  const uint64_t num_blocks = NumBlocks(state.num_tokens);
  if (state.blocks.size() > num_blocks) state.blocks.resize(num_blocks);
  uint64_t first_changed = num_blocks == 0 ? 0 : num_blocks - 1;
  const uint64_t num_joined = std::min(state.num_joined, state.num_tokens / kJoinedTokens);
  if (num_joined != state.num_joined) {
    state.num_joined = num_joined;
    first_changed = std::min(first_changed, num_joined * kBlocksJoined);
  }
  UpdateRuns(layer, first_changed);
}

void KvTail::Crop(uint64_t num_tokens) {
  num_pending_ = 0;
  for (LayerId layer = 0; layer < layers_.size(); ++layer) CropLayer(layer, num_tokens);
}

void KvTail::Reset() {
  Crop(0);
  for (Layer& layer : layers_) layer.non_finite.assign(layer.non_finite.size(), false);
}

Status KvTail::CopyRest(LayerId layer, uint64_t num_skipped, KvTail* to) const {
  const uint64_t num_rest = layers_[layer].num_tokens - num_skipped;
  ATTNDB_ASSIGN_OR_RETURN(const AppendSlot slot, to->BeginAppend(layer, num_rest));
  for (const AppendPiece& piece : slot.pieces) {
    for (uint64_t row = piece.first_row; row < piece.first_row + piece.num_rows; ++row) {
      const uint64_t token = num_skipped + row;
      Block& from = *layers_[layer].blocks[BlockOf(token)].block;
      const uint64_t i = token % kBlockTokens;
      const uint64_t to_row = row - piece.first_row;
      for (uint32_t head = 0; head < shape_->layers[layer].num_kv_heads; ++head) {
        std::memcpy(piece.k(head) + to_row * from.sizes.k, from.k(head) + i * from.sizes.k,
                    from.sizes.k);
        std::memcpy(piece.v(head) + to_row * from.sizes.v, from.v(head) + i * from.sizes.v,
                    from.sizes.v);
      }
    }
  }
  to->CommitAppend(layer);
  return Status::Ok();
}

Status KvTail::DropFirst(uint64_t num_tokens) {
  if (std::ranges::all_of(layers_, [=](const Layer& l) { return l.num_tokens == num_tokens; })) {
    Reset();
    return Status::Ok();
  }
  KvTail rest(shape_, budget_);
  for (LayerId layer = 0; layer < layers_.size(); ++layer) {
    ATTNDB_CHECK(layers_[layer].num_tokens >= num_tokens);
    ATTNDB_RETURN_IF_ERROR(CopyRest(layer, num_tokens, &rest));
    rest.layers_[layer].non_finite = layers_[layer].non_finite;
  }
  *this = std::move(rest);
  return Status::Ok();
}

void KvTail::SetNonFinite(LayerId layer, uint32_t kv_head) {
  layers_[layer].non_finite[kv_head] = true;
}

bool KvTail::non_finite(LayerId layer, uint32_t kv_head) const {
  return layers_[layer].non_finite[kv_head];
}

uint64_t KvTail::num_tokens(LayerId layer) const { return layers_[layer].num_tokens; }

uint64_t KvTail::num_tokens() const {
  const auto least = std::ranges::min_element(layers_, {}, &Layer::num_tokens);
  return least->num_tokens;
}

std::span<const KvRows> KvTail::runs(LayerId layer, uint32_t kv_head) const {
  return layers_[layer].runs[kv_head];
}

uint64_t KvTail::memory_bytes() const {
  uint64_t sum = 0;
  for (const Layer& layer : layers_) {
    for (const BlockRef& ref : layer.blocks) {
      sum += ref.block->capacity * ref.block->sizes.sum() * layer.runs.size();
    }
  }
  return sum;
}

}  // namespace attndb::storage
