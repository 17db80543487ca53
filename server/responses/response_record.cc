#include "server/responses/response_record.h"

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

std::string RecordText(const ResponseRecord& record, const ChatMessages& before) {
  Json json = record.frame.settings;
  json["input"] = record.request.input;
  json[kOwnMember] = Json{{"version", kRecordVersion},       {"model", record.frame.model},
                          {"created", record.frame.created}, {"before", JsonOfMessages(before)},
                          {"reply", record.reply},           {"is_cut", record.is_cut},
                          {"status", record.status},         {"usage", record.usage}};
  return ToText(json);
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

llama::ChatMessage MessageOf(const llama::ReadReply& reply) {
  Json more = Json::object();
  if (!reply.reasoning.empty()) more[kReasoning] = reply.reasoning;
  Json calls = Json::array();
  for (const llama::ReadCall& call : reply.calls) {
    Json one = {{"id", call.id},
                {"type", "function"},
                {"function", {{"name", call.name}, {"arguments", call.arguments}}}};
    calls.push_back(std::move(one));
  }
  if (!calls.empty()) more[kToolCalls] = std::move(calls);
  return {"assistant", reply.content, more.empty() ? std::string() : ToText(more)};
}

}  // namespace attndb::server
