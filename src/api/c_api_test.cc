// Goal:   the C interface does the same as the C++ one, bit by bit, and survives every NULL.
// Method: the same random rows through both, in two stores; then each function with unusable
//         arguments.
#include "attndb/c_api.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <memory>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "attndb/attndb.h"
#include "testing/temp_dir.h"

namespace attndb {
namespace {

using nlohmann::json;
using testing::HasSubstr;

constexpr uint32_t kLayers = 2;
constexpr uint32_t kQHeads = 4;
constexpr uint32_t kKvHeads = 2;
constexpr uint32_t kDim = 32;
constexpr size_t kTokens = 200;

struct DbCloser {
  void operator()(attndb_db* db) const { attndb_db_close(db); }
};
using UniqueDb = std::unique_ptr<attndb_db, DbCloser>;
struct SessionFreer {
  void operator()(attndb_session* session) const { attndb_session_free(session); }
};
using UniqueSession = std::unique_ptr<attndb_session, SessionFreer>;

// A returned text, parsed and freed.
json Parsed(char* text) {
  const std::unique_ptr<char, void (*)(void*)> owner(text, attndb_free);
  return json::parse(text);
}

std::vector<float> Random(size_t count, uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(count);
  for (float& value : values) value = normal(random);
  return values;
}

attndb_tensor Tensor(const std::vector<float>& data, size_t begin, size_t rows, uint32_t heads) {
  attndb_tensor tensor;
  std::memset(&tensor, 0, sizeof(tensor));
  tensor.struct_size = sizeof(tensor);
  tensor.data = const_cast<float*>(data.data()) + begin * heads * kDim;
  tensor.dtype = ATTNDB_FLOAT32;
  tensor.shape[0] = static_cast<int64_t>(rows);
  tensor.shape[1] = heads;
  tensor.shape[2] = kDim;
  return tensor;
}

TensorView View(const std::vector<float>& data, size_t begin, size_t rows, uint32_t heads) {
  return TensorView::Contiguous(data.data() + begin * heads * kDim, DType::kFloat32,
                                static_cast<int64_t>(rows), heads, kDim);
}

template <typename Struct>
Struct Sized() {
  Struct value;
  std::memset(&value, 0, sizeof(value));
  value.struct_size = sizeof(value);
  return value;
}

class CApiTest : public testing::Test {
 protected:
  CApiTest() {
    auto layer = Sized<attndb_layer_spec>();
    layer.num_q_heads = kQHeads;
    layer.num_kv_heads = kKvHeads;
    layer.head_dim = layer.v_head_dim = kDim;
    layer.rope_layout = ATTNDB_ROPE_HALF;
    layers_.assign(kLayers, layer);
    c_spec_ = Sized<attndb_model_spec>();
    c_spec_.layers = layers_.data();
    c_spec_.num_layers = kLayers;
    c_spec_.kv_dtype = ATTNDB_FLOAT16;
    c_spec_.fingerprint = "model";
    c_spec_.fingerprint_bytes = 5;
    LayerSpec same;
    same.num_q_heads = kQHeads;
    same.num_kv_heads = kKvHeads;
    same.head_dim = same.v_head_dim = kDim;
    same.rope.layout = RopeLayout::kHalf;
    spec_ = ModelSpec::Uniform(kLayers, same, DType::kFloat16, "model");
    for (uint32_t i = 0; i < kLayers; ++i) {
      k_.push_back(Random(kTokens * kKvHeads * kDim, 10 + i));
      v_.push_back(Random(kTokens * kKvHeads * kDim, 20 + i));
      q_.push_back(Random(kTokens * kQHeads * kDim, 30 + i));
    }
    for (size_t i = 0; i < kTokens; ++i) tokens_.push_back(static_cast<int32_t>(i * 7 % 997));
    attndb_db* db = nullptr;
    EXPECT_EQ(attndb_db_open(dir_.File("c").c_str(), nullptr, &db), ATTNDB_OK)
        << attndb_last_error();
    db_.reset(db);
  }

  UniqueSession Start(size_t num_tokens, uint64_t* num_reused = nullptr) {
    attndb_session* session = nullptr;
    EXPECT_EQ(attndb_db_create_session(db_.get(), &c_spec_, tokens_.data(), num_tokens, nullptr,
                                       &session, num_reused),
              ATTNDB_OK)
        << attndb_last_error();
    return UniqueSession(session);
  }

  // Tokens [begin, end) through the C interface; the outputs of all layers.
  std::vector<float> Step(attndb_session* session, size_t begin, size_t end) {
    const size_t rows = end - begin;
    std::vector<float> all;
    for (uint32_t layer = 0; layer < kLayers; ++layer) {
      const attndb_tensor k = Tensor(k_[layer], begin, rows, kKvHeads);
      const attndb_tensor v = Tensor(v_[layer], begin, rows, kKvHeads);
      const attndb_tensor q = Tensor(q_[layer], begin, rows, kQHeads);
      std::vector<float> out(rows * kQHeads * kDim);
      std::vector<float> lse(rows * kQHeads);
      const attndb_tensor o = Tensor(out, 0, rows, kQHeads);
      EXPECT_EQ(attndb_session_append(session, layer, &k, &v), ATTNDB_OK) << attndb_last_error();
      EXPECT_EQ(attndb_session_attend(session, layer, &q, &o, lse.data()), ATTNDB_OK)
          << attndb_last_error();
      all.insert(all.end(), out.begin(), out.end());
      all.insert(all.end(), lse.begin(), lse.end());
    }
    return all;
  }

