#include "testing/small_segments.h"

#include "storage/kv/segment_writer.h"
#include "testing/matchers.h"
#include "testing/segment_data.h"

namespace attndb::test {
namespace {

constexpr const char* kDir = "/segments";

}  // namespace

SmallSegments::SmallSegments(uint64_t seed) : random_(seed) {
  ATTNDB_EXPECT_OK(files_.CreateDir(kDir));
}

std::shared_ptr<storage::Segment> SmallSegments::Get(uint64_t id) {
  std::shared_ptr<storage::Segment>& segment = segments_[id];
  if (segment != nullptr) return segment;
  const storage::KvShape shape =
      UniformShape(DType::kFloat16, 1, {.num_kv_heads = 1, .head_dim = 16, .v_head_dim = 16});
  const SegmentData data =
      RandomSegment({.shape = shape, .num_tokens = kTokens, .segment_id = id}, &random_);
  DataSource source(&data, kTokens);
  const Result<storage::WrittenSegment> written = storage::WriteSegment(
      {.file_system = &files_, .dir = kDir, .identity = data.identity}, &source);
  segment = *storage::Segment::Open(
      &files_, kDir, {.identity = data.identity, .root_hash = written->root_hash}, &budget_);
  return segment;
}

}  // namespace attndb::test
