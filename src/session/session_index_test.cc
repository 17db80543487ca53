// Goal:   a plan over an index that does not score every key gives the answers of the same plan
//         over all keys. This holds for any number of segments and a tail, for prefixes and in
//         later processes. While the index is missing, K is scored.
// Method: toy model; plan against plan, for each index. With effort=100 every cluster is visited,
//         so that only what the codes' estimates bring up differs; with such a beam_width short
//         runs are scored whole, and with effort=1000 all blocks of keys are.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <thread>

#include "api/stopped_db_test_util.h"
#include "common/random.h"
#include "testing/seed.h"

namespace attndb {
namespace {

using test::DBFixture;
using test::Tokens;
using test::ToyModel;

// Its parameter: an index that looks at nearly all keys.
class SessionIndexTest : public DBFixture, public ::testing::WithParamInterface<std::string> {
 protected:
  SessionIndexTest() : DBFixture(/*background_builds=*/true) {}

  // Asks for it, and waits until it is there.
  void BuildIndex(Session* session) {
    (void)ProbeWith(session, "topk(k=8," + GetParam() + ")");
    ATTNDB_ASSERT_OK(db_->WaitForBackground());
  }

  // Nothing more is built until `release` is set.
  void StopBuilds(test::Event* release) {
    for (size_t lane = 0; lane < derived::kNumBuildLanes; ++lane) {
      test::StopLane(*db_, lane, release);
    }
  }
  // Nothing more is built until the store is closed.
  void HoldBuilds() {
    for (size_t lane = 0; lane < derived::kNumBuildLanes; ++lane) {
      test::Event held;
      internal::DbAccess::database(*db_)->store()->background()->Add(
          lane, {.run = [&held](derived::Lanes::Control* control) {
            held.Set();
            while (!control->cancel()->load()) std::this_thread::yield();
            return Status::Cancelled("the store is closed");
          }});
      held.Await();
    }
  }

  // Blocks of keys tell nothing of ranges.
  bool IsCoarse() const {
    return GetParam().starts_with("index=quest") || GetParam().starts_with("index=infllm") ||
           GetParam().starts_with("index=wave");
  }
  // Without how hard it looks.
  std::string Index() const { return GetParam().substr(0, GetParam().find(',')); }
  bool Answers(const std::string& query) const { return query.starts_with("topk") || !IsCoarse(); }

  std::vector<float> AnswerOf(const Tokens& stored, const std::string& plan) {
    Session session = Resume(stored);
    return ProbeWith(&session, plan);
  }

  static void FlipBit(const std::string& path, uint64_t offset) {
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekg(static_cast<int64_t>(offset));
    const auto byte = static_cast<char>(file.get() ^ 0x10);
    file.seekp(static_cast<int64_t>(offset));
    file.put(byte);
  }

  // The only one's: companions but for the planes, whose names have three dots.
  std::string IndexFile() {
    std::string found;
    for (const auto& entry : std::filesystem::directory_iterator(store() + "/segments")) {
      const std::string name = entry.path().filename().string();
      const bool is_companion = std::ranges::count(name, '.') == 3 && name.ends_with(".obj");
      if (is_companion && name.find("key_planes") == name.npos) found = entry.path().string();
    }
    return found;
  }

  std::vector<float> SomeQuery() const {
    const LayerSpec& shape = model_.spec().layers[1];
    std::vector<float> q(size_t{shape.num_q_heads} * shape.head_dim, 0.3f);
    for (size_t i = 0; i < q.size(); ++i) q[i] += 0.05f * std::sin(static_cast<float>(i));
    return q;
  }

  std::vector<float> AttendInLayer1(Session* session, const std::vector<float>& q) const {
    const LayerSpec& shape = model_.spec().layers[1];
    std::vector<float> out(size_t{shape.num_q_heads} * shape.v_head_dim);
    ATTNDB_EXPECT_OK(
        session->Attend(1, test::ViewOf(q, shape.num_q_heads, shape.head_dim),
                        MutableTensorView::Contiguous(out.data(), DType::kFloat32, 1,
                                                      shape.num_q_heads, shape.v_head_dim)));
    return out;
  }

