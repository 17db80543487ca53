// Reads the replies of a stored conversation: content, reasoning and calls of tools are apart, as
// they were when the model wrote them.
//
// Errors:  those of LlamaEngine::Detokenize. A reply that can't be read is content, as the model
//          wrote it. So is a reply with a call that has no end.
// Limits:  a reply with more than kMaxOpenBrackets brackets open is content. Once a reply goes
//          beyond the reader's limits of time and memory, all replies behind it are content.
// Threads: one thread at a time.
#ifndef ATTNDB_SERVER_CHAT_STORED_REPLIES_H_
#define ATTNDB_SERVER_CHAT_STORED_REPLIES_H_

#include <optional>
#include <span>
#include <string>

#include "attndb/result.h"
#include "attndb/types.h"
#include "engines/llama/llama_engine.h"
#include "server/json.h"

namespace attndb::server {

class StoredReplies {
 public:
  // `engine` outlives this. `form`: how replies are read. `has_tools`: the form has tools, so each
  // reply may call one.
  StoredReplies(const llama::LlamaEngine* engine, llama::ReplyForm form, bool has_tools);

  // Returns the assistant's message: {"role", "content", "reasoning_content", "tool_calls"}.
  Result<Json> Read(std::span<const TokenId> tokens);

 private:
  std::optional<llama::ReadReply> ReadWhole(const std::string& text);
  std::optional<llama::ReadReply> ReadText(const std::string& text, bool is_partial);
  bool HasThoughts(const std::string& text) const;

  const llama::LlamaEngine* const engine_;
  const llama::ReplyForm form_;
  const bool has_tools_;
  bool is_spent_ = false;  // A reply went beyond the limits.
};

}  // namespace attndb::server

#endif  // ATTNDB_SERVER_CHAT_STORED_REPLIES_H_
