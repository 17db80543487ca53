// Goal:   the first tokens of a segment and a tail are one source: rows of both, in order, and the
//         tail's queries at their new places.
// Method: random segments of two layers, in memory, against the data that they were made of.
#include "store/beginning_source.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <utility>

#include "storage/kv/kv_layout.h"
#include "testing/matchers.h"
#include "testing/memory_file_system.h"
#include "testing/segment_data.h"

namespace attndb::store {
namespace {

using Bytes = std::vector<std::byte>;

class BeginningSourceTest : public ::testing::Test {
 protected:
  static constexpr uint64_t kBeginning = 7;  // Tokens that are used of the segment.

  BeginningSourceTest() {
    ATTNDB_EXPECT_OK(files_.CreateDir(kDir));
    test::DataSource source(&first_, 20);
    const Result<storage::WrittenSegment> written = storage::WriteSegment(
        {.file_system = &files_, .dir = kDir, .identity = first_.identity}, &source);
    segment_ = *storage::Segment::Open(
        &files_, kDir, {.identity = first_.identity, .root_hash = written->root_hash}, &budget_);
  }
  test::SegmentData Draw(uint64_t num_tokens) {
    return test::RandomSegment({.shape = shape_, .num_tokens = num_tokens, .num_queries = 20},
                               &random_);
  }
  BeginningSource SourceBefore(std::shared_ptr<storage::SegmentSource> tail) const {
    std::vector<TokenId> tokens(first_.tokens.begin(), first_.tokens.begin() + kBeginning);
    tokens.insert(tokens.end(), tail_.tokens.begin(), tail_.tokens.end());
    return {
        {.segment = segment_, .num_tokens_used = kBeginning}, std::move(tail), std::move(tokens)};
  }
  static void Append(const std::byte* rows, uint64_t num_bytes, Bytes* bytes) {
    bytes->insert(bytes->end(), rows, rows + num_bytes);
  }

  static constexpr const char* kDir = "/segments";
  const storage::KvShape shape_ =
      test::UniformShape(DType::kFloat16, 2, {.num_kv_heads = 2, .head_dim = 16, .v_head_dim = 32});
  Random random_{1};
  const test::SegmentData first_ = Draw(20);
  const test::SegmentData tail_ = Draw(10);
  test::MemoryFileSystem files_;
  storage::MemoryBudget budget_{uint64_t{1} << 30};
  std::shared_ptr<storage::Segment> segment_;
};

TEST_F(BeginningSourceTest, HasTheRowsOfBothAndTheQueriesOfTheTail) {
  BeginningSource source = SourceBefore(std::make_shared<test::DataSource>(&tail_, 4));
  EXPECT_EQ(source.tokens().size(), kBeginning + 10);
  size_t num_queries = 0;
  for (const LayerId layer : {0u, 1u}) {
    ATTNDB_ASSERT_OK(source.LoadLayer(layer));
    const uint64_t k_bytes = storage::KRowBytes(shape_, layer);
    const uint64_t v_bytes = storage::VRowBytes(shape_, layer);
    for (const uint32_t head : {0u, 1u}) {
      const test::HeadData& first = first_.head(layer, head);
      const test::HeadData& tail = tail_.head(layer, head);
      Bytes k, v, expected_k, expected_v;
      for (const storage::KvRows& rows : source.rows(head)) {
        Append(rows.k, rows.num_tokens * k_bytes, &k);
        Append(rows.v, rows.num_tokens * v_bytes, &v);
      }
      Append(first.k.data(), kBeginning * k_bytes, &expected_k);
      Append(tail.k.data(), 10 * k_bytes, &expected_k);
      Append(first.v.data(), kBeginning * v_bytes, &expected_v);
      Append(tail.v.data(), 10 * v_bytes, &expected_v);
      EXPECT_EQ(k, expected_k);
      EXPECT_EQ(v, expected_v);

      Bytes q, expected_q;
      std::vector<uint32_t> tokens, q_heads, expected_tokens;
      for (const storage::QueryRows& rows : source.queries(head)) {
        Append(rows.q, rows.num_rows() * k_bytes, &q);
        tokens.insert(tokens.end(), rows.tokens.begin(), rows.tokens.end());
        q_heads.insert(q_heads.end(), rows.q_heads.begin(), rows.q_heads.end());
      }
      Append(tail.q.data(), tail.query_tokens.size() * k_bytes, &expected_q);
      for (const uint32_t token : tail.query_tokens) expected_tokens.push_back(kBeginning + token);
      EXPECT_EQ(q, expected_q);
      EXPECT_EQ(tokens, expected_tokens);
      EXPECT_EQ(q_heads, tail.query_heads);
      num_queries += tokens.size();
    }
  }
  EXPECT_GT(num_queries, 0u);
}

TEST_F(BeginningSourceTest, RowsThatAreInMemoryNeedNoFile) {
  const storage::LayerPin pin = segment_->PinLayer(0).value();
  files_.SetContents(
      std::string(kDir) + "/" +
          storage::FileNameOf({.segment_id = segment_->id()}, storage::ObjectFile::kData),
      {});
  BeginningSource source = SourceBefore(std::make_shared<test::DataSource>(&tail_, 4));
  ATTNDB_ASSERT_OK(source.LoadLayer(0));
  const storage::KvRows rows = source.rows(1).front();
  EXPECT_EQ(rows.num_tokens, kBeginning);
  EXPECT_EQ(rows.k, pin.rows(1).k);
  EXPECT_EQ(rows.v, pin.rows(1).v);
  EXPECT_FALSE(source.LoadLayer(1).ok());
}

TEST_F(BeginningSourceTest, FailsWithItsTail) {
  BeginningSource source = SourceBefore(std::make_shared<test::LostSource>());
  EXPECT_THAT(source.LoadLayer(0),
              test::FailsWith(StatusCode::kCancelled, ::testing::HasSubstr("lost")));
}

}  // namespace
}  // namespace attndb::store
