// Goal:   access times are kept until they are written. No number is given out twice, nothing is
//         written without need, and a log that can't be emptied is guarded. A file that is not a
//         catalog of attndb is refused each time it is opened.
// Method: a catalog that is closed and opened again, one that is only read, one of each version
//         before, and one in a folder without locks; simulated clocks; calls of the system that
//         fail when SQLite makes them.
#include "store/catalog/catalog_core.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sqlite3.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <limits>
#include <set>

#include "store/catalog/catalog_test_util.h"
#include "testing/matchers.h"

namespace attndb::store {
namespace {

using ::attndb::test::FailsWith;
using std::chrono::hours;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

namespace fs = std::filesystem;

constexpr int64_t kHourUs = int64_t{3600} * 1'000'000;

// SQLite can't make a file as short as `most` bytes, or shorter, while one lives.
class NoTruncation {
 public:
  explicit NoTruncation(off_t most) {
    most_ = most;
    Set(reinterpret_cast<sqlite3_syscall_ptr>(Truncate));
  }
  ~NoTruncation() { Set(nullptr); }
  NoTruncation(const NoTruncation&) = delete;
  NoTruncation& operator=(const NoTruncation&) = delete;

 private:
  static int Truncate(int fd, off_t size) {
    if (size > most_) return ftruncate(fd, size);
    errno = EIO;
    return -1;
  }
  static void Set(sqlite3_syscall_ptr call) {
    sqlite3_vfs* const vfs = sqlite3_vfs_find("unix");
    EXPECT_EQ(vfs->xSetSystemCall(vfs, "ftruncate", call), SQLITE_OK);
  }