  std::vector<float> Step(Session* session, size_t begin, size_t end) {
    const size_t rows = end - begin;
    std::vector<float> all;
    for (uint32_t layer = 0; layer < kLayers; ++layer) {
      std::vector<float> out(rows * kQHeads * kDim);
      std::vector<float> lse(rows * kQHeads);
      EXPECT_TRUE(session
                      ->Append(layer, View(k_[layer], begin, rows, kKvHeads),
                               View(v_[layer], begin, rows, kKvHeads))
                      .ok());
      EXPECT_TRUE(
          session
              ->Attend(layer, View(q_[layer], begin, rows, kQHeads),
                       MutableTensorView::Contiguous(out.data(), DType::kFloat32,
                                                     static_cast<int64_t>(rows), kQHeads, kDim),
                       lse.data())
              .ok());
      all.insert(all.end(), out.begin(), out.end());
      all.insert(all.end(), lse.begin(), lse.end());
    }
    return all;
  }

  // Stores tokens [0, num_tokens) under `name`.
  int64_t StoreContext(const char* name, size_t num_tokens) {
    const UniqueSession session = Start(num_tokens + 1);
    Step(session.get(), attndb_session_num_tokens(session.get()), num_tokens);
    auto options = Sized<attndb_store_options>();
    options.name = name;
    int64_t id = 0;
    EXPECT_EQ(attndb_db_store(db_.get(), session.get(), tokens_.data(), num_tokens, &options, &id),
              ATTNDB_OK)
        << attndb_last_error();
    return id;
  }

