// Goal:   storing a context again makes no new chain. Segments worth sharing are shared, and held
//         segments are not evicted. A Store that can be refused is refused before anything is
//         written.
// Method: small stores with a quota, and on a disk that fails or is full.
#include "store/publisher.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "store/hooked_files_test_util.h"
#include "store/object_path.h"
#include "store/store_test_util.h"
#include "testing/fault_file_system.h"
#include "testing/matchers.h"

namespace attndb::store {
namespace {

using test::FailsWith;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class PublisherTest : public StoreTest {
 protected:
  static constexpr uint64_t kLong = 100;  // The number of a tail, and how many tokens it has.

  ~PublisherTest() override { store_.reset(); }  // While its files are there.

  Publisher* publisher() { return store_->publisher(); }
  // Stores a context "long" of one segment that is longer than a block.
  void StoreLong() {
    MakeTail(kLong, kLong);
    ATTNDB_ASSERT_OK(publisher()->Store(Behind({}, kLong, {.name = "long"})).status());
  }
  uint64_t BytesWritten() { return store_->Stats("t", true)->bytes_written; }
  // Opens the store with a clock that shows what it gives.
  std::shared_ptr<int64_t> OpenWithClock() {
    const auto now_us = std::make_shared<int64_t>(1'700'000'000'000'000);
    Open({.background_builds = false, .clock = [now_us] { return *now_us; }});
    return now_us;
  }
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

  test::FaultFileSystem files_{storage::PosixFileSystem()};
  HookedFiles disk_{&files_};
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

TEST_F(PublisherTest, WhatIsStoredAgainAndCalledOrKeptOtherwiseIsAContextOfItsOwn) {
  ATTNDB_ASSERT_OK_AND_ASSIGN(const Stored first, Store({1}));
  const StoreOptions all[] = {{.name = "a"}, {.pin = true}, {.ttl = std::chrono::seconds(60)}};
  for (const StoreOptions& options : all) {
    ATTNDB_ASSERT_OK_AND_ASSIGN(
        const Stored again,
        publisher()->Store(Behind(FirstOf("#1", kTokens), std::nullopt, options)));
    EXPECT_NE(again.context, first.context);
    EXPECT_EQ(again.chain.size(), 1u);
  }
  EXPECT_EQ(store_->admin()->List("t")->size(), 4u);
}

TEST_F(PublisherTest, TheBeginningOfAContextIsAContextOfItsOwn) {
  ATTNDB_ASSERT_OK(Store({1}).status());
  ATTNDB_ASSERT_OK_AND_ASSIGN(const Stored whole, Store({1, 2}));
  ATTNDB_ASSERT_OK_AND_ASSIGN(const Stored beginning,
                              publisher()->Store(Behind(FirstOf("#2", kTokens), std::nullopt)));
  EXPECT_NE(beginning.context, whole.context);
  EXPECT_EQ(store_->admin()->Describe("t", "#3")->num_tokens, kTokens);
}

// --- What is shared ---

TEST_F(PublisherTest, ABlockOfASegmentIsSharedAndLessIsWrittenAgain) {
  constexpr uint64_t kBlock = Publisher::kMinShare;
  StoreLong();
  ATTNDB_ASSERT_OK_AND_ASSIGN(const Stored shared,
                              publisher()->Store(Behind(FirstOf("long", kBlock), 1)));
  ASSERT_EQ(shared.chain.size(), 2u);
  EXPECT_EQ(shared.chain[0].segment, FirstOf("long", 1).chain.entries[0].segment);
  EXPECT_EQ(shared.chain[0].num_tokens_used, kBlock);
  ATTNDB_ASSERT_OK_AND_ASSIGN(const Stored written,
                              publisher()->Store(Behind(FirstOf("long", kBlock - 1), 2)));
  ASSERT_EQ(written.chain.size(), 1u);
  EXPECT_EQ(written.chain[0].num_tokens_used, kBlock - 1 + kTokens);
}

TEST_F(PublisherTest, AWholeSegmentIsSharedHoweverShortItIs) {
  ATTNDB_ASSERT_OK(Store({1}).status());
  ATTNDB_ASSERT_OK(Store({1, 2}, {.name = "both"}).status());
  ATTNDB_ASSERT_OK_AND_ASSIGN(const Stored stored,
                              publisher()->Store(Behind(FirstOf("both", kTokens), 3)));
  ASSERT_EQ(stored.chain.size(), 2u);
  EXPECT_EQ(stored.chain[0].segment, FirstOf("both", kTokens).chain.entries[0].segment);
  ExpectKeys(stored.chain, {1, 3});
}

// It may grow in its place.
TEST_F(PublisherTest, APartThatIsAllOfAContextIsShared) {
  constexpr uint64_t kPart = 50;  // Less than a block.
  StoreLong();
  ATTNDB_ASSERT_OK(
      publisher()->Store(Behind(FirstOf("long", kPart), std::nullopt, {.name = "part"})).status());
  ATTNDB_ASSERT_OK_AND_ASSIGN(const Stored grown,
                              publisher()->Store(Behind(FirstOf("part", kPart), 1)));
  ASSERT_EQ(grown.chain.size(), 2u);
  EXPECT_EQ(grown.chain[0].num_tokens_used, kPart);
}

TEST_F(PublisherTest, APartOfWhatIsGoneIsWrittenAgain) {
  StoreLong();
  Prefix prefix = FirstOf("long", kTokens);
  ATTNDB_ASSERT_OK(publisher()->Drop("t", "long"));
  ATTNDB_ASSERT_OK_AND_ASSIGN(const Stored stored,
                              publisher()->Store(Behind(std::move(prefix), 1)));
  ASSERT_EQ(stored.chain.size(), 1u);
  EXPECT_EQ(stored.chain[0].num_tokens_used, 2 * kTokens);
}

TEST_F(PublisherTest, ThereIsRoomIfThatOfWhatIsSharedIsMadeByWritingItAgain) {
  constexpr uint64_t kBlock = Publisher::kMinShare;
  StoreLong();
  uint64_t first_token = 0;
  const auto room_behind = [&](uint64_t num_tokens) {
    return publisher()->CheckRoom(
        {.tenant = "t", .prefix = FirstOf("long", num_tokens), .bytes_from = [&](uint64_t token) {
           first_token = token;
           return Result<Publisher::RoomRequest::Bytes>({.file_bytes = 1, .kv_bytes = 1});
         }});
  };
  ATTNDB_EXPECT_OK(room_behind(kBlock).status());
  EXPECT_EQ(first_token, kBlock);
  ATTNDB_EXPECT_OK(room_behind(kBlock - 1).status());
  EXPECT_EQ(first_token, 0u);
  ATTNDB_ASSERT_OK(store_->admin()->SetQuota("t", store_->Stats("t", true)->file_bytes));
  for (const uint64_t num_tokens : {kBlock - 1, kBlock}) {
    ATTNDB_ASSERT_OK_AND_ASSIGN(const Publisher::Room room, room_behind(num_tokens));
    EXPECT_THAT(room.evicted, ElementsAre("long")) << num_tokens;
    EXPECT_EQ(first_token, 0u) << num_tokens;
  }
}

// --- Quotas and times to live ---

TEST_F(PublisherTest, WhatHasNothingNewNeedsNoRoom) {
  ATTNDB_ASSERT_OK(Store({1}, {.name = "a", .pin = true}).status());
  ATTNDB_ASSERT_OK(store_->admin()->SetQuota("t", 1));
  ATTNDB_EXPECT_OK(
      publisher()->Store(Behind(FirstOf("a", kTokens), std::nullopt, {.name = "b"})).status());
  EXPECT_EQ(store_->admin()->List("t")->size(), 2u);
}

TEST_F(PublisherTest, WhatTheQuotaHasNoRoomForIsRefusedBeforeAnythingIsWritten) {
  ATTNDB_ASSERT_OK(Store({1}, {.pin = true}).status());
  ATTNDB_ASSERT_OK(store_->admin()->SetQuota("t", store_->Stats("t", true)->file_bytes));
  const uint64_t bytes = BytesWritten();
  EXPECT_EQ(Store({2}).status().code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(BytesWritten(), bytes);
}

TEST_F(PublisherTest, WhatHasExpiredGoesWithTheNextStore) {
  const auto now_us = OpenWithClock();
  ATTNDB_ASSERT_OK(Store({1}, {.name = "old", .ttl = std::chrono::seconds(10)}).status());
  *now_us += 11'000'000;
  ATTNDB_ASSERT_OK(Store({2}, {.name = "new"}).status());
  ATTNDB_ASSERT_OK_AND_ASSIGN(const auto contexts, store_->admin()->List("t"));
  ASSERT_EQ(contexts.size(), 1u);
  EXPECT_EQ(contexts[0].name, "new");
  EXPECT_EQ(store_->Stats("t", true)->num_segments, 1u);
}

TEST_F(PublisherTest, TheNameOfAContextIsFreeOnceThatHasExpired) {
  const auto now_us = OpenWithClock();
  ATTNDB_ASSERT_OK(Store({1}, {.name = "old", .ttl = std::chrono::seconds(10)}).status());
  ATTNDB_ASSERT_OK(Store({2}, {.name = "new"}).status());
  EXPECT_EQ(publisher()->Rename("t", "new", "old").code(), StatusCode::kAlreadyExists);
  *now_us += 11'000'000;
  ATTNDB_EXPECT_OK(publisher()->Rename("t", "new", "old"));
  EXPECT_EQ(FirstOf("old", kTokens).chain.tokens, Tokens({2}));
  EXPECT_EQ(publisher()->Rename("t", "unknown", "#9").code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(publisher()->Rename("t", "unknown", "other").code(), StatusCode::kNotFound);
}

TEST_F(PublisherTest, NothingIsStoredRenamedOrDroppedInAStoreThatIsOnlyRead) {
  ATTNDB_ASSERT_OK(Store({1}, {.name = "a"}).status());
  Open({.read_only = true});
  const auto is_refused = FailsWith(StatusCode::kReadOnly, HasSubstr("was opened for reading"));
  EXPECT_THAT(Store({2}), is_refused);
  EXPECT_THAT(publisher()->Seal(Behind({}, 2)), is_refused);
  EXPECT_THAT(publisher()->CheckStore({.tenant = "t"}, 1), is_refused);
  EXPECT_THAT(publisher()->Rename("t", "a", "b"), is_refused);
  EXPECT_THAT(publisher()->Drop("t", "a"), is_refused);
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

TEST_F(PublisherTest, ANoteHasToFitIntoTheQuota) {
  ATTNDB_ASSERT_OK_AND_ASSIGN(const Stored held, Store({1}));
  ATTNDB_ASSERT_OK_AND_ASSIGN(const DBStats stats, store_->Stats("t", true));
  ATTNDB_ASSERT_OK(store_->admin()->SetQuota("t", stats.file_bytes * 2 + 10));
  EXPECT_EQ(Store({2}, {.note = std::string(11, 'n')}).status().code(),
            StatusCode::kResourceExhausted);
  EXPECT_EQ(publisher()
                ->CheckStore({.tenant = "t", .options = {.note = "12 too many."}}, stats.file_bytes)
                .code(),
            StatusCode::kResourceExhausted);
  ATTNDB_ASSERT_OK(Store({2}, {.name = "b", .note = std::string(10, 'n')}).status());
  EXPECT_EQ(store_->Stats("t", true)->file_bytes, stats.file_bytes * 2 + 10);
  EXPECT_EQ(store_->admin()->Describe("t", "b")->file_bytes, stats.file_bytes + 10);
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

// A shared part would be written again only if there is no other room.
TEST_F(PublisherTest, WhatSucceedsAtTheSecondTryIsStoredOnce) {
  Open({}, &files_);
  StoreLong();
  const StoreRequest request = Behind(FirstOf("long", Publisher::kMinShare), 1, {.name = "a"});
  ATTNDB_ASSERT_OK(store_->background()->Wait(nullptr));
  files_.SetPlan({.fail_at = 1, .kind = test::FaultKind::kNoSpace});
  ATTNDB_ASSERT_OK_AND_ASSIGN(const Stored stored, publisher()->Store(request));
  EXPECT_EQ(files_.num_faults(), 1u);
  EXPECT_EQ(stored.chain.size(), 2u);
  EXPECT_EQ(store_->admin()->List("t")->size(), 2u);
}

TEST_F(PublisherTest, ADiskThatIsFullOnceHindersNoSeal) {
  Open({.background_builds = false}, &files_);
  uint64_t num_met = 0;
  for (uint64_t n = 1; n == num_met + 1; ++n) {
    files_.SetPlan({.fail_at = n, .kind = test::FaultKind::kNoSpace});
    ATTNDB_ASSERT_OK_AND_ASSIGN(const Sealed sealed, publisher()->Seal(Behind({}, 1)));
    num_met += files_.num_faults();
    files_.SetPlan({});
    EXPECT_EQ(sealed.segment->num_tokens(), kTokens);
    publisher()->Abandon({&sealed.record, 1});
  }
  EXPECT_GT(num_met, 5u);
  for (const auto& entry : std::filesystem::directory_iterator(dir_.File("store/segments"))) {
    EXPECT_EQ(entry.path().extension(), ".loose");  // The next open removes it.
  }
}

TEST_F(PublisherTest, DerivedObjectsAreGivenUpWhereTheDiskIsFullAndNotElsewhere) {
  Open({.background_builds = false}, &disk_);
  ATTNDB_ASSERT_OK(Store({1}, {.name = "a"}).status());
  const derived::SegmentId segment = FirstOf("a", 1).chain.entries[0].segment->id();
  ATTNDB_ASSERT_OK(store_->derived()->PublishObject(
      segment, {.kind = "made_up", .generation = 5, .file_bytes = 10}));
  const auto num_objects = [&] {
    return store_->derived()->OpenSegment(segment)->facts.objects.size();
  };
  const auto store_at_the_second_try = [&](uint64_t tail) {
    files_.SetPlan({.fail_at = 1, .kind = test::FaultKind::kNoSpace});
    ATTNDB_EXPECT_OK(Store({tail}).status());
    EXPECT_EQ(files_.num_faults(), 1u);
  };
  disk_.free_bytes = [] { return Result<uint64_t>(uint64_t{1} << 40); };
  store_at_the_second_try(2);
  EXPECT_EQ(num_objects(), 1u);
  disk_.free_bytes = [] { return Result<uint64_t>(uint64_t{1} << 20); };
  store_at_the_second_try(3);
  EXPECT_EQ(num_objects(), 0u);
}

}  // namespace
}  // namespace attndb::store
