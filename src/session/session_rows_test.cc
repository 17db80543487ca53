// Goal:   a session's answers do not depend on where the rows of its chain lie. It asks for no more
//         rows than its plan needs. Lost rows fail the step that needs them.
// Method: each plan over each shape of a chain, through layers in memory and through a source that
//         reads each row from the file; all that is derived is ready.
#include <cstring>
#include <fstream>
#include <limits>
#include <set>

#include "api/database.h"
#include "api/db_access.h"
#include "api/db_test_util.h"
#include "api/segment_file_test_util.h"
#include "testing/file_rows.h"

namespace attndb {
namespace {

using internal::Database;
using storage::RowPart;
using test::DBFixture;
using test::RowCounts;
using test::Tokens;
using test::ToyModel;

constexpr const char* kPlans[] = {"full",
                                  "window(sink=4,window=30)",
                                  "topk(k=30,sink=4,window=30)",
                                  "topk(k=30,bits=4,sink=4,window=30)",
                                  "topk(k=30,bits=8,remainder=sample:50)",
                                  "topk(k=30,bits=8,remainder=mean)",
                                  "topk(k=30,bits=8,exact_fallback=0.3)",
                                  "topk(k=30,index=clustered,sink=4,window=30)",
                                  "topk(k=10,index=graph,sink=4,window=30)",
                                  "dipr(beta=0.05,index=graph,beam_width=8,sink=4,window=30)",
                                  "topk(k=30,index=pq,m=4,b=8,sink=4,window=30)",
                                  "dipr(alpha=0.05,index=pq)",
                                  "mass(p=0.8,index=pq,m=16)",
                                  "auto(error=0.1,index=pq)",
                                  "pqcache",
                                  "topk(k=60,index=quest,page=8,sink=4,window=30)",
                                  "topk(k=200,index=infllm,block=32,sink=4,window=30)",
                                  "topk(k=60,index=wave,sink=4,window=30)",
                                  "dipr(beta=0.05,index=graph,remainder=clusters:0.5)",
                                  "retroinfer",
                                  "mass(p=0.8,bits=8,sink=2,window=5)",
                                  "auto(error=0.1)",
                                  "auto(error=0.1,index=clustered)",
                                  "auto(error=0.1,value_bits=8)"};

struct ChainShape {
  const char* name;
  std::vector<uint64_t> segments;  // Tokens of each.
  uint64_t num_reused = 0;         // The last segment may be cut.
  uint64_t num_more = 0;           // In the tail.
};
const ChainShape kShapes[] = {{"one segment", {5000}, 5000, 20},
                              {"segments that shrink", {5000, 2100, 200, 60}, 7360, 300},
                              {"a segment of which a part is reused", {5000, 900}, 5600, 40},
                              {"a tail alone", {}, 0, 600}};

class SessionRowsTest : public DBFixture {
 protected:
  SessionRowsTest() : DBFixture(/*background_builds=*/true) {}

  // Prices are fixed and nothing is learned, so that equal calls have equal plans.
  void OpenWith(std::function<std::unique_ptr<storage::ChainSource>()> make_rows) {
    db_.reset();
    const DBOptions options = {.num_threads = 2, .measure_machine = false};
    Result<std::shared_ptr<Database>> database =
        Database::Open(store(), options, storage::PosixFileSystem(), {.make_rows = make_rows});
    ASSERT_THAT(database, test::IsOk());
    db_.emplace(internal::DbAccess::Wrap(*std::move(database)));
  }
  void OpenOnFiles() {
    OpenWith([this] { return std::make_unique<test::FileRows>(counts_); });
  }

