// Goal:   no Attend waits for slow work. Building, the catalog, sealing, files and measuring are
//         stuck for ever, and a thousand Attends of eight threads return, with the bits of the
//         ready objects. No tenant waits for another tenant's background.
// Method: a waiting job in each lane; a clock that waits inside a transaction of the catalog, which
//         holds its mutex; a file system that waits at its next operation, which is a Store's.
#include <atomic>
#include <chrono>
#include <future>
#include <thread>

#include "api/stopped_db_test_util.h"

namespace attndb {
namespace {

using test::DBFixture;
using test::Event;
using test::Tokens;
using test::ToyModel;

constexpr const char* kPlans[] = {"full",
                                  "topk(k=30,bits=4)",
                                  "mass(p=0.9,bits=8)",
                                  "topk(k=30,remainder=mean)",
                                  "topk(k=30,index=clustered)",
                                  "topk(k=30,index=graph)",
                                  "auto(error=0.1)",
                                  "auto(error=0.1,value_bits=8)"};

class BlockedBackgroundTest : public DBFixture {
 protected:
  // Opens the fixture's store, with a clock that can be stopped.
  DB OpenAgain() {
    db_.reset();
    return *DB::Open(store(), {.clock = [this] {
                       if (stops_clock_.exchange(false)) {
                         clock_stopped_.Set();
                         release_.Await();
                       }
                       return now_us_;
                     }});
  }
  // Returns when every lane is stuck. Earlier jobs are done by then.
  void StopLanes(const DB& db) {
    for (size_t lane = 0; lane < store::kNumLanes; ++lane) {
      test::StopLane(db, lane, &release_);
    }
  }
  Session SessionOn(const DB& db, const Tokens& stored, const char* plan) {
    SessionStart start =
        *db.CreateSession(model_.spec(), test::Concat(stored, Tokens{5}), {.plan = plan});
    ATTNDB_EXPECT_OK(model_.Step(&start.session, start.rest));
    return std::move(start.session);
  }

