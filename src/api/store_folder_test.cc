// Goal:   changes of a store's folder outside of attndb cost no acknowledged context. Other users
//         can read nothing in it, and no file is deleted that may be found again.
// Method: the files of a small store are changed, moved and put back between opens and while it is
//         open.
#include <sys/stat.h>

#include <fstream>

#include "api/db_test_util.h"
#include "storage/vfs/object_name.h"

namespace attndb {
namespace {

using test::DBFixture;
using test::FailsWith;
using test::Tokens;
using test::ToyModel;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class StoreFolderTest : public DBFixture {
 protected:
  const Tokens doc_ = ToyModel::Tokens(100, 5);
};

// --- Who may read it. ---

// Sets the process's umask, and sets it back.
class UmaskScope {
 public:
  explicit UmaskScope(mode_t mask) : before_(::umask(mask)) {}
  ~UmaskScope() { (void)::umask(before_); }
  UmaskScope(const UmaskScope&) = delete;
  UmaskScope& operator=(const UmaskScope&) = delete;

 private:
  const mode_t before_;
};

class OwnerOnlyTest : public StoreFolderTest {
 protected:
  // Files of the store that others may read or write.
  std::vector<std::string> OpenToOthers() const {
    std::vector<std::string> paths;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(store())) {
      struct stat info {};
      EXPECT_EQ(::stat(entry.path().c_str(), &info), 0);
      if (entry.is_regular_file() && (info.st_mode & 077) != 0) paths.push_back(entry.path());
    }
    return paths;
  }

  const UmaskScope umask_{022};
};

TEST_F(OwnerOnlyTest, FilesInAFolderThatWasThereAreForItsOwnerAlone) {
  db_.reset();
  std::filesystem::remove_all(store());
  std::filesystem::create_directory(store());
  Open();
  ATTNDB_ASSERT_OK(StoreTokens(doc_, {.name = "doc"}));
  EXPECT_THAT(OpenToOthers(), IsEmpty());
  EXPECT_GE(FilesIn(store()).size(), 6u);  // The catalog, its log and index, LOCK, a segment's two.
}

TEST_F(OwnerOnlyTest, ACatalogThatOthersMayReadIsMendedWhenItIsOpened) {
  ATTNDB_ASSERT_OK(StoreTokens(doc_, {.name = "doc"}));
  const std::string copy = dir_.File("copy");  // With the log, as a kill leaves it.
  std::filesystem::copy(store(), copy, std::filesystem::copy_options::recursive);
  db_.reset();
  std::filesystem::remove_all(store());
  std::filesystem::rename(copy, store());
  for (const char* const name : {"catalog.db", "catalog.db-wal", "catalog.db-shm"}) {
    ASSERT_EQ(::chmod((store() + "/" + name).c_str(), 0644), 0) << name;
  }
  Open();
  EXPECT_THAT(OpenToOthers(), IsEmpty());
  ExpectAnswers(doc_, 99);
}

// --- What is not there for a moment. ---

class AbsentFilesTest : public StoreFolderTest {
 protected:
  AbsentFilesTest() {
    ATTNDB_EXPECT_OK(StoreTokens(doc_, {.name = "doc"}));
    ATTNDB_EXPECT_OK(StoreTokens(other_, {.name = "other"}));
    Open();  // No segment is open.
  }
  std::string segments() const { return store() + "/segments"; }

  void ExpectAbsenceIsNoDamage() {
    for (const Tokens& tokens : {doc_, other_}) {
      EXPECT_THAT(db_->CreateSession(model_.spec(), tokens),
                  FailsWith(StatusCode::kIoError, HasSubstr("segments")));
    }
    EXPECT_THAT(db_->CreateSession(model_.spec(), doc_, {.context = "doc"}),
                FailsWith(StatusCode::kIoError, HasSubstr("segments")));
    ATTNDB_ASSERT_OK_AND_ASSIGN(const VerifyReport report, db_->Verify());
    EXPECT_EQ(report.damages.size(), 2u);
    EXPECT_FALSE(db_->Describe("doc")->damaged);
    EXPECT_FALSE(db_->Describe("other")->damaged);
  }
  void ExpectServed() {
    ExpectAnswers(doc_, 99);
    ExpectAnswers(other_, 79);
    EXPECT_TRUE(db_->Verify()->ok());
  }

