// Goal:   Session::ReadKv returns the rows that Append got, rounded to the stored type. They may
//         lie in segments of a chain or in the tail. They come in the engine's RoPE layout, with
//         any strides.
// Method: the toy model's own rows, rounded one by one, are the expected values.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <fstream>
#include <limits>
#include <string>
#include <tuple>
#include <vector>

#include "api/db_test_util.h"
#include "kernels/convert.h"

namespace attndb {
namespace {

using test::Concat;
using test::FailsWith;
using test::Tokens;
using test::ToyModel;
using ::testing::HasSubstr;

constexpr MutableTensorView kNone;

float Rounded(float value, DType dtype) {
  if (dtype == DType::kFloat32) return value;
  return kernels::ToFloat32(kernels::FromFloat32(value, dtype), dtype);
}

// Rows [range) of `rows`, [tokens, heads, dim], as `dtype` holds them.
std::vector<float> Expected(const std::vector<float>& rows, size_t row_elements, TokenRange range,
                            DType dtype) {
  std::vector<float> expected(rows.begin() + static_cast<ptrdiff_t>(range.begin * row_elements),
                              rows.begin() + static_cast<ptrdiff_t>(range.end * row_elements));
  for (float& value : expected) value = Rounded(value, dtype);
  return expected;
}

class ReadKvTest : public test::DBFixture {
 protected:
  // Both arrays of a range, C-contiguous float32.
  struct Rows {
    std::vector<float> k, v;
    friend bool operator==(const Rows&, const Rows&) = default;
  };

  Rows Read(const Session& session, LayerId layer, TokenRange range) {
    const LayerSpec& shape = model_.spec().layers[layer];
    const auto n = static_cast<int64_t>(range.end - range.begin);
    Rows rows;
    rows.k.resize(static_cast<size_t>(n) * shape.num_kv_heads * shape.head_dim);
    rows.v.resize(static_cast<size_t>(n) * shape.num_kv_heads * shape.v_head_dim);
    ATTNDB_EXPECT_OK(session.ReadKv(layer, range, View(&rows.k, n, shape, shape.head_dim),
                                    View(&rows.v, n, shape, shape.v_head_dim)));
    return rows;
  }
  static MutableTensorView View(std::vector<float>* data, int64_t n, const LayerSpec& shape,
                                uint32_t dim) {
    return MutableTensorView::Contiguous(data->data(), DType::kFloat32, n, shape.num_kv_heads, dim);
  }

  Rows ExpectedRows(const Tokens& tokens, LayerId layer, TokenRange range) const {
    const LayerSpec& shape = model_.spec().layers[layer];
    const DType dtype = model_.spec().kv_dtype;
    return {Expected(model_.Keys(layer, tokens, 0), size_t{shape.num_kv_heads} * shape.head_dim,
                     range, dtype),
            Expected(model_.Values(layer, tokens, 0), size_t{shape.num_kv_heads} * shape.v_head_dim,
                     range, dtype)};
  }

  void ExpectRange(const Session& session, const Tokens& tokens, TokenRange range) {
    for (LayerId layer = 0; layer < model_.spec().num_layers(); ++layer) {
      EXPECT_EQ(Read(session, layer, range), ExpectedRows(tokens, layer, range))
          << "layer " << layer << " [" << range.begin << ", " << range.end << ")";
    }
  }

