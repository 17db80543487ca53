// The messages of a chat, in the form of OpenAI's Chat Completions.
//
//   system, developer, user   content: a text, or parts that are texts
//   assistant                 content (null beside calls), reasoning_content, tool_calls
//   tool                      the result of a call before it, by its tool_call_id
//
// Errors:  kInvalidArgument with the place, what was expected and what was found.
// Threads: stateless.
#ifndef ATTNDB_SERVER_OPENAI_CHAT_MESSAGES_H_
#define ATTNDB_SERVER_OPENAI_CHAT_MESSAGES_H_

#include <cstddef>
#include <vector>

#include "attndb/result.h"
#include "engines/llama/chat_prompt.h"
#include "server/json.h"

namespace attndb::server {

inline constexpr size_t kMaxMessages = 16384;
inline constexpr size_t kMaxCalls = 1024;  // In one message.

// The members of ChatMessage::more.
inline constexpr const char* kToolCalls = "tool_calls";
inline constexpr const char* kToolCallId = "tool_call_id";
inline constexpr const char* kReasoning = "reasoning_content";

// Reads the field "messages". Texts of parts are joined by line ends, as llama.cpp's server joins
// them.
Result<std::vector<llama::ChatMessage>> ReadMessages(const Json& body);

// Whether the message calls tools.
bool CallsTools(const llama::ChatMessage& message);

}  // namespace attndb::server

#endif  // ATTNDB_SERVER_OPENAI_CHAT_MESSAGES_H_
