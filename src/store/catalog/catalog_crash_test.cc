// Goal:   acknowledged = durable: a process killed at any moment leaves a catalog that opens,
//         verifies and holds every publish it had acknowledged; readers of other processes see
//         whole commits.
// Method: a child process publishes, drops and merges, telling each finished step over a pipe, and
//         is killed at a random moment; copies of the files taken between steps are opened
//         elsewhere; two handles in one process stand for two processes.
// Replay: ATTNDB_SEED=17 ctest -R db_test
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <thread>

#include "common/random.h"
#include "store/catalog/catalog_test_util.h"
#include "store/catalog/sqlite.h"
#include "testing/matchers.h"
#include "testing/seed.h"

namespace attndb::store {
namespace {

using ::attndb::test::FailsWith;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

namespace fs = std::filesystem;

// Context i: so many tokens, starting with i.
std::vector<TokenId> TokensOf(int i) { return Range(i, static_cast<size_t>(30 + i * 37 % 400)); }
// Its title and its note, of up to four pages.
Published OptionsOf(int i) {
  return {.name = "c" + std::to_string(i),
          .title = "title " + std::to_string(i),
          .note = std::string(static_cast<size_t>(1 + i * 1201 % 16000), 'n')};
}

// Publishes one context after another and drops every third again, until it is killed.
[[noreturn]] void PublishForEver(CatalogHarness* harness, int pipe_fd) {
  harness->Reopen();
  for (int i = 0;; ++i) {
    const ContextId id = harness->MustPublish(TokensOf(i), OptionsOf(i));
    if (i % 3 == 2) (void)(*harness)->contexts()->Drop(harness->tenant(), id).value();
    if (write(pipe_fd, &i, sizeof(i)) != sizeof(i)) _exit(1);
  }
}

TEST(CatalogCrash, AKilledProcessLosesNothingAcknowledged) {
  Random random(test::SeedOr(1));
  int num_acknowledged_total = 0;
  for (int round = 0; round < 25; ++round) {
    CatalogHarness harness;
    harness.Close();
    int fds[2];
    ASSERT_EQ(pipe(fds), 0);
    const pid_t child = fork();
    if (child == 0) {
      close(fds[0]);
      PublishForEver(&harness, fds[1]);
    }
    close(fds[1]);
    usleep(static_cast<useconds_t>(5'000 + random.Uniform(150'000)));
    kill(child, SIGKILL);
    ASSERT_EQ(waitpid(child, nullptr, 0), child);
    int acknowledged = -1;
    for (int i = 0; read(fds[0], &i, sizeof(i)) == sizeof(i);) acknowledged = i;
    close(fds[0]);
    num_acknowledged_total += acknowledged + 1;

    harness.Reopen();
    EXPECT_THAT(harness->Verify().value(), IsEmpty());
    for (int i = 0; i <= acknowledged; ++i) {
      const std::string name = "c" + std::to_string(i);
      const Result<ContextRecord> found = harness->contexts()->Find(harness.tenant(), name);
      EXPECT_EQ(found.ok(), i % 3 != 2) << name << ": " << found.status();
      if (!found.ok()) continue;
      EXPECT_EQ(harness->contexts()->Tokens(found->id).value(), TokensOf(i));
      EXPECT_EQ(harness->contexts()->Describe(harness.tenant(), found->id)->title,
                OptionsOf(i).title);
      EXPECT_EQ(harness->contexts()->NoteOf(*found).value(), OptionsOf(i).note);
    }
    // At most the step that was under way is there as well.
    EXPECT_LE(harness->contexts()->List(harness.tenant())->size(),
              static_cast<size_t>(acknowledged + 1 - (acknowledged + 1) / 3 + 1));
  }
  std::printf("%d publishes acknowledged before 25 kills\n", num_acknowledged_total);
}

// A copy of the files between two steps is what a power cut would leave.
TEST(CatalogCrash, ACopyOfTheFilesOpensAnywhere) {
  CatalogHarness harness;
  // A reader's snapshot keeps the log from being emptied: the copies have logs of all lengths.
  const auto reader = SqliteDatabase::Open(harness.path(), SqliteDatabase::Mode::kReadOnly).value();
  std::optional<Transaction> snapshot;
  for (int i = 0; i < 12; ++i) {
    if (i % 4 == 2) {
      snapshot.emplace(Transaction::Begin(reader.get(), Transaction::Kind::kRead).value());
      ATTNDB_ASSERT_OK(reader->Select("SELECT * FROM meta").Step());
    } else if (i % 4 == 0) {
      snapshot.reset();
    }
    harness.MustPublish(TokensOf(i), OptionsOf(i));
    CatalogHarness copy;
    copy.Close();
    for (const char* const suffix : {"", "-wal"}) {
      fs::remove(copy.path() + suffix);
      if (fs::exists(harness.path() + suffix)) {
        fs::copy_file(harness.path() + suffix, copy.path() + suffix);
      }
    }
    const std::string expected = CatalogHarness::Dump(*harness, TestSpec()).value();
    for (const bool read_only : {true, false}) {
      const auto catalog = copy.Open(read_only);
      ATTNDB_ASSERT_OK(catalog);
      EXPECT_EQ(CatalogHarness::Dump(**catalog, TestSpec()).value(), expected);
      EXPECT_THAT((*catalog)->Verify().value(), IsEmpty());
    }
  }
}

TEST(CatalogHandles, AReaderSeesEachCommitOfTheWriter) {
  CatalogHarness harness;
  const auto reader = harness.Open(/*read_only=*/true).value();
  for (int i = 0; i < 5; ++i) {
    harness.MustPublish(TokensOf(i), {.name = "c" + std::to_string(i)});
    EXPECT_EQ(CatalogHarness::Dump(*reader, TestSpec()).value(),
              CatalogHarness::Dump(*harness, TestSpec()).value());
    EXPECT_THAT(reader->Verify().value(), IsEmpty());
  }
}

TEST(CatalogHandles, AReaderRefusesToWrite) {
  CatalogHarness harness;
  const ContextId id = harness.MustPublish(Range(0, 10));
  const TenantId tenant = harness.tenant();
  const auto reader = harness.Open(/*read_only=*/true).value();
  EXPECT_THAT(reader->contexts()->Drop(tenant, id),
              FailsWith(StatusCode::kReadOnly, HasSubstr("read-only")));
  EXPECT_EQ(reader->owners()->EnsureTenant("new").status().code(), StatusCode::kReadOnly);
  EXPECT_EQ(reader->owners()->EnsureTenant("default")->id, tenant);
  EXPECT_EQ(reader->contexts()->Pin(tenant, id, true).code(), StatusCode::kReadOnly);
  EXPECT_EQ(reader->segments()->ReserveId().status().code(), StatusCode::kReadOnly);
  EXPECT_EQ(reader->segments()->Quarantine(1, "x").status().code(), StatusCode::kReadOnly);
  EXPECT_EQ(reader->contexts()->Expire({}).status().code(), StatusCode::kReadOnly);
  reader->contexts()->Touch(id);
  EXPECT_EQ(reader->FlushTouches().code(), StatusCode::kReadOnly);
}

TEST(CatalogHandles, ReadersAndTheWriterRunAtTheSameTime) {
  CatalogHarness harness;
  std::atomic<bool> done = false;
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i) {
    threads.emplace_back([&, i] {
      // Two with a handle of their own, one beside the writer on its handle.
      const auto own = i < 2 ? harness.Open(/*read_only=*/true).value() : nullptr;
      Catalog& catalog = own != nullptr ? *own : *harness;
      uint64_t longest = 0;
      while (!done) {
        const std::vector<TokenId> tokens = Range(0, 5000);
        const auto match = catalog.prefixes()->Longest(harness.Query(tokens)).value();
        const uint64_t num_tokens = match.has_value() ? match->num_tokens : 0;
        EXPECT_GE(num_tokens, longest);
        EXPECT_EQ(num_tokens % 30, 0u);
        longest = num_tokens;
      }
    });
  }
  ContextId id = ContextId::kNone;
  for (size_t i = 1; i <= 40; ++i) {
    id = harness.MustPublish(
        Range(0, i * 30),
        {.name = "chat", .replace = true, .base = id, .num_shared = (i - 1) * 30});
  }
  done = true;
  for (std::thread& thread : threads) thread.join();
  EXPECT_THAT(harness->Verify().value(), IsEmpty());
}

