#include "server/routes/explain_request.h"

namespace attndb::server {

Result<ExplainRequest> ParseExplain(const Json& body) {
  if (!body.is_object()) return Status::InvalidArgument("the body is no JSON object");
  ExplainRequest request;
  Json asked = body;
  asked["continue_final_message"] = false;  // A last reply is what is explained.
  ATTNDB_ASSIGN_OR_RETURN(request.text, ParseChat(asked));
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
