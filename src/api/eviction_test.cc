// Goal:   a context that a session opens while a Store is about to evict it stays right for that
//         session, and its files stay for as long: whether it is opened before the Store's last
//         choice, between that and its commit, or is still being opened when it commits.
// Method: a full quota; the session is opened at the call of the file system that the Store makes
//         at that moment, by another thread. Commits wait for each other, but no session waits for
//         them.
#include <future>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include "api/database.h"
#include "api/db_access.h"
#include "api/db_test_util.h"
#include "api/segment_file_test_util.h"
#include "storage/vfs/object_name.h"
#include "store/hooked_files_test_util.h"
#include "testing/event.h"
#include "testing/fault_file_system.h"

namespace attndb {
namespace {

using test::DBFixture;
using test::Event;
using test::FailsWith;
using test::Tokens;
using test::ToyModel;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class EvictionTest : public DBFixture {
 protected:
  EvictionTest() { OpenWithFiles(); }
  ~EvictionTest() override {
    session_.reset();
    db_.reset();  // While its files are there.
  }

  void OpenWithFiles() {
    db_.reset();
    Result<std::shared_ptr<internal::Database>> database = internal::Database::Open(
        store(),
        {.num_threads = 1, .background_builds = false, .clock = [this] { return now_us_; }},
        &files_);
    ATTNDB_EXPECT_OK(database.status());
    db_.emplace(internal::DbAccess::Wrap(*std::move(database)));
  }
  // Stores the tokens later than earlier contexts.
  void StoreLater(const Tokens& tokens, const StoreOptions& options) {
    now_us_ += 1000;
    ATTNDB_ASSERT_OK(StoreTokens(tokens, options));
  }
  uint64_t FileBytes(std::string_view context) const {
    return db_->Describe(context)->segments.at(0).file_bytes;
  }
  // Publishes an object of so many bytes, without a file, of the context's segment.
  void AddObject(std::string_view context, uint64_t file_bytes) {
    const std::string path = test::SegmentFile(store(), db_->Describe(context)->segments.at(0));
    const auto file = storage::ParseFileName(std::filesystem::path(path).filename().string());
    store::ContextStore* const opened = internal::DbAccess::database(*db_)->store();
    ATTNDB_ASSERT_OK(opened->derived()->PublishObject(
        file->name.segment_id, {.kind = "made_up", .generation = 5, .file_bytes = file_bytes}));
  }
  // Opens a session on the victim, once, before the first call of that name whose path has `part`.
  void OpenBefore(std::string_view name, std::string_view part) {
    files_.before = [this, name, part](std::string_view call, const std::string& path) {
      if (session_ || call != name || path.find(part) == std::string::npos) return Status::Ok();
      session_ = std::async(std::launch::async, [this] { return Start(victim_); }).get();
      EXPECT_EQ(session_->session.num_reused(), victim_.size() - 1);
      return Status::Ok();
    };
  }
  void ExpectRightAnswers(SessionStart* start) {
    ATTNDB_ASSERT_OK(model_.Step(&start->session, start->rest));
    ExpectOracle(&start->session, victim_);
  }

  const Tokens victim_ = ToyModel::Tokens(100, 1);
  const Tokens other_ = ToyModel::Tokens(100, 2);
  std::optional<SessionStart> session_;
  test::FaultFileSystem faults_{storage::PosixFileSystem()};
  store::HookedFiles files_{&faults_};
};

// The victims are chosen before anything is written, and once more before the commit.
TEST_F(EvictionTest, WhatIsOpenedWhileTheNewSegmentIsWrittenIsNotEvicted) {
  StoreLater(victim_, {.name = "victim"});
  StoreLater(other_, {.name = "other"});
  ATTNDB_ASSERT_OK(db_->SetQuota(db_->Stats()->file_bytes + FileBytes("victim") / 2));
  OpenBefore("CreateNew", ".seg");
  StoreLater(ToyModel::Tokens(100, 3), {.name = "new"});
  ASSERT_TRUE(session_);
  EXPECT_THAT(db_->Stats()->evicted, ElementsAre("other"));
  ATTNDB_EXPECT_OK(db_->Describe("victim"));
  ExpectRightAnswers(&*session_);
}

// The last choice falls on the victim, and on all derived objects of the tenant: as these are
// removed, before the commit, the session is opened.
TEST_F(EvictionTest, WhatIsOpenedBetweenTheChoiceAndTheCommitStaysForItsSession) {
  const Tokens longer = ToyModel::Tokens(300, 3);
  StoreLater(victim_, {.name = "victim"});
  StoreLater(other_, {.name = "pinned", .pin = true});
  StoreLater(longer, {.name = "probe"});
  const uint64_t new_bytes = FileBytes("probe");
  const uint64_t victim_bytes = FileBytes("victim");
  ASSERT_GT(new_bytes, victim_bytes);
  ATTNDB_ASSERT_OK(db_->Drop("probe"));
  AddObject("pinned", new_bytes - victim_bytes / 2);
  ATTNDB_ASSERT_OK(db_->SetQuota(db_->Stats()->file_bytes));
  OpenBefore("Remove", ".made_up.");
  StoreLater(longer, {.name = "new"});
  ASSERT_TRUE(session_);
  EXPECT_THAT(db_->Stats()->evicted, ElementsAre("victim"));
  EXPECT_THAT(db_->Describe("victim"), FailsWith(StatusCode::kNotFound, HasSubstr("victim")));
  EXPECT_EQ(NumSegmentFiles(), 6u);
  ExpectRightAnswers(&*session_);
  EXPECT_TRUE(db_->Verify()->ok());
  session_.reset();
  EXPECT_EQ(NumSegmentFiles(), 4u);
}

// It can be stored again, although nobody else has the segment that it begins with.
TEST_F(EvictionTest, WhatIsStillBeingOpenedAtTheCommitStaysForItsSession) {
  StoreLater(victim_, {.name = "victim"});
  ATTNDB_ASSERT_OK(db_->SetQuota(FileBytes("victim") * 3 / 2));
  OpenWithFiles();  // Its segment is closed.
  Event waiting, release;
  faults_.SetPlan({.fail_at = 1, .waits_for = &release, .waiting = &waiting});
  std::thread reader([&] { session_ = Start(victim_); });
  waiting.Await();
  StoreLater(other_, {.name = "new"});
  EXPECT_THAT(db_->Stats()->evicted, ElementsAre("victim"));
  EXPECT_EQ(NumSegmentFiles(), 4u);
  release.Set();
  reader.join();
  EXPECT_EQ(session_->session.num_reused(), victim_.size() - 1);
  ExpectRightAnswers(&*session_);
  ATTNDB_ASSERT_OK(db_->SetQuota(0));
  ATTNDB_ASSERT_OK(db_->Store(session_->session, victim_, {.name = "again"}));
  session_.reset();
  ExpectAnswers(victim_, victim_.size() - 1);
  EXPECT_TRUE(db_->Verify()->ok());
}

}  // namespace
}  // namespace attndb
