#include "server/openai/chat_messages.h"

#include <array>
#include <string>
#include <utility>

#include "server/openai/open_calls.h"
#include "server/openai/tools_field.h"

namespace attndb::server {
namespace {

constexpr const char* kRoles = "system, developer, user, assistant or tool";

// Notes the result of a call. Errors: there is no such call, or all such calls have results.
Status AnswerCall(const std::string& field, const std::string& id, OpenCalls* open) {
  std::string name;
  switch (open->Answer(id, &name)) {
    case OpenCalls::Answered::kOk:
      return Status::Ok();
    case OpenCalls::Answered::kNoCall:
      return WrongValue(field, "the id of a tool call in a message before it", id);
    case OpenCalls::Answered::kTwice:
      break;
  }
  return WrongValue(field, "the id of a tool call that has no result yet", id);
}

struct Content {
  std::string text;
  std::string parts;  // ChatMessage::parts.
};

// A text, or parts that are texts.
Result<Content> ContentOf(const Json& message, const std::string& name) {
  const Json* const content = FindMember(message, "content");
  if (content == nullptr) return Content();
  if (content->is_string()) return Content{content->get<std::string>(), ""};
  if (!content->is_array()) return WrongValue(name + ".content", "a text or parts", *content);
  std::string text;
  Json parts = Json::array();
  for (const Json& part : *content) {
    if (!part.is_object() || part.value("type", Json()) != "text" || !part.contains("text") ||
        !part["text"].is_string()) {
      return WrongValue(name + ".content", "parts of type text alone", part);
    }
    if (!text.empty()) text += '\n';
    text += part["text"].get_ref<const std::string&>();
    parts.push_back({{"type", "text"}, {"text", part["text"]}});
  }
  return Content{std::move(text), parts.empty() ? "" : ToText(parts)};
}

// A member that is a text, and may lack.
Result<std::string> TextIn(const Json& object, const char* member, const std::string& name) {
  const Json* const text = FindMember(object, member);
  if (text == nullptr) return std::string();
  if (!text->is_string()) return WrongValue(name + "." + member, "a text", *text);
  return text->get<std::string>();
}

// Returns the call with the members that templates know, in their order.
Result<Json> ReadChatCall(const Json& call, const std::string& name, OpenCalls* open) {
  if (!call.is_object()) return WrongValue(name, "an object with id, type and function", call);
  if (call.value("type", Json()) != "function") {
    return WrongValue(name + ".type", "function", call.value("type", Json()));
  }
  const Json* const function = FindMember(call, "function");
  if (function == nullptr || !function->is_object()) {
    return WrongValue(name + ".function", "an object with name and arguments",
                      function == nullptr ? Json() : *function);
  }
  ATTNDB_ASSIGN_OR_RETURN(std::string id, TextIn(call, "id", name));
  ATTNDB_ASSIGN_OR_RETURN(std::string called, TextIn(*function, "name", name + ".function"));
  if (called.empty()) return WrongValue(name + ".function.name", "the name of a tool", called);
  const std::string place = name + ".function.arguments";
  const Json arguments = function->value("arguments", Json());
  if (!arguments.is_string()) return WrongValue(place, "a text that is JSON", arguments);
  ATTNDB_RETURN_IF_ERROR(
      CheckJson(place, arguments.get_ref<const std::string&>(), kMaxSchemaMembers));
  if (!id.empty()) open->Add(id, called);
  return ToolCallJson(id, called, arguments.get_ref<const std::string&>());
}

Status ReadCalls(const Json& message, const std::string& name, OpenCalls* open, Json* more) {
  const Json* const calls = FindMember(message, kToolCalls);
  if (calls == nullptr || AsksForNothing(*calls)) return Status::Ok();
  const std::string place = name + "." + kToolCalls;
  if (!calls->is_array() || calls->size() > kMaxCalls) {
    return WrongValue(place, "at most " + std::to_string(kMaxCalls) + " tool calls", *calls);
  }
  Json list = Json::array();
  for (size_t i = 0; i < calls->size(); ++i) {
    ATTNDB_ASSIGN_OR_RETURN(Json call,
                            ReadChatCall((*calls)[i], place + "[" + std::to_string(i) + "]", open));
    list.push_back(std::move(call));
  }
  (*more)[kToolCalls] = std::move(list);
  return Status::Ok();
}

Status ReadToolResult(const Json& message, const std::string& name, OpenCalls* open, Json* more) {
  ATTNDB_ASSIGN_OR_RETURN(std::string id, TextIn(message, kToolCallId, name));
  const std::string place = name + "." + kToolCallId;
  if (id.empty())
    return WrongValue(place, "the id of a tool call", message.value(kToolCallId, Json()));
  ATTNDB_RETURN_IF_ERROR(AnswerCall(place, id, open));
  (*more)[kToolCallId] = std::move(id);
  return Status::Ok();
}

Result<llama::ChatMessage> ReadChatMessage(const Json& message, const std::string& name,
                                           OpenCalls* open) {
  if (!message.is_object()) return WrongValue(name, "an object with role and content", message);
  ATTNDB_ASSIGN_OR_RETURN(std::string role, TextIn(message, "role", name));
  if (role == "developer") role = "system";
  constexpr std::array kKnown = {"system", "user", "assistant", "tool"};
  if (std::ranges::find(kKnown, role) == kKnown.end()) {
    return WrongValue(name + ".role", kRoles, role);
  }
  for (const char* const old : {"function_call", "audio"}) {
    const Json* const found = FindMember(message, old);
    if (found != nullptr && !AsksForNothing(*found)) {
      return Status::InvalidArgument("'" + name + "." + old + "' is not supported");
    }
  }
  Json more = Json::object();
  ATTNDB_ASSIGN_OR_RETURN(Content content, ContentOf(message, name));
  if (role == "assistant") {
    ATTNDB_ASSIGN_OR_RETURN(std::string reasoning, TextIn(message, kReasoning, name));
    if (!reasoning.empty()) more[kReasoning] = std::move(reasoning);
    ATTNDB_RETURN_IF_ERROR(ReadCalls(message, name, open, &more));
  }
  if (role == "tool") ATTNDB_RETURN_IF_ERROR(ReadToolResult(message, name, open, &more));
  ATTNDB_ASSIGN_OR_RETURN(std::string author, TextIn(message, "name", name));
  if (!author.empty()) more["name"] = std::move(author);
  return llama::ChatMessage{.role = std::move(role),
                            .content = std::move(content.text),
                            .more = more.empty() ? "" : ToText(more),
                            .parts = std::move(content.parts)};
}

}  // namespace

Result<std::vector<llama::ChatMessage>> ReadMessages(const Json& body) {
  const Json* const list = FindMember(body, "messages");
  if (list == nullptr || !list->is_array() || list->empty() || list->size() > kMaxMessages) {
    return WrongValue("messages", "1 to " + std::to_string(kMaxMessages) + " messages",
                      list == nullptr ? Json() : *list);
  }
  OpenCalls open;
  std::vector<llama::ChatMessage> messages;
  for (size_t i = 0; i < list->size(); ++i) {
    ATTNDB_ASSIGN_OR_RETURN(
        llama::ChatMessage message,
        ReadChatMessage((*list)[i], "messages[" + std::to_string(i) + "]", &open));
    messages.push_back(std::move(message));
  }
  return messages;
}

Json ToolCallJson(const std::string& id, const std::string& name, const std::string& arguments) {
  Json call = Json::object();
  if (!id.empty()) call["id"] = id;
  call["type"] = "function";
  call["function"] = {{"name", name}, {"arguments", arguments}};
  return call;
}

void AssistantDraft::AddLine(const std::string& line, std::optional<std::string>* text) {
  *text = text->has_value() ? **text + "\n" + line : line;
}

llama::ChatMessage AssistantDraft::ToMessage() && {
  Json more = Json::object();
  if (reasoning) more[kReasoning] = *std::move(reasoning);
  if (!calls.empty()) more[kToolCalls] = std::move(calls);
  return {.role = "assistant",
          .content = std::move(text).value_or(""),
          .more = more.empty() ? std::string() : ToText(more)};
}

bool CallsTools(const llama::ChatMessage& message) {
  return !message.more.empty() && ReadOwnJson(message.more).contains(kToolCalls);
}

}  // namespace attndb::server
