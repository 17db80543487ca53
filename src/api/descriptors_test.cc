// Goal:   a process may have more sessions than files: however many contexts are read, calls and
//         Stores go on, and the rest of the process finds descriptors left.
// Method: a limit on open files far below the number of sessions, each on a segment of its own, and
//         on the planes of that.
#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "api/database.h"
#include "api/db_access.h"
#include "api/db_test_util.h"

namespace attndb {
namespace {

using test::Concat;
using test::DBFixture;
using test::IsOk;
using test::Tokens;
using test::ToyModel;

constexpr rlim_t kMaxFiles = 64;

// Lets the process have so few files open, for as long as it lives.
class FewFiles {
 public:
  FewFiles() {
    getrlimit(RLIMIT_NOFILE, &before_);
    rlimit few = before_;
    few.rlim_cur = kMaxFiles;
    EXPECT_EQ(setrlimit(RLIMIT_NOFILE, &few), 0);
  }
  ~FewFiles() { setrlimit(RLIMIT_NOFILE, &before_); }
  FewFiles(const FewFiles&) = delete;
  FewFiles& operator=(const FewFiles&) = delete;

 private:
  rlimit before_ = {};
};

// The rest of the process finds files that it can open.
void ExpectFilesAreLeft() {
  std::vector<int> others;
  for (int i = 0; i < 8; ++i) others.push_back(open("/dev/null", O_RDONLY));
  for (const int fd : others) {
    EXPECT_NE(fd, -1);
    (void)close(fd);
  }
}

class DescriptorsTest : public DBFixture {
 protected:
  static constexpr uint64_t kSessions = 200;
  static constexpr uint64_t kTokens = 20;

  DescriptorsTest() {
    Open();
    for (uint64_t i = 0; i < kSessions; ++i) ATTNDB_EXPECT_OK(StoreTokens(TokensOf(i)));
  }

  static Tokens TokensOf(uint64_t i) { return ToyModel::Tokens(kTokens, 100 + i); }

  const FewFiles few_files_;
};

TEST_F(DescriptorsTest, ManySessionsLeaveFilesForStoresAndForOthers) {
  for (const bool read_only : {false, true}) {
    Open({.read_only = read_only});
    std::vector<Session> sessions;
    for (uint64_t i = 0; i < kSessions; ++i) {
      SessionStart start = Start(Concat(TokensOf(i), Tokens{1}));
      ASSERT_EQ(start.session.num_reused(), kTokens);
      ATTNDB_ASSERT_OK(model_.Step(&start.session, start.rest));
      sessions.push_back(std::move(start.session));
    }
    for (uint64_t i = 0; i < kSessions; i += 50) {
      ExpectOracle(&sessions[i], Concat(TokensOf(i), Tokens{1}));
    }
    ExpectFilesAreLeft();
    if (!read_only) {
      ATTNDB_EXPECT_OK(db_->Store(sessions.front(), Concat(TokensOf(0), Tokens{1})));
    }
    sessions.clear();
  }
}

// Each session's plan reads the planes of its segment, too, which have a file of their own.
class PlaneDescriptorsTest : public DBFixture {
 protected:
  static constexpr uint64_t kSessions = 80;
  static constexpr uint64_t kTokens = 300;  // Enough for planes.
  static constexpr const char* kPlan = "topk(k=30,bits=8,sink=4,window=16)";

  PlaneDescriptorsTest() : DBFixture(/*background_builds=*/true) {
    Open();
    for (uint64_t i = 0; i < kSessions; ++i) {
      const test::KvArrays kv(model_, TokensOf(i));
      ATTNDB_EXPECT_OK(db_->Import(model_.spec(), TokensOf(i), kv.layers()));
    }
    ATTNDB_EXPECT_OK(db_->WaitForBackground());
  }

  static Tokens TokensOf(uint64_t i) { return ToyModel::Tokens(kTokens, 100 + i); }
  Session SessionOn(uint64_t i) {
    SessionStart start = Start(Concat(TokensOf(i), Tokens{1}), {.plan = kPlan});
    EXPECT_EQ(start.session.num_reused(), kTokens);
    ATTNDB_EXPECT_OK(model_.Step(&start.session, start.rest));
    return std::move(start.session);
  }
  std::vector<float> ProbeAlone(uint64_t i) {
    Session session = SessionOn(i);
    return Probe(&session);
  }
  derived::Cache::Counters PlaneCounters() const {
    const internal::Database& database = *internal::DbAccess::database(*db_);
    return database.store().objects().counters(database.kinds().ForUse(derived::kKeyPlanes));
  }

  const FewFiles few_files_;
};

TEST_F(PlaneDescriptorsTest, ManySessionsThatReadPlanesLeaveFilesForStoresAndForOthers) {
  EXPECT_EQ(db_->Stats()->num_companions, kSessions);
  for (const bool read_only : {false, true}) {
    Open({.read_only = read_only});
    const std::vector<float> expected = ProbeAlone(7);
    Open({.read_only = read_only});
    std::vector<Session> sessions;
    for (uint64_t i = 0; i < kSessions; ++i) {
      sessions.push_back(SessionOn(i));
      ASSERT_EQ(sessions.back().Explain(1)->notes, "") << "no key planes: session " << i;
    }
    EXPECT_EQ(PlaneCounters().num_read, kSessions * model_.spec().num_layers());
    EXPECT_EQ(PlaneCounters().num_built, 0u);
    EXPECT_EQ(Probe(&sessions[7]), expected);
    ExpectFilesAreLeft();
    if (!read_only) {
      ATTNDB_EXPECT_OK(db_->Store(sessions.front(), Concat(TokensOf(0), Tokens{1})));
    }
  }
}

}  // namespace
}  // namespace attndb