// A folder that can't be written: needs the right to mount.
TEST(CatalogHandles, AReadOnlyFileSystemIsReadWithoutLocks) {
  CatalogHarness harness;
  harness.MustPublish(Range(0, 100), {.name = "doc"});
  const std::string expected = CatalogHarness::Dump(*harness, TestSpec()).value();
  harness.Close();
  const test::TempDir mount_point;
  if (mount("none", mount_point.path().c_str(), "tmpfs", 0, "size=4m") != 0) {
    GTEST_SKIP() << "may not mount";
  }
  CatalogOptions options;
  options.path = mount_point.File("catalog.db");
  options.read_only = true;
  options.clock = [&] { return harness.now_us; };
  fs::copy_file(harness.path(), options.path);
  fs::copy_file(harness.path(), mount_point.File("logged.db"));
  WriteFile(mount_point.File("logged.db-wal"), "commits");
  ASSERT_EQ(mount("none", mount_point.path().c_str(), "tmpfs", MS_REMOUNT | MS_RDONLY, ""), 0);
  {
    const auto catalog = Catalog::Open(options);
    ATTNDB_EXPECT_OK(catalog);
    if (catalog.ok()) {
      EXPECT_EQ(CatalogHarness::Dump(**catalog, TestSpec()).value(), expected);
      EXPECT_THAT((*catalog)->Verify().value(), IsEmpty());
    }
  }
  CatalogOptions logged = options;
  logged.path = mount_point.File("logged.db");
  EXPECT_THAT(Catalog::Open(logged),
              FailsWith(StatusCode::kReadOnly, HasSubstr("its log holds commits")));
  options.read_only = false;
  EXPECT_FALSE(Catalog::Open(options).ok());
  options.path = mount_point.File("other.db");
  options.create_if_missing = true;
  EXPECT_EQ(Catalog::Open(options).status().code(), StatusCode::kReadOnly);
  EXPECT_EQ(umount(mount_point.path().c_str()), 0);
}

