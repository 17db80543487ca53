// Goal:   the store needs no session. A caller that gives it a tail and tokens finds them again as
//         a chain, also in the next process. That process finds no file left by a crash.
// Method: random segments in memory are the tails and the expected rows.
#include "store/context_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "store/hooked_files_test_util.h"
#include "store/object_path.h"
#include "store/store_test_util.h"
#include "testing/fault_file_system.h"
#include "testing/matchers.h"

namespace attndb::store {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;

class ContextStoreTest : public StoreTest {
 protected:
  // Makes the store anew, in no folder that was there, with files whose calls `before` answers.
  Status MakeAnew(
      const std::function<Status(std::string_view call, const std::string& path)>& before) {
    store_.reset();
    std::filesystem::remove_all(dir_.File("store"));
    HookedFiles files(storage::PosixFileSystem());
    files.before = before;
    return ContextStore::Open(
               dir_.File("store"), {.background_builds = false},
               {.file_system = &files, .budget = &budget_, .kinds = &kinds_, .also = nullptr})
        .status();
  }
};

TEST_F(ContextStoreTest, TheFoldersOfANewStoreAreDurableBeforeItsCatalogIsMade) {
  std::vector<std::string> synced;
  ATTNDB_ASSERT_OK(MakeAnew([&](std::string_view call, const std::string& path) {
    const bool has_catalog = std::filesystem::exists(dir_.File("store/catalog.db"));
    if (call == "SyncDir" && !has_catalog) synced.push_back(path);
    return Status::Ok();
  }));
  EXPECT_THAT(synced, Contains(dir_.File("store")));
  EXPECT_THAT(synced, Contains(dir_.path()));
  const std::pair<std::string, std::string> calls[] = {{"CreateDir", dir_.File("store")},
                                                       {"CreateDir", dir_.File("store/segments")},
                                                       {"SyncDir", dir_.File("store")},
                                                       {"SyncDir", dir_.path()}};
  for (const auto& failing : calls) {
    const Status status = MakeAnew([&](std::string_view call, const std::string& path) {
      return call == failing.first && path == failing.second ? Status::IoError("test")
                                                             : Status::Ok();
    });
    EXPECT_THAT(status, test::FailsWith(StatusCode::kIoError, HasSubstr("test")))
        << failing.first << ' ' << failing.second;
  }
}

TEST_F(ContextStoreTest, NothingIsMadeWhereThereIsNoStoreToOpen) {
  const std::string none = dir_.File("none");
  const DBOptions all[] = {{.read_only = true}, {.create_if_missing = false}};
  for (const DBOptions& options : all) {
    EXPECT_THAT(ContextStore::Open(none, options,
                                   {.file_system = storage::PosixFileSystem(),
                                    .budget = &budget_,
                                    .kinds = &kinds_,
                                    .also = nullptr})
                    .status(),
                test::FailsWith(StatusCode::kNotFound, HasSubstr("there is no store at")));
    EXPECT_FALSE(std::filesystem::exists(none));
  }
}

TEST_F(ContextStoreTest, ACatalogIsMadeBesideWhatIsNoSegment) {
  store_.reset();
  std::filesystem::remove(dir_.File("store/catalog.db"));
  std::ofstream(dir_.File("store/segments/notes.txt")) << "of somebody";
  const storage::ObjectName name = {.segment_id = 1};
  std::ofstream(
      dir_.File("store/segments/" + storage::TemporaryNameOf(name, storage::ObjectFile::kData)))
      << "half";
  Open({});
  ASSERT_TRUE(store_ != nullptr);
  EXPECT_TRUE(store_->admin()->List("t")->empty());
  EXPECT_TRUE(std::filesystem::exists(dir_.File("store/segments/notes.txt")));
}

TEST_F(ContextStoreTest, AWriterKeepsSomeOfTheDiskForDrops) {
  const std::string reserve = dir_.File("store/reserve");
  EXPECT_EQ(std::filesystem::file_size(reserve), DropReserve::kBytes);
  store_.reset();
  std::filesystem::remove(reserve);
  Open({.read_only = true});
  EXPECT_FALSE(std::filesystem::exists(reserve));
}

// The disk lacks room for what an open does first, whatever the reserve gives.
TEST_F(ContextStoreTest, AnOpenThatFailsPutsTheReserveBack) {
  const std::string reserve = dir_.File("store/reserve");
  const std::string orphan = dir_.File("store/" + ObjectPath({.segment_id = 255}));
  store_.reset();
  std::ofstream(orphan) << "left behind";
  (void)std::ofstream(dir_.File("store/segments/" + storage::LooseNameOf(255)));
  HookedFiles files(storage::PosixFileSystem());
  bool is_released = false;
  files.before = [&](std::string_view, const std::string& path) {
    if (path == reserve) return Status::Ok();
    is_released |= !std::filesystem::exists(reserve);
    return Status::ResourceExhausted("full");
  };
  EXPECT_THAT(ContextStore::Open(
                  dir_.File("store"), {.background_builds = false},
                  {.file_system = &files, .budget = &budget_, .kinds = &kinds_, .also = nullptr})
                  .status(),
              test::FailsWith(StatusCode::kResourceExhausted, HasSubstr("full")));
  EXPECT_TRUE(is_released);
  EXPECT_EQ(std::filesystem::file_size(reserve), DropReserve::kBytes);
}

TEST_F(ContextStoreTest, WhatThereIsIsCounted) {
  Open({.background_builds = false});
  MakeTail(9, 300);  // So many that it is to have a derived object.
  ATTNDB_ASSERT_OK(store_->publisher()->Store(Behind({}, 9, {.name = "long"})).status());
  ATTNDB_ASSERT_OK(Store({1}, {.name = "a"}).status());
  const uint64_t segment = FirstOf("a", 1).chain.entries[0].segment->id();
  ATTNDB_ASSERT_OK(store_->derived()->PublishObject(
      segment, {.kind = "made_up", .generation = 5, .file_bytes = 10}));
  ATTNDB_ASSERT_OK(store_->admin()->SetQuota("t", 1 << 30));
  const uint64_t file_bytes = store_->admin()->Describe("t", "long")->file_bytes +
                              store_->admin()->Describe("t", "a")->file_bytes;
  for (const bool read_only : {false, true}) {
    if (read_only) Open({.read_only = true});
    ATTNDB_ASSERT_OK_AND_ASSIGN(const DBStats stats, store_->Stats("t", true));
    EXPECT_EQ(stats.path, dir_.File("store"));
    EXPECT_EQ(stats.read_only, read_only);
    EXPECT_EQ(stats.format_version, Catalog::format_version());
    EXPECT_EQ(stats.num_contexts, 2u);
    EXPECT_EQ(stats.num_segments, 2u);
    EXPECT_EQ(stats.num_tokens, 300 + kTokens);
    EXPECT_EQ(stats.file_bytes, file_bytes);
    EXPECT_EQ(stats.num_companions, 1u);
    EXPECT_EQ(stats.companion_bytes, 10u);
    EXPECT_EQ(stats.num_pending_companions, 1u);
    EXPECT_EQ(stats.quota_bytes, 1u << 30);
    EXPECT_EQ(stats.num_damaged_segments, 0u);
  }
  ATTNDB_ASSERT_OK_AND_ASSIGN(const DBStats of_nobody, store_->Stats("u", false));
  EXPECT_EQ(of_nobody.num_contexts, 0u);
  EXPECT_EQ(of_nobody.num_pending_companions, 0u);
  EXPECT_EQ(of_nobody.quota_bytes, 0u);
}

TEST_F(ContextStoreTest, WhatIsStoredIsFoundAsAChain) {
  ContextId second = ContextId::kNone;
  {
    ATTNDB_ASSERT_OK_AND_ASSIGN(const Stored of_one, Store({1}, {.name = "a"}));
    ATTNDB_ASSERT_OK_AND_ASSIGN(const Stored of_both, Store({1, 2}));
    EXPECT_EQ(of_one.number, ContextNumber{1});
    EXPECT_EQ(of_both.number, ContextNumber{2});
    ExpectKeys(of_both.chain, {1, 2});
    second = of_both.context;
  }
  Open({});
  const std::vector<TokenId> tokens = Tokens({1, 2, 3});
  ATTNDB_ASSERT_OK_AND_ASSIGN(const Prefix found,
                              store_->lookup()->OpenPrefix("t", spec_, tokens, {}));
  EXPECT_EQ(found.context, second);
  EXPECT_EQ(found.number, ContextNumber{2});
  EXPECT_EQ(found.chain.tokens, Tokens({1, 2}));
  ExpectKeys(found.chain.entries, {1, 2});
  ATTNDB_ASSERT_OK_AND_ASSIGN(const WholeContext whole,
                              store_->lookup()->OpenNamed("t", spec_, "a", 0));
  ExpectKeys(whole.chain.entries, {1});
  ATTNDB_ASSERT_OK_AND_ASSIGN(const Prefix of_others,
                              store_->lookup()->OpenPrefix("u", spec_, tokens, {}));
  EXPECT_EQ(of_others.context, ContextId::kNone);
}

TEST_F(ContextStoreTest, WhatACrashLeftIsRemovedWhenTheStoreIsOpened) {
  ATTNDB_ASSERT_OK(Store({1}, {.name = "a"}).status());
  const std::string orphan = dir_.File("store/" + ObjectPath({.segment_id = 255}));
  const std::string mark = dir_.File("store/segments/" + storage::LooseNameOf(255));
  std::ofstream(orphan) << "left behind";
  (void)std::ofstream(mark);
  Open({.read_only = true});
  EXPECT_TRUE(std::filesystem::exists(orphan));
  Open({});
  EXPECT_FALSE(std::filesystem::exists(orphan));
  EXPECT_FALSE(std::filesystem::exists(mark));
  ATTNDB_ASSERT_OK_AND_ASSIGN(const WholeContext whole,
                              store_->lookup()->OpenNamed("t", spec_, "a", 0));
  ExpectKeys(whole.chain.entries, {1});
}

// Without the mark that a writer sets, a catalog has known it: not this one.
TEST_F(ContextStoreTest, WhatANewerCatalogKnewIsPutAsideAndReported) {
  ATTNDB_ASSERT_OK(Store({1}, {.name = "a"}).status());
  const std::string name = storage::FileNameOf({.segment_id = 255}, storage::ObjectFile::kData);
  std::ofstream(dir_.File("store/segments/" + name)) << "of another time";
  Open({});
  EXPECT_FALSE(std::filesystem::exists(dir_.File("store/segments/" + name)));
  EXPECT_TRUE(std::filesystem::exists(dir_.File("store/aside/" + name)));
  ATTNDB_ASSERT_OK_AND_ASSIGN(const VerifyReport report, VerifyAll());
  ASSERT_EQ(report.damages.size(), 1u);
  EXPECT_EQ(report.damages[0].segment_id, 0);
  EXPECT_EQ(report.damages[0].file, "aside/" + name);
}

// Files that an older catalog, which did not know them, had put aside.
TEST_F(ContextStoreTest, WhatCanNotBeBroughtBackNowIsBroughtBackLater) {
  ATTNDB_ASSERT_OK(Store({1}, {.name = "a"}).status());
  test::FaultFileSystem files(storage::PosixFileSystem());
  bool failed = true;
  for (uint64_t n = 1; failed; ++n) {
    store_.reset();
    std::filesystem::rename(dir_.File("store/segments"), dir_.File("store/aside"));
    std::filesystem::create_directory(dir_.File("store/segments"));
    files.SetPlan({.fail_at = n});
    {
      const auto opened = ContextStore::Open(
          dir_.File("store"), {}, {.file_system = &files, .budget = &budget_, .kinds = &kinds_});
      failed = files.num_faults() > 0;
      files.SetPlan({});
      if (opened.ok()) {
        EXPECT_TRUE((*opened)->verifier()->Verify("t", Verifier::Scope::kStore, {})->ok())
            << "operation " << n;
      }
    }
    Open({});
    ASSERT_TRUE(VerifyAll()->ok()) << "operation " << n;
    std::filesystem::remove_all(dir_.File("store/aside"));
  }
}

}  // namespace
}  // namespace attndb::store
