// Goal:   a reader beside the writer sees a state that the store really had, whole and right, while
//         the writer stores, merges, drops and closes.
// Method: a chat that is stored after each turn, so that its segments are merged and their files
//         removed, and that is dropped now and then. A read-only DB opens it by name over and over
//         and asks some looks later, when much of what it opened is gone; the writer is a thread
//         of this process or a process of its own. Outputs against float64 attention.
// Replay: ATTNDB_SEED=17 ctest -R integration_test
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdio>
#include <deque>
#include <functional>
#include <future>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "attndb/db.h"
#include "common/check.h"
#include "common/random.h"
#include "testing/matchers.h"
#include "testing/seed.h"
#include "testing/temp_dir.h"
#include "testing/toy_model.h"
#include "testing/toy_oracle.h"

namespace attndb::test {
namespace {

using ::testing::IsEmpty;
using Tokens = std::vector<TokenId>;

constexpr const char* kName = "chat";
constexpr TokenId kNext = 77;
constexpr double kTolerance = 1e-4;

// The writer's side of a chat.
class Chat {
 public:
  Chat(const std::string& path, uint64_t seed) : path_(path), random_(seed) {}

  Status Open() {
    ATTNDB_ASSIGN_OR_RETURN(DB db, DB::Open(path_));
    db_.emplace(std::move(db));
    return Status::Ok();
  }
  void Close() {
    session_.reset();
    db_.reset();
  }
  // 10 to 20 tokens more, on the session of the turn before or on a new one.
  Status Turn();
  // Goes on with the session as if nothing was, or begins again.
  Status Drop();
  // Checks that the store is good, as the writer sees it.
  Status Verify() const;
  // Turns in a row, one in `drop_every` (0 = none) after a drop.
  Status Run(int num_turns, uint64_t drop_every);

  size_t num_tokens() const { return tokens_.size(); }

 private:
  const std::string path_;
  const ToyModel model_;
  Random random_;
  std::optional<DB> db_;
  std::optional<Session> session_;
  Tokens tokens_;
};

Status Chat::Turn() {
  for (uint64_t n = 10 + random_.Uniform(11); n > 0; --n) {
    tokens_.push_back(static_cast<TokenId>(random_.Uniform(1000)));
  }
  if (!session_ || random_.Uniform(2) == 0) {
    ATTNDB_ASSIGN_OR_RETURN(SessionStart start, db_->CreateSession(model_.spec(), tokens_));
    session_.emplace(std::move(start.session));
  }
  const std::span<const TokenId> all(tokens_);
  ATTNDB_RETURN_IF_ERROR(model_.Step(&*session_, all.subspan(session_->num_tokens())));
  return db_->Store(*session_, tokens_, {.name = kName, .replace = true}).status();
}

Status Chat::Drop() {
  ATTNDB_RETURN_IF_ERROR(db_->Drop(kName));
  if (random_.Uniform(3) != 0) {
    session_.reset();
    tokens_.clear();
  }
  return Status::Ok();
}

Status Chat::Verify() const {
  ATTNDB_ASSIGN_OR_RETURN(const VerifyReport report, db_->Verify());
  return report.ok() ? Status::Ok() : Status::Corruption(report.damages.front().message);
}

Status Chat::Run(int num_turns, uint64_t drop_every) {
  for (int i = 0; i < num_turns; ++i) {
    if (i > 0 && drop_every > 0 && random_.Uniform(drop_every) == 0) {
      ATTNDB_RETURN_IF_ERROR(Drop());
    }
    ATTNDB_RETURN_IF_ERROR(Turn());
  }
  return Verify();
}

// The reader's side. Collects what it should not have met.
class Reader {
 public:
  Reader(const std::string& path, bool may_be_dropped)
      : db_(*DB::Open(path, {.read_only = true})), may_be_dropped_(may_be_dropped) {}

  // Opens the chat as it is now, and asks what was opened a few looks ago.
  void Look();
  // Asks all that is open yet.
  void Finish();
  void Verify();
  // In words, as the writer says it.
  std::string NumTokens() const;

  const std::vector<std::string>& errors() const { return errors_; }
  uint64_t num_answers() const { return num_answers_; }
  uint64_t num_absences() const { return num_absences_; }

 private:
  struct Opened {
    SessionStart start;
    Tokens prompt;
  };
  // Whether there is something to go on with.
  bool Check(const char* call, const Status& status);
  void Ask(Opened* opened);

