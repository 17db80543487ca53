#include "server/routes/progress_answer.h"

#include <string>

#include "server/openai/error.h"

namespace attndb::server {
namespace {

std::string EventOf(const Json& json) { return "data: " + ToText(json) + "\n\n"; }

}  // namespace

void ProgressAnswer::Progress(uint64_t num_done, uint64_t num_in_all) {
  if (!stream_) return;
  const std::string event = EventOf({{"done", num_done}, {"total", num_in_all}});
  if (std::exchange(begun_, true)) return call_.responder->Write(event);
  call_.responder->Begin({.content_type = "text/event-stream",
                          .headers = {{"Cache-Control", "no-cache"}, {"X-Accel-Buffering", "no"}},
                          .body = event});
}

void ProgressAnswer::Send(const Result<Json>& json, CallEnd end) {
  end.status = json.ok() ? 200 : HttpStatusOf(json.status());
  NoteEnd(service_, call_, end);
  call_.place.reset();  // Before the client knows, who may ask again at once.
  if (!begun_ && (!stream_ || !json.ok())) {
    call_.responder->Send(json.ok() ? Response{.body = ToText(*json)}
                                    : ErrorResponse(json.status()));
    return;
  }
  const std::string event = EventOf(json.ok() ? *json : ErrorJson(json.status()));
  const std::string last = event + (json.ok() ? "data: [DONE]\n\n" : "");
  if (begun_) {
    call_.responder->Write(last);
  } else {
    call_.responder->Begin({.content_type = "text/event-stream", .body = last});
  }
  call_.responder->End();
}

}  // namespace attndb::server
