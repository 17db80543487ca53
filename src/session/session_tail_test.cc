// Goal:   a prompt that was not stored is searched like a stored one. Blocks of its tail get the
//         derived objects that a plan reads, also during prefill. After crops, forks and Stores,
//         without memory and with NaN, answers are those of the plan over all keys.
// Method: toy model; plan against plan, as session_index_test.cc.
#include <algorithm>
#include <limits>

#include "api/stopped_db_test_util.h"

namespace attndb {
namespace {

using test::DBFixture;
using test::Tokens;
using test::ToyModel;

constexpr uint64_t kBlock = 4096;

// How a plan finds keys, by something that looks at nearly all of them.
constexpr const char* kSettings[] = {"bits=8",
                                     "index=clustered,effort=100",
                                     "index=graph,beam_width=6000",
                                     "index=graph,graphs=head,beam_width=6000",
                                     "index=pq,m=16,effort=60",
                                     "index=quest,effort=1000",
                                     "index=infllm,block=64,effort=1000",
                                     "index=wave,effort=1000,remainder=drop"};

class SessionTailTest : public DBFixture {
 protected:
  SessionTailTest() : DBFixture(/*background_builds=*/true) {}

  // A session whose tail holds these tokens, read a piece at a time.
  Session Read(const Tokens& tokens, const std::string& plan = "full", size_t piece = 700) {
    Session session = NewSession(plan);
    for (size_t i = 0; i < tokens.size(); i += piece) {
      const std::span<const TokenId> rest = std::span(tokens).subspan(i);
      ATTNDB_EXPECT_OK(AppendTokens(&session, rest.first(std::min(piece, rest.size())), nullptr));
    }
    return session;
  }

  // Requests the derived objects that the plan reads, and waits until they are ready.
  void MakeTailReady(Session* session, const std::string& plan) {
    (void)ProbeWith(session, plan);
    ATTNDB_ASSERT_OK(db_->WaitForBackground());
  }

  // Keys of which something derived gave an estimate or a hit.
  static double Estimated(const Session& session) {
    double sum = 0;
    for (const LayerExplain& layer : session.Explain().layers) {
      sum += layer.candidates_mean;
      for (const HeadExplain& head : layer.heads) sum += head.visited_mean;
    }
    return sum;
  }

