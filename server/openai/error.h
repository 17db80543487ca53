// Errors as clients of OpenAI's interface know them: {"error": {"message", "type", "code", ...}}.
#ifndef ATTNDB_SERVER_OPENAI_ERROR_H_
#define ATTNDB_SERVER_OPENAI_ERROR_H_

#include <string>

#include "attndb/status.h"
#include "server/http/exchange.h"
#include "server/json.h"

namespace attndb::server {

// The HTTP status that says what the status says.
int HttpStatusOf(const Status& status);
// The same of a store, where what lacks is room: 507, without Retry-After, since waiting makes
// none.
int HttpStatusOfStore(const Status& status);

Json ErrorJson(int http_status, const std::string& message);
// Also with the code itself, as StatusCodeName writes it: "status".
Json ErrorJson(const Status& status);
Json ErrorJson(int http_status, const Status& status);
Response ErrorResponse(int http_status, const std::string& message);
Response ErrorResponse(const Status& status);
// With another status of HTTP than the code alone says.
Response ErrorResponse(int http_status, const Status& status);

}  // namespace attndb::server

#endif  // ATTNDB_SERVER_OPENAI_ERROR_H_
