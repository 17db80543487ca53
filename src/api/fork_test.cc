// Goal:   a fork of a process that has a store open, as servers make them, neither hangs, nor keeps
//         the store locked, nor touches it: its calls are refused, and it can open stores of its
//         own.
// Method: forked children report their findings by their exit code, with a time limit for hanging
//         ones, while a store of the parent has background work.
#include <sys/wait.h>
#include <unistd.h>

#include "api/db_test_util.h"

namespace attndb {
namespace {

using test::DBFixture;
using test::FailsWith;
using test::IsOk;
using test::Tokens;
using test::ToyModel;
using ::testing::HasSubstr;

class ForkTest : public DBFixture {
 protected:
  static constexpr unsigned kSecondsMax = 120;

  ForkTest() : DBFixture(/*background_builds=*/true) {
    ATTNDB_EXPECT_OK(StoreTokens(tokens_, {.name = "a"}));  // Its planes are built meanwhile.
    session_.emplace(Resume(tokens_));
  }

  // Runs `sees` in a fork. Its exit code: 0 if it gave true, 1 if not, -1 if it hung or crashed.
  template <typename F>
  static int InFork(const F& sees) {
    const pid_t pid = fork();
    if (pid == 0) {
      alarm(kSecondsMax);
      _exit(sees() ? 0 : 1);
    }
    int status = 0;
    EXPECT_EQ(waitpid(pid, &status, 0), pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }
  static bool IsRefused(const Status& status) {
    return status.code() == StatusCode::kFailedPrecondition &&
           status.message().find("forked off") != std::string::npos;
  }
  void ExpectParentGoesOn() {
    ExpectAnswers(test::Concat(tokens_, Tokens{1, 2, 3}), tokens_.size());
    ATTNDB_EXPECT_OK(StoreTokens(ToyModel::Tokens(100, 5), {.name = "b", .replace = true}));
    EXPECT_TRUE(db_->Verify()->ok());
  }

  const Tokens tokens_ = ToyModel::Tokens(5000, 1);
  std::optional<Session> session_;
};

TEST_F(ForkTest, AForkLetsGoOfStoreAndSessionWithoutHanging) {
  EXPECT_EQ(InFork([&] {
              session_.reset();
              db_.reset();
              return true;
            }),
            0);
  ExpectParentGoesOn();
}

TEST_F(ForkTest, AForkDoesNotKeepTheStoreLocked) {
  int end_fork[2];
  int begun[2];
  ASSERT_EQ(pipe(end_fork), 0);
  ASSERT_EQ(pipe(begun), 0);
  const pid_t pid = fork();
  if (pid == 0) {  // Lives on while its parent closes the store and opens it again.
    char end = 0;
    alarm(kSecondsMax);
    (void)close(end_fork[1]);
    _exit(write(begun[1], &end, 1) == 1 && read(end_fork[0], &end, 1) == 0 ? 0 : 1);
  }
  char runs = 0;
  EXPECT_EQ(read(begun[0], &runs, 1), 1) << "until it runs, it has all that its parent had";
  (void)close(begun[0]);
  (void)close(begun[1]);
  session_.reset();
  db_.reset();
  EXPECT_THAT(DB::Open(store(), {.background_builds = false}), IsOk());
  (void)close(end_fork[0]);
  (void)close(end_fork[1]);
  int status = 0;
  EXPECT_EQ(waitpid(pid, &status, 0), pid);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  Open();
  ExpectParentGoesOn();
}

TEST_F(ForkTest, CallsInAForkAreRefused) {
  ATTNDB_ASSERT_OK_AND_ASSIGN(
      const PendingStore pending,
      db_->StoreAsync(*session_, test::Concat(tokens_, ToyModel::Tokens(20, 9))));
  EXPECT_EQ(InFork([&] {
              const Tokens prompt = {1, 2, 3};
              std::vector<float> out;
              session_->Reset();
              return IsRefused(db_->List().status()) && IsRefused(db_->Stats().status()) &&
                     IsRefused(db_->Drop("a")) && IsRefused(db_->WaitForBackground()) &&
                     IsRefused(db_->CreateSession(model_.spec(), prompt).status()) &&
                     IsRefused(db_->Store(*session_, tokens_).status()) &&
                     IsRefused(session_->Crop(0)) && IsRefused(session_->Fork().status()) &&
                     IsRefused(model_.Probe(&*session_, 7, &out)) &&
                     (pending.done() || IsRefused(pending.Wait().status())) &&
                     session_->num_tokens() == tokens_.size() + 20;
            }),
            0);
  EXPECT_THAT(pending.Wait(), IsOk());
  ExpectParentGoesOn();
}

TEST_F(ForkTest, AForkOpensOtherStoresAndIsToldWhyNotThisOne) {
  // ThreadSanitizer ends a fork whose new thread has the address of one of its parent's.
#if defined(__SANITIZE_THREAD__)
  constexpr uint32_t kThreads = 1;
#else
  constexpr uint32_t kThreads = 0;
#endif
  const DBOptions writer = {.num_threads = kThreads, .background_builds = false};
  const DBOptions reader = {.read_only = true, .num_threads = kThreads};
  EXPECT_EQ(InFork([&] {
              const Result<DB> other = DB::Open(dir_.File("other"), writer);
              const Status same = DB::Open(store(), reader).status();
              return other.ok() && other->List().ok() && IsRefused(same) &&
                     DB::Open(store(), writer).status().code() == StatusCode::kBusy;
            }),
            0);
  ExpectParentGoesOn();
  session_.reset();
  db_.reset();
  EXPECT_EQ(InFork([&] {  // Nothing was open at the fork.
              const Result<DB> opened = DB::Open(store(), writer);
              return opened.ok() && opened->Describe("a").ok();
            }),
            0);
  Open();
  ExpectParentGoesOn();
}

}  // namespace
}  // namespace attndb