  test::TempDir dir_;
  UniqueDb db_;
  std::vector<attndb_layer_spec> layers_;
  attndb_model_spec c_spec_;
  ModelSpec spec_;
  std::vector<std::vector<float>> k_, v_, q_;
  std::vector<int32_t> tokens_;
};

TEST_F(CApiTest, ARoundTripEqualsTheCppApiBitByBit) {
  Result<DB> db = DB::Open(dir_.File("cpp"));
  ASSERT_TRUE(db.ok()) << db.status();
  Result<SessionStart> start = db->CreateSession(spec_, tokens_);
  ASSERT_TRUE(start.ok()) << start.status();
  const UniqueSession session = Start(kTokens);
  EXPECT_EQ(Step(session.get(), 0, 150), Step(&start->session, 0, 150));
  EXPECT_EQ(Step(session.get(), 150, 151), Step(&start->session, 150, 151));
  auto options = Sized<attndb_store_options>();
  options.name = "book";
  ASSERT_EQ(attndb_db_store(db_.get(), session.get(), tokens_.data(), 151, &options, nullptr), 0);
  ASSERT_TRUE(db->Store(start->session, std::span(tokens_).first(151)).ok());
  EXPECT_EQ(attndb_session_num_tokens(session.get()), 151U);
  EXPECT_EQ(attndb_session_num_reused(session.get()), start->session.num_reused());

  uint64_t num_reused = 0;
  const UniqueSession again = Start(kTokens, &num_reused);
  EXPECT_EQ(num_reused, 151U);
  Result<SessionStart> again_cpp = db->CreateSession(spec_, tokens_);
  ASSERT_TRUE(again_cpp.ok());
  EXPECT_EQ(Step(again.get(), 151, kTokens), Step(&again_cpp->session, 151, kTokens));
  EXPECT_GT(attndb_session_memory_bytes(again.get()), 0U);
}

TEST_F(CApiTest, DenominatorLogitsShrinkOutputsAndGrowLse) {
  const std::vector<float> without = Step(Start(kTokens).get(), 0, 100);
  StoreContext("without", 100);
  std::vector<float> logits(kQHeads);
  for (uint32_t head = 0; head < kQHeads; ++head)
    logits[head] = 2.0f + 3.0f * static_cast<float>(head);
  for (attndb_layer_spec& layer : layers_) {
    layer.denominator_logits = logits.data();
    layer.num_denominator_logits = kQHeads - 1;
  }
  EXPECT_EQ(attndb_spec_validate(&c_spec_), ATTNDB_INVALID_ARGUMENT);
  EXPECT_THAT(attndb_last_error(), HasSubstr("number of denominator_logits is"));
  for (attndb_layer_spec& layer : layers_) layer.num_denominator_logits = kQHeads;
  uint64_t num_reused = 1;
  const UniqueSession session = Start(kTokens, &num_reused);
  EXPECT_EQ(num_reused, 0U) << "of another model";
  const std::vector<float> with = Step(session.get(), 0, 100);
  const size_t layer_size = 100 * kQHeads * (kDim + 1);  // Outputs, then lse.
  for (size_t row = 0; row < kLayers * 100 * kQHeads; ++row) {
    const size_t layer = row / (100 * kQHeads) * layer_size;
    const size_t in_layer = row % (100 * kQHeads);
    const size_t lse = layer + 100 * kQHeads * kDim + in_layer;
    const double weight = std::exp(double{logits[row % kQHeads]} - double{without[lse]});
    EXPECT_NEAR(with[lse], double{without[lse]} + std::log1p(weight), 1e-5) << row;
    for (size_t d = 0; d < kDim; ++d) {
      const size_t i = layer + in_layer * kDim + d;
      ASSERT_NEAR(with[i], double{without[i]} / (1 + weight), 1e-6) << row;
    }
  }
  char* text = nullptr;
  ASSERT_EQ(attndb_session_spec(session.get(), &text), ATTNDB_OK);
  EXPECT_EQ(Parsed(text)["layers"][1]["denominator_logits"], json(logits));
}

TEST_F(CApiTest, PartsMakeTheWholeAndUpdateAndAttentionAreAppendAndAttend) {
  const UniqueSession whole = Start(kTokens);
  const std::vector<float> expected = Step(whole.get(), 0, 8);
  const UniqueSession parts = Start(kTokens);
  std::vector<float> out(8 * kQHeads * kDim);
  const attndb_tensor o = Tensor(out, 0, 8, kQHeads);
  for (uint32_t layer = 0; layer < kLayers; ++layer) {
    const attndb_tensor k = Tensor(k_[layer], 0, 8, kKvHeads);
    const attndb_tensor v = Tensor(v_[layer], 0, 8, kKvHeads);
    const attndb_tensor q = Tensor(q_[layer], 0, 8, kQHeads);
    ASSERT_EQ(attndb_session_update(parts.get(), &q, &k, &v, layer), ATTNDB_OK);
    if (layer == 0) {
      std::vector<std::jthread> threads;
      for (uint32_t part = 0; part < 2; ++part) {
        threads.emplace_back([&, part] {
          EXPECT_EQ(attndb_session_attend_part(parts.get(), 0, &q, &o, nullptr, part, 2), 0);
        });
      }
    } else {
      ASSERT_EQ(attndb_session_attention(parts.get(), &q, layer, &o), ATTNDB_OK);
    }
    const float* const want = expected.data() + layer * (8 * kQHeads * (kDim + 1));
    for (size_t i = 0; i < out.size(); ++i) ASSERT_NEAR(out[i], want[i], 1e-5) << i;
  }
}

TEST_F(CApiTest, TheOldestTokensLeave) {
  const UniqueSession session = Start(kTokens);
  Step(session.get(), 0, 10);
  EXPECT_EQ(attndb_session_num_dropped(nullptr), 0U);
  EXPECT_EQ(attndb_session_drop_oldest(nullptr, 1, nullptr), ATTNDB_INVALID_ARGUMENT);
  EXPECT_EQ(attndb_session_rebase(nullptr, 1), ATTNDB_INVALID_ARGUMENT);
  attndb_token_range* heavy = nullptr;
  size_t num_heavy = 0;
  EXPECT_EQ(attndb_session_heaviest_tokens(session.get(), 0, 11, 16, &heavy, &num_heavy),
            ATTNDB_INVALID_ARGUMENT);
  EXPECT_EQ(attndb_session_heaviest_tokens(session.get(), 0, 10, 16, nullptr, &num_heavy),
            ATTNDB_INVALID_ARGUMENT);
  ASSERT_EQ(attndb_session_heaviest_tokens(session.get(), 0, 10, 16, &heavy, &num_heavy), ATTNDB_OK)
      << attndb_last_error();
  EXPECT_TRUE(num_heavy == 1 && heavy[0].end == 10);
  attndb_free(heavy);
  const attndb_token_range kept[] = {{4, 6}};
  attndb_drop_options drop = {sizeof(drop), 0, kept, 1, 1};
  EXPECT_EQ(attndb_session_drop_oldest(session.get(), 3, &drop), ATTNDB_OK);
  drop.keep = nullptr;
  EXPECT_EQ(attndb_session_drop_oldest(session.get(), 3, &drop), ATTNDB_INVALID_ARGUMENT);
  EXPECT_THAT(attndb_last_error(), HasSubstr("attndb_drop_options.keep"));
  EXPECT_EQ(attndb_session_drop_oldest(session.get(), 2, nullptr), ATTNDB_OK);
  EXPECT_EQ(attndb_session_num_dropped(session.get()), 5U);
  char* cuts = nullptr;
  ASSERT_EQ(attndb_session_cuts(session.get(), &cuts), ATTNDB_OK);
  EXPECT_STREQ(cuts, R"([{"at":10,"dropped":[[0,5]]}])");
  attndb_free(cuts);
  EXPECT_EQ(attndb_session_next_position(session.get()), 10);
  EXPECT_EQ(attndb_session_rebase(session.get(), 5), ATTNDB_OK);
  EXPECT_EQ(attndb_session_next_position(session.get()), 5);
}

TEST_F(CApiTest, ForkCropResetAndBatch) {
  const UniqueSession session = Start(kTokens);
  Step(session.get(), 0, 20);
  attndb_session* made = nullptr;
  ASSERT_EQ(attndb_session_fork(session.get(), &made), ATTNDB_OK);
  const UniqueSession fork(made);
  ASSERT_EQ(attndb_session_crop(fork.get(), 10), ATTNDB_OK);
  EXPECT_EQ(attndb_session_num_tokens(fork.get()), 10U);
  EXPECT_EQ(attndb_session_crop(fork.get(), 11), ATTNDB_INVALID_ARGUMENT);
  const attndb_token_range ranges[] = {{0, 2}, {5, 9}};
  EXPECT_EQ(attndb_session_set_filter(fork.get(), ranges, 2), ATTNDB_OK);
  EXPECT_EQ(attndb_session_set_filter(fork.get(), nullptr, 2), ATTNDB_INVALID_ARGUMENT);
  const attndb_token_range backwards[] = {{5, 9}, {0, 2}};
  EXPECT_EQ(attndb_session_set_filter(fork.get(), backwards, 2), ATTNDB_INVALID_ARGUMENT);
  EXPECT_EQ(attndb_session_set_filter(fork.get(), nullptr, 0), ATTNDB_OK);
  EXPECT_EQ(attndb_session_set_filter(nullptr, ranges, 2), ATTNDB_INVALID_ARGUMENT);
  EXPECT_EQ(attndb_session_await_derived(fork.get(), 0), ATTNDB_OK);
  EXPECT_EQ(attndb_session_await_derived(fork.get(), 99), ATTNDB_INVALID_ARGUMENT);
  EXPECT_EQ(attndb_session_awaits_derived(nullptr, 0), 0);
  EXPECT_EQ(attndb_session_awaits_derived(fork.get(), 0), 0);
  ASSERT_EQ(attndb_session_set_plan(fork.get(), "topk(k=9,index=pq,await=1)"), ATTNDB_OK);
  EXPECT_EQ(attndb_session_awaits_derived(fork.get(), 0), 1);
  EXPECT_EQ(attndb_session_await_derived(fork.get(), 0), ATTNDB_OK);
  EXPECT_EQ(attndb_session_awaits_derived(fork.get(), 0), 0);
  ASSERT_EQ(attndb_session_set_plan(fork.get(), "full"), ATTNDB_OK);
  EXPECT_EQ(Step(fork.get(), 10, 20), [&] {
    const UniqueSession fresh = Start(kTokens);
    Step(fresh.get(), 0, 10);
    return Step(fresh.get(), 10, 20);
  }());

  const std::vector<float> q = Random(2 * kQHeads * kDim, 99);
  std::vector<float> both(2 * kQHeads * kDim);
  const attndb_tensor tq = Tensor(q, 0, 2, kQHeads);
  const attndb_tensor to = Tensor(both, 0, 2, kQHeads);
  attndb_session* const sessions[] = {session.get(), fork.get()};
  const int64_t rows[] = {1, 1};
  ASSERT_EQ(attndb_attend_batch(sessions, rows, 2, 0, &tq, &to, nullptr, nullptr), ATTNDB_OK)
      << attndb_last_error();
  std::vector<float> one(kQHeads * kDim);
  const attndb_tensor tq0 = Tensor(q, 0, 1, kQHeads);
  const attndb_tensor to0 = Tensor(one, 0, 1, kQHeads);
  ASSERT_EQ(attndb_session_attend(session.get(), 0, &tq0, &to0, nullptr), ATTNDB_OK);
  EXPECT_TRUE(std::equal(one.begin(), one.end(), both.begin()));

  ASSERT_EQ(attndb_session_reset(session.get()), ATTNDB_OK);
  EXPECT_EQ(attndb_session_num_tokens(session.get()), 0U);
}

TEST_F(CApiTest, SearchGivesWhatThePlanChooses) {
  const UniqueSession session = Start(kTokens);
  Step(session.get(), 0, 100);
  const attndb_tensor q = Tensor(q_[1], 99, 1, kQHeads);
  uint64_t num_found[kQHeads] = {};
  uint32_t* tokens = nullptr;
  float* scores = nullptr;
  ASSERT_EQ(attndb_session_set_plan(session.get(), "topk(k=8,sink=2,window=4)"), ATTNDB_OK);
  ASSERT_EQ(attndb_session_search(session.get(), 1, &q, num_found, &tokens, &scores), ATTNDB_OK)
      << attndb_last_error();
  for (size_t i = 0; i < kQHeads * 8; ++i) {
    EXPECT_TRUE(tokens[i] >= 2 && tokens[i] < 96) << tokens[i];
    EXPECT_TRUE(std::isfinite(scores[i]));
  }
  for (const uint64_t count : num_found) EXPECT_EQ(count, 8U);
  attndb_free(tokens);
  attndb_free(scores);
  tokens = nullptr;
  ASSERT_EQ(attndb_session_search(session.get(), 1, &q, num_found, &tokens, nullptr), ATTNDB_OK);
  attndb_free(tokens);
  tokens = nullptr;
  ASSERT_EQ(attndb_session_set_plan(session.get(), "full"), ATTNDB_OK);
  EXPECT_EQ(attndb_session_search(session.get(), 1, &q, num_found, &tokens, nullptr),
            ATTNDB_FAILED_PRECONDITION);
  EXPECT_EQ(tokens, nullptr);
}

TEST_F(CApiTest, WhatWasAppendedCanBeRead) {
  const UniqueSession session = Start(kTokens);
  Step(session.get(), 0, 20);
  std::vector<float> k(5 * kKvHeads * kDim);
  std::vector<float> v(5 * kKvHeads * kDim);
  const attndb_tensor tk = Tensor(k, 0, 5, kKvHeads);
  const attndb_tensor tv = Tensor(v, 0, 5, kKvHeads);
  ASSERT_EQ(attndb_session_read_kv(session.get(), 1, 7, 12, &tk, &tv), ATTNDB_OK)
      << attndb_last_error();
  for (size_t i = 0; i < k.size(); ++i) {
    ASSERT_NEAR(k[i], k_[1][7 * kKvHeads * kDim + i], 4e-3) << i;  // Rounded to float16.
    ASSERT_NEAR(v[i], v_[1][7 * kKvHeads * kDim + i], 4e-3) << i;
  }
  EXPECT_EQ(attndb_session_read_kv(session.get(), 1, 7, 12, nullptr, &tv), ATTNDB_OK);
  EXPECT_EQ(attndb_session_read_kv(session.get(), 1, 17, 22, &tk, &tv), ATTNDB_INVALID_ARGUMENT);
  EXPECT_THAT(attndb_last_error(), HasSubstr("tokens [17, 22) are asked for"));
}

TEST_F(CApiTest, ImportedKeysAndValuesAreAContext) {
  std::vector<attndb_tensor> k, v, q;
  for (uint32_t layer = 0; layer < kLayers; ++layer) {
    k.push_back(Tensor(k_[layer], 0, 50, kKvHeads));
    v.push_back(Tensor(v_[layer], 0, 50, kKvHeads));
    q.push_back(Tensor(q_[layer], 0, 5, kQHeads));
  }
  int64_t id = 0;
  ASSERT_EQ(attndb_db_import(db_.get(), &c_spec_, tokens_.data(), 50, k.data(), v.data(), q.data(),
                             nullptr, &id),
            ATTNDB_OK)
      << attndb_last_error();
  EXPECT_GT(id, 0);
  uint64_t num_reused = 0;
  const UniqueSession session = Start(60, &num_reused);
  EXPECT_EQ(num_reused, 50U);
  EXPECT_EQ(attndb_session_context_id(session.get()), id);
  EXPECT_EQ(attndb_db_import(db_.get(), &c_spec_, tokens_.data(), 50, nullptr, v.data(), nullptr,
                             nullptr, nullptr),
            ATTNDB_INVALID_ARGUMENT);
  EXPECT_STREQ(attndb_last_error(), "keys is NULL");
}

TEST_F(CApiTest, ContextsAreListedDescribedAndManaged) {
  const int64_t id = StoreContext("book", 100);
  char* text = nullptr;
  ASSERT_EQ(attndb_db_list(db_.get(), &text), ATTNDB_OK);
  const json list = Parsed(text);
  ASSERT_EQ(list.size(), 1U);
  EXPECT_EQ(list[0]["id"], id);
  EXPECT_EQ(list[0]["num_tokens"], 100);
  ASSERT_EQ(attndb_db_pin(db_.get(), "book", 1), ATTNDB_OK);
  ASSERT_EQ(attndb_db_set_ttl(db_.get(), "book", 3600), ATTNDB_OK);
  ASSERT_EQ(attndb_db_describe(db_.get(), ("#" + std::to_string(id)).c_str(), &text), ATTNDB_OK);
  json described = Parsed(text);
  EXPECT_EQ(described["pinned"], true);
  EXPECT_EQ(described["ttl_seconds"], 3600);
  EXPECT_GE(described["segments"].size(), 1U);
  ASSERT_EQ(attndb_db_set_ttl(db_.get(), "book", -1), ATTNDB_OK);
  ASSERT_EQ(attndb_db_describe(db_.get(), "book", &text), ATTNDB_OK);
  EXPECT_TRUE(Parsed(text)["ttl_seconds"].is_null());

  int32_t* tokens = nullptr;
  size_t num_tokens = 0;
  ASSERT_EQ(attndb_db_tokens(db_.get(), "book", &tokens, &num_tokens), ATTNDB_OK);
  EXPECT_EQ(std::vector<int32_t>(tokens, tokens + num_tokens),
            std::vector<int32_t>(tokens_.begin(), tokens_.begin() + 100));
  attndb_free(tokens);

  ASSERT_EQ(attndb_db_explain_prefix(db_.get(), &c_spec_, tokens_.data(), kTokens, nullptr, &text),
            ATTNDB_OK);
  EXPECT_EQ(Parsed(text)["num_reused"], 100);
  ASSERT_EQ(attndb_db_set_quota(db_.get(), 1 << 30), ATTNDB_OK);
  ASSERT_EQ(attndb_db_stats(db_.get(), &text), ATTNDB_OK);
  EXPECT_EQ(Parsed(text)["quota_bytes"], 1 << 30);
  ASSERT_EQ(attndb_db_declare_equal(db_.get(), "model", 5, "other", 5), ATTNDB_OK);
  ASSERT_EQ(attndb_db_revoke_equal(db_.get(), "other", 5, "model", 5), ATTNDB_OK);
  ASSERT_EQ(attndb_db_compact(db_.get()), ATTNDB_OK);
  ASSERT_EQ(attndb_db_pin(db_.get(), "book", 0), ATTNDB_OK);
  ASSERT_EQ(attndb_db_drop(db_.get(), "book"), ATTNDB_OK);
  EXPECT_EQ(attndb_db_drop(db_.get(), "book"), ATTNDB_NOT_FOUND);
}

TEST_F(CApiTest, VerifyCallsBackAndCanBeCancelled) {
  StoreContext("book", 100);
  uint64_t num_damages = 99;
  char* text = nullptr;
  int num_calls = 0;
  const auto count = [](uint64_t, uint64_t, void* data) {
    ++*static_cast<int*>(data);
    return 1;
  };
  ASSERT_EQ(attndb_db_verify(db_.get(), nullptr, count, &num_calls, &num_damages, &text), 0);
  EXPECT_EQ(num_damages, 0U);
  EXPECT_GE(num_calls, 1);
  EXPECT_EQ(Parsed(text)["ok"], true);
  const auto stop = [](uint64_t, uint64_t, void*) { return 0; };
  EXPECT_EQ(attndb_db_verify(db_.get(), "book", stop, nullptr, nullptr, nullptr), ATTNDB_CANCELLED);
  EXPECT_EQ(attndb_db_wait_for_background(db_.get(), count, &num_calls), ATTNDB_OK);
  EXPECT_EQ(attndb_db_wait_for_background(nullptr, nullptr, nullptr), ATTNDB_INVALID_ARGUMENT);
}

TEST_F(CApiTest, BuildTellsWhatSegmentsHave) {
  StoreContext("book", 100);
  char* text = nullptr;
  ASSERT_EQ(attndb_db_build(db_.get(), "book", "pq,m=4", nullptr, nullptr, &text), ATTNDB_OK)
      << attndb_last_error();
  const json report = Parsed(text);
  EXPECT_EQ(report["kind"], "pq_4x8");
  EXPECT_EQ(report["num_built"], 0);
  EXPECT_EQ(report["num_too_short"], 1);
  EXPECT_GT(report["seconds"], 0);
  ASSERT_EQ(attndb_db_build(db_.get(), "book", "graph", nullptr, nullptr, nullptr), ATTNDB_OK);
  EXPECT_EQ(attndb_db_build(db_.get(), "nobody", "pq", nullptr, nullptr, nullptr),
            ATTNDB_NOT_FOUND);
  ASSERT_EQ(attndb_db_describe(db_.get(), "book", &text), ATTNDB_OK);
  EXPECT_TRUE(Parsed(text)["derived_bytes"].is_object());
}

TEST_F(CApiTest, CompactTakesALengthAndCanBeCancelled) {
  StoreContext("short", 60);
  StoreContext("book", 100);  // The first 60 tokens are shared: two segments.
  ASSERT_EQ(attndb_db_drop(db_.get(), "short"), ATTNDB_OK);
  const auto num_segments = [&] {
    char* text = nullptr;
    EXPECT_EQ(attndb_db_describe(db_.get(), "book", &text), ATTNDB_OK);
    return Parsed(text)["segments"].size();
  };
  auto options = Sized<attndb_compact_options>();
  options.segment_tokens = 99;
  ASSERT_EQ(attndb_db_compact_with(db_.get(), &options, nullptr, nullptr), ATTNDB_OK);
  EXPECT_EQ(num_segments(), 2U);
  options.segment_tokens = 100;
  const auto stop = [](uint64_t, uint64_t, void*) { return 0; };
  EXPECT_EQ(attndb_db_compact_with(db_.get(), &options, stop, nullptr), ATTNDB_CANCELLED);
  EXPECT_EQ(num_segments(), 2U);
  ASSERT_EQ(attndb_db_compact_with(db_.get(), &options, nullptr, nullptr), ATTNDB_OK);
  EXPECT_EQ(num_segments(), 1U);
  ASSERT_EQ(attndb_db_compact_with(db_.get(), nullptr, nullptr, nullptr), ATTNDB_OK);
  options.segment_tokens = UINT64_MAX;
  EXPECT_EQ(attndb_db_compact_with(db_.get(), &options, nullptr, nullptr), ATTNDB_INVALID_ARGUMENT);
  EXPECT_THAT(attndb_last_error(), HasSubstr("segment_tokens"));
}

TEST_F(CApiTest, TenantsAreApartAndPlansAreExplained) {
  StoreContext("book", 100);
  attndb_db* made = nullptr;
  ASSERT_EQ(attndb_db_for_tenant(db_.get(), "alice", &made), ATTNDB_OK);
  const UniqueDb alice(made);
  EXPECT_STREQ(attndb_db_tenant(alice.get()), "alice");
  EXPECT_EQ(attndb_db_drop(alice.get(), "book"), ATTNDB_NOT_FOUND);

  const UniqueSession session = Start(kTokens);
  EXPECT_EQ(attndb_session_set_plan(session.get(), "topk(k="), ATTNDB_INVALID_ARGUMENT);
  EXPECT_THAT(attndb_last_error(), HasSubstr("column"));
  ASSERT_EQ(attndb_session_set_plan(session.get(), "topk(k=8)"), ATTNDB_OK);
  char* text = nullptr;
  ASSERT_EQ(attndb_session_explain(session.get(), &text), ATTNDB_OK);
  EXPECT_EQ(Parsed(text)["layers"].size(), kLayers);
  ASSERT_EQ(attndb_session_explain_layer(session.get(), 1, &text), ATTNDB_OK);
  EXPECT_EQ(Parsed(text)["layer"], 1);
  EXPECT_NE(attndb_session_explain_layer(session.get(), kLayers, &text), ATTNDB_OK);
  ASSERT_EQ(attndb_session_spec(session.get(), &text), ATTNDB_OK);
  EXPECT_EQ(Parsed(text)["fingerprint"], "model");
  uint64_t bytes = 0;
  ASSERT_EQ(attndb_spec_kv_bytes_per_token(&c_spec_, &bytes), ATTNDB_OK);
  EXPECT_EQ(bytes, spec_.KvBytesPerToken());
  EXPECT_EQ(attndb_spec_validate(&c_spec_), ATTNDB_OK);
}

TEST_F(CApiTest, AStoreGoesOnBehindItsSession) {
  UniqueSession session = Start(100);
  Step(session.get(), 0, 100);
  auto options = Sized<attndb_store_options>();
  options.name = "book";
  attndb_pending_store* pending = nullptr;
  ASSERT_EQ(
      attndb_db_store_async(db_.get(), session.get(), tokens_.data(), 100, &options, &pending),
      ATTNDB_OK)
      << attndb_last_error();
  Step(session.get(), 100, 110);
  int64_t id = 0;
  ASSERT_EQ(attndb_pending_store_wait(pending, &id), ATTNDB_OK) << attndb_last_error();
  int32_t done = 0;
  ASSERT_EQ(attndb_pending_store_done(pending, &done), ATTNDB_OK);
  EXPECT_EQ(done, 1);
  EXPECT_GT(id, 0);
  EXPECT_EQ(attndb_pending_store_wait(pending, nullptr), ATTNDB_OK);
  attndb_pending_store_free(pending);
  pending = nullptr;
  Step(session.get(), 110, 111);
  // The name is taken: which the disk says, and so the wait.
  ASSERT_EQ(
      attndb_db_store_async(db_.get(), session.get(), tokens_.data(), 111, &options, &pending),
      ATTNDB_OK);
  session.reset();
  EXPECT_EQ(attndb_pending_store_wait(pending, &id), ATTNDB_ALREADY_EXISTS);
  EXPECT_THAT(attndb_last_error(), HasSubstr("book"));
  attndb_pending_store_free(pending);
  attndb_pending_store_free(nullptr);
}

TEST_F(CApiTest, ManyPromptsStartAtOnceOrNotAtAll) {
  StoreContext("book", 100);
  const int32_t* prompts[] = {tokens_.data(), tokens_.data()};
  size_t lengths[] = {120, 50};
  attndb_session* sessions[2] = {};
  uint64_t reused[2] = {};
  ASSERT_EQ(attndb_db_create_sessions(db_.get(), &c_spec_, prompts, lengths, 2, nullptr, sessions,
                                      reused),
            ATTNDB_OK)
      << attndb_last_error();
  EXPECT_EQ(reused[0], 100U);
  EXPECT_EQ(reused[1], 49U);
  for (attndb_session*& session : sessions) {
    attndb_session_free(session);
    session = nullptr;
  }
  lengths[1] = 0;
  EXPECT_EQ(attndb_db_create_sessions(db_.get(), &c_spec_, prompts, lengths, 2, nullptr, sessions,
                                      nullptr),
            ATTNDB_INVALID_ARGUMENT);
  EXPECT_EQ(sessions[0], nullptr);
}

TEST_F(CApiTest, NullIsAnErrorInEachCallOfADbAndOutputsStayUntouched) {
  const UniqueSession session = Start(kTokens);
  attndb_db* db = nullptr;
  attndb_session* s = nullptr;
  char* text = nullptr;
  int32_t* ids = nullptr;
  size_t n = 0;
  const std::vector<attndb_code> codes = {
      attndb_db_open(nullptr, nullptr, &db),
      attndb_db_open("x", nullptr, nullptr),
      attndb_db_for_tenant(nullptr, "a", &db),
      attndb_db_for_tenant(db_.get(), nullptr, &db),
      attndb_db_for_tenant(db_.get(), "a", nullptr),
      attndb_db_create_session(nullptr, &c_spec_, tokens_.data(), 1, nullptr, &s, nullptr),
      attndb_db_create_session(db_.get(), nullptr, tokens_.data(), 1, nullptr, &s, nullptr),
      attndb_db_create_session(db_.get(), &c_spec_, nullptr, 1, nullptr, &s, nullptr),
      attndb_db_create_session(db_.get(), &c_spec_, tokens_.data(), 1, nullptr, nullptr, nullptr),
      attndb_db_store(db_.get(), nullptr, tokens_.data(), 1, nullptr, nullptr),
      attndb_db_store(nullptr, session.get(), tokens_.data(), 1, nullptr, nullptr),
      attndb_db_store_async(nullptr, session.get(), tokens_.data(), 1, nullptr, nullptr),
      attndb_db_store_async(db_.get(), session.get(), tokens_.data(), 1, nullptr, nullptr),
      attndb_pending_store_done(nullptr, nullptr),
      attndb_pending_store_wait(nullptr, nullptr),
      attndb_db_list(nullptr, &text),
      attndb_db_list(db_.get(), nullptr),
      attndb_db_describe(db_.get(), nullptr, &text),
      attndb_db_stats(nullptr, &text),
      attndb_db_tokens(db_.get(), nullptr, &ids, &n),
      attndb_db_pin(db_.get(), nullptr, 1),
      attndb_db_set_ttl(db_.get(), nullptr, 1),
      attndb_db_drop(nullptr, "a"),
      attndb_db_set_quota(nullptr, 1),
      attndb_db_declare_equal(db_.get(), nullptr, 1, "b", 1),
      attndb_db_verify(nullptr, nullptr, nullptr, nullptr, nullptr, nullptr),
      attndb_db_build(nullptr, "a", "pq", nullptr, nullptr, nullptr),
      attndb_db_build(db_.get(), nullptr, "pq", nullptr, nullptr, nullptr),
      attndb_db_build(db_.get(), "a", nullptr, nullptr, nullptr, nullptr),
      attndb_db_compact(nullptr),
      attndb_db_compact_with(nullptr, nullptr, nullptr, nullptr),
      attndb_spec_validate(nullptr),
      attndb_spec_kv_bytes_per_token(&c_spec_, nullptr)};
  for (size_t i = 0; i < codes.size(); ++i) EXPECT_EQ(codes[i], ATTNDB_INVALID_ARGUMENT) << i;
  EXPECT_THAT(attndb_last_error(), HasSubstr("NULL"));
  EXPECT_TRUE(db == nullptr && s == nullptr && text == nullptr && ids == nullptr);
  EXPECT_EQ(attndb_db_tenant(nullptr), nullptr);
}

TEST_F(CApiTest, NullIsAnErrorInEachCallOfASessionAndOutputsStayUntouched) {
  const UniqueSession session = Start(kTokens);
  const attndb_tensor k = Tensor(k_[0], 0, 1, kKvHeads);
  attndb_session* s = nullptr;
  char* text = nullptr;
  uint64_t num = 0;
  uint32_t* found = nullptr;
  const std::vector<attndb_code> codes = {
      attndb_session_append(nullptr, 0, &k, &k),
      attndb_session_append(session.get(), 0, nullptr, &k),
      attndb_session_append(session.get(), 0, &k, nullptr),
      attndb_session_attend(session.get(), 0, nullptr, &k, nullptr),
      attndb_session_attend(session.get(), 0, &k, nullptr, nullptr),
      attndb_session_attend_part(nullptr, 0, &k, &k, nullptr, 0, 1),
      attndb_session_update(session.get(), nullptr, &k, &k, 0),
      attndb_session_attention(nullptr, &k, 0, &k),
      attndb_attend_batch(nullptr, nullptr, 1, 0, &k, &k, nullptr, nullptr),
      attndb_session_read_kv(nullptr, 0, 0, 1, &k, &k),
      attndb_session_crop(nullptr, 0),
      attndb_session_await_derived(nullptr, 0),
      attndb_session_fork(nullptr, &s),
      attndb_session_fork(session.get(), nullptr),
      attndb_session_reset(nullptr),
      attndb_session_set_plan(session.get(), nullptr),
      attndb_session_explain(session.get(), nullptr),
      attndb_session_explain_layer(nullptr, 0, &text),
      attndb_session_search(nullptr, 0, &k, &num, &found, nullptr),
      attndb_session_search(session.get(), 0, nullptr, &num, &found, nullptr),
      attndb_session_search(session.get(), 0, &k, nullptr, &found, nullptr),
      attndb_session_search(session.get(), 0, &k, &num, nullptr, nullptr),
      attndb_session_spec(nullptr, &text)};
  for (size_t i = 0; i < codes.size(); ++i) EXPECT_EQ(codes[i], ATTNDB_INVALID_ARGUMENT) << i;
  EXPECT_THAT(attndb_last_error(), HasSubstr("NULL"));
  EXPECT_TRUE(s == nullptr && text == nullptr && found == nullptr && num == 0);
  EXPECT_EQ(attndb_session_num_tokens(nullptr), 0U);
  EXPECT_EQ(attndb_session_num_tokens(session.get()), 0U);
}

TEST_F(CApiTest, TheLastErrorIsTheThreadsOwn) {
  EXPECT_EQ(attndb_db_drop(db_.get(), "nobody"), ATTNDB_NOT_FOUND);
  std::jthread([] {
    EXPECT_STREQ(attndb_last_error(), "");
    EXPECT_EQ(attndb_last_error_code(), ATTNDB_OK);
  });
  EXPECT_EQ(attndb_last_error_code(), ATTNDB_NOT_FOUND);
  EXPECT_THAT(attndb_last_error(), HasSubstr("nobody"));
}

}  // namespace
}  // namespace attndb
