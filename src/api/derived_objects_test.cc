// Goal:   planes of stored segments come to disk by themselves, are used by later processes, go
//         with their segments, and never change an answer once they are ready: not when they were
//         damaged, lost, half-written or in the way of a quota.
// Method: a toy model's contexts with background builds; files counted, damaged and removed;
//         answers of a plan that reads planes against those of the same plan without any on disk.
#include <algorithm>
#include <chrono>
#include <thread>

#include "api/database.h"
#include "api/db_access.h"
#include "api/db_test_util.h"
#include "common/random.h"
#include "testing/fault_file_system.h"
#include "testing/seed.h"

namespace attndb {
namespace {

using test::DBFixture;
using test::FailsWith;
using test::Tokens;
using test::ToyModel;
using ::testing::HasSubstr;

constexpr const char* kPlan = "topk(k=60,bits=4,remainder=sample:32)";
constexpr uint64_t kFilesOfOne = 4;  // A segment and its planes, two files each.

class DerivedObjectsTest : public DBFixture {
 protected:
  DerivedObjectsTest() : DBFixture(/*background_builds=*/true) {}

  // A context of one segment that is long enough; its planes are on disk.
  Tokens StoreLong(const std::string& name, uint64_t seed, uint64_t num_tokens = 600) {
    const Tokens tokens = StoreChain(name, std::vector<uint64_t>{num_tokens}, seed);
    ATTNDB_EXPECT_OK(db_->WaitForBackground());
    return tokens;
  }
  DBStats Stats() const { return *db_->Stats(); }
  static derived::Cache::Counters PlaneCounters(const DB& db) {
    const internal::Database& database = *internal::DbAccess::database(db);
    return database.store().objects().counters(database.kinds().ForUse(derived::kKeyPlanes));
  }
  // The output of a plan that reads planes for a stored context, with the objects that are ready
  // now.
  std::vector<float> AskOnce(const DB& db, const Tokens& stored) {
    SessionStart start =
        *db.CreateSession(model_.spec(), test::Concat(stored, Tokens{5}), {.plan = kPlan});
    EXPECT_EQ(start.session.num_reused(), stored.size());
    ATTNDB_EXPECT_OK(model_.Step(&start.session, start.rest));
    return Probe(&start.session);
  }
  // Like AskOnce, after all requested objects are ready.
  std::vector<float> AskOf(const DB& db, const Tokens& stored) {
    (void)AskOnce(db, stored);
    ATTNDB_EXPECT_OK(db.WaitForBackground());
    return AskOnce(db, stored);
  }
  std::vector<float> Ask(const Tokens& stored) { return AskOf(*db_, stored); }
  // The same without any planes on disk.
  std::vector<float> AskWithout(const Tokens& stored) {
    const std::string without = dir_.File("without");
    std::filesystem::remove_all(without);
    std::filesystem::copy(store(), without, std::filesystem::copy_options::recursive);
    for (const std::string& path : PlanePaths(without)) std::filesystem::remove(path);
    return AskOf(*DB::Open(without, {.read_only = true}), stored);
  }
  static std::vector<std::string> PlanePaths(const std::string& dir) {
    std::vector<std::string> paths;
    for (const auto& entry : std::filesystem::directory_iterator(dir + "/segments")) {
      const std::string path = entry.path().string();
      if (path.find("key_planes") != std::string::npos) paths.push_back(path);
    }
    std::ranges::sort(paths);
    return paths;
  }
  std::vector<std::string> PlanePaths() const { return PlanePaths(store()); }
  static void FlipBit(const std::string& path, int64_t offset) {
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekg(offset);
    const auto byte = static_cast<char>(file.get() ^ 0x10);
    file.seekp(offset);
    file.put(byte);
  }
};

TEST_F(DerivedObjectsTest, PlanesComeToDiskAndAreReadByTheNextProcess) {
  const Tokens stored = StoreLong("a", 1);
  EXPECT_EQ(NumSegmentFiles(), kFilesOfOne);
  const DBStats stats = Stats();
  EXPECT_EQ(stats.num_companions, 1u);
  EXPECT_EQ(stats.num_pending_companions, 0u);
  EXPECT_EQ(stats.num_companions_built, 1u);
  EXPECT_GT(stats.background_seconds, 0);
  const ContextInfo info = *db_->Describe("a");
  ASSERT_EQ(info.segments.size(), 1u);
  ASSERT_EQ(info.segments[0].companions.size(), 1u);
  EXPECT_EQ(info.segments[0].companions[0].kind, "key_planes_3");
  EXPECT_EQ(info.companion_bytes, stats.companion_bytes);
  EXPECT_EQ(info.file_bytes, info.segments[0].file_bytes + info.companion_bytes);
  EXPECT_EQ(stats.file_bytes, info.file_bytes);
  EXPECT_EQ(info.num_pending_companions, 0u);

  const std::vector<float> built = AskWithout(stored);
  Open();
  EXPECT_EQ(Ask(stored), built);
  EXPECT_EQ(PlaneCounters(*db_).num_read, model_.spec().num_layers());
  EXPECT_EQ(PlaneCounters(*db_).num_built, 0u);
}

TEST_F(DerivedObjectsTest, ShortSegmentsHaveNone) {
  StoreLong("a", 1, 255);
  EXPECT_EQ(NumSegmentFiles(), 2u);
  EXPECT_EQ(Stats().num_pending_companions, 0u);
}

TEST_F(DerivedObjectsTest, HeadsWithNaNAndLayersWithAWindowHaveNone) {
  ModelSpec spec = model_.spec();
  spec.layers[0].sliding_window = 50;
  const Tokens stored = ToyModel::Tokens(600, 1);
  const test::KvArrays kv(model_, stored, [](LayerId layer, auto* k, auto*) {
    if (layer == 1) (*k)[33] = std::numeric_limits<float>::infinity();  // Head 0 or 1, token 0.
  });
  ATTNDB_ASSERT_OK(db_->Import(spec, stored, kv.layers(), {.name = "a"}));
  ATTNDB_ASSERT_OK(db_->WaitForBackground());
  EXPECT_EQ(Stats().num_companions, 1u);
  const uint64_t bytes = Stats().companion_bytes;
  StoreLong("whole", 2);
  EXPECT_LT(bytes, Stats().companion_bytes - bytes);
}

TEST_F(DerivedObjectsTest, MergedSegmentsGetNewOnesAndTheOldGo) {
  const Tokens stored = StoreLong("a", 1, 300);
  Tokens more = test::Concat(stored, ToyModel::Tokens(400, 2));
  ATTNDB_ASSERT_OK(StoreTokens(more, {.name = "a", .replace = true}));
  ATTNDB_ASSERT_OK(db_->WaitForBackground());
  EXPECT_EQ(Stats().num_segments, 1u);
  EXPECT_EQ(Stats().num_companions, 1u);
  EXPECT_EQ(NumSegmentFiles(), kFilesOfOne);
  EXPECT_EQ(Ask(more), AskWithout(more));
}

TEST_F(DerivedObjectsTest, CompactRebuildsThem) {
  const Tokens stored = StoreChain("a", std::vector<uint64_t>{900, 400, 300}, 1);
  ATTNDB_ASSERT_OK(db_->Compact());
  ATTNDB_ASSERT_OK(db_->WaitForBackground());
  EXPECT_EQ(Stats().num_segments, 1u);
  EXPECT_EQ(NumSegmentFiles(), kFilesOfOne);
  EXPECT_EQ(Ask(stored), AskWithout(stored));
}

TEST_F(DerivedObjectsTest, TheyGoWithTheirSegment) {
  StoreLong("a", 1);
  StoreLong("b", 2);
  EXPECT_EQ(NumSegmentFiles(), 2 * kFilesOfOne);
  ATTNDB_ASSERT_OK(db_->Drop("a"));
  EXPECT_EQ(NumSegmentFiles(), kFilesOfOne);
  EXPECT_EQ(Stats().num_companions, 1u);
  // Evicted, to make room.
  ATTNDB_ASSERT_OK(db_->SetQuota(Stats().file_bytes + 1000));
  StoreLong("c", 3);
  EXPECT_THAT(db_->Describe("b"), FailsWith(StatusCode::kNotFound, HasSubstr("b")));
  EXPECT_EQ(NumSegmentFiles(), kFilesOfOne);
}

TEST_F(DerivedObjectsTest, OneThatIsBuiltWhenItsContextGoesLeavesNothing) {
  for (uint64_t seed = 1; seed <= 5; ++seed) {
    StoreChain("a", std::vector<uint64_t>{3000}, seed);
    std::this_thread::sleep_for(std::chrono::milliseconds(seed));
    ATTNDB_ASSERT_OK(db_->Drop("a"));
    ATTNDB_ASSERT_OK(db_->WaitForBackground());
    EXPECT_EQ(NumSegmentFiles(), 0u);
  }
}

TEST_F(DerivedObjectsTest, ClosingDoesNotWaitAndTheNextOpenGoesOn) {
  const Tokens stored = StoreChain("a", std::vector<uint64_t>{3000}, 1);
  Open();
  ATTNDB_ASSERT_OK(db_->WaitForBackground());
  EXPECT_EQ(NumSegmentFiles(), kFilesOfOne);
  EXPECT_EQ(Ask(stored), AskWithout(stored));
}

TEST_F(DerivedObjectsTest, WaitingTellsHowFar) {
  StoreChain("a", std::vector<uint64_t>{2000}, 1);
  uint64_t total = 0;
  ATTNDB_EXPECT_OK(db_->WaitForBackground({.progress = [&](uint64_t done, uint64_t all) {
    EXPECT_LE(done, all);
    total = all;
    return true;
  }}));
  EXPECT_EQ(total % db_->Describe("a")->kv_bytes, 0u);
}

TEST_F(DerivedObjectsTest, DamagedOnesAreBuiltAgainAndAnswersStayRight) {
  const Tokens stored = StoreLong("a", 1);
  const std::vector<float> right = AskWithout(stored);
  Random random(test::SeedOr(5));
  for (int i = 0; i < 30; ++i) {
    const std::vector<std::string> paths = PlanePaths();
    ASSERT_EQ(paths.size(), 2u);
    db_.reset();
    const std::string& path = paths[random.Uniform(2)];
    FlipBit(path, static_cast<int64_t>(random.Uniform(std::filesystem::file_size(path))));
    Open();
    EXPECT_EQ(Ask(stored), right) << path;
    ATTNDB_ASSERT_OK(db_->WaitForBackground());
    // Damage between sections, where there is only padding, may go unseen until Verify.
    if (PlanePaths() == paths) {
      EXPECT_FALSE(db_->Verify()->ok()) << path;
      ATTNDB_ASSERT_OK(db_->WaitForBackground());
    }
    EXPECT_NE(PlanePaths(), paths);
    EXPECT_TRUE(db_->Verify()->ok());
    EXPECT_FALSE(db_->Describe("a")->damaged);
    EXPECT_EQ(NumSegmentFiles(), kFilesOfOne);
  }
}

TEST_F(DerivedObjectsTest, VerifyFindsDamageThatNoQueryMet) {
  StoreLong("a", 1);
  const std::vector<std::string> paths = PlanePaths();
  std::filesystem::remove(paths[1]);
  ATTNDB_ASSERT_OK_AND_ASSIGN(const VerifyReport report, db_->Verify());
  ASSERT_EQ(report.damages.size(), 1u);
  EXPECT_THAT(report.damages[0].file, HasSubstr("key_planes"));
  EXPECT_THAT(report.damages[0].message, HasSubstr("no context is harmed"));
  EXPECT_TRUE(report.damages[0].contexts.empty());
  ATTNDB_ASSERT_OK(db_->WaitForBackground());
  EXPECT_TRUE(db_->Verify()->ok());
  EXPECT_EQ(NumSegmentFiles(), kFilesOfOne);
}

TEST_F(DerivedObjectsTest, AReaderBesideTheWriterUsesThemAndWritesNothing) {
  const Tokens stored = StoreLong("a", 1);
  const DB reader = *DB::Open(store(), {.read_only = true});
  const std::vector<float> right = AskWithout(stored);
  EXPECT_EQ(AskOf(reader, stored), right);
  EXPECT_EQ(PlaneCounters(reader).num_built, 0u);
  // Damage is the writer's to mend.
  const DB second = *DB::Open(store(), {.read_only = true});
  const std::vector<std::string> paths = PlanePaths();
  FlipBit(paths[0], 5);
  const auto before = FilesIn(store() + "/segments");
  EXPECT_FALSE(second.Verify()->ok());
  EXPECT_EQ(AskOf(second, stored), right);
  EXPECT_EQ(PlaneCounters(second).num_built, model_.spec().num_layers());
  EXPECT_EQ(FilesIn(store() + "/segments"), before);
}

TEST_F(DerivedObjectsTest, AQuotaHoldsThemOutButThemAlone) {
  StoreLong("a", 1);
  const uint64_t segment_bytes = db_->Describe("a")->segments[0].file_bytes;
  ATTNDB_ASSERT_OK(db_->Pin("a"));
  // Room for a second context if the first one's planes go.
  ATTNDB_ASSERT_OK(db_->SetQuota(2 * segment_bytes + 2000));
  StoreLong("b", 2);
  ATTNDB_EXPECT_OK(db_->Describe("a"));
  ATTNDB_EXPECT_OK(db_->Describe("b"));
  EXPECT_EQ(Stats().num_companions, 0u);
  EXPECT_EQ(Stats().num_pending_companions, 2u);
  EXPECT_EQ(NumSegmentFiles(), 4u);
  // With room again, Compact schedules missing builds.
  ATTNDB_ASSERT_OK(db_->SetQuota(0));
  ATTNDB_ASSERT_OK(db_->Compact());
  ATTNDB_ASSERT_OK(db_->WaitForBackground());
  EXPECT_EQ(Stats().num_pending_companions, 0u);
}

TEST_F(DerivedObjectsTest, WhatWasDroppedWhileItsPlanesAreBuiltFillsNoQuota) {
  StoreLong("first", 1, 3000);
  const uint64_t segment_bytes = db_->Describe("first")->segments[0].file_bytes;
  ATTNDB_ASSERT_OK(db_->Drop("first"));
  ATTNDB_ASSERT_OK(db_->SetQuota(segment_bytes * 3 / 2));
  for (uint64_t round = 0; round < 10; ++round) {
    std::optional<Session> a = NewSession();
    std::optional<Session> b = NewSession();
    const Tokens tokens = ToyModel::Tokens(3000, round);
    ATTNDB_ASSERT_OK(AppendTokens(&*a, tokens, nullptr));
    ATTNDB_ASSERT_OK(AppendTokens(&*b, tokens, nullptr));
    ATTNDB_ASSERT_OK(db_->Store(*a, tokens, {.name = "a"}));
    a.reset();
    std::this_thread::sleep_for(std::chrono::microseconds(100 * round));  // Until it is under way.
    ATTNDB_ASSERT_OK(db_->Drop("a"));
    ATTNDB_ASSERT_OK(db_->Store(*b, tokens, {.name = "b"}));
    b.reset();
    ATTNDB_ASSERT_OK(db_->Drop("b"));
  }
}

// An object of an earlier version whose planes had other bytes.
TEST_F(DerivedObjectsTest, ThoseOfFormerKindsGoWhenTheStoreIsOpenedToWrite) {
  const Tokens stored = StoreLong("a", 1);
  db_.reset();
  for (const std::string kind : {"key_planes", "key_planes_2", "value_planes_4", "value_means",
                                 "clusters_1", "clusters_2"}) {
    const auto catalog = *store::Catalog::Open({.path = store() + "/catalog.db"});
    const uint64_t generation = *catalog->companions()->ReserveGeneration();
    ATTNDB_ASSERT_OK(catalog->companions()->Publish(1, {.kind = kind, .generation = generation}));
    const std::string file =
        store() + "/segments/0000000000000001." + kind + "." + std::to_string(generation);
    for (const char* end : {".obj", ".manifest"}) std::ofstream(file + end) << "whatever";
  }
  ATTNDB_ASSERT_OK(DB::Open(store(), {.read_only = true}));
  EXPECT_EQ(NumSegmentFiles(), kFilesOfOne + 12);
  Open();
  EXPECT_EQ(NumSegmentFiles(), kFilesOfOne);
  EXPECT_EQ(Stats().num_companions, 1u);
  EXPECT_TRUE(db_->Verify()->ok());
  EXPECT_EQ(Ask(stored), AskWithout(stored));
}

TEST_F(DerivedObjectsTest, WhatACrashLeftOfOneIsRemoved) {
  StoreLong("a", 1);
  db_.reset();
  for (const char* name :
       {"0000000000000001.key_planes.99.obj", "0000000000000001.graph.7.manifest",
        "0000000000000001.key_planes.98.obj.tmp"}) {
    std::ofstream(store() + "/segments/" + name) << "half";
  }
  Open();
  EXPECT_EQ(NumSegmentFiles(), kFilesOfOne);
}

// Every operation of the file system that a build makes fails, in several ways. What a process that
// ended there leaves is a whole store, and the next open builds.
TEST_F(DerivedObjectsTest, AFaultWhileOneIsBuiltHarmsNothing) {
  using internal::Database;
  Open({.background_builds = false});
  const Tokens stored = StoreChain("a", std::vector<uint64_t>{600}, 1);
  const std::vector<float> right = AskWithout(stored);
  db_.reset();
  const std::string plain = dir_.File("plain");
  std::filesystem::rename(store(), plain);
  uint64_t num_faults = 0;
  for (const test::FaultKind kind : {test::FaultKind::kTornWrite, test::FaultKind::kErrorAfter}) {
    bool met = true;
    for (uint64_t n = 1; met; ++n) {
      SCOPED_TRACE("operation " + std::to_string(n) + ", kind " +
                   std::to_string(static_cast<int>(kind)));
      std::filesystem::remove_all(store());
      std::filesystem::copy(plain, store(), std::filesystem::copy_options::recursive);
      test::FaultFileSystem files(storage::PosixFileSystem());
      ATTNDB_ASSERT_OK(Database::Open(store(), {.background_builds = false}, &files));
      files.SetPlan({.fail_at = files.num_operations() + n, .sticky = n % 2 == 0, .kind = kind});
      {
        ATTNDB_ASSERT_OK_AND_ASSIGN(const auto db, Database::Open(store(), {}, &files));
        const Status status = db->store()->background()->Wait(nullptr);
        met = files.num_faults() > 0;
        EXPECT_TRUE(met ? status.ok() || status.code() == StatusCode::kIoError ||
                              status.code() == StatusCode::kResourceExhausted
                        : status.ok())
            << status;
      }
      num_faults += met ? 1 : 0;
      EXPECT_TRUE((*DB::Open(store(), {.read_only = true})).Verify()->ok());
      Open();
      ATTNDB_ASSERT_OK(db_->WaitForBackground());
      EXPECT_EQ(NumSegmentFiles(), kFilesOfOne);
    }
    EXPECT_EQ(Ask(stored), right);
    db_.reset();
  }
  EXPECT_GE(num_faults, 25u);
}

// Sessions ask while planes of other contexts are built, dropped and built again.
TEST_F(DerivedObjectsTest, SessionsAnswerWhileOthersAreBuilt) {
  const Tokens stored = StoreLong("a", 1);
  const std::vector<float> right = Ask(stored);
  std::vector<std::thread> threads;
  std::atomic<bool> stop = false;
  for (int i = 0; i < 2; ++i) {
    threads.emplace_back([&] {
      while (!stop.load()) EXPECT_EQ(AskOnce(*db_, stored), right);
    });
  }
  for (uint64_t seed = 10; seed < 16; ++seed) {
    StoreChain("b", std::vector<uint64_t>{1000}, seed);
    ATTNDB_EXPECT_OK(db_->Verify({.context = "a"}));
    if (seed % 2 != 0) continue;
    ATTNDB_EXPECT_OK(db_->WaitForBackground());
  }
  stop.store(true);
  for (std::thread& thread : threads) thread.join();
  ATTNDB_ASSERT_OK(db_->WaitForBackground());
  EXPECT_EQ(NumSegmentFiles(), 2 * kFilesOfOne);
}

TEST(DerivedObjectsOff, NothingIsBuiltAndWhatIsThereIsUsed) {
  test::TempDir dir = test::TempDir::InMemory();
  const ToyModel model;
  const Tokens tokens = ToyModel::Tokens(600, 1);
  const test::KvArrays kv(model, tokens);
  const std::string path = dir.File("store");
  {
    const DB db = *DB::Open(path, {.background_builds = false});
    ATTNDB_ASSERT_OK(db.Import(model.spec(), tokens, kv.layers(), {.name = "a"}));
    ATTNDB_ASSERT_OK(db.WaitForBackground());
    EXPECT_EQ(db.Stats()->num_companions, 0u);
    EXPECT_EQ(db.Stats()->num_pending_companions, 1u);
    EXPECT_EQ(db.Describe("a")->num_pending_companions, 1u);
  }
  ATTNDB_ASSERT_OK((*DB::Open(path)).WaitForBackground());
  const DB db = *DB::Open(path, {.background_builds = false});
  EXPECT_EQ(db.Stats()->num_companions, 1u);
}

}  // namespace
}  // namespace attndb
