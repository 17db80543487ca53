// Goal:   scratch is counted in the budget, used again, and given up when memory is wanted.
// Method: leases against a budget of a few blocks.
#include "attention/scratch_pool.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "testing/matchers.h"

namespace attndb::attention {
namespace {

using test::FailsWith;
using ::testing::HasSubstr;

class ScratchPoolTest : public ::testing::Test {
 protected:
  storage::MemoryBudget budget_{10000};
  ScratchPool pool_{&budget_};
};

TEST_F(ScratchPoolTest, ABlockServesOneCallAfterAnother) {
  ATTNDB_ASSERT_OK_AND_ASSIGN(ScratchLease lease, pool_.Lease(1000));
  std::byte* const memory = lease.data();
  EXPECT_EQ(budget_.used_bytes(), 1000u);
  lease.Return();
  EXPECT_EQ(budget_.used_bytes(), 1000u);
  ATTNDB_ASSERT_OK_AND_ASSIGN(lease, pool_.Lease(900));
  EXPECT_EQ(lease.data(), memory);
  EXPECT_EQ(lease.size(), 1000u);
  EXPECT_EQ(budget_.used_bytes(), 1000u);
}

TEST_F(ScratchPoolTest, ALargerCallReplacesTheLargestIdleBlock) {
  {
    ATTNDB_ASSERT_OK_AND_ASSIGN(ScratchLease small, pool_.Lease(100));
    ATTNDB_ASSERT_OK_AND_ASSIGN(ScratchLease large, pool_.Lease(1000));
    EXPECT_EQ(budget_.used_bytes(), 1100u);
  }
  ATTNDB_ASSERT_OK_AND_ASSIGN(ScratchLease larger, pool_.Lease(1001));
  EXPECT_EQ(larger.size(), 1500u);
  EXPECT_EQ(budget_.used_bytes(), 1600u);
  ATTNDB_ASSERT_OK_AND_ASSIGN(ScratchLease small, pool_.Lease(50));
  EXPECT_EQ(small.size(), 100u);
}

TEST_F(ScratchPoolTest, IdleBlocksGiveWayAndLeasedOnesDoNot) {
  ATTNDB_ASSERT_OK_AND_ASSIGN(ScratchLease held, pool_.Lease(3000));
  ATTNDB_ASSERT_OK_AND_ASSIGN(ScratchLease idle, pool_.Lease(4000));
  idle.Return();
  {
    ATTNDB_ASSERT_OK_AND_ASSIGN(storage::Reservation other, budget_.Reserve(7000, "keys"));
    EXPECT_THAT(pool_.Lease(10), FailsWith(StatusCode::kResourceExhausted,
                                           HasSubstr("scratch of an Attend needs 10 B")));
  }
  EXPECT_EQ(budget_.used_bytes(), 3000u);
  ATTNDB_ASSERT_OK_AND_ASSIGN(idle, pool_.Lease(7000));
}

TEST_F(ScratchPoolTest, ThreadsNeverShareABlock) {
  std::vector<std::thread> threads;
  for (int id = 0; id < 4; ++id) {
    threads.emplace_back([this, id] {
      for (size_t i = 0; i < 2000; ++i) {
        const size_t num_bytes = 64 + 64 * ((i + static_cast<size_t>(id)) % 20);
        Result<ScratchLease> lease = pool_.Lease(num_bytes);
        ASSERT_THAT(lease, test::IsOk());
        std::fill_n(lease->data(), num_bytes, static_cast<std::byte>(id));
        std::this_thread::yield();
        for (size_t b = 0; b < num_bytes; ++b)
          ASSERT_EQ(lease->data()[b], static_cast<std::byte>(id));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace attndb::attention
