// Goal:   reservations never exceed the limit, and residents are dropped oldest first.
// Method: residents that record their end; reservations at the limit; threads (run under TSan too).
#include "storage/kv/memory_budget.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <thread>

#include "common/random.h"
#include "testing/matchers.h"

namespace attndb::storage {
namespace {

using test::FailsWith;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class Item final : public Resident {
 public:
  Item(Reservation reservation, std::shared_ptr<ResidentGroup> group, std::string name,
       std::vector<std::string>* dropped)
      : Resident(std::move(reservation), std::move(group)),
        name_(std::move(name)),
        dropped_(dropped) {}
  ~Item() override { dropped_->push_back(name_); }

 private:
  const std::string name_;
  std::vector<std::string>* const dropped_;
};

class MemoryBudgetTest : public ::testing::Test {
 protected:
  // In a group of its own, if none is given.
  std::shared_ptr<const Item> Keep(
      const std::string& name, uint64_t bytes,
      const std::shared_ptr<ResidentGroup>& group = std::make_shared<ResidentGroup>()) {
    Result<Reservation> reservation = budget_.Reserve(bytes, name);
    EXPECT_THAT(reservation, test::IsOk());
    auto item = std::make_shared<const Item>(*std::move(reservation), group, name, &dropped_);
    budget_.Keep(item);
    return item;
  }