  const Tokens other_ = ToyModel::Tokens(80, 6);
  const std::filesystem::path away_ = dir_.File("away");
};

TEST_F(AbsentFilesTest, AFolderOfSegmentsThatIsAbsentForAMomentCostsNothing) {
  std::filesystem::rename(segments(), away_);
  ExpectAbsenceIsNoDamage();
  std::filesystem::rename(away_, segments());
  ExpectServed();
}

// The folder in which a disk is mounted, without the disk.
TEST_F(AbsentFilesTest, AnEmptyFolderInItsPlaceCostsNothing) {
  std::filesystem::rename(segments(), away_);
  std::filesystem::create_directory(segments());
  ExpectAbsenceIsNoDamage();
  std::filesystem::remove(segments());
  std::filesystem::rename(away_, segments());
  ExpectServed();
}

// New files would lie beneath the disk, and all other segments would then seem damaged.
TEST_F(AbsentFilesTest, NothingIsWrittenIntoTheEmptyFolder) {
  db_.reset();
  std::filesystem::rename(segments(), away_);
  EXPECT_THAT(DB::Open(store()).status(), FailsWith(StatusCode::kIoError, HasSubstr("segments")));
  std::filesystem::create_directories(segments());
  EXPECT_THAT(DB::Open(store()).status(),
              FailsWith(StatusCode::kIoError, HasSubstr("has none of the files")));
  Open({.read_only = true});
  EXPECT_EQ(db_->List()->size(), 2u);
  db_.reset();
  std::filesystem::remove(segments());
  std::filesystem::rename(away_, segments());
  Open();
  ExpectServed();
}

// A file alone that is not there is damage. What comes back as it was is served again.
TEST_F(AbsentFilesTest, VerifyServesAgainWhatCameBack) {
  std::filesystem::create_directory(away_);
  std::vector<std::filesystem::path> moved;
  for (const auto& entry : std::filesystem::directory_iterator(segments())) {
    if (entry.path().filename().string().starts_with("0000000000000001.")) {
      moved.push_back(entry.path());
    }
  }
  ASSERT_EQ(moved.size(), 2u);
  for (const auto& path : moved) std::filesystem::rename(path, away_ / path.filename());
  EXPECT_EQ(Start(doc_).session.num_reused(), 0u);
  EXPECT_TRUE(db_->Describe("doc")->damaged);
  EXPECT_EQ(db_->Stats()->num_damaged_segments, 1u);
  EXPECT_FALSE(db_->Verify()->ok());
  for (const auto& path : moved) std::filesystem::rename(away_ / path.filename(), path);
  EXPECT_EQ(Start(doc_).session.num_reused(), 0u);
  EXPECT_TRUE(db_->Verify()->ok());
  EXPECT_FALSE(db_->Describe("doc")->damaged);
  EXPECT_EQ(db_->Describe("doc")->segments[0].damage, "");
  EXPECT_EQ(db_->Stats()->num_damaged_segments, 0u);
  ExpectServed();
}

// --- Another catalog. ---

class OtherCatalogTest : public StoreFolderTest {
 protected:
  static constexpr uint64_t kContexts = 6;

  static Tokens TokensOf(uint64_t context) { return ToyModel::Tokens(40, 20 + context); }
  static std::string NameOf(uint64_t context) { return "c" + std::to_string(context); }

  // Stores some of the contexts, and closes the store.
  void StoreAll(uint64_t first, uint64_t end) {
    for (uint64_t i = first; i < end; ++i) {
      ATTNDB_ASSERT_OK(StoreTokens(TokensOf(i), {.name = NameOf(i)}));
    }
  }
  void ExpectAllServed() {
    EXPECT_EQ(db_->List()->size(), kContexts);
    for (uint64_t i = 0; i < kContexts; ++i) ExpectAnswers(TokensOf(i), 39);
    EXPECT_TRUE(db_->Verify()->ok());
    EXPECT_EQ(NumSegmentFiles(), 2 * kContexts);
  }
  // Expects that exactly these contexts are served.
  void ExpectServed(const std::vector<uint64_t>& contexts) {
    EXPECT_EQ(db_->List()->size(), contexts.size());
    for (const uint64_t i : contexts) {
      SCOPED_TRACE(NameOf(i));
      EXPECT_FALSE(db_->Describe(NameOf(i))->damaged);
      ExpectAnswers(TokensOf(i), 39);
    }
  }
  // Closes the store, and keeps its catalog.
  void KeepCatalog(const std::string& as) {
    db_.reset();
    std::filesystem::copy_file(store() + "/catalog.db", as,
                               std::filesystem::copy_options::overwrite_existing);
  }
  void OpenWithCatalog(const std::string& from) {
    db_.reset();
    PutCatalog(from);
    Open();
  }
  // Marks every segment as one that no commit names.
  void MarkAll() {
    const std::string segments = store() + "/segments";
    for (const auto& entry : std::filesystem::directory_iterator(segments)) {
      const auto file = storage::ParseFileName(entry.path().filename().string());
      if (!file) continue;
      (void)std::ofstream(segments + "/" + storage::LooseNameOf(file->name.segment_id));
    }
  }
  void PutCatalog(const std::string& from) {
    std::filesystem::copy_file(from, store() + "/catalog.db",
                               std::filesystem::copy_options::overwrite_existing);
  }
  // Opened with an older catalog that has two contexts, and then with its own.
  void ExpectNothingIsLostWith(const std::string& older) {
    db_.reset();
    std::filesystem::copy_file(store() + "/catalog.db", newest_);
    PutCatalog(older);
    Open();
    EXPECT_EQ(db_->List()->size(), 2u);
    ExpectAnswers(TokensOf(1), 39);
    ATTNDB_ASSERT_OK_AND_ASSIGN(const VerifyReport report, db_->Verify());
    ASSERT_EQ(report.damages.size(), kContexts - 2);  // Files in aside/.
    EXPECT_THAT(report.damages[0].message, HasSubstr("newer catalog.db"));
    db_.reset();
    PutCatalog(newest_);
    Open();
    ExpectAllServed();
  }