  const ToyModel model_;
  const DB db_;
  const bool may_be_dropped_;
  std::deque<Opened> opened_;
  uint64_t num_answers_ = 0;
  uint64_t num_absences_ = 0;
  std::vector<std::string> errors_;
};

bool Reader::Check(const char* call, const Status& status) {
  if (status.ok()) return true;
  if (may_be_dropped_ && status.code() == StatusCode::kNotFound) {
    ++num_absences_;
  } else {
    errors_.push_back(std::string(call) + ": " + status.ToString());
  }
  return false;
}

void Reader::Look() {
  constexpr size_t kMaxOpened = 4;
  Result<Tokens> tokens = db_.Tokens(kName);
  if (!Check("tokens", tokens.status())) return;
  Tokens prompt = *std::move(tokens);
  prompt.push_back(kNext);
  Result<SessionStart> start = db_.CreateSession(model_.spec(), prompt, {.context = kName});
  if (!Check("session", start.status())) return;
  // A chat only grows; what was dropped in between may have become another.
  if (start->rest.size() != 1 && !may_be_dropped_) {
    errors_.push_back(std::to_string(start->rest.size()) + " tokens of " +
                      std::to_string(prompt.size()) + " are not reused");
  }
  opened_.push_back({*std::move(start), std::move(prompt)});
  if (opened_.size() < kMaxOpened) return;
  Ask(&opened_.front());
  opened_.pop_front();
}

void Reader::Finish() {
  for (Opened& opened : opened_) Ask(&opened);
  opened_.clear();
}

void Reader::Ask(Opened* opened) {
  const std::span<const TokenId> rest(opened->start.rest);
  Session* const session = &opened->start.session;
  Status status;
  if (rest.size() > 1) status = model_.Step(session, rest.first(rest.size() - 1));
  std::vector<float> out;
  if (status.ok()) status = model_.Step(session, rest.last(1), &out);
  if (!status.ok()) {
    errors_.push_back("step: " + status.ToString());
    return;
  }
  ++num_answers_;
  const Tokens& prompt = opened->prompt;
  const double error = OutputError(model_, out, OracleStep(model_, prompt, prompt.size() - 1));
  if (error > kTolerance) {
    errors_.push_back("an answer after " + std::to_string(prompt.size()) + " tokens is " +
                      std::to_string(error) + " off");
  }
}

void Reader::Verify() {
  const Result<VerifyReport> report = db_.Verify();
  if (!report.ok()) {
    errors_.push_back("verify: " + report.status().ToString());
    return;
  }
  for (const Damage& damage : report->damages) errors_.push_back("verify: " + damage.message);
}

std::string Reader::NumTokens() const {
  const Result<Tokens> tokens = db_.Tokens(kName);
  return tokens.ok() ? std::to_string(tokens->size()) : tokens.status().ToString();
}

// A process of its own that does what it is told, one command after another.
class OtherProcess {
 public:
  // REQUIRES: this process has no store open and no other thread.
  explicit OtherProcess(const std::function<std::string(char)>& serve) {
    std::array<int, 2> ends;
    ATTNDB_CHECK(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()) == 0);
    pid_ = ::fork();
    ATTNDB_CHECK(pid_ >= 0);
    socket_ = ends[pid_ == 0 ? 1 : 0];
    (void)::close(ends[pid_ == 0 ? 0 : 1]);
    if (pid_ != 0) return;
    char command = 0;
    while (::recv(socket_, &command, 1, 0) == 1) {
      const std::string answer = serve(command);
      if (::send(socket_, answer.data(), answer.size(), MSG_NOSIGNAL) < 0) break;
    }
    ::_exit(0);
  }
  ~OtherProcess() {
    (void)::close(socket_);
    (void)::waitpid(pid_, nullptr, 0);
  }
  OtherProcess(const OtherProcess&) = delete;
  OtherProcess& operator=(const OtherProcess&) = delete;

  // The answer; "died" if there is none.
  std::string Do(char command) {
    std::array<char, 4096> answer;
    if (::send(socket_, &command, 1, MSG_NOSIGNAL) != 1) return "died";
    const ssize_t size = ::recv(socket_, answer.data(), answer.size(), 0);
    return size <= 0 ? "died" : std::string(answer.data(), static_cast<size_t>(size));
  }

