// Goal:   a tenant's Stats and progress of WaitForBackground are the same whether others have
//         builds, merges and evictions and a long build under way, or nothing.
// Method: one script of calls, whose answers are written down, run in a store of one tenant and in
//         one where another's contexts are built, merged and evicted before each of them, while a
//         job stands still in the lane of long builds.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "api/stopped_db_test_util.h"

namespace attndb {
namespace {

using test::Concat;
using test::Event;
using test::Tokens;
using test::ToyModel;
using ::testing::HasSubstr;

constexpr int kTurns = 3;

class TenantWorkTest : public test::DBFixture {
 protected:
  TenantWorkTest() : DBFixture(/*background_builds=*/true) { OpenAnew(); }
  ~TenantWorkTest() override {
    release_.Set();
    db_.reset();
  }

  // An empty store, at the same place.
  void OpenAnew() {
    db_.reset();
    std::filesystem::remove_all(store());
    // A fixed limit: the default follows the free memory at the open.
    Open({.host_memory_bytes = uint64_t{1} << 28, .measure_machine = false});
  }
  std::string Told(const DB& tenant) const {
    std::string text = tenant.Stats()->ToJson() + "\n";
    ATTNDB_EXPECT_OK(tenant.WaitForBackground({.progress = [&](uint64_t done, uint64_t total) {
      text += std::to_string(done) + " of " + std::to_string(total) + "\n";
      return true;
    }}));
    return text;
  }
  // Imports three texts, and records all reports before, meanwhile and afterwards.
  std::string Run(const DB& mine, const std::function<void()>& others) const {
    std::string text;
    for (int turn = 1; turn <= kTurns; ++turn) {
      others();
      text += "before: " + Told(mine);
      text += "building: " + ImportWhileTold(mine, static_cast<uint64_t>(turn));
      others();
      text += "behind: " + Told(mine);
    }
    return text;
  }

  // Another tenant's turn: its contexts are built, merged with more, and evicted.
  void ActAs(const DB& other) {
    ATTNDB_ASSERT_OK(other.SetQuota(0));
    {
      SessionStart start = *other.CreateSession(model_.spec(), Tokens{1}, {.reuse = false});
      Tokens all;
      for (int i = 0; i < 2; ++i) {
        const Tokens more = ToyModel::Tokens(300, seed_++);
        ATTNDB_ASSERT_OK(AppendTokens(&start.session, more, nullptr));
        all = Concat(all, more);
        ATTNDB_ASSERT_OK(other.Store(start.session, all, {.name = "theirs", .replace = true}));
        ATTNDB_ASSERT_OK(other.WaitForBackground());
      }
    }
    ATTNDB_ASSERT_OK(other.SetQuota(other.Stats()->file_bytes));
    const Tokens last = ToyModel::Tokens(300, seed_++);
    const test::KvArrays kv(model_, last);
    ATTNDB_ASSERT_OK(other.Import(model_.spec(), last, kv.layers()));
    ATTNDB_ASSERT_OK(other.WaitForBackground());
  }

  Event release_;
  uint64_t seed_ = 1000;

 private:
  // The lane in which planes are built stands still until the first is told.
  std::string ImportWhileTold(const DB& mine, uint64_t seed) const {
    Event go;
    test::StopLane(*db_, derived::kFastLane, &go);
    const Tokens tokens = ToyModel::Tokens(300, seed);
    const test::KvArrays kv(model_, tokens);
    ATTNDB_EXPECT_OK(mine.Import(model_.spec(), tokens, kv.layers()));
    std::string text = mine.Stats()->ToJson() + "\n";
    bool is_first = true;
    ATTNDB_EXPECT_OK(mine.WaitForBackground({.progress = [&](uint64_t done, uint64_t total) {
      if (std::exchange(is_first, false)) {
        text += std::to_string(done) + " of " + std::to_string(total) + "\n";
        go.Set();
      }
      return true;
    }}));
    go.Set();  // In case that nothing was told.
    return text;
  }
};

TEST_F(TenantWorkTest, WhatATenantIsToldIsTheSameWhateverOthersHaveDone) {
  const std::string alone = Run(*db_->ForTenant("mine"), [] {});
  EXPECT_THAT(alone, HasSubstr("\"num_pending_companions\":1"));
  EXPECT_THAT(alone, HasSubstr("\"num_companions_built\":3"));
  EXPECT_THAT(alone, HasSubstr("\n0 of "));
  OpenAnew();
  const DB other = *db_->ForTenant("theirs");
  test::StopLane(*db_, derived::kSlowLane, &release_);
  EXPECT_EQ(Run(*db_->ForTenant("mine"), [&] { ActAs(other); }), alone);
  const DBStats theirs = *other.Stats();
  EXPECT_GE(theirs.num_companions_built, 2u * kTurns);
  EXPECT_GT(theirs.bytes_merged, 0u);
  // Not of each turn: a file that is removed a little later leaves room for the last import.
  EXPECT_GE(theirs.num_evictions, uint64_t{kTurns});
  EXPECT_FALSE(theirs.evicted.empty());
}

}  // namespace
}  // namespace attndb
