// Goal:   a measurement of this machine gives constants that the cost model can use.
#include "prices/measure_machine.h"

#include <gtest/gtest.h>

#include "kernels/isa.h"

namespace attndb::internal {
namespace {

TEST(MeasureMachineTest, GivesPositiveFiniteConstants) {
  const Result<planner::MachineConstants> machine = MeasureMachine(uint64_t{16} << 20);
  ASSERT_TRUE(machine.ok()) << machine.status();
  EXPECT_TRUE(machine->measured);
  EXPECT_EQ(machine->isa, kernels::IsaName(kernels::CurrentIsa().used));
  EXPECT_GT(machine->num_threads, 0u);
  EXPECT_GE(machine->all_bytes_per_ns, machine->one_bytes_per_ns);
  const auto expect_price = [](double nanos) {
    EXPECT_GT(nanos, 0);
    EXPECT_LT(nanos, 1e6);
  };
  for (size_t i = 0; i < planner::kBaseGroups.size(); ++i) {
    expect_price(machine->attend[i]);
    expect_price(machine->score[i]);
    for (const planner::ScanNanos& scan : machine->scans) expect_price(scan.per_key[i]);
  }
  ASSERT_EQ(machine->scans.size(), 2u);
  for (const double price :
       {machine->one_bytes_per_ns, machine->select, machine->row, machine->hop}) {
    expect_price(price);
  }
}

TEST(MeasureMachineTest, TheBufferIsBeyondTheCacheAndNoTooLarge) {
  EXPECT_GE(MeasuredBytes(), uint64_t{8} << 20);
  EXPECT_LE(MeasuredBytes(), uint64_t{256} << 20);
}

}  // namespace
}  // namespace attndb::internal
