// Goal:   what is stored again has no new chain; what is held is not evicted; what can be refused
//         is refused before anything is written.
// Method: small stores with a quota.
#include "store/publisher.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "store/object_path.h"
#include "store/store_test_util.h"
#include "testing/fault_file_system.h"
#include "testing/matchers.h"

namespace attndb::store {
namespace {

using ::testing::HasSubstr;

class PublisherTest : public StoreTest {
 protected:
  // Cuts the file of the context's segment, and lets Verify find that.
  void Damage(const std::string& name) {
    ATTNDB_ASSERT_OK_AND_ASSIGN(const WholeContext whole,
                                store_->lookup()->OpenNamed("t", spec_, name, 0));
    const uint64_t id = whole.chain.entries.front().segment->id();
    const std::string file = dir_.File("store/" + ObjectPath({.segment_id = id}));
    std::filesystem::resize_file(file, std::filesystem::file_size(file) / 2);
    ATTNDB_ASSERT_OK(VerifyAll().status());
    ASSERT_TRUE(store_->admin()->Describe("t", name)->damaged);
  }
};

TEST_F(PublisherTest, WhatIsStoredAgainHasNoNewChain) {
  ATTNDB_ASSERT_OK_AND_ASSIGN(const Stored first, Store({1}));
  const std::vector<TokenId> tokens = Tokens({1});
  ATTNDB_ASSERT_OK_AND_ASSIGN(Prefix prefix, store_->lookup()->OpenPrefix("t", spec_, tokens, {}));
  ATTNDB_ASSERT_OK_AND_ASSIGN(const Stored again,
                              store_->publisher()->Store({.tenant = "t",
                                                          .spec = spec_,
                                                          .tokens = tokens,
                                                          .base = prefix.context,
                                                          .chain = std::move(prefix.chain.entries),
                                                          .num_stored = kTokens}));
  EXPECT_EQ(again.context, first.context);
  EXPECT_TRUE(again.chain.empty());
}

TEST_F(PublisherTest, WhatIsHeldIsNotEvicted) {
  ATTNDB_ASSERT_OK_AND_ASSIGN(Stored held, Store({1}));
  ATTNDB_ASSERT_OK_AND_ASSIGN(const DBStats stats, store_->Stats("t", true));
  ATTNDB_ASSERT_OK(store_->admin()->SetQuota("t", stats.file_bytes * 3 / 2));
  const Status refused = Store({2}).status();
  EXPECT_EQ(refused.code(), StatusCode::kResourceExhausted);
  EXPECT_THAT(refused.message(), HasSubstr("neither pinned nor in use hold 0"));
  held = {};
  ATTNDB_ASSERT_OK(Store({2}).status());
  ATTNDB_ASSERT_OK_AND_ASSIGN(const auto contexts, store_->admin()->List("t"));
  ASSERT_EQ(contexts.size(), 1u);
  EXPECT_NE(contexts[0].id, held.context);
}

TEST_F(PublisherTest, RoomThatTheDiskLacksIsToldBefore) {
  ATTNDB_ASSERT_OK(Store({1}).status());
  const auto room_for = [&](uint64_t kv_bytes) {
    Prefix prefix = store_->lookup()->OpenPrefix("t", spec_, Tokens({1}), {}).value();
    return store_->publisher()->CheckRoom(
        {.tenant = "t", .prefix = std::move(prefix), .bytes_from = [=](uint64_t) {
           return Result<Publisher::RoomRequest::Bytes>({.file_bytes = 1, .kv_bytes = kv_bytes});
         }});
  };
  ATTNDB_EXPECT_OK(room_for(1).status());
  EXPECT_THAT(room_for(uint64_t{1} << 50).status(),
              test::FailsWith(StatusCode::kResourceExhausted, HasSubstr("are needed")));
}

TEST_F(PublisherTest, ANameThatIsTakenIsRefusedBeforeAnythingIsWritten) {
  ATTNDB_ASSERT_OK(Store({1}, {.name = "a"}).status());
  const uint64_t bytes = store_->Stats("t", true)->bytes_written;
  EXPECT_EQ(store_->publisher()->CheckStore({.tenant = "t", .options = {.name = "a"}}, 1).code(),
            StatusCode::kAlreadyExists);
  EXPECT_EQ(Store({2}, {.name = "a"}).status().code(), StatusCode::kAlreadyExists);
  EXPECT_EQ(store_->Stats("t", true)->bytes_written, bytes);
  ATTNDB_EXPECT_OK(store_->publisher()->CheckStore(
      {.tenant = "t", .options = {.name = "a", .replace = true}}, 1));
  EXPECT_EQ(store_->Stats("t", true)->num_stores, 1u);
}

TEST_F(PublisherTest, TheNameOfADamagedContextIsForItsOwnTextAlone) {
  ATTNDB_ASSERT_OK(Store({1}, {.name = "a"}).status());
  Damage("a");
  const uint64_t bytes = store_->Stats("t", true)->bytes_written;
  EXPECT_EQ(Store({2}, {.name = "a"}).status().code(), StatusCode::kAlreadyExists);
  EXPECT_EQ(store_->Stats("t", true)->bytes_written, bytes) << "refused once it was written";
  ATTNDB_ASSERT_OK(Store({1}, {.name = "a"}).status());
  EXPECT_FALSE(store_->admin()->Describe("t", "a")->damaged);
}

TEST_F(PublisherTest, CutsStayWithWhatIsStored) {
  const std::vector<Cut> cuts = {{.at = 10, .dropped = {{2, 5}}}};
  const std::vector<TokenId> tokens = Tokens({1});
  StoreRequest request = {.tenant = "t",
                          .spec = spec_,
                          .tokens = tokens,
                          .cuts = cuts,
                          .tail = std::make_shared<test::DataSource>(&Tail(1), 7),
                          .options = {.name = "a"}};
  ATTNDB_ASSERT_OK(store_->publisher()->Store(request).status());
  ATTNDB_ASSERT_OK_AND_ASSIGN(const WholeContext whole,
                              store_->lookup()->OpenNamed("t", spec_, "a", 0));
  EXPECT_EQ(whole.cuts, cuts);
}

TEST_F(PublisherTest, ADiskThatIsFullOnceCostsNothing) {
  test::FaultFileSystem files(storage::PosixFileSystem());
  Open({}, &files);
  uint64_t tail = 1;
  for (uint64_t n = 1; n == 1 || files.num_faults() > 0; ++n) {
    files.SetPlan({.fail_at = n, .kind = test::FaultKind::kNoSpace});
    ATTNDB_EXPECT_OK(Store({tail++}).status()) << "at operation " << n;
    ATTNDB_ASSERT_OK(store_->background()->Wait(nullptr));
  }
  EXPECT_GT(tail, 10u);
}

}  // namespace
}  // namespace attndb::store
