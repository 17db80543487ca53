// "tools" and "tool_choice" in Anthropic's form, as a chat's template and grammar take them.
//
// Tools of the client's own alone: Anthropic runs others, or its models know them by type. These
// are refused by name.
//
// Errors:  kInvalidArgument with the place: "tools.3.input_schema".
// Threads: stateless.
#ifndef ATTNDB_SERVER_ANTHROPIC_TOOL_FIELDS_H_
#define ATTNDB_SERVER_ANTHROPIC_TOOL_FIELDS_H_

#include "attndb/status.h"
#include "engines/llama/llama_engine.h"
#include "server/anthropic/cache_marks.h"
#include "server/json.h"

namespace attndb::server {

Status ReadToolFields(const Json& body, CacheMarks* marks, llama::ChatOptions* chat);

}  // namespace attndb::server

#endif  // ATTNDB_SERVER_ANTHROPIC_TOOL_FIELDS_H_
