#include "server/responses/response_record.h"

#include <algorithm>
#include <utility>

#include "server/openai/chat_messages.h"

namespace attndb::server {
namespace {

constexpr const char* kOwnMember = "attndb";
constexpr int kRecordVersion = 1;

Result<ResponseRecord> ReadRecord(const Json& json) {
  const Json own = json.is_object() ? json.value(kOwnMember, Json()) : Json();
  if (!own.is_object() || own.value("version", Json()) != kRecordVersion) {
    return Status::NotFound("no response is stored here");
  }
  ResponseRecord record;
  ATTNDB_ASSIGN_OR_RETURN(record.request, ParseResponse(json));
  ATTNDB_ASSIGN_OR_RETURN(ChatMessages before, MessagesOf(own.value("before", Json())));
  ATTNDB_RETURN_IF_ERROR(TakeConversation(std::move(before), &record.request));
  record.frame.settings = record.request.settings;
  uint64_t created = 0;
  ATTNDB_RETURN_IF_ERROR(ReadCount(own, "created", 0, INT64_MAX, &created));
  record.frame.created = static_cast<int64_t>(created);
  ATTNDB_RETURN_IF_ERROR(ReadString(own, "model", &record.frame.model));
  ATTNDB_RETURN_IF_ERROR(ReadString(own, "reply", &record.reply));
  ATTNDB_RETURN_IF_ERROR(ReadFlag(own, "is_cut", &record.is_cut));
  ATTNDB_RETURN_IF_ERROR(ReadString(own, "status", &record.status));
  record.usage = own.value("usage", Json());
  return record;
}

}  // namespace

std::string RecordFront(const ResponseFrame& frame, const ResponseRequest& request,
                        const ChatMessages& before) {
  Json json = frame.settings;
  json["input"] = request.input;
  json[kOwnMember] = Json{{"version", kRecordVersion},
                          {"model", frame.model},
                          {"created", frame.created},
                          {"before", JsonOfMessages(before)}};
  std::string text = ToText(json);
  text.resize(text.size() - 2);  // The ends of both objects.
  return text;
}

std::string RecordEnd(const ResponseRecord& record) {
  const Json more = {{"reply", record.reply},
                     {"is_cut", record.is_cut},
                     {"status", record.status},
                     {"usage", record.usage}};
  return "," + ToText(more).substr(1) + "}";
}

Result<ResponseRecord> ParseRecord(const std::string& context, const std::string& note) {
  const Status none = Status::NotFound("no response is stored here");
  const Result<Json> json = ParseJson(note, kWideFields);
  if (!json.ok()) return none;
  Result<ResponseRecord> record = ReadRecord(*json);
  if (!record.ok()) return none;
  record->frame.context = context;
  return record;
}

void CountReasoning(uint64_t num_tokens, ResponseRecord* record) {
  Json& usage = record->usage;
  if (!usage.is_object() || !usage.contains("output_tokens_details")) return;
  Json& counted = usage["output_tokens_details"]["reasoning_tokens"];
  if (counted == 0) counted = std::min(num_tokens, usage.value("output_tokens", num_tokens));
}

llama::ChatMessage MessageOf(const llama::ReadReply& reply) {
  AssistantDraft draft = {.text = reply.content};
  if (!reply.reasoning.empty()) draft.reasoning = reply.reasoning;
  for (const llama::ReadCall& call : reply.calls) {
    draft.calls.push_back(ToolCallJson(call.id, call.name, call.arguments));
  }
  return std::move(draft).ToMessage();
}

}  // namespace attndb::server