  const std::string older_ = dir_.File("older.db");
  const std::string newest_ = dir_.File("newest.db");
};

TEST_F(OtherCatalogTest, AnOlderOneDeletesNothingOfWhatANewerOneKnows) {
  StoreAll(0, 2);
  db_.reset();
  std::filesystem::copy_file(store() + "/catalog.db", older_);
  Open();
  StoreAll(2, kContexts);
  ExpectNothingIsLostWith(older_);
}

// Only the catalog was copied: ids that it has handed out already name later segments.
TEST_F(OtherCatalogTest, AnOlderOneThatWasCopiedWhileTheStoreWasOpenDeletesNothing) {
  StoreAll(0, 2);
  std::filesystem::copy_file(store() + "/catalog.db", older_);
  StoreAll(2, kContexts);
  ExpectNothingIsLostWith(older_);
}

// A process was killed after a commit, before it removed the mark of an uncommitted segment.
TEST_F(OtherCatalogTest, AnOlderOneTakesNoWordOfAMarkThatItDidNotMake) {
  StoreAll(0, 2);
  db_.reset();
  std::filesystem::copy_file(store() + "/catalog.db", older_);
  Open();
  StoreAll(2, kContexts);
  db_.reset();
  MarkAll();
  Open();
  ExpectAllServed();  // The newer catalog knows the commits.
  MarkAll();
  ExpectNothingIsLostWith(older_);
}

// Both catalogs continue from the same number, but a file in aside/ has it.
TEST_F(OtherCatalogTest, WhatIsStoredUnderAnOlderOneTakesNoPlaceOfWhatANewerOneKnows) {
  StoreAll(0, 2);
  KeepCatalog(older_);
  Open();
  StoreAll(2, kContexts);
  KeepCatalog(newest_);
  OpenWithCatalog(older_);
  StoreAll(6, 9);
  ExpectServed({0, 1, 6, 7, 8});
  KeepCatalog(older_);
  OpenWithCatalog(newest_);
  ExpectServed({0, 1, 2, 3, 4, 5});
  EXPECT_EQ(db_->Verify()->damages.size(), 3u);  // Files in aside/.
  StoreAll(9, 11);
  ExpectServed({0, 1, 2, 3, 4, 5, 9, 10});
  KeepCatalog(newest_);
  OpenWithCatalog(older_);  // Nothing of its own is lost, either.
  ExpectServed({0, 1, 6, 7, 8});
  EXPECT_EQ(db_->Verify()->damages.size(), 6u);
  OpenWithCatalog(newest_);
  ExpectServed({0, 1, 2, 3, 4, 5, 9, 10});
}

TEST_F(OtherCatalogTest, OneOfAnotherStoreIsRefusedAndNothingIsTouched) {
  StoreAll(0, kContexts);
  const std::string other = dir_.File("other");
  { ATTNDB_ASSERT_OK_AND_ASSIGN(const DB db, DB::Open(other)); }
  for (const uint64_t num_contexts : {uint64_t{0}, uint64_t{1}}) {
    if (num_contexts == 1) {  // It names a segment as this one does.
      ATTNDB_ASSERT_OK_AND_ASSIGN(const DB db, DB::Open(other, {.background_builds = false}));
      SessionStart start = *db.CreateSession(model_.spec(), doc_);
      ATTNDB_ASSERT_OK(model_.Step(&start.session, start.rest));
      ATTNDB_ASSERT_OK(db.Store(start.session, doc_));
    }
    db_.reset();
    std::filesystem::copy_file(store() + "/catalog.db", newest_,
                               std::filesystem::copy_options::overwrite_existing);
    PutCatalog(other + "/catalog.db");
    const auto before = FilesIn(store() + "/segments");
    EXPECT_THAT(DB::Open(store()),
                FailsWith(StatusCode::kCorruption, HasSubstr("belongs to store")));
    EXPECT_EQ(FilesIn(store() + "/segments"), before);
    PutCatalog(newest_);
    Open();
    ExpectAllServed();
  }
}

// --- The folder is moved while the store is open. ---

class MovedFolderTest : public StoreFolderTest {
 protected:
  MovedFolderTest() { ATTNDB_EXPECT_OK(StoreTokens(doc_, {.name = "doc"})); }

