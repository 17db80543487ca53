#include "cli/client/server_client.h"

#include <optional>
#include <utility>

#include "cli/client/context_json.h"
#include "cli/common/exit_code.h"
#include "cli/common/interrupt.h"
#include "engines/llama/utf8_bytes.h"
#include "server/http/event_reader.h"
#include "server/json.h"

namespace attndb::cli {
namespace {

constexpr std::string_view kDone = "[DONE]";
constexpr size_t kMaxShownBytes = 1000;  // The most bytes of an error's text.
constexpr int kHttpOk = 200;
constexpr int kUnauthorized = 401;

// The meaning of an HTTP status without a code of the server, for example from a proxy.
StatusCode CodeOfHttp(int http_status) {
  constexpr int kNotFound = 404;
  constexpr int kConflict = 409;
  constexpr int kTooMany = 429;
  constexpr int kFirstOfServer = 500;
  constexpr int kNotImplemented = 501;
  constexpr int kUnavailable = 503;
  constexpr int kNoRoom = 507;
  switch (http_status) {
    case kNotFound:
      return StatusCode::kNotFound;
    case kConflict:
      return StatusCode::kFailedPrecondition;
    case kTooMany:
    case kNoRoom:
    case kUnavailable:
      return StatusCode::kResourceExhausted;
    case kNotImplemented:
      return StatusCode::kUnsupported;
    default:
      return http_status >= kFirstOfServer ? StatusCode::kIoError : StatusCode::kInvalidArgument;
  }
}

Status StatusOfError(int http_status, const Json& error) {
  const Json* const message = error.is_object() ? server::FindMember(error, "message") : nullptr;
  const Json* const name = error.is_object() ? server::FindMember(error, "status") : nullptr;
  std::optional<StatusCode> code;
  if (name != nullptr && name->is_string()) code = CodeNamed(name->get_ref<const std::string&>());
  const std::string text = message != nullptr && message->is_string()
                               ? message->get<std::string>()
                               : "the server answers with status " + std::to_string(http_status);
  return Status(code.value_or(CodeOfHttp(http_status)),
                Printable(llama::FirstUtf8Bytes(text, kMaxShownBytes)));
}

Result<Json> ParseAnswer(std::string_view body) {
  Result<Json> json = server::ParseJson(body);
  if (json.ok()) return json;
  return Status::IoError("the server's answer can't be read: " +
                         Printable(json.status().message()));
}

}  // namespace

std::string ContextPath(const std::string& context) {
  return std::string(kContextsPath) + "/" + server::EscapeForPath(context);
}

std::string Printable(std::string_view text) {
  std::string printable(text);
  for (size_t i = 0; i < printable.size(); ++i) {
    const auto byte = static_cast<unsigned char>(printable[i]);
    // U+0080 to U+009F are controls, too.
    const bool is_c1 = byte >= 0x80 && byte < 0xA0 && i > 0 && printable[i - 1] == '\xC2';
    if (is_c1) printable[i - 1] = '?';
    if (byte < ' ' || byte == 0x7f || is_c1) printable[i] = '?';
  }
  return printable;
}

Status StatusOfAnswer(int http_status, std::string_view body) {
  const Result<Json> json = server::ParseJson(body);
  const Json* const error =
      json.ok() && json->is_object() ? server::FindMember(*json, "error") : nullptr;
  return StatusOfError(http_status, error == nullptr ? Json() : *error);
}

Result<ServerClient> ServerClient::Connect(Environment* env) {
  server::ClientOptions options;
  options.url = env->server();
  options.key = EnvironmentText("ATTNDB_KEY");
  options.stops = Interrupted;
  ATTNDB_ASSIGN_OR_RETURN(auto client, server::Client::Make(std::move(options)));
  return ServerClient(env, std::move(client));
}

Status ServerClient::WithAdvice(int http_status, Status status) const {
  if (http_status != kUnauthorized) return status;
  return env_->WithAdvice(std::move(status), "ATTNDB_KEY is where the command line has its key");
}

Status ServerClient::Unreached(Status status) const {
  if (status.code() != StatusCode::kIoError) return status;
  return env_->WithAdvice(std::move(status),
                          "is 'attndb serve' running there? --server or ATTNDB_URL says where");
}

Result<Json> ServerClient::Ask(const std::string& method, const std::string& path,
                               const Json& body) const {
  server::ClientRequest request = {.method = method, .path = path};
  if (!body.is_null()) request.body = Dump(body);
  const Result<server::ClientAnswer> answer = client_->Send(request);
  if (!answer.ok()) return Unreached(answer.status());
  if (answer->status == kHttpOk) return ParseAnswer(answer->body);
  return WithAdvice(answer->status, StatusOfAnswer(answer->status, answer->body));
}

Result<ServerClient::Headers> ServerClient::Stream(
    const std::string& path, const Json& body,
    const std::function<Status(const Json&)>& on_event) const {
  server::EventReader reader;
  bool done = false;
  Status status;
  const auto take = [&](std::string_view data) {
    if (done) return Status::Ok();
    done = data == kDone;
    if (done) return Status::Ok();
    ATTNDB_ASSIGN_OR_RETURN(const Json event, ParseAnswer(data));
    if (!event.is_object()) return Status::IoError("the server sent an event that is no object");
    const Json* const error = server::FindMember(event, "error");
    return error == nullptr ? on_event(event) : StatusOfError(kHttpOk, *error);
  };
  server::ClientRequest request = {.method = "POST", .path = path, .body = Dump(body)};
  request.on_piece = [&](std::string_view piece) {
    status = reader.Take(piece, take);
    return status.ok();
  };
  const Result<server::ClientAnswer> answer = client_->Send(request);
  ATTNDB_RETURN_IF_ERROR(status);
  if (!answer.ok()) return Unreached(answer.status());
  if (answer->status != kHttpOk) {
    return WithAdvice(answer->status, StatusOfAnswer(answer->status, answer->body));
  }
  if (!done) return Status::IoError("the server's answer ended before its end");
  return answer->headers;
}

Result<Json> ServerClient::StreamProgress(const std::string& path, const Json& body,
                                          ProgressLine* progress) const {
  Json answer = Json::object();
  const auto on_event = [&](const Json& event) -> Status {
    if (server::FindMember(event, "done") == nullptr) {
      answer = event;
      return Status::Ok();
    }
    ATTNDB_ASSIGN_OR_RETURN(const uint64_t num_done, CountFromJson(event, "done"));
    ATTNDB_ASSIGN_OR_RETURN(const uint64_t num_in_all, CountFromJson(event, "total"));
    progress->Update(num_done, num_in_all);
    return Status::Ok();
  };
  const Result<Headers> headers = Stream(path, body, on_event);
  progress->Clear();
  ATTNDB_RETURN_IF_ERROR(headers.status());
  return answer;
}

}  // namespace attndb::cli
