// Goal:   predicted bytes equal the bytes that the engine reads, and predicted time is their sum at
//         the machine's prices.
#include "planner/cost_model.h"

#include <gtest/gtest.h>

namespace attndb::planner {
namespace {

// head_dim 64, float16, a group of 3.
constexpr HeadShape kShape = {
    .group_size = 3, .k_bytes = 128, .v_bytes = 128, .channels = 64, .num_threads = 1};

MachineConstants Machine() {
  MachineConstants machine;
  machine.one_bytes_per_ns = 10;
  machine.all_bytes_per_ns = 20;
  machine.attend = {10, 10, 20, 40};
  machine.score = {5, 5, 10, 20};
  machine.scans = {{4, {2, 2, 4, 8}}};
  machine.select = 1;
  machine.row = 40;
  machine.hop = 100;
  machine.head = 500;
  return machine;
}

TEST(CostModelTest, FullReadsEverythingOnce) {
  const Cost cost = FullCost(kShape, 1000, 1, Machine());
  EXPECT_EQ(cost.bytes, 1000 * 256);
  // 15 ns a token of 128 + 128 channels for 3 q heads, half of it for 64 + 64; memory needs more.
  EXPECT_DOUBLE_EQ(cost.ns, 1000 * 25.6);
  MachineConstants fast = Machine();
  fast.one_bytes_per_ns = fast.all_bytes_per_ns = 1000;
  EXPECT_DOUBLE_EQ(FullCost(kShape, 1000, 1, fast).ns, 1000 * 7.5);
}

TEST(CostModelTest, ThreadsShareTheBandwidth) {
  HeadShape shape = kShape;
  shape.num_threads = 4;  // 5 bytes a ns for each.
  EXPECT_DOUBLE_EQ(FullCost(shape, 1000, 1, Machine()).ns, 1000 * 51.2);
}

TEST(CostModelTest, ASearchReadsItsKeysAndItsRows) {
  MachineConstants fast = Machine();
  fast.one_bytes_per_ns = fast.all_bytes_per_ns = 1e9;
  const SparseRead read = {.work = {.exact_keys = 100,
                                    .scanned_keys = 900,
                                    .compared_keys = 1000,
                                    .reranked_keys = 10,
                                    .hops = 2},
                           .bits = 4,
                           .rows = 50};
  const Cost cost = SparseCost(kShape, read, fast);
  EXPECT_EQ(cost.bytes, 100 * 128 + 900 * (32 + 2) + 3 * 60 * 128);
  const double streams = 100 * 7.5 / 2 + 900 * 3.0 / 2;
  const double heads = 3 * (500 + 1000 * 1 + 60 * 0.5 * 40 + 2 * 100);
  EXPECT_DOUBLE_EQ(cost.ns, streams + heads);
}

TEST(CostModelTest, RowsThatHeadsShareAreReadOnce) {
  SparseRead read = {.work = {.reranked_keys = 10}, .bits = 4, .rows = 50};
  const Cost alone = SparseCost(kShape, read, Machine());
  read.distinct = 0.5;
  const Cost together = SparseCost(kShape, read, Machine());
  EXPECT_EQ(together.bytes, alone.bytes / 2);
  EXPECT_LT(together.ns, alone.ns);
}

TEST(CostModelTest, WallTimeIsTheSlowerOfWorkAndMemory) {
  EXPECT_DOUBLE_EQ(WallMicros({.bytes = 20, .ns = 8000}, 2, Machine()), 4.0);
  EXPECT_DOUBLE_EQ(WallMicros({.bytes = 2e6, .ns = 8000}, 2, Machine()), 100.0);
}

}  // namespace
}  // namespace attndb::planner
