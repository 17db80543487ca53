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
#include <optional>
#include <string>
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

// A call of a tool, with the members that templates know, in their order. An empty id is left out.
Json ToolCallJson(const std::string& id, const std::string& name, const std::string& arguments);

// An assistant's message that grows while a client's history, or a reply, is read.
struct AssistantDraft {
  std::optional<std::string> text = {};
  std::optional<std::string> reasoning = {};
  Json calls = Json::array();  // Those of ToolCallJson.

  // Adds a text on a line of its own.
  static void AddLine(const std::string& line, std::optional<std::string>* text);
  llama::ChatMessage ToMessage() &&;
};

// Whether the message calls tools.
bool CallsTools(const llama::ChatMessage& message);

}  // namespace attndb::server

#endif  // ATTNDB_SERVER_OPENAI_CHAT_MESSAGES_H_
