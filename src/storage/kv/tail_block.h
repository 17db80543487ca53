// A block of a session's tail from which objects can be derived: joined tokens (kv_tail.h), added
// layer by layer once they are complete.
//
// Threads: one thread adds layers. Other threads may read the layers that were added before they
//          received the block.
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

  // Unlike the ids of segments, its id has the highest bit set.
  uint64_t id() const override { return id_; }
  uint64_t num_tokens() const override { return KvTail::kJoinedTokens; }
  int64_t first_position() const override { return first_position_; }
  bool is_sealed() const override { return false; }
  const KvShape& shape() const override { return *shape_; }

  // These three REQUIRE HasLayer(layer).
  bool non_finite(LayerId layer, uint32_t kv_head) const override {
    return layers_[layer].non_finite[kv_head];
  }
  Result<HeadRows> ReadRows(LayerId layer, uint32_t kv_head, RowPart part) const override;
  // Gives no rows: queries are sampled for segments only.
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
