// Goal:   damage that a reader met is in the catalog before another caller reads the catalog,
//         together with the tokens that are still whole.
// Method: a byte of a segment's file is turned over, and noted by hand; the lane that would write
//         the note down is stuck, or not.
#include "store/damage_reports.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "store/object_path.h"
#include "store/store_test_util.h"
#include "testing/event.h"
#include "testing/matchers.h"

namespace attndb::store {
namespace {

using test::FailsWith;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class DamageReportsTest : public StoreTest {
 protected:
  ~DamageReportsTest() override {
    release_.Set();
    store_.reset();  // Its jobs wait for what follows.
  }

  // Turns a byte of K or V of the context's only segment, and tells that as a reader would.
  void NoteDamage(const std::string& name) {
    const std::shared_ptr<storage::Segment> segment = FirstOf(name, 1).chain.entries[0].segment;
    const std::string path = dir_.File("store/" + ObjectPath({.segment_id = segment->id()}));
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    const auto middle = static_cast<std::streamoff>(std::filesystem::file_size(path) / 2);
    const int turned = file.seekg(middle).get() ^ 0x10;
    file.seekp(middle).put(static_cast<char>(turned));
    file.close();
    store_->damage()->Note(*segment, Status::Corruption("met"));
  }
  // Jobs that would write notes wait until the end of the test.
  void StopTheBackground() {
    test::Event stuck;
    store_->background()->Add(kShortLane, {.run = [this, &stuck](derived::Lanes::Control*) {
                                stuck.Set();
                                release_.Await();
                                return Status::Ok();
                              }});
    stuck.Await();
  }

  test::Event release_;
};

TEST_F(DamageReportsTest, TheBackgroundWritesDownWhatWasNoted) {
  ATTNDB_ASSERT_OK(Store({1}, {.name = "a"}).status());
  NoteDamage("a");
  ATTNDB_ASSERT_OK(store_->background()->Wait(nullptr));
  EXPECT_EQ(store_->Stats("t", true)->num_damaged_segments, 1u);
}

TEST_F(DamageReportsTest, WhoLooksWritesDownBeforeWhatWasNoted) {
  for (const uint64_t tail : {1u, 2u, 3u, 4u, 5u}) {
    ATTNDB_ASSERT_OK(Store({tail}, {.name = std::to_string(tail)}).status());
  }
  StopTheBackground();
  NoteDamage("1");
  ATTNDB_ASSERT_OK_AND_ASSIGN(const Prefix prefix,
                              store_->lookup()->OpenPrefix("t", spec_, Tokens({1}), {}));
  EXPECT_EQ(prefix.context, ContextId::kNone);
  NoteDamage("2");
  EXPECT_THAT(store_->lookup()->OpenNamed("t", spec_, "2", 0),
              FailsWith(StatusCode::kCorruption, HasSubstr("is damaged (see describe)")));
  NoteDamage("3");
  ATTNDB_ASSERT_OK_AND_ASSIGN(const SearchSet set, store_->lookup()->OpenForSearch("t", spec_, {}));
  std::vector<std::string> skipped;
  for (const SkippedContext& context : set.skipped) skipped.push_back(context.context);
  EXPECT_THAT(skipped, ElementsAre("1", "2", "3"));
  NoteDamage("4");
  EXPECT_TRUE(store_->admin()->Describe("t", "4")->damaged);
  NoteDamage("5");
  EXPECT_TRUE(store_->admin()->List("t")->back().damaged);
}

TEST_F(DamageReportsTest, AMessageTellsHowManyTokensAreSound) {
  const Status damage = Status::Corruption("a page");
  EXPECT_EQ(DamageReports::MessageOf({damage, 0}), "a page");
  EXPECT_EQ(DamageReports::MessageOf({damage, 7}), "a page; its sound beginning has 7 tokens");
}

TEST_F(DamageReportsTest, WhatCanNotBeReadIsDamageIfItsBytesAreWrongOrMissing) {
  ATTNDB_ASSERT_OK(Store({1}, {.name = "a"}).status());
  const auto segment = static_cast<SegmentId>(FirstOf("a", 1).chain.entries[0].segment->id());
  for (const StatusCode code : {StatusCode::kIoError, StatusCode::kResourceExhausted}) {
    EXPECT_EQ(store_->damage()->QuarantineIfDamaged(segment, Status(code, "test")).code(), code);
    EXPECT_EQ(store_->Stats("t", true)->num_damaged_segments, 0u);
  }
  for (const StatusCode code : {StatusCode::kCorruption, StatusCode::kNotFound}) {
    EXPECT_THAT(store_->damage()->QuarantineIfDamaged(segment, Status(code, "test")),
                FailsWith(StatusCode::kCorruption, HasSubstr("test")));
    EXPECT_EQ(store_->Stats("t", true)->num_damaged_segments, 1u);
    ATTNDB_ASSERT_OK(VerifyAll());  // It is whole.
    EXPECT_EQ(store_->Stats("t", true)->num_damaged_segments, 0u);
  }
}

TEST_F(DamageReportsTest, DamageThatCanNotBeWrittenDownIsToldAsThat) {
  ATTNDB_ASSERT_OK(Store({1}, {.name = "a"}).status());
  const auto segment = static_cast<SegmentId>(FirstOf("a", 1).chain.entries[0].segment->id());
  ATTNDB_ASSERT_OK(store_->background()->Wait(nullptr));
  std::filesystem::rename(dir_.File("store"), dir_.File("moved"));
  EXPECT_THAT(store_->damage()->QuarantineIfDamaged(segment, Status::Corruption("met")),
              FailsWith(StatusCode::kIoError, HasSubstr("was moved")));
  store_.reset();
  std::filesystem::rename(dir_.File("moved"), dir_.File("store"));
}

}  // namespace
}  // namespace attndb::store
