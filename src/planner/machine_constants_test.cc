// Goal:   constants are right between the measured ones and beyond them.
#include "planner/machine_constants.h"

#include <gtest/gtest.h>

namespace attndb::planner {
namespace {

TEST(MachineConstantsTest, GroupsLieOnLinesBetweenTheMeasuredOnes) {
  const GroupNanos nanos = {10, 12, 20, 44};
  EXPECT_DOUBLE_EQ(AtGroup(nanos, 1), 10);
  EXPECT_DOUBLE_EQ(AtGroup(nanos, 2), 12);
  EXPECT_DOUBLE_EQ(AtGroup(nanos, 3), 16);
  EXPECT_DOUBLE_EQ(AtGroup(nanos, 8), 44);
  EXPECT_DOUBLE_EQ(AtGroup(nanos, 16), 92);
}

TEST(MachineConstantsTest, MoreRowsNeverCostLess) {
  const GroupNanos nanos = {10, 10, 12, 8};
  EXPECT_GE(AtGroup(nanos, 64), AtGroup(nanos, 8));
}

TEST(MachineConstantsTest, PlanesThatWereNotMeasuredCostWhatWiderOnesDo) {
  MachineConstants machine;
  machine.scans = {{8, {8, 8, 8, 8}}, {4, {4, 4, 4, 4}}};
  EXPECT_EQ(machine.Scan(4)[0], 4);
  EXPECT_EQ(machine.Scan(1)[0], 4);
  EXPECT_EQ(machine.Scan(8)[0], 8);
  EXPECT_EQ(machine.Scan(16)[0], machine.score[0]);
}

}  // namespace
}  // namespace attndb::planner
