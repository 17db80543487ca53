#include "server/anthropic/tool_fields.h"

#include <set>
#include <string>
#include <utility>

#include "server/chat/tool_list.h"
#include "server/fields.h"

namespace attndb::server {
namespace {

constexpr size_t kMaxNameBytes = 128;

// One of the client's own tools.
Result<Json> ReadTool(const Json& tool, const std::string& place, CacheMarks* marks) {
  ATTNDB_RETURN_IF_ERROR(CheckObject(tool, place));
  const Json* const type = FindMember(tool, "type");
  if (type != nullptr && *type != "custom") {
    return RefusedAt(place, "tools of type " + Shown(*type) + " are not supported");
  }
  ATTNDB_ASSIGN_OR_RETURN(Json function, ReadFunctionWords(tool, place, kMaxNameBytes));
  const Json* const schema = FindMember(tool, "input_schema");
  if (schema == nullptr || !schema->is_object()) {
    return WrongValue(PlaceOf(place, "input_schema"), "a JSON schema",
                      schema == nullptr ? Json() : *schema);
  }
  function["parameters"] = *schema;
  ATTNDB_RETURN_IF_ERROR(marks->Take(tool, place));
  return function;
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
  return RequireCall(names, type == "tool" ? &choice : nullptr, chat);
}

}  // namespace

Status ReadToolFields(const Json& body, CacheMarks* marks, llama::ChatOptions* chat) {
  const ToolListForm form = {
      .place_of = [](size_t index) { return PlaceOf("tools", index); },
      .read = [marks](const Json& tool,
                      const std::string& place) { return ReadTool(tool, place, marks); }};
  ATTNDB_ASSIGN_OR_RETURN(const std::set<std::string> names, ReadToolList(body, form, chat));
  const Json* const choice = FindMember(body, "tool_choice");
  return choice == nullptr ? Status::Ok() : ReadChoice(*choice, names, chat);
}

}  // namespace attndb::server
