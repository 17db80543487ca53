// Goal:   the store needs no session: who gives it a tail and tokens finds them again as a chain,
//         and what is in use or held is neither evicted nor removed.
// Method: random segments in memory are the tails, and what must be read back.
#include "store/context_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "storage/kv/kv_layout.h"
#include "testing/matchers.h"
#include "testing/segment_data.h"
#include "testing/temp_dir.h"

namespace attndb::store {
namespace {

using ::testing::HasSubstr;

constexpr uint64_t kTokens = 40;

// Defaults filled in.
ModelSpec Spec() {
  LayerSpec layer;
  layer.num_q_heads = 4;
  layer.num_kv_heads = 2;
  layer.head_dim = layer.v_head_dim = 16;
  layer.scale = 0.25f;
  layer.rope.rope_dims = 16;
  return ModelSpec::Uniform(2, layer, DType::kFloat16, "context_store_test");
}

class ContextStoreTest : public testing::Test {
 protected:
  ContextStoreTest() { Open({}); }

  void Open(const DBOptions& options) {
    store_.reset();
    ATTNDB_ASSERT_OK_AND_ASSIGN(store_,
                                ContextStore::Open(dir_.File("store"), options,
                                                   {.file_system = storage::PosixFileSystem(),
                                                    .budget = &budget_,
                                                    .kinds = &kinds_,
                                                    .also = nullptr}));
  }

  // Tokens of a tail, drawn by its number.
  const test::SegmentData& Tail(uint64_t number) {
    const auto [at, is_new] = tails_.try_emplace(number);
    if (is_new) {
      Random random(number + 1);
      at->second = test::RandomSegment({.shape = ShapeOf(spec_), .num_tokens = kTokens}, &random);
    }
    return at->second;
  }

  // A prompt of these tails.
  std::vector<TokenId> Tokens(std::initializer_list<uint64_t> tails) {
    std::vector<TokenId> tokens;
    for (const uint64_t tail : tails) {
      const std::vector<TokenId>& more = Tail(tail).tokens;
      tokens.insert(tokens.end(), more.begin(), more.end());
    }
    return tokens;
  }

  // Stores the tails, the last of which is new behind what is stored of the others.
  Result<Stored> Store(std::initializer_list<uint64_t> tails, const StoreOptions& options = {}) {
    const std::vector<TokenId> tokens = Tokens(tails);
    ATTNDB_ASSIGN_OR_RETURN(
        Prefix prefix,
        store_->OpenPrefix("t", spec_, std::span(tokens).first(tokens.size() - kTokens), {}));
    EXPECT_EQ(prefix.chain.tokens.size(), tokens.size() - kTokens);
    return store_->Store({.tenant = "t",
                          .spec = spec_,
                          .tokens = tokens,
                          .first_position = 0,
                          .base = prefix.context,
                          .chain = std::move(prefix.chain.entries),
                          .num_stored = tokens.size() - kTokens,
                          .tail = std::make_shared<test::DataSource>(&Tail(*(tails.end() - 1)), 7),
                          .options = options});
  }

  // Whether the chain holds K of the tails, bit for bit.
  void ExpectKeys(const std::vector<storage::ChainEntry>& chain,
                  std::initializer_list<uint64_t> tails) {
    ASSERT_FALSE(chain.empty());
    const uint64_t row_bytes = storage::KRowBytes(ShapeOf(spec_), 1);
    std::vector<std::byte> found, wanted;
    for (const storage::ChainEntry& entry : chain) {
      ATTNDB_ASSERT_OK_AND_ASSIGN(const storage::LayerPin pin, entry.segment->PinLayer(1));
      const storage::KvRows rows = pin.rows(1);
      const auto* const k = static_cast<const std::byte*>(rows.k);
      found.insert(found.end(), k, k + entry.num_tokens_used * row_bytes);
    }
    for (const uint64_t tail : tails) {
      const std::span<const std::byte> k = Tail(tail).head(1, 1).k.span();
      wanted.insert(wanted.end(), k.data(), k.data() + kTokens * row_bytes);
    }
    EXPECT_EQ(found, wanted);
  }

