// Goal:   what a prefill hands out is what its attention is made of: q here, K and V from the
//         session; and a model with stretched RoPE is the model that plain llama.cpp runs so.
// Method: tiny random float32 models, both variants of the hook; attention of captured rows in
//         float64 against the session's own; logits against plain llama.cpp.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "attndb/db.h"
#include "engines/llama/engine_test_util.h"
#include "engines/llama/gguf_file.h"
#include "engines/llama/gguf_test_util.h"
#include "engines/llama/llama_engine.h"
#include "testing/matchers.h"
#include "testing/seed.h"
#include "testing/temp_dir.h"
#include "testing/toy_oracle.h"

namespace attndb::llama {
namespace {

using ::attndb::test::FailsWith;
using ::testing::HasSubstr;

// q, k and v of all tokens, by layer: [tokens, heads, dim].
struct Captured {
  std::vector<std::vector<float>> q, k, v;
};

void AppendRows(const TensorView& q, std::vector<float>* rows) {
  const auto* const data = static_cast<const float*>(q.data);
  for (int64_t r = 0; r < q.rows(); ++r) {
    for (int64_t h = 0; h < q.heads(); ++h) {
      for (int64_t d = 0; d < q.dim(); ++d) {
        rows->push_back(data[r * q.strides[0] + h * q.strides[1] + d * q.strides[2]]);
      }
    }
  }
}

class CaptureFixture {
 protected:
  CaptureFixture() : seed_(::attndb::test::SeedOr(31)) {}

  Result<LlamaEngine> OpenEngine(const std::string& kind, EngineOptions options) {
    options.cache_dir = directory_.File("cache");
    return LlamaEngine::Open(TinyModel(kind), options);
  }
  Result<DB> OpenStore(const DBOptions& options = {}) {
    return DB::Open(directory_.File("store"), options);
  }
  static Result<Session> NewSession(const DB& db, const LlamaEngine& engine,
                                    std::span<const TokenId> tokens, const std::string& plan = "") {
    ATTNDB_ASSIGN_OR_RETURN(SessionStart start, db.CreateSession(engine.spec(), tokens,
                                                                 {.reuse = false, .plan = plan}));
    return std::move(start.session);
  }

  // Prefills `session` and takes everything.
  static Result<Captured> Capture(LlamaEngine& engine, Session& session,
                                  std::span<const TokenId> tokens) {
    const ModelSpec& spec = engine.spec();
    Captured captured;
    captured.q.resize(spec.num_layers());
    LayerId next_layer = 0;
    PrefillOptions options;
    options.on_queries = [&](LayerId layer, uint64_t first_token, const TensorView& q) {
      EXPECT_EQ(layer, next_layer);
      next_layer = (layer + 1) % spec.num_layers();
      EXPECT_EQ(q.dtype, DType::kFloat32);
      EXPECT_EQ(first_token * static_cast<uint64_t>(q.heads() * q.dim()), captured.q[layer].size());
      AppendRows(q, &captured.q[layer]);
      return Status::Ok();
    };
    ATTNDB_RETURN_IF_ERROR(engine.Prefill(session, tokens, options));
    const auto n = static_cast<int64_t>(tokens.size());
    for (LayerId layer = 0; layer < spec.num_layers(); ++layer) {
      const LayerSpec& shape = spec.layers[layer];
      std::vector<float> k(tokens.size() * shape.num_kv_heads * shape.head_dim);
      std::vector<float> v(tokens.size() * shape.num_kv_heads * shape.v_head_dim);
      ATTNDB_RETURN_IF_ERROR(
          session.ReadKv(layer, {0, tokens.size()},
                         MutableTensorView::Contiguous(k.data(), DType::kFloat32, n,
                                                       shape.num_kv_heads, shape.head_dim),
                         MutableTensorView::Contiguous(v.data(), DType::kFloat32, n,
                                                       shape.num_kv_heads, shape.v_head_dim)));
      captured.k.push_back(std::move(k));
      captured.v.push_back(std::move(v));
    }
    return captured;
  }

