#include "storage/kv/tail_block.h"

#include <atomic>
#include <string>
#include <utility>

#include "common/check.h"

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

Result<LayerQueries> TailBlock::ReadQueries(LayerId layer) const {
  return Status::NotFound("layer " + std::to_string(layer) + " of a tail has no sampled queries");
}

}  // namespace attndb::storage
