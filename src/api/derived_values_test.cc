// Goal:   plans that read means of values answer nearly as the full plan does, and the same whether
//         these were made in memory or read from disk; they come to disk only for segments that a
//         plan has asked them of, and never change an answer when they are damaged or have no room.
// Method: toy model's contexts with background builds; plan against plan.
#include "api/database.h"
#include "api/db_access.h"
#include "api/db_test_util.h"

namespace attndb {
namespace {

using test::DBFixture;
using test::Tokens;
using test::ToyModel;
using ::testing::ElementsAre;

constexpr const char* kPlan = "topk(k=30,bits=4,remainder=mean)";

class DerivedValuesTest : public DBFixture {
 protected:
  DerivedValuesTest() : DBFixture(/*background_builds=*/true) {}

  // A context of one segment, with the objects that are always built on disk.
  Tokens StoreLong(const std::string& name, uint64_t seed, uint64_t num_tokens = 600) {
    const Tokens tokens = StoreChain(name, std::vector<uint64_t>{num_tokens}, seed);
    ATTNDB_EXPECT_OK(db_->WaitForBackground());
    return tokens;
  }
  std::vector<float> AskOnce(const DB& db, const Tokens& stored, const std::string& plan) {
    SessionStart start =
        *db.CreateSession(model_.spec(), test::Concat(stored, Tokens{5}), {.plan = plan});
    EXPECT_EQ(start.session.num_reused(), stored.size());
    ATTNDB_EXPECT_OK(model_.Step(&start.session, start.rest));
    return Probe(&start.session);
  }
  // When all is ready that the plan asks for.
  std::vector<float> AskOf(const DB& db, const Tokens& stored, const std::string& plan) {
    (void)AskOnce(db, stored, plan);
    ATTNDB_EXPECT_OK(db.WaitForBackground());
    return AskOnce(db, stored, plan);
  }
  std::vector<float> Ask(const Tokens& stored, const std::string& plan = kPlan) {
    return AskOf(*db_, stored, plan);
  }
  std::vector<std::string> Kinds(const std::string& name) const {
    std::vector<std::string> kinds;
    const ContextInfo info = *db_->Describe(name);
    for (const SegmentInfo& segment : info.segments) {
      for (const auto& companion : segment.companions) kinds.push_back(companion.kind);
    }
    std::ranges::sort(kinds);
    return kinds;
  }
  derived::Cache::Counters Counters() const {
    const internal::Database& database = *internal::DbAccess::database(*db_);
    return database.store().objects().counters(database.kinds().ForUse(derived::kValueMeans));
  }
  std::string PathOf(const std::string& kind) const {
    for (const auto& entry : std::filesystem::directory_iterator(store() + "/segments")) {
      const std::string path = entry.path().string();
      if (path.find(kind) != std::string::npos && path.ends_with(".obj")) return path;
    }
    return "";
  }
};

TEST_F(DerivedValuesTest, WhatIsLeftOutIsEstimatedFromThem) {
  const Tokens stored = StoreChain("a", std::vector<uint64_t>{900, 400, 100}, 1);
  const std::vector<float> full = Ask(stored, "full");
  for (const char* bits : {"exact", "8"}) {
    const std::string query = std::string("topk(k=30,bits=") + bits;
    const double dropped = Difference(Ask(stored, query + ")"), full);
    const double estimated = Difference(Ask(stored, query + ",remainder=mean)"), full);
    EXPECT_LT(estimated, 0.7 * dropped) << bits;
  }
}

TEST_F(DerivedValuesTest, TheyComeToDiskOnceAPlanHasReadThem) {
  const Tokens stored = StoreLong("a", 1);
  StoreLong("unasked", 2);
  EXPECT_THAT(Kinds("a"), ElementsAre("key_planes_3"));
  const std::vector<float> first = Ask(stored);
  EXPECT_EQ(Counters().num_built, 0u);
  EXPECT_EQ(Counters().num_read, model_.spec().num_layers());
  EXPECT_THAT(Kinds("a"), ElementsAre("key_planes_3", "value_means_1"));
  EXPECT_THAT(Kinds("unasked"), ElementsAre("key_planes_3"));
  EXPECT_EQ(db_->Stats()->num_pending_companions, 0u);
  Open();
  EXPECT_EQ(Ask(stored), first);
  EXPECT_EQ(Counters().num_read, model_.spec().num_layers());
  EXPECT_EQ(Counters().num_built, 0u);
  EXPECT_TRUE(db_->Verify()->ok());
  ATTNDB_ASSERT_OK(db_->Drop("a"));
  ATTNDB_ASSERT_OK(db_->Drop("unasked"));
  EXPECT_EQ(NumSegmentFiles(), 0u);
}

TEST_F(DerivedValuesTest, APlanOverKeysHasThemToo) {
  const Tokens stored = StoreLong("a", 1);
  Ask(stored, "topk(k=30,remainder=mean)");
  EXPECT_THAT(Kinds("a"), ElementsAre("key_planes_3", "value_means_1"));
}

TEST_F(DerivedValuesTest, BoundsOfTheOutputReadNormsAndAreTheSameFromDisk) {
  const Tokens stored = StoreLong("a", 1);
  const std::string plan = "topk(k=30,bits=8,exact_fallback=1)";
  Ask(stored, plan);
  const auto bounds = [&] {
    SessionStart start = Start(test::Concat(stored, Tokens{5}), {.plan = plan});
    ATTNDB_EXPECT_OK(model_.Step(&start.session, start.rest));
    Probe(&start.session);
    const LayerExplain layer = *start.session.Explain(1);
    const HeadExplain& head = layer.heads[0];
    EXPECT_EQ(head.last_mass_bounds.size(), head.last_out_bounds.size());
    EXPECT_GT(head.mass_bound, 0);
    EXPECT_GT(head.out_bound, 0);
    return head.last_out_bounds;
  };
  const std::vector<double> made = bounds();
  EXPECT_THAT(Kinds("a"), ElementsAre("key_planes_3", "value_means_1"));
  Open();
  EXPECT_EQ(bounds(), made);
  EXPECT_EQ(Counters().num_built, 0u);
}

TEST_F(DerivedValuesTest, ShortSegmentsAreReadExactly) {
  const Tokens stored = StoreLong("a", 1, 255);
  const std::vector<float> full = Ask(stored, "full");
  EXPECT_LT(Difference(Ask(stored, "topk(k=3,sink=1,window=1,remainder=mean)"), full), 1e-4);
  EXPECT_EQ(NumSegmentFiles(), 2u);
}

TEST_F(DerivedValuesTest, DamagedOnesAreMadeAgainAndAnswersStayRight) {
  const Tokens stored = StoreLong("a", 1);
  const std::vector<float> right = Ask(stored);
  for (const double place : {0.01, 0.3, 0.9}) {
    const std::string path = PathOf("value_means_1");
    ASSERT_NE(path, "");
    db_.reset();
    {
      std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
      const auto at =
          static_cast<int64_t>(place * static_cast<double>(std::filesystem::file_size(path)));
      file.seekg(at);
      const auto byte = static_cast<char>(file.get() ^ 0x10);
      file.seekp(at);
      file.put(byte);
    }
    Open();
    EXPECT_EQ(Ask(stored), right) << place;
    EXPECT_EQ(Ask(stored), right) << place;
    EXPECT_FALSE(db_->Describe("a")->damaged);
  }
}

TEST_F(DerivedValuesTest, AReaderMakesThemInMemoryAndWritesNothing) {
  const Tokens stored = StoreLong("a", 1);
  const auto before = FilesIn(store() + "/segments");
  {
    const DB reader = *DB::Open(store(), {.read_only = true});
    const std::vector<float> first = AskOf(reader, stored, kPlan);
    EXPECT_EQ(FilesIn(store() + "/segments"), before);
    EXPECT_EQ(Ask(stored), first);
  }
}

TEST_F(DerivedValuesTest, AQuotaHoldsThemOut) {
  const Tokens stored = StoreLong("a", 1);
  ATTNDB_ASSERT_OK(db_->SetQuota(db_->Stats()->file_bytes + 2000));
  const std::vector<float> first = Ask(stored);
  EXPECT_THAT(Kinds("a"), ElementsAre("key_planes_3"));
  ATTNDB_ASSERT_OK(db_->SetQuota(0));
  Open();
  EXPECT_EQ(Ask(stored), first);
  EXPECT_THAT(Kinds("a"), ElementsAre("key_planes_3", "value_means_1"));
}

}  // namespace
}  // namespace attndb
