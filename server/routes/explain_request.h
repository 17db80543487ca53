// What POST /attndb/v1/explain is asked, in each of its three forms.
//
// Errors:  kInvalidArgument with the field, what was expected and what was found.
// Threads: stateless.
#ifndef ATTNDB_SERVER_ROUTES_EXPLAIN_REQUEST_H_
#define ATTNDB_SERVER_ROUTES_EXPLAIN_REQUEST_H_

#include <cstdint>
#include <functional>
#include <string>

#include "attndb/result.h"
#include "server/json.h"
#include "server/openai/text_request.h"
#include "server/responses/items.h"

namespace attndb::server {

inline constexpr uint64_t kMaxWeighedTokens = uint64_t{1} << 16;
inline constexpr uint64_t kMaxListedTokens = 1024;

// {"messages": [...], "context": NAME, "plan": PLAN, "token": 0, "top": 32}: a chat. With
// "interface": "messages" or "responses" it is a body of Anthropic's Messages or of OpenAI's
// Responses, and these fields beside it.
struct ExplainRequest {
  TextRequest text;
  uint64_t token = 0;  // One of the reply's.
  uint64_t num_listed = 32;
};
// `before`: gives the conversation of the response with this id. It is called if the body names
// one. Errors: also its.
using ConversationBefore = std::function<Result<ChatMessages>(const std::string& response_id)>;
Result<ExplainRequest> ParseExplain(const Json& body, const ConversationBefore& before);

// {"context": NAME, "plan": PLAN}: a stored context. Of the request its context and plan count.
Result<TextRequest> ParseExplainContext(const Json& body);

// {"text": TEXT, "system": TEXT, "raw": false, "context": NAME}: what of a text is stored.
// {"prompt_of": NAME, "context": NAME}: the same of what a context holds.
struct ExplainTextRequest {
  std::string text;
  std::string prompt_of;
  std::string system;
  std::string context;
  bool raw = false;
};
Result<ExplainTextRequest> ParseExplainText(const Json& body);

}  // namespace attndb::server

#endif  // ATTNDB_SERVER_ROUTES_EXPLAIN_REQUEST_H_