  // A session on three segments and a tail of several blocks; *tokens are all its tokens.
  Session OnChain(Tokens* tokens) {
    const Tokens stored = StoreChain("chain", std::vector<uint64_t>{700, 300, 20}, 1);
    EXPECT_EQ(db_->Describe("chain")->segments.size(), 3u);
    SessionStart start = Start(Concat(stored, Tokens{1}));
    EXPECT_EQ(start.session.num_reused(), stored.size());
    const Tokens tail = ToyModel::Tokens(530, 9);
    ATTNDB_EXPECT_OK(AppendTokens(&start.session, tail, nullptr));
    *tokens = Concat(stored, tail);
    return std::move(start.session);
  }
};

class ReadKvTypeTest : public ReadKvTest,
                       public ::testing::WithParamInterface<std::tuple<DType, RopeLayout>> {
 protected:
  void SetUp() override {
    ModelSpec spec = model_.spec();
    spec.kv_dtype = std::get<0>(GetParam());
    for (LayerSpec& layer : spec.layers) layer.rope.layout = std::get<1>(GetParam());
    if (std::get<1>(GetParam()) != RopeLayout::kNone) spec.layers[1].rope.rope_dims = 10;
    model_ = ToyModel(spec);
  }
};

TEST_P(ReadKvTypeTest, GivesBackWhatWasAppendedRounded) {
  Tokens tokens;
  const Session session = OnChain(&tokens);
  ExpectRange(session, tokens, {0, tokens.size()});
  ExpectRange(session, tokens, {699, 1021});  // The end of one segment to the tail's first token.
}

TEST_P(ReadKvTypeTest, TheStoredTypeComesOutBitForBit) {
  Tokens tokens;
  const Session session = OnChain(&tokens);
  const LayerSpec& shape = model_.spec().layers[0];
  const DType dtype = model_.spec().kv_dtype;
  const TokenRange range = {990, 1300};
  const auto n = static_cast<int64_t>(range.end - range.begin);
  const Rows expected = ExpectedRows(tokens, 0, range);
  std::vector<std::byte> k(expected.k.size() * DTypeBytes(dtype));
  ATTNDB_ASSERT_OK(session.ReadKv(
      0, range,
      MutableTensorView::Contiguous(k.data(), dtype, n, shape.num_kv_heads, shape.head_dim),
      kNone));
  for (size_t i = 0; i < expected.k.size(); ++i) {
    if (dtype == DType::kFloat32) {
      ASSERT_EQ(std::memcmp(&k[4 * i], &expected.k[i], 4), 0) << i;
    } else {
      uint16_t bits = 0;
      std::memcpy(&bits, &k[2 * i], 2);
      ASSERT_EQ(bits, kernels::FromFloat32(expected.k[i], dtype)) << i;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Types, ReadKvTypeTest,
                         ::testing::Combine(::testing::Values(DType::kFloat32, DType::kFloat16,
                                                              DType::kBFloat16),
                                            ::testing::Values(RopeLayout::kNone, RopeLayout::kHalf,
                                                              RopeLayout::kInterleaved)),
                         [](const auto& param) {
                           return std::string(DTypeName(std::get<0>(param.param))) + "_rope" +
                                  std::to_string(static_cast<int>(std::get<1>(param.param)));
                         });

TEST_F(ReadKvTest, EveryRangeOfAChainIsReadAlike) {
  Tokens tokens;
  const Session session = OnChain(&tokens);
  for (const uint64_t begin : {uint64_t{0}, uint64_t{1}, uint64_t{700}, uint64_t{999},
                               uint64_t{1000}, uint64_t{1019}, uint64_t{1020}, uint64_t{1276}}) {
    for (const uint64_t n : {uint64_t{1}, uint64_t{2}, uint64_t{21}, uint64_t{274}}) {
      ExpectRange(session, tokens, {begin, begin + n});
    }
  }
}

// Layouts from Python and engines: heads first, every second element, a row of padding, reversed.
TEST_F(ReadKvTest, AnyStridesAreWritten) {
  Tokens tokens;
  const Session session = OnChain(&tokens);
  const LayerSpec& shape = model_.spec().layers[0];
  const TokenRange range = {650, 1400};
  const auto n = static_cast<int64_t>(range.end - range.begin);
  const int64_t heads = shape.num_kv_heads;
  const int64_t dim = shape.head_dim;
  const Rows expected = ExpectedRows(tokens, 0, range);
  const std::vector<std::array<int64_t, 3>> all_strides = {
      {dim, n * dim, 1},  // [H, T, D]
      {2 * heads * dim, 2 * dim, 2},
      {1, n, n * heads},  // The token runs fastest.
      {heads * dim + 3, dim, 1},
      {-heads * dim, dim, 1}};
  for (const auto& strides : all_strides) {
    constexpr float kUntouched = -77.0f;
    std::vector<float> data(static_cast<size_t>(2 * (n + 1) * heads * dim), kUntouched);
    MutableTensorView k{data.data(), DType::kFloat32, {n, heads, dim}, strides};
    float* const origin = strides[0] < 0 ? data.data() + (n - 1) * -strides[0] : data.data();
    k.data = origin;
    ATTNDB_ASSERT_OK(session.ReadKv(0, range, k, kNone));
    size_t i = 0;
    for (int64_t t = 0; t < n; ++t) {
      for (int64_t h = 0; h < heads; ++h) {
        for (int64_t d = 0; d < dim; ++d, ++i) {
          float* const at = origin + t * strides[0] + h * strides[1] + d * strides[2];
          ASSERT_EQ(*at, expected.k[i]) << t << " " << h << " " << d;
          *at = kUntouched;
        }
      }
    }
    for (const float value : data) ASSERT_EQ(value, kUntouched);  // Nothing else was written.
  }
}

TEST_F(ReadKvTest, CropAndForkReadTheirOwnTokens) {
  Tokens tokens;
  Session session = OnChain(&tokens);
  ATTNDB_ASSERT_OK_AND_ASSIGN(Session fork, session.Fork());
  ATTNDB_ASSERT_OK(fork.Crop(850));
  const Tokens other = ToyModel::Tokens(40, 77);
  ATTNDB_ASSERT_OK(AppendTokens(&fork, other, nullptr));
  const Tokens fork_tokens = Concat(std::span(tokens).first(850), other);
  ExpectRange(fork, fork_tokens, {0, 890});
  ExpectRange(fork, fork_tokens, {849, 851});
  ExpectRange(session, tokens, {0, tokens.size()});
  ATTNDB_ASSERT_OK(session.Crop(1021));
  ExpectRange(session, tokens, {690, 1021});
}

TEST_F(ReadKvTest, InsideAStepALayerGivesTheRowsThatItHas) {
  Session session = NewSession();
  const Tokens tokens = ToyModel::Tokens(12, 4);
  ATTNDB_ASSERT_OK(AppendTokens(&session, std::span(tokens).first(10), nullptr));
  ATTNDB_ASSERT_OK(AppendLayer(&session, 0, std::span(tokens).subspan(10), 10));
  EXPECT_EQ(Read(session, 0, {5, 12}), ExpectedRows(tokens, 0, {5, 12}));
  std::vector<float> k(7 * 3 * 24);
  const LayerSpec& shape = model_.spec().layers[1];
  EXPECT_THAT(session.ReadKv(1, {5, 12}, View(&k, 7, shape, 24), kNone),
              FailsWith(StatusCode::kInvalidArgument,
                        HasSubstr("layer 1: tokens [5, 12) are asked for, but the layer holds "
                                  "[0, 10)")));
  ATTNDB_ASSERT_OK(AppendLayer(&session, 1, std::span(tokens).subspan(10), 10));
  EXPECT_EQ(Read(session, 1, {5, 12}), ExpectedRows(tokens, 1, {5, 12}));
}

TEST_F(ReadKvTest, NullArraysAreLeftOut) {
  Session session = NewSession();
  const Tokens tokens = ToyModel::Tokens(9, 4);
  ATTNDB_ASSERT_OK(AppendTokens(&session, tokens, nullptr));
  const LayerSpec& shape = model_.spec().layers[0];
  std::vector<float> v(size_t{9} * 2 * 16);
  ATTNDB_ASSERT_OK(session.ReadKv(0, {0, 9}, kNone, View(&v, 9, shape, 16)));
  EXPECT_EQ(v, ExpectedRows(tokens, 0, {0, 9}).v);
  ATTNDB_EXPECT_OK(session.ReadKv(0, {0, 9}, kNone, kNone));
}

TEST_F(ReadKvTest, NanAndInfComeBack) {
  constexpr float kInf = std::numeric_limits<float>::infinity();
  Session session = NewSession();
  ATTNDB_ASSERT_OK(AppendTokens(&session, ToyModel::Tokens(3, 1),
                                [](LayerId, std::vector<float>* k, std::vector<float>* v) {
                                  (*k)[5] = kInf;
                                  (*v)[6] = std::numeric_limits<float>::quiet_NaN();
                                }));
  const Rows rows = Read(session, 0, {0, 3});
  EXPECT_EQ(rows.k[5], kInf);
  EXPECT_TRUE(std::isnan(rows.v[6]));
}

TEST_F(ReadKvTest, BadArgumentsAreRefusedByName) {
  Session session = NewSession();
  ATTNDB_ASSERT_OK(AppendTokens(&session, ToyModel::Tokens(8, 1), nullptr));
  std::vector<float> data(8 * 2 * 32);
  const MutableTensorView good = View(&data, 8, model_.spec().layers[0], 32);
  const auto expect = [&](LayerId layer, TokenRange range, const MutableTensorView& k,
                          const char* message) {
    EXPECT_THAT(session.ReadKv(layer, range, k, kNone),
                FailsWith(StatusCode::kInvalidArgument, HasSubstr(message)));
  };
  expect(2, {0, 8}, good, "layer 2 does not exist; the model has 2 layers");
  expect(0, {0, 9}, good, "tokens [0, 9) are asked for, but the layer holds [0, 8)");
  expect(0, {3, 3}, good, "tokens [3, 3) are asked for, but the layer holds [0, 8); none");
  expect(0, {5, 4}, good, "tokens [5, 4) are asked for");
  expect(0, {0, std::numeric_limits<uint64_t>::max()}, good, "but the layer holds [0, 8)");
  expect(0, {1, 8}, good, "k has 8 rows, expected 7 rows, as the range");
  MutableTensorView bad = good;
  bad.shape[2] = 16;
  expect(0, {0, 8}, bad, "k has shape [8, 2, 16], expected [1 or more, 2, 32]");
  bad = good;
  bad.dtype = DType::kBFloat16;
  expect(0, {0, 8}, bad, "k has dtype bfloat16, expected float32 or that of the range, float16");
  bad = good;
  bad.strides[0] = 0;
  expect(0, {0, 8}, bad, "elements overlap");
  bad = good;
  bad.strides[0] = std::numeric_limits<int64_t>::max();
  expect(0, {0, 8}, bad, "reach beyond 64 bits");
  std::vector<float> v(8 * 2 * 32);
  EXPECT_THAT(session.ReadKv(0, {0, 8}, good, View(&v, 8, model_.spec().layers[0], 32)),
              FailsWith(StatusCode::kInvalidArgument, HasSubstr("v has shape")));
}

TEST_F(ReadKvTest, DamageIsCorruptionAndQuarantines) {
  const Tokens stored = StoreChain("book", std::vector<uint64_t>{400}, 1);
  Open();
  SessionStart start = Start(Concat(stored, Tokens{1}));
  for (const auto& [path, bytes] : FilesIn(store() + "/segments")) {
    std::string damaged = bytes;
    for (size_t at = 8192; at < damaged.size(); at += 512) damaged[at] ^= 1;
    if (damaged != bytes) std::ofstream(path, std::ios::binary) << damaged;
  }
  std::vector<float> k(400 * 2 * 32);
  EXPECT_THAT(start.session.ReadKv(0, {0, 400}, View(&k, 400, model_.spec().layers[0], 32), kNone),
              FailsWith(StatusCode::kCorruption, HasSubstr("expected")));
  EXPECT_TRUE(db_->Describe("book")->damaged);
}

}  // namespace
}  // namespace attndb
