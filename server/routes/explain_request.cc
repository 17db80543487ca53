#include "server/routes/explain_request.h"

#include <utility>

#include "server/anthropic/message_request.h"
#include "server/responses/response_request.h"

namespace attndb::server {
namespace {

// A last reply is what is explained.
Result<TextRequest> ParseAsChat(const Json& body) {
  Json asked = body;
  asked["continue_final_message"] = false;
  return ParseChat(asked);
}

Result<TextRequest> ParseAsResponse(const Json& body, const ConversationBefore& before) {
  ATTNDB_ASSIGN_OR_RETURN(ResponseRequest request, ParseResponse(body));
  ChatMessages messages;
  if (!request.previous_id.empty()) {
    ATTNDB_ASSIGN_OR_RETURN(messages, before(request.previous_id));
  }
  ATTNDB_RETURN_IF_ERROR(TakeConversation(std::move(messages), &request));
  return std::move(request.text);
}

Result<TextRequest> ParseByInterface(const Json& body, const ConversationBefore& before) {
  std::string interface = "chat";
  ATTNDB_RETURN_IF_ERROR(ReadString(body, "interface", &interface));
  if (interface == "chat") return ParseAsChat(body);
  if (interface != "messages" && interface != "responses") {
    return WrongValue("interface", "chat, messages or responses", Json(interface));
  }
  ATTNDB_ASSIGN_OR_RETURN(TextRequest text, interface == "messages"
                                                ? ParseTokenCount(body)
                                                : ParseAsResponse(body, before));
  text.chat.continues_last = false;
  ATTNDB_RETURN_IF_ERROR(ReadString(body, "context", &text.context));
  ATTNDB_RETURN_IF_ERROR(ReadString(body, "plan", &text.plan));
  return text;
}

}  // namespace

Result<ExplainRequest> ParseExplain(const Json& body, const ConversationBefore& before) {
  if (!body.is_object()) return Status::InvalidArgument("the body is no JSON object");
  ExplainRequest request;
  ATTNDB_ASSIGN_OR_RETURN(request.text, ParseByInterface(body, before));
  if (request.text.num_choices > 1) return WrongValue("n", "1", Json(request.text.num_choices));
  if (request.text.edits == Edits::kCut) return WrongValue("edits", "\"exact\"", Json("cut"));
  if (!request.text.sources.empty()) {
    return Status::InvalidArgument("'contexts', 'tokens' and 'find' can't be explained");
  }
  ATTNDB_RETURN_IF_ERROR(ReadCount(body, "token", 0, kMaxWeighedTokens, &request.token));
  ATTNDB_RETURN_IF_ERROR(ReadCount(body, "top", 1, kMaxListedTokens, &request.num_listed));
  return request;
}

Result<TextRequest> ParseExplainContext(const Json& body) {
  if (!body.is_object()) return Status::InvalidArgument("the body is no JSON object");
  Json asked = body;
  asked["messages"] = Json::array({{{"role", "user"}, {"content", ""}}});
  return ParseChat(asked);
}

Result<ExplainTextRequest> ParseExplainText(const Json& body) {
  ExplainTextRequest request;
  ATTNDB_RETURN_IF_ERROR(ReadString(body, "text", &request.text));
  ATTNDB_RETURN_IF_ERROR(ReadString(body, "prompt_of", &request.prompt_of));
  if (!request.text.empty() && !request.prompt_of.empty()) {
    return Status::InvalidArgument("'text' and 'prompt_of' exclude each other");
  }
  ATTNDB_RETURN_IF_ERROR(ReadString(body, "system", &request.system));
  ATTNDB_RETURN_IF_ERROR(ReadFlag(body, "raw", &request.raw));
  ATTNDB_RETURN_IF_ERROR(ReadString(body, "context", &request.context));
  return request;
}

}  // namespace attndb::server
