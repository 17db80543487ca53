#include "server/routes/contexts.h"

#include <utility>

#include "engines/llama/stored_text.h"
#include "server/batch/edits.h"
#include "server/openai/error.h"
#include "server/routes/store_request.h"

namespace attndb::server {
namespace {

// What clients may know: where this machine has the model is not for them.
Json JsonOf(ContextInfo context) {
  context.model_path.clear();
  return ReadOwnJson(context.ToJson());
}

Result<Json> List(const DB& db) {
  ATTNDB_ASSIGN_OR_RETURN(const std::vector<ContextInfo> contexts, db.List());
  Json list = Json::array();
  for (const ContextInfo& context : contexts) list.push_back(JsonOf(context));
  ATTNDB_ASSIGN_OR_RETURN(const DBStats stats, db.Stats());
  return Json{{"contexts", std::move(list)},
              {"file_bytes", stats.file_bytes},
              {"quota_bytes", stats.quota_bytes}};
}

Result<Json> Describe(const Service& service, const std::string& tenant, const DB& db,
                      const std::string& id) {
  Status error;
  const TurnState state = service.conversations->StateOf(tenant, id, &error);
  Json json = {{"context", id}, {"durable", state == TurnState::kDurable}};
  switch (state) {
    case TurnState::kPending:
      return json;
    case TurnState::kFailed:
      json["error"] = error.message();
      return json;
    case TurnState::kUnknown:
    case TurnState::kDurable:
      break;
  }
  ATTNDB_ASSIGN_OR_RETURN(ContextInfo context, db.Describe(id));
  if (context.damaged) {
    json["durable"] = false;
    json["error"] = "its stored keys and values are damaged or gone: ask again, or import it again";
  }
  json.update(JsonOf(std::move(context)));
  return json;
}

// Returns what the context is called then. The name, which may be taken, comes first: what is
// refused changes nothing.
Result<std::string> Change(const Service& service, const std::string& tenant, const DB& db,
                           const std::string& id, const std::string& body) {
  ATTNDB_ASSIGN_OR_RETURN(const Json json, ParseJson(body));
  ATTNDB_ASSIGN_OR_RETURN(const ContextChange change, ParseChange(json));
  if (change.name) {
    ATTNDB_RETURN_IF_ERROR(service.conversations->Rename(tenant, id, *change.name));
  }
  const std::string name = change.name.value_or(id);
  if (change.pinned) ATTNDB_RETURN_IF_ERROR(db.Pin(name, *change.pinned));
  if (change.sets_ttl) ATTNDB_RETURN_IF_ERROR(db.SetTtl(name, change.ttl));
  return name;
}

// Making a text takes well under a second: one look at the client, who may have waited for long, is
// enough.
Result<Json> Text(const Service& service, const Call& call) {
  ATTNDB_RETURN_IF_ERROR(CheckAwaited(service, call));
  ATTNDB_ASSIGN_OR_RETURN(const Json body, ParseJson(call.request->body));
  ATTNDB_ASSIGN_OR_RETURN(const StoredTextRequest request, ParseStoredText(body));
  Json json = {{"context", request.context}};
  const std::string& tenant = call.rules.tenant;
  if (const auto unstored = service.conversations->UnstoredText(tenant, request.context)) {
    json["num_tokens"] = unstored->tokens.size();
    const std::vector<TokenId> tokens = Without(unstored->tokens, unstored->left_out);
    ATTNDB_ASSIGN_OR_RETURN(json["text"], service.engine->Detokenize(tokens, request.special));
    return json;
  }
  ATTNDB_ASSIGN_OR_RETURN(const DB db, service.conversations->HandleOf(tenant));
  ATTNDB_ASSIGN_OR_RETURN(const llama::StoredText stored,
                          llama::TextOf(*service.engine, db, request.context, request.special));
  json["num_tokens"] = stored.num_tokens;
  json["text"] = stored.text;
  return json;
}

Result<Json> Perform(const Service& service, const Call& call, const std::string& id) {
  const std::string& tenant = call.rules.tenant;
  ATTNDB_ASSIGN_OR_RETURN(const DB db, service.conversations->HandleOf(tenant));
  if (id.empty()) return List(db);
  const std::string& method = call.request->method;
  if (method == "DELETE") {
    ATTNDB_RETURN_IF_ERROR(service.conversations->Drop(tenant, id));
    return Json{{"context", id}, {"deleted", true}};
  }
  if (method != "POST") return Describe(service, tenant, db, id);
  ATTNDB_ASSIGN_OR_RETURN(const std::string name,
                          Change(service, tenant, db, id, call.request->body));
  return Describe(service, tenant, db, name);
}

// A turn that was answered and could not be stored has a name all the same.
Result<Json> AnswerTo(const Service& service, const Call& call, const std::string& id) {
  Result<Json> json = Perform(service, call, id);
  if (json.status().code() != StatusCode::kNotFound) return json;
  const Status stored = service.conversations->WaitFor(call.rules.tenant, id);
  if (stored.ok()) return json;
  return stored.WithContext("'" + id + "' could not be stored");
}

}  // namespace

void AnswerContext(Service* service, Call call, const std::string& id) {
  const auto answer = [service, call, id] {
    const Result<Json> json = AnswerTo(*service, call, id);
    if (json.ok()) return AnswerCall(service, call, json);
    AnswerCall(service, call, ErrorResponse(HttpStatusOfStore(json.status()), json.status()));
  };
  const bool changes = call.request->method == "POST" || call.request->method == "DELETE";
  service->run_later(call, [service, call, id, changes, answer] {
    if (!changes) return answer();
    RunWhenStored(service, call, id, answer);
  });
}

void AnswerStoredText(Service* service, Call call) { AnswerLater(service, call, Text); }

void AnswerContexts(Service* service, Call call) { AnswerContext(service, std::move(call), ""); }

}  // namespace attndb::server
