// Goal:   parts of a source have its tokens, rows and queries: each once, in order, at their places
//         in the part.
// Method: a random segment of two layers, cut at many tokens, against the data that it was made of.
#include "store/part_source.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "storage/kv/kv_layout.h"
#include "testing/matchers.h"
#include "testing/segment_data.h"

namespace attndb::store {
namespace {

using Bytes = std::vector<std::byte>;

// The rows that a source gives for one kv head of the loaded layer.
struct Given {
  Bytes k, v, q;
  std::vector<uint32_t> query_tokens, query_heads;

  void Append(const std::byte* rows, uint64_t num_bytes, Bytes* bytes) const {
    bytes->insert(bytes->end(), rows, rows + num_bytes);
  }
};

class PartSourceTest : public ::testing::Test {
 protected:
  static constexpr uint64_t kTokens = 30;

  // Adds what the source gives; its tokens count from `first_token` on.
  void Take(PartSource* source, LayerId layer, uint32_t head, uint64_t first_token,
            Given* given) const {
    const uint64_t k_bytes = storage::KRowBytes(shape_, layer);
    const uint64_t v_bytes = storage::VRowBytes(shape_, layer);
    for (const storage::KvRows& rows : source->rows(head)) {
      EXPECT_GT(rows.num_tokens, 0u);
      given->Append(rows.k, rows.num_tokens * k_bytes, &given->k);
      given->Append(rows.v, rows.num_tokens * v_bytes, &given->v);
    }
    for (const storage::QueryRows& rows : source->queries(head)) {
      given->Append(rows.q, rows.num_rows() * k_bytes, &given->q);
      ASSERT_EQ(rows.tokens.size(), rows.q_heads.size());
      for (size_t i = 0; i < rows.tokens.size(); ++i) {
        EXPECT_LT(rows.tokens[i], source->tokens().size());
        given->query_tokens.push_back(rows.tokens[i] + static_cast<uint32_t>(first_token));
        given->query_heads.push_back(rows.q_heads[i]);
      }
    }
  }
  void ExpectAll(const Given& given, const test::HeadData& head) const {
    const auto is_same = [](const Bytes& found, const AlignedBuffer& wanted) {
      return std::equal(found.begin(), found.end(), wanted.data(), wanted.data() + found.size());
    };
    EXPECT_EQ(given.k.size(), kTokens * storage::KRowBytes(shape_, 0));
    EXPECT_EQ(given.v.size(), kTokens * storage::VRowBytes(shape_, 0));
    EXPECT_EQ(given.q.size(), head.query_tokens.size() * storage::KRowBytes(shape_, 0));
    EXPECT_TRUE(is_same(given.k, head.k));
    EXPECT_TRUE(is_same(given.v, head.v));
    EXPECT_TRUE(is_same(given.q, head.q));
    EXPECT_EQ(given.query_tokens, head.query_tokens);
    EXPECT_EQ(given.query_heads, head.query_heads);
  }

  const storage::KvShape shape_ =
      test::UniformShape(DType::kFloat16, 2, {.num_kv_heads = 2, .head_dim = 16, .v_head_dim = 32});
  Random random_{1};
  const test::SegmentData data_ =
      test::RandomSegment({.shape = shape_, .num_tokens = kTokens, .num_queries = 20}, &random_);
};

TEST_F(PartSourceTest, TwoPartsHaveAllOfTheWhole) {
  size_t num_queries = 0;
  for (uint64_t cut = 1; cut < kTokens; ++cut) {
    SCOPED_TRACE(cut);
    const auto whole = std::make_shared<test::DataSource>(&data_, 7);
    PartSource first(whole, shape_, {0, cut});
    PartSource rest(whole, shape_, {cut, kTokens});
    std::vector<TokenId> tokens(first.tokens().begin(), first.tokens().end());
    tokens.insert(tokens.end(), rest.tokens().begin(), rest.tokens().end());
    EXPECT_EQ(tokens, data_.tokens);
    for (const LayerId layer : {0u, 1u}) {
      for (const uint32_t head : {0u, 1u}) {
        Given given;
        ATTNDB_ASSERT_OK(first.LoadLayer(layer));
        Take(&first, layer, head, 0, &given);
        ATTNDB_ASSERT_OK(rest.LoadLayer(layer));
        Take(&rest, layer, head, cut, &given);
        ExpectAll(given, data_.head(layer, head));
        num_queries += given.query_tokens.size();
      }
    }
  }
  EXPECT_GT(num_queries, 0u);
}

TEST_F(PartSourceTest, APartMayLieWithinARun) {
  PartSource part(std::make_shared<test::DataSource>(&data_, kTokens), shape_, {10, 13});
  ATTNDB_ASSERT_OK(part.LoadLayer(1));
  EXPECT_EQ(part.tokens().size(), 3u);
  ASSERT_EQ(part.rows(1).size(), 1u);
  const storage::KvRows rows = part.rows(1).front();
  EXPECT_EQ(rows.num_tokens, 3u);
  EXPECT_EQ(rows.k, data_.head(1, 1).k.data() + 10 * storage::KRowBytes(shape_, 1));
  EXPECT_EQ(rows.v, data_.head(1, 1).v.data() + 10 * storage::VRowBytes(shape_, 1));
}

TEST_F(PartSourceTest, FailsWithTheWhole) {
  PartSource part(std::make_shared<test::LostSource>(), shape_, {1, 2});
  EXPECT_THAT(part.LoadLayer(0),
              test::FailsWith(StatusCode::kCancelled, ::testing::HasSubstr("lost")));
}

}  // namespace
}  // namespace attndb::store
