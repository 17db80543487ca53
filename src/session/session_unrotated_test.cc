// Goal:   a model whose keys are stored without RoPE is served like one whose keys are stored as
//         given. This holds for every plan, for segments, a tail and its blocks, and for sessions
//         and contexts that are forked, cropped, truncated, rebased, merged, found after a restart,
//         exported or imported. The store takes it for another model.
// Method: toy model in float32; the same calls on sessions of both models, and float64.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "api/db_test_util.h"
#include "attndb/kv_file.h"

namespace attndb {
namespace {

using test::Concat;
using test::DBFixture;
using test::FailsWith;
using test::Tokens;
using test::ToyModel;
using ::testing::HasSubstr;

class SessionUnrotatedTest : public DBFixture {
 protected:
  SessionUnrotatedTest() : DBFixture(/*background_builds=*/true) {
    ModelSpec spec = model_.spec();
    spec.kv_dtype = DType::kFloat32;
    rotated_ = ToyModel(spec);
    spec.unrotated_keys = true;
    model_ = ToyModel(spec);
  }

  // The model whose keys are stored as they are given.
  Session RotatedSession(std::span<const TokenId> tokens) {
    SessionStart start = *db_->CreateSession(rotated_.spec(), Tokens{1}, {.reuse = false});
    ATTNDB_EXPECT_OK(rotated_.Step(&start.session, tokens));
    return std::move(start.session);
  }

