// Renders chats with a model's own template, in the program attndb-chat, which lies beside this
// one.
//
// The program is a process of its own with limits (chat_limits.h), because a template may loop for
// ever, fill the memory, or end the process. It is started at the first request, answers one
// request at a time, and is replaced when it has died.
//
// Errors:  kUnsupported: there is no such program, since attndb was built on a llama.cpp without
//          `common`; kInvalidArgument: the template or the chat, in llama.cpp's words;
//          kResourceExhausted: a limit was reached; kIoError: the program can't be started.
// Threads: thread-safe; requests wait for each other.
#ifndef ATTNDB_ENGINES_LLAMA_CHAT_CHAT_RENDERER_H_
#define ATTNDB_ENGINES_LLAMA_CHAT_CHAT_RENDERER_H_

#include <sys/types.h>

#include <memory>
#include <mutex>
#include <string>

#include "attndb/result.h"
#include "engines/llama/chat/chat_frames.h"
#include "engines/llama/chat/chat_input.h"

namespace attndb::llama {

inline constexpr char kChatProgram[] = "attndb-chat";

// Path of attndb-chat: $ATTNDB_CHAT_PROGRAM, or beside the program or the library that this code is
// part of, or in the folder bin next to that. Empty: there is none.
std::string FindChatProgram();

class ChatRenderer {
 public:
  // `program`: the path of attndb-chat.
  ChatRenderer(std::string program, TemplateText text);
  ~ChatRenderer();
  ChatRenderer(const ChatRenderer&) = delete;
  ChatRenderer& operator=(const ChatRenderer&) = delete;

  // Sees that the template can be parsed.
  Status Check();
  Result<std::string> Render(const ChatInput& input);

 private:
  class Process;

  // A process that has parsed the template.
  Result<Process*> Ready();
  // Sends a request. If it gets no answer, says what became of the process.
  Result<ChatFields> Ask(Process* process, const ChatFields& request);

  const std::string program_;
  const TemplateText text_;
  std::mutex mutex_;
  std::unique_ptr<Process> process_;  // Null: none was started yet, or the last one died.
};

}  // namespace attndb::llama

#endif  // ATTNDB_ENGINES_LLAMA_CHAT_CHAT_RENDERER_H_