  void ExpectNothingIsAcknowledged() {
    const auto is_refused =
        FailsWith(StatusCode::kIoError, HasSubstr("moved, replaced or removed"));
    EXPECT_THAT(StoreTokens(ToyModel::Tokens(60, 8), {.name = "lost"}), is_refused);
    EXPECT_THAT(db_->Pin("doc", true), is_refused);
    EXPECT_THAT(db_->SetQuota(1 << 30), is_refused);
    EXPECT_THAT(db_->Drop("doc"), is_refused);
  }
  // Opens the store anew. The store is moved, and replaced by a copy, once it has asked for the
  // time this often.
  void OpenToBeReplaced(int num_asked) {
    db_.reset();
    const auto clock = [this] {
      if (--num_until_move_ == 0) {
        std::filesystem::rename(store(), moved_);
        std::filesystem::copy(moved_, store(), std::filesystem::copy_options::recursive);
      }
      return now_us_;
    };
    ATTNDB_ASSERT_OK_AND_ASSIGN(
        DB db, DB::Open(store(), {.num_threads = 1, .background_builds = false, .clock = clock}));
    db_.emplace(std::move(db));
    num_until_move_ = num_asked;
  }
  void PutBack() {
    db_.reset();
    std::filesystem::rename(moved_, store());
    Open();
  }
  // Reads the stored contexts: either the answers are right, or there is an error.
  void ExpectNoOtherAnswers() {
    const Tokens prompt = test::Concat(doc_, Tokens{1});
    Result<SessionStart> start = db_->CreateSession(model_.spec(), prompt, {.context = "doc"});
    if (!start.ok()) {
      EXPECT_TRUE(IsOfTheDisk(start.status())) << start.status();
      return;
    }
    const Status status = model_.Step(&start->session, start->rest);
    if (status.ok()) {
      ExpectOracle(&start->session, prompt);
    } else {
      EXPECT_TRUE(IsOfTheDisk(status)) << status;
    }
    const Result<Tokens> tokens = db_->Tokens("doc");
    if (tokens.ok()) {
      EXPECT_EQ(*tokens, doc_);
    } else {
      EXPECT_TRUE(IsOfTheDisk(tokens.status())) << tokens.status();
    }
  }
  static bool IsOfTheDisk(const Status& status) {
    return status.code() == StatusCode::kIoError || status.code() == StatusCode::kCorruption;
  }

  const std::string moved_ = dir_.File("moved");