TEST(CatalogHandles, ADiskWithRoomForNoFileIsReportedAsFull) {
  const test::TempDir mount_point;
  if (mount("none", mount_point.path().c_str(), "tmpfs", 0, "nr_inodes=1") != 0) {
    GTEST_SKIP() << "may not mount";
  }
  CatalogOptions options;
  options.path = mount_point.File("catalog.db");
  options.create_if_missing = true;
  EXPECT_EQ(Catalog::Open(options).status().code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(umount(mount_point.path().c_str()), 0);
}

TEST(CatalogHandles, AFullDiskIsReportedAndChangesNothing) {
  const test::TempDir mount_point;
  if (mount("none", mount_point.path().c_str(), "tmpfs", 0, "size=1m") != 0) {
    GTEST_SKIP() << "may not mount";
  }
  {
    CatalogHarness harness(mount_point.path());
    Result<PublishOutcome> outcome = Status::Internal("not run");
    int num_published = 0;
    for (;; ++num_published) {
      outcome = harness.Publish(Range(num_published * 10'000, 3000));
      if (!outcome.ok()) break;
    }
    EXPECT_EQ(outcome.status().code(), StatusCode::kResourceExhausted) << outcome.status();
    EXPECT_GT(num_published, 3);
    EXPECT_EQ(harness->contexts()->List(harness.tenant())->size(),
              static_cast<size_t>(num_published));
    EXPECT_THAT(harness->Verify().value(), IsEmpty());
    harness.Reopen();
    EXPECT_EQ(harness->contexts()->List(harness.tenant())->size(),
              static_cast<size_t>(num_published));
    EXPECT_THAT(harness->Verify().value(), IsEmpty());
  }
  EXPECT_EQ(umount(mount_point.path().c_str()), 0);
}

}  // namespace
}  // namespace attndb::store
