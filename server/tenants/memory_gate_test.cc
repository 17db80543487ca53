// Goal:   no more memory is promised than there is; of those who wait the first that fit go, and
//         none is overtaken without end; nobody waits for what can't come.
// Method: gates of some bytes, whose `run` the test calls itself; threads that come and go.
#include "server/tenants/memory_gate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "testing/matchers.h"

namespace attndb::server {
namespace {

using ::attndb::test::FailsWith;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class MemoryGateTest : public ::testing::Test {
 protected:
  // What waits is let in and ends before its queue is gone.
  void TearDown() override {
    while (!places_.empty() || !runs_.empty()) {
      places_.clear();
      RunAll();
    }
  }
  // Enters under a name, and notes when that is let through.
  Status Enter(MemoryGate* gate, const std::string& name, uint64_t bytes,
               std::function<bool()> is_gone = nullptr) {
    const auto go = [this, name](MemoryGate::Place place) {
      entered_.push_back(place == nullptr ? name + " closed" : name);
      places_.push_back(std::move(place));
    };
    return gate->Enter(bytes, go, std::move(is_gone));
  }
  void RunAll() {
    while (!runs_.empty()) {
      const std::function<void()> run = std::move(runs_.front());
      runs_.pop_front();
      run();
    }
  }

  std::deque<std::function<void()>> runs_;
  const std::function<void(std::function<void()>)> run_ = [this](std::function<void()> work) {
    runs_.push_back(std::move(work));
  };
  std::vector<std::string> entered_;
  std::vector<MemoryGate::Place> places_;
};

TEST(PromisableBytesTest, LeavesASixteenth) {
  EXPECT_EQ(PromisableBytes(1600), 1500U);
  EXPECT_EQ(PromisableBytes(15), 15U);
  EXPECT_EQ(PromisableBytes(UINT64_MAX), UINT64_MAX / 16 * 15 + 15);
  EXPECT_EQ(PromisableBytes(0), 0U) << "no limit";
}

TEST_F(MemoryGateTest, WhatFitsComesInAtOnce) {
  MemoryGate gate(100, 8, run_);
  ATTNDB_EXPECT_OK(Enter(&gate, "a", 60));
  ATTNDB_EXPECT_OK(Enter(&gate, "b", 40));
  EXPECT_THAT(entered_, ElementsAre("a", "b"));
  EXPECT_EQ(gate.num_held_bytes(), 100U);
  places_.clear();
  EXPECT_EQ(gate.num_held_bytes(), 0U);
}

TEST_F(MemoryGateTest, WhoWaitsIsRunByAnotherThreadThanThatWhichLetsGo) {
  MemoryGate gate(100, 8, run_);
  ATTNDB_EXPECT_OK(Enter(&gate, "a", 60));
  ATTNDB_EXPECT_OK(Enter(&gate, "large", 90));
  EXPECT_EQ(gate.num_waiting(), 1U);
  places_.clear();
  EXPECT_THAT(entered_, ElementsAre("a"));
  RunAll();
  EXPECT_THAT(entered_, ElementsAre("a", "large"));
  EXPECT_EQ(gate.num_held_bytes(), 90U);
  EXPECT_EQ(gate.num_waiting(), 0U);
}

TEST_F(MemoryGateTest, WhatFitsOvertakesWhatDoesNotFitYet) {
  MemoryGate gate(100, 8, run_);
  ATTNDB_EXPECT_OK(Enter(&gate, "a", 60));
  ATTNDB_EXPECT_OK(Enter(&gate, "large", 90));
  ATTNDB_EXPECT_OK(Enter(&gate, "small", 10));
  EXPECT_THAT(entered_, ElementsAre("a", "small"));
  EXPECT_EQ(gate.num_waiting(), 1U);
  places_.clear();
  RunAll();
  EXPECT_THAT(entered_, ElementsAre("a", "small", "large"));
}

TEST_F(MemoryGateTest, ThoseThatFitComeInOrder) {
  MemoryGate gate(100, 8, run_);
  ATTNDB_EXPECT_OK(Enter(&gate, "a", 60));
  ATTNDB_EXPECT_OK(Enter(&gate, "b", 40));
  ATTNDB_EXPECT_OK(Enter(&gate, "large", 70));
  for (const char* name : {"c", "d", "e"}) ATTNDB_EXPECT_OK(Enter(&gate, name, 30));
  EXPECT_EQ(gate.num_waiting(), 4U);
  places_.front().reset();
  RunAll();
  EXPECT_THAT(entered_, ElementsAre("a", "b", "c", "d"));
  places_[1].reset();
  RunAll();
  EXPECT_THAT(entered_, ElementsAre("a", "b", "c", "d", "e"));
  places_.clear();
  RunAll();
  EXPECT_THAT(entered_, ElementsAre("a", "b", "c", "d", "e", "large"));
}

TEST_F(MemoryGateTest, WhoHasBeenOvertakenSoOftenIsNextWhoeverFits) {
  MemoryGate gate(100, 8, run_);
  ATTNDB_EXPECT_OK(Enter(&gate, "a", 50));
  ATTNDB_EXPECT_OK(Enter(&gate, "large", 60));
  for (uint32_t i = 0; i < MemoryGate::kMaxOvertakes; ++i) {
    ATTNDB_EXPECT_OK(Enter(&gate, "small", 50));
    EXPECT_EQ(entered_.back(), "small") << i;
    places_.pop_back();
  }
  entered_.clear();
  ATTNDB_EXPECT_OK(Enter(&gate, "late", 10));
  ATTNDB_EXPECT_OK(Enter(&gate, "later", 40));
  EXPECT_THAT(entered_, IsEmpty());
  EXPECT_EQ(gate.num_waiting(), 3U);
  places_.clear();
  RunAll();
  EXPECT_THAT(entered_, ElementsAre("large", "late")) << "the order is kept behind it, too";
  ATTNDB_EXPECT_OK(Enter(&gate, "last", 5));
  EXPECT_THAT(entered_, ElementsAre("large", "late", "last")) << "later waits, and is overtaken";
}

// As above, but that the large one's client goes.
TEST_F(MemoryGateTest, WhoIsGoneWaitsForNothingAndHoldsUpNobody) {
  MemoryGate gate(100, 8, run_);
  bool is_gone = false;
  ATTNDB_EXPECT_OK(Enter(&gate, "a", 50));
  ATTNDB_EXPECT_OK(Enter(&gate, "large", 60, [&is_gone] { return is_gone; }));
  for (uint32_t i = 0; i < MemoryGate::kMaxOvertakes; ++i) {
    ATTNDB_EXPECT_OK(Enter(&gate, "small", 50));
    places_.pop_back();
  }
  entered_.clear();
  ATTNDB_EXPECT_OK(Enter(&gate, "late", 40));
  gate.LookForGone();
  RunAll();
  EXPECT_THAT(entered_, IsEmpty()) << "it is not gone yet";
  is_gone = true;
  gate.LookForGone();
  RunAll();
  EXPECT_THAT(entered_, ElementsAre("large", "late"));
  EXPECT_EQ(gate.num_waiting(), 0U);
  EXPECT_EQ(gate.num_held_bytes(), 90U);
}

TEST_F(MemoryGateTest, WhoBeginsInOrderOvertakesNobody) {
  MemoryGate gate(100, 8, run_);
  ATTNDB_EXPECT_OK(Enter(&gate, "a", 100));
  ATTNDB_EXPECT_OK(Enter(&gate, "first", 80));
  ATTNDB_EXPECT_OK(Enter(&gate, "second", 90));
  places_.clear();
  RunAll();
  EXPECT_THAT(entered_, ElementsAre("a", "first"));
  for (uint32_t i = 0; i < MemoryGate::kMaxOvertakes; ++i) {
    ATTNDB_EXPECT_OK(Enter(&gate, "small", 20));
    EXPECT_EQ(entered_.back(), "small") << i << ": first was no overtaker";
    places_.pop_back();
  }
  ATTNDB_EXPECT_OK(Enter(&gate, "late", 20));
  EXPECT_EQ(gate.num_waiting(), 2U);
}

// Requests come and end in any order, most of them small.
TEST_F(MemoryGateTest, NobodyIsOvertakenMoreOftenThanThatAndAllComeIn) {
  constexpr uint32_t kSeed = 29;
  constexpr size_t kNumRequests = 4000;
  SCOPED_TRACE("seed " + std::to_string(kSeed));
  std::mt19937 random(kSeed);
  MemoryGate gate(100, kNumRequests, run_);
  std::vector<bool> is_in(kNumRequests, false);
  std::vector<uint32_t> num_overtakes(kNumRequests, 0);
  const auto end_one = [&] {
    std::swap(places_[random() % places_.size()], places_.back());
    places_.pop_back();
    RunAll();
  };
  for (size_t number = 0; number < kNumRequests; ++number) {
    const uint64_t bytes = random() % 20 == 0 ? 60 + random() % 41 : 1 + random() % 10;
    ATTNDB_ASSERT_OK(gate.Enter(bytes, [&, number](MemoryGate::Place place) {
      is_in[number] = true;
      for (size_t before = 0; before < number; ++before) {
        if (!is_in[before]) ++num_overtakes[before];
      }
      places_.push_back(std::move(place));
    }));
    if (!places_.empty() && (places_.size() > 8 || random() % 2 == 0)) end_one();
  }
  while (!places_.empty()) end_one();
  EXPECT_EQ(std::count(is_in.begin(), is_in.end(), true), std::ptrdiff_t{kNumRequests});
  EXPECT_EQ(*std::max_element(num_overtakes.begin(), num_overtakes.end()),
            MemoryGate::kMaxOvertakes);
}

TEST_F(MemoryGateTest, WhatCanNeverFitIsRefusedWithBothSizes) {
  MemoryGate gate(100, 8, run_);
  EXPECT_THAT(Enter(&gate, "a", 101),
              FailsWith(StatusCode::kInvalidArgument, AllOf(HasSubstr("101"), HasSubstr("100"))));
  ATTNDB_EXPECT_OK(Enter(&gate, "b", 100));
  EXPECT_THAT(entered_, ElementsAre("b"));
}

TEST_F(MemoryGateTest, OnlySoManyWait) {
  MemoryGate gate(100, 1, run_);
  ATTNDB_EXPECT_OK(Enter(&gate, "a", 100));
  ATTNDB_EXPECT_OK(Enter(&gate, "b", 1));
  EXPECT_THAT(Enter(&gate, "c", 1),
              FailsWith(StatusCode::kResourceExhausted, HasSubstr("too many requests wait")));
}

TEST_F(MemoryGateTest, WithoutALimitAllComeIn) {
  MemoryGate gate(0, 0, run_);
  ATTNDB_EXPECT_OK(Enter(&gate, "a", UINT64_MAX / 2));
  ATTNDB_EXPECT_OK(Enter(&gate, "b", UINT64_MAX / 2));
  EXPECT_THAT(entered_, ElementsAre("a", "b"));
}

TEST_F(MemoryGateTest, WhoeverWaitsIsToldThatItCloses) {
  std::optional<MemoryGate> gate(std::in_place, 100, 8, run_);
  ATTNDB_EXPECT_OK(Enter(&*gate, "a", 100));
  ATTNDB_EXPECT_OK(Enter(&*gate, "b", 1));
  gate->Close();
  EXPECT_THAT(entered_, ElementsAre("a", "b closed"));
  EXPECT_THAT(Enter(&*gate, "c", 1), FailsWith(StatusCode::kCancelled, HasSubstr("stops")));
  gate.reset();
  places_.clear();  // Places may outlive the gate.
  EXPECT_THAT(runs_, IsEmpty());
}

TEST_F(MemoryGateTest, ThreadsNeverHoldMoreThanThereIs) {
  constexpr uint64_t kLimit = 10;
  constexpr int kRounds = 200;
  std::mutex mutex;
  std::deque<std::function<void()>> runs;
  MemoryGate gate(kLimit, SIZE_MAX, [&](std::function<void()> work) {
    const std::lock_guard<std::mutex> lock(mutex);
    runs.push_back(std::move(work));
  });
  std::atomic<uint64_t> held = 0;
  std::atomic<uint64_t> most = 0;
  std::atomic<int> num_done = 0;
  const auto come = [&](uint64_t bytes) {
    return gate.Enter(bytes, [&, bytes](const MemoryGate::Place&) {
      const uint64_t now = held.fetch_add(bytes) + bytes;
      uint64_t seen = most.load();
      while (now > seen && !most.compare_exchange_weak(seen, now)) {
      }
      held.fetch_sub(bytes);
      ++num_done;
    });
  };
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < kRounds; ++i) {
        EXPECT_TRUE(come(1 + static_cast<uint64_t>((i + t) % 10)).ok());
        std::function<void()> work;
        {
          const std::lock_guard<std::mutex> lock(mutex);
          if (!runs.empty()) {
            work = std::move(runs.front());
            runs.pop_front();
          }
        }
        if (work) work();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  while (!runs.empty()) {
    const std::function<void()> work = std::move(runs.front());
    runs.pop_front();
    work();
  }
  EXPECT_EQ(num_done, 4 * kRounds);
  EXPECT_LE(most, kLimit);
  EXPECT_EQ(gate.num_held_bytes(), 0U);
}

}  // namespace
}  // namespace attndb::server
