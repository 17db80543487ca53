#include "server/routes/progress_answer.h"

#include <string>

#include "server/chat/turn_headers.h"
#include "server/http/event_text.h"
#include "server/openai/error.h"

namespace attndb::server {
namespace {

constexpr int kHttpOk = 200;

std::string EventOf(const Json& json) { return EventText(ToText(json)); }

}  // namespace

void ProgressAnswer::Begin() {
  if (!stream_ || std::exchange(begun_, true)) return;
  call_.responder->Begin(StreamHead({}));
}

void ProgressAnswer::Progress(uint64_t num_done, uint64_t num_in_all) {
  if (!stream_) return;
  Begin();
  call_.responder->Write(EventOf({{"done", num_done}, {"total", num_in_all}}));
}

void ProgressAnswer::Send(const Result<Json>& json, CallEnd end) {
  if (!json.ok() && end.status == kHttpOk) end.status = HttpStatusOf(json.status());
  const int status = end.status;
  if (call_.responder->closed()) end.status = kClientGone;
  NoteEnd(service_, call_, end);
  call_.place.Free();  // Before the client knows, who may ask again at once.
  if (!begun_ && (!stream_ || !json.ok())) {
    call_.responder->Send(json.ok() ? Response{.body = ToText(*json)}
                                    : ErrorResponse(status, json.status()));
    return;
  }
  Begin();
  call_.responder->Write(EventOf(json.ok() ? *json : ErrorJson(status, json.status())) +
                         std::string(json.ok() ? kDoneEvent : ""));
  call_.responder->End();
}

}  // namespace attndb::server
