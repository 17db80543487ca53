#include "server/responses/items.h"

#include <optional>
#include <utility>

#include "server/fields.h"
#include "server/openai/chat_messages.h"
#include "server/openai/open_calls.h"

namespace attndb::server {
namespace {

constexpr const char* kItemAssistant = "assistant";
constexpr const char* kItemTool = "tool";

bool IsTextType(const std::string& type) {
  return type == "input_text" || type == "output_text" || type == "text" ||
         type == "summary_text" || type == "reasoning_text";
}

// A text, or parts that are texts. A refusal is a text, too.
Result<std::string> TextOfParts(const Json* content, const std::string& place) {
  if (content != nullptr && content->is_string()) return content->get<std::string>();
  if (content == nullptr || !content->is_array()) {
    return WrongValue(place, "a text or parts", content == nullptr ? Json() : *content);
  }
  std::optional<std::string> text;
  for (size_t i = 0; i < content->size(); ++i) {
    const Json& part = (*content)[i];
    const std::string at = EntryOf(place, i);
    ATTNDB_ASSIGN_OR_RETURN(const std::string type, TypeOf(part, at));
    const bool is_refusal = type == "refusal";
    if (!is_refusal && !IsTextType(type)) {
      return RefusedAt(at, "parts of type " + Shown(type) + " are not supported");
    }
    ATTNDB_ASSIGN_OR_RETURN(const std::string more,
                            NeededText(part, at, is_refusal ? "refusal" : "text"));
    AssistantDraft::AddLine(more, &text);
  }
  return text.value_or("");
}

class ItemReader {
 public:
  // Knows the calls of the messages before.
  explicit ItemReader(const ChatMessages& before);

  Status Read(const Json& item, const std::string& place);
  ChatMessages Take();

 private:
  AssistantDraft* Assistant() { return draft_ ? &*draft_ : &draft_.emplace(); }
  void Close();
  Status ReadMessage(const Json& item, const std::string& place);
  Status ReadReasoning(const Json& item, const std::string& place);
  Status ReadCall(const Json& item, const std::string& place);
  Status ReadOutput(const Json& item, const std::string& place);

