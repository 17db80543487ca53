// The items of OpenAI's Responses, as the messages of a chat.
//
//   message               of a user, system, developer or assistant; texts side by side are joined
//                         with a line end
//   reasoning             reasoning_content of the assistant's message; summaries are not read
//   function_call         tool_calls of the assistant's message
//   function_call_output  a message of role tool
//
// Items of the assistant that follow each other are one message. Every other item is refused by
// name.
//
// Errors:  kInvalidArgument with the place: "input[2].call_id".
// Threads: stateless.
#ifndef ATTNDB_SERVER_RESPONSES_ITEMS_H_
#define ATTNDB_SERVER_RESPONSES_ITEMS_H_

#include <string>
#include <vector>

#include "attndb/result.h"
#include "engines/llama/llama_engine.h"
#include "server/json.h"

namespace attndb::server {

using ChatMessages = std::vector<llama::ChatMessage>;

// Reads items behind the messages of a conversation, whose calls they may answer.
Result<ChatMessages> ReadItems(const Json& items, const std::string& place,
                               const ChatMessages& before);

// Messages as JSON, in the form of OpenAI's Chat Completions, and back.
Json JsonOfMessages(const ChatMessages& messages);
// Errors: kCorruption: it is nothing that JsonOfMessages gives.
Result<ChatMessages> MessagesOf(const Json& json);

}  // namespace attndb::server

#endif  // ATTNDB_SERVER_RESPONSES_ITEMS_H_
