#include "server/chat/tool_list.h"

#include <algorithm>
#include <cctype>
#include <utility>

#include "server/fields.h"

namespace attndb::server {

Status CheckToolName(const Json& name, size_t most_bytes, const std::string& place) {
  const auto is_allowed = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '-';
  };
  const std::string* const text = name.get_ptr<const std::string*>();
  const bool fits = text != nullptr && !text->empty() && text->size() <= most_bytes &&
                    std::ranges::all_of(*text, is_allowed);
  if (fits) return Status::Ok();
  return WrongValue(place, "1 to " + std::to_string(most_bytes) + " of the characters a-zA-Z0-9_-",
                    name);
}

Result<Json> ReadFunctionWords(const Json& tool, const std::string& place, size_t most_name_bytes) {
  ATTNDB_ASSIGN_OR_RETURN(const std::string name, NeededText(tool, place, "name"));
  ATTNDB_RETURN_IF_ERROR(CheckToolName(name, most_name_bytes, PlaceOf(place, "name")));
  Json function = {{"name", name}};
  if (FindMember(tool, "description") != nullptr) {
    ATTNDB_ASSIGN_OR_RETURN(function["description"], NeededText(tool, place, "description"));
  }
  return function;
}

Result<std::set<std::string>> ReadToolList(const Json& body, const ToolListForm& form,
                                           llama::ChatOptions* chat) {
  std::set<std::string> names;
  const Json* const tools = FindMember(body, "tools");
  if (tools == nullptr) return names;
  if (!tools->is_array() || tools->size() > kMaxTools) {
    return WrongValue("tools", "at most " + std::to_string(kMaxTools) + " tools", *tools);
  }
  Json list = Json::array();
  for (size_t i = 0; i < tools->size(); ++i) {
    const std::string place = form.place_of(i);
    ATTNDB_ASSIGN_OR_RETURN(Json function, form.read((*tools)[i], place));
    if (!names.insert(function["name"].get<std::string>()).second) {
      return RefusedAt(PlaceOf(place, "name"), "an earlier tool has this name");
    }
    list.push_back({{"type", "function"}, {"function", std::move(function)}});
  }
  if (!list.empty()) chat->tools = ToText(list);
  return names;
}

Status RequireCall(const std::set<std::string>& names, const Json* named,
                   llama::ChatOptions* chat) {
  const std::string place = "tool_choice";
  if (names.empty()) return RefusedAt(place, "there are no tools to choose from");
  chat->tool_choice = llama::ToolChoice::kRequired;
  if (named == nullptr) return Status::Ok();
  ATTNDB_ASSIGN_OR_RETURN(chat->tool_name, NeededText(*named, place, "name"));
  if (names.contains(chat->tool_name)) return Status::Ok();
  return WrongValue(PlaceOf(place, "name"), "the name of one of the tools", chat->tool_name);
}

}  // namespace attndb::server
