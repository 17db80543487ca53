// Goal:   a session's points say how many first tokens it shares with which other sessions, and
//         which contexts hold them.
// Method: points are added, cropped and forgotten as a session does; a copy stands for a fork.
#include "common/fork_points.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace attndb {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::vector<uint64_t> LengthsOf(const ForkPoints& points) {
  std::vector<uint64_t> lengths;
  for (const SharedFork& fork : points.all()) lengths.push_back(fork.num_tokens);
  return lengths;
}

ForkPoint::Stored StoredAs(int64_t context, uint64_t num_tokens) {
  return {static_cast<ContextId>(context), num_tokens};
}

TEST(ForkPointsTest, ForksAtOneLengthShareAPoint) {
  ForkPoints points;
  EXPECT_THAT(points.all(), IsEmpty());
  points.AddFork(10);
  points.AddFork(10);
  points.Add(25);
  EXPECT_THAT(LengthsOf(points), ElementsAre(10, 25));
  EXPECT_TRUE(points.all().front().point->is_forked());
  EXPECT_FALSE(points.all().back().point->is_forked());
}

TEST(ForkPointsTest, ACroppedSessionSharesNoMoreThanItHas) {
  ForkPoints points;
  points.Add(10);
  points.Add(25);
  const ForkPoints fork = points;
  points.Crop(7);
  EXPECT_THAT(LengthsOf(points), ElementsAre(7, 7));
  EXPECT_THAT(LengthsOf(fork), ElementsAre(10, 25));
  points.Add(25);
  EXPECT_NE(points.all().back().point, fork.all().back().point) << "they have other tokens there";
}

TEST(ForkPointsTest, PointsThatShareStoredTokensAloneAreForgotten) {
  ForkPoints points;
  points.Add(10);
  points.Add(25);
  points.Forget(24);
  EXPECT_THAT(LengthsOf(points), ElementsAre(25));
  points.Forget(25);
  EXPECT_THAT(points.all(), IsEmpty());
}

TEST(ForkPointsTest, SessionsThatShareAPointAreAFamily) {
  ForkPoints first, other;
  first.Add(10);
  ForkPoints fork = first;
  fork.Add(20);
  first.Add(30);
  other.Add(10);
  const void* const family = first.all().front().point->family();
  EXPECT_EQ(first.all().back().point->family(), family);
  EXPECT_EQ(fork.all().back().point->family(), family);
  EXPECT_NE(other.all().front().point->family(), family);
}

TEST(ForkPointsTest, TheLastPointsAreRemembered) {
  ForkPoints points;
  for (uint64_t n = 1; n <= ForkPoints::kMaxPoints + 2; ++n) points.Add(n);
  EXPECT_EQ(points.all().size(), ForkPoints::kMaxPoints);
  EXPECT_EQ(points.all().front().num_tokens, 3u);
  EXPECT_EQ(points.all().back().num_tokens, ForkPoints::kMaxPoints + 2);
}

TEST(ForkPointTest, RemembersTheLastContexts) {
  ForkPoint point(nullptr);
  EXPECT_THAT(point.stored(), IsEmpty());
  point.NoteStored(StoredAs(1, 10));
  point.NoteStored(StoredAs(2, 10));
  point.NoteStored(StoredAs(1, 10));
  EXPECT_THAT(point.stored(), ElementsAre(StoredAs(1, 10), StoredAs(2, 10)));
  for (int64_t i = 3; i < 20; ++i) point.NoteStored(StoredAs(i, 10));
  EXPECT_EQ(point.stored().size(), ForkPoint::kMaxContexts);
  EXPECT_EQ(point.stored().front(), StoredAs(19, 10));
}

}  // namespace
}  // namespace attndb