  ::attndb::test::TempDir directory_;
  const uint64_t seed_;
};

class EngineCaptureTest : public CaptureFixture, public ::testing::TestWithParam<std::string> {};

// The session's Attend of the last rows is what the engine itself was given for them.
TEST_P(EngineCaptureTest, AttentionOfWhatIsCapturedIsTheEngines) {
  for (const HookVariant variant : {HookVariant::kRewrite, HookVariant::kObserve}) {
    ATTNDB_ASSERT_OK_AND_ASSIGN(LlamaEngine engine, OpenEngine(GetParam(), TinyOptions(variant)));
    const std::vector<TokenId> ids = RandomIds(150, seed_, engine.info().vocab_size);
    ATTNDB_ASSERT_OK_AND_ASSIGN(const DB db, OpenStore());
    ATTNDB_ASSERT_OK_AND_ASSIGN(Session session, NewSession(db, engine, ids));
    ATTNDB_ASSERT_OK_AND_ASSIGN(const Captured captured, Capture(engine, session, ids));
    for (LayerId layer = 0; layer < engine.spec().num_layers(); ++layer) {
      const LayerSpec& shape = engine.spec().layers[layer];
      const size_t q_row = size_t{shape.num_q_heads} * shape.head_dim;
      ASSERT_EQ(captured.q[layer].size(), ids.size() * q_row);
      constexpr size_t kRows = 3;
      const float* const last = captured.q[layer].data() + (ids.size() - kRows) * q_row;
      std::vector<float> out(kRows * shape.num_q_heads * shape.v_head_dim);
      ATTNDB_ASSERT_OK(session.Attend(
          layer,
          TensorView::Contiguous(last, DType::kFloat32, kRows, shape.num_q_heads, shape.head_dim),
          MutableTensorView::Contiguous(out.data(), DType::kFloat32, kRows, shape.num_q_heads,
                                        shape.v_head_dim)));
      for (size_t row = 0; row < kRows; ++row) {
        const std::vector<double> expected = ::attndb::test::OracleAttend(
            shape, captured.k[layer], captured.v[layer], std::span(last + row * q_row, q_row),
            ids.size() - kRows + row + 1);
        for (size_t i = 0; i < expected.size(); ++i) {
          ASSERT_NEAR(out[row * expected.size() + i], expected[i], 1e-4)
              << "layer " << layer << " row " << row << " element " << i;
        }
      }
    }
  }
}

TEST_P(EngineCaptureTest, BothVariantsCaptureTheSame) {
  std::vector<Captured> captured;
  for (const HookVariant variant : {HookVariant::kRewrite, HookVariant::kObserve}) {
    ATTNDB_ASSERT_OK_AND_ASSIGN(LlamaEngine engine, OpenEngine(GetParam(), TinyOptions(variant)));
    const std::vector<TokenId> ids = RandomIds(130, seed_, engine.info().vocab_size);
    ATTNDB_ASSERT_OK_AND_ASSIGN(const DB db, OpenStore());
    ATTNDB_ASSERT_OK_AND_ASSIGN(Session session, NewSession(db, engine, ids));
    ATTNDB_ASSERT_OK_AND_ASSIGN(Captured rows, Capture(engine, session, ids));
    captured.push_back(std::move(rows));
  }
  // Gemma's GELU is a table of float16: see engine_agreement_test.cc.
  const double tolerance = GetParam().starts_with("gemma") ? 4e-3 : 1e-4;
  for (const auto rows : {&Captured::q, &Captured::k, &Captured::v}) {
    EXPECT_LT(LargestDifference(captured[0].*rows, captured[1].*rows), tolerance);
  }
}

INSTANTIATE_TEST_SUITE_P(Models, EngineCaptureTest,
                         ::testing::Values("llama", "llama_yarn", "qwen2", "qwen3", "gemma2",
                                           "gemma3", "gpt_oss"),
                         [](const auto& param) { return param.param; });

class EngineCaptureErrorTest : public CaptureFixture,
                               public ::testing::TestWithParam<HookVariant> {};

TEST_P(EngineCaptureErrorTest, ARefusalEndsThePrefillWhereItsUbatchBegan) {
  ATTNDB_ASSERT_OK_AND_ASSIGN(LlamaEngine engine, OpenEngine("llama", TinyOptions(GetParam())));
  const std::vector<TokenId> ids = RandomIds(150, seed_, engine.info().vocab_size);
  ATTNDB_ASSERT_OK_AND_ASSIGN(const DB db, OpenStore());
  ATTNDB_ASSERT_OK_AND_ASSIGN(Session session, NewSession(db, engine, ids));
  PrefillOptions options;
  options.on_queries = [](LayerId layer, uint64_t first_token, const TensorView&) {
    if (layer == 1 && first_token == 64) return Status::ResourceExhausted("no room for q");
    return Status::Ok();
  };
  EXPECT_THAT(engine.Prefill(session, ids, options),
              FailsWith(StatusCode::kResourceExhausted, HasSubstr("no room for q")));
  EXPECT_EQ(session.num_tokens(), 64u);
  ATTNDB_ASSERT_OK(engine.Prefill(session, std::span(ids).subspan(64)));
  ATTNDB_ASSERT_OK_AND_ASSIGN(const LogitRows plain, PlainRows(engine, ids));
  EXPECT_LT(RowDifference(*engine.Logits(), plain.back()), 1e-4);
}

INSTANTIATE_TEST_SUITE_P(Variants, EngineCaptureErrorTest,
                         ::testing::Values(HookVariant::kRewrite, HookVariant::kObserve),
                         [](const auto& param) {
                           return param.param == HookVariant::kRewrite ? "rewrite" : "observe";
                         });

class RopeScalingTest : public CaptureFixture,
                        public ::testing::TestWithParam<std::tuple<std::string, RopeScalingKind>> {
 protected:
  EngineOptions Options(float factor) const {
    EngineOptions options = TinyOptions(HookVariant::kRewrite);
    options.rope_scaling = {std::get<1>(GetParam()), factor};
    return options;
  }
};

TEST_P(RopeScalingTest, AStretchedModelIsPlainLlamaCppsAndAnotherIdentity) {
  const std::string& kind = std::get<0>(GetParam());
  ATTNDB_ASSERT_OK_AND_ASSIGN(LlamaEngine bare,
                              OpenEngine(kind, TinyOptions(HookVariant::kRewrite)));
  ATTNDB_ASSERT_OK_AND_ASSIGN(LlamaEngine engine, OpenEngine(kind, Options(4.0f)));
  const std::vector<TokenId> ids = RandomIds(200, seed_, engine.info().vocab_size);
  ATTNDB_ASSERT_OK_AND_ASSIGN(const LogitRows plain, PlainRows(engine, ids));
  ATTNDB_ASSERT_OK_AND_ASSIGN(const LogitRows unscaled, PlainRows(bare, ids));
  EXPECT_GT(LargestDifference(plain, unscaled), 1e-2) << "the scaling does nothing";

  ATTNDB_ASSERT_OK_AND_ASSIGN(const DB db, OpenStore());
  ATTNDB_ASSERT_OK_AND_ASSIGN(SessionStart start, db.CreateSession(engine.spec(), ids));
  ATTNDB_ASSERT_OK_AND_ASSIGN(const LogitRows ours, EngineRows(engine, start.session, ids));
  EXPECT_LT(LargestDifference(ours, plain), kind.starts_with("gemma") ? 4e-3 : 1e-4);

  EXPECT_EQ(bare.spec().fingerprint, engine.spec().fingerprint);
  EXPECT_NE(bare.spec().layers, engine.spec().layers);
  ATTNDB_ASSERT_OK(db.Store(start.session, ids));
  EXPECT_EQ(db.CreateSession(bare.spec(), ids)->session.num_reused(), 0u);
  EXPECT_EQ(db.CreateSession(engine.spec(), ids)->session.num_reused(), ids.size() - 1);
  ATTNDB_ASSERT_OK_AND_ASSIGN(LlamaEngine other, OpenEngine(kind, Options(2.0f)));
  EXPECT_EQ(db.CreateSession(other.spec(), ids)->session.num_reused(), 0u);
}

INSTANTIATE_TEST_SUITE_P(Kinds, RopeScalingTest,
                         ::testing::Combine(::testing::Values("llama", "qwen2", "gemma3"),
                                            ::testing::Values(RopeScalingKind::kLinear,
                                                              RopeScalingKind::kYarn)),
                         [](const auto& param) {
                           const bool linear = std::get<1>(param.param) == RopeScalingKind::kLinear;
                           return std::get<0>(param.param) + (linear ? "_linear" : "_yarn");
                         });

class EnginePrefillTest : public CaptureFixture, public ::testing::Test {};

TEST_F(EnginePrefillTest, TheScalingAndItsParametersStandInTheSpec) {
  EngineOptions options = TinyOptions(HookVariant::kRewrite);
  options.rope_scaling = {RopeScalingKind::kLinear, 4.0f};
  ATTNDB_ASSERT_OK_AND_ASSIGN(const LlamaEngine linear, OpenEngine("llama", options));
  EXPECT_EQ(linear.spec().layers[0].rope.scaling, "linear:freq_scale=0.25,attn=1");
  options.rope_scaling.kind = RopeScalingKind::kYarn;
  ATTNDB_ASSERT_OK_AND_ASSIGN(const LlamaEngine yarn, OpenEngine("llama", options));
  EXPECT_THAT(yarn.spec().layers[0].rope.scaling,
              ::testing::AllOf(HasSubstr("yarn:freq_scale=0.25,ext=1"), HasSubstr("orig=4096")));
  for (const float factor : {0.5f, 0.0f, 2000.0f, NAN}) {
    options.rope_scaling.factor = factor;
    EXPECT_THAT(OpenEngine("llama", options),
                FailsWith(StatusCode::kInvalidArgument, HasSubstr("expected 1 to 1024")));
  }
}

TEST_F(EnginePrefillTest, TheLengthThatTheModelIsMeantForGrowsWithTheScaling) {
  EngineOptions options = TinyOptions(HookVariant::kRewrite);
  ATTNDB_ASSERT_OK_AND_ASSIGN(const LlamaEngine bare, OpenEngine("llama", options));
  EXPECT_EQ(bare.info().trained_context, 4096u);
  EXPECT_EQ(bare.info().max_context, 4096u);
  options.rope_scaling = {RopeScalingKind::kYarn, 2.5f};
  ATTNDB_ASSERT_OK_AND_ASSIGN(const LlamaEngine yarn, OpenEngine("llama", options));
  EXPECT_EQ(yarn.info().trained_context, 4096u);
  EXPECT_EQ(yarn.info().max_context, 10240u);

  // A file that stretches itself: another scaling takes the place of its own.
  ATTNDB_ASSERT_OK_AND_ASSIGN(const GgufFile file, GgufFile::Open(TinyModel("llama")));
  GgufParts parts = GgufParts::Of(file);
  parts.Set("llama.rope.scaling.type", GgufText("yarn"));
  parts.Set("llama.rope.scaling.factor", GgufFloat32(4.0f));
  parts.Set("llama.rope.scaling.original_context_length", GgufUint32(1024));
  const std::string path = directory_.File("stretched.gguf");
  std::ofstream(path, std::ios::binary) << parts.Bytes();
  options.cache_dir = directory_.File("cache");
  ATTNDB_ASSERT_OK_AND_ASSIGN(const LlamaEngine again, LlamaEngine::Open(path, options));
  EXPECT_EQ(again.info().max_context, 2560u);
  options.rope_scaling = {};
  ATTNDB_ASSERT_OK_AND_ASSIGN(const LlamaEngine own, LlamaEngine::Open(path, options));
  EXPECT_EQ(own.info().max_context, 4096u);
  EXPECT_EQ(own.info().unscaled_context, 1024u);
}

// Plans apply to prefill where dense_query_tokens says so: each row attends as if it came alone.
TEST_F(EnginePrefillTest, APlanMayApplyToPrefillToo) {
  ATTNDB_ASSERT_OK_AND_ASSIGN(LlamaEngine engine,
                              OpenEngine("llama", TinyOptions(HookVariant::kRewrite)));
  const std::vector<TokenId> ids = RandomIds(150, seed_, engine.info().vocab_size);
  DBOptions dense;
  dense.dense_query_tokens = UINT32_MAX;
  ATTNDB_ASSERT_OK_AND_ASSIGN(const DB db, OpenStore(dense));
  const std::string plan = "window(sink=4,window=24)";
  ATTNDB_ASSERT_OK_AND_ASSIGN(Session at_once, NewSession(db, engine, ids, plan));
  ATTNDB_ASSERT_OK(engine.Prefill(at_once, ids));
  const std::span<const float> before = *engine.Logits();
  const std::vector<float> logits(before.begin(), before.end());
  ATTNDB_ASSERT_OK_AND_ASSIGN(Session one_by_one, NewSession(db, engine, ids, plan));
  for (const TokenId id : ids) ATTNDB_ASSERT_OK(engine.Decode(one_by_one, id));
  EXPECT_LT(RowDifference(*engine.Logits(), logits), 1e-4);
  ATTNDB_ASSERT_OK_AND_ASSIGN(Session full, NewSession(db, engine, ids, "full"));
  ATTNDB_ASSERT_OK(engine.Prefill(full, ids));
  EXPECT_GT(RowDifference(*engine.Logits(), logits), 1e-2) << "the plan does nothing";
}

}  // namespace
}  // namespace attndb::llama