 private:
  int num_until_move_ = 0;
};

// The store asks for the time at several moments of a Store, one of them inside the transaction
// that makes it durable.
TEST_F(MovedFolderTest, WhatIsAcknowledgedIsWhereTheStoreWasBeforeAndInTheCopyThatTookItsPlace) {
  int num_refused = 0;
  for (int num_asked = 1;; ++num_asked) {
    OpenToBeReplaced(num_asked);
    const Status status = StoreTokens(ToyModel::Tokens(60, 8), {.name = "lost"}).status();
    db_.reset();
    if (!std::filesystem::exists(moved_)) break;  // It asked less often.
    const bool acknowledged = status.ok();
    if (!acknowledged) {
      EXPECT_THAT(status, FailsWith(StatusCode::kIoError, HasSubstr("moved, replaced or removed")));
      ++num_refused;
    }
    for (const std::string& path : {store(), moved_}) {
      ATTNDB_ASSERT_OK_AND_ASSIGN(const DB db, DB::Open(path, {.background_builds = false}));
      EXPECT_TRUE(!acknowledged || db.Describe("lost").ok()) << path << " at " << num_asked;
      (void)db.Drop("lost");  // If it exists.
    }
    std::filesystem::remove_all(store());
    std::filesystem::rename(moved_, store());
  }
  EXPECT_GE(num_refused, 1);
}

TEST_F(MovedFolderTest, TheStoreSaysWhetherItIsWhereItWasOpened) {
  ATTNDB_EXPECT_OK(db_->CheckPlace());
  for (const std::string part : {"", "/segments", "/catalog.db"}) {
    std::filesystem::rename(store() + part, moved_);
    EXPECT_THAT(db_->CheckPlace(),
                FailsWith(StatusCode::kIoError, HasSubstr("moved, replaced or removed")));
    std::filesystem::rename(moved_, store() + part);
    ATTNDB_EXPECT_OK(db_->CheckPlace());
  }
}

TEST_F(MovedFolderTest, ReadsGiveTheRightAnswersOrNone) {
  Open();  // Nothing of the document is in memory.
  std::filesystem::rename(store(), moved_);
  ExpectNoOtherAnswers();
  PutBack();
  ExpectAnswers(doc_, 99);
}

TEST_F(MovedFolderTest, ReadsNeverGiveWhatAnotherStoreInItsPlaceHas) {
  const std::string other = dir_.File("other");
  const Tokens other_doc = ToyModel::Tokens(100, 6);
  {
    ATTNDB_ASSERT_OK_AND_ASSIGN(const DB db, DB::Open(other, {.background_builds = false}));
    SessionStart start = *db.CreateSession(model_.spec(), other_doc);
    ATTNDB_ASSERT_OK(model_.Step(&start.session, start.rest));
    ATTNDB_ASSERT_OK(db.Store(start.session, other_doc, {.name = "doc"}));
  }
  Open();
  std::filesystem::rename(store(), moved_);
  std::filesystem::rename(other, store());
  ExpectNoOtherAnswers();
  (void)db_->Verify();
  ExpectNoOtherAnswers();
  db_.reset();
  std::filesystem::rename(store(), other);
  PutBack();
  ExpectAnswers(doc_, 99);
  EXPECT_TRUE(db_->Verify()->ok());
}

TEST_F(MovedFolderTest, NothingIsAcknowledgedOnceItIsElsewhere) {
  std::filesystem::rename(store(), moved_);
  ExpectNothingIsAcknowledged();
  db_.reset();
  std::filesystem::rename(moved_, store());
  Open();
  EXPECT_EQ(db_->List()->size(), 1u);
  ExpectAnswers(doc_, 99);
}

TEST_F(MovedFolderTest, NothingIsAcknowledgedWhereACopyIsInItsPlace) {
  std::filesystem::rename(store(), moved_);
  std::filesystem::copy(moved_, store(), std::filesystem::copy_options::recursive);
  ExpectNothingIsAcknowledged();
  db_.reset();
  for (const std::string& path : {store(), moved_}) {
    ATTNDB_ASSERT_OK_AND_ASSIGN(const DB db, DB::Open(path));
    ATTNDB_ASSERT_OK_AND_ASSIGN(const auto contexts, db.List());
    ASSERT_EQ(contexts.size(), 1u);
    EXPECT_FALSE(contexts[0].pinned);
    EXPECT_TRUE(db.Verify()->ok());
  }
}

TEST_F(MovedFolderTest, NothingIsAcknowledgedInAnotherFolderWithTheSameFiles) {
  std::filesystem::rename(store(), moved_);
  std::filesystem::create_directory(store());
  std::filesystem::create_hard_link(moved_ + "/catalog.db", store() + "/catalog.db");
  std::filesystem::rename(moved_ + "/segments", store() + "/segments");
  ExpectNothingIsAcknowledged();
}

TEST_F(MovedFolderTest, NothingIsAcknowledgedWhereACopyOfTheCatalogIsInItsPlace) {
  std::filesystem::rename(store() + "/catalog.db", moved_);
  std::filesystem::copy_file(moved_, store() + "/catalog.db");
  ExpectNothingIsAcknowledged();
}

TEST_F(MovedFolderTest, NothingIsAcknowledgedWhereOtherSegmentsAreInPlaceOfItsOwn) {
  std::filesystem::rename(store() + "/segments", moved_);
  std::filesystem::create_directory(store() + "/segments");
  ExpectNothingIsAcknowledged();
}

}  // namespace
}  // namespace attndb
