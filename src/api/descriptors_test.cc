// Goal:   a process may have more sessions than files: however many contexts are read, calls and
//         Stores go on, and the rest of the process finds descriptors left.
// Method: a limit on open files far below the number of sessions, each on a segment of its own.
#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "api/db_test_util.h"

namespace attndb {
namespace {

using test::Concat;
using test::DBFixture;
using test::IsOk;
using test::Tokens;
using test::ToyModel;

constexpr rlim_t kMaxFiles = 64;
constexpr uint64_t kSessions = 200;
constexpr uint64_t kTokens = 20;

class DescriptorsTest : public DBFixture {
 protected:
  DescriptorsTest() {
    getrlimit(RLIMIT_NOFILE, &before_);
    rlimit few = before_;
    few.rlim_cur = kMaxFiles;
    EXPECT_EQ(setrlimit(RLIMIT_NOFILE, &few), 0);
    Open();
    for (uint64_t i = 0; i < kSessions; ++i) ATTNDB_EXPECT_OK(StoreTokens(TokensOf(i)));
  }
  ~DescriptorsTest() override { setrlimit(RLIMIT_NOFILE, &before_); }

  static Tokens TokensOf(uint64_t i) { return ToyModel::Tokens(kTokens, 100 + i); }

  rlimit before_ = {};
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
    std::vector<int> others;
    for (int i = 0; i < 8; ++i) others.push_back(open("/dev/null", O_RDONLY));
    for (const int fd : others) {
      EXPECT_NE(fd, -1);
      (void)close(fd);
    }
    if (!read_only) {
      ATTNDB_EXPECT_OK(db_->Store(sessions.front(), Concat(TokensOf(0), Tokens{1})));
    }
    sessions.clear();
  }
}

}  // namespace
}  // namespace attndb
