// A reply's grammar, kept by a process of its own (grammar_program.h): which token may come next.
//
//   job.Ask(token);                           // The one that would come.
//   verdict = job.Take(wait_ms);              // Once it is there.
//   if (verdict->is_allowed) ...              // That one came.
//   else job.Accept(one that the verdict allows);
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
#include <string_view>

#include "attndb/result.h"
#include "attndb/types.h"
#include "engines/llama/chat/chat_frames.h"

namespace attndb::llama {

// The tokens that may come instead of one that may not.
class GrammarVerdict {
 public:
  // Without a mask: the token may come.
  explicit GrammarVerdict(std::optional<std::string> mask = std::nullopt)
      : is_allowed(!mask), mask_(mask.value_or("")) {}

  bool Allows(TokenId token) const {
    const auto at = static_cast<size_t>(token);
    return at / 8 < mask_.size() && (static_cast<unsigned char>(mask_[at / 8]) >> at % 8 & 1) != 0;
  }

  bool is_allowed;

 private:
  std::string mask_;  // A bit for each token of the vocabulary.
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
  // This token came instead of the one that was asked for. REQUIRES: the last answer allows it.
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
  std::optional<TokenId> came_;  // The token behind the last accepted one: the next request has it.
  bool is_started_ = false;      // The grammar is compiled.
  std::optional<std::optional<std::string>> answer_;  // For a GrammarVerdict.
  Clock::time_point deadline_;                        // When unanswered requests are given up.
  Status failed_;
};

}  // namespace attndb::llama

#endif  // ATTNDB_ENGINES_LLAMA_CHAT_GRAMMAR_JOB_H_
