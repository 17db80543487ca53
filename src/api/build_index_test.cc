// Goal:   Build returns when the requested index exists, reports segments that can't have one, and
//         builds nothing twice.
#include <chrono>
#include <filesystem>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "api/stopped_db_test_util.h"
#include "common/clock.h"

namespace attndb {
namespace {

using test::DBFixture;
using test::FailsWith;
using test::Tokens;
using test::ToyModel;
using ::testing::HasSubstr;

class BuildIndexTest : public DBFixture {
 protected:
  BuildIndexTest() : DBFixture(/*background_builds=*/true) {}

  uint64_t NumOfKind(const std::string& context, const std::string& kind) {
    uint64_t count = 0;
    const ContextInfo info = *db_->Describe(context);
    for (const SegmentInfo& segment : info.segments) {
      for (const CompanionInfo& companion : segment.companions) count += companion.kind == kind;
    }
    return count;
  }
};

TEST_F(BuildIndexTest, WhatIsAskedForIsThereWhenItReturns) {
  StoreChain("a", std::vector<uint64_t>{3000, 700, 2100}, 1);
  ATTNDB_ASSERT_OK(db_->WaitForBackground());  // Else planes would be counted, too.
  for (const char* index : {"pq", "pq,m=4,b=6", "clustered", "graph", "graph,graphs=head",
                            "quest,page=32", "infllm", "wave,cluster=32"}) {
    const Result<BuildReport> report = db_->Build("a", index);
    ATTNDB_ASSERT_OK(report.status());
    EXPECT_EQ(report->num_built, 2u) << index;
    EXPECT_EQ(report->num_present, 0u) << index;
    EXPECT_EQ(report->num_too_short, 1u) << index;
    EXPECT_EQ(report->num_missing, 0u) << index;
    EXPECT_GT(report->file_bytes, 0u) << index;
    EXPECT_EQ(NumOfKind("a", report->kind), 2u) << index;

    const uint64_t num_built = db_->Stats()->num_companions_built;
    const Result<BuildReport> again = db_->Build("a", index);
    ATTNDB_ASSERT_OK(again.status());
    EXPECT_EQ(again->num_built, 0u) << index;
    EXPECT_EQ(again->num_present, 2u) << index;
    EXPECT_EQ(again->file_bytes, report->file_bytes) << index;
    EXPECT_EQ(db_->Stats()->num_companions_built, num_built) << index;
  }
  ATTNDB_ASSERT_OK(db_->Build("a", "planes").status());
  EXPECT_EQ(db_->Build("a", "planes")->num_present, 3u);
}

// The seconds lie between two bounds: the time between two moments in the call, and the time by the
// caller's clock. This also holds while the lane of the build does something else.
TEST_F(BuildIndexTest, SecondsAreWhatTheCallerWaited) {
  StoreChain("a", std::vector<uint64_t>{3000, 700, 2100}, 1);
  ATTNDB_ASSERT_OK(db_->WaitForBackground());
  test::Event is_free;
  test::StopLane(*db_, derived::kSlowLane, &is_free);
  double waited = 0;
  const auto progress = [&](uint64_t, uint64_t) {
    if (is_free.IsSet()) return true;
    const Stopwatch inside;
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    waited = inside.ElapsedSeconds();
    is_free.Set();
    return true;
  };
  const double busy_before = db_->Stats()->background_seconds;
  const Stopwatch watch;
  ATTNDB_ASSERT_OK_AND_ASSIGN(const BuildReport report,
                              db_->Build("a", "graph", {.progress = progress}));
  EXPECT_LE(report.seconds, watch.ElapsedSeconds());
  EXPECT_GT(waited, 0) << "the lane was not waited for";
  EXPECT_GE(report.seconds, waited);
  ATTNDB_ASSERT_OK(db_->WaitForBackground());
  EXPECT_GT(db_->Stats()->background_seconds, busy_before);
  const Stopwatch second;
  ATTNDB_ASSERT_OK_AND_ASSIGN(const BuildReport again, db_->Build("a", "graph"));
  EXPECT_GT(again.seconds, 0);
  EXPECT_LE(again.seconds, second.ElapsedSeconds());
}

TEST_F(BuildIndexTest, DescribeAndListShowBytesByKind) {
  StoreChain("a", std::vector<uint64_t>{3000, 700, 2100}, 1);
  ATTNDB_ASSERT_OK_AND_ASSIGN(const BuildReport planes, db_->Build("a", "planes"));
  ATTNDB_ASSERT_OK_AND_ASSIGN(const BuildReport graph, db_->Build("a", "graph"));
  ATTNDB_ASSERT_OK_AND_ASSIGN(const BuildReport codes, db_->Build("a", "pq,b=6"));
  const std::map<std::string, uint64_t> expected = {{planes.kind, planes.file_bytes},
                                                    {graph.kind, graph.file_bytes},
                                                    {codes.kind, codes.file_bytes}};
  EXPECT_EQ(codes.kind, "pq_8x6");
  EXPECT_EQ(db_->Describe("a")->derived_bytes, expected);
  EXPECT_EQ(db_->List()->front().derived_bytes, expected);
  EXPECT_EQ(db_->Describe("a")->companion_bytes,
            planes.file_bytes + graph.file_bytes + codes.file_bytes);
}

// The first call of a plan finds it, and asks for nothing more.
TEST_F(BuildIndexTest, PlansUseIt) {
  const Tokens stored = StoreChain("a", std::vector<uint64_t>{3000}, 1);
  ATTNDB_ASSERT_OK(db_->WaitForBackground());  // Else planes would be counted, too.
  ATTNDB_ASSERT_OK(db_->Build("a", "pq").status());
  const uint64_t num_built = db_->Stats()->num_companions_built;
  Session session = Resume(stored);
  ATTNDB_ASSERT_OK(session.SetPlan("topk(k=20,index=pq)"));
  (void)Probe(&session);
  EXPECT_GT(session.Explain().layers[0].heads[0].visited_mean, 0);
  ATTNDB_ASSERT_OK(db_->WaitForBackground());
  EXPECT_EQ(db_->Stats()->num_companions_built, num_built);
}

TEST_F(BuildIndexTest, EverySegmentHasWhatTheStoreIsOpenedFor) {
  Open({.index = "pq,m=4,b=8"});
  StoreChain("a", std::vector<uint64_t>{3000, 700, 2100}, 1);
  ATTNDB_ASSERT_OK(db_->WaitForBackground());
  EXPECT_EQ(NumOfKind("a", "pq_4x8"), 2u);  // One segment is too short.
  EXPECT_EQ(db_->Describe("a")->num_pending_companions, 0u);
  Open({.index = "clustered"});  // Segments that are there already get one, too.
  ATTNDB_ASSERT_OK(db_->WaitForBackground());
  EXPECT_EQ(db_->Build("a", "clustered")->num_present, 2u);
}

TEST_F(BuildIndexTest, WhatAProcessDidNotBuildTheNextOneBuilds) {
  StoreChain("a", std::vector<uint64_t>{3000}, 1);
  BuildOptions options;
  options.progress = [](uint64_t, uint64_t) { return false; };  // Waits no longer.
  EXPECT_EQ(db_->Build("a", "graph", options).status().code(), StatusCode::kCancelled);
  Open();
  ATTNDB_ASSERT_OK(db_->WaitForBackground());
  EXPECT_EQ(db_->Build("a", "graph")->num_present, 1u);
  EXPECT_EQ(db_->Describe("a")->num_pending_companions, 0u);
}

// A prompt that is stored piece by piece is indexed while the rest of it is read.
TEST_F(BuildIndexTest, APieceIsIndexedWhileTheNextIsRead) {
  Open({.index = "pq"});
  Session session = NewSession("topk(k=20,index=pq,sink=4,window=16)");
  Tokens tokens = ToyModel::Tokens(3000, 1);
  ATTNDB_ASSERT_OK(AppendTokens(&session, tokens, nullptr));
  ATTNDB_ASSERT_OK(db_->Store(session, tokens, {.name = "a"}));
  ATTNDB_ASSERT_OK(AppendTokens(&session, ToyModel::Tokens(40, 9), nullptr));
  ATTNDB_ASSERT_OK(db_->WaitForBackground());  // Until the rest is read.
  EXPECT_EQ(NumOfKind("a", "pq_8x8"), 1u) << "nobody asked for it";
  ATTNDB_ASSERT_OK(AppendTokens(&session, ToyModel::Tokens(40, 10), nullptr));
  (void)Probe(&session);
  EXPECT_GT(session.Explain().layers[0].heads[0].visited_mean, 0);
}

// [PQC] Alg. 1: codes are there before the second token, where the caller waits for them.
TEST_F(BuildIndexTest, WhoAwaitsWhatIsDerivedHasItInTheNextCall) {
  const Tokens stored = StoreChain("a", std::vector<uint64_t>{3000}, 1);
  for (const char* plan :
       {"topk(k=20,index=pq,m=4,b=8)", "topk(k=20,index=clustered)", "topk(k=20,index=graph)",
        "topk(k=20,index=quest)", "topk(k=200,index=infllm)", "topk(k=100,index=wave)"}) {
    Session session = Resume(stored);
    ATTNDB_ASSERT_OK(session.SetPlan(plan));
    for (LayerId layer = 0; layer < model_.spec().num_layers(); ++layer) {
      ATTNDB_ASSERT_OK(session.AwaitDerived(layer));
    }
    (void)Probe(&session);  // The first of the plan.
    EXPECT_GT(session.Explain().layers[0].heads[0].visited_mean, 0) << plan;
    EXPECT_LT(session.Explain().layers[0].heads[0].bytes_touched, 3000u * 2 * 2 * 16) << plan;
  }
  Session session = Resume(stored);
  ATTNDB_EXPECT_OK(session.AwaitDerived(0));  // `full` reads nothing derived.
  EXPECT_THAT(session.AwaitDerived(7),
              FailsWith(StatusCode::kInvalidArgument, HasSubstr("layer 7")));
}

TEST_F(BuildIndexTest, AWaitIsDueOnceForAPlanAndWhatIsStored) {
  const Tokens stored = StoreChain("a", std::vector<uint64_t>{3000}, 1);
  const std::string plan = "topk(k=20,index=pq,m=4,b=8";
  const std::string awaits = plan + ",await=1); layers 1: full";
  Session session = Resume(stored);
  EXPECT_FALSE(session.awaits_derived(0)) << "`full` reads nothing derived";
  ATTNDB_ASSERT_OK(session.SetPlan(plan + ")"));
  EXPECT_FALSE(session.awaits_derived(0));
  ATTNDB_ASSERT_OK(session.SetPlan("topk(k=20,await=1)"));
  EXPECT_FALSE(session.awaits_derived(0)) << "it reads nothing derived";
  ATTNDB_ASSERT_OK(session.SetPlan(awaits));
  EXPECT_FALSE(session.awaits_derived(1));
  EXPECT_FALSE(session.awaits_derived(7));

  const auto expect_due_once = [](Session* due, const char* after) {
    EXPECT_TRUE(due->awaits_derived(0)) << after;
    ATTNDB_EXPECT_OK(due->AwaitDerived(0));
    EXPECT_FALSE(due->awaits_derived(0)) << after;
  };
  expect_due_once(&session, "a plan was set");
  const Tokens more = ToyModel::Tokens(2100, 5);
  ATTNDB_ASSERT_OK(model_.Step(&session, more));
  EXPECT_FALSE(session.awaits_derived(0)) << "a tail has nothing derived";
  const Tokens all = test::Concat(test::Concat(stored, ToyModel::Tokens(20, 9)), more);
  ATTNDB_ASSERT_OK(db_->Store(session, all, {.name = "b"}));
  expect_due_once(&session, "the tail was stored");
  ATTNDB_ASSERT_OK_AND_ASSIGN(Session fork, session.Fork());
  expect_due_once(&fork, "a session began");
  ATTNDB_ASSERT_OK(session.SetPlan(awaits));
  expect_due_once(&session, "a plan was set again");
}

// Only callers of AwaitDerived look at `await`.
TEST_F(BuildIndexTest, APlanComputesTheSameWhetherItAwaitsOrNot) {
  const Tokens stored = StoreChain("a", std::vector<uint64_t>{3000, 700}, 1);
  const std::string plans[] = {"topk(k=20,index=pq", "dipr(beta=1,bits=8", "mass(p=0.9,bits=4",
                               "pqcache(ratio=0.2"};
  for (const std::string& plan : plans) {
    MakeReady(stored, plan + ")");
    Session session = Resume(stored);
    const std::vector<float> without = ProbeWith(&session, plan + ",await=0)");
    EXPECT_EQ(ProbeWith(&session, plan + ",await=1)"), without) << plan;
  }
}

// A waiting caller gets the error. An attending one reads K and V, and need not wait again at each
// token.
TEST_F(BuildIndexTest, AWaitInVainIsOver) {
  const Tokens stored = StoreChain("a", std::vector<uint64_t>{3000}, 1);
  db_.reset();
  test::FaultFileSystem files(storage::PosixFileSystem());
  db_.emplace(internal::DbAccess::Wrap(*internal::Database::Open(store(), {}, &files)));
  ATTNDB_ASSERT_OK(db_->WaitForBackground());
  Session session = Resume(stored);
  const std::vector<float> exact = ProbeWith(&session, "topk(k=20)");
  files.SetPlan({.fail_at = 1, .sticky = true});
  ATTNDB_ASSERT_OK(session.SetPlan("topk(k=20,index=pq,await=1)"));
  EXPECT_THAT(session.AwaitDerived(0), FailsWith(StatusCode::kIoError, HasSubstr("")));
  EXPECT_FALSE(session.awaits_derived(0));
  ExpectNear(Probe(&session), exact);
  db_.reset();  // Before the files.
}

TEST_F(BuildIndexTest, IterationsTrainTheCodebook) {
  const auto answers_of = [&](uint32_t iterations) {
    db_.reset();
    std::filesystem::remove_all(store());
    Open({.kmeans_iterations = iterations});
    const Tokens stored = StoreChain("a", std::vector<uint64_t>{3000}, 1);
    EXPECT_THAT(db_->Build("a", "pq,m=2,b=6"), test::IsOk());
    Session session = Resume(stored);
    return ProbeWith(&session, "topk(k=20,index=pq,m=2,b=6)");
  };
  EXPECT_EQ(answers_of(0), answers_of(8));
  EXPECT_NE(answers_of(1), answers_of(8));
}

TEST_F(BuildIndexTest, OptionsThatCannotBeMetAreRefused) {
  const auto error_of = [&](const DBOptions& options) {
    return DB::Open(dir_.File("other"), options).status();
  };
  EXPECT_THAT(error_of({.index = "tree"}),
              FailsWith(StatusCode::kInvalidArgument, HasSubstr("'tree'")));
  EXPECT_THAT(error_of({.index = "pq,m=3"}),
              FailsWith(StatusCode::kInvalidArgument, HasSubstr("m")));
  EXPECT_THAT(error_of({.background_builds = false, .index = "pq"}),
              FailsWith(StatusCode::kInvalidArgument, HasSubstr("background_builds")));
  EXPECT_THAT(error_of({.kmeans_iterations = 1001}),
              FailsWith(StatusCode::kInvalidArgument, HasSubstr("1001")));
  EXPECT_THAT(error_of({.roar_max_degree = 128}),
              FailsWith(StatusCode::kInvalidArgument,
                        HasSubstr("roar_max_degree is 128, expected at most 127; 0 = 35")));
  EXPECT_THAT(error_of({.roar_keys_per_query = 65537}),
              FailsWith(StatusCode::kInvalidArgument, HasSubstr("roar_keys_per_query is 65537")));
  EXPECT_THAT(error_of({.roar_search_window = 65537}),
              FailsWith(StatusCode::kInvalidArgument, HasSubstr("roar_search_window is 65537")));
}

TEST_F(BuildIndexTest, DegreesSayHowLongListsOfRoarGraphAre) {
  const auto bytes_of = [&](uint32_t degree) {
    db_.reset();
    std::filesystem::remove_all(store());
    Open({.roar_keys_per_query = 30, .roar_max_degree = degree, .roar_search_window = 20});
    StoreChain("a", std::vector<uint64_t>{3000}, 1);
    const Result<BuildReport> report = db_->Build("a", "roargraph");
    EXPECT_THAT(report, test::IsOk());
    EXPECT_EQ(report->kind, "roargraph_1");
    return report->file_bytes;
  };
  // 12 bits a number: lists of 16 take 32 bytes, of 70 take 112.
  const uint64_t few = bytes_of(8), many = bytes_of(35);
  EXPECT_GT(many, few + uint64_t{3000} * (112 - 32));
}

// Tenants see no trace of each other, and a job that is stuck delays only its own lane.
TEST_F(BuildIndexTest, WhatElseTheBackgroundDoesIsNotWaitedFor) {
  StoreChain("a", std::vector<uint64_t>{3000}, 1);
  ATTNDB_ASSERT_OK(db_->WaitForBackground());
  derived::Lanes* const lanes = internal::DbAccess::database(*db_)->store()->background();
  test::Event is_free;
  lanes->Add(derived::kSlowLane,
             {.run = [](derived::Lanes::Control*) { return Status::IoError("of another"); }});
  lanes->Add(derived::kFastLane, {.run = [&](derived::Lanes::Control*) {
               is_free.Await();
               return Status::Ok();
             }});
  const Result<BuildReport> report = db_->Build("a", "pq");
  is_free.Set();
  ATTNDB_ASSERT_OK(report.status());
  EXPECT_EQ(report->num_built, 1u);
  EXPECT_THAT(db_->WaitForBackground(), FailsWith(StatusCode::kIoError, HasSubstr("of another")));
}

TEST_F(BuildIndexTest, WhatHasNoRoomIsMissing) {
  StoreChain("a", std::vector<uint64_t>{3000}, 1);
  ATTNDB_ASSERT_OK(db_->WaitForBackground());
  const ContextInfo before = *db_->Describe("a");
  ATTNDB_ASSERT_OK(db_->SetQuota(before.file_bytes + 1));
  ATTNDB_ASSERT_OK_AND_ASSIGN(const BuildReport report, db_->Build("a", "pq"));
  EXPECT_EQ(report.num_built, 0u);
  EXPECT_EQ(report.num_missing, 1u);
  EXPECT_EQ(db_->Describe("a")->derived_bytes, before.derived_bytes);
  ATTNDB_ASSERT_OK(db_->SetQuota(0));
  EXPECT_EQ(db_->Build("a", "pq")->num_built, 1u);  // At once: it is asked for anew.
}

TEST_F(BuildIndexTest, WhatIsNoIndexIsRefused) {
  StoreChain("a", std::vector<uint64_t>{3000}, 1);
  const struct {
    const char* index;
    const char* why;
  } cases[] = {
      {"tree", "index 'tree' is not known; expected planes, clustered, graph, pq"},
      {"", "index '' is not known"},
      {"flat", "index 'flat' scores all keys"},
      {"pq,m=3", "m, the number of subspaces"},
      {"pq,m=4,m=8", "m"},
      {"pq,", "expected"},
      {"graph,m=4", "no setting of graph; expected beam_width"},
      {"planes,m=4", "index 'planes,m=4' is not known"},
      {"pq,m=4,sink=9", "no setting of pq; expected m, b, effort"},
      {"pq,m=4);0:full(", "no setting of pq"},
  };
  for (const auto& c : cases) {
    EXPECT_THAT(db_->Build("a", c.index), FailsWith(StatusCode::kInvalidArgument, HasSubstr(c.why)))
        << c.index;
  }
  EXPECT_THAT(db_->Build("b", "pq"), FailsWith(StatusCode::kNotFound, HasSubstr("b")));
}

TEST_F(BuildIndexTest, WhoMayNotWriteOrWaitsNoLongerIsTold) {
  StoreChain("a", std::vector<uint64_t>{3000}, 1);
  EXPECT_THAT(db_->Build("a", "graph", {.progress = [](uint64_t, uint64_t) { return false; }}),
              FailsWith(StatusCode::kCancelled, HasSubstr("")));
  ATTNDB_ASSERT_OK(db_->WaitForBackground());  // It was built nevertheless.
  EXPECT_EQ(db_->Build("a", "graph")->num_present, 1u);
  Open({.background_builds = false});
  EXPECT_THAT(db_->Build("a", "pq"),
              FailsWith(StatusCode::kFailedPrecondition, HasSubstr("background_builds")));
  const DB reader = *DB::Open(store(), {.read_only = true});
  EXPECT_THAT(reader.Build("a", "pq"), FailsWith(StatusCode::kReadOnly, HasSubstr("reading")));
}

}  // namespace
}  // namespace attndb
