// The answers of the program attndb-chat (chat_wire.h).
//
// Threads: one thread at a time.
#ifndef ATTNDB_ENGINES_LLAMA_CHAT_CHAT_ANSWERS_H_
#define ATTNDB_ENGINES_LLAMA_CHAT_CHAT_ANSWERS_H_

#include <optional>
#include <string>

#include "engines/llama/chat/chat_frames.h"
#include "engines/llama/chat/jinja_template.h"
#include "engines/llama/chat/reply_parsers.h"

namespace attndb::llama {

class ChatAnswers {
 public:
  ChatFields Answer(const ChatFields& request);

 private:
  Result<ChatFields> TryAnswer(const ChatFields& request);
  Result<ChatFields> Read(const ChatFields& request);

  std::optional<JinjaTemplate> template_;
  ReplyParsers parsers_;
};

}  // namespace attndb::llama

#endif  // ATTNDB_ENGINES_LLAMA_CHAT_CHAT_ANSWERS_H_
