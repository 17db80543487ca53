#include "server/anthropic/history.h"

#include <optional>
#include <utility>

#include "server/fields.h"
#include "server/openai/chat_messages.h"
#include "server/openai/open_calls.h"
#include "server/openai/text_request.h"

namespace attndb::server {
namespace {

constexpr std::string_view kSystem = "system";
constexpr std::string_view kUser = "user";
constexpr std::string_view kAssistant = "assistant";
constexpr std::string_view kTool = "tool";

std::string OwnIdOf(const std::string& id) {
  return id.starts_with(kCallIdPrefix) ? id.substr(kCallIdPrefix.size()) : id;
}

class HistoryReader {
 public:
  explicit HistoryReader(CacheMarks* marks) : marks_(marks) {}

  Status ReadSystem(const Json& system);
  Status ReadMessage(const Json& message, const std::string& place);
  // `last`: the place of the last message.
  Result<History> Finish(const std::string& last);

 private:
  // A message that may still grow.
  struct Draft : AssistantDraft {
    std::string_view role = {};
  };

  Draft* DraftOf(std::string_view role);
  void Close();
  Status ReadBlock(std::string_view role, const Json& block, const std::string& place);
  Status ReadText(std::string_view role, const Json& block, const std::string& place);
  Status ReadThinking(const Json& block, const std::string& place);
  Status ReadCall(const Json& block, const std::string& place);
  Status ReadResult(const Json& block, const std::string& place);
  // A text, or blocks of text.
  Result<std::string> TextOf(const Json& content, const std::string& place);

