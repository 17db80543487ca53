// Goal:   plans are priced by the prices that the user gave, otherwise by a measurement of this
//         machine from this process or an earlier one, otherwise by fixed constants. A machine is
//         measured once.
// Method: hints of a folder, before and after a measurement.
#include "prices/machine_prices.h"

#include <gtest/gtest.h>

#include <memory>
#include <utility>

#include "prices/measure_machine.h"
#include "testing/matchers.h"
#include "testing/temp_dir.h"

namespace attndb::internal {
namespace {

class MachinePricesTest : public ::testing::Test {
 protected:
  planner::MachineConstants Marked() const {  // Unlike any that would be measured.
    planner::MachineConstants machine = DefaultMachine();
    machine.measured = true;
    machine.hop = 12345;
    return machine;
  }

  const test::TempDir dir_ = test::TempDir::InMemory();
  Hints hints_{storage::PosixFileSystem(), dir_.path()};
};

TEST_F(MachinePricesTest, AreFixedUntilTheMachineIsMeasured) {
  MachinePrices prices({}, &hints_);
  const planner::MachineConstants* const first = &prices.Get();
  EXPECT_FALSE(first->measured);
  EXPECT_TRUE(prices.ShouldMeasure());
  EXPECT_FALSE(prices.ShouldMeasure()) << "one was told so";
  ATTNDB_ASSERT_OK(prices.Measure());
  EXPECT_TRUE(prices.Get().measured);
  EXPECT_EQ(prices.current().load(), &prices.Get());
  EXPECT_FALSE(first->measured) << "who has the old ones may go on with them";
  const planner::MachineConstants* const measured = &prices.Get();
  ATTNDB_ASSERT_OK(prices.Measure());
  EXPECT_EQ(&prices.Get(), measured);
  EXPECT_TRUE(hints_.FindMachine(DefaultMachine()).has_value()) << "for the next process";
}

TEST_F(MachinePricesTest, WhatMeasuringTakesIsCountedAndWithoutItTheFixedOnesDo) {
  uint64_t reserved_bytes = 0;
  std::weak_ptr<const void> held;
  std::shared_ptr<const void> room;
  MachinePrices prices({.reserve =
                            [&](uint64_t bytes) {
                              reserved_bytes = bytes;
                              held = room;
                              return std::exchange(room, nullptr);
                            }},
                       &hints_);
  EXPECT_EQ(prices.Measure().code(), StatusCode::kResourceExhausted);
  EXPECT_FALSE(prices.Get().measured);
  room = std::make_shared<int>(1);
  ATTNDB_ASSERT_OK(prices.Measure());
  EXPECT_TRUE(prices.Get().measured);
  EXPECT_EQ(reserved_bytes, MeasuredBytes());
  EXPECT_TRUE(held.expired());  // It is given back.
}

TEST_F(MachinePricesTest, AreTakenFromTheHints) {
  hints_.NoteMachine(Marked());
  MachinePrices prices({}, &hints_);
  EXPECT_EQ(prices.Get().hop, 12345);
  EXPECT_FALSE(prices.ShouldMeasure());
}

TEST_F(MachinePricesTest, ThatAreGivenStay) {
  planner::MachineConstants given = Marked();
  given.measured = false;
  given.hop = 77;
  hints_.NoteMachine(Marked());
  MachinePrices prices({.given = given}, &hints_);
  EXPECT_FALSE(prices.ShouldMeasure());
  ATTNDB_ASSERT_OK(prices.Measure());
  EXPECT_EQ(prices.Get().hop, 77);
}

TEST_F(MachinePricesTest, WithoutMeasuringTheyAreFixedAndNothingIsNoted) {
  hints_.NoteMachine(Marked());
  MachinePrices fixed({.measures = false}, &hints_);
  EXPECT_FALSE(fixed.Get().measured);
  EXPECT_FALSE(fixed.ShouldMeasure());
  const test::TempDir other = test::TempDir::InMemory();
  Hints none(storage::PosixFileSystem(), other.path());
  MachinePrices reader({.read_only = true}, &none);
  EXPECT_FALSE(reader.ShouldMeasure());
  ATTNDB_ASSERT_OK(reader.Measure());  // An explicit request measures.
  EXPECT_TRUE(reader.Get().measured);
  EXPECT_FALSE(none.FindMachine(DefaultMachine()).has_value());
}

}  // namespace
}  // namespace attndb::internal
