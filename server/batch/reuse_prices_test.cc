// Goal:   what is stored is read where that is cheaper than running it again, and run where not;
//         without measurements it is read; a disk that was slow once is tried again.
// Method: prices that are told, not measured.
#include "server/batch/reuse_prices.h"

#include <gtest/gtest.h>

#include <string>

namespace attndb::server {
namespace {

constexpr uint64_t kBytes = uint64_t{1} << 20;

TEST(ReusePricesTest, WithoutMeasurementsWhatIsStoredIsRead) {
  ReusePrices prices;
  EXPECT_EQ(prices.PriceOf(0, 0).way, ReuseWay::kNone);
  EXPECT_EQ(prices.PriceOf(10, 0).way, ReuseWay::kMemory);
  EXPECT_EQ(prices.PriceOf(10, kBytes).way, ReuseWay::kDisk);
  prices.LearnRun(1e-9);
  EXPECT_EQ(prices.PriceOf(10, kBytes).way, ReuseWay::kDisk) << "no load was measured";
  ReusePrices others;
  others.LearnRead(kBytes, 1e9);
  EXPECT_EQ(others.PriceOf(10, kBytes).way, ReuseWay::kDisk) << "no prompt was measured";
}

TEST(ReusePricesTest, TheCheaperIsTaken) {
  ReusePrices prices;
  prices.LearnRead(kBytes, 0.5);
  prices.LearnRun(0.01);
  const ReusePrice few = prices.PriceOf(49, kBytes);
  EXPECT_EQ(few.way, ReuseWay::kRun);
  EXPECT_NEAR(few.read_seconds, 0.5, 1e-9);
  EXPECT_NEAR(few.run_seconds, 0.49, 1e-9);
  EXPECT_EQ(few.num_tokens, 49u);
  EXPECT_EQ(few.num_bytes, kBytes);
  EXPECT_EQ(prices.PriceOf(51, kBytes).way, ReuseWay::kDisk);
  EXPECT_EQ(prices.PriceOf(49, 0).way, ReuseWay::kMemory) << "there is nothing to read";
  EXPECT_EQ(prices.PriceOf(49, kBytes / 2).way, ReuseWay::kDisk);
}

TEST(ReusePricesTest, SmallLoadsAndClocksThatStandTellNothing) {
  ReusePrices prices;
  prices.LearnRun(1e-6);
  prices.LearnRead(100, 1.0);
  prices.LearnRead(kBytes, 0.0);
  EXPECT_EQ(prices.PriceOf(1, kBytes).way, ReuseWay::kDisk);
  EXPECT_EQ(prices.PriceOf(1, kBytes).read_seconds, 0.0);
}

TEST(ReusePricesTest, ASlowDiskIsTriedAgain) {
  ReusePrices prices;
  prices.LearnRead(kBytes, 4.0);
  prices.LearnRun(0.01);
  int num_declined = 0;
  for (; num_declined < 1000; ++num_declined) {
    const ReusePrice price = prices.PriceOf(100, kBytes);
    if (price.way == ReuseWay::kDisk) break;
    prices.NoteDeclined(price);
  }
  EXPECT_EQ(num_declined, 28) << "4 s times .95^28 is less than the 1 s of running";
  EXPECT_EQ(prices.num_declined_tokens(), 2800u);
  prices.LearnRead(kBytes, 0.01);
  EXPECT_LT(prices.PriceOf(100, kBytes).read_seconds, 0.81);
}

TEST(ReusePricesTest, WaysHaveNames) {
  EXPECT_EQ(NameOf(ReuseWay::kNone), std::string("none"));
  EXPECT_EQ(NameOf(ReuseWay::kMemory), std::string("memory"));
  EXPECT_EQ(NameOf(ReuseWay::kDisk), std::string("disk"));
  EXPECT_EQ(NameOf(ReuseWay::kRun), std::string("run"));
}

}  // namespace
}  // namespace attndb::server
