// Goal:   a call of a progress callback through the C interface is refused, and does not hang, if
//         it would wait for the call that reports the progress.
// Method: a compact of two segments, whose progress calls the store.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "api/c_api_call.h"
#include "api/db_test_util.h"
#include "attndb/c_api.h"

namespace attndb {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;

class CApiProgressTest : public test::DBFixture {
 protected:
  explicit CApiProgressTest(bool background_builds = false) : DBFixture(background_builds) {}

  struct Seen {
    attndb_db* db;
    std::vector<attndb_code> codes;
    std::vector<std::string> messages;
  };
  static int32_t CallTheStore(uint64_t, uint64_t, void* user_data) {
    auto* const seen = static_cast<Seen*>(user_data);
    const auto note = [seen](attndb_code code) {
      seen->codes.push_back(code);
      seen->messages.emplace_back(attndb_last_error());
    };
    note(attndb_db_compact(seen->db));
    note(attndb_db_drop(seen->db, "b"));
    note(attndb_db_wait_for_background(seen->db, nullptr, nullptr));
    return 1;
  }
  // Compacts with a progress that makes its call at least once.
  static void Compact(uint64_t segment_tokens, attndb_progress progress, Seen* seen) {
    attndb_compact_options options = {};
    options.struct_size = sizeof options;
    options.segment_tokens = segment_tokens;
    ASSERT_EQ(attndb_db_compact_with(seen->db, &options, progress, seen), ATTNDB_OK);
    EXPECT_FALSE(seen->codes.empty());
  }
};

TEST_F(CApiProgressTest, CallsThatWaitForTheCompactAreRefusedByItsProgress) {
  const test::Tokens tokens = test::ToyModel::Tokens(100, 1);
  ATTNDB_ASSERT_OK(StoreTokens(std::span(tokens).first(60), {.name = "a"}));
  ATTNDB_ASSERT_OK(StoreTokens(tokens, {.name = "b"}));
  ATTNDB_ASSERT_OK(db_->Drop("a"));
  ASSERT_EQ(db_->Describe("b")->segments.size(), 2u);
  attndb_db handle{*db_};
  Seen seen{&handle, {}, {}};
  Compact(100, CallTheStore, &seen);
  EXPECT_THAT(seen.codes, Each(ATTNDB_FAILED_PRECONDITION));
  EXPECT_THAT(seen.messages, Each(HasSubstr("called by the progress of a compact")));
  EXPECT_EQ(db_->Describe("b")->segments.size(), 1u);
  EXPECT_EQ(attndb_db_drop(&handle, "b"), ATTNDB_OK);
}

class CApiBuildingProgressTest : public CApiProgressTest {
 protected:
  CApiBuildingProgressTest() : CApiProgressTest(/*background_builds=*/true) {}

  static int32_t BuildPlanes(uint64_t, uint64_t, void* user_data) {
    auto* const seen = static_cast<Seen*>(user_data);
    seen->codes.push_back(attndb_db_build(seen->db, "b", "planes", nullptr, nullptr, nullptr));
    return 1;
  }
};

// A build waits for no merge.
TEST_F(CApiBuildingProgressTest, TheProgressOfACompactMayBuildAnIndex) {
  const test::Tokens tokens = test::ToyModel::Tokens(1000, 1);
  Open({.background_builds = false});
  ATTNDB_ASSERT_OK(StoreTokens(std::span(tokens).first(600), {.name = "a"}));
  ATTNDB_ASSERT_OK(StoreTokens(tokens, {.name = "b"}));
  ATTNDB_ASSERT_OK(db_->Drop("a"));
  Open();
  attndb_db handle{*db_};
  Seen seen{&handle, {}, {}};
  Compact(1000, BuildPlanes, &seen);
  EXPECT_THAT(seen.codes, Each(ATTNDB_OK));
}

}  // namespace
}  // namespace attndb