 private:
  pid_t pid_ = -1;
  int socket_ = -1;
};

enum Command : char { kOpen = 'o', kTurn = 't', kRun = 'r', kRunWithDrops = 'd', kClose = 'c' };
constexpr int kNumTurns = 150;
constexpr uint64_t kDropEvery = 20;

// The writer's work on a command: returns the number of the chat's tokens, or the error.
std::string Serve(Chat* chat, char command) {
  Status status;
  switch (command) {
    case kOpen:
      status = chat->Open();
      break;
    case kTurn:
      status = chat->Turn();
      break;
    case kRun:
      status = chat->Run(kNumTurns, 0);
      break;
    case kRunWithDrops:
      status = chat->Run(kNumTurns, kDropEvery);
      break;
    default:
      chat->Close();
  }
  return status.ok() ? std::to_string(chat->num_tokens()) : status.ToString();
}

// The parameter: whether the writer is a process of its own.
class ReaderTest : public ::testing::TestWithParam<bool> {
 protected:
  ReaderTest() : chat_(path(), SeedOr(1)) {
    if (GetParam()) process_.emplace([this](char command) { return Serve(&chat_, command); });
  }
  std::string Write(char command) {
    return process_ ? process_->Do(command) : Serve(&chat_, command);
  }
  std::string path() const { return dir_.File("store"); }
  // Reads as long as `run`, a command, takes.
  void ReadBeside(char run, Reader* reader);

 private:
  const TempDir dir_ = TempDir::InMemory();
  Chat chat_;
  std::optional<OtherProcess> process_;
};

INSTANTIATE_TEST_SUITE_P(Writers, ReaderTest, ::testing::Bool(),
                         [](const ::testing::TestParamInfo<bool>& writer) {
                           return writer.param ? "Process" : "Thread";
                         });

void ReaderTest::ReadBeside(char run, Reader* reader) {
  constexpr int kVerifyEvery = 16;
  std::future<std::string> writer =
      std::async(std::launch::async, [this, run] { return Write(run); });
  for (int i = 1; writer.wait_for(std::chrono::seconds(0)) != std::future_status::ready; ++i) {
    reader->Look();
    if (i % kVerifyEvery == 0) reader->Verify();
  }
  EXPECT_EQ(reader->NumTokens(), writer.get());
  reader->Look();
  reader->Finish();
  reader->Verify();
  EXPECT_THAT(reader->errors(), IsEmpty());
  EXPECT_GT(reader->num_answers(), 1u);
  std::printf("%llu answers, %llu times no chat\n",
              static_cast<unsigned long long>(reader->num_answers()),
              static_cast<unsigned long long>(reader->num_absences()));
}

TEST_P(ReaderTest, AnswersWhileTheChatGrows) {
  ASSERT_EQ(Write(kOpen), "0");
  const std::string begun = Write(kTurn);
  Reader reader(path(), /*may_be_dropped=*/false);
  EXPECT_EQ(reader.NumTokens(), begun);
  ReadBeside(kRun, &reader);
}

TEST_P(ReaderTest, AnswersWhileTheChatIsDroppedAtTimes) {
  ASSERT_EQ(Write(kOpen), "0");
  Reader reader(path(), /*may_be_dropped=*/true);
  ReadBeside(kRunWithDrops, &reader);
}

// Closing any descriptor of a file gives up all of this process's POSIX locks on it, also those
// that SQLite holds: the writer then takes itself for the last, and removes the log that the
// reader goes on to read.
TEST_P(ReaderTest, KeepsItsLocksThroughAVerify) {
  ASSERT_EQ(Write(kOpen), "0");
  const std::string begun = Write(kTurn);
  Reader reader(path(), /*may_be_dropped=*/false);
  EXPECT_EQ(reader.NumTokens(), begun);
  for (int round = 0; round < 5; ++round) {
    reader.Look();
    reader.Verify();
    const std::string closed = Write(kClose);
    EXPECT_EQ(reader.NumTokens(), closed);
    reader.Look();
    EXPECT_EQ(Write(kOpen), closed);
    for (int turn = 0; turn < 4; ++turn) {
      const std::string found = Write(kTurn);
      EXPECT_EQ(reader.NumTokens(), found);
      reader.Look();
    }
  }
  reader.Finish();
  reader.Verify();
  EXPECT_THAT(reader.errors(), IsEmpty());
}

}  // namespace
}  // namespace attndb::test
