// A chat's messages as JSON.
//
// Errors:  kInvalidArgument: ChatMessage::more is no JSON object.
// Threads: stateless.
#ifndef ATTNDB_ENGINES_LLAMA_CHAT_JSON_H_
#define ATTNDB_ENGINES_LLAMA_CHAT_JSON_H_

#include <span>
#include <string>

#include "attndb/result.h"
#include "engines/llama/chat_prompt.h"

namespace attndb::llama {

// An array of messages in the form of OpenAI's Chat Completions.
Result<std::string> MessagesJson(std::span<const ChatMessage> messages);

}  // namespace attndb::llama

#endif  // ATTNDB_ENGINES_LLAMA_CHAT_JSON_H_