  // Keys that an index looked at.
  static double Visited(const Session& session) {
    double sum = 0;
    for (const LayerExplain& layer : session.Explain().layers) {
      for (const HeadExplain& head : layer.heads) sum += head.visited_mean;
    }
    return sum;
  }
};

// An estimate of the tokens that an index left out is better than dropping them, and at most their
// mass. The same holds for a session with hidden tokens.
TEST_P(SessionIndexTest, ClustersEstimateWhatIsLeftOut) {
  const Tokens stored = StoreChain("a", std::vector<uint64_t>{5000, 2100, 100}, 1);
  Session session = Resume(stored);
  const std::string dropped = "topk(k=200," + Index();
  const std::string estimated = dropped + ",remainder=clusters)";
  (void)ProbeWith(&session, estimated);
  ATTNDB_ASSERT_OK(db_->WaitForBackground());
  for (const uint64_t num_tokens : {7220u, 6500u}) {
    ATTNDB_ASSERT_OK(session.Crop(num_tokens));
    const std::vector<float> full = ProbeWith(&session, "full");
    const double error_of_drop =
        Difference(ProbeWith(&session, dropped + ",remainder=drop)"), full);
    const std::vector<float> out = ProbeWith(&session, estimated);
    EXPECT_LT(Difference(out, full), 0.7 * error_of_drop) << num_tokens;
    EXPECT_EQ(out, Probe(&session)) << "not the same twice";
    EXPECT_GT(session.Explain(1)->heads[0].mass_left, 0);
    EXPECT_LT(session.Explain(1)->heads[0].mass_left, 1);
  }
}

// A layer's own clusters, not those of the layer before it, estimate the tokens left out.
TEST_P(SessionIndexTest, ALayerIsEstimatedByItsOwnClusters) {
  const Tokens stored = StoreChain("a", std::vector<uint64_t>{5000, 2100}, 1);
  const std::string plan = "topk(k=200," + Index() + ",remainder=clusters)";
  MakeReady(stored, plan);
  Session alone = Resume(stored);
  ATTNDB_ASSERT_OK(alone.SetPlan(plan));
  const std::vector<float> expected = AttendInLayer1(&alone, SomeQuery());
  EXPECT_GT(alone.Explain(1)->heads[0].mass_left, 0);
  Session session = Resume(stored);
  (void)ProbeWith(&session, plan);
  EXPECT_EQ(AttendInLayer1(&session, SomeQuery()), expected);
}

TEST_P(SessionIndexTest, IndexesAnswerAsAllKeysDo) {
  const Tokens stored = StoreChain("a", std::vector<uint64_t>{5000, 2100, 100}, 1);
  Session session = Resume(stored);
  test::Event release;
  StopBuilds(&release);
  const std::vector<float> before = ProbeWith(&session, "topk(k=60," + GetParam() + ")");
  EXPECT_EQ(Visited(session), 0);
  EXPECT_LT(Difference(before, ProbeWith(&session, "topk(k=60)")), 1e-5);
  release.Set();
  ATTNDB_ASSERT_OK(db_->WaitForBackground());
  for (const char* query : {"topk(k=60", "dipr(alpha=0.02", "dipr(beta=3", "topk(k=60,sink=300"}) {
    if (!Answers(query)) continue;
    const std::vector<float> all = ProbeWith(&session, std::string(query) + ")");
    const std::vector<float> found =
        ProbeWith(&session, std::string(query) + "," + GetParam() + ")");
    EXPECT_LT(Difference(found, all), 0.05) << query;
    EXPECT_EQ(found, Probe(&session)) << "not the same twice: " << query;
  }
  EXPECT_GT(Visited(session), 0);
  EXPECT_GT(session.Explain(1)->heads[0].visited_mean, 0);
}

// Graphs and blocks make none: they know nothing of keys that they did not look at.
TEST_P(SessionIndexTest, DrawsAreAsGoodAsByAllKeys) {
  Open({.measure_machine = false});  // Else what calls took decides who draws, and when.
  const Tokens stored = StoreChain("a", std::vector<uint64_t>{9000, 5000, 100}, 1);
  Session session = Resume(stored);
  const std::string plan = "auto(error=0.05," + GetParam() + ")";
  if (GetParam().starts_with("index=graph") || IsCoarse()) {
    EXPECT_EQ(session.SetPlan("auto(error=0.05," + Index() + ")").code(), StatusCode::kUnsupported);
    return;
  }
  BuildIndex(&session);
  for (const uint64_t num_tokens : {14120u, 12000u, 9010u, 700u, 150u}) {
    ATTNDB_ASSERT_OK(session.Crop(num_tokens));
    const std::vector<float> full = ProbeWith(&session, "full");
    EXPECT_LT(Difference(ProbeWith(&session, plan), full), 0.1) << num_tokens;
    EXPECT_EQ(ProbeWith(&session, plan), Probe(&session)) << "not the same twice";
  }
}

// Codes estimate the mass of all keys; other indexes know nothing of those that they left out.
TEST_P(SessionIndexTest, AMassIsHeldByCodesAsByAllKeys) {
  const Tokens stored = StoreChain("a", std::vector<uint64_t>{5000, 2100, 100}, 1);
  Session session = Resume(stored);
  if (!GetParam().starts_with("index=pq")) {
    EXPECT_EQ(session.SetPlan("mass(p=0.9," + GetParam() + ")").code(), StatusCode::kUnsupported);
    return;
  }
  test::Event release;
  StopBuilds(&release);
  const std::vector<float> before = ProbeWith(&session, "mass(p=0.9," + GetParam() + ")");
  EXPECT_LT(Difference(before, ProbeWith(&session, "mass(p=0.9)")), 1e-4);  // No codes yet.
  release.Set();
  ATTNDB_ASSERT_OK(db_->WaitForBackground());
  const std::vector<float> full = ProbeWith(&session, "full");
  for (const std::string query : {"mass(p=0.8,index=pq", "mass(p=0.99,index=pq,m=16"}) {
    const std::string exact = query.substr(0, query.find(",index"));
    MakeReady(stored, query + ")");
    for (const uint64_t num_tokens : {7220u, 6000u, 5100u, 150u}) {
      ATTNDB_ASSERT_OK(session.Crop(num_tokens));
      const std::vector<float> all = ProbeWith(&session, "full");
      const double least = Difference(ProbeWith(&session, exact + ")"), all);
      EXPECT_LT(Difference(ProbeWith(&session, query + ")"), all), 1.3 * least + 0.01)
          << query << ", " << num_tokens;
    }
    session = Resume(stored);
  }
}

TEST_P(SessionIndexTest, SearchGivesWhatThePlanChooses) {
  const Tokens stored = StoreChain("a", std::vector<uint64_t>{5000}, 1);
  Session session = Resume(stored, 300);
  BuildIndex(&session);
  const LayerSpec& shape = model_.spec().layers[1];
  std::vector<float> q(size_t{shape.num_q_heads} * shape.head_dim, 0.3f);
  for (size_t i = 0; i < q.size(); ++i) q[i] += 0.05f * std::sin(static_cast<float>(i));
  const TensorView view = test::ViewOf(q, shape.num_q_heads, shape.head_dim);
  std::vector<std::vector<CriticalTokens>> found;
  for (const std::string& plan : {std::string("topk(k=40)"), std::string("topk(k=40,bits=8)"),
                                  "topk(k=40," + GetParam() + ")"}) {
    ATTNDB_ASSERT_OK(session.SetPlan(plan));
    ATTNDB_ASSERT_OK_AND_ASSIGN(auto tokens, session.Search(1, view));
    ASSERT_EQ(tokens.size(), shape.num_q_heads);
    for (CriticalTokens& head : tokens) {
      ASSERT_EQ(head.tokens.size(), 40u);
      ASSERT_EQ(head.scores.size(), 40u);
      std::ranges::sort(head.tokens);
      EXPECT_GE(head.tokens.front(), 16u);
      EXPECT_LT(head.tokens.back(), session.num_tokens() - 128);
    }
    found.push_back(std::move(tokens));
  }
  for (size_t head = 0; head < shape.num_q_heads; ++head) {
    for (size_t i = 1; i < found.size(); ++i) {
      std::vector<uint32_t> both;
      std::ranges::set_intersection(found[i][head].tokens, found[0][head].tokens,
                                    std::back_inserter(both));
      EXPECT_GE(both.size(), 38u) << head;
    }
  }
  EXPECT_EQ(session.Search(99, view).status().code(), StatusCode::kInvalidArgument);
  ATTNDB_ASSERT_OK(session.SetPlan("full"));
  EXPECT_EQ(session.Search(1, view).status().code(), StatusCode::kFailedPrecondition);
  ATTNDB_ASSERT_OK(session.SetPlan("auto(error=0.01)"));
  EXPECT_EQ(session.Search(1, view).status().code(), StatusCode::kFailedPrecondition);
}

TEST_P(SessionIndexTest, AReopenedStoreFindsThemAgain) {
  const Tokens stored = StoreChain("a", std::vector<uint64_t>{5000}, 1);
  const std::string plan = "topk(k=60," + GetParam() + ")";
  std::vector<float> first;
  {
    Session session = Resume(stored);
    BuildIndex(&session);
    first = ProbeWith(&session, plan);
  }
  for (const bool read_only : {false, true}) {
    Open({.read_only = read_only});
    Session session = Resume(stored);
    EXPECT_EQ(ProbeWith(&session, plan), first);
    EXPECT_GT(Visited(session), 0);
  }
}

// The store is closed while the index is built: first before the build's first head, then at later
// moments, the last of them after its last head.
TEST_P(SessionIndexTest, ABuildThatIsCutShortLeavesNothing) {
  const Tokens stored = StoreChain("a", std::vector<uint64_t>{5000}, 1);
  ATTNDB_ASSERT_OK(db_->WaitForBackground());
  const std::string plan = "topk(k=60," + GetParam() + ")";
  const auto files_without = FilesIn(store() + "/segments");
  uint64_t num_cut = 0;
  for (int ms = 0; ms < 30; ms += 5) {
    {
      if (ms == 0) HoldBuilds();
      Session session = Resume(stored);
      (void)ProbeWith(&session, plan);
      std::this_thread::sleep_for(std::chrono::milliseconds(ms));
    }
    db_.reset();
    const auto files = FilesIn(store() + "/segments");
    Open({.background_builds = false});
    const ContextInfo info = *db_->Describe("a");
    EXPECT_TRUE(db_->Verify()->ok());
    const auto& companions = info.segments[0].companions;
    EXPECT_EQ(files.size(), 2 * (1 + companions.size())) << ms;
    num_cut += companions.size() == 1 ? 1u : 0u;
    if (companions.size() == 1) {
      EXPECT_TRUE(files == files_without) << ms;
    }
    Open();
    if (companions.size() > 1) break;
  }
  EXPECT_GE(num_cut, 1u);
  Session session = Resume(stored);
  BuildIndex(&session);
  EXPECT_EQ(db_->Describe("a")->segments[0].companions.size(), 2u);
  EXPECT_LT(Difference(ProbeWith(&session, plan), ProbeWith(&session, "topk(k=60)")), 0.05);
}

// Wherever the damage is, K is read until another is built, and the answer is the same.
TEST_P(SessionIndexTest, OneThatIsDamagedIsBuiltAgain) {
  const Tokens stored = StoreChain("a", std::vector<uint64_t>{3000}, 1);
  const std::string plan = "topk(k=60," + GetParam() + ")";
  MakeReady(stored, plan);
  const std::vector<float> right = AnswerOf(stored, plan);
  Random random(test::SeedOr(8));
  for (int i = 0; i < 5; ++i) {
    const std::string before = IndexFile();
    ASSERT_FALSE(before.empty());
    db_.reset();
    FlipBit(before, random.Uniform(std::filesystem::file_size(before)));
    Open();
    EXPECT_LT(Difference(AnswerOf(stored, plan), right), 0.05);
    ATTNDB_ASSERT_OK(db_->WaitForBackground());
    // Damage between sections, where there is only padding, may go unseen until Verify.
    if (IndexFile() == before) {
      EXPECT_FALSE(db_->Verify()->ok());
      MakeReady(stored, plan);
    }
    EXPECT_NE(IndexFile(), before);
    EXPECT_TRUE(db_->Verify()->ok());
    EXPECT_FALSE(db_->Describe("a")->damaged);
    EXPECT_EQ(AnswerOf(stored, plan), right);
  }
}

TEST_P(SessionIndexTest, PrefixesAndShortSegmentsAreRight) {
  const Tokens stored = StoreChain("a", std::vector<uint64_t>{5000, 300}, 1);
  Session session = Resume(stored);
  BuildIndex(&session);
  for (const uint64_t num_tokens : {5100u, 4000u, 2500u, 300u, 150u, 3u}) {
    ATTNDB_ASSERT_OK(session.Crop(num_tokens));
    const std::vector<float> all = ProbeWith(&session, "topk(k=50)");
    const std::vector<float> found = ProbeWith(&session, "topk(k=50," + GetParam() + ")");
    EXPECT_LT(Difference(found, all), 0.05) << num_tokens;
  }
}

// An index of a head with NaN or infinities is not there, whatever the plan asks for.
TEST_P(SessionIndexTest, HeadsThatAreNotFiniteRunFull) {
  for (const float bad :
       {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
    for (const bool in_keys : {true, false}) {
      const auto spoil = [&](LayerId layer, auto* k, auto* v) {
        if (layer == 1) (*(in_keys ? k : v))[33] = bad;  // Head 0 or 1, token 0.
      };
      const Tokens stored = StoreChain("a", std::vector<uint64_t>{3000}, 1, spoil);
      Session session = Resume(stored);
      BuildIndex(&session);
      const std::vector<float> full = ProbeWith(&session, "full");
      for (const char* plan : {"topk(k=100000,", "dipr(beta=1e9,"}) {
        if (!Answers(plan)) continue;
        ExpectNear(ProbeWith(&session, plan + GetParam() + ")"), full);
      }
      ATTNDB_ASSERT_OK(db_->Drop("a"));
    }
  }
}

// One q head of a group has NaN or Inf: the other heads get the same results as without it.
TEST_P(SessionIndexTest, QueriesThatAreNotFiniteHarmNoOthers) {
  const Tokens stored = StoreChain("a", std::vector<uint64_t>{5000}, 1);
  Session session = Resume(stored);
  BuildIndex(&session);
  for (const char* plan : {"topk(k=60,", "dipr(beta=3,"}) {
    if (!Answers(plan)) continue;
    ATTNDB_ASSERT_OK(session.SetPlan(plan + GetParam() + ")"));
    std::vector<float> q = SomeQuery();
    std::vector<float> expected = AttendInLayer1(&session, q);
    for (const float bad :
         {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
      q[0] = bad;
      std::vector<float> found = AttendInLayer1(&session, q);
      for (size_t i = 0; i < model_.spec().layers[1].v_head_dim; ++i) found[i] = expected[i];
      EXPECT_LT(Difference(found, expected), 0.02) << plan << bad;
    }
  }
}

// A companion is made from its segment alone.
TEST_P(SessionIndexTest, CompanionsAreTheSameBytesForAnyNumberOfThreads) {
  Open({.background_builds = false});
  const Tokens stored = StoreChain("a", std::vector<uint64_t>{3000}, 1);
  db_.reset();
  const std::string plain = dir_.File("plain");
  std::filesystem::rename(store(), plain);
  std::map<std::string, std::string> first;
  for (const uint32_t num_threads : {1u, 2u, 8u}) {
    db_.reset();
    std::filesystem::remove_all(store());
    std::filesystem::copy(plain, store(), std::filesystem::copy_options::recursive);
    Open({.background_threads = num_threads});
    ATTNDB_ASSERT_OK(db_->WaitForBackground());
    Session session = Resume(stored);
    BuildIndex(&session);
    const auto files = FilesIn(store() + "/segments");
    EXPECT_EQ(files.size(), 6u);  // A segment, its planes and its index, two files each.
    if (first.empty()) first = files;
    EXPECT_TRUE(files == first) << num_threads;
  }
}

// AlayaDB's Algorithm 1: of l0 as many tokens as there are, it finds all that are in range, unless
// so few keys are left of a graph that none leads to another.
class SessionDiprsTest : public DBFixture {
 protected:
  SessionDiprsTest() : DBFixture(/*background_builds=*/true) {}
};

TEST_F(SessionDiprsTest, AnswersAsAllKeysDo) {
  const Tokens stored = StoreChain("a", std::vector<uint64_t>{5000, 2100, 100}, 1);
  Session session = Resume(stored);
  (void)ProbeWith(&session, "topk(k=8,index=graph)");
  ATTNDB_ASSERT_OK(db_->WaitForBackground());
  for (const uint64_t num_tokens : {7220u, 6000u, 2500u, 300u, 3u}) {
    ATTNDB_ASSERT_OK(session.Crop(num_tokens));
    for (const std::string query : {"dipr(beta=3", "dipr(alpha=0.02", "dipr(beta=0"}) {
      const std::vector<float> all = ProbeWith(&session, query + ")");
      for (const char* expand : {"hidden", "all"}) {
        const std::string plan =
            query + ",index=graph,walk=diprs,l0=8000,expand=" + std::string(expand) + ")";
        EXPECT_LT(Difference(ProbeWith(&session, plan), all), 0.01) << plan << num_tokens;
      }
    }
  }
}

TEST_F(SessionDiprsTest, ExplainCountsClustersReadsThatWaitedAndWholeScans) {
  const Tokens stored = StoreChain("a", std::vector<uint64_t>{5000}, 1);
  const auto head_of = [&](const std::string& plan) {
    MakeReady(stored, plan);
    Session session = Resume(stored);
    (void)ProbeWith(&session, plan);
    return session.Explain(1)->heads[0];
  };
  EXPECT_GT(head_of("topk(k=8,index=clustered)").clusters_mean, 0);
  EXPECT_GT(head_of("topk(k=8,index=graph,beam_width=16)").hops_mean, 0);
  EXPECT_GT(head_of("topk(k=8,index=graph,beam_width=6000)").num_full_scans, 0u);
}

// Built with one set of options, and read by a store that has others.
TEST_F(SessionDiprsTest, RoarGraphsAnswerAsAllKeysDo) {
  Open({.roar_keys_per_query = 40, .roar_max_degree = 12, .roar_search_window = 60});
  const Tokens stored = StoreChain("a", std::vector<uint64_t>{5000}, 1);
  const std::string plan = "topk(k=60,index=roargraph,beam_width=600)";
  std::vector<float> first;
  {
    Session session = Resume(stored);
    (void)ProbeWith(&session, plan);
    ATTNDB_ASSERT_OK(db_->WaitForBackground());
    first = ProbeWith(&session, plan);
    EXPECT_LT(Difference(first, ProbeWith(&session, "topk(k=60)")), 0.05);
    const std::string heads = "topk(k=60,index=roargraph,graphs=head,beam_width=600)";
    (void)ProbeWith(&session, heads);
    ATTNDB_ASSERT_OK(db_->WaitForBackground());
    EXPECT_LT(Difference(ProbeWith(&session, heads), ProbeWith(&session, "topk(k=60)")), 0.05);
    const std::string published = "dipr(beta=3,index=roargraph,walk=diprs,l0=8000)";
    EXPECT_LT(Difference(ProbeWith(&session, published), ProbeWith(&session, "dipr(beta=3)")),
              0.01);
  }
  Open();
  Session session = Resume(stored);
  EXPECT_EQ(ProbeWith(&session, plan), first);
  EXPECT_EQ(db_->Describe("a")->segments[0].companions.size(), 3u);
}

// No graph covers the tail. Its best score is known before the graph is walked, so that with l0 = 0
// no key out of its range is followed.
TEST_F(SessionDiprsTest, TheTailsBestNarrowsTheWalk) {
  const Tokens stored = StoreChain("a", std::vector<uint64_t>{5000}, 1);
  Session session = Resume(stored, 300);
  const LayerSpec& shape = model_.spec().layers[1];
  std::vector<float> q(size_t{shape.num_q_heads} * shape.head_dim, 0.3f);
  for (size_t i = 0; i < q.size(); ++i) q[i] += 0.05f * std::sin(static_cast<float>(i));
  const TensorView view = test::ViewOf(q, shape.num_q_heads, shape.head_dim);
  ATTNDB_ASSERT_OK(session.SetPlan("dipr(beta=0,sink=0,window=1,index=graph,walk=diprs,l0=0)"));
  (void)session.Search(1, view);
  ATTNDB_ASSERT_OK(db_->WaitForBackground());
  ATTNDB_ASSERT_OK(session.SetPlan("dipr(beta=1e9,sink=0,window=1)"));
  ATTNDB_ASSERT_OK_AND_ASSIGN(const auto all, session.Search(1, view));
  ATTNDB_ASSERT_OK(session.SetPlan("dipr(beta=0,sink=0,window=1,index=graph,walk=diprs,l0=0)"));
  ATTNDB_ASSERT_OK_AND_ASSIGN(const auto found, session.Search(1, view));
  for (size_t head = 0; head < shape.num_q_heads; ++head) {
    float of_tail = -std::numeric_limits<float>::infinity();
    for (size_t i = 0; i < all[head].tokens.size(); ++i) {
      if (all[head].tokens[i] >= 5000) of_tail = std::max(of_tail, all[head].scores[i]);
    }
    ASSERT_FALSE(found[head].tokens.empty());
    for (const float score : found[head].scores) EXPECT_GE(score, of_tail);
  }
}

TEST_P(SessionIndexTest, AnswersAreTheSameBitsForAnyNumberOfThreads) {
  const Tokens stored = StoreChain("a", std::vector<uint64_t>{5000, 2100}, 1);
  const std::string plan = "topk(k=60," + GetParam() + ")";
  MakeReady(stored, plan);
  std::vector<float> first;
  for (const uint32_t num_threads : {1u, 2u, 5u}) {
    Open({.num_threads = num_threads});
    const std::vector<float> answer = AnswerOf(stored, plan);
    if (first.empty()) first = answer;
    EXPECT_EQ(answer, first) << num_threads;
  }
}

using SessionIndexRefusalTest = DBFixture;

TEST_F(SessionIndexRefusalTest, WhatIndexesCannotDoIsRefused) {
  Session session = NewSession();
  const auto code = [&](const std::string& plan) { return session.SetPlan(plan).code(); };
  EXPECT_EQ(code("mass(p=0.9,index=clustered)"), StatusCode::kUnsupported);
  EXPECT_EQ(code("auto(error=0.01,index=graph)"), StatusCode::kUnsupported);
  EXPECT_EQ(code("auto(error=0.01,index=clustered,bits=8)"), StatusCode::kUnsupported);
  EXPECT_EQ(code("topk(k=8,index=clustered,bits=4)"), StatusCode::kUnsupported);
  EXPECT_EQ(code("topk(k=8,index=clustered,effort=0)"), StatusCode::kInvalidArgument);
  EXPECT_EQ(code("topk(k=8,index=clustered,remainder=mean)"), StatusCode::kInvalidArgument);
  EXPECT_EQ(code("topk(k=8,index=clustered,exact_fallback=0.1)"), StatusCode::kInvalidArgument);
  EXPECT_EQ(code("topk(k=8,effort=2)"), StatusCode::kInvalidArgument);
  EXPECT_EQ(code("topk(k=8,index=graph,effort=2)"), StatusCode::kInvalidArgument);
  EXPECT_EQ(code("topk(k=8,index=graph,beam_width=0)"), StatusCode::kInvalidArgument);
  for (const std::string index : {"quest", "infllm", "wave"}) {
    const std::string by = ",index=" + index;
    EXPECT_EQ(code("topk(k=0" + by + ")"), StatusCode::kInvalidArgument);
    EXPECT_EQ(code("dipr(beta=3" + by + ")"), StatusCode::kUnsupported);
    EXPECT_EQ(code("mass(p=0.9" + by + ")"), StatusCode::kUnsupported);
    EXPECT_EQ(code("auto(error=0.1" + by + ")"), StatusCode::kUnsupported);
    EXPECT_EQ(code("topk(k=8,bits=4" + by + ")"), StatusCode::kUnsupported);
    EXPECT_EQ(code("topk(k=8,remainder=mean" + by + ")"), StatusCode::kInvalidArgument);
    EXPECT_EQ(code("topk(k=8,exact_fallback=0.1" + by + ")"), StatusCode::kInvalidArgument);
    ATTNDB_EXPECT_OK(session.SetPlan("topk(ratio=0.1" + by + ")"));
  }
  for (const char* index : {"clustered", "graph"}) {
    for (const char* query : {"topk(k=0", "topk(k=-1", "dipr(beta=-1", "dipr(alpha=0"}) {
      EXPECT_EQ(code(std::string(query) + ",index=" + index + ")"), StatusCode::kInvalidArgument);
    }
    ATTNDB_EXPECT_OK(session.SetPlan(std::string("dipr(beta=0,index=") + index + ")"));
  }
  ATTNDB_EXPECT_OK(session.SetPlan("topk(k=8,index=clustered,effort=1.5)"));
  ATTNDB_EXPECT_OK(session.SetPlan("dipr(beta=8,index=graph,beam_width=64)"));
}

INSTANTIATE_TEST_SUITE_P(
    Indexes, SessionIndexTest,
    ::testing::Values("index=clustered,effort=100", "index=graph,beam_width=5000",
                      "index=graph,expand=all,beam_width=5000",
                      "index=graph,graphs=head,beam_width=5000", "index=pq,m=16,b=8,effort=60",
                      "index=quest,effort=1000", "index=infllm,block=64,effort=1000",
                      "index=wave,remainder=drop,effort=1000"),
    [](const auto& test) {
      const size_t begin = test.param.find('=') + 1;
      std::string name = test.param.substr(begin, test.param.find(',') - begin);
      if (test.param.find("expand") != std::string::npos) name += "All";
      if (test.param.find("graphs") != std::string::npos) name += "OfHeads";
      name[0] = static_cast<char>(name[0] - 'a' + 'A');
      return name;
    });

}  // namespace
}  // namespace attndb
