// Goal:   a disk that is really full, not simulated, costs only the call that met it. Dropping
//         makes room again. A disk that can't be written can still be read.
// Method: a tmpfs of a few megabytes that only this process sees; for an open, an ext4 in a file,
//         too. Contexts of falling size are stored until none fits, so that the end of the disk is
//         met in segments and in SQLite's files; or a stranger's file takes all that is free; or
//         the disk is remounted read-only. What the store says and answers, and which files are
//         left. Where nothing can be mounted the tests are skipped.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <spawn.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "attndb/db.h"
#include "common/check.h"
#include "testing/matchers.h"
#include "testing/temp_dir.h"
#include "testing/toy_model.h"
#include "testing/toy_oracle.h"

namespace attndb::test {
namespace {

using ::testing::_;
using ::testing::HasSubstr;
using Tokens = std::vector<TokenId>;

constexpr const char* kDiskSize = "size=4m";
constexpr uint64_t kImageBytes = uint64_t{16} << 20;  // mkfs makes no ext4 much smaller.
constexpr TokenId kProbe = 99;
constexpr double kTolerance = 1e-4;

bool WriteText(const char* path, const std::string& text) {
  const int fd = ::open(path, O_WRONLY | O_CLOEXEC);
  if (fd < 0) return false;
  const bool written = ::write(fd, text.data(), text.size()) == static_cast<ssize_t>(text.size());
  return ::close(fd) == 0 && written;
}

// Makes mounts of this process its own, so that they go with it: as who it is, or else as the root
// of a user namespace.
bool EnterMountNamespace() {
  const std::string uid = std::to_string(::geteuid());
  const std::string gid = std::to_string(::getegid());
  if (::unshare(CLONE_NEWNS) != 0) {
    if (::unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0) return false;
    if (!WriteText("/proc/self/setgroups", "deny")) return false;
    if (!WriteText("/proc/self/uid_map", "0 " + uid + " 1")) return false;
    if (!WriteText("/proc/self/gid_map", "0 " + gid + " 1")) return false;
  }
  return ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0;
}

bool CanMount() {
  static const bool kEntered = EnterMountNamespace();
  return kEntered;
}

// Whether the program ran and ended well. It says nothing.
bool Run(std::vector<std::string> command) {
  std::vector<char*> words;
  for (std::string& word : command) words.push_back(word.data());
  words.push_back(nullptr);
  posix_spawn_file_actions_t quiet;
  ::posix_spawn_file_actions_init(&quiet);
  ::posix_spawn_file_actions_addopen(&quiet, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
  ::posix_spawn_file_actions_addopen(&quiet, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  pid_t pid = 0;
  const int error = ::posix_spawnp(&pid, words[0], &quiet, nullptr, words.data(), environ);
  ::posix_spawn_file_actions_destroy(&quiet);
  int status = 0;
  return error == 0 && ::waitpid(pid, &status, 0) == pid && status == 0;
}

enum class DiskKind : uint8_t { kTmpfs, kExt4 };

// A file system of its own.
class SmallDisk {
 public:
  // REQUIRES: CanMount(). Whether it is mounted after all is for the caller to look at.
  explicit SmallDisk(DiskKind kind = DiskKind::kTmpfs) : mounted_(Mount(kind)) {}
  ~SmallDisk() {
    if (mounted_) (void)::umount2(dir_.path().c_str(), MNT_DETACH);
  }
  SmallDisk(const SmallDisk&) = delete;
  SmallDisk& operator=(const SmallDisk&) = delete;

  bool mounted() const { return mounted_; }
  std::string File(const std::string& name) const { return dir_.File(name); }

  // REQUIRES: no file is open for writing.
  bool MakeReadOnly() const {
    constexpr unsigned long kFlags = MS_REMOUNT | MS_RDONLY;
    return ::mount("none", dir_.path().c_str(), nullptr, kFlags, kDiskSize) == 0;
  }

  // Takes what is free, but for some pages: a file of someone else.
  void Fill(uint64_t free_bytes) const {
    std::ofstream file(File("stranger"), std::ios::binary);
    const std::string page(4096, 'x');
    while (free_space() > free_bytes) {
      file.write(page.data(), static_cast<std::streamsize>(page.size())).flush();
    }
    ATTNDB_CHECK(file.good());
  }
  // Takes all that is free, to the last byte that the disk gives.
  void FillUp() const {
    const int fd =
        ::open(File("stranger").c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    ATTNDB_CHECK(fd >= 0);
    for (const size_t num_bytes : {65536u, 4096u, 512u, 1u}) {
      const std::string bytes(num_bytes, 'x');
      while (::write(fd, bytes.data(), bytes.size()) > 0) {
      }
    }
    (void)::fsync(fd);
    (void)::close(fd);
  }
  void Free() const { std::filesystem::remove(File("stranger")); }

 private:
  bool Mount(DiskKind kind) const {
    const char* const folder = dir_.path().c_str();
    if (kind == DiskKind::kTmpfs) return ::mount("attndb_test", folder, "tmpfs", 0, kDiskSize) == 0;
    const std::string image = images_.File("image");
    std::ofstream(image, std::ios::binary).close();
    std::filesystem::resize_file(image, kImageBytes);
    // No block is root's alone: root runs this test.
    return Run({"mkfs.ext4", "-q", "-F", "-m", "0", image}) &&
           Run({"mount", "-t", "ext4", "-o", "loop", image, dir_.path()});
  }
  uint64_t free_space() const { return std::filesystem::space(dir_.path()).available; }

  const TempDir images_;
  const TempDir dir_;
  const bool mounted_;
};

class FullDiskTest : public ::testing::Test {
 protected:
  struct Talk {
    Session session;
    Tokens tokens;
  };

  void SetUp() override { MountDisk(DiskKind::kTmpfs); }
  void MountDisk(DiskKind kind) {
    if (!CanMount()) GTEST_SKIP() << "no mount namespace can be had here";
    disk_.emplace(kind);
    if (disk_->mounted()) return;
    GTEST_SKIP() << (kind == DiskKind::kTmpfs ? "no tmpfs can be mounted here"
                                              : "no ext4 can be made and mounted here: that takes "
                                                "mkfs.ext4, mount, a loop device, and root");
  }
  std::string path() const { return disk_->File("store"); }

  // A session that holds `tokens`, with its own tail after what is stored of them.
  Talk Begin(const DB& db, const Tokens& tokens) const {
    SessionStart start = *db.CreateSession(model_.spec(), tokens);
    EXPECT_THAT(model_.Step(&start.session, start.rest), IsOk());
    return {std::move(start.session), tokens};
  }
  std::vector<float> Probe(Talk* talk) const {
    std::vector<float> out;
    EXPECT_THAT(model_.Probe(&talk->session, kProbe, &out), IsOk());
    return out;
  }
  static std::vector<std::string> Names(const DB& db) {
    std::vector<std::string> names;
    const std::vector<ContextInfo> infos = *db.List();
    for (const ContextInfo& info : infos) names.push_back(info.name);
    return names;
  }
  // Tokens that no other context begins with.
  Tokens NewTokens(uint64_t n) { return ToyModel::Tokens(n, ++num_made_); }

  void StoreNew(const DB& db, const std::string& name, uint64_t num_tokens) {
    Talk talk = Begin(db, NewTokens(num_tokens));
    ATTNDB_EXPECT_OK(db.Store(talk.session, talk.tokens, {.name = name}));
    stored_.push_back(name);
  }
  // Whether a context of a new store can be dropped with so much room left, and with it made. What
  // the store keeps free for a Drop is removed before.
  bool CanDrop(uint64_t free_bytes, bool after_a_store);

  // Stores contexts of `num_tokens` each until one is refused, which it returns.
  Talk StoreUntilRefused(const DB& db, uint64_t num_tokens);
  // Stores, which must be refused and must change nothing.
  void ExpectRefused(const DB& db, Talk* talk, const StoreOptions& options) const;
  // Checks that there are exactly two files per segment.
  void CheckFiles(const DB& db) const;
  // Checks that all contexts are there, whole and right.
  void CheckContexts(const DB& db) const;

  std::optional<SmallDisk> disk_;
  const ToyModel model_;
  uint64_t num_made_ = 0;
  std::vector<std::string> stored_;  // Names, oldest first.
};

void FullDiskTest::ExpectRefused(const DB& db, Talk* talk, const StoreOptions& options) const {
  const std::vector<float> before = Probe(talk);
  const uint64_t num_reused = talk->session.num_reused();
  const ContextId context = talk->session.context_id();
  EXPECT_THAT(db.Store(talk->session, talk->tokens, options).status(),
              FailsWith(StatusCode::kResourceExhausted, _));
  EXPECT_EQ(talk->session.num_tokens(), talk->tokens.size());
  EXPECT_EQ(talk->session.num_reused(), num_reused);
  EXPECT_EQ(talk->session.context_id(), context);
  EXPECT_EQ(Probe(talk), before);
  EXPECT_EQ(Names(db), stored_);
}

FullDiskTest::Talk FullDiskTest::StoreUntilRefused(const DB& db, uint64_t num_tokens) {
  for (;;) {
    Talk talk = Begin(db, NewTokens(num_tokens));
    const std::string name = "c" + std::to_string(num_made_);
    const Status status = db.Store(talk.session, talk.tokens, {.name = name}).status();
    if (status.ok()) {
      stored_.push_back(name);
      continue;
    }
    EXPECT_THAT(status, FailsWith(StatusCode::kResourceExhausted, _));
    ExpectRefused(db, &talk, {.name = name});
    return talk;
  }
}

bool FullDiskTest::CanDrop(uint64_t free_bytes, bool after_a_store) {
  std::filesystem::remove_all(path());
  stored_.clear();
  const DB db = *DB::Open(path());
  StoreNew(db, "a", 100);
  StoreNew(db, "b", 100);
  Talk talk = Begin(db, NewTokens(1));
  std::filesystem::remove(path() + "/reserve");
  disk_->Fill(free_bytes);
  if (after_a_store && db.Store(talk.session, talk.tokens, {.name = "c"}).ok()) {
    stored_.emplace_back("c");
  }
  const Status dropped = db.Drop("a");
  if (dropped.ok()) {
    stored_.erase(stored_.begin());
    ATTNDB_EXPECT_OK(db.Store(talk.session, talk.tokens, {.name = "d"}));
    stored_.emplace_back("d");
    CheckFiles(db);
  } else {
    EXPECT_THAT(dropped, FailsWith(StatusCode::kResourceExhausted, _));
  }
  disk_->Free();
  CheckContexts(db);
  return dropped.ok();
}

void FullDiskTest::CheckFiles(const DB& db) const {
  (void)db.WaitForBackground();  // Planes that found no room have left nothing either.
  std::vector<std::string> names;
  for (const auto& file : std::filesystem::directory_iterator(path() + "/segments")) {
    names.push_back(file.path().filename().string());
  }
  const DBStats stats = *db.Stats();
  EXPECT_EQ(names.size(), 2 * (stats.num_segments + stats.num_companions))
      << ::testing::PrintToString(names);
}

void FullDiskTest::CheckContexts(const DB& db) const {
  EXPECT_EQ(Names(db), stored_);
  ATTNDB_ASSERT_OK_AND_ASSIGN(const VerifyReport report, db.Verify());
  for (const Damage& damage : report.damages) ADD_FAILURE() << damage.message;
  for (const std::string& name : stored_) {
    SCOPED_TRACE(name);
    ATTNDB_ASSERT_OK_AND_ASSIGN(Tokens tokens, db.Tokens(name));
    tokens.push_back(kProbe);
    ATTNDB_ASSERT_OK_AND_ASSIGN(SessionStart start,
                                db.CreateSession(model_.spec(), tokens, {.context = name}));
    EXPECT_EQ(start.rest.size(), 1u);
    std::vector<float> out;
    ATTNDB_ASSERT_OK(model_.Step(&start.session, start.rest, &out));
    EXPECT_LT(OutputError(model_, out, OracleStep(model_, tokens, tokens.size() - 1)), kTolerance);
  }
}

TEST_F(FullDiskTest, GoesOnAfterADrop) {
  {
    const DB db = *DB::Open(path());
    Talk refused = StoreUntilRefused(db, 400);
    EXPECT_GT(stored_.size(), 5u);
    CheckFiles(db);
    CheckContexts(db);
    ATTNDB_ASSERT_OK(db.Drop(stored_.front()));
    stored_.erase(stored_.begin());
    ATTNDB_ASSERT_OK(db.Store(refused.session, refused.tokens, {.name = "last"}));
    stored_.push_back("last");
    CheckFiles(db);
    CheckContexts(db);
  }
  const DB db = *DB::Open(path());
  CheckFiles(db);
  CheckContexts(db);
}

// The smaller, the nearer to the end: some end in a segment, some in the commit.
TEST_F(FullDiskTest, StoresEverSmallerContextsUntilNothingFits) {
  {
    const DB db = *DB::Open(path());
    for (const uint64_t num_tokens : {400u, 100u, 20u, 5u, 1u}) StoreUntilRefused(db, num_tokens);
    CheckContexts(db);
  }
  const DB db = *DB::Open(path());
  CheckFiles(db);
  CheckContexts(db);
}

// Its segments are merged as it grows: a merge that finds no room costs nothing.
TEST_F(FullDiskTest, AChatGrowsUntilNothingFitsAndGoesOnAfterADrop) {
  {
    const DB db = *DB::Open(path());
    StoreNew(db, "other", 400);
    Talk chat = Begin(db, NewTokens(100));
    stored_.emplace_back("chat");
    const StoreOptions options = {.name = "chat", .replace = true};
    uint64_t num_turns = 0;
    Status status;
    for (; num_turns < 100; ++num_turns) {
      status = db.Store(chat.session, chat.tokens, options).status();
      if (!status.ok()) break;
      const Tokens more = NewTokens(100);
      ATTNDB_ASSERT_OK(model_.Step(&chat.session, more));
      chat.tokens.insert(chat.tokens.end(), more.begin(), more.end());
    }
    EXPECT_THAT(status, FailsWith(StatusCode::kResourceExhausted, _));
    EXPECT_GT(num_turns, 10u);
    ExpectRefused(db, &chat, options);
    ATTNDB_ASSERT_OK(db.Drop("other"));
    stored_.erase(stored_.begin());
    ATTNDB_ASSERT_OK(db.Store(chat.session, chat.tokens, options));
    EXPECT_EQ(db.Describe("chat")->num_tokens, chat.tokens.size());
    CheckFiles(db);
    CheckContexts(db);
  }
  const DB db = *DB::Open(path());
  CheckFiles(db);
  CheckContexts(db);
}

TEST_F(FullDiskTest, ReadsWhereNothingIsFree) {
  const DB db = *DB::Open(path());
  StoreNew(db, "a", 100);
  StoreNew(db, "b", 100);
  Talk talk = Begin(db, NewTokens(100));
  disk_->Fill(0);
  ExpectRefused(db, &talk, {.name = "c"});
  CheckFiles(db);
  CheckContexts(db);
  CheckContexts(*DB::Open(path(), {.read_only = true}));
  disk_->Free();
  ATTNDB_ASSERT_OK(db.Store(talk.session, talk.tokens, {.name = "c"}));
  stored_.emplace_back("c");
  ATTNDB_ASSERT_OK(db.Drop("a"));
  stored_.erase(stored_.begin());
  CheckFiles(db);
  CheckContexts(db);
}

// SQLite makes a file of shared memory even to read.
TEST_F(FullDiskTest, OpensForReadingWhereNothingIsFree) {
  StoreNew(*DB::Open(path()), "a", 100);
  disk_->Fill(0);
  ATTNDB_ASSERT_OK_AND_ASSIGN(const DB db, DB::Open(path(), {.read_only = true}));
  CheckContexts(db);
}

TEST_F(FullDiskTest, OpensWhatThereIsAndMakesNothingNewWhereNothingIsFree) {
  StoreNew(*DB::Open(path()), "a", 100);
  disk_->Fill(0);
  {
    ATTNDB_ASSERT_OK_AND_ASSIGN(const DB db, DB::Open(path()));
    CheckContexts(db);
    EXPECT_THAT(DB::Open(disk_->File("new")), FailsWith(StatusCode::kResourceExhausted, _));
  }
  disk_->Free();
  const DB db = *DB::Open(path());
  StoreNew(db, "b", 100);
  ATTNDB_ASSERT_OK(DB::Open(disk_->File("new")));
  CheckFiles(db);
  CheckContexts(db);
}

// A refused Store leaves as much room as it found, whatever it was refused in. Else the very call
// that makes room can't be made.
TEST_F(FullDiskTest, ARefusedStoreTakesNoRoom) {
  bool drops = false;
  for (uint64_t free_bytes = 0; !drops || free_bytes < 100'000; free_bytes += 4096) {
    SCOPED_TRACE(std::to_string(free_bytes) + " bytes are free");
    ASSERT_LT(free_bytes, 1'000'000u);
    drops = CanDrop(free_bytes, /*after_a_store=*/false);
    EXPECT_TRUE(!drops || CanDrop(free_bytes, /*after_a_store=*/true));
    if (HasFailure()) return;
  }
}

// Objects that can be made again are dropped, even if the catalog has no room to record it.
TEST_F(FullDiskTest, PlanesGiveWayToAStore) {
  for (const uint64_t free_bytes : {0u, 100'000u}) {
    SCOPED_TRACE(free_bytes);
    std::filesystem::remove_all(path());
    stored_.clear();
    const DB db = *DB::Open(path());
    StoreNew(db, "a", 1000);
    ATTNDB_ASSERT_OK(db.WaitForBackground());
    ASSERT_EQ(db.Stats()->num_companions, 1u);
    disk_->Fill(free_bytes);
    StoreNew(db, "b", 100);
    EXPECT_EQ(db.Stats()->num_companions, 0u);
    CheckFiles(db);
    CheckContexts(db);
    disk_->Free();
  }
}

// Room for that is kept, and kept again afterwards.
TEST_F(FullDiskTest, ADropFindsRoomWhereNothingIsFree) {
  const DB db = *DB::Open(path());
  for (const char* name : {"a", "b", "c"}) StoreNew(db, name, 400);
  for (int i = 0; i < 2; ++i) {
    ATTNDB_ASSERT_OK(db.WaitForBackground());
    disk_->Fill(0);
    ATTNDB_ASSERT_OK(db.Drop(stored_.front()));
    stored_.erase(stored_.begin());
    CheckFiles(db);
    CheckContexts(db);
  }
}

// A Drop writes to the log first: some 40 KiB, and 10 bytes a token.
TEST_F(FullDiskTest, ADropThatFindsNoRoomChangesNothing) {
  EXPECT_FALSE(CanDrop(0, /*after_a_store=*/false));
}

// By a process that comes to make room, as 'attndb rm' does.
class FullDiskOpenTest : public FullDiskTest, public ::testing::WithParamInterface<DiskKind> {
 protected:
  void SetUp() override { MountDisk(GetParam()); }
};

TEST_P(FullDiskOpenTest, AProcessThatOpensTheStoreWhereNothingIsFreeCanDrop) {
  {
    const DB db = *DB::Open(path());
    for (const char* name : {"a", "b", "c"}) StoreNew(db, name, 400);
    ATTNDB_ASSERT_OK(db.WaitForBackground());
  }
  for (int i = 0; i < 2; ++i) {
    disk_->FillUp();
    ATTNDB_ASSERT_OK_AND_ASSIGN(const DB db, DB::Open(path()));
    disk_->FillUp();
    ATTNDB_ASSERT_OK(db.Drop(stored_.front()));
    stored_.erase(stored_.begin());
    CheckFiles(db);
    CheckContexts(db);
  }
}

// The next open does not take again the part of the reserve that an open took.
TEST_P(FullDiskOpenTest, OpensThatMakeNoRoomLeaveRoomForADrop) {
  {
    const DB db = *DB::Open(path());
    for (const char* name : {"a", "b"}) StoreNew(db, name, 400);
    ATTNDB_ASSERT_OK(db.WaitForBackground());
  }
  for (int i = 0; i < 4; ++i) {
    disk_->FillUp();
    ATTNDB_ASSERT_OK_AND_ASSIGN(const DB db, DB::Open(path()));
    disk_->FillUp();
    CheckContexts(db);
  }
  disk_->FillUp();
  const DB db = *DB::Open(path());
  ATTNDB_ASSERT_OK(db.Drop("a"));
  stored_.erase(stored_.begin());
  CheckContexts(db);
}

TEST_P(FullDiskOpenTest, WithoutTheReserveTheErrorSaysThatTheDiskIsFull) {
  StoreNew(*DB::Open(path()), "a", 400);
  std::filesystem::remove(path() + "/reserve");
  disk_->FillUp();
  EXPECT_THAT(DB::Open(path()), FailsWith(StatusCode::kResourceExhausted, HasSubstr("catalog.db")));
  disk_->Free();
  CheckContexts(*DB::Open(path()));
}

INSTANTIATE_TEST_SUITE_P(Disks, FullDiskOpenTest,
                         ::testing::Values(DiskKind::kTmpfs, DiskKind::kExt4),
                         [](const auto& disk) {
                           return disk.param == DiskKind::kTmpfs ? "Tmpfs" : "Ext4";
                         });

TEST_F(FullDiskTest, AReadOnlyDiskIsRead) {
  StoreNew(*DB::Open(path()), "a", 100);
  ASSERT_TRUE(disk_->MakeReadOnly());
  EXPECT_THAT(DB::Open(path()), FailsWith(StatusCode::kReadOnly, HasSubstr("LOCK")));
  const DB db = *DB::Open(path(), {.read_only = true});
  CheckContexts(db);
  Talk talk = Begin(db, NewTokens(10));
  EXPECT_THAT(db.Store(talk.session, talk.tokens), FailsWith(StatusCode::kReadOnly, _));
  EXPECT_THAT(db.Drop("a"), FailsWith(StatusCode::kReadOnly, _));
  EXPECT_THAT(DB::Open(disk_->File("new")), FailsWith(StatusCode::kReadOnly, _));
  CheckFiles(db);
  CheckContexts(db);
}

}  // namespace
}  // namespace attndb::test
