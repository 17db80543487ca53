#include "server/openai/error.h"

namespace attndb::server {
namespace {

const char* TypeOf(int http_status) {
  switch (http_status) {
    case 401:
      return "authentication_error";
    case 403:
      return "permission_error";
    case 404:
      return "not_found_error";
    case 429:
      return "rate_limit_error";
    case 503:
      return "unavailable_error";
    default:
      return http_status < 500 ? "invalid_request_error" : "server_error";
  }
}

}  // namespace

int HttpStatusOf(const Status& status) {
  switch (status.code()) {
    case StatusCode::kOk:
      return 200;
    case StatusCode::kInvalidArgument:
    case StatusCode::kUnsupported:
      return 400;
    case StatusCode::kNotFound:
      return 404;
    case StatusCode::kAlreadyExists:
    case StatusCode::kFailedPrecondition:
    case StatusCode::kOtherModel:
      return 409;
    case StatusCode::kReadOnly:
      return 403;
    case StatusCode::kResourceExhausted:
    case StatusCode::kBusy:
    case StatusCode::kCancelled:
      return 503;
    case StatusCode::kCorruption:
    case StatusCode::kIoError:
    case StatusCode::kInternal:
      return 500;
  }
  return 500;
}

int HttpStatusOfStore(const Status& status) {
  constexpr int kInsufficientStorage = 507;
  const bool lacks_room = status.code() == StatusCode::kResourceExhausted;
  return lacks_room ? kInsufficientStorage : HttpStatusOf(status);
}

Json ErrorJson(int http_status, const std::string& message) {
  return {{"error",
           {{"message", message},
            {"type", TypeOf(http_status)},
            {"param", nullptr},
            {"code", http_status}}}};
}

Json ErrorJson(int http_status, const Status& status) {
  Json json = ErrorJson(http_status, status.message());
  json["error"]["status"] = StatusCodeName(status.code());
  return json;
}

Json ErrorJson(const Status& status) { return ErrorJson(HttpStatusOf(status), status); }

Response ErrorResponse(int http_status, const std::string& message) {
  Response response = {
      .status = http_status, .body = ToText(ErrorJson(http_status, message)), .error = message};
  if (http_status == 503) response.headers.emplace_back("Retry-After", "1");
  if (http_status == 401) response.headers.emplace_back("WWW-Authenticate", "Bearer");
  return response;
}

Response ErrorResponse(const Status& status) { return ErrorResponse(HttpStatusOf(status), status); }

Response ErrorResponse(int http_status, const Status& status) {
  Response response = ErrorResponse(http_status, status.message());
  response.body = ToText(ErrorJson(http_status, status));
  return response;
}

}  // namespace attndb::server
