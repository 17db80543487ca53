// Goal:   the store needs no session: who gives it a tail and tokens finds them again as a chain,
//         in the next process too, which finds no file that a crash left.
// Method: random segments in memory are the tails, and what must be read back.
#include "store/context_store.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "store/object_path.h"
#include "store/store_test_util.h"
#include "testing/fault_file_system.h"
#include "testing/matchers.h"

namespace attndb::store {
namespace {

class ContextStoreTest : public StoreTest {};

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

// As where an older catalog, which did not know them, put them aside.
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
