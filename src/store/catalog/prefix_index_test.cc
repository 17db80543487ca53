// Goal:   the encodings of the prefix index order and compare tokens as its lookups assume; rows
//         that contradict each other are named; no statement's error is passed over.
// Method: pure functions on chosen values; the rows of one context, changed by SQL; triggers that
//         fail.
#include "store/catalog/prefix_index.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <memory>

#include "store/catalog/catalog_rows.h"
#include "store/catalog/catalog_test_util.h"
#include "store/catalog/model_identity.h"
#include "testing/matchers.h"

namespace attndb::store {
namespace {

using ::attndb::test::FailsWith;
using ::testing::HasSubstr;

TEST(PrefixIndexEncoding, ByteOrderIsTokenOrder) {
  const std::vector<std::vector<TokenId>> ordered = {
      {0}, {0, 5}, {1}, {255}, {256}, {65'535, 1}, {65'536}, {std::numeric_limits<TokenId>::max()}};
  for (size_t i = 1; i < ordered.size(); ++i) {
    EXPECT_TRUE(std::ranges::lexicographical_compare(EncodeTokens(ordered[i - 1]),
                                                     EncodeTokens(ordered[i])));
  }
}

TEST(PrefixIndexEncoding, DecodingGivesTheTokens) {
  const std::vector<TokenId> tokens = {0, 1, 256, 70'000, std::numeric_limits<TokenId>::max()};
  std::vector<TokenId> decoded;
  DecodeTokens(EncodeTokens(tokens), &decoded);
  EXPECT_EQ(decoded, tokens);
}

TEST(PrefixIndexEncoding, OnlyWholeTokensAreInCommon) {
  EXPECT_EQ(CommonTokens(EncodeTokens(std::vector<TokenId>{1, 2, 0x1234}),
                         EncodeTokens(std::vector<TokenId>{1, 2, 0x1235, 4})),
            2u);
  EXPECT_EQ(CommonTokens({}, EncodeTokens(std::vector<TokenId>{1})), 0u);
}

TEST(PrefixIndexEncoding, AKeyDependsOnAllThatItNames) {
  const std::vector<std::byte> tokens = EncodeTokens(std::vector<TokenId>{1, 2, 3});
  const TreeIdentity tree;
  const Sha256Digest key = BlockKey(tree, Sha256Digest{}, tokens);
  EXPECT_EQ(BlockKey(tree, Sha256Digest{}, tokens), key);
  TreeIdentity other = tree;
  other.secret[5] = std::byte{1};
  EXPECT_NE(BlockKey(other, Sha256Digest{}, tokens), key);
  other = tree;
  other.model[5] = std::byte{1};
  EXPECT_NE(BlockKey(other, Sha256Digest{}, tokens), key);
  other = tree;
  other.first_position = 1;
  EXPECT_NE(BlockKey(other, Sha256Digest{}, tokens), key);
  EXPECT_NE(BlockKey(tree, key, tokens), key);
  EXPECT_NE(BlockKey(tree, Sha256Digest{}, std::span(tokens).first(8)), key);
}

// One context of 200 tokens: node 1 is the root, 2 to 4 are whole blocks, 5 is the leaf.
class PrefixIndexRows : public ::testing::Test {
 protected:
  PrefixIndexRows() {
    harness_.MustPublish(Range(0, 200));
    harness_.Close();
    database_ = SqliteDatabase::Open(harness_.path(), SqliteDatabase::Mode::kReadWrite).value();
    index_ = std::make_unique<PrefixIndex>(database_.get());
  }
  void Execute(const std::string& sql) { ATTNDB_ASSERT_OK(database_->Execute(sql.c_str())); }
  // A statement after the change gives a trigger's error, which fails before that statement.
  void ExpectError(const std::string& change, const std::string& where,
                   const std::function<Status()>& call) {
    SCOPED_TRACE(where);
    Execute("BEGIN");
    Execute(change);
    Execute("CREATE TEMP TRIGGER fails BEFORE " + where +
            " BEGIN SELECT RAISE(ABORT, 'a test said so'); END");
    EXPECT_THAT(call(), FailsWith(StatusCode::kInternal, HasSubstr("a test said so")));
    Execute("ROLLBACK");
  }

  CatalogHarness harness_;
  std::unique_ptr<SqliteDatabase> database_;
  std::unique_ptr<PrefixIndex> index_;
};

TEST_F(PrefixIndexRows, ANodeThatNoWriterStoresIsNamed) {
  const struct {
    const char* change;
    NodeId node;
    const char* message;
  } changes[] = {
      {"UPDATE nodes SET tokens = x'000001' WHERE id = 2", NodeId{2},
       "prefix node 2: key of 32 bytes and tokens of 3"},
      {"UPDATE nodes SET tokens = zeroblob(260) WHERE id = 2", NodeId{2},
       "prefix node 2: key of 32 bytes and tokens of 260"},
      {"UPDATE nodes SET tokens = x'' WHERE id = 2", NodeId{2},
       "prefix node 2: key of 32 bytes and tokens of 0"},
      {"UPDATE nodes SET tokens = x'00000001' WHERE id = 1", NodeId{1},
       "prefix node 1: key of 32 bytes and tokens of 4"},
      {"UPDATE nodes SET key = zeroblob(31) WHERE id = 2", NodeId{2},
       "prefix node 2: key of 31 bytes and tokens of 256"},
  };
  Execute("PRAGMA ignore_check_constraints = ON");
  for (const auto& [change, node, message] : changes) {
    ATTNDB_ASSERT_OK(index_->Load(node));
    Execute("BEGIN");
    Execute(change);
    EXPECT_THAT(index_->Load(node), FailsWith(StatusCode::kCorruption, HasSubstr(message)));
    Execute("ROLLBACK");
  }
}

TEST_F(PrefixIndexRows, AKeyLeadsToTheChildOfItsParentAndTokensAlone) {
  ATTNDB_ASSERT_OK_AND_ASSIGN(const PrefixNode root, index_->Load(NodeId{1}));
  ATTNDB_ASSERT_OK_AND_ASSIGN(const PrefixNode child, index_->Load(NodeId{2}));
  EXPECT_EQ(index_->FindChild(root, child.key, child.tokens).value()->id, child.id);
  EXPECT_FALSE(index_->FindChild(root, Sha256Digest{}, child.tokens).value().has_value());
  const auto is_corrupt =
      FailsWith(StatusCode::kCorruption,
                HasSubstr("prefix node 2: key does not belong to parent and tokens"));
  EXPECT_THAT(index_->FindChild(child, child.key, child.tokens), is_corrupt);
  std::vector<std::byte> tokens = child.tokens;
  tokens[3] ^= std::byte{1};
  EXPECT_THAT(index_->FindChild(root, child.key, tokens), is_corrupt);
}

TEST_F(PrefixIndexRows, AnAncestorEndsWithAWholeBlockOfTheLeafsPath) {
  EXPECT_EQ(index_->Ancestor(NodeId{5}, 200, 192)->id, NodeId{4});
  EXPECT_EQ(index_->Ancestor(NodeId{4}, 192, 192)->id, NodeId{4});
  EXPECT_EQ(index_->Ancestor(NodeId{5}, 200, 0)->id, NodeId{1});
  EXPECT_DEATH((void)index_->Ancestor(NodeId{5}, 200, 10).ok(), "num_tokens");
  EXPECT_DEATH((void)index_->Ancestor(NodeId{5}, 200, 256).ok(), "num_tokens");
}

TEST_F(PrefixIndexRows, AnErrorOfAStatementIsTheCallers) {
  const TreeIdentity tree = {LoadTenantRow(database_.get(), harness_.tenant())->secret,
                             EncodeModel(harness_.spec()).identity, 0};
  const std::vector<TokenId> tokens = Range(0, 100);
  const PrefixNode root = index_->Load(NodeId{1}).value();
  const auto insert = [&] {
    return index_->Insert(tree, root, {0, tokens, {}}, ContextId{1}).status();
  };
  const std::string newer = "UPDATE nodes SET context = 2";
  ExpectError(newer, "UPDATE OF num_uses ON main.nodes", insert);
  ExpectError(newer, "UPDATE OF context ON main.nodes", insert);
  const auto remove = [&] { return index_->RemoveEnd(NodeId{5}, ContextId{1}); };
  const std::string drop = "DELETE FROM chain; DELETE FROM contexts";
  ExpectError(drop, "UPDATE OF num_uses ON main.nodes WHEN new.id = 5", remove);
  ExpectError(drop, "UPDATE OF num_uses ON main.nodes WHEN new.id = 4", remove);
}

}  // namespace
}  // namespace attndb::store
