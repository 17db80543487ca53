// Goal:   a plan that reads key planes gives nearly the answers of the same plan over K, for any
//         number of segments and a tail, in any later process. Until planes are ready, and without
//         memory for them, its answers are exact.
// Method: toy model; plan against plan.
#include <cmath>
#include <limits>
#include <utility>

#include "api/database.h"
#include "api/db_access.h"
#include "api/db_test_util.h"
#include "testing/event.h"

namespace attndb {
namespace {

using test::DBFixture;
using test::Tokens;

constexpr const char* kPlan = "topk(k=60,bits=4)";  // Reads planes.
constexpr const char* kQueries[] = {"topk(k=60", "dipr(alpha=0.02", "mass(p=0.9"};

using SessionPlanesTest = DBFixture;

TEST_F(SessionPlanesTest, PlanesAnswerNearlyAsKeysDo) {
  const Tokens stored = StoreChain("a", std::vector<uint64_t>{900, 400, 100}, 1);
  MakeReady(stored, kPlan);
  Session session = Resume(stored);
  for (const char* query : kQueries) {
    const std::vector<float> exact = ProbeWith(&session, std::string(query) + ")");
    for (const auto& [bits, tolerance] : {std::pair{"8", 0.03}, std::pair{"4", 0.15}}) {
      const std::string plan = std::string(query) + ",bits=" + bits + ")";
      const std::vector<float> estimated = ProbeWith(&session, plan);
      EXPECT_LT(Difference(estimated, exact), tolerance) << plan;
      EXPECT_EQ(estimated, Probe(&session)) << "not the same twice: " << plan;
      const LayerExplain layer = *session.Explain(1);
      EXPECT_GT(layer.candidates_mean, 0) << plan;
      EXPECT_GE(layer.candidates_mean, 0.6 * layer.selected_mean) << plan;
    }
  }
}

TEST_F(SessionPlanesTest, APlanReadsNothingThatAnotherHasAskedFor) {
  Open({.measure_machine = false});
  const Tokens stored = StoreChain("a", std::vector<uint64_t>{3000, 400}, 1);
  const std::pair<const char*, const char*> kPlans[] = {
      {"topk(k=60,bits=4)", "topk(k=60)"},
      {"topk(k=60,bits=8,remainder=mean)", "topk(k=60,bits=8)"},
      {"auto(error=0.3,value_bits=8)", "auto(error=0.3)"},
      {"topk(k=60,static=prefill:40)", "topk(k=60)"},
      {"topk(k=60,index=clustered)", "topk(k=60)"},
      {"topk(k=60,index=clustered,remainder=clusters)", "topk(k=60,index=clustered)"}};
  for (const auto& [before, plan] : kPlans) {
    MakeReady(stored, before);
    Session fresh = Resume(stored);
    const std::vector<float> expected = ProbeWith(&fresh, plan);
    Session session = Resume(stored);
    (void)ProbeWith(&session, before);
    EXPECT_EQ(ProbeWith(&session, plan), expected) << plan << " after " << before;
  }
}

// The predicted reads are the actual ones.
TEST_F(SessionPlanesTest, PlanesAreExpectedToBeReadOnceTheyAreThere) {
  const Tokens stored = StoreChain("a", std::vector<uint64_t>{3000, 400}, 1);
  Session session = Resume(stored);
  ATTNDB_ASSERT_OK(session.SetPlan(kPlan));
  const uint64_t without = session.Explain(1)->predicted_bytes;
  EXPECT_THAT(session.Explain(1)->notes, ::testing::HasSubstr("no key planes"));
  MakeReady(stored, kPlan);
  EXPECT_LT(session.Explain(1)->predicted_bytes, without / 2);
  EXPECT_EQ(session.Explain(1)->notes, "");
}

TEST_F(SessionPlanesTest, UntilPlanesAreReadyTheKeysAreScanned) {
  const Tokens stored = StoreChain("a", std::vector<uint64_t>{900}, 1);
  Session session = Resume(stored);
  const std::vector<float> exact = ProbeWith(&session, "topk(k=60)");
  derived::Lanes* const background = internal::DbAccess::database(*db_)->store()->background();
  test::Event is_free;
  background->Add(derived::kFastLane, {.run = [&](derived::Lanes::Control*) {
                    is_free.Await();
                    return Status::Ok();
                  }});
  EXPECT_EQ(ProbeWith(&session, kPlan), exact);
  EXPECT_EQ(Probe(&session), exact);
  is_free.Set();
  ATTNDB_ASSERT_OK(db_->WaitForBackground());
  EXPECT_NE(Probe(&session), exact);
}

TEST_F(SessionPlanesTest, WhatIsLeftOutIsEstimated) {
  const Tokens stored = StoreChain("a", std::vector<uint64_t>{900, 400}, 1);
  MakeReady(stored, kPlan);
  Session session = Resume(stored);
  const std::vector<float> full = ProbeWith(&session, "full");
  for (const char* bits : {"exact", "8", "4"}) {
    const std::string query = std::string("topk(k=60,bits=") + bits;
    const std::vector<float> all = ProbeWith(&session, query + ",remainder=sample:5000)");
    EXPECT_LT(Difference(all, full), 1e-4) << bits;
  }
}

TEST_F(SessionPlanesTest, AReopenedStoreAnswersTheSame) {
  const Tokens stored = StoreChain("a", std::vector<uint64_t>{900}, 1);
  for (const char* plan :
       {"topk(k=60,bits=4,remainder=sample:32)", "topk(k=60,bits=8,remainder=sample:32)"}) {
    std::vector<float> first;
    MakeReady(stored, plan);
    {
      Session session = Resume(stored);
      first = ProbeWith(&session, plan);
      ATTNDB_ASSERT_OK_AND_ASSIGN(Session fork, session.Fork());
      EXPECT_EQ(ProbeWith(&fork, plan), first);
    }
    Open();
    MakeReady(stored, plan);
    Session session = Resume(stored);
    EXPECT_EQ(ProbeWith(&session, plan), first);
  }
}

TEST_F(SessionPlanesTest, ShortSegmentsAndCroppedOnesAreRight) {
  const Tokens stored = StoreChain("a", std::vector<uint64_t>{600, 100}, 1);
  MakeReady(stored, kPlan);
  Session session = Resume(stored);
  for (const uint64_t num_tokens : {650u, 531u, 250u, 3u}) {
    ATTNDB_ASSERT_OK(session.Crop(num_tokens));
    const std::vector<float> exact = ProbeWith(&session, "topk(k=50)");
    EXPECT_LT(Difference(ProbeWith(&session, "topk(k=50,bits=8)"), exact), 0.03) << num_tokens;
  }
}

TEST_F(SessionPlanesTest, WithoutMemoryForPlanesTheKeysAreScanned) {
  const Tokens stored = StoreChain("a", std::vector<uint64_t>{900}, 1);
  uint64_t kv_bytes = 0;
  {
    Session session = Resume(stored);
    kv_bytes = session.Explain().memory_bytes;
  }
  Open({.num_threads = 1, .host_memory_bytes = kv_bytes + 8192});  // Scratch is each thread's.
  MakeReady(stored, kPlan);
  Session session = Resume(stored);
  const std::vector<float> exact = ProbeWith(&session, "topk(k=60)");
  EXPECT_EQ(ProbeWith(&session, "topk(k=60,bits=4)"), exact);
  EXPECT_EQ(session.Explain(0)->candidates_mean, 0);
}

TEST_F(SessionPlanesTest, HeadsWithInfinityRunFull) {
  const Tokens stored =
      StoreChain("a", std::vector<uint64_t>{600}, 1, [](LayerId layer, auto* k, auto*) {
        if (layer == 1) (*k)[33] = std::numeric_limits<float>::infinity();  // Head 0 or 1, token 0.
      });
  MakeReady(stored, kPlan);
  Session session = Resume(stored);
  const std::vector<float> full = ProbeWith(&session, "full");
  ExpectNear(ProbeWith(&session, "topk(k=2000,bits=8)"), full);
}

}  // namespace
}  // namespace attndb
