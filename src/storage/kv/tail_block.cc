#include "storage/kv/tail_block.h"

#include <atomic>
#include <string>
#include <utility>

#include "common/check.h"
#include "storage/kv/chain_source.h"
#include "storage/kv/kv_layout.h"
#include "storage/kv/turned_keys.h"

namespace attndb::storage {
namespace {

uint64_t NextId() {
  static std::atomic<uint64_t> next = 0;  // Relaxed: a number, no more.
  return uint64_t{1} << 63 | next.fetch_add(1, std::memory_order_relaxed);
}

}  // namespace

TailBlock::TailBlock(std::shared_ptr<const KvShape> shape, int64_t first_position)
    : id_(NextId()),
      shape_(std::move(shape)),
      first_position_(first_position),
      layers_(shape_->layers.size()) {}

void TailBlock::AddLayer(LayerId layer, JoinedTokens tokens, std::vector<bool> non_finite) {
  ATTNDB_CHECK(!HasLayer(layer) && !tokens.rows.empty());
  layers_[layer] = {std::move(tokens), std::move(non_finite)};
}

Result<HeadRows> TailBlock::ReadRows(LayerId layer, uint32_t kv_head, RowPart part) const {
  const std::byte* const stored = layers_[layer].tokens.rows[kv_head].At(part);
  const LayerShape& shape = shape_->layers[layer];
  if (part == RowPart::kValues || !shape.key_turns) return HeadRows(stored);
  ATTNDB_ASSIGN_OR_RETURN(AlignedBuffer turned,
                          AlignedBuffer::Allocate(num_tokens() * KRowBytes(*shape_, layer)));
  TurnKeys(*shape.key_turns, RowFormats(shape, shape_->dtype).At(part, stored), first_position_,
           num_tokens(), turned.data());
  return HeadRows(std::move(turned));
}

Result<LayerQueries> TailBlock::ReadQueries(LayerId layer) const {
  return Status::NotFound("layer " + std::to_string(layer) + " of a tail has no sampled queries");
}

}  // namespace attndb::storage
