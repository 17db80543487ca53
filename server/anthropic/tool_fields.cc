#include "server/anthropic/tool_fields.h"

#include <algorithm>
#include <cctype>
#include <set>
#include <string>
#include <utility>

#include "server/fields.h"

namespace attndb::server {
namespace {

constexpr size_t kMaxTools = 1024;
constexpr size_t kMaxNameBytes = 128;

bool IsToolName(const std::string& name) {
  return !name.empty() && name.size() <= kMaxNameBytes && std::ranges::all_of(name, [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '-';
  });
}

// One of the client's own tools, in the form of OpenAI's interface.
Result<Json> ReadTool(const Json& tool, const std::string& place, CacheMarks* marks) {
  ATTNDB_RETURN_IF_ERROR(CheckObject(tool, place));
  const Json* const type = FindMember(tool, "type");
  if (type != nullptr && *type != "custom") {
    return RefusedAt(place, "tools of type " + Shown(*type) + " are not supported");
  }
  ATTNDB_ASSIGN_OR_RETURN(const std::string name, NeededText(tool, place, "name"));
  if (!IsToolName(name)) {
    return WrongValue(PlaceOf(place, "name"),
                      "1 to " + std::to_string(kMaxNameBytes) + " of the characters a-zA-Z0-9_-",
                      name);
  }
  Json function = {{"name", name}};
  if (FindMember(tool, "description") != nullptr) {
    ATTNDB_ASSIGN_OR_RETURN(function["description"], NeededText(tool, place, "description"));
  }
  const Json* const schema = FindMember(tool, "input_schema");
  if (schema == nullptr || !schema->is_object()) {
    return WrongValue(PlaceOf(place, "input_schema"), "a JSON schema",
                      schema == nullptr ? Json() : *schema);
  }
  function["parameters"] = *schema;
  ATTNDB_RETURN_IF_ERROR(marks->Take(tool, place));
  return Json{{"type", "function"}, {"function", std::move(function)}};
}

Result<std::set<std::string>> ReadTools(const Json& body, CacheMarks* marks,
                                        llama::ChatOptions* chat) {
  std::set<std::string> names;
  const Json* const tools = FindMember(body, "tools");
  if (tools == nullptr) return names;
  if (!tools->is_array() || tools->size() > kMaxTools) {
    return WrongValue("tools", "at most " + std::to_string(kMaxTools) + " tools", *tools);
  }
  Json list = Json::array();
  for (size_t i = 0; i < tools->size(); ++i) {
    const std::string place = PlaceOf("tools", i);
    ATTNDB_ASSIGN_OR_RETURN(Json tool, ReadTool((*tools)[i], place, marks));
    if (!names.insert(tool["function"]["name"].get<std::string>()).second) {
      return RefusedAt(PlaceOf(place, "name"), "an earlier tool has this name");
    }
    list.push_back(std::move(tool));
  }
  if (!list.empty()) chat->tools = ToText(list);
  return names;
}

Status ReadChoice(const Json& choice, const std::set<std::string>& names,
                  llama::ChatOptions* chat) {
  const std::string place = "tool_choice";
  ATTNDB_ASSIGN_OR_RETURN(const std::string type, TypeOf(choice, place));
  ATTNDB_ASSIGN_OR_RETURN(const bool is_single, FlagOf(choice, place, "disable_parallel_tool_use"));
  if (is_single) chat->parallel_tool_calls = false;
  if (type == "none") chat->tool_choice = llama::ToolChoice::kNone;
  if (type == "auto" || type == "none") return Status::Ok();
  if (type != "any" && type != "tool") {
    return WrongValue(PlaceOf(place, "type"), "auto, any, tool or none", type);
  }
  if (names.empty()) return RefusedAt(place, "there are no tools to choose from");
  chat->tool_choice = llama::ToolChoice::kRequired;
  if (type == "any") return Status::Ok();
  ATTNDB_ASSIGN_OR_RETURN(chat->tool_name, NeededText(choice, place, "name"));
  if (names.contains(chat->tool_name)) return Status::Ok();
  return WrongValue(PlaceOf(place, "name"), "the name of one of the tools", chat->tool_name);
}

}  // namespace

Status ReadToolFields(const Json& body, CacheMarks* marks, llama::ChatOptions* chat) {
  ATTNDB_ASSIGN_OR_RETURN(const std::set<std::string> names, ReadTools(body, marks, chat));
  const Json* const choice = FindMember(body, "tool_choice");
  return choice == nullptr ? Status::Ok() : ReadChoice(*choice, names, chat);
}

}  // namespace attndb::server
