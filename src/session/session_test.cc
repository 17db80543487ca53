// Goal:   each call of a session does exactly what include/attndb/session.h says, and bad input is
//         a typed error that changes nothing.
#include "attndb/session.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <thread>

#include "attndb/db.h"
#include "testing/matchers.h"
#include "testing/temp_dir.h"
#include "testing/toy_model.h"

namespace attndb {
namespace {

using test::FailsWith;
using test::IsOk;
using test::ToyModel;
using ::testing::HasSubstr;

constexpr float kInf = std::numeric_limits<float>::infinity();

// An array of a caller that ends where memory that nobody may read begins.
class GuardedRows {
 public:
  explicit GuardedRows(const std::vector<float>& rows) {
    const auto page = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
    const size_t num_bytes = rows.size() * sizeof(float);
    const size_t num_used = (num_bytes + page - 1) / page * page;
    num_mapped_ = num_used + page;
    memory_ =
        ::mmap(nullptr, num_mapped_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    EXPECT_NE(memory_, MAP_FAILED);
    std::byte* const end = static_cast<std::byte*>(memory_) + num_used;
    EXPECT_EQ(::mprotect(end, page, PROT_NONE), 0);
    rows_ = end - num_bytes;
    std::memcpy(rows_, rows.data(), num_bytes);
  }
  ~GuardedRows() { ::munmap(memory_, num_mapped_); }
  GuardedRows(const GuardedRows&) = delete;
  GuardedRows& operator=(const GuardedRows&) = delete;

  const void* data() const { return rows_; }

 private:
  void* memory_ = nullptr;
  size_t num_mapped_ = 0;
  std::byte* rows_ = nullptr;
};

class SessionTest : public ::testing::Test {
 protected:
  void SetUp() override {
    Result<DB> db = DB::Open(dir_.File("store"));
    ASSERT_THAT(db, IsOk());
    db_.emplace(*std::move(db));
  }

  Session NewSession(const ModelSpec& spec, SessionOptions options = {}) {
    options.reuse = false;
    const std::vector<TokenId> prompt = {1};
    return std::move(db_->CreateSession(spec, prompt, options)->session);
  }
  Session NewSession() { return NewSession(model_.spec()); }

  // Views of one step of `model_` for a layer, backed by members.
  TensorView K(LayerId layer, int64_t rows) {
    k_ = model_.Keys(layer, tokens(rows), 0);
    const LayerSpec& s = model_.spec().layers[layer];
    return TensorView::Contiguous(k_.data(), DType::kFloat32, rows, s.num_kv_heads, s.head_dim);
  }
  TensorView V(LayerId layer, int64_t rows) {
    v_ = model_.Values(layer, tokens(rows), 0);
    const LayerSpec& s = model_.spec().layers[layer];
    return TensorView::Contiguous(v_.data(), DType::kFloat32, rows, s.num_kv_heads, s.v_head_dim);
  }
  TensorView Q(LayerId layer, int64_t rows) {
    q_ = model_.Queries(layer, tokens(rows), 0);
    const LayerSpec& s = model_.spec().layers[layer];
    return TensorView::Contiguous(q_.data(), DType::kFloat32, rows, s.num_q_heads, s.head_dim);
  }
  MutableTensorView Out(LayerId layer, int64_t rows) {
    const LayerSpec& s = model_.spec().layers[layer];
    out_.assign(static_cast<size_t>(rows) * s.num_q_heads * s.v_head_dim, 0.0f);
    return MutableTensorView::Contiguous(out_.data(), DType::kFloat32, rows, s.num_q_heads,
                                         s.v_head_dim);
  }
  std::span<const TokenId> tokens(int64_t n) const {
    return std::span(tokens_).first(static_cast<size_t>(n));
  }

