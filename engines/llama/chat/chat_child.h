// A program attndb-chat that answers requests. It is started at the first request, and replaced
// when it has ended: a limit was reached, or somebody killed it.
//
// Errors:  kUnsupported: there is no such program, since attndb was built on a llama.cpp without
//          `common`; kInvalidArgument: the request failed, in llama.cpp's words;
//          kResourceExhausted: a limit was reached (chat_limits.h); kIoError: the program can't be
//          started.
// Threads: thread-safe; requests wait for each other.
#ifndef ATTNDB_ENGINES_LLAMA_CHAT_CHAT_CHILD_H_
#define ATTNDB_ENGINES_LLAMA_CHAT_CHAT_CHILD_H_

#include <memory>
#include <mutex>
#include <string>

#include "attndb/result.h"
#include "engines/llama/chat/chat_frames.h"
#include "engines/llama/chat/chat_process.h"

namespace attndb::llama {

class ChatChild {
 public:
  // `program`: the path of attndb-chat. `greeting`: the request that each process gets first;
  // empty: none. `failed`: how an error begins that says why there is no answer.
  ChatChild(std::string program, ChatFields greeting, std::string failed);

  // Sees that the program can be started, and that it takes the greeting.
  Status Check();
  Result<ChatFields> Ask(const ChatFields& request);

 private:
  // Sees that process_ is there and took the greeting.
  Status Ready();
  Result<ChatFields> AskProcess(const ChatFields& request);

  const std::string program_;
  const ChatFields greeting_;
  const std::string failed_;
  std::mutex mutex_;
  std::unique_ptr<ChatProcess> process_;  // Null: none was started yet, or the last one died.
};

}  // namespace attndb::llama

#endif  // ATTNDB_ENGINES_LLAMA_CHAT_CHAT_CHILD_H_