  const ModelSpec spec_ = Spec();
  const test::TempDir dir_;
  storage::MemoryBudget budget_{uint64_t{1} << 30};
  const derived::Kinds kinds_ = derived::BuiltinKinds({});
  std::map<uint64_t, test::SegmentData> tails_;
  std::unique_ptr<ContextStore> store_;
};

TEST_F(ContextStoreTest, WhatIsStoredIsFoundAsAChain) {
  ContextId second = ContextId::kNone;
  {
    ATTNDB_ASSERT_OK_AND_ASSIGN(const Stored of_one, Store({1}, {.name = "a"}));
    ATTNDB_ASSERT_OK_AND_ASSIGN(const Stored of_both, Store({1, 2}));
    EXPECT_NE(of_one.context, of_both.context);
    ExpectKeys(of_both.chain, {1, 2});
    second = of_both.context;
  }
  Open({});
  const std::vector<TokenId> tokens = Tokens({1, 2, 3});
  ATTNDB_ASSERT_OK_AND_ASSIGN(const Prefix found, store_->OpenPrefix("t", spec_, tokens, {}));
  EXPECT_EQ(found.context, second);
  EXPECT_EQ(found.chain.tokens, Tokens({1, 2}));
  ExpectKeys(found.chain.entries, {1, 2});
  ATTNDB_ASSERT_OK_AND_ASSIGN(const WholeContext whole, store_->OpenNamed("t", spec_, "a", 0));
  ExpectKeys(whole.chain.entries, {1});
  ATTNDB_ASSERT_OK_AND_ASSIGN(const Prefix of_others, store_->OpenPrefix("u", spec_, tokens, {}));
  EXPECT_EQ(of_others.context, ContextId::kNone);
}

TEST_F(ContextStoreTest, WhatIsStoredAgainHasNoNewChain) {
  ATTNDB_ASSERT_OK_AND_ASSIGN(const Stored first, Store({1}));
  const std::vector<TokenId> tokens = Tokens({1});
  ATTNDB_ASSERT_OK_AND_ASSIGN(Prefix prefix, store_->OpenPrefix("t", spec_, tokens, {}));
  ATTNDB_ASSERT_OK_AND_ASSIGN(const Stored again,
                              store_->Store({.tenant = "t",
                                             .spec = spec_,
                                             .tokens = tokens,
                                             .base = prefix.context,
                                             .chain = std::move(prefix.chain.entries),
                                             .num_stored = kTokens}));
  EXPECT_EQ(again.context, first.context);
  EXPECT_TRUE(again.chain.empty());
}

TEST_F(ContextStoreTest, WhatIsHeldIsNotEvicted) {
  ATTNDB_ASSERT_OK_AND_ASSIGN(Stored held, Store({1}));
  ATTNDB_ASSERT_OK_AND_ASSIGN(const DBStats stats, store_->Stats("t"));
  ATTNDB_ASSERT_OK(store_->SetQuota("t", stats.file_bytes * 3 / 2));
  const Status refused = Store({2}).status();
  EXPECT_EQ(refused.code(), StatusCode::kResourceExhausted);
  EXPECT_THAT(refused.message(), HasSubstr("neither pinned nor in use hold 0"));
  held = {};
  ATTNDB_ASSERT_OK(Store({2}).status());
  ATTNDB_ASSERT_OK_AND_ASSIGN(const auto contexts, store_->List("t"));
  ASSERT_EQ(contexts.size(), 1u);
  EXPECT_NE(contexts[0].id, held.context);
}

TEST_F(ContextStoreTest, FilesOfADroppedContextStayUntilNobodyReadsThem) {
  ATTNDB_ASSERT_OK_AND_ASSIGN(Stored stored, Store({1}, {.name = "a"}));
  std::vector<storage::ChainEntry> chain = std::move(stored.chain);
  stored = {};
  ATTNDB_ASSERT_OK(store_->Drop("t", "a"));
  ExpectKeys(chain, {1});
  EXPECT_EQ(store_->Stats("t")->num_segments, 1u);
  chain.clear();
  store_->Sweep();
  EXPECT_EQ(store_->Stats("t")->num_segments, 0u);
}

TEST_F(ContextStoreTest, SharedSegmentsAreSearchedOnce) {
  ATTNDB_ASSERT_OK(Store({1}, {.name = "a"}).status());
  ATTNDB_ASSERT_OK(Store({1, 2}, {.name = "b"}).status());
  ATTNDB_ASSERT_OK_AND_ASSIGN(const SearchSet set, store_->OpenForSearch("t", spec_, {}));
  ASSERT_EQ(set.contexts.size(), 2u);
  uint64_t num_tokens = 0, num_uses = 0;
  for (const SearchSet::Run& run : set.runs) {
    num_tokens += run.num_tokens;
    num_uses += run.uses.size();
  }
  EXPECT_EQ(num_tokens, 2 * kTokens);
  EXPECT_EQ(num_uses, set.runs.size() + 1);
  ModelSpec other = spec_;
  other.fingerprint = "another";
  ATTNDB_ASSERT_OK_AND_ASSIGN(const SearchSet none, store_->OpenForSearch("t", other, {}));
  ASSERT_EQ(none.skipped.size(), 2u);
  EXPECT_EQ(none.skipped[0].reason, "of another model");
}

}  // namespace
}  // namespace attndb::store