  static inline off_t most_ = 0;
};

TEST_F(CatalogTest, AccessTimesSurviveAClose) {
  const ContextId id = harness_.MustPublish(Range(0, 10));
  harness_.now_us += 5;
  harness_->contexts()->Touch(id);
  EXPECT_EQ(Get(id).last_access_us, harness_.now_us);
  harness_.Reopen();
  EXPECT_EQ(Get(id).last_access_us, harness_.now_us);
}

TEST_F(CatalogTest, AnAccessIsTheLaterOfWhatIsNotedAndWhatIsStoredAndLiesInThePast) {
  int64_t now_us = 100;
  CatalogOptions options;
  options.path = harness_.path();
  options.read_only = true;
  options.clock = [&now_us] { return now_us; };
  CatalogCore reader(options);
  ATTNDB_ASSERT_OK(reader.Open());
  constexpr ContextId kContext{7};
  reader.Touch(kContext);
  now_us = 200;
  MutexLock lock(reader.mutex());
  EXPECT_EQ(reader.LastAccess(kContext, 99), 100);
  EXPECT_EQ(reader.LastAccess(kContext, 101), 101);
  EXPECT_EQ(reader.LastAccess(ContextId{8}, 99), 99);
  EXPECT_EQ(reader.LastAccess(ContextId{8}, 201), 200);
  EXPECT_EQ(reader.BeginWrite().status().code(), StatusCode::kReadOnly);
}

TEST_F(CatalogTest, NoNumberIsHandedOutTwice) {
  std::set<int64_t> numbers;
  for (int open = 0; open < 3; ++open) {
    for (int i = 0; i < 100; ++i) {
      ATTNDB_ASSERT_OK_AND_ASSIGN(const SegmentId id, harness_->segments()->ReserveId());
      ATTNDB_ASSERT_OK_AND_ASSIGN(const uint64_t generation,
                                  harness_->companions()->ReserveGeneration());
      EXPECT_TRUE(numbers.insert(id).second);
      EXPECT_TRUE(numbers.insert(static_cast<int64_t>(generation)).second);
    }
    harness_.Reopen();
  }
}

// The first of those that were reserved are lost with the call that was told of no success.
TEST_F(CatalogTest, ANumberIsHandedOutOnlyOnceItIsDurable) {
  int num_asked = 0;
  harness_.check_place = [&] { return ++num_asked == 2 ? Status::IoError("gone") : Status(); };
  EXPECT_THAT(harness_->segments()->ReserveId(), FailsWith(StatusCode::kIoError, "gone"));
  harness_.check_place = nullptr;
  EXPECT_EQ(harness_->segments()->ReserveId().value(), 65);
  EXPECT_EQ(harness_->segments()->ReserveId().value(), 66);
  EXPECT_EQ(harness_->EndOfNumbers().value(), 129u);
}

TEST_F(CatalogTest, NumbersThatArePassedAreNotHandedOut) {
  EXPECT_EQ(harness_->segments()->ReserveId().value(), 1);
  ATTNDB_ASSERT_OK(harness_->PassNumbers(std::vector<uint64_t>{3, 40, 7}));
  EXPECT_EQ(harness_->EndOfNumbers().value(), 65u);  // They were reserved before.
  EXPECT_EQ(harness_->segments()->ReserveId().value(), 41);
  ATTNDB_ASSERT_OK(harness_->PassNumbers(std::vector<uint64_t>{100}));
  EXPECT_EQ(harness_->EndOfNumbers().value(), 101u);
  EXPECT_EQ(harness_->segments()->ReserveId().value(), 101);
  ATTNDB_ASSERT_OK(harness_->PassNumbers(std::vector<uint64_t>{500}));
  harness_.Reopen();
  EXPECT_EQ(harness_->segments()->ReserveId().value(), 501);
}

TEST_F(CatalogTest, NumbersThatNoCatalogComesToArePassedByNone) {
  const uint64_t end = harness_->EndOfNumbers().value();
  const std::vector<uint64_t> numbers = {uint64_t{1} << 61, uint64_t{1} << 63, UINT64_MAX};
  ATTNDB_ASSERT_OK(harness_->PassNumbers(numbers));
  ATTNDB_ASSERT_OK(harness_->PassNumbers({}));
  EXPECT_EQ(harness_->EndOfNumbers().value(), end);
  EXPECT_EQ(harness_->segments()->ReserveId().value(), static_cast<SegmentId>(end));
}

TEST_F(CatalogTest, ANextNumberThatCantBeIsRefused) {
  constexpr int64_t kMost = int64_t{1} << 62;
  harness_.Close();
  const std::string before = ReadFile(harness_.path());
  for (const int64_t next : {int64_t{-1}, int64_t{0}, int64_t{1}, kMost, kMost + 1}) {
    SCOPED_TRACE(next);
    ChangeRows(harness_.path(), "UPDATE meta SET next_segment = " + std::to_string(next));
    harness_.Reopen();
    const Result<SegmentId> id = harness_->segments()->ReserveId();
    if (next >= 1 && next <= kMost) {
      EXPECT_EQ(id.value(), next);
    } else {
      EXPECT_THAT(id, FailsWith(StatusCode::kCorruption,
                                HasSubstr("next_segment is " + std::to_string(next) +
                                          ", expected 1 to 4611686018427387904")));
    }
    harness_.Close();
  }
  WriteFile(harness_.path(), before);
  harness_.Reopen();
}

TEST_F(CatalogTest, ACatalogWithoutItsUuidIsRefused) {
  harness_.Close();
  const std::string before = ReadFile(harness_.path());
  for (const char* const sql :
       {"DELETE FROM meta",
        "PRAGMA ignore_check_constraints = ON; UPDATE meta SET uuid = x'0102'"}) {
    SCOPED_TRACE(sql);
    ChangeRows(harness_.path(), sql);
    EXPECT_THAT(harness_.Open(),
                FailsWith(StatusCode::kCorruption, HasSubstr("no store uuid of 16 bytes")));
    WriteFile(harness_.path(), before);
  }
  harness_.Reopen();
}

TEST_F(CatalogTest, AFolderThatIsNotThereIsNotMade) {
  CatalogOptions options;
  options.path = harness_.dir() + "/none/catalog.db";
  options.create_if_missing = true;
  EXPECT_THAT(Catalog::Open(options), FailsWith(StatusCode::kNotFound, HasSubstr(": create: ")));
}

TEST_F(CatalogTest, AForkMayNotOpenWhatItsParentHasOpen) {
  const pid_t pid = fork();
  if (pid == 0) _exit(static_cast<int>(harness_.Open(/*read_only=*/true).status().code()));
  int status = 0;
  ASSERT_EQ(waitpid(pid, &status, 0), pid);
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(static_cast<StatusCode>(WEXITSTATUS(status)), StatusCode::kFailedPrecondition);
}

TEST_F(CatalogTest, AccessesAreWrittenOnceTheyAreManyAndForgottenByAReader) {
  constexpr int64_t kMost = 4096;
  const ContextId context = harness_.MustPublish(Range(0, 10));
  const int64_t published_us = harness_.now_us;
  harness_.now_us += 5;
  for (const bool read_only : {true, false}) {
    SCOPED_TRACE(read_only);
    CatalogOptions options;
    options.path = harness_.path();
    options.read_only = read_only;
    options.clock = [&] { return published_us + 5; };
    CatalogCore core(options);
    ATTNDB_ASSERT_OK(core.Open());
    const auto num_noted = [&] {
      MutexLock lock(core.mutex());
      return core.SeeUses().num_noted();
    };
    for (int64_t id = 1; id < kMost; ++id) core.Touch(static_cast<ContextId>(id));
    core.Touch(context);  // This use is noted already.
    EXPECT_EQ(num_noted(), size_t{kMost} - 1);
    EXPECT_EQ(Get(context).last_access_us, published_us);
    core.Touch(static_cast<ContextId>(kMost));
    EXPECT_EQ(num_noted(), 0u);
    EXPECT_EQ(Get(context).last_access_us, read_only ? published_us : published_us + 5);
  }
}

TEST_F(CatalogTest, WhatIsWrittenIsNoLongerNoted) {
  CatalogOptions options;
  options.path = harness_.path();
  CatalogCore core(options);
  ATTNDB_ASSERT_OK(core.Open());
  core.Touch(ContextId{7});
  ATTNDB_ASSERT_OK(core.FlushTouches());
  MutexLock lock(core.mutex());
  EXPECT_TRUE(core.SeeUses().is_written());
}

// Without noted uses, the folder may be gone.
TEST_F(CatalogTest, NoAccessIsNothingToWrite) {
  harness_.check_place = [] { return Status::IoError("gone"); };
  ATTNDB_EXPECT_OK(harness_->FlushTouches());
  EXPECT_FALSE(harness_->EmptyLog());
  harness_.check_place = nullptr;
  EXPECT_TRUE(harness_->EmptyLog());
  ATTNDB_ASSERT_OK_AND_ASSIGN(const auto reader, harness_.Open(/*read_only=*/true));
  ATTNDB_EXPECT_OK(reader->FlushTouches());
}

TEST_F(CatalogTest, AnOpenThatHasNothingToDoWritesNothing) {
  harness_.MustPublish(Range(0, 10));
  harness_.Close();
  const auto long_ago = fs::last_write_time(harness_.path()) - hours(1);
  fs::last_write_time(harness_.path(), long_ago);
  harness_.Reopen();
  EXPECT_THAT(harness_->forgotten(), IsEmpty());
  harness_.Close();
  EXPECT_EQ(fs::last_write_time(harness_.path()), long_ago);
  harness_.Reopen();
}

// The file has all of the log, but the log can't be emptied. New commits in it could look like
// commits that were lost.
TEST_F(CatalogTest, NothingIsWrittenBehindALogThatCannotBeCutOff) {
  CatalogOwners* const owners = harness_->owners();
  {
    const NoTruncation none(0);
    ATTNDB_EXPECT_OK(owners->SetQuota(tenant(), 7));
    for (int i = 0; i < 2; ++i) {
      EXPECT_FALSE(harness_->EmptyLog());
      EXPECT_THAT(owners->SetQuota(tenant(), 8),
                  FailsWith(StatusCode::kIoError, HasSubstr("catalog.db-wal: can't be cut off")));
      EXPECT_EQ(owners->GetTenant(tenant())->quota_bytes, 7u);
    }
  }
  ATTNDB_EXPECT_OK(owners->SetQuota(tenant(), 9));
  EXPECT_TRUE(harness_->EmptyLog());
  harness_.Reopen();
  EXPECT_EQ(harness_->owners()->GetTenant(tenant())->quota_bytes, 9u);
}

// Each of the two takes a number that is never handed out.
TEST_F(CatalogTest, ACommitThatStaysInTheLogIsSealedByTwoMore) {
  const uint64_t end = harness_->EndOfNumbers().value();
  ATTNDB_ASSERT_OK(harness_->owners()->SetQuota(tenant(), 7));
  EXPECT_EQ(harness_->EndOfNumbers().value(), end);  // The log is empty.
  {
    const NoTruncation none(std::numeric_limits<off_t>::max());  // The file neither.
    ATTNDB_ASSERT_OK(harness_->owners()->SetQuota(tenant(), 8));
    EXPECT_EQ(harness_->EndOfNumbers().value(), end + 2);
    EXPECT_FALSE(harness_->EmptyLog());
  }
  EXPECT_TRUE(harness_->EmptyLog());
  EXPECT_EQ(harness_->owners()->GetTenant(tenant())->quota_bytes, 8u);
}

// --- Time.

TEST_F(CatalogTest, AClockThatJumpsAheadWhileTheCatalogIsOpenExpiresNoContext) {
  const ContextId id = harness_.MustPublish(Range(0, 10), {.name = "a", .ttl = hours(3)});
  const int64_t start_us = harness_.now_us;
  int64_t now_us = start_us;
  int64_t since_boot_us = 7;
  CatalogOptions options;
  options.path = harness_.path();
  options.clock = [&] { return now_us; };
  options.since_boot = [&] { return since_boot_us; };
  ATTNDB_ASSERT_OK_AND_ASSIGN(const auto catalog, Catalog::Open(options));
  const auto expect_served = [&](bool served) {
    EXPECT_EQ(catalog->contexts()->AnyExpired().value(), !served);
    EXPECT_EQ(catalog->prefixes()->Longest(harness_.Query({0, 1})).value().has_value(), served);
  };
  now_us += 24 * 365 * kHourUs;
  EXPECT_EQ(catalog->ExpiryNow(), start_us + kHourUs);  // The tolerance of clocks.
  expect_served(true);
  EXPECT_THAT(catalog->contexts()->Expire({})->dropped, IsEmpty());
  since_boot_us += 2 * kHourUs - 1;
  EXPECT_EQ(catalog->ExpiryNow(), start_us + 3 * kHourUs - 1);
  expect_served(true);
  since_boot_us += 1;
  expect_served(false);
  ATTNDB_ASSERT_OK_AND_ASSIGN(const DropOutcome outcome, catalog->contexts()->Expire({}));
  ASSERT_EQ(outcome.dropped.size(), 1u);
  EXPECT_EQ(outcome.dropped[0].id, id);
}

// The answer of SetTtl.
TEST_F(CatalogTest, AClockThatIsFarAheadWhenTheCatalogIsOpenedExpiresWhatIsNotPinned) {
  const ContextId pinned =
      harness_.MustPublish(Range(0, 10), {.name = "a", .ttl = hours(3), .pin = true});
  const ContextId other = harness_.MustPublish(Range(20, 10), {.name = "b", .ttl = hours(3)});
  harness_.now_us += 24 * 365 * kHourUs;
  harness_.Reopen();
  ATTNDB_ASSERT_OK_AND_ASSIGN(const DropOutcome outcome, harness_->contexts()->Expire({}));
  ASSERT_EQ(outcome.dropped.size(), 1u);
  EXPECT_EQ(outcome.dropped[0].id, other);
  EXPECT_EQ(harness_->contexts()->Get(tenant(), pinned)->name, "a");
}

TEST_F(CatalogTest, ContextsExpireByTheSystemsClockWhereNoneIsGiven) {
  CatalogOptions options;
  options.path = harness_.path();
  ATTNDB_ASSERT_OK_AND_ASSIGN(const auto catalog, Catalog::Open(options));
  const int64_t before_us = SystemNowMicros();
  const int64_t expiry_us = catalog->ExpiryNow();
  EXPECT_GE(expiry_us, before_us);
  EXPECT_LE(expiry_us, SystemNowMicros());
}

// --- Catalogs of before, and of later.

TEST_F(CatalogTest, AReaderSeesViewsInThePlaceOfTheTablesThatAreMissing) {
  harness_.MustPublish(Range(0, 10));
  harness_.Close();
  const struct {
    int version;
    const char* drop;
    std::vector<std::string> views;
  } cases[] = {
      {9, "", {}},
      {8, kDropNotes, {}},
      {7, "DROP TABLE text_layouts", {"text_layouts"}},
      {6, "DROP TABLE model_sources", {"model_sources", "text_layouts"}},
      {5,
       "DROP TABLE next_numbers; DROP TABLE segment_numbers; DROP TABLE context_numbers",
       {"context_numbers", "model_sources", "segment_numbers", "text_layouts"}},
      {4,
       "DROP TABLE sound_tokens",
       {"context_numbers", "model_sources", "segment_numbers", "sound_tokens", "text_layouts"}},
      {3,
       "DROP INDEX nodes_of_cuts",
       {"context_numbers", "model_sources", "segment_numbers", "sound_tokens", "text_layouts"}},
      {2,
       "DROP INDEX contexts_by_access; DROP TABLE tenant_uses; DROP TABLE segment_uses",
       {"context_numbers", "model_sources", "segment_numbers", "segment_uses", "sound_tokens",
        "tenant_uses", "text_layouts"}},
  };
  for (const auto& [version, drop, views] : cases) {
    SCOPED_TRACE(version);
    ChangeRows(harness_.path(),
               std::string(drop) + "; PRAGMA user_version = " + std::to_string(version));
    CatalogOptions options;
    options.path = harness_.path();
    options.read_only = true;
    CatalogCore reader(options);
    ATTNDB_ASSERT_OK(reader.Open());
    MutexLock lock(reader.mutex());
    Query query = reader.database()->Select(
        "SELECT name FROM sqlite_temp_master WHERE type = 'view' ORDER BY name");
    std::vector<std::string> found;
    while (query.Step().value()) found.emplace_back(query.Text(0));
    std::vector<std::string> expected = views;
    expected.emplace_back("note_uses");  // The file of no version has it.
    if (version < 9) {
      expected.insert(expected.end(), {"context_notes", "context_titles", "continuations"});
    }
    std::ranges::sort(expected);
    EXPECT_EQ(found, expected);
  }
  harness_.Reopen();
}

// A context of before whose id can't be its number.
TEST_F(CatalogTest, ACatalogOfBeforeThatCannotBeUpgradedIsRefused) {
  harness_.MustPublish(Range(0, 10));
  harness_.Close();
  const std::string before = ReadFile(harness_.path());
  ChangeRows(
      harness_.path(),
      std::string(kDropNumbers) +
          "; INSERT INTO contexts SELECT 0, tenant, model, 'zero', first_position, num_tokens, "
          "kv_bytes, created_us, last_access_us, ttl_s, pinned, damaged, leaf FROM contexts; "
          "PRAGMA user_version = 5");
  EXPECT_THAT(harness_.Open(), FailsWith(StatusCode::kInternal, HasSubstr("CHECK")));
  WriteFile(harness_.path(), before);
  harness_.Reopen();
}

TEST_F(CatalogTest, AReaderOfACatalogOfBeforeRefusesWhatANewerOneMadeOfIt) {
  harness_.MustPublish(Range(0, 10));
  harness_.Close();
  ChangeRows(harness_.path(),
             std::string(kDropNotes) +
                 "; DROP TABLE text_layouts; DROP TABLE model_sources; PRAGMA user_version = 6");
  {
    ATTNDB_ASSERT_OK_AND_ASSIGN(const auto reader, harness_.Open(/*read_only=*/true));
    EXPECT_EQ(reader->contexts()->List(tenant())->size(), 1u);
    ChangeRows(harness_.path(), "PRAGMA user_version = 10");
    for (int i = 0; i < 2; ++i) {
      EXPECT_THAT(reader->contexts()->List(tenant()),
                  FailsWith(StatusCode::kUnsupported, HasSubstr("version 10, expected at most 9")));
    }
    ChangeRows(harness_.path(), "PRAGMA user_version = 6");
    EXPECT_EQ(reader->contexts()->List(tenant())->size(), 1u);
    EXPECT_EQ(reader->owners()->SourceOf(tenant(), harness_.model()).value(), ModelSource());
  }
  harness_.Reopen();
}

// --- A folder in which SQLite can't make its lock file, as where nothing may be written: a link to
// itself lies in that file's place.

class CatalogWithoutLocks : public CatalogTest {
 protected:
  CatalogWithoutLocks() {
    harness_.MustPublish(Range(0, 10));
    harness_.Close();
    one_ = ReadFile(harness_.path());
    harness_.Reopen();
    harness_.MustPublish(Range(50, 10));
    harness_.Close();
    two_ = ReadFile(harness_.path());
    ChangeRows(harness_.path(), "PRAGMA user_version = 10");
    newer_ = ReadFile(harness_.path());
    Replace(one_);
    WriteFile(wal(), "");
    fs::remove(shm());
    fs::create_symlink("catalog.db-shm", shm());
  }
  ~CatalogWithoutLocks() override {
    fs::remove(shm());
    WriteFile(wal(), "");
    Replace(one_);
    harness_.Reopen();
  }

