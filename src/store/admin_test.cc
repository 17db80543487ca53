// Goal:   what is set is told, and nothing is set in a store that is only read.
// Method: one context, listed and described.
#include "store/admin.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "store/store_test_util.h"
#include "testing/matchers.h"

namespace attndb::store {
namespace {

using ::attndb::test::FailsWith;
using ::testing::HasSubstr;

class AdminTest : public StoreTest {};

TEST_F(AdminTest, WhatIsSetIsTold) {
  ATTNDB_ASSERT_OK(Store({1}, {.name = "a"}).status());
  Admin* const admin = store_->admin();
  ATTNDB_ASSERT_OK(admin->Pin("t", "a", true));
  ATTNDB_ASSERT_OK(admin->SetTtl("t", "a", std::chrono::seconds(60)));
  ATTNDB_ASSERT_OK_AND_ASSIGN(const ContextInfo info, admin->Describe("t", "a"));
  EXPECT_TRUE(info.pinned);
  EXPECT_EQ(info.ttl_seconds, 60);
  EXPECT_EQ(info.num_tokens, kTokens);
  EXPECT_EQ(info.segments.size(), 1u);
  EXPECT_EQ(info.num_layers, spec_.num_layers());
  EXPECT_EQ(info.rope_scaling, "");
  ATTNDB_ASSERT_OK_AND_ASSIGN(const std::vector<ContextInfo> all, admin->List("t"));
  ASSERT_EQ(all.size(), 1u);
  EXPECT_EQ(all[0].id, info.id);
  EXPECT_EQ(all[0].file_bytes, info.file_bytes);
  EXPECT_TRUE(admin->List("u")->empty());
  EXPECT_EQ(admin->Describe("u", "a").status().code(), StatusCode::kNotFound);
}

TEST_F(AdminTest, NothingIsSetInAStoreThatIsOnlyRead) {
  ATTNDB_ASSERT_OK(Store({1}, {.name = "a"}).status());
  Open({.read_only = true});
  Admin* const admin = store_->admin();
  const auto is_refused = FailsWith(StatusCode::kReadOnly, HasSubstr("was opened for reading"));
  EXPECT_THAT(admin->Pin("t", "a", true), is_refused);
  EXPECT_THAT(admin->SetTtl("t", "a", std::nullopt), is_refused);
  EXPECT_THAT(admin->SetQuota("t", 1), is_refused);
  EXPECT_THAT(admin->DeclareEqual("t", "x", "y"), is_refused);
  EXPECT_THAT(admin->RevokeEqual("t", "x", "y"), is_refused);
  EXPECT_EQ(admin->List("t")->size(), 1u);
}

TEST_F(AdminTest, EachSegmentOfAChainIsToldAsItIs) {
  ATTNDB_ASSERT_OK(Store({1}, {.name = "a"}).status());
  ATTNDB_ASSERT_OK_AND_ASSIGN(const Stored stored, Store({1, 2}, {.name = "b"}));
  ATTNDB_ASSERT_OK(store_->background()->Wait(nullptr));
  ATTNDB_ASSERT_OK_AND_ASSIGN(const ContextInfo info, store_->admin()->Describe("t", "b"));
  ASSERT_EQ(info.segments.size(), 2u);
  uint64_t file_bytes = 0;
  for (size_t i = 0; i < 2; ++i) {
    const SegmentInfo& segment = info.segments[i];
    EXPECT_EQ(segment.segment_id, static_cast<int64_t>(i + 1));  // Its tenant's first, and second.
    EXPECT_EQ(segment.num_tokens_used, kTokens);
    EXPECT_EQ(segment.num_tokens, kTokens);
    EXPECT_EQ(segment.num_contexts, i == 0 ? 2u : 1u);
    EXPECT_EQ(segment.file_bytes, stored.chain[i].segment->file_bytes());
    file_bytes += segment.file_bytes;
  }
  EXPECT_EQ(info.file_bytes, file_bytes + info.companion_bytes);
}

}  // namespace
}  // namespace attndb::store