  Session SessionOn(const Tokens& stored, const ChainShape& shape, const std::string& plan) {
    const Tokens more = ToyModel::Tokens(shape.num_more, 77);
    const Tokens prompt =
        test::Concat(Tokens(stored.begin(), stored.begin() + int64_t(shape.num_reused)), more);
    SessionStart start = Start(prompt, {.plan = plan});
    EXPECT_EQ(start.session.num_reused(), shape.num_reused);
    ATTNDB_EXPECT_OK(AppendTokens(&start.session, start.rest, nullptr));
    return std::move(start.session);
  }

  // Probes each plan on a session of its own.
  std::vector<std::vector<float>> ProbeAll(const Tokens& stored, const ChainShape& shape) {
    std::vector<std::vector<float>> answers;
    for (const char* plan : kPlans) {
      Session session = SessionOn(stored, shape, plan);
      (void)counts_->Take();
      answers.push_back(Probe(&session));
      rows_read_.push_back(counts_->Take());
    }
    return answers;
  }

  const std::shared_ptr<RowCounts> counts_ = std::make_shared<RowCounts>();
  std::vector<std::set<RowCounts::Row>> rows_read_;  // By plan: all layers as one.
};

TEST_F(SessionRowsTest, AnswersDoNotDependOnTheSource) {
  for (const ChainShape& shape : kShapes) {
    SCOPED_TRACE(shape.name);
    db_.reset();
    std::filesystem::remove_all(store());
    OpenWith(nullptr);
    Tokens stored = StoreChain("a", shape.segments, 1);
    (void)ProbeAll(stored, shape);  // Asks for what is derived.
    ATTNDB_ASSERT_OK(db_->WaitForBackground());
    const std::vector<std::vector<float>> in_memory = ProbeAll(stored, shape);
    OpenOnFiles();
    (void)ProbeAll(stored, shape);  // Reads what is derived into memory.
    rows_read_.clear();
    const std::vector<std::vector<float>> from_files = ProbeAll(stored, shape);
    for (size_t i = 0; i < std::size(kPlans); ++i) {
      EXPECT_EQ(from_files[i], in_memory[i]) << kPlans[i];
    }
  }
}

// Heads with NaN or Inf in one segment run full, from either source. Other heads run the plan.
TEST_F(SessionRowsTest, HeadsThatAreNotFiniteDoNotDependOnTheSource) {
  const ChainShape& shape = kShapes[1];
  const auto spoil = [](LayerId layer, auto* k, auto* v) {
    if (layer == 0) v->at((10 * 2 + 1) * 16 + 3) = std::numeric_limits<float>::infinity();
    if (layer == 1) k->at((5 * 3 + 2) * 24 + 7) = std::numeric_limits<float>::quiet_NaN();
  };
  Tokens stored = StoreChain("a", std::span(shape.segments).first(2), 1);
  {
    Session session = std::move(Start(test::Concat(stored, Tokens{4000})).session);
    const Tokens broken = ToyModel::Tokens(shape.segments[2], 50);
    ATTNDB_ASSERT_OK(AppendTokens(&session, broken, spoil));
    stored = test::Concat(stored, broken);
    ATTNDB_ASSERT_OK(db_->Store(session, stored, {.name = "a", .replace = true}));
  }
  const ChainShape broken = {"", {}, stored.size(), 20};
  (void)ProbeAll(stored, broken);
  ATTNDB_ASSERT_OK(db_->WaitForBackground());
  OpenWith(nullptr);
  (void)ProbeAll(stored, broken);
  const std::vector<std::vector<float>> in_memory = ProbeAll(stored, broken);
  OpenOnFiles();
  (void)ProbeAll(stored, broken);
  rows_read_.clear();
  const std::vector<std::vector<float>> from_files = ProbeAll(stored, broken);
  for (size_t i = 0; i < std::size(kPlans); ++i) {
    ASSERT_EQ(from_files[i].size(), in_memory[i].size());
    // Bit by bit, since NaN is not equal to itself.
    EXPECT_EQ(
        std::memcmp(from_files[i].data(), in_memory[i].data(), in_memory[i].size() * sizeof(float)),
        0)
        << kPlans[i];
    const std::string_view plan = kPlans[i];
    if (plan.starts_with("window")) continue;
    // All rows of the two heads, and not all of the third.
    EXPECT_GE(rows_read_[i].size(), 2 * 2 * stored.size()) << plan;
    // So few tokens teach draws nothing, and bounds of heads that are broken are infinite.
    if (plan == "full" || plan.starts_with("auto") || plan.find("fallback") != plan.npos) continue;
    EXPECT_LT(rows_read_[i].size(), 3 * 2 * stored.size()) << plan;
  }
}

// The reads are those of the plans, like the results.
TEST_F(SessionRowsTest, APlanAsksForNoMoreThanItNeeds) {
  const ChainShape& shape = kShapes[1];
  const Tokens stored = StoreChain("a", shape.segments, 1);
  (void)ProbeAll(stored, shape);
  ATTNDB_ASSERT_OK(db_->WaitForBackground());
  OpenOnFiles();
  (void)ProbeAll(stored, shape);
  rows_read_.clear();
  (void)ProbeAll(stored, shape);
  const auto rows_of = [&](std::string_view plan) -> const std::set<RowCounts::Row>& {
    return rows_read_[static_cast<size_t>(
        std::ranges::find(kPlans, plan, [](const char* text) { return std::string_view(text); }) -
        std::begin(kPlans))];
  };
  // Two layers of 2 and 3 kv heads: 3 in all that differ; K and V of each.
  const size_t all = size_t{3} * 2 * shape.num_reused;
  EXPECT_EQ(rows_of("full").size(), all);
  // The window lies in the tail.
  EXPECT_EQ(rows_of("window(sink=4,window=30)").size(), size_t{3} * 2 * 4);
  for (const char* plan :
       {"topk(k=30,bits=4,sink=4,window=30)", "topk(k=30,bits=8,remainder=sample:50)",
        "topk(k=30,index=clustered,sink=4,window=30)",
        "topk(k=30,index=pq,m=4,b=8,sink=4,window=30)", "topk(k=10,index=graph,sink=4,window=30)",
        "dipr(beta=0.05,index=graph,beam_width=8,sink=4,window=30)",
        "topk(k=60,index=quest,page=8,sink=4,window=30)",
        "topk(k=200,index=infllm,block=32,sink=4,window=30)"}) {
    EXPECT_LT(rows_of(plan).size(), all / 2) << plan;
    EXPECT_GT(rows_of(plan).size(), 0u) << plan;
    // A token whose value was read was chosen by its exact score.
    for (const auto& [run, head, part, row] : rows_of(plan)) {
      if (part == RowPart::kKeys || std::string_view(plan).find("sample") != std::string::npos) {
        continue;
      }
      EXPECT_TRUE(rows_of(plan).contains({run, head, RowPart::kKeys, row}))
          << plan << ": run " << run << ", head " << head << ", row " << row;
    }
  }
}

// Layers are brought into memory run by run, when a row is asked for.
TEST_F(SessionRowsTest, AWindowLeavesTheMiddleOnDisk) {
  const std::vector<uint64_t> sizes = {900, 500, 200};
  const Tokens stored = StoreChain("a", sizes, 1);
  Open();
  const ChainShape shape = {"", sizes, 1600, 10};
  Session session = SessionOn(stored, shape, "window(sink=4,window=30)");
  const uint64_t before = session.Explain().memory_bytes;
  (void)Probe(&session);
  const uint64_t window = session.Explain().memory_bytes - before;
  (void)ProbeWith(&session, "full");
  const uint64_t full = session.Explain().memory_bytes - before;
  // The first and the last segment, of 1,100 tokens, but for granules.
  EXPECT_NEAR(double(window) / double(full), 1100.0 / 1600, 0.05);
}

class LostRowsTest : public SessionRowsTest {
 protected:
  // Bytes of K and V of the context's segment.
  void Damage(const ContextInfo& info, size_t segment) {
    std::fstream file(test::SegmentFile(store(), info.segments[segment]),
                      std::ios::in | std::ios::out | std::ios::binary);
    const uint64_t bytes = info.segments[segment].file_bytes;
    for (uint64_t at = bytes / 4; at < 3 * bytes / 4; at += 2048) {
      file.seekp(static_cast<int64_t>(at));
      file.put('\x5a');
    }
  }
};

TEST_F(LostRowsTest, FailTheStepThatNeedsThemAndNothingElse) {
  for (const bool on_files : {false, true}) {
    SCOPED_TRACE(on_files);
    db_.reset();
    std::filesystem::remove_all(store());
    OpenWith(nullptr);
    const std::vector<uint64_t> sizes = {900, 500, 200};
    const Tokens stored = StoreChain("a", sizes, 1);
    const Tokens other = StoreChain("b", std::vector<uint64_t>{300}, 50);
    const ContextInfo info = *db_->Describe("a");
    on_files ? OpenOnFiles() : OpenWith(nullptr);
    const ChainShape shape = {"", sizes, 1600, 10};
    Session session = SessionOn(stored, shape, "window(sink=4,window=30)");
    Damage(info, 1);
    const std::vector<float> window = Probe(&session);  // Reads none of that segment.
    ATTNDB_ASSERT_OK(session.SetPlan("full"));
    std::vector<float> out;
    EXPECT_THAT(model_.Probe(&session, 7, &out),
                test::FailsWith(StatusCode::kCorruption, ::testing::HasSubstr("segment")));
    // The session goes on, with a plan that needs none of the lost rows.
    ATTNDB_ASSERT_OK(session.Crop(session.num_tokens()));
    EXPECT_EQ(ProbeWith(&session, "window(sink=4,window=30)"), window);
    ExpectAnswers(test::Concat(other, Tokens{3}), other.size());
    EXPECT_TRUE(db_->Describe("a")->damaged);
    EXPECT_FALSE(db_->Describe("b")->damaged);
  }
}

// A plan that chooses holds the rows of all its segments before it reads any; it fails as early.
TEST_F(LostRowsTest, AreToldByAPlanThatChoosesToo) {
  const std::vector<uint64_t> sizes = {900, 500, 200};
  for (const char* plan : {"full", "topk(k=30,sink=4,window=30)"}) {
    SCOPED_TRACE(plan);
    db_.reset();
    std::filesystem::remove_all(store());
    OpenWith(nullptr);
    const Tokens stored = StoreChain("a", sizes, 1);
    const ContextInfo info = *db_->Describe("a");
    OpenWith(nullptr);
    Session session = SessionOn(stored, {"", sizes, 1600, 10}, plan);
    Damage(info, 1);
    std::vector<float> out;
    EXPECT_EQ(model_.Probe(&session, 7, &out).code(), StatusCode::kCorruption);
    EXPECT_TRUE(db_->Describe("a")->damaged);
    EXPECT_THAT(model_.Probe(&session, 7, &out),
                test::FailsWith(StatusCode::kFailedPrecondition, ::testing::HasSubstr("failed")));
  }
}

// A store that closes writes down losses that no call has looked up in its catalog.
TEST_F(LostRowsTest, AreRememberedByTheNextProcess) {
  const std::vector<uint64_t> sizes = {900, 500, 200};
  const Tokens stored = StoreChain("a", sizes, 1);
  const ContextInfo info = *db_->Describe("a");
  Open();
  {
    Session session = SessionOn(stored, {"", sizes, 1600, 10}, "full");
    Damage(info, 1);
    std::vector<float> out;
    EXPECT_EQ(model_.Probe(&session, 7, &out).code(), StatusCode::kCorruption);
  }
  Open();
  EXPECT_TRUE(db_->Describe("a")->damaged);
}

}  // namespace
}  // namespace attndb