  uint64_t NumBuilt(const std::string& use) {
    const internal::Database& database = *internal::DbAccess::database(*db_);
    const derived::Kind& kind = database.kinds().ForUse(use);
    return database.store().objects().counters(kind).num_built;
  }
};

TEST_F(SessionTailTest, PlansFindKeysOfTheTailAsOfStoredTokens) {
  const Tokens tokens = ToyModel::Tokens(2 * kBlock + 900, 3);
  for (const std::string settings : kSettings) {
    const std::string plan = "topk(k=60," + settings + ")";
    Session session = Read(tokens);
    const std::vector<float> all = ProbeWith(&session, "topk(k=60)");
    test::Event release;
    for (size_t lane = 0; lane < derived::kNumBuildLanes; ++lane) {
      test::StopLane(*db_, lane, &release);
    }
    EXPECT_LT(Difference(ProbeWith(&session, plan), all), 1e-5) << plan;
    EXPECT_EQ(Estimated(session), 0) << plan;
    release.Set();
    ATTNDB_ASSERT_OK(db_->WaitForBackground());
    const std::vector<float> found = Probe(&session);
    EXPECT_LT(Difference(found, all), 0.05) << plan;
    EXPECT_GT(Estimated(session), 0) << plan;
    EXPECT_EQ(found, Probe(&session)) << "not the same twice: " << plan;
  }
}

TEST_F(SessionTailTest, AsManyRowsAsMayChooseFindKeysOfTheTail) {
  Open({.dense_query_tokens = 1});
  Session session = Read(ToyModel::Tokens(kBlock + 900, 3));
  (void)ProbeWith(&session, "topk(k=60,bits=8)");
  ATTNDB_ASSERT_OK(db_->WaitForBackground());
  (void)Probe(&session);
  EXPECT_GT(Estimated(session), 0);
}

TEST_F(SessionTailTest, AutoReadsLessOfATailToo) {
  Open({.measure_machine = false});
  Session session = Read(ToyModel::Tokens(4 * kBlock + 100, 3));
  const std::vector<float> full = ProbeWith(&session, "full");
  const uint64_t all_bytes = session.Explain(1)->bytes_touched;
  MakeTailReady(&session, "auto(error=0.05)");
  EXPECT_LT(Difference(Probe(&session), full), 0.1);
  // On random rows an error of 5 % takes nearly all tokens.
  (void)ProbeWith(&session, "auto(error=0.3)");
  EXPECT_LT(session.Explain(1)->bytes_touched, all_bytes * 2 / 3);
}

TEST_F(SessionTailTest, CodesAreMadeWhileThePromptIsRead) {
  const std::string plan = "topk(k=60,index=pq,m=16,effort=60)";
  const Tokens tokens = ToyModel::Tokens(2 * kBlock + 900, 3);
  Session session = Read(Tokens(tokens.begin(), tokens.begin() + kBlock + 10), plan);
  ATTNDB_ASSERT_OK(db_->WaitForBackground());
  const uint64_t num_layers = model_.spec().num_layers();
  EXPECT_EQ(NumBuilt("pq_16x8"), num_layers);  // Nobody has attended to anything yet.
  ATTNDB_ASSERT_OK(
      AppendTokens(&session, std::span(tokens).subspan(session.num_tokens()), nullptr));
  for (LayerId layer = 0; layer < num_layers; ++layer) {
    ATTNDB_ASSERT_OK(session.AwaitDerived(layer));
  }
  EXPECT_EQ(NumBuilt("pq_16x8"), 2 * num_layers);
  const std::vector<float> found = Probe(&session);
  EXPECT_GT(Estimated(session), 0);
  EXPECT_LT(Difference(found, ProbeWith(&session, "topk(k=60)")), 0.05);
}

// Planes take no training, and nobody may ever ask for them.
TEST_F(SessionTailTest, PlanesAreNotMadeBeforeSomebodyAttends) {
  Session session = Read(ToyModel::Tokens(kBlock + 10, 3), "topk(k=60,bits=8)");
  ATTNDB_ASSERT_OK(db_->WaitForBackground());
  EXPECT_EQ(NumBuilt("key_planes"), 0u);
  (void)Probe(&session);
  ATTNDB_ASSERT_OK(db_->WaitForBackground());
  EXPECT_EQ(NumBuilt("key_planes"), model_.spec().num_layers());
}

TEST_F(SessionTailTest, CodesOfValuesAreAwaitedByPlansThatReadThem) {
  Open({.measure_machine = false});
  Session session = Read(ToyModel::Tokens(kBlock + 10, 3), "topk(k=60,bits=8)");
  ATTNDB_ASSERT_OK(session.AwaitDerived(0));
  EXPECT_EQ(NumBuilt("value_planes"), 0u);
  ATTNDB_ASSERT_OK(session.SetPlan("auto(error=0.05,value_bits=8)"));
  ATTNDB_ASSERT_OK(session.AwaitDerived(0));
  EXPECT_EQ(NumBuilt("value_planes"), 1u);
}

TEST_F(SessionTailTest, WhoAwaitsWhatIsDerivedHasItInTheNextCall) {
  for (const std::string settings : kSettings) {
    Session session = Read(ToyModel::Tokens(kBlock + 100, 3));
    ATTNDB_ASSERT_OK(session.SetPlan("topk(k=60," + settings + ")"));
    for (LayerId layer = 0; layer < model_.spec().num_layers(); ++layer) {
      ATTNDB_ASSERT_OK(session.AwaitDerived(layer));
    }
    (void)Probe(&session);
    EXPECT_GT(Estimated(session), 0) << settings;
  }
}

TEST_F(SessionTailTest, AWaitIsDueOnceABlock) {
  Session session = Read(ToyModel::Tokens(kBlock - 1, 3), "topk(k=60,index=pq,m=16,await=1)");
  ATTNDB_ASSERT_OK(session.AwaitDerived(0));
  EXPECT_FALSE(session.awaits_derived(0));
  ATTNDB_ASSERT_OK(AppendTokens(&session, ToyModel::Tokens(10, 4), nullptr));
  for (LayerId layer = 0; layer < model_.spec().num_layers(); ++layer) {
    EXPECT_TRUE(session.awaits_derived(layer));
    ATTNDB_ASSERT_OK(session.AwaitDerived(layer));
    EXPECT_FALSE(session.awaits_derived(layer));
  }
  EXPECT_FALSE(session.awaits_derived(0));
}

TEST_F(SessionTailTest, AWaitIsNotDueAgainWhereAllBlocksStay) {
  Session session = Read(ToyModel::Tokens(kBlock + 10, 3), "topk(k=60,index=pq,m=16,await=1)");
  ATTNDB_ASSERT_OK(session.AwaitDerived(0));
  ATTNDB_ASSERT_OK(session.Crop(kBlock + 5));
  EXPECT_FALSE(session.awaits_derived(0));
  ATTNDB_ASSERT_OK(session.Crop(kBlock));
  EXPECT_FALSE(session.awaits_derived(0));
  EXPECT_FALSE(session.awaits_derived(model_.spec().num_layers()));
}

TEST_F(SessionTailTest, NothingIsAwaitedForALayerWithASlidingWindow) {
  ModelSpec spec = model_.spec();
  spec.layers[1].sliding_window = 100;
  model_ = ToyModel(spec);
  Session session = Read(ToyModel::Tokens(kBlock + 10, 3), "topk(k=60,index=pq,m=16,await=1)");
  EXPECT_TRUE(session.awaits_derived(0));
  EXPECT_FALSE(session.awaits_derived(1));
}

TEST_F(SessionTailTest, AResetDropsBlocksAndWhatWasDerivedFromThem) {
  const std::string plan = "topk(k=20,bits=8)";
  Session session = Read(ToyModel::Tokens(kBlock + 900, 3));
  MakeTailReady(&session, plan);
  session.Reset();
  const Tokens others = ToyModel::Tokens(kBlock + 900, 4);
  ATTNDB_ASSERT_OK(AppendTokens(&session, others, nullptr));
  MakeTailReady(&session, plan);
  Session fresh = Read(others);
  EXPECT_LT(Difference(ProbeWith(&session, plan), ProbeWith(&fresh, "topk(k=20)")), 0.05);
}

TEST_F(SessionTailTest, ACropIntoABlockDropsWhatWasDerivedFromIt) {
  const Tokens tokens = ToyModel::Tokens(2 * kBlock + 900, 3);
  const Tokens others = ToyModel::Tokens(2 * kBlock, 4);
  for (const std::string settings : kSettings) {
    const std::string plan = "topk(k=60," + settings + ")";
    Session session = Read(tokens);
    MakeTailReady(&session, plan);
    for (const uint64_t num_kept : {uint64_t{8300}, uint64_t{5000}, kBlock, uint64_t{300}}) {
      ATTNDB_ASSERT_OK(session.Crop(num_kept));
      EXPECT_LT(Difference(ProbeWith(&session, plan), ProbeWith(&session, "topk(k=60)")), 0.05)
          << plan << ", " << num_kept;
    }
    // Other tokens come in the place of those that went.
    Tokens now(tokens.begin(), tokens.begin() + 300);
    now.insert(now.end(), others.begin(), others.end());
    ATTNDB_ASSERT_OK(AppendTokens(&session, others, nullptr));
    MakeTailReady(&session, plan);
    Session fresh = Read(now);
    EXPECT_LT(Difference(ProbeWith(&session, plan), ProbeWith(&fresh, "topk(k=60)")), 0.05) << plan;
    EXPECT_EQ(ProbeWith(&session, "full"), ProbeWith(&fresh, "full"));
  }
}

TEST_F(SessionTailTest, ForksShareBlocksAndGoTheirOwnWays) {
  const std::string plan = "topk(k=60,index=pq,m=16,effort=60)";
  const Tokens tokens = ToyModel::Tokens(kBlock + 900, 3);
  std::optional<Session> session = Read(tokens);
  MakeTailReady(&*session, plan);
  const std::vector<float> found = Probe(&*session);
  const uint64_t num_built = NumBuilt("pq_16x8");
  ATTNDB_ASSERT_OK_AND_ASSIGN(Session fork, session->Fork());
  EXPECT_EQ(ProbeWith(&fork, plan), found);
  ATTNDB_ASSERT_OK(session->Crop(100));
  ATTNDB_ASSERT_OK(AppendTokens(&*session, ToyModel::Tokens(kBlock - 200, 8), nullptr));
  EXPECT_EQ(Probe(&fork), found);
  session.reset();
  EXPECT_EQ(Probe(&fork), found);
  ATTNDB_ASSERT_OK(db_->WaitForBackground());
  EXPECT_EQ(NumBuilt("pq_16x8"), num_built);
}

// One layer has a block, the other has not: the fork makes its own.
TEST_F(SessionTailTest, AForkHasNoBlockThatLacksLayers) {
  const std::string plan = "topk(k=60,index=pq,m=16,effort=60)";
  Session session = Read(ToyModel::Tokens(kBlock + 900, 3));
  ATTNDB_ASSERT_OK(session.SetPlan(plan));
  ATTNDB_ASSERT_OK(session.AwaitDerived(0));
  ATTNDB_ASSERT_OK_AND_ASSIGN(Session fork, session.Fork());
  for (Session* each : {&session, &fork}) {
    MakeTailReady(each, plan);
    EXPECT_LT(Difference(Probe(each), ProbeWith(each, "topk(k=60)")), 0.05);
  }
}

TEST_F(SessionTailTest, AStoredTailIsWhatWasAppended) {
  const Tokens tokens = ToyModel::Tokens(2 * kBlock + 900, 3);
  Session session = Read(tokens);
  MakeTailReady(&session, "topk(k=60,bits=8)");
  const std::vector<float> full = ProbeWith(&session, "full");
  ATTNDB_ASSERT_OK(db_->Store(session, tokens, {.name = "a"}));
  EXPECT_EQ(session.num_reused(), tokens.size());
  EXPECT_LT(Difference(Probe(&session), full), 1e-6);
  ExpectAnswers(tokens, tokens.size() - 1);
  // Later tokens are in no block, and all objects of the plan exist.
  ATTNDB_ASSERT_OK(AppendTokens(&session, ToyModel::Tokens(300, 4),
                                [](LayerId, std::vector<float>* k, std::vector<float>*) {
                                  for (float& x : *k) x *= 3;
                                }));
  const std::vector<float> exact = ProbeWith(&session, "topk(k=20,sink=0,window=1)");
  EXPECT_LT(Difference(ProbeWith(&session, "topk(k=20,sink=0,window=1,bits=8)"), exact), 0.05);
}

TEST_F(SessionTailTest, WithoutMemoryTheTailIsReadAsItLies) {
  const Tokens tokens = ToyModel::Tokens(kBlock + 100, 3);
  uint64_t kv_bytes = 0;
  {
    Session session = Read(tokens);
    kv_bytes = session.Explain().memory_bytes;
  }
  Open({.host_memory_bytes = kv_bytes + kv_bytes / 4});
  for (const std::string settings : kSettings) {
    Session session = Read(tokens);
    const std::vector<float> exact = ProbeWith(&session, "topk(k=60)");
    MakeTailReady(&session, "topk(k=60," + settings + ")");
    EXPECT_LT(Difference(Probe(&session), exact), 1e-5) << settings;
  }
}

TEST_F(SessionTailTest, HeadsWithNaNRunFull) {
  const Tokens tokens = ToyModel::Tokens(kBlock + 100, 3);
  Session session = NewSession();
  ATTNDB_ASSERT_OK(AppendTokens(&session, tokens, [](LayerId layer, auto* k, auto*) {
    if (layer == 1) (*k)[33] = std::numeric_limits<float>::infinity();
  }));
  const std::vector<float> full = ProbeWith(&session, "full");
  for (const std::string settings : kSettings) {
    const std::string plan = "topk(k=5000," + settings + ")";
    MakeTailReady(&session, plan);
    ExpectNear(ProbeWith(&session, plan), full);
  }
}

TEST_F(SessionTailTest, WhatNobodyHasAnyMoreIsNotMade) {
  derived::Lanes* const background = internal::DbAccess::database(*db_)->store()->background();
  test::Event is_free;
  background->Add(derived::kSlowLane, {.run = [&](derived::Lanes::Control*) {
                    is_free.Await();
                    return Status::Ok();
                  }});
  {
    Session session = Read(ToyModel::Tokens(kBlock + 100, 3), "topk(k=60,index=pq,m=16,effort=60)");
  }
  is_free.Set();
  ATTNDB_ASSERT_OK(db_->WaitForBackground());
  EXPECT_EQ(NumBuilt("pq_16x8"), 0u);
}

}  // namespace
}  // namespace attndb
