#include "server/openai/tools_field.h"

#include <set>
#include <string>

namespace attndb::server {
namespace {

constexpr const char* kChoices =
    R"(none, auto, required, or {"type":"function","function":{"name":NAME}})";

Status CheckTool(const Json& tool, const std::string& name, std::set<std::string>* names) {
  if (!tool.is_object()) return WrongValue(name, "an object with type and function", tool);
  if (tool.value("type", Json()) != "function") {
    return WrongValue(name + ".type", "function", tool.value("type", Json()));
  }
  const std::string place = name + ".function";
  const Json* const function = FindMember(tool, "function");
  if (function == nullptr || !function->is_object()) {
    return WrongValue(place, "an object with a name", function == nullptr ? Json() : *function);
  }
  const Json called = function->value("name", Json());
  ATTNDB_RETURN_IF_ERROR(CheckToolName(called, kMaxToolNameBytes, place + ".name"));
  if (!names->insert(called.get<std::string>()).second) {
    return WrongValue(place + ".name", "a name that no other tool has", called);
  }
  const Json* const description = FindMember(*function, "description");
  if (description != nullptr && !description->is_string()) {
    return WrongValue(place + ".description", "a text", *description);
  }
  const Json* const parameters = FindMember(*function, "parameters");
  if (parameters != nullptr && !parameters->is_object()) {
    return WrongValue(place + ".parameters", "a JSON schema", *parameters);
  }
  return Status::Ok();
}

// {"type":"function","function":{"name":NAME}}
Status ReadNamedChoice(const Json& choice, const std::set<std::string>& names,
                       llama::ChatOptions* chat) {
  const Json type = choice.value("type", Json());
  if (type == "allowed_tools") {
    return Status::InvalidArgument(
        "'tool_choice' of type allowed_tools is not supported: send these tools alone");
  }
  const Json function = choice.value("function", Json());
  if (type != "function" || !function.is_object()) {
    return WrongValue("tool_choice", kChoices, choice);
  }
  const Json name = function.value("name", Json());
  if (!name.is_string() || !names.contains(name.get<std::string>())) {
    return WrongValue("tool_choice.function.name", "the name of one of the tools", name);
  }
  chat->tool_choice = llama::ToolChoice::kRequired;
  chat->tool_name = name.get<std::string>();
  return Status::Ok();
}

Status ReadToolChoice(const Json& body, const std::set<std::string>& names,
                      llama::ChatOptions* chat) {
  const Json* const choice = FindMember(body, "tool_choice");
  if (choice == nullptr) return Status::Ok();
  if (choice->is_object()) return ReadNamedChoice(*choice, names, chat);
  if (*choice == "none") {
    chat->tool_choice = llama::ToolChoice::kNone;
  } else if (*choice == "required") {
    chat->tool_choice = llama::ToolChoice::kRequired;
  } else if (*choice != "auto") {
    return WrongValue("tool_choice", kChoices, *choice);
  }
  if (chat->tool_choice == llama::ToolChoice::kRequired && names.empty()) {
    return Status::InvalidArgument("'tool_choice' is required, and there are no tools");
  }
  return Status::Ok();
}

}  // namespace

Status ReadTools(const Json& body, llama::ChatOptions* chat) {
  std::set<std::string> names;
  const Json* const tools = FindMember(body, "tools");
  if (tools != nullptr && (!tools->is_array() || tools->size() > kMaxTools)) {
    return WrongValue("tools", "at most " + std::to_string(kMaxTools) + " tools", *tools);
  }
  for (size_t i = 0; tools != nullptr && i < tools->size(); ++i) {
    ATTNDB_RETURN_IF_ERROR(CheckTool((*tools)[i], "tools[" + std::to_string(i) + "]", &names));
  }
  if (!names.empty()) chat->tools = ToText(*tools);
  ATTNDB_RETURN_IF_ERROR(ReadToolChoice(body, names, chat));
  if (FindMember(body, "parallel_tool_calls") != nullptr) {
    ATTNDB_RETURN_IF_ERROR(
        ReadFlag(body, "parallel_tool_calls", &chat->parallel_tool_calls.emplace()));
  }
  return Status::Ok();
}

}  // namespace attndb::server
