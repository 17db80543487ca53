// The messages of a request in Anthropic's form, as the messages of a chat.
//
//   text          joined with a line end where several stand side by side
//   thinking      reasoning_content of the assistant's message; redacted_thinking is dropped
//   tool_use      tool_calls of the assistant's message, inputs in the client's order
//   tool_result   a message of role tool, in the order of the blocks; "Error: " marks is_error
//
// Messages of one role that follow each other are one message: many templates take no others. Every
// other block is refused by name.
//
// Errors:  kInvalidArgument with the place: "messages.2.content.0.tool_use_id".
// Threads: stateless.
#ifndef ATTNDB_SERVER_ANTHROPIC_HISTORY_H_
#define ATTNDB_SERVER_ANTHROPIC_HISTORY_H_

#include <string>
#include <string_view>
#include <vector>

#include "attndb/result.h"
#include "engines/llama/llama_engine.h"
#include "server/anthropic/cache_marks.h"
#include "server/json.h"

namespace attndb::server {

// The ids of calls are those of the model's own, or the server's, behind this prefix. A template
// that shows ids gets them back without it.
inline constexpr std::string_view kCallIdPrefix = "toolu_";

struct History {
  std::vector<llama::ChatMessage> messages;
  // The last message is the beginning of the assistant's reply.
  bool continues_last = false;
};

// Reads "system" and "messages".
Result<History> ReadHistory(const Json& body, CacheMarks* marks);

}  // namespace attndb::server

#endif  // ATTNDB_SERVER_ANTHROPIC_HISTORY_H_