  std::atomic<bool> stops_clock_ = false;
  Event clock_stopped_;
  Event release_;
};

TEST_F(BlockedBackgroundTest, AThousandAttendsReturn) {
  const Tokens stored = StoreChain("a", std::vector<uint64_t>{3000, 700, 100}, 1);
  const DB db = OpenAgain();
  StopLanes(db);
  const uint64_t num_written = internal::DbAccess::database(db)->store()->builder()->num_written();
  std::vector<Session> sessions;
  for (const char* plan : kPlans) sessions.push_back(SessionOn(db, stored, plan));
  stops_clock_ = true;
  std::thread in_catalog([&] { (void)SessionOn(db, stored, "full"); });
  clock_stopped_.Await();
  Event stats_returned;
  std::thread behind_it([&] {
    ATTNDB_EXPECT_OK(db.Stats().status());
    stats_returned.Set();
  });

  constexpr int kProbes = 63;  // Each attends in two layers: 1,008 Attends in all.
  std::vector<std::thread> threads;
  for (size_t i = 0; i < sessions.size(); ++i) {
    threads.emplace_back([&, i] {
      const std::vector<float> first = Probe(&sessions[i]);
      for (int probe = 1; probe < kProbes; ++probe) {
        const std::vector<float> again = Probe(&sessions[i]);
        if (std::string(kPlans[i]).starts_with("auto")) continue;  // It may learn.
        EXPECT_EQ(again, first) << kPlans[i];
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_FALSE(stats_returned.IsSet()) << "the catalog was free";
  EXPECT_EQ(internal::DbAccess::database(db)->store()->builder()->num_written(), num_written);
  release_.Set();
  in_catalog.join();
  behind_it.join();
  ATTNDB_EXPECT_OK(db.WaitForBackground());
  EXPECT_GT(db.Stats()->num_companions_built, 4u);
}

// A Store that is stuck in its first write holds the lock of Stores, and every later file operation
// waits as well.
TEST_F(BlockedBackgroundTest, AThousandAttendsReturnWhileSealingIsStuck) {
  const Tokens stored = StoreChain("a", std::vector<uint64_t>{3000, 700, 100}, 1);
  db_.reset();
  test::FaultFileSystem files(storage::PosixFileSystem());
  // Without learning, `auto` runs every call like the first.
  const DB db = internal::DbAccess::Wrap(
      *internal::Database::Open(store(), {.measure_machine = false}, &files));
  std::vector<Session> sessions;
  for (const char* plan : kPlans) sessions.push_back(SessionOn(db, stored, plan));
  for (Session& session : sessions) (void)Probe(&session);  // Brings rows into memory.
  ATTNDB_ASSERT_OK(db.WaitForBackground());
  for (Session& session : sessions) (void)Probe(&session);  // Brings derived objects into memory.

  Session writer = SessionOn(db, stored, "full");
  Event stuck;
  files.SetPlan({.fail_at = 1, .sticky = true, .waits_for = &release_, .waiting = &stuck});
  std::thread storing(
      [&] { ATTNDB_EXPECT_OK(db.Store(writer, test::Concat(stored, Tokens{5}), {.name = "b"})); });
  stuck.Await();
  constexpr int kProbes = 63;
  std::vector<std::thread> threads;
  for (Session& session : sessions) {
    threads.emplace_back([&] {
      for (int probe = 0; probe < kProbes; ++probe) (void)Probe(&session);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_THAT(db.Describe("b"), test::FailsWith(StatusCode::kNotFound, ::testing::HasSubstr("b")));
  release_.Set();
  storing.join();
  EXPECT_THAT(db.Describe("b"), test::IsOk());
}

// While a lane is stuck, the jobs that a tenant has there wait. No other tenant waits for them.
TEST_F(BlockedBackgroundTest, ATenantDoesNotWaitForWhatAnotherHasStored) {
  const DB db = OpenAgain();
  const DB a = *db.ForTenant("a");
  const DB b = *db.ForTenant("b");
  const auto store = [this](const DB& tenant) {
    const Tokens tokens = ToyModel::Tokens(300, 3);
    SessionStart start = *tenant.CreateSession(model_.spec(), tokens);
    ATTNDB_EXPECT_OK(model_.Step(&start.session, start.rest));
    ATTNDB_EXPECT_OK(tenant.Store(start.session, tokens, {.name = "doc"}));
  };
  store(a);
  ATTNDB_ASSERT_OK(a.WaitForBackground());
  StopLanes(db);
  store(b);
  EXPECT_GT(b.Stats()->num_pending_companions, 0u);
  const auto wait = [](const DB* tenant) {
    return std::async(std::launch::async, [tenant] { return tenant->WaitForBackground(); });
  };
  std::future<Status> of_a = wait(&a);
  std::future<Status> of_b = wait(&b);
  EXPECT_EQ(of_a.wait_for(test::kPatience), std::future_status::ready);
  EXPECT_EQ(of_b.wait_for(std::chrono::milliseconds(50)), std::future_status::timeout);
  release_.Set();
  ATTNDB_EXPECT_OK(of_a.get());
  ATTNDB_EXPECT_OK(of_b.get());
  EXPECT_EQ(b.Stats()->num_pending_companions, 0u);
}

// Prices that are not known are asked for, and fixed ones taken until then.
TEST_F(BlockedBackgroundTest, MeasuringIsNoBusinessOfAnAttend) {
  const Tokens stored = StoreChain("a", std::vector<uint64_t>{3000}, 1);
  const DB db = OpenAgain();
  StopLanes(db);
  Session session = SessionOn(db, stored, "auto(error=0.1)");
  (void)Probe(&session);
  EXPECT_FALSE(db.Machine()->measured);
  release_.Set();
  ATTNDB_EXPECT_OK(db.WaitForBackground());
  EXPECT_TRUE(db.Machine()->measured);
}

}  // namespace
}  // namespace attndb