  CacheMarks* const marks_;
  std::vector<llama::ChatMessage> messages_;
  std::optional<Draft> draft_;
  OpenCalls open_;  // By the ids that the client has.
};

HistoryReader::Draft* HistoryReader::DraftOf(std::string_view role) {
  if (draft_ && draft_->role == role) return &*draft_;
  Close();
  draft_ = Draft();
  draft_->role = role;
  return &*draft_;
}

void HistoryReader::Close() {
  if (!draft_) return;
  const std::string_view role = draft_->role;
  messages_.push_back((*std::move(draft_)).ToMessage());
  messages_.back().role = role;
  draft_.reset();
}

Result<std::string> HistoryReader::TextOf(const Json& content, const std::string& place) {
  if (content.is_string()) return content.get<std::string>();
  if (!content.is_array()) return WrongValue(place, "a text or blocks", content);
  std::optional<std::string> text;
  for (size_t i = 0; i < content.size(); ++i) {
    const std::string at = PlaceOf(place, i);
    ATTNDB_ASSIGN_OR_RETURN(const std::string type, TypeOf(content[i], at));
    if (type != "text")
      return RefusedAt(at, "blocks of type " + Shown(type) + " are not supported");
    ATTNDB_RETURN_IF_ERROR(marks_->Take(content[i], at));
    ATTNDB_ASSIGN_OR_RETURN(const std::string more, NeededText(content[i], at, "text"));
    AssistantDraft::AddLine(more, &text);
  }
  return text.value_or("");
}

Status HistoryReader::ReadSystem(const Json& system) {
  ATTNDB_ASSIGN_OR_RETURN(std::string text, TextOf(system, std::string(kSystem)));
  if (!text.empty()) DraftOf(kSystem)->text = std::move(text);
  return Status::Ok();
}

Status HistoryReader::ReadText(std::string_view role, const Json& block, const std::string& place) {
  ATTNDB_ASSIGN_OR_RETURN(const std::string text, NeededText(block, place, "text"));
  AssistantDraft::AddLine(text, &DraftOf(role)->text);
  return Status::Ok();
}

Status HistoryReader::ReadThinking(const Json& block, const std::string& place) {
  ATTNDB_ASSIGN_OR_RETURN(const std::string text, NeededText(block, place, "thinking"));
  AssistantDraft::AddLine(text, &DraftOf(kAssistant)->reasoning);
  return Status::Ok();
}

Status HistoryReader::ReadCall(const Json& block, const std::string& place) {
  ATTNDB_ASSIGN_OR_RETURN(const std::string id, NeededText(block, place, "id"));
  ATTNDB_ASSIGN_OR_RETURN(const std::string name, NeededText(block, place, "name"));
  const Json* const input = FindMember(block, "input");
  ATTNDB_RETURN_IF_ERROR(CheckObject(input == nullptr ? Json() : *input, PlaceOf(place, "input")));
  open_.Add(id, name);
  DraftOf(kAssistant)->calls.push_back(ToolCallJson(OwnIdOf(id), name, ToText(*input)));
  return Status::Ok();
}

Status HistoryReader::ReadResult(const Json& block, const std::string& place) {
  ATTNDB_ASSIGN_OR_RETURN(const std::string id, NeededText(block, place, "tool_use_id"));
  const std::string id_place = PlaceOf(place, "tool_use_id");
  std::string name;
  const OpenCalls::Answered answered = open_.Answer(id, &name);
  if (answered == OpenCalls::Answered::kNoCall) {
    return RefusedAt(id_place, "there is no tool_use with the id " + Shown(id) + " before it");
  }
  if (answered == OpenCalls::Answered::kTwice) {
    return RefusedAt(id_place, "the tool_use " + Shown(id) + " has a result already");
  }
  std::string text;
  if (const Json* const content = FindMember(block, "content")) {
    ATTNDB_ASSIGN_OR_RETURN(text, TextOf(*content, PlaceOf(place, "content")));
  }
  ATTNDB_ASSIGN_OR_RETURN(const bool is_error, FlagOf(block, place, "is_error"));
  if (is_error) text = "Error: " + text;
  Close();
  const Json more = {{"tool_call_id", OwnIdOf(id)}, {"name", name}};
  messages_.push_back({std::string(kTool), std::move(text), ToText(more)});
  return Status::Ok();
}

Status HistoryReader::ReadBlock(std::string_view role, const Json& block,
                                const std::string& place) {
  ATTNDB_ASSIGN_OR_RETURN(const std::string type, TypeOf(block, place));
  ATTNDB_RETURN_IF_ERROR(marks_->Take(block, place));
  if (type == "text") return ReadText(role, block, place);
  if (role == kUser && type == "tool_result") return ReadResult(block, place);
  if (role == kAssistant && type == "tool_use") return ReadCall(block, place);
  if (role == kAssistant && type == "thinking") return ReadThinking(block, place);
  if (role == kAssistant && type == "redacted_thinking") return Status::Ok();
  return RefusedAt(place, "blocks of type " + Shown(type) + " are not supported in a message of " +
                              "the " + std::string(role));
}

Status HistoryReader::ReadMessage(const Json& message, const std::string& place) {
  ATTNDB_RETURN_IF_ERROR(CheckObject(message, place));
  ATTNDB_ASSIGN_OR_RETURN(const std::string named, NeededText(message, place, "role"));
  std::string_view role;
  for (const std::string_view known : {kUser, kAssistant, kSystem}) {
    if (named == known) role = known;
  }
  if (role.empty()) return WrongValue(PlaceOf(place, "role"), "user, assistant or system", named);
  const std::string content_place = PlaceOf(place, "content");
  const Json* const content = FindMember(message, "content");
  if (content != nullptr && content->is_string()) {
    AssistantDraft::AddLine(content->get<std::string>(), &DraftOf(role)->text);
    return Status::Ok();
  }
  if (content == nullptr || !content->is_array() || content->empty()) {
    return WrongValue(content_place, "a text or blocks", content == nullptr ? Json() : *content);
  }
  if (role == kAssistant) DraftOf(role);
  for (size_t i = 0; i < content->size(); ++i) {
    ATTNDB_RETURN_IF_ERROR(ReadBlock(role, (*content)[i], PlaceOf(content_place, i)));
  }
  return Status::Ok();
}

Result<History> HistoryReader::Finish(const std::string& last) {
  History history;
  if (draft_ && draft_->role == kAssistant) {
    if (!draft_->calls.empty()) return RefusedAt(last, "it calls tools, and no result follows");
    // An empty beginning is none.
    history.continues_last = draft_->reasoning || !draft_->text.value_or("").empty();
    if (!history.continues_last) draft_.reset();
  }
  Close();
  if (messages_.empty() || messages_.size() > kMaxMessages) {
    return Status::InvalidArgument("'messages' are " + std::to_string(messages_.size()) +
                                   " for the model's template, expected 1 to " +
                                   std::to_string(kMaxMessages));
  }
  history.messages = std::move(messages_);
  return history;
}

}  // namespace

Result<History> ReadHistory(const Json& body, CacheMarks* marks) {
  HistoryReader reader(marks);
  if (const Json* const system = FindMember(body, "system")) {
    ATTNDB_RETURN_IF_ERROR(reader.ReadSystem(*system));
  }
  const Json* const messages = FindMember(body, "messages");
  if (messages == nullptr || !messages->is_array() || messages->empty() ||
      messages->size() > kMaxMessages) {
    return WrongValue("messages", "1 to " + std::to_string(kMaxMessages) + " messages",
                      messages == nullptr ? Json() : *messages);
  }
  for (size_t i = 0; i < messages->size(); ++i) {
    ATTNDB_RETURN_IF_ERROR(reader.ReadMessage((*messages)[i], PlaceOf("messages", i)));
  }
  return reader.Finish(PlaceOf("messages", messages->size() - 1));
}

}  // namespace attndb::server
