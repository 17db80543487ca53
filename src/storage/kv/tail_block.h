// A block of a session's tail from which objects can be derived: joined tokens (kv_tail.h), layer
// by layer, as they are complete.
//
// Threads: one thread adds layers; of a layer that was added before it was told of it, any thread
//          may ask.
#ifndef ATTNDB_STORAGE_KV_TAIL_BLOCK_H_
#define ATTNDB_STORAGE_KV_TAIL_BLOCK_H_

#include <memory>
#include <vector>

#include "storage/kv/kv_run.h"
#include "storage/kv/kv_tail.h"

namespace attndb::storage {

class TailBlock final : public KvRun {
 public:
  TailBlock(std::shared_ptr<const KvShape> shape, int64_t first_position);

  // `non_finite`: by kv head, whether its tail holds NaN or Inf. REQUIRES: the layer has no tokens.
  void AddLayer(LayerId layer, JoinedTokens tokens, std::vector<bool> non_finite);
  bool HasLayer(LayerId layer) const { return !layers_[layer].tokens.rows.empty(); }

  // Told from the ids of segments by its highest bit.
  uint64_t id() const override { return id_; }
  uint64_t num_tokens() const override { return KvTail::kJoinedTokens; }
  int64_t first_position() const override { return first_position_; }
  bool is_sealed() const override { return false; }
  const KvShape& shape() const override { return *shape_; }

  // REQUIRES, of each: HasLayer(layer).
  bool non_finite(LayerId layer, uint32_t kv_head) const override {
    return layers_[layer].non_finite[kv_head];
  }
  Result<HeadRows> ReadRows(LayerId layer, uint32_t kv_head, RowPart part) const override {
    return HeadRows(layers_[layer].tokens.rows[kv_head].At(part));
  }
  // None: queries are sampled for segments.
  Result<LayerQueries> ReadQueries(LayerId layer) const override;

 private:
  struct Layer {
    JoinedTokens tokens;
    std::vector<bool> non_finite;
  };

  const uint64_t id_;
  const std::shared_ptr<const KvShape> shape_;
  const int64_t first_position_;
  std::vector<Layer> layers_;
};

}  // namespace attndb::storage

#endif  // ATTNDB_STORAGE_KV_TAIL_BLOCK_H_
