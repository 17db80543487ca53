// Goal:   Describe tells each value that was set, and a read-only store refuses to set one.
// Method: one context, listed and described.
#include "store/admin.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "store/store_test_util.h"
#include "testing/kv_data.h"
#include "testing/matchers.h"

namespace attndb::store {
namespace {

using ::attndb::test::FailsWith;
using ::testing::ElementsAre;
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

TEST_F(AdminTest, WhatAContextWasComputedByAndWhenItWasUsedIsTold) {
  const auto now_us = std::make_shared<int64_t>(1'700'000'000'000'000);
  Open({.background_builds = false, .clock = [now_us] { return *now_us; }});
  Random random(3);
  tails_[1] = test::RandomSegment(
      {.shape = ShapeOf(spec_), .num_tokens = kTokens, .num_queries = 200}, &random);
  test::SetNan({.num_rows = kTokens, .head_dim = 16}, 3, 5, tails_[1].layers[1][0].k.data());
  StoreRequest request = Behind({}, 1, {.name = "a", .ttl = std::chrono::seconds(60)});
  request.first_position = 7;
  request.spec.source = {.name = "Toy", .path = "/models/toy"};
  request.spec.unrotated_keys = true;
  request.spec.layers[1].rope.layout = RopeLayout::kHalf;
  request.spec.layers[1].rope.scaling = "linear:factor=4";
  const int64_t created_us = *now_us;
  {
    ATTNDB_ASSERT_OK_AND_ASSIGN(const Stored stored, store_->publisher()->Store(request));
    *now_us += 5'000'000;
  }
  ATTNDB_ASSERT_OK_AND_ASSIGN(const ContextInfo info, store_->admin()->Describe("t", "a"));
  ATTNDB_ASSERT_OK_AND_ASSIGN(const std::vector<ContextInfo> all, store_->admin()->List("t"));
  ASSERT_EQ(all.size(), 1u);
  EXPECT_TRUE(all[0].segments.empty());
  for (const ContextInfo& told : {info, all[0]}) {
    EXPECT_EQ(told.id, ContextId{1});
    EXPECT_EQ(told.name, "a");
    EXPECT_EQ(told.num_tokens, kTokens);
    EXPECT_EQ(told.kv_bytes, kTokens * request.spec.KvBytesPerToken());
    EXPECT_EQ(told.own_bytes, told.file_bytes);
    EXPECT_EQ(told.retained_bytes, 0u);
    EXPECT_GT(told.query_sample_bytes, 0u);
    EXPECT_EQ(told.created_us, created_us);
    EXPECT_EQ(told.last_access_us, *now_us);
    EXPECT_EQ(told.ttl_seconds, 60);
    EXPECT_FALSE(told.pinned || told.expired || told.damaged);
    EXPECT_EQ(told.first_position, 7);
    EXPECT_EQ(told.kv_dtype, DType::kFloat16);
    EXPECT_TRUE(told.unrotated_keys);
    EXPECT_EQ(told.fingerprint, "store_test");
    EXPECT_EQ(told.model_name, "Toy");
    EXPECT_EQ(told.model_path, "/models/toy");
    EXPECT_EQ(told.num_layers, 2u);
    EXPECT_EQ(told.rope_scaling, "linear:factor=4");
    EXPECT_THAT(told.non_finite_heads, ElementsAre("layer 1 head 0"));
    EXPECT_EQ(told.num_pending_companions, 0u);
  }
  *now_us += 61'000'000;
  EXPECT_TRUE(store_->admin()->Describe("t", "a")->expired);
}

TEST_F(AdminTest, WhatIsKeptOfASegmentForOthersIsTold) {
  MakeTail(9, 100);
  ATTNDB_ASSERT_OK(store_->publisher()->Store(Behind({}, 9, {.name = "long"})).status());
  ATTNDB_ASSERT_OK(store_->publisher()
                       ->Store(Behind(FirstOf("long", 60), std::nullopt, {.name = "part"}))
                       .status());
  EXPECT_EQ(store_->admin()->Describe("t", "part")->own_bytes, 0u);
  EXPECT_EQ(store_->admin()->Describe("t", "part")->retained_bytes, 0u);
  ATTNDB_ASSERT_OK(store_->publisher()->Drop("t", "long"));
  ATTNDB_ASSERT_OK_AND_ASSIGN(const ContextInfo part, store_->admin()->Describe("t", "part"));
  EXPECT_EQ(part.own_bytes, part.file_bytes);
  EXPECT_EQ(part.retained_bytes, 40 * spec_.KvBytesPerToken());
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
