// Goal:   what is set is told, and nothing is set in a store that is only read.
// Method: one context, listed and described.
#include "store/admin.h"

#include <gtest/gtest.h>

#include "store/store_test_util.h"
#include "testing/matchers.h"

namespace attndb::store {
namespace {

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
  EXPECT_EQ(admin->Pin("t", "a", true).code(), StatusCode::kReadOnly);
  EXPECT_EQ(admin->SetTtl("t", "a", std::nullopt).code(), StatusCode::kReadOnly);
  EXPECT_EQ(admin->SetQuota("t", 1).code(), StatusCode::kReadOnly);
  EXPECT_EQ(admin->DeclareEqual("x", "y").code(), StatusCode::kReadOnly);
  EXPECT_EQ(admin->List("t")->size(), 1u);
}

}  // namespace
}  // namespace attndb::store
