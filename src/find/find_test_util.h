// Stored keys in memory, for tests of searches over them.
//
// Threads: constant after construction.
#ifndef ATTNDB_FIND_FIND_TEST_UTIL_H_
#define ATTNDB_FIND_FIND_TEST_UTIL_H_

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <vector>

#include "attndb/types.h"
#include "common/aligned_buffer.h"
#include "common/random.h"
#include "storage/kv/kv_layout.h"
#include "storage/kv/kv_run.h"

namespace attndb::find {

// A model of one layer, float32: two q heads a kv head.
inline ModelSpec TestSpec(uint32_t num_kv_heads, uint32_t head_dim) {
  LayerSpec layer;
  layer.num_q_heads = 2 * num_kv_heads;
  layer.num_kv_heads = num_kv_heads;
  layer.head_dim = layer.v_head_dim = head_dim;
  layer.rope = {.layout = RopeLayout::kHalf, .rope_dims = 0, .base = 10000.0};
  return ModelSpec::Uniform(1, layer, DType::kFloat32, "find-test");
}

// Random keys, as they are stored: a row for each token, each head by itself.
class FakeRun final : public storage::KvRun {
 public:
  FakeRun(const ModelSpec& spec, uint64_t num_tokens, int64_t first_position, uint64_t seed)
      : num_tokens_(num_tokens), first_position_(first_position) {
    const LayerSpec& layer = spec.layers.front();
    shape_.dtype = spec.kv_dtype;
    shape_.layers = {{layer.num_kv_heads, layer.head_dim, layer.v_head_dim}};
    Random random(seed);
    const size_t stride = kernels::RowElements(layer.head_dim);
    for (uint32_t head = 0; head < layer.num_kv_heads; ++head) {
      Result<AlignedBuffer> rows =
          AlignedBuffer::AllocateZeroed(num_tokens * stride * sizeof(float));
      EXPECT_TRUE(rows.ok());
      rows_.push_back(*std::move(rows));
      for (uint64_t token = 0; token < num_tokens; ++token) {
        for (uint32_t d = 0; d < layer.head_dim; ++d) {
          Key(head, token)[d] = static_cast<float>(random.NextGaussian());
        }
      }
    }
  }

  float* Key(uint32_t head, uint64_t token) {
    const size_t stride = kernels::RowElements(shape_.layers[0].head_dim);
    return reinterpret_cast<float*>(rows_[head].data()) + token * stride;
  }
  void Damage() { damaged_ = true; }
  void SetNonFinite() { non_finite_ = true; }

  uint64_t id() const override { return 1; }
  uint64_t num_tokens() const override { return num_tokens_; }
  int64_t first_position() const override { return first_position_; }
  bool is_sealed() const override { return true; }
  const storage::KvShape& shape() const override { return shape_; }
  bool non_finite(LayerId, uint32_t) const override { return non_finite_; }
  Result<storage::HeadRows> ReadRows(LayerId, uint32_t kv_head, storage::RowPart) const override {
    if (damaged_) return Status::Corruption("a granule of the run differs");
    return storage::HeadRows(rows_[kv_head].data());
  }
  Result<storage::LayerQueries> ReadQueries(LayerId) const override {
    return storage::LayerQueries();
  }

 private:
  const uint64_t num_tokens_;
  const int64_t first_position_;
  storage::KvShape shape_;
  std::vector<AlignedBuffer> rows_;
  bool damaged_ = false;
  bool non_finite_ = false;
};

}  // namespace attndb::find

#endif  // ATTNDB_FIND_FIND_TEST_UTIL_H_
