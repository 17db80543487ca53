// A reply's grammar, kept by a process of its own (grammar_program.h): which token may come next.
//
//   job.Ask(token);                           // The one that would come.
//   verdict = job.Take(wait_ms);              // Once it is there.
//   if (verdict->is_allowed) ...              // That one came.
//   else job.Accept(one that the verdict allows);
//   job.Accept(token);                        // One that comes unasked: the next Ask tells it.
//
// Errors:  kInvalidArgument: the grammar can't be compiled, in llama.cpp's words and with the
//          place, or does not take the text before the reply; kResourceExhausted: a limit of
//          chat_limits.h was reached, or somebody ended the process; kIoError: there is no process.
//          An error stays: the job has ended.
// Threads: one thread at a time.
#ifndef ATTNDB_ENGINES_LLAMA_CHAT_GRAMMAR_JOB_H_
#define ATTNDB_ENGINES_LLAMA_CHAT_GRAMMAR_JOB_H_

#include <poll.h>

#include <chrono>
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "attndb/result.h"
#include "attndb/types.h"
#include "engines/llama/chat/chat_frames.h"
#include "engines/llama/chat/token_mask.h"

namespace attndb::llama {

struct GrammarVerdict {
  bool Allows(TokenId token) const { return IsInMask(token, mask); }

  bool is_allowed = true;  // Whether the token may come.
  bool in_force = true;    // False: a lazy grammar waits for its trigger.
  std::string mask;        // If the token may not come: those that may instead (token_mask.h).
};

class GrammarJob {
 public:
  // Takes the socket that the process answers on, and asks for `grammar`, the first request.
  GrammarJob(int socket, const ChatFields& grammar);
  // Ends the process.
  ~GrammarJob();
  GrammarJob(const GrammarJob&) = delete;
  GrammarJob& operator=(const GrammarJob&) = delete;

  // Waits until the grammar is compiled.
  Status AwaitStart();

  // Asks whether `token` may come behind those that have come. Does not wait.
  // REQUIRES: the answer to the last Ask was taken; if that token may not come, Accept was called.
  void Ask(TokenId token);
  // The answer to Ask; nullopt: it is not there after `wait_ms`; 0: does not wait.
  Result<std::optional<GrammarVerdict>> Take(int wait_ms);
  // This token came: instead of the one that was asked for, or unasked behind the last one.
  // REQUIRES: the answer to the last Ask was taken; if it forbade its token, it allows this one.
  void Accept(TokenId token);

  // Ready, for poll(), when Take has something to do.
  pollfd awaited() const;

 private:
  using Clock = std::chrono::steady_clock;

  void Send(const ChatFields& request);
  // Sends and takes what goes without waiting.
  void Move();
  void SendSome();
  void ReceiveSome();
  void TakeFrame(const ChatFields& frame);
  // Moves until `is_done`, or `wait_ms` are over.
  template <typename IsDone>
  void MoveUntil(IsDone is_done, int wait_ms);
  void Fail(Status status);

  const int socket_;
  std::string unsent_;
  std::string received_;    // Less than a frame.
  bool is_closed_ = false;  // Nothing comes behind received_.
  std::optional<TokenId> asked_;
  std::vector<TokenId> came_;  // The process has not heard of these. The next request has them.
  bool is_started_ = false;    // The grammar is compiled.
  std::optional<GrammarVerdict> answer_;
  Clock::time_point deadline_;  // When unanswered requests are given up.
  Status failed_;
};

}  // namespace attndb::llama

#endif  // ATTNDB_ENGINES_LLAMA_CHAT_GRAMMAR_JOB_H_
