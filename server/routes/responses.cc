#include "server/routes/responses.h"

#include <memory>
#include <string_view>
#include <utility>

#include "attndb/context_name.h"
#include "server/batch/turn_id.h"
#include "server/chat/reply_reader.h"
#include "server/clock.h"
#include "server/openai/error.h"
#include "server/responses/response_answer.h"
#include "server/responses/response_record.h"
#include "server/routes/text_call.h"

namespace attndb::server {
namespace {

constexpr std::string_view kInputItems = "/input_items";

Status NoResponse(const std::string& id) {
  return Status::NotFound("there is no response " + Shown(id));
}

// The context of a response; empty: no response has this id.
std::string ContextOfId(const std::string& id) {
  const std::string context = ContextOfResponse(id).value_or("");
  return IsTurnId(context) ? context : std::string();
}

// Whether the context is of another model than the server's. The store compares models, for their
// fingerprints alone don't decide it.
bool IsOfAnotherModel(const Service& service, const DB& db, const ContextInfo& info) {
  const ModelSpec& spec = service.engine->spec();
  if (info.fingerprint == spec.fingerprint) return false;
  const std::vector<TokenId> any = {0};
  const Status status = db.CreateSession(spec, any, {.context = IdName(info.id)}).status();
  return status.code() == StatusCode::kOtherModel;
}

// A response that is stored. Those of other tenants and other models are as if there were none.
Result<ResponseRecord> RecordOf(const Service& service, const std::string& tenant,
                                const std::string& id) {
  const std::string context = ContextOfId(id);
  if (context.empty()) return NoResponse(id);
  ATTNDB_ASSIGN_OR_RETURN(const DB db, service.conversations->HandleOf(tenant));
  const Result<ContextInfo> info = db.Describe(context);
  if (info.ok() && info->expired) return NoResponse(id);
  if (info.ok() && IsOfAnotherModel(service, db, *info)) return NoResponse(id);
  const Result<std::string> note = db.Note(context);
  if (note.status().code() == StatusCode::kNotFound) return NoResponse(id);
  ATTNDB_RETURN_IF_ERROR(note.status());
  Result<ResponseRecord> record = ParseRecord(context, *note);
  if (!record.ok()) return NoResponse(id);
  PrepareChat(service, &record->request.text);
  return record;
}

// The reply of a stored response, read as it was when it came.
Result<llama::ReadReply> ReplyOf(const Service& service, const ResponseRecord& record) {
  const TextRequest& text = record.request.text;
  ATTNDB_ASSIGN_OR_RETURN(const llama::RenderedPrompt prompt,
                          service.engine->Render(text.messages, text.chat));
  Result<llama::ReadReply> reply =
      service.engine->ReadReplyText(prompt.form, record.reply, record.is_cut);
  // A reply without the form of the model's replies is content, as the client got it.
  if (reply.status().code() == StatusCode::kInvalidArgument) {
    reply = llama::ReadReply{.content = record.reply};
  }
  if (reply.ok()) NameCalls(record.frame.context, &*reply);
  return reply;
}

// Returns the conversation of a response, and its reply.
Result<ChatMessages> MessagesOfResponse(const Service& service, const std::string& tenant,
                                        const std::string& id) {
  ATTNDB_ASSIGN_OR_RETURN(ResponseRecord record, RecordOf(service, tenant, id));
  ATTNDB_ASSIGN_OR_RETURN(const llama::ReadReply reply, ReplyOf(service, record));
  ChatMessages messages = std::move(record.request.conversation);
  messages.push_back(MessageOf(reply));
  return messages;
}

// Returns what the messages of the previous response are. An empty id: there is none.
Result<ChatMessages> MessagesBefore(const Service& service, const std::string& tenant,
                                    const std::string& previous_id) {
  if (previous_id.empty()) return ChatMessages();
  return MessagesOfResponse(service, tenant, previous_id);
}

// One request on its way: what its parser, its writer and its note share.
struct AskedResponse {
  ResponseFrame frame;
  // The note's beginning. It is long, and the note is made on the scheduler's thread. Empty: the
  // response is not stored.
  std::string front;
};

Result<TextRequest> ParseAsked(const Service& service, const std::string& tenant, const Json& body,
                               AskedResponse* asked) {
  ATTNDB_ASSIGN_OR_RETURN(ResponseRequest request, ParseResponse(body));
  ATTNDB_ASSIGN_OR_RETURN(const ChatMessages before,
                          MessagesBefore(service, tenant, request.previous_id));
  ATTNDB_RETURN_IF_ERROR(TakeConversation(before, &request));
  asked->frame = {.context = "",
                  .model = service.options.model_id,
                  .created = NowSeconds(),
                  .settings = request.settings};
  if (request.store) asked->front = RecordFront(asked->frame, request, before);
  return std::move(request.text);
}

TextInterface InterfaceOf(const Service* service, const std::string& tenant) {
  const auto asked = std::make_shared<AskedResponse>();
  TextInterface interface;
  interface.parse = [service, tenant, asked](const Json& body) {
    return ParseAsked(*service, tenant, body, asked.get());
  };
  // A response that was just answered is not stored yet.
  interface.before = [](const Json& body) { return ContextOfId(PreviousIdIn(body)); };
  interface.writer = [asked](Service* /*service*/, const Call& call, const TextRequest& text) {
    return std::make_shared<ResponseAnswer>(call.responder, asked->frame, text.stream);
  };
  interface.call_id = CallIdOf;
  interface.note = [asked](const TurnStart& start, const TurnEnd& end, const std::string& reply) {
    if (asked->front.empty()) return std::string();
    ResponseRecord record;
    record.reply = reply;
    record.is_cut = IsCut(end);
    record.status = StatusOf(end);
    record.usage = ResponseUsage(start, end);
    std::string text = asked->front + RecordEnd(record);
    return text.size() <= StoreOptions::kMaxNoteBytes ? text : std::string();
  };
  return interface;
}

// Deletes the response, and the context that it is.
Result<Json> DeleteResponse(const Service& service, const std::string& tenant,
                            const std::string& id) {
  ATTNDB_RETURN_IF_ERROR(RecordOf(service, tenant, id).status());
  ATTNDB_RETURN_IF_ERROR(service.conversations->Drop(tenant, ContextOfId(id)));
  return Json{{"id", id}, {"object", "response"}, {"deleted", true}};
}

Result<Json> GetResponse(const Service& service, const std::string& tenant, const std::string& id) {
  ATTNDB_ASSIGN_OR_RETURN(ResponseRecord record, RecordOf(service, tenant, id));
  ATTNDB_ASSIGN_OR_RETURN(const llama::ReadReply reply, ReplyOf(service, record));
  if (!reply.reasoning.empty()) {
    CountReasoning(NumTokens(*service.engine, reply.reasoning), &record);
  }
  const char* const status = record.status == kIncomplete ? kIncomplete : kCompleted;
  return ResponseJson(record.frame, status, OutputOf(reply, record.frame.context, status),
                      record.usage);
}

Result<Json> InputItems(const Service& service, const std::string& tenant, const std::string& id) {
  ATTNDB_ASSIGN_OR_RETURN(const ResponseRecord record, RecordOf(service, tenant, id));
  Json data = Json::array();
  for (const Json& item : record.request.input) {
    Json named = {{"id", "in_" + record.frame.context + "_" + std::to_string(data.size())}};
    named.update(item);
    if (!named.contains("type")) named["type"] = "message";
    data.push_back(std::move(named));
  }
  const Json first = data.empty() ? Json() : data.front()["id"];
  const Json last = data.empty() ? Json() : data.back()["id"];
  return Json{{"object", "list"},
              {"data", std::move(data)},
              {"first_id", first},
              {"last_id", last},
              {"has_more", false}};
}

}  // namespace

Result<ChatMessages> ConversationOf(const Service& service, const std::string& tenant,
                                    const std::string& context) {
  return MessagesOfResponse(service, tenant, ResponseIdOf(context));
}

Result<ChatMessages> ConversationOfResponse(const Service& service, const std::string& tenant,
                                            const std::string& id) {
  return MessagesOfResponse(service, tenant, id);
}

void AnswerResponses(Service* service, Call call) {
  TextInterface interface = InterfaceOf(service, call.rules.tenant);
  AnswerText(service, std::move(call), std::move(interface));
}

void AnswerResponse(Service* service, Call call, const std::string& rest) {
  const bool is_list = rest.ends_with(kInputItems);
  const std::string id = is_list ? rest.substr(0, rest.size() - kInputItems.size()) : rest;
  const auto answer = [service, call, id, is_list] {
    const std::string& tenant = call.rules.tenant;
    if (call.method == "DELETE")
      return AnswerCall(service, call, DeleteResponse(*service, tenant, id));
    AnswerCall(service, call,
               is_list ? InputItems(*service, tenant, id) : GetResponse(*service, tenant, id));
  };
  service->run_later(
      call, [service, call, id, answer] { RunWhenStored(service, call, ContextOfId(id), answer); });
}

}  // namespace attndb::server