  test::TempDir dir_;
  const ToyModel model_;
  const std::vector<TokenId> tokens_ = ToyModel::Tokens(500, 1);
  std::optional<DB> db_;
  std::vector<float> k_, v_, q_, out_;
};

TEST_F(SessionTest, NumTokensIsTheMinimumOverLayers) {
  Session session = NewSession();
  EXPECT_THAT(session.Append(0, K(0, 3), V(0, 3)), IsOk());
  EXPECT_EQ(session.num_tokens(), 0u);
  EXPECT_THAT(session.Append(1, K(1, 3), V(1, 3)), IsOk());
  EXPECT_EQ(session.num_tokens(), 3u);
}

TEST_F(SessionTest, StepsInPiecesEqualOneStep) {
  Session whole = NewSession();
  Session pieces = NewSession();
  std::vector<float> expected;
  std::vector<float> got;
  ASSERT_THAT(model_.Step(&whole, tokens(300), nullptr), IsOk());
  for (int64_t i = 0; i < 300; i += 50) {
    ASSERT_THAT(model_.Step(&pieces, tokens(300).subspan(static_cast<size_t>(i), 50)), IsOk());
  }
  ASSERT_THAT(model_.Probe(&whole, 7, &expected), IsOk());
  ASSERT_THAT(model_.Probe(&pieces, 7, &got), IsOk());
  EXPECT_EQ(expected, got);
}

TEST_F(SessionTest, CropAndAppendAgainEqualsNeverHavingAppended) {
  Session cropped = NewSession();
  Session plain = NewSession();
  ASSERT_THAT(model_.Step(&cropped, tokens(400)), IsOk());
  ASSERT_THAT(cropped.Crop(123), IsOk());
  EXPECT_EQ(cropped.num_tokens(), 123u);
  ASSERT_THAT(model_.Step(&cropped, tokens(300).subspan(123)), IsOk());
  ASSERT_THAT(model_.Step(&plain, tokens(300)), IsOk());
  std::vector<float> expected;
  std::vector<float> got;
  ASSERT_THAT(model_.Probe(&plain, 7, &expected), IsOk());
  ASSERT_THAT(model_.Probe(&cropped, 7, &got), IsOk());
  EXPECT_EQ(expected, got);
  EXPECT_THAT(cropped.Crop(301), FailsWith(StatusCode::kInvalidArgument, HasSubstr("holds 300")));
}

TEST_F(SessionTest, ForksGoTheirOwnWays) {
  Session parent = NewSession();
  ASSERT_THAT(model_.Step(&parent, tokens(290)), IsOk());
  ATTNDB_ASSERT_OK_AND_ASSIGN(Session fork, parent.Fork());
  ASSERT_THAT(model_.Step(&fork, std::vector<TokenId>{1, 2, 3}), IsOk());
  ASSERT_THAT(model_.Step(&parent, std::vector<TokenId>{9, 9, 9}), IsOk());
  for (auto [session, last] : {std::pair(&fork, std::vector<TokenId>{1, 2, 3}),
                               std::pair(&parent, std::vector<TokenId>{9, 9, 9})}) {
    Session plain = NewSession();
    ASSERT_THAT(model_.Step(&plain, tokens(290)), IsOk());
    ASSERT_THAT(model_.Step(&plain, last), IsOk());
    std::vector<float> expected;
    std::vector<float> got;
    ASSERT_THAT(model_.Probe(&plain, 7, &expected), IsOk());
    ASSERT_THAT(model_.Probe(session, 7, &got), IsOk());
    EXPECT_EQ(expected, got);
  }
}

TEST_F(SessionTest, ResetForgetsEverything) {
  Session session = NewSession();
  ASSERT_THAT(model_.Step(&session, tokens(30)), IsOk());
  session.Reset();
  EXPECT_EQ(session.num_tokens(), 0u);
  EXPECT_THAT(session.Attend(0, Q(0, 1), Out(0, 1)),
              FailsWith(StatusCode::kInvalidArgument, HasSubstr("holds 0 tokens")));
  EXPECT_THAT(model_.Step(&session, tokens(5)), IsOk());
}

TEST_F(SessionTest, LayersComeInOrderAndWithEqualRows) {
  Session session = NewSession();
  EXPECT_THAT(session.Append(1, K(1, 2), V(1, 2)),
              FailsWith(StatusCode::kFailedPrecondition,
                        HasSubstr("layer 1 out of order; expected layer 0")));
  EXPECT_THAT(session.Append(0, K(0, 2), V(0, 2)), IsOk());
  EXPECT_THAT(session.Append(0, K(0, 2), V(0, 2)),
              FailsWith(StatusCode::kFailedPrecondition, HasSubstr("expected layer 1")));
  EXPECT_THAT(session.Append(1, K(1, 3), V(1, 3)),
              FailsWith(StatusCode::kFailedPrecondition,
                        HasSubstr("3 new tokens, expected 2, as in layer 0")));
  EXPECT_THAT(session.Append(7, K(1, 2), V(1, 2)),
              FailsWith(StatusCode::kInvalidArgument, HasSubstr("the model has 2 layers")));
  EXPECT_THAT(session.Append(1, K(1, 2), V(1, 2)), IsOk());
}

TEST_F(SessionTest, StoreAndForkInsideAStepAreRefused) {
  Session session = NewSession();
  ASSERT_THAT(session.Append(0, K(0, 2), V(0, 2)), IsOk());
  EXPECT_THAT(db_->Store(session, tokens(2)),
              FailsWith(StatusCode::kFailedPrecondition,
                        HasSubstr("layers 0 to 0 hold 2 tokens, layer 1 holds 0")));
  EXPECT_EQ(session.Fork().status().code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(session.Crop(0), IsOk());
  EXPECT_THAT(model_.Step(&session, tokens(2)), IsOk());
}

TEST_F(SessionTest, WrongViewsAreRefusedByName) {
  Session session = NewSession();
  TensorView k = K(0, 2);
  const TensorView v = V(0, 2);
  const auto expect = [&](const TensorView& key, const char* message) {
    EXPECT_THAT(session.Append(0, key, v),
                FailsWith(StatusCode::kInvalidArgument, HasSubstr(message)));
    EXPECT_EQ(session.num_tokens(), 0u);
  };
  TensorView bad = k;
  bad.shape[1] = 3;
  expect(bad, "layer 0: k has shape [2, 3, 32], expected [1 or more, 2, 32]");
  bad = k;
  bad.shape[0] = 0;
  expect(bad, "shape [0, 2, 32]");
  bad = k;
  bad.shape[0] = 3;
  expect(bad, "v has 2 rows, expected 3 rows, as k");
  bad = k;
  bad.dtype = static_cast<DType>(5);
  expect(bad, "k has dtype 5");
  bad = k;
  bad.data = nullptr;
  expect(bad, "k is null");
  bad = k;
  bad.strides[0] = std::numeric_limits<int64_t>::max();
  expect(bad, "reach beyond 64 bits");
  EXPECT_THAT(session.Append(0, k, v), IsOk());
  MutableTensorView out = Out(0, 2);
  out.strides[1] = 0;
  EXPECT_THAT(session.Attend(0, Q(0, 2), out),
              FailsWith(StatusCode::kInvalidArgument, HasSubstr("elements overlap")));
  out = Out(0, 2);
  out.dtype = DType::kFloat16;
  EXPECT_THAT(session.Attend(0, Q(0, 2), out),
              FailsWith(StatusCode::kInvalidArgument, HasSubstr("expected float32 or that of q")));
  EXPECT_THAT(session.Attend(0, Q(0, 1), Out(0, 2)),
              FailsWith(StatusCode::kInvalidArgument, HasSubstr("out has 2 rows, expected 1")));
  EXPECT_THAT(session.Attend(0, Q(0, 3), Out(0, 3)),
              FailsWith(StatusCode::kInvalidArgument, HasSubstr("q has 3 rows")));
}

TEST_F(SessionTest, AnyStridesAndTypesGiveTheSame) {
  Session plain = NewSession();
  ASSERT_THAT(model_.Step(&plain, tokens(5)), IsOk());
  std::vector<float> expected;
  ASSERT_THAT(model_.Probe(&plain, 7, &expected), IsOk());
  // Heads first, rows backwards, elements two apart.
  Session session = NewSession();
  for (LayerId layer = 0; layer < 2; ++layer) {
    const auto odd = [](const TensorView& view, std::vector<float>* data) {
      TensorView odd_view = view;
      const auto [n, heads, dim] = view.shape;
      data->assign(static_cast<size_t>(2 * n * heads * dim), 0.0f);
      odd_view.strides = {-2 * dim, 2 * dim * n, 2};
      odd_view.data = data->data() + 2 * dim * (n - 1);
      for (int64_t i = 0; i < n; ++i) {
        for (int64_t h = 0; h < heads; ++h) {
          for (int64_t d = 0; d < dim; ++d) {
            (*data)[static_cast<size_t>(2 * dim * (n - 1) - 2 * dim * i + 2 * dim * n * h +
                                        2 * d)] =
                static_cast<const float*>(view.data)[(i * heads + h) * dim + d];
          }
        }
      }
      return odd_view;
    };
    std::vector<float> k_data;
    std::vector<float> v_data;
    const TensorView k = odd(K(layer, 5), &k_data);
    ASSERT_THAT(session.Append(layer, k, odd(V(layer, 5), &v_data)), IsOk());
  }
  std::vector<float> got;
  ASSERT_THAT(model_.Probe(&session, 7, &got), IsOk());
  EXPECT_EQ(expected, got);
}

// Rows that follow each other, of elements that do not.
TEST_F(SessionTest, EverySecondElementIsTaken) {
  Session plain = NewSession();
  ASSERT_THAT(model_.Step(&plain, tokens(5)), IsOk());
  std::vector<float> expected;
  ASSERT_THAT(model_.Probe(&plain, 7, &expected), IsOk());
  Session session = NewSession();
  for (LayerId layer = 0; layer < 2; ++layer) {
    const auto spread = [](const TensorView& view, std::vector<float>* data) {
      const auto [n, heads, dim] = view.shape;
      const auto* const from = static_cast<const float*>(view.data);
      data->assign(static_cast<size_t>(2 * n * heads * dim), kInf);
      for (int64_t i = 0; i < n * heads * dim; ++i) (*data)[static_cast<size_t>(2 * i)] = from[i];
      TensorView spread_view = view;
      spread_view.data = data->data();
      spread_view.strides = {2 * heads * dim, 2 * dim, 2};
      return spread_view;
    };
    std::vector<float> k_data;
    std::vector<float> v_data;
    const TensorView k = spread(K(layer, 5), &k_data);
    ASSERT_THAT(session.Append(layer, k, spread(V(layer, 5), &v_data)), IsOk());
  }
  std::vector<float> got;
  ASSERT_THAT(model_.Probe(&session, 7, &got), IsOk());
  EXPECT_EQ(expected, got);
}

// 300 tokens lie in two blocks of the tail.
TEST_F(SessionTest, NothingBehindAnArrayIsRead) {
  for (const int64_t n : {1, 300}) {
    Session plain = NewSession();
    ASSERT_THAT(model_.Step(&plain, tokens(n)), IsOk());
    std::vector<float> expected;
    ASSERT_THAT(model_.Probe(&plain, 7, &expected), IsOk());
    Session session = NewSession();
    for (LayerId layer = 0; layer < 2; ++layer) {
      TensorView k = K(layer, n);
      TensorView v = V(layer, n);
      TensorView q = Q(layer, n);
      const GuardedRows k_rows(k_);
      const GuardedRows v_rows(v_);
      const GuardedRows q_rows(q_);
      k.data = k_rows.data();
      v.data = v_rows.data();
      q.data = q_rows.data();
      ASSERT_THAT(session.Append(layer, k, v), IsOk());
      ASSERT_THAT(session.Attend(layer, q, Out(layer, n)), IsOk());
    }
    std::vector<float> got;
    ASSERT_THAT(model_.Probe(&session, 7, &got), IsOk());
    EXPECT_EQ(expected, got);
  }
}

TEST_F(SessionTest, AFiniteValueThatOverflowsIsRefusedWithItsPlace) {
  Session session = NewSession();
  TensorView k = K(0, 4);
  k_[(2 * 2 + 1) * 32 + 5] = 70000.0f;  // Token 2, head 1; float16 ends at 65504.
  EXPECT_THAT(
      session.Append(0, k, V(0, 4)),
      FailsWith(StatusCode::kInvalidArgument, HasSubstr("k of layer 0, head 1, token 2 is 70000")));
  EXPECT_THAT(model_.Step(&session, tokens(4)), IsOk());  // Nothing had changed.
}

TEST_F(SessionTest, NanAndInfAreStoredAndTheirHeadRunsFull) {
  SessionOptions options;
  options.plan = "topk(k=1,sink=0,window=1)";
  Session session = NewSession(model_.spec(), options);
  TensorView v = V(0, 100);
  v_[0] = kInf;  // Token 0, head 0.
  ASSERT_THAT(session.Append(0, K(0, 100), v), IsOk());
  ASSERT_THAT(session.Attend(0, Q(0, 1), Out(0, 1)), IsOk());
  EXPECT_TRUE(std::isinf(out_[0]));  // Token 0 was attended to: the head ran full.
  const size_t head_1 = 3 * 16;
  EXPECT_TRUE(std::isfinite(out_[head_1]));
  ATTNDB_ASSERT_OK_AND_ASSIGN(const LayerExplain explain, session.Explain(0));
  EXPECT_EQ(explain.selected_mean, 1.0);  // Head 1 alone chose.
}

TEST_F(SessionTest, PartsShareOneCall) {
  Session session = NewSession();
  ASSERT_THAT(model_.Step(&session, tokens(500)), IsOk());
  std::vector<float> lse(6);
  ASSERT_THAT(session.Attend(0, Q(0, 1), Out(0, 1), lse.data()), IsOk());
  const std::vector<float> whole = out_;
  for (const bool at_once : {false, true}) {
    std::vector<float> part_lse(6);
    const TensorView q = Q(0, 1);
    const MutableTensorView out = Out(0, 1);
    std::vector<std::thread> threads;
    for (uint32_t part = 0; part < 3; ++part) {
      threads.emplace_back([&, part] {
        EXPECT_THAT(session.AttendPart(0, q, out, part_lse.data(), part, 3), IsOk());
      });
      if (!at_once) threads.back().join();
    }
    for (std::thread& thread : threads) {
      if (thread.joinable()) thread.join();
    }
    for (size_t i = 0; i < whole.size(); ++i) EXPECT_NEAR(out_[i], whole[i], 1e-5);
    for (size_t i = 0; i < lse.size(); ++i) EXPECT_NEAR(part_lse[i], lse[i], 1e-5);
  }
  EXPECT_EQ(session.AttendPart(0, Q(0, 1), Out(0, 1), nullptr, 3, 3).code(),
            StatusCode::kInvalidArgument);
}

TEST_F(SessionTest, AlayaNamesAreTheSamePrimitives) {
  Session alaya = NewSession();
  Session plain = NewSession();
  const TensorView k = K(0, 9);
  const TensorView v = V(0, 9);
  EXPECT_THAT(alaya.Update(Q(0, 8), k, v, 0),
              FailsWith(StatusCode::kInvalidArgument, HasSubstr("q has 8 rows, expected 9")));
  const TensorView q = Q(0, 9);  // After the other use of q_.
  ASSERT_THAT(alaya.Update(q, k, v, 0), IsOk());
  ASSERT_THAT(alaya.Attention(q, 0, Out(0, 9)), IsOk());
  const std::vector<float> first = out_;
  ASSERT_THAT(plain.Append(0, k, v), IsOk());
  ASSERT_THAT(plain.Attend(0, q, Out(0, 9)), IsOk());
  EXPECT_EQ(first, out_);
}

TEST_F(SessionTest, PlansAreCheckedAndExplained) {
  Session session = NewSession();
  EXPECT_THAT(session.SetPlan("topk(k=x)"),
              FailsWith(StatusCode::kInvalidArgument, HasSubstr("column 8")));
  EXPECT_THAT(session.SetPlan("full; layers 2: window"),
              FailsWith(StatusCode::kInvalidArgument, HasSubstr("layer 2 does not exist")));
  ASSERT_THAT(session.SetPlan("topk(k=32,sink=4,window=16); layers 0: full"), IsOk());
  ASSERT_THAT(model_.Step(&session, tokens(200)), IsOk());
  ATTNDB_ASSERT_OK_AND_ASSIGN(LayerExplain explain, session.Explain(1));
  EXPECT_EQ(explain.num_queries, 200u);
  EXPECT_EQ(explain.selected_mean, 0.0);  // 200 rows are more than dense_query_tokens: full.
  std::vector<float> out;
  ASSERT_THAT(model_.Probe(&session, 3, &out), IsOk());
  ATTNDB_ASSERT_OK_AND_ASSIGN(explain, session.Explain(1));
  EXPECT_EQ(explain.num_middle, 180u);
  EXPECT_EQ(explain.selected_mean, 32.0);
  EXPECT_EQ(explain.bytes_touched, explain.predicted_bytes);
  ATTNDB_ASSERT_OK_AND_ASSIGN(explain, session.Explain(0));
  EXPECT_EQ(explain.plan, "full");
  EXPECT_EQ(explain.bytes_touched, 2u * 200 * (32 + 16) * 2);
  EXPECT_THAT(session.Explain().ToText(), HasSubstr("topk(k=32,sink=4,window=16)"));
  EXPECT_THAT(session.Explain().ToJson(), HasSubstr("\"num_middle\":180"));
  EXPECT_EQ(session.Explain(2).status().code(), StatusCode::kInvalidArgument);
}

TEST_F(SessionTest, MemoryStaysNearTheKv) {
  Session session = NewSession();
  for (int i = 0; i < 20; ++i) ASSERT_THAT(model_.Step(&session, tokens(37)), IsOk());
  // head_dim 24 is stored as 32, which is the model's and not the tail's waste.
  const uint64_t padded_bytes = 740 * 2 * (2 * (32 + 16) + 3 * (32 + 32));
  EXPECT_LE(session.memory_bytes(), padded_bytes * 6 / 5);
}

}  // namespace
}  // namespace attndb