  ChatMessages messages_;
  std::optional<AssistantDraft> draft_;  // The assistant's message that may still grow.
  OpenCalls open_;
};

ItemReader::ItemReader(const ChatMessages& before) {
  for (const llama::ChatMessage& message : before) {
    if (message.more.empty()) continue;
    const Json more = ReadOwnJson(message.more);
    if (const Json* const calls = FindMember(more, kToolCalls)) {
      for (const Json& call : *calls) open_.Add(call.value("id", ""), "");
    }
    std::string name;
    if (const Json* const id = FindMember(more, kToolCallId))
      (void)open_.Answer(id->get<std::string>(), &name);
  }
}

void ItemReader::Close() {
  if (!draft_) return;
  messages_.push_back((*std::move(draft_)).ToMessage());
  draft_.reset();
}

Status ItemReader::ReadMessage(const Json& item, const std::string& place) {
  ATTNDB_ASSIGN_OR_RETURN(std::string role, NeededText(item, place, "role"));
  if (role == "developer") role = "system";
  if (role != "user" && role != "system" && role != kItemAssistant) {
    return WrongValue(PlaceOf(place, "role"), "user, assistant, system or developer", role);
  }
  ATTNDB_ASSIGN_OR_RETURN(std::string text,
                          TextOfParts(FindMember(item, "content"), PlaceOf(place, "content")));
  if (role == kItemAssistant) {
    AssistantDraft::AddLine(text, &Assistant()->text);
    return Status::Ok();
  }
  Close();
  messages_.push_back({std::move(role), std::move(text)});
  return Status::Ok();
}

Status ItemReader::ReadReasoning(const Json& item, const std::string& place) {
  const Json* const content = FindMember(item, "content");
  if (content == nullptr) return Status::Ok();  // A summary alone is not what the model thought.
  ATTNDB_ASSIGN_OR_RETURN(const std::string text, TextOfParts(content, PlaceOf(place, "content")));
  AssistantDraft::AddLine(text, &Assistant()->reasoning);
  return Status::Ok();
}

Status ItemReader::ReadCall(const Json& item, const std::string& place) {
  ATTNDB_ASSIGN_OR_RETURN(const std::string id, NeededText(item, place, "call_id"));
  ATTNDB_ASSIGN_OR_RETURN(const std::string name, NeededText(item, place, "name"));
  ATTNDB_ASSIGN_OR_RETURN(const std::string arguments, NeededText(item, place, "arguments"));
  open_.Add(id, name);
  Assistant()->calls.push_back(ToolCallJson(id, name, arguments));
  return Status::Ok();
}

Status ItemReader::ReadOutput(const Json& item, const std::string& place) {
  ATTNDB_ASSIGN_OR_RETURN(const std::string id, NeededText(item, place, "call_id"));
  const std::string at = PlaceOf(place, "call_id");
  std::string name;
  const OpenCalls::Answered answered = open_.Answer(id, &name);
  if (answered == OpenCalls::Answered::kNoCall) {
    return RefusedAt(at, "there is no function_call with the id " + Shown(id) + " before it");
  }
  if (answered == OpenCalls::Answered::kTwice) {
    return RefusedAt(at, "the function_call " + Shown(id) + " has an output already");
  }
  ATTNDB_ASSIGN_OR_RETURN(std::string text,
                          TextOfParts(FindMember(item, "output"), PlaceOf(place, "output")));
  Close();
  messages_.push_back({kItemTool, std::move(text), ToText(Json{{kToolCallId, id}})});
  return Status::Ok();
}

Status ItemReader::Read(const Json& item, const std::string& place) {
  ATTNDB_RETURN_IF_ERROR(CheckObject(item, place));
  std::string type = "message";
  if (FindMember(item, "type") != nullptr) {
    ATTNDB_ASSIGN_OR_RETURN(type, NeededText(item, place, "type"));
  }
  if (type == "message") return ReadMessage(item, place);
  if (type == "reasoning") return ReadReasoning(item, place);
  if (type == "function_call") return ReadCall(item, place);
  if (type == "function_call_output") return ReadOutput(item, place);
  return RefusedAt(place, "items of type " + Shown(type) + " are not supported");
}

ChatMessages ItemReader::Take() {
  Close();
  return std::move(messages_);
}

}  // namespace

Result<ChatMessages> ReadItems(const Json& items, const std::string& place,
                               const ChatMessages& before) {
  ItemReader reader(before);
  for (size_t i = 0; i < items.size(); ++i) {
    ATTNDB_RETURN_IF_ERROR(reader.Read(items[i], EntryOf(place, i)));
  }
  return reader.Take();
}

Json JsonOfMessages(const ChatMessages& messages) {
  Json list = Json::array();
  for (const llama::ChatMessage& message : messages) {
    Json json = {{"role", message.role}, {"content", message.content}};
    if (!message.more.empty()) json.update(ReadOwnJson(message.more));
    list.push_back(std::move(json));
  }
  return list;
}

Result<ChatMessages> MessagesOf(const Json& json) {
  const Status wrong = Status::Corruption("a stored conversation is not one");
  if (!json.is_array()) return wrong;
  ChatMessages messages;
  for (const Json& one : json) {
    if (!one.is_object()) return wrong;
    llama::ChatMessage message;
    Json more = Json::object();
    for (const auto& [name, value] : one.items()) {
      if (name != "role" && name != "content") {
        more[name] = value;
        continue;
      }
      if (!value.is_string()) return wrong;
      (name == "role" ? message.role : message.content) = value.get<std::string>();
    }
    if (!more.empty()) message.more = ToText(more);
    messages.push_back(std::move(message));
  }
  return messages;
}

}  // namespace attndb::server