  ToyModel rotated_;
};

TEST_F(SessionUnrotatedTest, AnswersAreThoseOfFloat64) {
  const Tokens stored = StoreChain("a", std::vector<uint64_t>{900, 400, 100}, 1);
  Session session = Resume(stored);
  Tokens all = Concat(stored, ToyModel::Tokens(20, 9));
  ExpectOracle(&session, all);
  ATTNDB_ASSERT_OK_AND_ASSIGN(Session fork, session.Fork());
  const Tokens more = ToyModel::Tokens(300, 10);
  ATTNDB_ASSERT_OK(model_.Step(&fork, more));
  ExpectOracle(&fork, Concat(all, more));
  ATTNDB_ASSERT_OK(fork.Crop(1390));
  ATTNDB_ASSERT_OK(model_.Step(&fork, more));
  ExpectOracle(&fork, Concat(std::span(all).first(1390), more));
  ATTNDB_ASSERT_OK(db_->Store(session, all, {.name = "b"}));
  ExpectOracle(&session, all);
}

TEST_F(SessionUnrotatedTest, KeysAreReadAsTheyWereGiven) {
  const Tokens stored = StoreChain("a", std::vector<uint64_t>{150, 50}, 1);
  Session session = Resume(stored);
  const Tokens all = Concat(stored, ToyModel::Tokens(20, 9));
  for (LayerId layer = 0; layer < model_.spec().num_layers(); ++layer) {
    const LayerSpec& shape = model_.spec().layers[layer];
    const std::vector<float> expected = model_.Keys(layer, all, 0);
    std::vector<float> k(expected.size());
    ATTNDB_ASSERT_OK(session.ReadKv(
        layer, {0, all.size()},
        MutableTensorView::Contiguous(k.data(), DType::kFloat32, static_cast<int64_t>(all.size()),
                                      shape.num_kv_heads, shape.head_dim),
        {}));
    for (size_t i = 0; i < k.size(); ++i) ASSERT_NEAR(k[i], expected[i], 1e-5) << i;
  }
}

TEST_F(SessionUnrotatedTest, PlansAndTheirIndexesSeeTurnedKeys) {
  const Tokens stored = StoreChain("a", std::vector<uint64_t>{6000, 2500, 700, 100}, 1);
  Session session = Resume(stored);
  const Tokens all = Concat(stored, ToyModel::Tokens(20, 9));
  Session rotated = RotatedSession(all);
  const auto expected = [&](const std::string& plan) {
    std::vector<float> out;
    ATTNDB_EXPECT_OK(rotated.SetPlan(plan));
    ATTNDB_EXPECT_OK(rotated_.Probe(&rotated, 7, &out));
    return out;
  };
  for (const std::string query : {"topk(k=60", "dipr(alpha=0.02", "mass(p=0.9"}) {
    const std::vector<float> exact = expected(query + ")");
    EXPECT_LT(Difference(ProbeWith(&session, query + ")"), exact), 1e-5) << query;
    for (const char* setting :
         {",bits=8", ",index=clustered,effort=100", ",index=graph,beam_width=6000",
          ",index=roargraph,beam_width=6000", ",index=pq,m=16,b=8,effort=60"}) {
      if (query.starts_with("mass") && std::string(setting).starts_with(",index")) continue;
      const std::string plan = query + setting + ")";
      (void)ProbeWith(&session, plan);
      ATTNDB_ASSERT_OK(db_->WaitForBackground());
      EXPECT_LT(Difference(Probe(&session), exact), 0.05) << plan;
    }
  }
  const char* const window = "window(sink=240,window=5000)";
  EXPECT_LT(Difference(ProbeWith(&session, window), expected(window)), 1e-5);
  const std::vector<float> full = expected("full");
  for (int i = 0; i < 3; ++i) (void)ProbeWith(&session, "auto(error=0.02)");
  EXPECT_LT(Difference(Probe(&session), full), 0.06);
}

TEST_F(SessionUnrotatedTest, BlocksOfTheTailAreTurnedToo) {
  Session session = NewSession();
  ATTNDB_ASSERT_OK(model_.Step(&session, ToyModel::Tokens(9000, 1)));
  const std::vector<float> expected = ProbeWith(&session, "topk(k=6000)");
  (void)ProbeWith(&session, "topk(k=6000,index=pq,m=16,b=8,effort=60)");
  ATTNDB_ASSERT_OK(db_->WaitForBackground());
  EXPECT_LT(Difference(Probe(&session), expected), 1e-3);
}

TEST_F(SessionUnrotatedTest, TokensLeaveAndPositionsAreRebased) {
  const Tokens stored = StoreChain("a", std::vector<uint64_t>{900, 100}, 1);
  Session session = Resume(stored);
  Session rotated = RotatedSession(Concat(stored, ToyModel::Tokens(20, 9)));
  for (int cut = 0; cut < 3; ++cut) {
    std::vector<float> out;
    std::vector<float> expected;
    for (Session* const of : {&session, &rotated}) {
      ATTNDB_ASSERT_OK(of->DropOldest(300, {.keep_first = 4}));
      ATTNDB_ASSERT_OK(of->Rebase(720));
    }
    const Tokens more = ToyModel::Tokens(300, 10);
    ATTNDB_ASSERT_OK(model_.Step(&session, more, &out));
    ATTNDB_ASSERT_OK(rotated_.Step(&rotated, more, &expected));
    EXPECT_LT(Difference(out, expected), 1e-4) << cut;
  }
}

TEST_F(SessionUnrotatedTest, IsMergedAndFoundAfterARestart) {
  Tokens held;
  {
    Session session = NewSession();
    for (uint64_t turn = 0; turn < 20; ++turn) {
      const Tokens said = ToyModel::Tokens(30, 100 + turn);
      held = Concat(held, said);
      ATTNDB_ASSERT_OK(model_.Step(&session, said));
      ATTNDB_ASSERT_OK(
          db_->Store(session, held, {.name = "chat", .replace = true, .drop_base = true}));
    }
    ATTNDB_ASSERT_OK(db_->Compact());
  }
  EXPECT_LT(db_->Describe("chat")->segments.size(), 10u);
  Open();
  EXPECT_TRUE(db_->Verify()->ok());
  EXPECT_TRUE(db_->Describe("chat")->unrotated_keys);
  ExpectAnswers(Concat(held, Tokens{3, 4, 5}), held.size());
}

TEST_F(SessionUnrotatedTest, IsAnotherModelToTheStore) {
  const Tokens stored = StoreChain("a", std::vector<uint64_t>{200}, 1);
  EXPECT_EQ(Start(Concat(stored, Tokens{1})).session.num_reused(), 200u);
  const Tokens prompt = Concat(stored, Tokens{1});
  EXPECT_EQ(db_->CreateSession(rotated_.spec(), prompt)->session.num_reused(), 0u);
  EXPECT_THAT(db_->CreateSession(rotated_.spec(), prompt, {.context = "a"}),
              FailsWith(StatusCode::kOtherModel, HasSubstr("keys without RoPE")));
}

TEST_F(SessionUnrotatedTest, GoesThroughAFile) {
  const Tokens stored = StoreChain("a", std::vector<uint64_t>{200, 50}, 1);
  const std::string path = dir_.File("a.safetensors");
  ATTNDB_ASSERT_OK(ExportKvFile(*db_, "a", path));
  ATTNDB_ASSERT_OK_AND_ASSIGN(const KvFileReader reader, KvFileReader::Open(path));
  EXPECT_TRUE(reader.contents().spec.unrotated_keys);
  ATTNDB_ASSERT_OK(db_->Drop("a"));
  ATTNDB_ASSERT_OK(reader.Import(*db_, {.store = {.name = "copy"}}));
  EXPECT_TRUE(db_->Describe("copy")->unrotated_keys);
  ExpectAnswers(Concat(stored, Tokens{3, 4, 5}), stored.size());
}

TEST_F(SessionUnrotatedTest, KeysThatCanNotBeTurnedBackAreRefused) {
  ModelSpec spec = model_.spec();
  spec.layers[1].rope.scaling = "dynamic:factor=4";
  EXPECT_THAT(db_->CreateSession(spec, Tokens{1}),
              FailsWith(StatusCode::kInvalidArgument,
                        HasSubstr("layer 1: unrotated_keys: RoPE scaling 'dynamic:factor=4'")));
  for (LayerSpec& layer : spec.layers) layer.rope = {};
  EXPECT_THAT(db_->CreateSession(spec, Tokens{1}),
              FailsWith(StatusCode::kInvalidArgument, HasSubstr("no layer has rotary positions")));
}

}  // namespace
}  // namespace attndb
