#include "store/store_test_util.h"

#include "storage/kv/kv_layout.h"
#include "testing/matchers.h"

namespace attndb::store {
namespace {

ModelSpec Spec() {
  LayerSpec layer;
  layer.num_q_heads = 4;
  layer.num_kv_heads = 2;
  layer.head_dim = layer.v_head_dim = 16;
  layer.scale = 0.25f;
  layer.rope.rope_dims = 16;
  return ModelSpec::Uniform(2, layer, DType::kFloat16, "store_test");
}

}  // namespace

StoreTest::StoreTest() : spec_(Spec()) { Open({}); }

void StoreTest::Open(const DBOptions& options, storage::FileSystem* file_system) {
  store_.reset();
  ATTNDB_ASSERT_OK_AND_ASSIGN(
      store_,
      ContextStore::Open(
          dir_.File("store"), options,
          {.file_system = file_system, .budget = &budget_, .kinds = &kinds_, .also = nullptr}));
}

void StoreTest::MakeTail(uint64_t number, uint64_t num_tokens) {
  Random random(number + 1);
  tails_[number] =
      test::RandomSegment({.shape = ShapeOf(spec_), .num_tokens = num_tokens}, &random);
}

const test::SegmentData& StoreTest::Tail(uint64_t number) {
  if (!tails_.contains(number)) MakeTail(number, kTokens);
  return tails_.at(number);
}

std::vector<TokenId> StoreTest::Tokens(std::initializer_list<uint64_t> tails) {
  std::vector<TokenId> tokens;
  for (const uint64_t tail : tails) {
    const std::vector<TokenId>& more = Tail(tail).tokens;
    tokens.insert(tokens.end(), more.begin(), more.end());
  }
  return tokens;
}

Result<Stored> StoreTest::Store(std::initializer_list<uint64_t> tails,
                                const StoreOptions& options) {
  const std::vector<TokenId> tokens = Tokens(tails);
  ATTNDB_ASSIGN_OR_RETURN(Prefix prefix,
                          store_->lookup()->OpenPrefix(
                              "t", spec_, std::span(tokens).first(tokens.size() - kTokens), {}));
  EXPECT_EQ(prefix.chain.tokens.size(), tokens.size() - kTokens);
  return store_->publisher()->Store(
      {.tenant = "t",
       .spec = spec_,
       .tokens = tokens,
       .first_position = 0,
       .base = prefix.context,
       .chain = std::move(prefix.chain.entries),
       .num_stored = tokens.size() - kTokens,
       .tail = std::make_shared<test::DataSource>(&Tail(*(tails.end() - 1)), 7),
       .options = options});
}

Prefix StoreTest::FirstOf(const std::string& context, uint64_t num_tokens) {
  const StoredText text = store_->lookup()->TextOf("t", context).value();
  return store_->lookup()
      ->OpenPrefix("t", spec_, std::span(text.tokens).first(num_tokens), {.context = context})
      .value();
}

StoreRequest StoreTest::Behind(Prefix prefix, std::optional<uint64_t> tail,
                               const StoreOptions& options) {
  StoreRequest request = {.tenant = "t",
                          .spec = spec_,
                          .tokens = prefix.chain.tokens,
                          .cuts = prefix.cuts,
                          .base = prefix.context,
                          .chain = std::move(prefix.chain.entries),
                          .num_stored = prefix.chain.tokens.size(),
                          .options = options};
  if (tail) {
    const test::SegmentData& rows = Tail(*tail);
    request.tokens.insert(request.tokens.end(), rows.tokens.begin(), rows.tokens.end());
    request.tail = std::make_shared<test::DataSource>(&rows, 7);
  }
  return request;
}

void StoreTest::ExpectKeys(const std::vector<storage::ChainEntry>& chain,
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

}  // namespace attndb::store