  CatalogOptions ReadOnly() const {
    CatalogOptions options;
    options.path = harness_.path();
    options.read_only = true;
    return options;
  }
  std::string shm() const { return harness_.path() + "-shm"; }
  std::string wal() const { return harness_.path() + "-wal"; }
  // By another file, as who copies a store does it.
  void Replace(const std::string& contents) {
    WriteFile(harness_.path() + ".other", contents);
    fs::rename(harness_.path() + ".other", harness_.path());
  }
  static Result<int64_t> NumContexts(CatalogCore* core) {
    MutexLock lock(core->mutex());
    ATTNDB_ASSIGN_OR_RETURN(const Transaction transaction, core->BeginRead());
    Query query = core->database()->Select("SELECT count(*) FROM contexts");
    ATTNDB_ASSIGN_OR_RETURN(const bool found, query.Step());
    return found ? query.Int(0) : -1;
  }
  static bool IsImmutable(const CatalogCore& core) {
    MutexLock lock(core.mutex());
    return core.is_immutable();
  }

  std::string one_;    // The file with one context,
  std::string two_;    // with two,
  std::string newer_;  // and of a newer version.
};

TEST_F(CatalogWithoutLocks, IsReadAsItIsUntilItChanges) {
  CatalogCore reader(ReadOnly());
  ATTNDB_ASSERT_OK(reader.Open());
  EXPECT_TRUE(IsImmutable(reader));
  EXPECT_EQ(NumContexts(&reader).value(), 1);
  Replace(two_);
  EXPECT_EQ(NumContexts(&reader).value(), 2);
  EXPECT_TRUE(IsImmutable(reader));
  fs::remove(shm());
  Replace(one_);  // Opened with locks, because that is possible now.
  EXPECT_EQ(NumContexts(&reader).value(), 1);
  EXPECT_FALSE(IsImmutable(reader));
}

TEST_F(CatalogWithoutLocks, IsRefusedAsLongAsItIsOfANewerVersion) {
  CatalogCore reader(ReadOnly());
  ATTNDB_ASSERT_OK(reader.Open());
  Replace(newer_);
  for (int i = 0; i < 2; ++i) {
    EXPECT_THAT(NumContexts(&reader),
                FailsWith(StatusCode::kUnsupported, HasSubstr("version 10, expected at most 9")));
  }
  Replace(two_);
  EXPECT_EQ(NumContexts(&reader).value(), 2);
}

TEST_F(CatalogWithoutLocks, IsRefusedWhereItsLogHoldsCommits) {
  WriteFile(wal(), "commits");
  CatalogCore reader(ReadOnly());
  EXPECT_THAT(reader.Open(), FailsWith(StatusCode::kReadOnly, HasSubstr("its log holds commits")));
  CatalogOptions writer = ReadOnly();
  writer.read_only = false;
  EXPECT_EQ(Catalog::Open(writer).status().code(), StatusCode::kIoError);
}

}  // namespace
}  // namespace attndb::store
