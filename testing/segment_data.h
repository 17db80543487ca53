// A random segment in memory: the model that stored segments are compared with.
//
// Threads: thread-compatible.
#ifndef ATTNDB_TESTING_SEGMENT_DATA_H_
#define ATTNDB_TESTING_SEGMENT_DATA_H_

#include <cstdint>
#include <span>
#include <vector>

#include "attndb/types.h"
#include "common/aligned_buffer.h"
#include "common/random.h"
#include "storage/kv/kv_rows.h"
#include "storage/kv/query_rows.h"
#include "storage/kv/segment_header.h"
#include "storage/kv/segment_writer.h"

namespace attndb::test {

// One kv head of one layer.
struct HeadData {
  AlignedBuffer k, v, q;
  std::vector<uint32_t> query_tokens, query_heads;
};

struct SegmentData {
  storage::SegmentIdentity identity;
  std::vector<TokenId> tokens;
  std::vector<std::vector<HeadData>> layers;  // [layer][kv_head]

  const HeadData& head(uint32_t layer, uint32_t kv_head) const { return layers[layer][kv_head]; }
};

struct SegmentSpec {
  storage::KvShape shape;
  uint64_t num_tokens = 1;
  uint64_t num_queries = 0;  // Sampled rows of a kv head at most; heads differ in their number.
  uint64_t segment_id = 1;
};

SegmentData RandomSegment(const SegmentSpec& spec, Random* random);

// A shape of `num_layers` layers that are all like `layer`.
storage::KvShape UniformShape(DType dtype, uint32_t num_layers, const storage::LayerShape& layer);

// Feeds the data to WriteSegment in runs of at most `run_tokens`.
class DataSource final : public storage::SegmentSource {
 public:
  // `data` must outlive the source.
  DataSource(const SegmentData* data, uint64_t run_tokens) : data_(data), run_tokens_(run_tokens) {}

  std::span<const TokenId> tokens() const override { return data_->tokens; }
  Status LoadLayer(LayerId layer) override;
  std::span<const storage::KvRows> rows(uint32_t kv_head) override;
  std::span<const storage::QueryRows> queries(uint32_t kv_head) override;

 private:
  const SegmentData* const data_;
  const uint64_t run_tokens_;
  LayerId layer_ = 0;
  std::vector<storage::KvRows> runs_;
  std::vector<storage::QueryRows> queries_;
};

// A source that can't be read.
class LostSource final : public storage::SegmentSource {
 public:
  std::span<const TokenId> tokens() const override { return {}; }
  Status LoadLayer(LayerId) override { return Status::Cancelled("lost"); }
  std::span<const storage::KvRows> rows(uint32_t) override { return {}; }
  std::span<const storage::QueryRows> queries(uint32_t) override { return {}; }
};

}  // namespace attndb::test

#endif  // ATTNDB_TESTING_SEGMENT_DATA_H_