  std::vector<std::string> dropped_;
  MemoryBudget budget_{100};
};

TEST_F(MemoryBudgetTest, AReservationIsGivenBackOnce) {
  {
    ATTNDB_ASSERT_OK_AND_ASSIGN(Reservation first, budget_.Reserve(60, "first"));
    Reservation moved = std::move(first);
    EXPECT_EQ(budget_.used_bytes(), 60u);
    ATTNDB_ASSERT_OK_AND_ASSIGN(moved, budget_.Reserve(40, "second"));  // Gives the 60 back.
    EXPECT_EQ(budget_.used_bytes(), 40u);
    EXPECT_EQ(moved.bytes(), 40u);
    moved.Release();
    moved.Release();
    EXPECT_EQ(budget_.used_bytes(), 0u);
    EXPECT_EQ(moved.bytes(), 0u);
  }
  EXPECT_EQ(budget_.used_bytes(), 0u);
}

TEST_F(MemoryBudgetTest, TheLimitIsExactAndTheErrorHasTheNumbers) {
  ATTNDB_ASSERT_OK_AND_ASSIGN(const Reservation all, budget_.Reserve(100, "all"));
  ATTNDB_EXPECT_OK(budget_.Reserve(0, "nothing"));
  EXPECT_THAT(budget_.Reserve(1, "layer 3"),
              FailsWith(StatusCode::kResourceExhausted,
                        HasSubstr("layer 3 needs 1 B of host memory, which the limit of 100 B has "
                                  "no room for now; close sessions, or raise the limit")));
  EXPECT_FALSE(budget_.Reserve(UINT64_MAX, "overflow").ok());
}

TEST_F(MemoryBudgetTest, TheLeastRecentlyUsedGroupGoesFirst) {
  const Item* const a = Keep("a", 30).get();
  (void)Keep("b", 30);
  (void)Keep("c", 30);
  budget_.Touch(*a);
  ATTNDB_EXPECT_OK(budget_.Reserve(20, "x"));
  EXPECT_THAT(dropped_, ElementsAre("b"));
  ATTNDB_EXPECT_OK(budget_.Reserve(70, "y"));
  EXPECT_THAT(dropped_, ElementsAre("b", "c"));
  EXPECT_EQ(budget_.num_dropped(), 2u);
}

TEST_F(MemoryBudgetTest, InAGroupWhatWasUsedLastGoesFirst) {
  const auto old_group = std::make_shared<ResidentGroup>();
  const auto new_group = std::make_shared<ResidentGroup>();
  const Item* const a = Keep("a", 20, old_group).get();
  (void)Keep("b", 20, old_group);
  (void)Keep("x", 20, new_group);
  budget_.Touch(*a);
  (void)Keep("y", 20, new_group);
  for (const uint64_t bytes : {30u, 50u, 70u, 90u}) ATTNDB_EXPECT_OK(budget_.Reserve(bytes, "z"));
  EXPECT_THAT(dropped_, ElementsAre("a", "b", "y", "x"));
}

TEST_F(MemoryBudgetTest, WhatSomeoneHoldsIsNotDropped) {
  const auto held = Keep("held", 50);
  (void)Keep("free", 30);
  EXPECT_FALSE(budget_.Reserve(60, "too much").ok());
  EXPECT_THAT(dropped_, ElementsAre("free"));
  ATTNDB_EXPECT_OK(budget_.Reserve(50, "fits"));
}

TEST_F(MemoryBudgetTest, WhatCanNeverFitDropsNothing) {
  (void)Keep("a", 30);
  EXPECT_FALSE(budget_.Reserve(101, "too much").ok());
  EXPECT_TRUE(dropped_.empty());
}

TEST_F(MemoryBudgetTest, WhatIsOnlyTakenIfFreeDropsNothing) {
  Keep("a", 60);
  EXPECT_EQ(budget_.ReserveIfFree(41), std::nullopt);
  std::optional<Reservation> rest = budget_.ReserveIfFree(40);
  ASSERT_TRUE(rest.has_value());
  EXPECT_EQ(budget_.used_bytes(), 100u);
  EXPECT_TRUE(dropped_.empty());
}

TEST_F(MemoryBudgetTest, DropFreesWhenTheLastHolderLetsGo) {
  auto item = Keep("a", 30);
  budget_.Drop(item.get());
  EXPECT_TRUE(dropped_.empty());
  EXPECT_EQ(budget_.used_bytes(), 30u);
  item.reset();
  EXPECT_THAT(dropped_, ElementsAre("a"));
  EXPECT_EQ(budget_.used_bytes(), 0u);
}

TEST_F(MemoryBudgetTest, TheLimitHoldsUnderManyThreads) {
  MemoryBudget budget(1000);
  std::vector<std::thread> threads;
  for (uint64_t seed = 0; seed < 4; ++seed) {
    threads.emplace_back([&budget, seed] {
      Random random(seed);
      std::vector<std::string> dropped;
      for (int i = 0; i < 2000; ++i) {
        const Result<Reservation> reservation = budget.Reserve(1 + random.Uniform(600), "part");
        ASSERT_LE(budget.used_bytes(), 1000u);
        ASSERT_TRUE(reservation.ok() ||
                    reservation.status().code() == StatusCode::kResourceExhausted);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(budget.used_bytes(), 0u);
}

TEST_F(MemoryBudgetTest, WhatTakesTheWholeLimitDropsAll) {
  (void)Keep("a", 30);
  (void)Keep("b", 30);
  ATTNDB_EXPECT_OK(budget_.Reserve(100, "all"));
  EXPECT_THAT(dropped_, ElementsAre("a", "b"));
}

TEST_F(MemoryBudgetTest, OthersCanBeDroppedForRoomAfterOneWasDropped) {
  (void)Keep("a", 30);
  const Item* const b = Keep("b", 30).get();
  (void)Keep("c", 30);
  budget_.Drop(b);
  EXPECT_THAT(dropped_, ElementsAre("b"));
  ATTNDB_EXPECT_OK(budget_.Reserve(100, "all"));
  EXPECT_THAT(dropped_, ElementsAre("b", "a", "c"));
  EXPECT_EQ(budget_.num_dropped(), 2u);
}

// Locks the budget's mutex when it is freed.
class UserOfTheBudget final : public Resident {
 public:
  UserOfTheBudget(MemoryBudget* budget, Reservation reservation)
      : Resident(std::move(reservation), std::make_shared<ResidentGroup>()), budget_(budget) {}
  ~UserOfTheBudget() override { budget_->Drop(nullptr); }

 private:
  MemoryBudget* const budget_;
};

TEST_F(MemoryBudgetTest, WhatIsDroppedMayUseTheBudgetWhileItIsFreed) {
  for (const bool for_room : {true, false}) {
    auto user = std::make_shared<const UserOfTheBudget>(&budget_, *budget_.Reserve(60, "user"));
    const Resident* const resident = user.get();
    budget_.Keep(std::move(user));
    if (for_room) {
      ATTNDB_EXPECT_OK(budget_.Reserve(50, "room"));
    } else {
      budget_.Drop(resident);
    }
    EXPECT_EQ(budget_.used_bytes(), 0u);
  }
}

}  // namespace
}  // namespace attndb::storage
