#include "server/anthropic/error_form.h"

#include "server/http/event_text.h"
#include "server/json.h"
#include "server/openai/error.h"

namespace attndb::server {
namespace {

constexpr std::string_view kMessages = "/v1/messages";

const char* AnthropicTypeOf(int http_status) {
  switch (http_status) {
    case 401:
      return "authentication_error";
    case 403:
      return "permission_error";
    case 404:
      return "not_found_error";
    case 409:
      return "conflict_error";
    case 408:
      return "timeout_error";
    case 413:
      return "request_too_large";
    case 429:
      return "rate_limit_error";
    case 503:
      return "overloaded_error";
    default:
      return http_status < 500 ? "invalid_request_error" : "api_error";
  }
}

}  // namespace

bool IsOfAnthropic(std::string_view path) {
  if (!path.starts_with(kMessages)) return false;
  return path.size() == kMessages.size() || path[kMessages.size()] == '/';
}

std::string AnthropicError(int http_status, const std::string& message,
                           const std::string& request_id) {
  const Json id = request_id.empty() ? Json() : Json(request_id);
  return ToText({{"type", "error"},
                 {"error", {{"type", AnthropicTypeOf(http_status)}, {"message", message}}},
                 {"request_id", id}});
}

std::string AnthropicErrorEvent(const Status& status, const std::string& request_id) {
  return EventText("error", AnthropicError(HttpStatusOf(status), status.message(), request_id));
}

}  // namespace attndb::server
