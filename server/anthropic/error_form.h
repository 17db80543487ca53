// Errors as clients of Anthropic's interface know them:
// {"type": "error", "error": {"type", "message"}, "request_id"}.
//
// Threads: stateless.
#ifndef ATTNDB_SERVER_ANTHROPIC_ERROR_FORM_H_
#define ATTNDB_SERVER_ANTHROPIC_ERROR_FORM_H_

#include <string>
#include <string_view>

#include "attndb/status.h"

namespace attndb::server {

// Whether the routes of this path answer in this form. `path`: without the query.
bool IsOfAnthropic(std::string_view path);

// The body of an answer with this status. `request_id`: empty if the request has none.
std::string AnthropicError(int http_status, const std::string& message,
                           const std::string& request_id);

// An error in a stream that has begun.
std::string AnthropicErrorEvent(const Status& status, const std::string& request_id);

}  // namespace attndb::server

#endif  // ATTNDB_SERVER_ANTHROPIC_ERROR_FORM_H_
