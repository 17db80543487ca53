// Goal:   the mean error comes to what was asked for, whatever heads are like, and stays there.
// Method: heads whose error is a multiple of what they aim at, and noise.
#include "planner/draw_control.h"

#include <gtest/gtest.h>

#include "common/random.h"

namespace attndb::planner {
namespace {

TEST(DrawControl, BringsTheMeanToWhatWasAskedFor) {
  for (const double hardness : {0.7, 1.0, 4.0}) {
    DrawControl control;
    Random random(1);
    double sum = 0;
    constexpr int kHeads = 20000;
    for (int i = 0; i < 2 * kHeads; ++i) {
      const double error = control.aim() * hardness * (0.5 + random.NextDouble());
      control.Observe(error);
      if (i >= kHeads) sum += error / kHeads;
    }
    EXPECT_NEAR(sum, 0.85, 0.05) << hardness;
  }
}

TEST(DrawControl, HeadsWithoutErrorDoNotMakeItCareless) {
  DrawControl control;
  for (int i = 0; i < 100000; ++i) control.Observe(0);
  EXPECT_LE(control.aim(), 2.0);
  for (int i = 0; i < 6400; ++i) control.Observe(20 * control.aim());
  EXPECT_NEAR(control.aim(), 0.1, 1e-9);
}

}  // namespace
}  // namespace attndb::planner
