// The tools of a request, in the form that chat templates get: {"type":"function","function":{
// "name", "description", "parameters"}}. Interfaces name tools and their members otherwise, and
// share what is checked.
//
// Errors:  kInvalidArgument with the place, what was expected and what was found.
// Threads: stateless.
#ifndef ATTNDB_SERVER_CHAT_TOOL_LIST_H_
#define ATTNDB_SERVER_CHAT_TOOL_LIST_H_

#include <cstddef>
#include <functional>
#include <set>
#include <string>

#include "attndb/result.h"
#include "engines/llama/llama_engine.h"
#include "server/json.h"

namespace attndb::server {

inline constexpr size_t kMaxTools = 1024;

// Ok for a text of 1 to `most_bytes` of the characters a-zA-Z0-9_-.
Status CheckToolName(const Json& name, size_t most_bytes, const std::string& place);

// The name and the description of a tool, which are its own members.
Result<Json> ReadFunctionWords(const Json& tool, const std::string& place, size_t most_name_bytes);

// Reads each tool of the list at `body`'s "tools" by `read`, which gives its "function" object, and
// gives `chat` all of them. Returns their names.
struct ToolListForm {
  std::function<std::string(size_t index)> place_of;
  std::function<Result<Json>(const Json& tool, const std::string& place)> read;
};
Result<std::set<std::string>> ReadToolList(const Json& body, const ToolListForm& form,
                                           llama::ChatOptions* chat);

// A reply has to call a tool. `named`: a choice whose "name" is the only tool that may be called;
// null: any of them.
Status RequireCall(const std::set<std::string>& names, const Json* named, llama::ChatOptions* chat);

}  // namespace attndb::server

#endif  // ATTNDB_SERVER_CHAT_TOOL_LIST_H_
