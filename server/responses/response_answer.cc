#include "server/responses/response_answer.h"

#include "server/chat/turn_headers.h"
#include "server/http/event_text.h"
#include "server/openai/error.h"

namespace attndb::server {

void ResponseAnswer::OnStart(const TurnStart& start) {
  start_ = start;
  frame_.context = start.id;
}

Json ResponseAnswer::Output(const char* last_status) const {
  Json output = Json::array();
  for (size_t i = 0; i < items_.size(); ++i) {
    const bool is_last = i + 1 == items_.size();
    output.push_back(ItemJson(items_[i], frame_.context, i, is_last ? last_status : kCompleted));
  }
  return output;
}

void ResponseAnswer::Write(const std::string& event, Json json) {
  Json typed = {{"type", event}, {"sequence_number", num_sent_++}};
  typed.update(json);
  responder_->Write(EventText(event, ToText(typed)));
}

void ResponseAnswer::WriteResponse(const std::string& event, const Json& response) {
  Write(event, Json{{"response", response}});
}

void ResponseAnswer::WriteOfItem(const std::string& event, Json more) {
  const size_t index = items_.size() - 1;
  Json json = {{"item_id", ItemIdOf(items_.back(), frame_.context, index)},
               {"output_index", index}};
  if (items_.back().kind != Kind::kCall) json["content_index"] = 0;
  json.update(more);
  Write(event, std::move(json));
}

void ResponseAnswer::EnsureBegun() {
  if (std::exchange(begun_, true)) return;
  Response response = StreamHead(TurnHeaders(start_, start_.num_dropped_tokens));
  responder_->Begin(std::move(response));
  const Json begun = ResponseJson(frame_, kInProgress, Json::array(), nullptr);
  WriteResponse("response.created", begun);
  WriteResponse("response.in_progress", begun);
}

void ResponseAnswer::Open(const OutputItem& item) {
  if (is_open_ && items_.back().kind == item.kind && items_.back().call == item.call) return;
  Close(kCompleted);
  is_open_ = true;
  items_.push_back(item);
  if (!stream_) return;
  const size_t index = items_.size() - 1;
  Write(
      "response.output_item.added",
      Json{{"output_index", index}, {"item", ItemJson(item, frame_.context, index, kInProgress)}});
  if (item.kind == Kind::kCall) return;
  WriteOfItem("response.content_part.added", Json{{"part", PartOf(item)}});
}

void ResponseAnswer::Close(const char* status) {
  if (!std::exchange(is_open_, false) || !stream_) return;
  const OutputItem& item = items_.back();
  const size_t index = items_.size() - 1;
  switch (item.kind) {
    case Kind::kThought:
      WriteOfItem("response.reasoning_text.done", Json{{"text", item.text}});
      break;
    case Kind::kMessage:
      WriteOfItem("response.output_text.done",
                  Json{{"text", item.text}, {"logprobs", Json::array()}});
      break;
    case Kind::kCall:
      WriteOfItem("response.function_call_arguments.done",
                  Json{{"name", item.name}, {"arguments", item.text}});
      break;
  }
  if (item.kind != Kind::kCall) {
    WriteOfItem("response.content_part.done", Json{{"part", PartOf(item)}});
  }
  Write("response.output_item.done",
        Json{{"output_index", index}, {"item", ItemJson(item, frame_.context, index, status)}});
}

void ResponseAnswer::Add(const OutputItem& item, const std::string& text) {
  Open(item);
  if (text.empty()) return;
  items_.back().text += text;
  if (!stream_) return;
  switch (item.kind) {
    case Kind::kThought:
      return WriteOfItem("response.reasoning_text.delta", Json{{"delta", text}});
    case Kind::kMessage:
      return WriteOfItem("response.output_text.delta",
                         Json{{"delta", text}, {"logprobs", Json::array()}});
    case Kind::kCall:
      return WriteOfItem("response.function_call_arguments.delta", Json{{"delta", text}});
  }
}

void ResponseAnswer::OnDelta(const ReplyDelta& delta) {
  if (delta.empty()) return;
  if (stream_) EnsureBegun();
  if (!delta.reasoning.empty()) Add({.kind = Kind::kThought}, delta.reasoning);
  if (!delta.content.empty()) Add({.kind = Kind::kMessage}, delta.content);
  for (const CallDelta& call : delta.calls) {
    Add({.kind = Kind::kCall, .call = call.index, .call_id = call.id, .name = call.name},
        call.arguments);
  }
}

void ResponseAnswer::OnEnd(const TurnEnd& end, size_t /*num_calls*/) {
  const char* const status = StatusOf(end);
  if (stream_) EnsureBegun();
  Close(status);
  const Json whole = ResponseJson(frame_, status, Output(status), ResponseUsage(start_, end));
  if (stream_) {
    WriteResponse(std::string("response.") + status, whole);
    return responder_->End();
  }
  responder_->Send({.headers = TurnHeaders(start_, end.num_dropped_tokens), .body = ToText(whole)});
}

void ResponseAnswer::OnError(const Status& status) {
  if (!begun_) return responder_->Send(ErrorResponse(status));
  Json failed = ResponseJson(frame_, "failed", Output(kIncomplete), nullptr);
  failed["error"] = Json{{"code", "server_error"}, {"message", status.message()}};
  WriteResponse("response.failed", failed);
  responder_->End();
}

}  // namespace attndb::server
