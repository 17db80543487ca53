// A process of the program attndb-chat, and where that program lies.
//
// Errors:  kIoError: the program can't be started; kUnsupported: there is none.
// Threads: a process is used by one thread at a time.
#ifndef ATTNDB_ENGINES_LLAMA_CHAT_CHAT_PROCESS_H_
#define ATTNDB_ENGINES_LLAMA_CHAT_CHAT_PROCESS_H_

#include <sys/types.h>

#include <memory>
#include <optional>
#include <string>

#include "attndb/result.h"
#include "engines/llama/chat/chat_limits.h"

namespace attndb::llama {

inline constexpr char kChatProgram[] = "attndb-chat";

// Path of attndb-chat: $ATTNDB_CHAT_PROGRAM, or beside the program or the library that this code is
// part of, or in the folder bin next to that. Empty: there is none.
std::string FindChatProgram();

class ChatProcess {
 public:
  // `program`: its path. Of our files it gets the socket alone. `argument`: what it is to do, if
  // not the usual; empty: none.
  static Result<std::unique_ptr<ChatProcess>> Start(const std::string& program,
                                                    std::string argument = "");

  ChatProcess(pid_t child, int socket) : child_(child), socket_(socket) {}
  ~ChatProcess() { End(); }  // Kills it.
  ChatProcess(const ChatProcess&) = delete;
  ChatProcess& operator=(const ChatProcess&) = delete;

  int socket() const { return socket_; }

  // Whether it has ended by itself, or somebody has ended it.
  bool has_ended() const;

  // Kills the process unless it has ended, and gives its status as waitpid() does; nullopt if that
  // is unknown, since somebody else waited for it.
  std::optional<int> End();

 private:
  pid_t child_;  // -1: it has ended, and was waited for.
  const int socket_;
};

// Why a process that gave no answer has ended, by its status: kResourceExhausted. `failed`: how the
// error begins. `cpu_seconds`: the CPU time that the request might take.
Status EndReason(const std::string& failed, std::optional<int> status,
                 int cpu_seconds = kChatCpuSeconds);

}  // namespace attndb::llama

#endif  // ATTNDB_ENGINES_LLAMA_CHAT_CHAT_PROCESS_H_
