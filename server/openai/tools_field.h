// The fields of a chat that say which tools the model may call: "tools", "tool_choice" and
// "parallel_tool_calls".
//
// Errors:  kInvalidArgument with the field, what was expected and what was found.
// Threads: stateless.
#ifndef ATTNDB_SERVER_OPENAI_TOOLS_FIELD_H_
#define ATTNDB_SERVER_OPENAI_TOOLS_FIELD_H_

#include <cstddef>

#include "attndb/status.h"
#include "engines/llama/chat_prompt.h"
#include "server/chat/tool_list.h"
#include "server/json.h"

namespace attndb::server {

inline constexpr size_t kMaxToolNameBytes = 64;
inline constexpr size_t kMaxSchemaMembers = 1024;  // In each object of a schema, or of a call.

// Tools keep the client's order, and their members theirs.
Status ReadTools(const Json& body, llama::ChatOptions* chat);

}  // namespace attndb::server

#endif  // ATTNDB_SERVER_OPENAI_TOOLS_FIELD_H_
