#include "server/responses/items.h"

#include <map>
#include <optional>
#include <utility>

#include "server/fields.h"
#include "server/openai/chat_messages.h"

namespace attndb::server {
namespace {

constexpr const char* kItemAssistant = "assistant";
constexpr const char* kItemTool = "tool";

void AddItemText(std::optional<std::string>* text, const std::string& more) {
  *text = text->has_value() ? **text + "\n" + more : more;
}

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
    AddItemText(&text, more);
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
  struct Draft {
    std::optional<std::string> text = {};
    std::optional<std::string> reasoning = {};
    Json calls = Json::array();
  };

  Draft* Assistant() { return draft_ ? &*draft_ : &draft_.emplace(); }
  void Close();
  Status ReadMessage(const Json& item, const std::string& place);
  Status ReadReasoning(const Json& item, const std::string& place);
  Status ReadCall(const Json& item, const std::string& place);
  Status ReadOutput(const Json& item, const std::string& place);

  ChatMessages messages_;
  std::optional<Draft> draft_;               // The assistant's message that may still grow.
  std::map<std::string, bool> is_answered_;  // By the ids of calls.
};

ItemReader::ItemReader(const ChatMessages& before) {
  for (const llama::ChatMessage& message : before) {
    if (message.more.empty()) continue;
    const Json more = ReadOwnJson(message.more);
    if (const Json* const calls = FindMember(more, kToolCalls)) {
      for (const Json& call : *calls) is_answered_.emplace(call.value("id", ""), false);
    }
    if (const Json* const id = FindMember(more, kToolCallId))
      is_answered_[id->get<std::string>()] = true;
  }
}

void ItemReader::Close() {
  if (!draft_) return;
  Json more = Json::object();
  if (draft_->reasoning) more[kReasoning] = *draft_->reasoning;
  if (!draft_->calls.empty()) more[kToolCalls] = std::move(draft_->calls);
  messages_.push_back(
      {kItemAssistant, draft_->text.value_or(""), more.empty() ? std::string() : ToText(more)});
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
    AddItemText(&Assistant()->text, text);
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
  AddItemText(&Assistant()->reasoning, text);
  return Status::Ok();
}

Status ItemReader::ReadCall(const Json& item, const std::string& place) {
  ATTNDB_ASSIGN_OR_RETURN(const std::string id, NeededText(item, place, "call_id"));
  ATTNDB_ASSIGN_OR_RETURN(const std::string name, NeededText(item, place, "name"));
  ATTNDB_ASSIGN_OR_RETURN(const std::string arguments, NeededText(item, place, "arguments"));
  if (!is_answered_.emplace(id, false).second) {
    return RefusedAt(PlaceOf(place, "call_id"), Shown(id) + " is the id of an earlier call");
  }
  Json call = {
      {"id", id}, {"type", "function"}, {"function", {{"name", name}, {"arguments", arguments}}}};
  Assistant()->calls.push_back(std::move(call));
  return Status::Ok();
}

Status ItemReader::ReadOutput(const Json& item, const std::string& place) {
  ATTNDB_ASSIGN_OR_RETURN(const std::string id, NeededText(item, place, "call_id"));
  const std::string at = PlaceOf(place, "call_id");
  const auto found = is_answered_.find(id);
  if (found == is_answered_.end()) {
    return RefusedAt(at, "there is no function_call with the id " + Shown(id) + " before it");
  }
  if (std::exchange(found->second, true)) {
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
